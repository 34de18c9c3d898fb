//! The companions that went with an object to its member.

use crate::index::{GatewayIndex, derived::secondary};
use crate::{lane::CompanionLane, pin::Pin, references};
use std::sync::Arc;

/// State of the companions that went with an object to its member, on their way off it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// True if one of them is still dispatched, as far as bindings show.
    pub goes_on: bool,
    /// Permanent ids of the bindings of the others.
    pub ids: Vec<Arc<str>>,
    /// Tokens of those that are gone from the hub, or that another object has now.
    pub gone: Vec<Arc<str>>,
}

impl GatewayIndex {
    /// State of the companions that went with the object of a pin to its member. One that is gone from the hub counts as
    /// stopped, and so does one that another object has now: it does not end with this one.
    pub fn kept(&self, hub: &str, object: &str, pin: &Pin) -> Kept {
        let mut kept = Kept::default();
        let named = pin
            .kept
            .iter()
            .filter_map(|token| Some((token, references::parse_token(&self.companions, token)?)));
        for (token, (kind, name)) in named {
            let row = self.hub.companions[kind].get(hub, &name);
            let Some(row) = row.filter(|row| secondary::lists(&row.digest, object)) else {
                kept.gone.push(token.clone());
                continue;
            };
            let is_parked =
                CompanionLane::read(row.digest.lane.as_deref()) == CompanionLane::Park(&pin.member);
            let delivery = self.companion_delivery(kind, hub, &name, row);
            let stopped = delivery.filter(|delivery| is_parked && delivery.suspended);
            match stopped.and_then(|delivery| delivery.id.clone()) {
                Some(id) => kept.ids.push(id),
                None => kept.goes_on |= !is_parked || self.companion_binding(kind, hub, &name).is_some(),
            }
        }
        kept
    }
}
