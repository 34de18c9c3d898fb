//! Whose a hub namespace is, and who is refused.

use crate::{
    api::{
        keys,
        names::{HubNamespace, ProjectKey},
    },
    gateway::{
        federator, garbage,
        world::{
            Role, World,
            events::Woken,
            fixture::{HUB, list, namespace},
            networking::WorkloadChecks,
        },
    },
    kinds::FederatedKind,
    plane::watch::Event,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn project(name: &str) -> ProjectKey {
    ProjectKey::parse(name).unwrap()
}

/// A hub whose Namespace is labelled for this project.
fn hub(cluster: Option<&str>) -> World {
    let kinds = Arc::new(FederatedKind::builtin().unwrap());
    let mut world = World::new(kinds, WorkloadChecks::default());
    list_hub(&mut world, cluster);
    world
}

fn list_hub(world: &mut World, cluster: Option<&str>) {
    for role in world.hub_roles() {
        let labels = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: cluster});
        let own = cluster.map(|_| namespace(HUB, "u-hub", &labels));
        let objects: Vec<Value> = own.into_iter().filter(|_| role == Role::Namespaces).collect();
        list(&objects, |e| world.hub_event(role, e));
    }
}

/// Lists a project that has the namespace, as every plane made from one backup has.
fn lists(world: &mut World, name: &str, live: bool) -> Woken {
    let mut all = Woken::default();
    for role in world.project_roles() {
        let mut objects = Vec::new();
        if role == Role::Namespaces {
            objects.push(namespace("kube-system", "p1", &json!({})));
            objects.extend(live.then(|| namespace("default", "a1", &json!({}))));
        }
        let woken = list(&objects, |e| world.project_event(&project(name), role, e));
        all.keys.extend(woken.keys);
        // Of kube-system's too, which has a UID like any other.
        all.refused
            .extend(woken.refused.into_iter().filter(|r| *r.hub == *HUB));
    }
    all
}

fn engage(world: &mut World, name: &str) -> Woken {
    world.engage(project(name));
    lists(world, name, true)
}

fn holder(world: &World) -> Option<&str> {
    world.ties.get(HUB).map(|tie| tie.project.as_str())
}

#[test]
fn the_second_claimant_of_a_uid_is_refused_once_and_takes_nothing_away() {
    let mut world = hub(None);
    assert_eq!(engage(&mut world, "prod").refused, []);
    let refused = engage(&mut world, "staging").refused;
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (
            refused[0].claimant.project.as_str(),
            refused[0].holder.to_string()
        ),
        ("staging", "prod".to_owned())
    );
    assert_eq!(holder(&world), Some("prod"));
    assert_eq!(lists(&mut world, "staging", true).refused, [], "it was said");
    lists(&mut world, "staging", false);
    assert_eq!(holder(&world), Some("prod"), "the other's end is not its end");
}

#[test]
fn the_namespaces_own_label_decides_whoever_comes_first() {
    let mut world = hub(Some("cluster-prod"));
    world.engage(project("prod"));
    assert_eq!(engage(&mut world, "staging").refused.len(), 1);
    assert_eq!(holder(&world), None, "prod has not been listed yet");
    assert!(!garbage::proven_gone(&world, HUB));
    lists(&mut world, "prod", true);
    assert_eq!(holder(&world), Some("prod"));
    // The same with the hub's lists last.
    let kinds = Arc::new(FederatedKind::builtin().unwrap());
    let mut world = World::new(kinds, WorkloadChecks::default());
    engage(&mut world, "staging");
    engage(&mut world, "prod");
    assert_eq!(holder(&world), None, "nobody knows what the Namespace says");
    list_hub(&mut world, Some("cluster-prod"));
    assert_eq!(holder(&world), Some("prod"));
}

fn put(world: &mut World, version: &str, labels: &Value, reassign_to: Option<&str>) -> Woken {
    let mut hub = namespace(HUB, "u-hub", labels);
    hub["metadata"]["resourceVersion"] = json!(version);
    if let Some(to) = reassign_to {
        hub["metadata"]["annotations"] = json!({keys::REASSIGN_TO: to});
    }
    let event = Event::Applied(serde_json::from_value(hub).map(Box::new).unwrap());
    world.hub_event(Role::Namespaces, event)
}

