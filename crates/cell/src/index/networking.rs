//! Which deployments the networking objects belong to.

use super::{
    CellIndex,
    change::Change,
    digest::{Binding, INTERFACE, NetworkContext, Readiness, SubnetClaim},
};
use fedgate_engine::store::{apply::RowChange, table::Name};
use std::{collections::BTreeSet, sync::Arc};

impl CellIndex {
    pub(super) fn binding_change(&self, delta: &RowChange<Binding>) -> Change {
        let (namespace, name) = &delta.name;
        Change::Network(self.bound(namespace, name).into_iter().collect())
    }

    pub(super) fn context_change(&self, delta: &RowChange<NetworkContext>) -> Change {
        let (namespace, name) = &delta.name;
        Change::Network(self.over(namespace, name).collect())
    }

    pub(super) fn subnet_claim_change(&self, delta: &RowChange<SubnetClaim>) -> Change {
        let (namespace, name) = &delta.name;
        let rows = [self.subnet_claims.get(namespace, name), delta.old.as_ref()];
        let contexts: BTreeSet<&Arc<str>> = rows
            .into_iter()
            .flatten()
            .map(|row| &row.digest.context)
            .collect();
        let deployments = contexts
            .into_iter()
            .flat_map(|context| self.over(namespace, context));
        Change::Network(deployments.collect())
    }

    pub(super) fn subnet_change(&self, delta: &RowChange<Readiness>) -> Change {
        let (namespace, name) = &delta.name;
        let claims = self.subnet_claims.in_namespace(namespace);
        let of_it = claims.filter(|(_, claim)| claim.digest.subnet.as_ref() == Some(name));
        let deployments = of_it.flat_map(|(_, claim)| self.over(namespace, &claim.digest.context));
        Change::Network(deployments.collect())
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
