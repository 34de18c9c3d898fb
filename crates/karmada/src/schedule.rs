//! Schedules bindings: a template is duplicated to every member that fits.

use crate::{
    Object,
    claim::Claim,
    condition::{Condition, is_true},
    select::cluster_matches,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The result of scheduling a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The members, sorted.
    pub members: BTreeSet<String>,
    /// The condition `Scheduled`.
    pub condition: Condition,
}

/// True if the scheduler handles a binding: a policy claims it and it has a placement.
pub fn is_scheduled(binding: &impl Object) -> bool {
    let claims = [Claim::Policy, Claim::ClusterPolicy];
    let claimed = claims.iter().any(|claim| !claim.id(binding).is_empty());
    claimed && !binding.field("spec")["placement"].is_null()
}

/// The members in a binding's `spec.clusters`.
pub fn members(binding: &impl Object) -> BTreeSet<String> {
    names(&binding.field("spec")["clusters"])
}

/// All target members of a binding: those of its own schedule and those of the bindings that need it.
pub fn reached(binding: &impl Object) -> BTreeSet<String> {
    let needs = binding.field("spec")["requiredBy"].as_array();
    let needs = needs
        .into_iter()
        .flatten()
        .flat_map(|need| names(&need["clusters"]));
    members(binding).into_iter().chain(needs).collect()
}

/// The names in a list of target clusters.
pub fn names(clusters: &Value) -> BTreeSet<String> {
    let list = clusters.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .filter_map(|cluster| cluster["name"].as_str().map(ToOwned::to_owned))
        .collect()
}

/// The list of target clusters with these names; null without any.
pub fn targets(members: &BTreeSet<String>) -> Value {
    if members.is_empty() {
        return Value::Null;
    }
    members.iter().map(|name| json!({"name": name})).collect()
}

/// True if a Cluster object reports its member as reachable.
pub fn is_ready(cluster: &impl Object) -> bool {
    is_true(&cluster.field("status")["conditions"], "Ready")
}

/// True if a taint keeps new bindings away from a Cluster; our policies tolerate none.
fn is_tainted(cluster: &impl Object) -> bool {
    let taints = cluster.field("spec")["taints"].as_array();
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute")))
}

/// Chooses the members. A member that is tainted or not ready gets no new binding and keeps the bindings that it has.
pub fn place<C: Object>(binding: &impl Object, clusters: &[C]) -> Placed {
    let affinity = &binding.field("spec")["placement"]["clusterAffinity"];
    let held = members(binding);
    let matching: Vec<_> = clusters
        .iter()
        .filter(|cluster| cluster_matches(affinity, *cluster))
        .collect();
    let members: BTreeSet<String> = matching
        .iter()
        .filter(|cluster| !cluster.is_deleting())
        .filter(|cluster| is_ready(**cluster) && !is_tainted(**cluster) || held.contains(cluster.name()))
        .map(|cluster| cluster.name().to_owned())
        .collect();
    let condition = if members.is_empty() {
        let (all, unready) = (clusters.len(), matching.len());
        let mut why = Vec::new();
        if all > unready {
            why.push(format!(
                "{} cluster(s) did not match the placement cluster affinity constraint",
                all - unready
            ));
        }
        if unready > 0 {
            why.push(format!(
                "{unready} cluster(s) had untolerated taint {{cluster.karmada.io/not-ready}}"
            ));
        }
        let why = if why.is_empty() {
            "no cluster exists".to_owned()
        } else {
            why.join(", ")
        };
        Condition::new(
            "Scheduled",
            false,
            "NoClusterFit",
            &format!("0/{all} clusters are available: {why}."),
        )
    } else {
        Condition::new(
            "Scheduled",
            true,
            "Success",
            "Binding has been scheduled successfully.",
        )
    };
    Placed { members, condition }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::DynamicObject;
    use serde_json::from_value;
    use std::sync::Arc;

    fn cell(name: &str, city: &str, ready: &str) -> Arc<DynamicObject> {
        Arc::new(
            from_value(json!({
                "metadata": {"name": name, "labels": {"city": city}},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}
            }))
            .unwrap(),
        )
    }

    fn binding(city: &str, clusters: &Value) -> DynamicObject {
        from_value(json!({
            "metadata": {"name": "b", "labels": {(Claim::Policy.label()): "x"}},
            "spec": {
                "clusters": clusters,
                "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"city": city}}}}
            }
        }))
        .unwrap()
    }

    fn placed(binding: &DynamicObject, clusters: &[Arc<DynamicObject>]) -> Vec<String> {
        place(binding, clusters).members.into_iter().collect()
    }

    #[test]
    fn a_tainted_cell_keeps_what_it_has_and_gets_nothing_new() {
        let tainted = |effect: &str| {
            let mut cell = DynamicObject::clone(&cell("dfw-1", "DFW", "True"));
            cell.data["spec"] = json!({"taints": [{"key": "x", "effect": effect}]});
            [Arc::new(cell)]
        };
        let (new, held) = (
            binding("DFW", &Value::Null),
            binding("DFW", &json!([{"name": "dfw-1"}])),
        );
        for effect in ["NoSchedule", "NoExecute"] {
            assert!(placed(&new, &tainted(effect)).is_empty());
            assert_eq!(placed(&held, &tainted(effect)), ["dfw-1"]);
        }
        assert_eq!(placed(&new, &tainted("PreferNoSchedule")), ["dfw-1"]);
    }

    #[test]
    fn every_cell_of_the_city_gets_it() {
        let cells = [
            cell("dfw-2", "DFW", "True"),
            cell("dfw-1", "DFW", "True"),
            cell("lhr-1", "LHR", "True"),
        ];
        let b = binding("DFW", &json!(null));
        assert!(is_scheduled(&b));
        assert_eq!(placed(&b, &cells), ["dfw-1", "dfw-2"]);
        assert_eq!(place(&b, &cells).condition.status, "True");
    }

    #[test]
    fn an_attached_binding_reaches_the_members_of_those_that_need_it() {
        let mut b = binding("DFW", &json!([{"name": "dfw-1"}]));
        b.data["spec"]["requiredBy"] = json!([{"name": "web", "clusters": [{"name": "lhr-1"}]}]);
        assert_eq!(reached(&b).into_iter().collect::<Vec<_>>(), ["dfw-1", "lhr-1"]);
    }

    #[test]
    fn no_fit_withdraws_and_says_why() {
        let none = place(
            &binding("AMS", &json!([{"name": "dfw-1"}])),
            &[cell("dfw-1", "DFW", "True")],
        );
        assert!(none.members.is_empty());
        assert_eq!(
            (none.condition.status.as_str(), none.condition.reason.as_str()),
            ("False", "NoClusterFit")
        );
        assert!(
            none.condition
                .message
                .starts_with("0/1 clusters are available: 1 cluster(s) did not match")
        );
    }

    #[test]
    fn an_unready_cell_keeps_what_it_has_and_gets_nothing_new() {
        let cells = [cell("dfw-1", "DFW", "False"), cell("dfw-2", "DFW", "True")];
        assert_eq!(placed(&binding("DFW", &json!(null)), &cells), ["dfw-2"]);
        assert_eq!(
            placed(&binding("DFW", &json!([{"name": "dfw-1"}])), &cells),
            ["dfw-1", "dfw-2"]
        );
    }

    #[test]
    fn a_binding_without_claim_is_left_as_it_is() {
        let mut b = binding("DFW", &json!(null));
        b.metadata.labels = None;
        assert!(!is_scheduled(&b));
    }
}
