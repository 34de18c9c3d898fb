//! The network of a deployment: bindings, contexts, claims and subnets (contract: cell.md §10).
//!
//! The deployment controller writes these objects. It also removes the gate `Network` from the Instances of the deployment once the
//! state is [`NetworkState::Ready`] (`location_and_gate` in `deployment/decide.rs`). The Instance controller removes the other gates.

#[cfg(test)]
mod tests;

use crate::{
    index::{
        CellIndex,
        digest::{self, Binding, INTERFACE, InstanceDigest},
        tables::TableId,
    },
    reason::WriteReason,
    writes::{controlled_by, create, delete},
};
use fedgate_api::{LocationReference, NetworkReference, Reason, names::short_hash};
use fedgate_engine::{plan::Effect, store::table::Row};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The network of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Writes for its objects.
    pub writes: Vec<Effect>,
    /// State of the network.
    pub state: NetworkState,
}

/// State of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkState {
    /// Everything is ready.
    Ready,
    /// Something is in progress.
    Pending,
    /// Someone has to act; the text says why.
    Refused(String),
}

/// API version of the networking objects.
const API_VERSION: &str = "networking.datumapis.com/v1alpha";
/// The class of the subnets that are claimed.
const CLASS: &str = "private";

/// The network of a deployment; `None` if networking is off, the cell's location is unknown, or the spec of the deployment
/// cannot be read.
pub fn of_deployment(
    index: &CellIndex,
    namespace: &str,
    name: &str,
    row: &Row<digest::Deployment>,
) -> Option<Network> {
    let spec = row
        .digest
        .spec
        .as_ref()
        .ok()
        .filter(|_| index.settings.networking)?;
    let located = index.located();
    let deployment = Deployment {
        index,
        namespace,
        name,
        uid: &row.uid,
        networks: &spec.networks,
        location: located.reference()?,
    };
    Some(deployment.decide())
}

/// The network part of a deployment, and the objects of the cell.
struct Deployment<'a> {
    index: &'a CellIndex,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    /// The networks of its template's interfaces, in order.
    networks: &'a [NetworkReference],
    /// The cell's location.
    location: &'a LocationReference,
}

/// State of an interface's binding.
enum Slot<'a> {
    /// The binding exists.
    Bound(&'a Row<Binding>),
    /// The binding is to be created under this name.
    Missing(String),
    /// Another object has this name.
    NameTaken(String),
    /// The binding is being deleted, or other bindings of the deployment have both names.
    Terminating,
}

impl<'a> Deployment<'a> {
    fn decide(&self) -> Network {
        let (mut writes, mut bound, mut refused) = (Vec::new(), Vec::new(), None);
        for (interface, network) in self.networks.iter().enumerate() {
            match self.slot(interface, network) {
                Slot::Missing(name) => writes.push(self.create_binding(&name, network)),
                Slot::NameTaken(name) => {
                    refused.get_or_insert_with(|| {
                        format!("NetworkBinding {name} belongs to something else; delete or rename it")
                    });
                }
                Slot::Terminating => {}
                Slot::Bound(binding) => {
                    bound.push(binding);
                    refused = refused.or_else(|| refusal(&binding.digest));
                }
            }
        }
        let prefix = format!("{}{INTERFACE}", self.name);
        for (name, row) in self.index.bindings.beginning_with(self.namespace, &prefix) {
            let is_wanted = bound.iter().any(|binding| binding.uid == row.uid);
            if let Some(interface) = interface_of(self.name, name)
                && self.owns(&row.digest)
                && !(row.deleting || is_wanted || self.is_used(interface, &row.digest))
            {
                let target = TableId::Bindings.target(self.namespace, name);
                writes.push(delete(target, &row.uid, None, WriteReason::NetworkBindingUnused));
            }
        }
        let state = match refused {
            Some(why) => NetworkState::Refused(why),
            None if self.has_subnets(&bound, &mut writes) => NetworkState::Ready,
            None => NetworkState::Pending,
        };
        Network { writes, state }
    }

