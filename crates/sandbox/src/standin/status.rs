//! The status of a binding.

use serde_json::{Value, json};

/// Progress of the delivery to one member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Applied {
    /// Not tried yet.
    #[default]
    Pending,
    /// Done.
    Done,
    /// Rejected or failed, with the reason.
    Failed(String),
}

/// The delivery state of a binding at one member.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Share {
    /// The member.
    pub(super) member: String,
    /// Progress of the delivery.
    pub(super) applied: Applied,
    /// The reflected status, if any.
    pub(super) status: Option<Value>,
    /// `Healthy`, `Unhealthy` or `Unknown`, once the status was reflected.
    pub(super) health: Option<&'static str>,
}

/// `status.aggregatedStatus`: one item per member, sorted by its name. False and empty fields are omitted where Karmada
/// omits them.
pub(super) fn items(shares: &[Share]) -> Vec<Value> {
    let mut shares: Vec<&Share> = shares.iter().collect();
    shares.sort_by(|a, b| a.member.cmp(&b.member));
    shares
        .into_iter()
        .map(|share| {
            let mut item = json!({"clusterName": share.member, "health": "Unknown"});
            match &share.applied {
                Applied::Pending => {}
                Applied::Failed(message) => item["appliedMessage"] = json!(message),
                Applied::Done => {
                    item["applied"] = json!(true);
                    item["health"] = json!(share.health.unwrap_or("Unknown"));
                    if let Some(status) = &share.status {
                        item["status"] = status.clone();
                    }
                }
            }
            item
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_karmada::condition::fully_applied;
    use std::collections::BTreeSet;

    #[test]
    fn items_are_sorted_and_say_what_karmada_says() {
        let done = Share {
            member: "b".to_owned(),
            applied: Applied::Done,
            status: Some(json!({"replicas": 1})),
            health: Some("Healthy"),
        };
        let failed = Share {
            member: "a".to_owned(),
            applied: Applied::Failed("no".to_owned()),
            status: Some(json!({"replicas": 7})),
            health: Some("Healthy"),
        };
        let items = items(&[done, failed]);
        assert_eq!(
            json!(items),
            json!([
                {"clusterName": "a", "appliedMessage": "no", "health": "Unknown"},
                {"clusterName": "b", "applied": true, "health": "Healthy", "status": {"replicas": 1}},
            ])
        );
        assert_eq!(
            fully_applied(&["a".to_owned(), "b".to_owned()].into(), &items).status,
            "False"
        );
        assert_eq!(
            fully_applied(&["b".to_owned()].into(), &items[1..]).status,
            "True"
        );
        assert_eq!(fully_applied(&BTreeSet::new(), &[]).status, "False");
    }
}
