//! Which deployments the networking objects belong to.

use super::{CellIndex, change::Change};
use crate::cell::network::decide::INTERFACE;
use fedgate_engine::store::table::Name;
use std::collections::BTreeSet;

impl CellIndex {
    /// Namespace and name of the deployments whose network a change concerns.
    pub fn networked_deployments(&self, change: &Change) -> BTreeSet<Name> {
        match change {
            Change::NetworkBinding((namespace, name)) => self.bound(namespace, name).into_iter().collect(),
            Change::NetworkContext((namespace, name)) => self.over(namespace, name).collect(),
            Change::SubnetClaim { namespace, contexts } => {
                let contexts = contexts.iter();
                contexts
                    .flat_map(|context| self.over(namespace, context))
                    .collect()
            }
            Change::Subnet((namespace, name)) => {
                let claims = self.subnet_claims.in_namespace(namespace);
                let of_it = claims.filter(|(_, claim)| claim.digest.subnet.as_ref() == Some(name));
                of_it
                    .flat_map(|(_, claim)| self.over(namespace, &claim.digest.context))
                    .collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// The deployment that a binding belongs to, by the binding's name.
    fn bound(&self, namespace: &str, binding: &str) -> Option<Name> {
        let (deployment, _) = binding.rsplit_once(INTERFACE)?;
        self.deployments.get(namespace, deployment)?;
        Some((namespace.into(), deployment.into()))
    }

    /// The deployments whose bindings refer to a context.
    fn over(&self, namespace: &str, context: &str) -> impl Iterator<Item = Name> {
        let bindings = self.bindings.iter();
        let leading = bindings.filter(move |(_, row)| {
            let of = row.digest.context.as_ref();
            of.is_some_and(|(of, name)| **of == *namespace && **name == *context)
        });
        leading.filter_map(|((bound, binding), _)| self.bound(bound, binding))
    }
}