    /// A binding is immutable. While its name is in use for another network or location, the next one gets another
    /// name, so that running Instances keep their network until they are replaced.
    fn slot(&self, interface: usize, network: &NetworkReference) -> Slot<'a> {
        let first = format!("{}{INTERFACE}{interface}", self.name);
        let namespace = network.namespace.as_deref().unwrap_or_default();
        let what = [namespace, &network.name, &self.location.name].join("/");
        let second = format!("{first}-{}", short_hash(&what, 10));
        let names = [first, second];
        let found = names
            .each_ref()
            .map(|name| self.index.bindings.get(self.namespace, name));
        let fits = |row: &&Row<Binding>| {
            self.owns(&row.digest)
                && is_same_network(&row.digest.network, network, self.namespace)
                && is_same_place(&row.digest.location, self.location)
        };
        match found.into_iter().flatten().find(fits) {
            Some(binding) if binding.deleting => return Slot::Terminating,
            Some(binding) => return Slot::Bound(binding),
            None => {}
        }
        for (name, found) in names.into_iter().zip(found) {
            match found {
                None => return Slot::Missing(name),
                Some(binding) if !self.owns(&binding.digest) => return Slot::NameTaken(name),
                Some(_) => {}
            }
        }
        Slot::Terminating
    }

    fn owns(&self, binding: &Binding) -> bool {
        binding.controller.as_deref() == Some(self.uid)
    }

    /// True if an existing Instance of the deployment was made for this network and location at this interface.
    fn is_used(&self, interface: usize, binding: &Binding) -> bool {
        let mut all = self.index.instances.in_namespace(self.namespace);
        all.any(|(_, row)| {
            let owner = row.digest.owner.as_ref();
            owner.is_some_and(|owner| *owner.uid == *self.uid)
                && is_made_for(&row.digest, interface, binding, self.namespace)
        })
    }

    fn create_binding(&self, name: &str, network: &NetworkReference) -> Effect {
        let body = json!({
            "apiVersion": API_VERSION, "kind": "NetworkBinding",
            "metadata": {
                "name": name, "namespace": self.namespace,
                "ownerReferences": controlled_by("WorkloadDeployment", self.name, self.uid),
            },
            "spec": {"network": network, "location": self.location},
        });
        let target = TableId::Bindings.target(self.namespace, name);
        create(target, body, WriteReason::NetworkBinding)
    }

    /// True if each interface has a ready binding to a context that has its subnets. Adds the creation of missing claims.
    fn has_subnets(&self, bound: &[&Row<Binding>], writes: &mut Vec<Effect>) -> bool {
        if bound.len() < self.networks.len() || !bound.iter().all(|binding| binding.digest.is_ready) {
            return false;
        }
        let contexts: BTreeSet<_> = bound.iter().map(|b| b.digest.context.as_ref()).collect();
        let mut all = true;
        for context in contexts {
            all &= context.is_some_and(|(namespace, name)| self.is_addressed(namespace, name, writes));
        }
        all
    }

    /// True if a context has a subnet of each of its families. Adds the creation of missing claims.
    fn is_addressed(&self, namespace: &str, name: &str, writes: &mut Vec<Effect>) -> bool {
        let index = self.index;
        let context = index.contexts.get(namespace, name);
        let Some(context) = context.filter(|row| row.digest.is_ready && !row.deleting) else {
            return false;
        };
        let mut all = true;
        for family in &context.digest.families {
            let mut claims = index.subnet_claims.in_namespace(namespace).map(|(_, row)| row);
            let claim = claims.find(|row| {
                let claim = &row.digest;
                (&*claim.class, &claim.family, &*claim.context) == (CLASS, family, name)
                    && is_same_place(&claim.location, &context.digest.location)
            });
            all &= claim.is_some_and(|row| {
                let subnet = row
                    .digest
                    .subnet
                    .as_ref()
                    .filter(|_| row.digest.is_ready && !row.deleting);
                let subnet = subnet.and_then(|subnet| index.subnets.get(namespace, subnet));
                subnet.is_some_and(|row| row.digest && !row.deleting)
            });
            let suffix = if **family == *"IPv6" { "-v6" } else { "" };
            let own = format!("{name}-0{suffix}");
            // A fitting claim under another name counts; our own name may belong to one that is being deleted.
            if claim.is_none() && index.subnet_claims.get(namespace, &own).is_none() {
                writes.push(self.create_claim(namespace, &own, name, &context.uid, family));
            }
        }
        all
    }

    /// Creates a claim for a context, which owns it.
    fn create_claim(&self, namespace: &str, name: &str, context: &str, uid: &str, family: &str) -> Effect {
        let body = json!({
            "apiVersion": API_VERSION, "kind": "SubnetClaim",
            "metadata": {
                "name": name, "namespace": namespace,
                "ownerReferences": [{"apiVersion": API_VERSION, "kind": "NetworkContext", "name": context, "uid": uid}],
            },
            "spec": {"subnetClass": CLASS, "ipFamily": family, "networkContext": {"name": context}, "location": self.location},
        });
        let target = TableId::SubnetClaims.target(namespace, name);
        create(target, body, WriteReason::SubnetClaim)
    }
}

/// The interface of a binding with this name.
fn interface_of(deployment: &str, binding: &str) -> Option<usize> {
    let rest = binding.strip_prefix(deployment)?.strip_prefix(INTERFACE)?;
    rest.split('-').next()?.parse().ok()
}

/// True if an Instance was made for a binding's network and location at this interface.
fn is_made_for(instance: &InstanceDigest, interface: usize, binding: &Binding, home: &str) -> bool {
    let spec: Value = serde_json::from_str(&instance.spec).unwrap_or_default();
    let network = spec["networkInterfaces"][interface]["network"].clone();
    let Ok(network) = serde_json::from_value::<NetworkReference>(network) else {
        return false;
    };
    // An Instance without a location has not been assigned one yet.
    let place = serde_json::from_value::<LocationReference>(spec["location"].clone());
    is_same_network(&binding.network, &network, home)
        && place.map_or(true, |place| is_same_place(&binding.location, &place))
}

/// True if two references in a namespace name the same network.
fn is_same_network(a: &NetworkReference, b: &NetworkReference, home: &str) -> bool {
    let namespace = |of: &NetworkReference| {
        let named = of.namespace.clone().filter(|named| !named.is_empty());
        named.unwrap_or_else(|| home.to_owned())
    };
    a.name == b.name && namespace(a) == namespace(b)
}

/// Compares by name. An absent namespace equals any, since later schemas prune it.
fn is_same_place(a: &LocationReference, b: &LocationReference) -> bool {
    let apart = matches!((&a.namespace, &b.namespace), (Some(a), Some(b)) if a != b);
    a.name == b.name && !apart
}

/// A failure of a binding that does not end by itself.
fn refusal(binding: &Binding) -> Option<String> {
    let (reason, message) = binding.refusal.as_ref()?;
    let final_ones = [
        Reason::NetworkFailedToCreate.as_str(),
        Reason::NetworkNotFound.as_str(),
        "ProjectUnresolved",
        "LocationNotAvailable",
    ];
    final_ones
        .contains(&&**reason)
        .then(|| format!("{reason}: {message}"))
}
