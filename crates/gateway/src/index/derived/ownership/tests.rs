//! Tests of ownership: the owner of a hub namespace, and the rejected claims.

use crate::{
    federator,
    index::{
        GatewayIndex, TableId,
        apply::Applied,
        derived::ownership::RejectedClaim,
        fixture::{HUB, list, namespace},
        networking::WorkloadChecks,
        rows::SIZE_LIMIT,
        watches::Command,
    },
};
use fedgate_api::{
    keys,
    names::{HubNamespace, ProjectKey},
};
use fedgate_engine::plane::watch::WatchEvent;
use fedgate_kinds::{FederatedKind, KindId};
use serde_json::{Value, json};
use std::sync::Arc;

fn project(name: &str) -> ProjectKey {
    ProjectKey::parse(name).unwrap()
}

/// A hub whose Namespace has this project label; `None` for a hub without the Namespace.
fn hub(cluster: Option<&str>) -> GatewayIndex {
    let kinds = Arc::new(FederatedKind::builtin().unwrap().into());
    let mut index = GatewayIndex::new(kinds, WorkloadChecks::default());
    list_hub(&mut index, cluster);
    index
}

fn list_hub(index: &mut GatewayIndex, cluster: Option<&str>) {
    for table in index.hub_tables() {
        let labels = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: cluster});
        let own = cluster.map(|_| namespace(HUB, "u-hub", &labels));
        let objects: Vec<Value> = own.into_iter().filter(|_| table == TableId::Namespaces).collect();
        list(&objects, |e| index.hub_event(table, e));
    }
}

/// Lists a project, with its namespace if `live`. All projects have the same UIDs, as planes restored from one backup
/// do.
fn lists(index: &mut GatewayIndex, name: &str, live: bool) -> Applied {
    let mut all = Applied::default();
    for table in index.project_tables() {
        let mut objects = Vec::new();
        if table == TableId::Namespaces {
            objects.push(namespace("kube-system", "p1", &json!({})));
            objects.extend(live.then(|| namespace("default", "a1", &json!({}))));
        }
        let enqueued = list(&objects, |e| index.project_event(&project(name), table, e));
        all.changes.extend(enqueued.changes);
        // The namespace kube-system has a UID like any other, so claims on its hub namespace are rejected too.
        let is_there = |command: &Command| match command {
            Command::ReportRejected(claim) => *claim.hub == *HUB,
            _ => false,
        };
        all.commands
            .extend(enqueued.commands.into_iter().filter(is_there));
    }
    all
}

fn engage(index: &mut GatewayIndex, name: &str) -> Applied {
    index.engage(project(name));
    lists(index, name, true)
}

fn holder(index: &GatewayIndex) -> Option<&str> {
    index.owners.get(HUB).map(|owner| owner.project.as_str())
}

#[test]
fn the_second_claimant_of_a_uid_is_refused_once_and_takes_nothing_away() {
    let mut index = hub(None);
    assert_eq!(engage(&mut index, "prod").refused(), []);
    let refused = engage(&mut index, "staging").refused();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (
            refused[0].claimant.project.as_str(),
            refused[0].holder.to_string()
        ),
        ("staging", "prod".to_owned())
    );
    assert_eq!(holder(&index), Some("prod"));
    assert_eq!(lists(&mut index, "staging", true).refused(), [], "it was said");
    lists(&mut index, "staging", false);
    assert_eq!(holder(&index), Some("prod"), "the other's end is not its end");
}

#[test]
fn the_namespaces_own_label_decides_whoever_comes_first() {
    let mut index = hub(Some("cluster-prod"));
    index.engage(project("prod"));
    assert_eq!(engage(&mut index, "staging").refused().len(), 1);
    assert_eq!(holder(&index), None, "prod has not been listed yet");
    assert!(!crate::queries::lifecycle::proven_gone(&index, HUB));
    lists(&mut index, "prod", true);
    assert_eq!(holder(&index), Some("prod"));
    // The result does not change if the hub's lists complete last.
    let kinds = Arc::new(FederatedKind::builtin().unwrap().into());
    let mut index = GatewayIndex::new(kinds, WorkloadChecks::default());
    engage(&mut index, "staging");
    engage(&mut index, "prod");
    assert_eq!(holder(&index), None, "nobody knows what the Namespace says");
    list_hub(&mut index, Some("cluster-prod"));
    assert_eq!(holder(&index), Some("prod"));
}

