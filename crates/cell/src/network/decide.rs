//! The decision on a deployment's network, and whether the network is ready. Pure.

use crate::index::digest::{Binding, INTERFACE, NetworkContext, Readiness, SubnetClaim};
use fedgate_api::{LocationReference, NetworkReference, Reason, names::short_hash};
use std::{collections::BTreeSet, sync::Arc};

/// Queries to the cell's networking objects.
pub trait NetworkObjects {
    /// The binding of this name in the deployment's namespace.
    fn binding(&self, name: &str) -> Option<&Binding>;
    /// The bindings that the deployment controls, with their names.
    fn own_bindings(&self) -> Vec<(&str, &Binding)>;
    /// True if an existing Instance of the deployment was made for this network and location at this interface.
    fn is_used(&self, interface: usize, binding: &Binding) -> bool;
    /// A context.
    fn context(&self, namespace: &str, name: &str) -> Option<&NetworkContext>;
    /// The claims of a namespace, by name.
    fn claims(&self, namespace: &str) -> Vec<&SubnetClaim>;
    /// A subnet.
    fn subnet(&self, namespace: &str, name: &str) -> Option<&Readiness>;
}

/// The network part of a deployment.
#[derive(Debug, Clone, Copy)]
pub struct Deployment<'a> {
    /// Namespace of the deployment.
    pub namespace: &'a str,
    /// Name of the deployment.
    pub name: &'a str,
    /// UID of the deployment.
    pub uid: &'a str,
    /// The networks of its template's interfaces, in order.
    pub networks: &'a [NetworkReference],
    /// The cell's location.
    pub location: &'a LocationReference,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkAction {
    /// Create the binding of an interface.
    Bind {
        /// Name of the binding.
        name: String,
        /// The interface's network.
        network: NetworkReference,
    },
    /// Delete a binding that the template no longer names and no Instance uses.
    Unbind {
        /// Name of the binding.
        name: String,
        /// UID of the binding.
        uid: Arc<str>,
    },
    /// Create a claim for a context, owned by it.
    Claim {
        /// Namespace of the claim.
        namespace: Arc<str>,
        /// Name of the claim.
        name: String,
        /// The context's name.
        context: Arc<str>,
        /// The context's UID.
        owner: Arc<str>,
        /// The address family.
        family: Arc<str>,
    },
}

/// State of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkState {
    /// Everything is ready.
    Ready,
    /// Something is in progress.
    Pending,
    /// Someone has to act; the text says why.
    Refused(String),
}

/// The class of the subnets that are claimed.
const CLASS: &str = "private";
/// The family of a context that names none.
const DEFAULT_FAMILY: &str = "IPv4";

/// Name of the binding of an interface.
fn binding_name(deployment: &str, interface: usize) -> String {
    format!("{deployment}{INTERFACE}{interface}")
}

/// The interface of a binding with this name.
pub(super) fn interface_of(deployment: &str, binding: &str) -> Option<usize> {
    let rest = binding.strip_prefix(deployment)?.strip_prefix(INTERFACE)?;
    rest.split('-').next()?.parse().ok()
}

/// State of an interface's binding.
enum Slot<'k> {
    /// The binding exists under this name.
    Bound(String, &'k Binding),
    /// The binding is to be created under this name.
    Missing(String),
    /// Another object has this name.
    Held(String),
    /// The binding is being deleted, or other bindings of the deployment have both names.
    Going,
}

/// A binding is immutable. While its name is in use for another network or location, the next one gets another
/// name, so that running Instances keep their network until they are replaced.
fn slot<'k>(
    interface: usize,
    network: &NetworkReference,
    deployment: &Deployment<'_>,
    known: &'k impl NetworkObjects,
) -> Slot<'k> {
    let first = binding_name(deployment.name, interface);
    let namespace = network.namespace.as_deref().unwrap_or_default();
    let what = [namespace, &network.name, &deployment.location.name].join("/");
    let second = format!("{first}-{}", short_hash(&what, 10));
    let is_own = |binding: &Binding| binding.controller.as_deref() == Some(deployment.uid);
    let fits = |binding: &Binding| is_own(binding) && is_for(binding, network, deployment);
    for name in [&first, &second] {
        if let Some(binding) = known.binding(name).filter(|binding| fits(binding)) {
            return if binding.readiness.deleting {
                Slot::Going
            } else {
                Slot::Bound(name.clone(), binding)
            };
        }
    }
    for name in [first, second] {
        match known.binding(&name) {
            None => return Slot::Missing(name),
            Some(binding) if !is_own(binding) => return Slot::Held(name),
            Some(_) => {}
        }
    }
    Slot::Going
}

