//! Bindings by what they are of: Karmada's names for them.

use crate::index::{
    GatewayIndex,
    rows::{Binding, Companion, Delivery},
};
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

    /// The binding of a companion's name.
    pub fn companion_binding(
        &self,
        kind: CompanionKind,
        hub_namespace: &str,
        name: &str,
    ) -> Option<&Row<Binding>> {
        self.hub
            .bindings
            .get(hub_namespace, &self.companion_binding_name(kind, name))
    }

    /// State at each member of a companion, as its own binding shows it under the companion's delivery policy.
    pub fn companion_delivery(
        &self,
        kind: CompanionKind,
        hub_namespace: &str,
        name: &str,
        companion: &Row<Companion>,
    ) -> Option<&Delivery> {
        let binding = self.own_companion_binding(kind, hub_namespace, name, companion)?;
        let binding = Some(binding).filter(|binding| binding.policy == companion.digest.delivery_policy);
        binding?.delivery.as_deref()
    }

    /// The binding of this very companion, under whatever policy it is.
    pub fn own_companion_binding(
        &self,
        kind: CompanionKind,
        hub_namespace: &str,
        name: &str,
        companion: &Row<Companion>,
    ) -> Option<&Binding> {
        let binding = &self.companion_binding(kind, hub_namespace, name)?.digest;
        Some(binding).filter(|binding| binding.owner.as_ref() == Some(&companion.uid))
    }

    /// The binding of a copy.
    pub fn binding(&self, kind: KindId, hub_namespace: &str, name: &str) -> Option<&Row<Binding>> {
        self.hub
            .bindings
            .get(hub_namespace, &self.binding_name(kind, name))
    }
}