#[test]
fn a_label_that_is_edited_takes_nothing_from_who_holds_it_until_another_replica_has_led() {
    let mut world = hub(Some("cluster-prod"));
    engage(&mut world, "prod");
    engage(&mut world, "staging");
    let staging = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-staging"});
    put(&mut world, "6", &staging, None);
    assert_eq!(holder(&world), Some("prod"), "an edit, which is put back");
    assert!(world.is_refused(HUB, &project("staging")));
    let woken = world.lead();
    assert_eq!(holder(&world), Some("staging"), "another replica's word");
    assert_eq!(woken.refused.len(), 1);
    assert!(world.is_refused(HUB, &project("prod")) && !world.is_refused(HUB, &project("staging")));
}

#[test]
fn a_namespace_without_its_key_is_the_one_projects_that_has_its_uid() {
    let mut world = hub(Some("cluster-prod"));
    put(&mut world, "6", &json!({keys::PROJECT_UID: "p1"}), None);
    engage(&mut world, "prod");
    assert_eq!(holder(&world), Some("prod"));
    let mut world = hub(Some("cluster-prod"));
    put(&mut world, "6", &json!({keys::PROJECT_UID: "p2"}), None);
    engage(&mut world, "prod");
    assert_eq!(holder(&world), None, "another UID");
}

#[test]
fn only_an_operator_gives_it_to_another_project_and_only_to_one_that_has_the_namespace() {
    let mut world = hub(Some("cluster-prod"));
    engage(&mut world, "staging");
    let prod = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-prod",
        keys::UPSTREAM_NAMESPACE: "default", keys::CITIES: "dfw"});
    put(&mut world, "6", &prod, Some("other"));
    assert_eq!(holder(&world), None, "nobody of that name claims it");
    put(&mut world, "7", &prod, Some("staging"));
    assert_eq!(holder(&world), Some("staging"));
    assert_eq!(engage(&mut world, "prod").refused.len(), 1);
    assert_eq!(holder(&world), Some("staging"));
    let seen = crate::gateway::namespaces::observe(&world, HUB).unwrap();
    assert!(seen.reassigned);
    put(&mut world, "8", &prod, None);
    assert_eq!(holder(&world), Some("staging"), "its labels are written next");
}

#[test]
fn a_claim_that_is_refused_keeps_nothing_of_anothers() {
    let mut world = hub(Some("cluster-prod"));
    world.engage(project("prod"));
    lists(&mut world, "prod", false);
    world.engage(project("staging"));
    for role in world.project_roles() {
        let own = [
            namespace("kube-system", "p2", &json!({})),
            namespace("mine", "a1", &json!({})),
        ];
        let own = if role == Role::Namespaces { &own[..] } else { &[] };
        list(own, |e| world.project_event(&project("staging"), role, e));
    }
    assert_eq!(holder(&world), None);
    assert!(
        garbage::proven_gone(&world, HUB),
        "prod no longer has the namespace"
    );
}

#[test]
fn the_deployments_of_a_claim_that_is_refused_say_so() {
    let mut world = hub(Some("cluster-prod"));
    engage(&mut world, "staging");
    let deployment = crate::gateway::world::fixture::source("web", "DFW");
    let woken = list(std::slice::from_ref(&deployment), |e| {
        world.project_event(&project("staging"), Role::Federated(0), e)
    });
    let key = world.source_key(0, &project("staging"), "default", "web");
    assert!(woken.keys.contains(&key));
    let seen = federator::observe::observe(&world, &key, &project("staging")).unwrap();
    assert_eq!(seen.hub_state, federator::observe::HubNamespaceState::Claimed);
    let woken = engage(&mut world, "prod");
    assert!(woken.keys.contains(&key), "it is refused for another reason now");
}

