//! Tests of large Workloads: the index keeps the text of small ones alone, within a budget of the project, and reads the
//! others from their plane.

use super::super::{Workloads, observe};
use super::observe::{Scene, deployment_in_dfw, deployments};
use super::*;
use crate::{
    index::{
        TableId,
        networking::WorkloadChecks,
        rows::{TEXTS_OF_PROJECT, WorkloadDigest},
    },
    testing::{LOST, Rig},
};
use fedgate_engine::{
    error::Failure,
    key::Key,
    plan::{Endpoint, Requeue, Write},
    reconcile::throttle::RETRY_AFTER,
    runtime::driver,
};
use http::Method;

/// The Workload `shop` in one city, with an environment variable of so many bytes.
fn shop(bytes: usize) -> Value {
    let mut shop = serde_json::to_value(workload(&[("us", &["DFW", "IAD"])])).unwrap();
    shop["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["env"] =
        json!([{"name": "DATA", "value": "x".repeat(bytes)}]);
    shop
}

fn digest(object: Value) -> WorkloadDigest {
    WorkloadDigest::whole(&serde_json::from_value(object).unwrap())
}

fn key(scene: &Scene) -> Key {
    scene.index.workload_key(&scene.project, "default", "shop")
}

/// The effects of a Workload that was read, or `None` if it is to be read first.
fn decided(scene: &Scene, read: Option<&WorkloadDigest>) -> Option<Vec<WorkloadEffect>> {
    match observe::observe(&scene.index, &key(scene), &scene.project, read) {
        Ok(observed) => Some(decide(&observed.snapshot, at(0))),
        Err(observe::NoSnapshot::Unread { deleting: false }) => None,
        Err(observe::NoSnapshot::Unread { deleting: true }) => panic!("it is not being deleted"),
        Err(observe::NoSnapshot::Nothing | observe::NoSnapshot::Undecodable { .. }) => {
            panic!("it is there and can be read")
        }
    }
}

fn kept(scene: &Scene) -> usize {
    let project = &scene.index.projects[&scene.project];
    let kept: usize = project
        .workloads
        .iter()
        .map(|(_, row)| row.digest.text_len())
        .sum();
    assert_eq!(project.workload_texts, kept, "what is counted is what is kept");
    kept
}

#[test]
fn a_workload_whose_text_is_not_kept_is_decided_on_as_it_was_read() {
    let mut scene = Scene::new(WorkloadChecks::default());
    let small = kept(&scene);
    scene.apply(TableId::Workloads, shop(20 * 1024));
    assert!(kept(&scene) < small, "{small}");
    assert_eq!(decided(&scene, None), None);
    let other = digest(shop(20 * 1024 + 1));
    assert_eq!(decided(&scene, Some(&other)), None, "another state of it");
    let read = digest(shop(20 * 1024));
    let effects = decided(&scene, Some(&read)).unwrap();
    let Create(made) = &effects[0] else {
        panic!("{:?}", words(&effects));
    };
    assert_eq!(made.spec.template, fedgate_api::InstanceTemplate::default());
    assert_eq!(words(&effects).len(), 3, "two deployments and the status");

    scene.apply(TableId::Workloads, shop(10));
    assert!(decided(&scene, None).is_some());
    scene.delete(TableId::Workloads, shop(10));
    assert!(kept(&scene) < small);
}

/// The bodies that a Workload's deployments get.
fn bodies(scene: &Scene) -> Vec<Value> {
    let Ok(observed) = observe::observe(&scene.index, &key(scene), &scene.project, None) else {
        panic!("it is there and can be read");
    };
    let plan = decide(&observed.snapshot, at(0));
    let prepared = observed.prepare(plan);
    let body = |effect: fedgate_engine::plan::Effect| match effect.write {
        Write::Create { body, .. } | Write::Update { body, .. } => {
            (effect.endpoint == Endpoint::Main).then_some(body)
        }
        _ => None,
    };
    prepared.effects.into_iter().filter_map(body).collect()
}

#[test]
fn a_field_that_this_version_does_not_know_reaches_the_deployments_and_a_change_of_it_too() {
    let mut scene = Scene::new(WorkloadChecks::default());
    for class in ["kata", "runc"] {
        let mut newer = shop(10);
        newer["spec"]["template"]["spec"]["runtime"]["class"] = json!(class);
        scene.apply(TableId::Workloads, newer);
        let made = bodies(&scene);
        assert_eq!(made.len(), 2, "{class}");
        for body in made {
            assert_eq!(body["spec"]["template"]["spec"]["runtime"]["class"], class);
            let mut stored = body.clone();
            stored["metadata"]["uid"] = json!(format!("u-{}", body["metadata"]["name"]));
            let table = deployments(&scene);
            scene.apply(table, stored);
        }
        assert_eq!(
            bodies(&scene),
            [] as [Value; 0],
            "{class}: it is as it was written"
        );
    }
}

#[test]
fn instance_types_and_networks_of_other_namespaces_are_those_of_the_settings() {
    let mut scene = Scene::new(WorkloadChecks::default());
    let mut other = shop(10);
    other["spec"]["template"]["spec"]["runtime"]["resources"]["instanceType"] = json!("acme/large");
    other["spec"]["template"]["spec"]["networkInterfaces"][0]["network"]["namespace"] = json!("shared");
    scene.apply(TableId::Workloads, other);
    assert_eq!(bodies(&scene), [] as [Value; 0]);
    scene
        .index
        .checks
        .catalog
        .instance_types
        .insert("acme/large".to_owned());
    assert_eq!(
        bodies(&scene),
        [] as [Value; 0],
        "the Network is of another namespace"
    );
    scene.index.checks.foreign_networks = true;
    assert_eq!(bodies(&scene).len(), 2);
}

/// A tenant's Workload with 2,048 places and a spec of the largest size would take half a gigabyte as one plan.
#[test]
fn a_plan_with_many_large_bodies_is_executed_in_parts() {
    let mut scene = Scene::new(WorkloadChecks::default());
    let cities: Vec<String> = (0..5).map(|n| format!("C{n}")).collect();
    let mut wide = shop(10);
    wide["spec"]["placements"][0]["cityCodes"] = json!(cities);
    scene.apply(TableId::Workloads, wide);
    let Ok(observed) = observe::observe(&scene.index, &key(&scene), &scene.project, None) else {
        panic!("it is there and can be read");
    };
    let plan = decide(&observed.snapshot, at(0));
    let part = |written: &[&str]| {
        let written = written.iter().map(|name| (*name).to_owned()).collect();
        let part = Part::of(plan.clone(), 2, &written);
        (words(&part.effects), part.is_first_of_several)
    };
    let names = [
        "shop-us-c0",
        "shop-us-c1",
        "shop-us-c2",
        "shop-us-c3",
        "shop-us-c4",
    ];
    let create = |n: usize| format!("create {} us/C{n}", names[n]);
    assert_eq!(part(&[]), (vec![create(0), create(1)], true));
    assert_eq!(part(&names[..2]), (vec![create(2), create(3)], true));
    assert_eq!(part(&names[..4]), (vec![create(4), "status".to_owned()], false));
    assert_eq!(part(&names), (vec!["status".to_owned()], false));
}

#[test]
fn the_texts_that_are_kept_of_one_project_have_a_bound() {
    let mut scene = Scene::new(WorkloadChecks::default());
    let named = |n: usize| {
        let mut one = shop(15 * 1024);
        one["metadata"]["name"] = json!(format!("w-{n}"));
        one["metadata"]["uid"] = json!(format!("u-{n}"));
        one
    };
    for n in 0..400 {
        scene.apply(TableId::Workloads, named(n));
    }
    let full = kept(&scene);
    assert!(full <= TEXTS_OF_PROJECT, "{full}");
    assert!(full + 16 * 1024 > TEXTS_OF_PROJECT, "{full}");
    for n in 0..400 {
        scene.delete(TableId::Workloads, named(n));
    }
    scene.apply(TableId::Workloads, named(0));
    assert!(kept(&scene) > 15 * 1024, "there is room again");
}

#[test]
fn a_spec_over_the_limit_is_refused_at_the_workload_and_its_deployments_stay() {
    let mut scene = Scene::new(WorkloadChecks::default());
    let table = deployments(&scene);
    scene.apply(table, deployment_in_dfw());
    for object in [shop(257 * 1024), nested(shop(10))] {
        scene.apply(TableId::Workloads, object.clone());
        let read = digest(object);
        let effects = decided(&scene, Some(&read)).unwrap();
        let [PatchStatus(status)] = &effects[..] else {
            panic!("{:?}", words(&effects));
        };
        for (kind, truth) in [
            ("Available", ConditionStatus::False),
            ("Ready", ConditionStatus::False),
            ("Stalled", ConditionStatus::True),
        ] {
            let condition = find(&status.conditions, kind).unwrap();
            assert_eq!(
                (condition.status, &*condition.reason),
                (truth, "SpecTooLarge"),
                "{kind}"
            );
            assert!(condition.message.contains("the most") || condition.message.contains("at most"));
        }
        assert_eq!(status.deployments, 1);
    }
    scene.index.largest_spec = 512 * 1024;
    scene.apply(TableId::Workloads, shop(257 * 1024));
    let effects = decided(&scene, Some(&digest(shop(257 * 1024)))).unwrap();
    assert!(words(&effects).len() > 1, "a larger limit admits it");
}

/// The Workload with more levels of maps in its labels' place than are carried.
fn nested(mut shop: Value) -> Value {
    let deep = (0..70).fold(json!("deep"), |inner, _| json!({ "level": inner }));
    shop["spec"]["unknown"] = deep;
    shop
}

/// Reconciles `shop`, which has so many bytes in the index, and other ones at its plane.
async fn reconciled(scene: Scene, object: Value) -> (Result<Requeue, Failure>, Vec<String>) {
    let key = key(&scene);
    let rig = Rig::new(scene.index, move |method, _| match *method {
        Method::GET => (200, object.clone()),
        _ => (LOST, Value::Null),
    });
    let end = driver::reconcile(&Workloads::default(), &rig.reconcile_once(), &key).await;
    (end, rig.asked())
}

#[tokio::test]
async fn a_workload_whose_text_is_not_kept_is_read_once_before_it_is_decided_on() {
    let mut scene = Scene::new(WorkloadChecks::default());
    scene.apply(TableId::Workloads, shop(20 * 1024));
    let mut stored = shop(20 * 1024);
    stored["metadata"]["resourceVersion"] = json!("9");
    let (end, asked) = reconciled(scene, stored).await;
    assert!(end.is_err(), "the write has no answer");
    assert_eq!(asked, ["GET shop", "POST workloaddeployments"]);
}

#[tokio::test]
async fn a_plane_that_answers_with_an_older_workload_is_not_asked_without_end() {
    let mut scene = Scene::new(WorkloadChecks::default());
    scene.apply(TableId::Workloads, shop(20 * 1024));
    let mut older = shop(30 * 1024);
    older["metadata"]["resourceVersion"] = json!("1");
    let (end, asked) = reconciled(scene, older).await;
    assert_eq!(end.ok(), Some(Requeue::After(RETRY_AFTER)));
    assert_eq!(asked, ["GET shop"]);
}
