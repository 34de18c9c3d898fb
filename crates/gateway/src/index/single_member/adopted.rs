//! Adopted companions: somebody at the member makes them part of an object, so that they are withdrawn with it. The pin of the object
//! names them.

use super::{DeliveryPolicy, Pin};
use crate::index::{GatewayIndex, derived::secondary};
use crate::references;
use std::sync::Arc;

/// State of the adopted companions of an object while they are withdrawn from its member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdoptedState {
    /// True if Karmada still dispatches one of them, as far as bindings show.
    pub goes_on: bool,
    /// Permanent ids of the bindings of the suspended companions.
    pub ids: Vec<Arc<str>>,
    /// Tokens of companions that are gone from the hub, or that another object has.
    pub gone: Vec<Arc<str>>,
}

impl GatewayIndex {
    /// State of the companions that a pin names. A companion that is gone from the hub counts as stopped. So does a companion that
    /// another object has, because it does not end with this object.
    pub fn adopted_state(&self, hub: &str, object: &str, pin: &Pin) -> AdoptedState {
        let mut state = AdoptedState::default();
        let named = pin
            .adopted
            .iter()
            .filter_map(|token| Some((token, references::parse_token(&self.companions, token)?)));
        for (token, (kind, name)) in named {
            let row = self.hub.companions[kind].get(hub, &name);
            let Some(row) = row.filter(|row| secondary::lists(&row.digest, object)) else {
                state.gone.push(token.clone());
                continue;
            };
            let policy = DeliveryPolicy::of_companion(row.digest.delivery_policy.as_deref());
            let is_suspended = policy == Some(DeliveryPolicy::Withdraw(pin.member.clone()));
            let delivery = self.companion_delivery(kind, hub, &name, row);
            let stopped = delivery.filter(|delivery| is_suspended && delivery.suspended);
            match stopped.and_then(|delivery| delivery.id.clone()) {
                Some(id) => state.ids.push(id),
                None => state.goes_on |= !is_suspended || self.companion_binding(kind, hub, &name).is_some(),
            }
        }
        state
    }
}