/// The actions to take now, and the state of the network.
pub fn decide(
    deployment: &Deployment<'_>,
    known: &impl NetworkObjects,
) -> (Vec<NetworkAction>, NetworkState) {
    let mut acts = Vec::new();
    let mut bound = Vec::new();
    let mut wanted = BTreeSet::new();
    let mut refused = None;
    for (interface, network) in deployment.networks.iter().enumerate() {
        match slot(interface, network, deployment, known) {
            Slot::Missing(name) => acts.push(NetworkAction::Bind {
                name,
                network: network.clone(),
            }),
            Slot::Held(name) => {
                refused.get_or_insert_with(|| {
                    format!("NetworkBinding {name} belongs to something else; delete or rename it")
                });
            }
            Slot::Going => {}
            Slot::Bound(name, binding) => {
                wanted.insert(name);
                match refusal(binding) {
                    Some(why) => drop(refused.get_or_insert(why)),
                    None => bound.push(binding),
                }
            }
        }
    }
    for (name, binding) in known.own_bindings() {
        let interface = interface_of(deployment.name, name);
        let is_over = |interface| !wanted.contains(name) && !known.is_used(interface, binding);
        if !binding.readiness.deleting && interface.is_some_and(is_over) {
            acts.push(NetworkAction::Unbind {
                name: name.to_owned(),
                uid: binding.uid.clone(),
            });
        }
    }
    if let Some(why) = refused {
        return (acts, NetworkState::Refused(why));
    }
    if bound.len() < deployment.networks.len() || !bound.iter().all(|b| b.readiness.holds()) {
        return (acts, NetworkState::Pending);
    }
    let contexts: BTreeSet<_> = bound.iter().map(|binding| binding.context.as_ref()).collect();
    let mut ready = true;
    for context in contexts {
        ready &= context.is_some_and(|(namespace, name)| addressed(namespace, name, known, &mut acts));
    }
    let complete = acts.iter().all(|act| matches!(act, NetworkAction::Unbind { .. }));
    let state = if ready && complete {
        NetworkState::Ready
    } else {
        NetworkState::Pending
    };
    (acts, state)
}

fn is_for(binding: &Binding, network: &NetworkReference, deployment: &Deployment<'_>) -> bool {
    is_same_network(&binding.network, network, deployment.namespace)
        && is_same_place(&binding.location, deployment.location)
}

/// True if two references in a namespace name the same network.
pub fn is_same_network(a: &NetworkReference, b: &NetworkReference, home: &str) -> bool {
    let namespace = |of: &NetworkReference| {
        let named = of.namespace.clone().filter(|named| !named.is_empty());
        named.unwrap_or_else(|| home.to_owned())
    };
    a.name == b.name && namespace(a) == namespace(b)
}

/// Compares by name. An absent namespace equals any, since later schemas prune it.
pub fn is_same_place(a: &LocationReference, b: &LocationReference) -> bool {
    let apart = matches!((&a.namespace, &b.namespace), (Some(a), Some(b)) if a != b);
    a.name == b.name && !apart
}

/// A failure of a binding that does not end by itself.
fn refusal(binding: &Binding) -> Option<String> {
    let (reason, message) = binding.refusal.as_ref().filter(|_| !binding.readiness.ready)?;
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

/// True if a context has a subnet of each of its families; claims the missing ones.
fn addressed(
    namespace: &Arc<str>,
    name: &Arc<str>,
    known: &impl NetworkObjects,
    acts: &mut Vec<NetworkAction>,
) -> bool {
    let Some(context) = known.context(namespace, name).filter(|c| c.readiness.holds()) else {
        return false;
    };
    let mut families: Vec<&str> = context.families.iter().map(|family| &**family).collect();
    if families.is_empty() {
        families.push(DEFAULT_FAMILY);
    }
    let claims = known.claims(namespace);
    let mut all = true;
    for family in families {
        let fits = |claim: &&&SubnetClaim| {
            *claim.class == *CLASS
                && *claim.family == *family
                && claim.context == *name
                && is_same_place(&claim.location, &context.location)
        };
        let claim = claims.iter().find(fits);
        all &= claim.is_some_and(|claim| {
            let subnet = claim.subnet.as_ref().filter(|_| claim.readiness.holds());
            let subnet = subnet.and_then(|subnet| known.subnet(namespace, subnet));
            subnet.is_some_and(Readiness::holds)
        });
        let own = claim_name(name, family);
        // A fitting claim under another name counts; our own name may belong to one that is being deleted.
        if claim.is_none() && claims.iter().all(|claim| *claim.name != *own) {
            acts.push(NetworkAction::Claim {
                namespace: namespace.clone(),
                name: own,
                context: name.clone(),
                owner: context.uid.clone(),
                family: family.into(),
            });
        }
    }
    all
}

fn claim_name(context: &str, family: &str) -> String {
    if family == "IPv6" {
        format!("{context}-0-v6")
    } else {
        format!("{context}-0")
    }
}
