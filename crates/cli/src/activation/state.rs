//! The state of a project's entitlement to compute.

use crate::view::Object;
use jiff::Timestamp;

/// Names of the service in the reference of an entitlement.
const SERVICE: [&str; 2] = ["compute", "compute.datumapis.com"];

/// The way of a request, in the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Compute was not asked for.
    NotRequested,
    /// The provider has refused compute.
    Rejected,
    /// Compute was asked for, and nobody has decided.
    Requested,
    /// The project may use compute.
    Active,
}

/// The state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    /// The step that the request has reached.
    pub(crate) step: Step,
    /// Begin of the state.
    pub(crate) since: Option<Timestamp>,
    /// The provider's words about a refusal.
    pub(crate) message: String,
}

impl State {
    /// A state without words of the provider.
    pub(crate) fn new(step: Step, since: Option<Timestamp>) -> Self {
        Self {
            step,
            since,
            message: String::new(),
        }
    }

    /// The state that these entitlements make; of several the best one counts.
    pub(crate) fn of<'a>(entitlements: impl IntoIterator<Item = &'a Object>) -> Self {
        let own = entitlements
            .into_iter()
            .filter(|entitlement| SERVICE.contains(&entitlement.text("/spec/serviceRef/name")));
        let best = own.map(Self::one).max();
        best.unwrap_or_else(|| Self::new(Step::NotRequested, None))
    }

    fn one(entitlement: &Object) -> Self {
        let ready = entitlement.condition("Ready");
        let decided = ready.and_then(|ready| ready.since);
        let phase = entitlement.text("/status/phase");
        if phase == "Active" || ready.is_some_and(|ready| ready.holds()) {
            return Self::new(Step::Active, decided);
        }
        if phase != "Rejected" {
            return Self::new(Step::Requested, entitlement.created());
        }
        let message = match entitlement.text("/status/message") {
            "" => ready.map(|ready| ready.message).unwrap_or_default(),
            own => own,
        };
        Self {
            message: message.to_owned(),
            ..Self::new(Step::Rejected, decided)
        }
    }

    /// The word.
    pub(crate) const fn word(&self) -> &'static str {
        match self.step {
            Step::NotRequested => "NotRequested",
            Step::Rejected => "Rejected",
            Step::Requested => "Requested",
            Step::Active => "Active",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entitlement(service: &str, status: &Value) -> Object {
        Object(
            json!({"metadata": {"name": "compute", "creationTimestamp": "2030-01-01T00:00:00Z"},
            "spec": {"serviceRef": {"name": service}}, "status": status}),
        )
    }

    #[test]
    fn each_row_of_the_table_of_states() {
        let word = |status: Value| State::of(&[entitlement("compute", &status)]).word();
        assert_eq!(State::of([]).word(), "NotRequested");
        assert_eq!(word(json!({})), "Requested", "also without a phase");
        assert_eq!(word(json!({"phase": "PendingApproval"})), "Requested");
        assert_eq!(word(json!({"phase": "Active"})), "Active");
        assert_eq!(
            word(json!({"conditions": [{"type": "Ready", "status": "True"}]})),
            "Active"
        );
        let rejected = State::of(&[entitlement(
            "compute.datumapis.com",
            &json!({"phase": "Rejected", "conditions": [{"type": "Ready", "status": "False", "message": "no credit"}]}),
        )]);
        assert_eq!((rejected.word(), &*rejected.message), ("Rejected", "no credit"));
    }

    #[test]
    fn other_services_do_not_count_and_the_best_of_several_does() {
        let active = json!({"phase": "Active"});
        assert_eq!(State::of(&[entitlement("dns", &active)]).step, Step::NotRequested);
        let two = [
            entitlement("compute", &json!({"phase": "Rejected"})),
            entitlement("compute.datumapis.com", &active),
        ];
        assert_eq!(State::of(&two).word(), "Active");
    }
}
