//! Bindings by what they are of: Karmada's names for them.

use super::{GatewayIndex, digest::Binding};
use fedgate_engine::store::table::Row;
use fedgate_kinds::{CompanionKind, KindId};

impl GatewayIndex {
    /// Karmada's name for the binding of a copy.
    pub fn binding_name(&self, kind: KindId, name: &str) -> String {
        format!("{name}-{}", self.kinds[kind].resource.kind.to_lowercase()).replace(':', ".")
    }

    /// Karmada's name for the binding of a companion.
    pub fn companion_binding_name(&self, kind: CompanionKind, name: &str) -> String {
        format!("{name}-{}", self.companions[kind].kind.to_lowercase()).replace(':', ".")
    }

    /// The binding of a copy.
    pub fn binding(&self, kind: KindId, hub_namespace: &str, name: &str) -> Option<&Row<Binding>> {
        self.hub
            .bindings
            .get(hub_namespace, &self.binding_name(kind, name))
    }
}
