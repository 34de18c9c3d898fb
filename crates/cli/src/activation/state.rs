//! The state of a project's entitlement to compute.

use crate::view::Object;
use jiff::Timestamp;

/// Names of the service in the reference of an entitlement.
const SERVICE: [&str; 2] = ["compute", "compute.datumapis.com"];

/// The state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Compute was not asked for.
    NotRequested,
    /// The provider has refused it.
    Rejected {
        /// Time of the refusal.
        since: Option<Timestamp>,
        /// The provider's words.
        message: String,
    },
    /// It was asked for, and nobody has decided.
    Requested {
        /// Time of the request.
        since: Option<Timestamp>,
    },
    /// The project may use compute.
    Active {
        /// Time of the grant.
        since: Option<Timestamp>,
    },
}

impl State {
    /// The state that these entitlements make; of several the best one counts.
    pub(crate) fn of<'a>(entitlements: impl IntoIterator<Item = &'a Object>) -> Self {
        let own = entitlements
            .into_iter()
            .filter(|entitlement| SERVICE.contains(&entitlement.text("/spec/serviceRef/name")));
        own.map(Self::one).max().unwrap_or(Self::NotRequested)
    }

    fn one(entitlement: &Object) -> Self {
        let ready = entitlement.condition("Ready");
        let decided = ready.and_then(|ready| ready.since);
        let phase = entitlement.text("/status/phase");
        if phase == "Active" || ready.is_some_and(|ready| ready.holds()) {
            return Self::Active { since: decided };
        }
        if phase == "Rejected" {
            let message = ready.map(|ready| ready.message).unwrap_or_default();
            let message = match entitlement.text("/status/message") {
                "" => message,
                own => own,
            };
            return Self::Rejected {
                since: decided,
                message: message.to_owned(),
            };
        }
        Self::Requested {
            since: entitlement.created(),
        }
    }

    /// The word.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::NotRequested => "NotRequested",
            Self::Rejected { .. } => "Rejected",
            Self::Requested { .. } => "Requested",
            Self::Active { .. } => "Active",
        }
    }

    /// Begin of the state.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        match self {
            Self::NotRequested => None,
            Self::Rejected { since, .. } | Self::Requested { since } | Self::Active { since } => *since,
        }
    }

    /// The provider's words.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Rejected { message, .. } => message,
            Self::NotRequested | Self::Requested { .. } | Self::Active { .. } => "",
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
        assert_eq!((rejected.word(), rejected.message()), ("Rejected", "no credit"));
    }

    #[test]
    fn other_services_do_not_count_and_the_best_of_several_does() {
        let active = json!({"phase": "Active"});
        assert_eq!(State::of(&[entitlement("dns", &active)]), State::NotRequested);
        let two = [
            entitlement("compute", &json!({"phase": "Rejected"})),
            entitlement("compute.datumapis.com", &active),
        ];
        assert_eq!(State::of(&two).word(), "Active");
    }
}