fn put(index: &mut GatewayIndex, version: &str, labels: &Value, reassign_to: Option<&str>) -> Applied {
    let mut hub = namespace(HUB, "u-hub", labels);
    hub["metadata"]["resourceVersion"] = json!(version);
    if let Some(to) = reassign_to {
        hub["metadata"]["annotations"] = json!({keys::REASSIGN_TO: to});
    }
    let event = WatchEvent::Apply(serde_json::from_value(hub).map(Box::new).unwrap());
    index.hub_event(TableId::Namespaces, event)
}

#[test]
fn a_label_that_is_edited_takes_nothing_from_who_holds_it_until_another_replica_has_led() {
    let mut index = hub(Some("cluster-prod"));
    engage(&mut index, "prod");
    engage(&mut index, "staging");
    let staging = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-staging"});
    put(&mut index, "6", &staging, None);
    assert_eq!(holder(&index), Some("prod"), "an edit, which is put back");
    assert!(index.is_refused(HUB, &project("staging")));
    let enqueued = index.lead();
    assert_eq!(holder(&index), Some("staging"), "another replica's word");
    let refused = |r: &RejectedClaim| r.claimant.project == project("prod") && *r.hub == *HUB;
    assert!(enqueued.refused().iter().any(refused));
    assert!(index.is_refused(HUB, &project("prod")) && !index.is_refused(HUB, &project("staging")));
}

#[test]
fn a_namespace_without_its_key_is_the_one_projects_that_has_its_uid() {
    let mut index = hub(Some("cluster-prod"));
    put(&mut index, "6", &json!({keys::PROJECT_UID: "p1"}), None);
    engage(&mut index, "prod");
    assert_eq!(holder(&index), Some("prod"));
    let mut index = hub(Some("cluster-prod"));
    put(&mut index, "6", &json!({keys::PROJECT_UID: "p2"}), None);
    engage(&mut index, "prod");
    assert_eq!(holder(&index), None, "another UID");
}

#[test]
fn only_an_operator_gives_it_to_another_project_and_only_to_one_that_has_the_namespace() {
    let mut index = hub(Some("cluster-prod"));
    engage(&mut index, "staging");
    let prod = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-prod",
        keys::UPSTREAM_NAMESPACE: "default", keys::CITIES: "dfw"});
    put(&mut index, "6", &prod, Some("other"));
    assert_eq!(holder(&index), None, "nobody of that name claims it");
    put(&mut index, "7", &prod, Some("staging"));
    assert_eq!(holder(&index), Some("staging"));
    assert_eq!(engage(&mut index, "prod").refused().len(), 1);
    assert_eq!(holder(&index), Some("staging"));
    let seen = crate::namespaces::observe(&index, HUB).unwrap();
    assert!(seen.reassigned);
    put(&mut index, "8", &prod, None);
    assert_eq!(holder(&index), Some("staging"), "its labels are written next");
}

#[test]
fn a_claim_that_is_refused_keeps_nothing_of_anothers() {
    let mut index = hub(Some("cluster-prod"));
    index.engage(project("prod"));
    lists(&mut index, "prod", false);
    index.engage(project("staging"));
    for table in index.project_tables() {
        let own = [
            namespace("kube-system", "p2", &json!({})),
            namespace("mine", "a1", &json!({})),
        ];
        let own = if table == TableId::Namespaces {
            &own[..]
        } else {
            &[]
        };
        list(own, |e| index.project_event(&project("staging"), table, e));
    }
    assert_eq!(holder(&index), None);
    assert!(
        crate::queries::lifecycle::proven_gone(&index, HUB),
        "prod no longer has the namespace"
    );
}

#[test]
fn the_deployments_of_a_claim_that_is_refused_say_so() {
    let mut index = hub(Some("cluster-prod"));
    engage(&mut index, "staging");
    let deployment = crate::index::fixture::source("web", "DFW");
    let enqueued = list(std::slice::from_ref(&deployment), |e| {
        index.project_event(&project("staging"), TableId::DEPLOYMENTS, e)
    });
    let key = index.source_key(KindId::FIRST, &project("staging"), "default", "web");
    assert!(enqueued.keys(&index).contains(&key));
    let seen = federator::observe::observe(&index, &key, &project("staging")).unwrap();
    assert_eq!(seen.hub_state, federator::observe::HubNamespaceState::Foreign);
    let enqueued = engage(&mut index, "prod");
    assert!(
        enqueued.keys(&index).contains(&key),
        "it is refused for another reason now"
    );
}

