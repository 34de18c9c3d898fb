//! Schedules bindings: a template is duplicated to every member that fits, or to as many as a spread constraint admits.

use crate::{
    Object,
    claim::Claim,
    condition::{Condition, is_true},
    fit, list,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The result of scheduling a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The members, sorted.
    pub members: BTreeSet<String>,
    /// The condition `Scheduled`.
    pub condition: Condition,
}

/// True if Karmada's own scheduler handles a binding: a policy claims it, it has a placement, and it names no other
/// scheduler.
pub fn is_scheduled(binding: &Value) -> bool {
    let claims = [Claim::Policy, Claim::ClusterPolicy];
    let claimed = claims.iter().any(|claim| !claim.id(binding).is_empty());
    let spec = &binding["spec"];
    let scheduler = spec["schedulerName"].as_str().unwrap_or_default();
    claimed && !spec["placement"].is_null() && ["", "default-scheduler"].contains(&scheduler)
}

/// The members in a binding's `spec.clusters`.
pub fn members(binding: &Value) -> BTreeSet<String> {
    names(&binding["spec"]["clusters"])
}

/// The members whose Works follow a binding: those of its own schedule and those of the bindings that need it.
pub fn targets_of(binding: &Value) -> BTreeSet<String> {
    let needs = list(&binding["spec"]["requiredBy"]);
    let needs = needs.iter().flat_map(|need| names(&need["clusters"]));
    members(binding).into_iter().chain(needs).collect()
}

/// All members that have a Work of a binding: its targets, and the members that keep their Work unchanged by a graceful
/// eviction task.
pub fn reached(binding: &Value) -> BTreeSet<String> {
    targets_of(binding).into_iter().chain(evicted(binding)).collect()
}

/// The members of the graceful eviction tasks of a binding, but for those that are purged directly.
fn evicted(binding: &Value) -> impl Iterator<Item = String> {
    let tasks = list(&binding["spec"]["gracefulEvictionTasks"]).iter();
    let kept = tasks.filter(|task| task["purgeMode"] != "Directly");
    kept.filter_map(|task| Some(task["fromCluster"].as_str()?.to_owned()))
}

/// The names in a list of target clusters.
pub fn names(clusters: &Value) -> BTreeSet<String> {
    let names = list(clusters)
        .iter()
        .filter_map(|cluster| cluster["name"].as_str());
    names.map(ToOwned::to_owned).collect()
}

/// The list of target clusters with these names; null without any.
pub fn targets(members: &BTreeSet<String>) -> Value {
    if members.is_empty() {
        return Value::Null;
    }
    members.iter().map(|name| json!({"name": name})).collect()
}

/// True if a Cluster object reports its member as reachable.
pub fn is_ready(cluster: &Value) -> bool {
    is_true(&cluster["status"]["conditions"], "Ready")
}

