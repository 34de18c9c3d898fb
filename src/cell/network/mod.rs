//! The network of a deployment: bindings, contexts, claims and subnets (contract: cell.md §10).

pub mod decide;

use super::world::World;
use decide::{Binding, Claim, Context, Known, Readiness};

/// What the index knows of networking, for a deployment in this namespace.
pub fn known<'a>(world: &'a World, namespace: &'a str) -> impl Known + 'a {
    Index { world, namespace }
}

struct Index<'a> {
    world: &'a World,
    namespace: &'a str,
}

impl Known for Index<'_> {
    fn binding(&self, name: &str) -> Option<&Binding> {
        self.world
            .bindings
            .get(self.namespace, name)
            .map(|row| &row.digest)
    }

    fn context(&self, namespace: &str, name: &str) -> Option<&Context> {
        self.world.contexts.get(namespace, name).map(|row| &row.digest)
    }

    fn claims(&self, namespace: &str) -> Vec<&Claim> {
        let claims = self.world.subnet_claims.in_namespace(namespace);
        claims.map(|(_, row)| &row.digest).collect()
    }

    fn subnet(&self, namespace: &str, name: &str) -> Option<&Readiness> {
        self.world.subnets.get(namespace, name).map(|row| &row.digest)
    }
}