#[test]
fn a_hub_namespace_that_names_a_project_is_nobody_elses() {
    let mut index = hub(Some("cluster-prod"));
    assert_eq!(engage(&mut index, "staging").refused().len(), 1);
    assert_eq!(holder(&index), None, "prod is not engaged");
    engage(&mut index, "prod");
    assert_eq!(holder(&index), Some("prod"));
    index.disengage(&project("prod"));
    assert_eq!(holder(&index), None, "prod has left and will come back");
    engage(&mut index, "prod");
    assert_eq!(holder(&index), Some("prod"));
}

#[test]
fn a_tie_that_is_freed_goes_to_who_waits_and_wakes_it() {
    let mut index = hub(None);
    engage(&mut index, "prod");
    engage(&mut index, "staging");
    let enqueued = index.disengage(&project("prod"));
    assert_eq!(holder(&index), Some("staging"));
    let key = index.hub_key(TableId::Namespaces, "", HUB);
    assert!(enqueued.keys(&index).contains(&key));
    index.disengage(&project("staging"));
    assert!(index.owners.is_empty() && index.claims.is_empty());
}

#[test]
fn two_projects_of_one_uid_prove_nothing_gone_and_one_only_what_is_labelled_for_it() {
    let mut index = hub(Some("cluster-prod"));
    index.engage(project("staging"));
    lists(&mut index, "staging", false);
    assert!(
        !crate::queries::lifecycle::proven_gone(&index, HUB),
        "it is labelled for prod"
    );
    index.engage(project("prod"));
    lists(&mut index, "prod", false);
    assert!(
        !crate::queries::lifecycle::proven_gone(&index, HUB),
        "two have the UID"
    );
    index.disengage(&project("staging"));
    assert!(crate::queries::lifecycle::proven_gone(&index, HUB));
}

#[test]
fn a_deployment_acts_on_the_hub_only_under_its_own_tie() {
    let mut index = hub(Some("cluster-prod"));
    engage(&mut index, "prod");
    index.engage(project("staging"));
    for table in index.project_tables() {
        let own = [
            namespace("kube-system", "p2", &json!({})),
            namespace("default", "a1", &json!({})),
        ];
        let own = if table == TableId::Namespaces {
            &own[..]
        } else {
            &[]
        };
        list(own, |e| index.project_event(&project("staging"), table, e));
    }
    let deployment = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "9",
            "deletionTimestamp": "2026-05-04T10:00:00Z", "finalizers": [keys::FEDERATOR_FINALIZER],
            "annotations": {keys::FEDERATION_NAMESPACE: HUB}},
        "spec": {"cityCode": "DFW"}});
    for (name, expected) in [("prod", HubNamespace::parse(HUB)), ("staging", None)] {
        let table = TableId::DEPLOYMENTS;
        list(std::slice::from_ref(&deployment), |e| {
            index.project_event(&project(name), table, e)
        });
        let key = index.source_key(KindId::FIRST, &project(name), "default", "web");
        let seen = federator::observe::observe(&index, &key, &project(name)).unwrap();
        assert_eq!(seen.hub, expected, "{name}");
    }
}

fn instance(version: u64, size: usize) -> WatchEvent {
    let object = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
        "metadata": {"name": "web-0", "namespace": HUB, "uid": "u-i", "resourceVersion": version.to_string(),
            "labels": {keys::WORKLOAD_DEPLOYMENT_NAME: "web"}},
        "spec": {"text": "x".repeat(size)}});
    WatchEvent::Apply(Box::new(serde_json::from_value(object).unwrap()))
}

#[test]
fn a_body_is_kept_only_where_a_turn_follows_that_may_write_it() {
    let mut index = hub(Some("cluster-prod"));
    let table = TableId::INSTANCES;
    let held = |index: &GatewayIndex| {
        let row = index.hub.write_backs[KindId::FIRST].get(HUB, "web-0").unwrap();
        row.body.is_some()
    };
    index.hub_event(table, instance(10, 1));
    assert!(!held(&index), "its project is not engaged");
    engage(&mut index, "prod");
    index.hub_event(table, instance(11, 2));
    assert!(held(&index));
    index.hub_event(table, instance(12, SIZE_LIMIT as usize));
    assert!(!held(&index), "it is too large to go anywhere");
    index.hub_event(table, instance(13, 3));
    assert!(held(&index));
    index.disengage(&project("prod"));
    assert!(!held(&index), "its project has left");
}

#[test]
fn a_uid_that_is_no_part_of_a_name_is_no_claim() {
    let mut index = hub(None);
    index.engage(project("prod"));
    let bad = namespace("default", "a/../b", &json!({}));
    list(&[bad], |e| {
        index.project_event(&project("prod"), TableId::Namespaces, e)
    });
    assert!(index.owners.is_empty() && index.claims.is_empty());
}