/// Chooses the members. A member that is tainted, not ready or without the kind gets no new binding and keeps the
/// bindings that it has, as long as the affinity holds.
pub fn place(binding: &Value, clusters: &[Arc<Value>]) -> Placed {
    let held = members(binding);
    let mut fitting = Vec::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for cluster in clusters.iter().filter(|cluster| !cluster.is_deleting()) {
        match fit::obstacle(binding, cluster, held.contains(cluster.name())) {
            None => fitting.push(cluster.name()),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    if fitting.is_empty() {
        let mut counted: Vec<String> = reasons
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        counted.sort();
        let why = if counted.is_empty() {
            "no cluster exists".to_owned()
        } else {
            counted.join(", ")
        };
        let message = format!("0/{} clusters are available: {why}.", clusters.len());
        return Placed {
            members: BTreeSet::new(),
            condition: Condition::new("Scheduled", false, "NoClusterFit", &message),
        };
    }
    select(binding, fitting, held)
}

/// Applies the spread constraint by clusters to those that fit: those that hold the binding come first, then the names
/// in their order. Too few of them leave the schedule as it is.
fn select(binding: &Value, mut fitting: Vec<&str>, held: BTreeSet<String>) -> Placed {
    let constraints = list(&binding["spec"]["placement"]["spreadConstraints"]);
    let constraint = constraints
        .iter()
        .find(|constraint| constraint["spreadByField"] == "cluster");
    let groups = |key: &str| {
        let number = constraint.and_then(|constraint| constraint[key].as_u64());
        number.and_then(|number| usize::try_from(number).ok())
    };
    if groups("minGroups").is_some_and(|least| fitting.len() < least) {
        let message = "failed to select clusters: the number of feasible clusters is less than \
                       spreadConstraint.MinGroups";
        return Placed {
            members: held,
            condition: Condition::new("Scheduled", false, "SchedulerError", message),
        };
    }
    fitting.sort_by_key(|name| (!held.contains(*name), *name));
    let most = groups("maxGroups").unwrap_or(usize::MAX);
    Placed {
        members: fitting.into_iter().take(most).map(ToOwned::to_owned).collect(),
        condition: Condition::new(
            "Scheduled",
            true,
            "Success",
            "Binding has been scheduled successfully.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, city: &str, ready: &str) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": name, "labels": {"city": city}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}
        }))
    }

    fn binding(city: &str, clusters: &Value) -> Value {
        json!({
            "metadata": {"name": "b", "labels": {(Claim::Policy.label()): "x"}},
            "spec": {
                "clusters": clusters,
                "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"city": city}}}}
            }
        })
    }

    fn placed(binding: &Value, clusters: &[Arc<Value>]) -> Vec<String> {
        place(binding, clusters).members.into_iter().collect()
    }

    #[test]
    fn a_tainted_cell_keeps_what_it_has_and_gets_nothing_new() {
        let tainted = |effect: &str| {
            let mut cell = Value::clone(&cell("dfw-1", "DFW", "True"));
            cell["spec"] = json!({"taints": [{"key": "x", "effect": effect}]});
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

    /// A binding to at most one member.
    fn to_one(city: &str, clusters: &Value) -> Value {
        let mut one = binding(city, clusters);
        one["spec"]["placement"]["spreadConstraints"] =
            json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
        one
    }

    #[test]
    fn one_member_is_the_first_by_name_and_stays_while_the_affinity_holds() {
        let cells = [cell("dfw-2", "DFW", "True"), cell("dfw-1", "DFW", "True")];
        assert_eq!(placed(&to_one("DFW", &Value::Null), &cells), ["dfw-1"]);
        let held = json!([{"name": "dfw-2"}]);
        assert_eq!(placed(&to_one("DFW", &held), &cells), ["dfw-2"]);
        let moved = [cell("dfw-2", "LHR", "True"), cell("dfw-1", "DFW", "True")];
        assert_eq!(placed(&to_one("DFW", &held), &moved), ["dfw-1"]);
        let mut named = to_one("DFW", &held);
        named["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["dfw-1"]});
        assert_eq!(placed(&named, &cells), ["dfw-1"]);
    }

    #[test]
    fn too_few_members_for_a_spread_constraint_leave_the_schedule_as_it_is() {
        let mut two = to_one("DFW", &json!([{"name": "dfw-2"}]));
        two["spec"]["placement"]["spreadConstraints"][0]["minGroups"] = json!(2);
        let Placed { members, condition } = place(&two, &[cell("dfw-1", "DFW", "True")]);
        assert_eq!(members, ["dfw-2".to_owned()].into());
        assert_eq!(
            (&*condition.status, &*condition.reason),
            ("False", "SchedulerError")
        );
    }

    #[test]
    fn every_reason_is_counted() {
        let cells = [
            cell("dfw-1", "DFW", "False"),
            cell("dfw-2", "DFW", "False"),
            cell("lhr-1", "LHR", "True"),
        ];
        assert_eq!(
            place(&binding("DFW", &Value::Null), &cells).condition.message,
            "0/3 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint, \
             2 cluster(s) had untolerated taint {cluster.karmada.io/not-ready:NoSchedule}."
        );
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
        b["spec"]["requiredBy"] = json!([{"name": "web", "clusters": [{"name": "lhr-1"}]}]);
        assert_eq!(reached(&b).into_iter().collect::<Vec<_>>(), ["dfw-1", "lhr-1"]);
    }

    #[test]
    fn a_member_of_an_eviction_task_keeps_its_work_and_is_not_scheduled() {
        let mut moving = to_one("DFW", &json!([{"name": "dfw-2"}]));
        moving["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "dfw-1", "purgeMode": "Gracefully"}, {"fromCluster": "dfw-3", "purgeMode": "Directly"}]);
        assert_eq!(targets_of(&moving), ["dfw-2".to_owned()].into());
        assert_eq!(reached(&moving), ["dfw-1".to_owned(), "dfw-2".to_owned()].into());
        let cells = [cell("dfw-2", "LHR", "True"), cell("dfw-1", "DFW", "True")];
        assert_eq!(placed(&moving, &cells), [""; 0]);
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
    fn a_binding_without_claim_or_of_another_scheduler_is_left_as_it_is() {
        let mut b = binding("DFW", &json!(null));
        b["spec"]["schedulerName"] = json!("default-scheduler");
        assert!(is_scheduled(&b));
        b["spec"]["schedulerName"] = json!("another");
        assert!(!is_scheduled(&b));
        let mut b = binding("DFW", &json!(null));
        b["metadata"]["labels"] = Value::Null;
        assert!(!is_scheduled(&b));
    }
}
