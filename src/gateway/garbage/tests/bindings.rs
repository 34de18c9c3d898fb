//! Bindings whose template is gone.

use super::*;
use crate::gateway::garbage::bindings::{Decision, Lookup};

const GRACE: Duration = Duration::from_secs(30);

fn binding(kind: &str, owner: Option<&str>) -> Value {
    let owners: Vec<Value> = owner
        .iter()
        .map(|uid| json!({"apiVersion": "x/v1", "kind": kind, "name": "c-0", "uid": uid}))
        .collect();
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": format!("c-0-{}", kind.to_lowercase()), "namespace": HUB, "uid": "u-binding",
            "resourceVersion": "7", "ownerReferences": owners},
        "spec": {"resource": {"apiVersion": "x/v1", "kind": kind, "namespace": HUB, "name": "c-0"}}})
}

fn companion(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-0", "namespace": HUB, "uid": uid,
        "resourceVersion": "5", "labels": {keys::REFERENCED_DATA: "true"}}})
}

fn key_of(world: &World, kind: &str) -> Key {
    world.hub_key(Role::Bindings, HUB, &format!("c-0-{}", kind.to_lowercase()))
}

fn deleted(decision: Decision) -> Vec<Write> {
    match decision {
        Decision::Delete(plan) => plan.effects.into_iter().map(|effect| effect.write).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_orphaned_binding_goes_after_its_grace_period_and_the_hubs_own_answer() {
    for kind in ["WorkloadDeployment", "ConfigMap"] {
        let (garbage, now) = (Garbage::default(), now());
        let mut world = hub(&[]);
        list_hub(&mut world, Role::Bindings, &[binding(kind, Some("u-0"))]);
        let key = key_of(&world, kind);
        let judge = |template: &Lookup, at| garbage.judge_binding(&world, &key, template, at);
        assert_eq!(judge(&Lookup::Unknown, now), Decision::Wait(now.instant, GRACE));
        let due = later(now, GRACE);
        let Decision::Read(template) = judge(&Lookup::Unknown, due) else {
            panic!("the index alone proves nothing");
        };
        assert_eq!(
            (&*template.kind().as_str().to_lowercase(), &*template.name),
            (&*kind_of(kind), "c-0")
        );
        assert_eq!(judge(&Lookup::Found("u-0".into()), due), Decision::Keep);
        // It was forgotten: the grace period begins anew.
        assert_eq!(judge(&Lookup::Absent, due), Decision::Wait(due.instant, GRACE));
        let due = later(due, GRACE);
        for answer in [Lookup::Absent, Lookup::Found("u-1".into())] {
            let only = Write::Delete {
                uid: "u-binding".into(),
                resource_version: None,
            };
            assert_eq!(deleted(judge(&answer, due)), [only]);
        }
    }
}

fn kind_of(kind: &str) -> String {
    let world = hub(&[]);
    let role = world.template_role(kind).unwrap();
    world.kind_of(role).as_str().to_lowercase()
}

#[tokio::test]
async fn a_binding_with_its_template_or_of_a_foreign_kind_or_place_is_kept() {
    let (garbage, now) = (Garbage::default(), later(now(), GRACE * 2));
    let keeps = |world: &World, kind: &str| {
        let decision = garbage.judge_binding(world, &key_of(world, kind), &Lookup::Absent, now);
        assert_eq!(decision, Decision::Keep, "{kind}");
    };
    let mut world = hub(&copies(1));
    list_hub(
        &mut world,
        Role::Bindings,
        &[binding("WorkloadDeployment", Some("u-0"))],
    );
    keeps(&world, "WorkloadDeployment");
    list_hub(&mut world, Role::Bindings, &[binding("WorkloadDeployment", None)]);
    keeps(&world, "WorkloadDeployment");
    list_hub(&mut world, Role::ConfigMaps, &[companion("u-0")]);
    list_hub(&mut world, Role::Bindings, &[binding("ConfigMap", Some("u-0"))]);
    keeps(&world, "ConfigMap");
    list_hub(&mut world, Role::Bindings, &[binding("Deployment", Some("u-0"))]);
    keeps(&world, "Deployment");
    let mut ending = binding("Secret", Some("u-0"));
    ending["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    list_hub(&mut world, Role::Bindings, &[ending]);
    keeps(&world, "Secret");
    let mut elsewhere = binding("Secret", Some("u-0"));
    elsewhere["metadata"]["namespace"] = json!("members");
    list_hub(&mut world, Role::Bindings, &[elsewhere]);
    let key = world.hub_key(Role::Bindings, "members", "c-0-secret");
    assert_eq!(
        garbage.judge_binding(&world, &key, &Lookup::Absent, now),
        Decision::Keep
    );
}

#[tokio::test]
async fn a_binding_is_enqueued_when_it_loses_its_template_and_not_while_lists_are_read() {
    let mut world = hub(&copies(1));
    let key = key_of(&world, "WorkloadDeployment");
    let bound = binding("WorkloadDeployment", Some("u-0"));
    assert!(
        !world
            .hub_event(Role::Bindings, Event::Applied(object(&bound)))
            .keys
            .contains(&key)
    );
    let gone = Event::Deleted(object(&copy_object("c-0", "u-0")));
    assert!(world.hub_event(Role::Federated(0), gone).keys.contains(&key));
    let again = Event::Applied(object(&copy_object("c-0", "u-later")));
    world.hub_event(Role::Federated(0), again);
    assert!(world.ready_keys().contains(&key), "it is the first copy's");
    let mut world = World::new(KINDS.clone(), WorkloadChecks::default());
    list_hub(&mut world, Role::Bindings, std::slice::from_ref(&bound));
    let woken = world.hub_event(Role::Bindings, Event::Applied(object(&bound)));
    assert!(!world.hub_ready() && !woken.keys.contains(&key));
}
