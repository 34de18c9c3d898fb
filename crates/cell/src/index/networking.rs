//! Which deployments the networking objects belong to.

use super::{
    CellIndex,
    change::Change,
    digest::{Binding, INTERFACE, NetworkContext, SubnetClaim},
};
use fedgate_engine::store::{
    apply::RowChange,
    table::{Name, Row},
};
use std::{collections::BTreeSet, sync::Arc};

impl CellIndex {
    pub(super) fn binding_change(&self, delta: &RowChange<Binding>) -> Change {
        let (namespace, name) = &delta.name;
        Change::Network(self.deployment_of_binding(namespace, name).into_iter().collect())
    }

    pub(super) fn context_change(&self, delta: &RowChange<NetworkContext>) -> Change {
        self.network_change(&[&delta.name.1].into(), &delta.name.0)
    }

    pub(super) fn subnet_claim_change(&self, delta: &RowChange<SubnetClaim>) -> Change {
        let (namespace, name) = &delta.name;
        let rows = [self.subnet_claims.get(namespace, name), delta.old.as_ref()];
        let contexts = rows.into_iter().flatten().map(|row| &row.digest.context);
        self.network_change(&contexts.collect(), namespace)
    }

    pub(super) fn subnet_change(&self, delta: &RowChange<bool>) -> Change {
        let (namespace, name) = &delta.name;
        let claims = self.subnet_claims.in_namespace(namespace);
        let of_it = claims.filter(|(_, claim)| claim.digest.subnet.as_ref() == Some(name));
        self.network_change(
            &of_it.map(|(_, claim)| &claim.digest.context).collect(),
            namespace,
        )
    }

    /// The deployment that a binding belongs to, by the binding's name.
    fn deployment_of_binding(&self, namespace: &str, binding: &str) -> Option<Name> {
        let (deployment, _) = binding.rsplit_once(INTERFACE)?;
        self.deployments.get(namespace, deployment)?;
        Some((namespace.into(), deployment.into()))
    }

    /// The change of the network of all deployments whose bindings refer to one of these contexts of a namespace.
    fn network_change(&self, contexts: &BTreeSet<&Arc<str>>, namespace: &str) -> Change {
        let leads = |row: &Row<Binding>| {
            let context = row.digest.context.as_ref();
            context.is_some_and(|(of, name)| **of == *namespace && contexts.contains(name))
        };
        let leading = self.bindings.iter().filter(|(_, row)| leads(row));
        let deployments =
            leading.filter_map(|((bound, binding), _)| self.deployment_of_binding(bound, binding));
        Change::Network(deployments.collect())
    }
}
