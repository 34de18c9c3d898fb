//! The networking objects of a deployment.

use super::decide::{self, NetworkObjects};
use crate::index::{
    CellIndex,
    digest::{Binding, INTERFACE, Instance, NetworkContext, Readiness, SubnetClaim},
};
use fedgate_api::{LocationReference, NetworkReference};
use serde_json::Value;

/// The networking objects in the index of a deployment with this name and UID in this namespace.
pub fn known<'a>(
    index: &'a CellIndex,
    namespace: &'a str,
    deployment: &'a str,
    uid: &'a str,
) -> impl NetworkObjects + 'a {
    Networks {
        index,
        namespace,
        bindings: format!("{deployment}{INTERFACE}"),
        uid,
    }
}

struct Networks<'a> {
    index: &'a CellIndex,
    namespace: &'a str,
    /// Prefix of its bindings' names.
    bindings: String,
    uid: &'a str,
}

/// True if an Instance was made for a binding's network and location at this interface.
fn is_made_for(instance: &Instance, interface: usize, binding: &Binding, home: &str) -> bool {
    let spec: Value = serde_json::from_str(&instance.spec).unwrap_or_default();
    let network = spec["networkInterfaces"][interface]["network"].clone();
    let Ok(network) = serde_json::from_value::<NetworkReference>(network) else {
        return false;
    };
    // An Instance without a location has not been assigned one yet.
    let place = serde_json::from_value::<LocationReference>(spec["location"].clone());
    decide::is_same_network(&binding.network, &network, home)
        && place.map_or(true, |place| decide::is_same_place(&binding.location, &place))
}

impl NetworkObjects for Networks<'_> {
    fn binding(&self, name: &str) -> Option<&Binding> {
        self.index
            .bindings
            .get(self.namespace, name)
            .map(|row| &row.digest)
    }

    fn own_bindings(&self) -> Vec<(&str, &Binding)> {
        let all = self.index.bindings.beginning_with(self.namespace, &self.bindings);
        let own = all.filter(|(_, row)| row.digest.controller.as_deref() == Some(self.uid));
        own.map(|(name, row)| (&**name, &row.digest)).collect()
    }

    fn is_used(&self, interface: usize, binding: &Binding) -> bool {
        let mut all = self.index.instances.in_namespace(self.namespace);
        all.any(|(_, row)| {
            let owner = row.digest.owner.as_ref();
            owner.is_some_and(|owner| *owner.uid == *self.uid)
                && is_made_for(&row.digest, interface, binding, self.namespace)
        })
    }

    fn context(&self, namespace: &str, name: &str) -> Option<&NetworkContext> {
        self.index.contexts.get(namespace, name).map(|row| &row.digest)
    }

    fn claims(&self, namespace: &str) -> Vec<&SubnetClaim> {
        let claims = self.index.subnet_claims.in_namespace(namespace);
        claims.map(|(_, row)| &row.digest).collect()
    }

    fn subnet(&self, namespace: &str, name: &str) -> Option<&Readiness> {
        self.index.subnets.get(namespace, name).map(|row| &row.digest)
    }
}