#[test]
fn a_hub_namespace_that_names_a_project_is_nobody_elses() {
    let mut world = hub(Some("cluster-prod"));
    assert_eq!(engage(&mut world, "staging").refused.len(), 1);
    assert_eq!(holder(&world), None, "prod is not engaged");
    engage(&mut world, "prod");
    assert_eq!(holder(&world), Some("prod"));
    world.disengage(&project("prod"));
    assert_eq!(holder(&world), None, "prod has left and will come back");
    engage(&mut world, "prod");
    assert_eq!(holder(&world), Some("prod"));
}

#[test]
fn a_tie_that_is_freed_goes_to_who_waits_and_wakes_it() {
    let mut world = hub(None);
    engage(&mut world, "prod");
    engage(&mut world, "staging");
    let woken = world.disengage(&project("prod"));
    assert_eq!(holder(&world), Some("staging"));
    let key = world.hub_key(Role::Namespaces, "", HUB);
    assert!(woken.keys.contains(&key));
    world.disengage(&project("staging"));
    assert!(world.ties.is_empty() && world.rivals.is_empty());
}

#[test]
fn two_projects_of_one_uid_prove_nothing_gone_and_one_only_what_is_labelled_for_it() {
    let mut world = hub(Some("cluster-prod"));
    world.engage(project("staging"));
    lists(&mut world, "staging", false);
    assert!(!garbage::proven_gone(&world, HUB), "it is labelled for prod");
    world.engage(project("prod"));
    lists(&mut world, "prod", false);
    assert!(!garbage::proven_gone(&world, HUB), "two have the UID");
    world.disengage(&project("staging"));
    assert!(garbage::proven_gone(&world, HUB));
}

#[test]
fn a_deployment_acts_on_the_hub_only_under_its_own_tie() {
    let mut world = hub(Some("cluster-prod"));
    engage(&mut world, "prod");
    engage(&mut world, "staging");
    let deployment = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "9",
            "deletionTimestamp": "2026-05-04T10:00:00Z", "finalizers": [keys::FEDERATOR_FINALIZER],
            "annotations": {keys::FEDERATION_NAMESPACE: HUB}},
        "spec": {"cityCode": "DFW"}});
    for (name, expected) in [("prod", HubNamespace::parse(HUB)), ("staging", None)] {
        let role = Role::Federated(0);
        list(std::slice::from_ref(&deployment), |e| {
            world.project_event(&project(name), role, e)
        });
        let key = world.source_key(0, &project(name), "default", "web");
        let seen = federator::observe::observe(&world, &key, &project(name)).unwrap();
        assert_eq!(seen.hub, expected, "{name}");
    }
}

fn instance(version: u64, size: usize) -> Event {
    let object = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
        "metadata": {"name": "web-0", "namespace": HUB, "uid": "u-i", "resourceVersion": version.to_string(),
            "labels": {keys::WORKLOAD_DEPLOYMENT_NAME: "web"}},
        "spec": {"text": "x".repeat(size)}});
    Event::Applied(Box::new(serde_json::from_value(object).unwrap()))
}

#[test]
fn a_body_is_kept_only_where_a_turn_follows_that_may_write_it() {
    let mut world = hub(Some("cluster-prod"));
    let role = Role::WrittenBack(0);
    let held = |world: &World| {
        let row = world.hub.write_backs[0].get(HUB, "web-0").unwrap();
        row.body.is_some()
    };
    world.hub_event(role, instance(10, 1));
    assert!(!held(&world), "its project is not engaged");
    engage(&mut world, "prod");
    world.hub_event(role, instance(11, 2));
    assert!(held(&world));
    world.hub_event(role, instance(12, 64 * 1024));
    assert!(!held(&world), "it is too large to go anywhere");
    world.hub_event(role, instance(13, 3));
    assert!(held(&world));
    world.disengage(&project("prod"));
    assert!(!held(&world), "its project has left");
}

#[test]
fn a_uid_that_is_no_part_of_a_name_is_no_claim() {
    let mut world = hub(None);
    world.engage(project("prod"));
    let bad = namespace("default", "a/../b", &json!({}));
    list(&[bad], |e| {
        world.project_event(&project("prod"), Role::Namespaces, e)
    });
    assert!(world.ties.is_empty() && world.rivals.is_empty());
}
