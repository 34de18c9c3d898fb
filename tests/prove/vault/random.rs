//! Random courses in which vaults are made, changed and deleted, and hands delete what belongs to them on the hub.

use super::{
    end::wrong,
    invariants::Guard,
    ops::Act,
    rig::{MEMBERS, Scene},
};
use crate::{
    invariants::{Watchman, restless},
    random::{Disturbance, QUIET, SETTLED, disturb, disturbance, pause, seeded, share},
    rig::{Rig, rest, simulate},
};
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

/// How many seeds are drawn without being asked for more.
const SEEDS: u64 = 24;

type Moment = (Act, Disturbance, u64);

fn act() -> impl Strategy<Value = Act> {
    let project = prop::sample::select(vec!["p", "q"]);
    let namespace = prop::sample::select(vec!["default", "shop"]);
    let name = prop::sample::select(vec!["gold", "iron"]);
    let city = prop::sample::select(vec!["DFW", "DFW", "LHR"]);
    let cluster = prop::sample::select(MEMBERS.to_vec());
    let place = (project.clone(), namespace.clone(), name.clone());
    prop_oneof![
        2 => project.clone().prop_map(|p| Act::Namespace(p, "shop")),
        1 => project.clone().prop_map(|p| Act::DropNamespace(p, "shop")),
        3 => (project, namespace, prop::sample::select(vec!["b25l", "dHdv"]))
            .prop_map(|(p, ns, v)| Act::Secret(p, ns, v)),
        8 => (place.clone(), city).prop_map(|((p, ns, n), c)| Act::Create(p, ns, n, c)),
        4 => (place.clone(), 2..6u32).prop_map(|((p, ns, n), s)| Act::Edit(p, ns, n, s)),
        4 => (place.clone(), any::<bool>()).prop_map(|((p, ns, n), on)| Act::Suspend(p, ns, n, on)),
        4 => place.prop_map(|(p, ns, n)| Act::Delete(p, ns, n)),
        2 => name.clone().prop_map(Act::DropCopy),
        1 => name.prop_map(Act::DropSeal),
        2 => prop::sample::select(vec!["-pin-", "-drop-", "-hold-", "with-", "-choose-", "keep-", "park-"])
            .prop_map(Act::DropPolicies),
        4 => (cluster.clone(), any::<bool>())
            .prop_map(|((name, city), has)| Act::City(name, has.then_some(city))),
        1 => (cluster.clone(), any::<bool>()).prop_map(|((name, _), on)| Act::Taint(name, on)),
        1 => (cluster, any::<bool>()).prop_map(|((name, _), on)| Act::Ready(name, on)),
    ]
}

/// Courses in which guards are set and taken off, too, most of them of one vault that is made and deleted often; those of
/// [`course`] stay what their seeds have drawn.
fn guarded_course() -> impl Strategy<Value = (u64, Vec<Moment>)> {
    let (p, ns, name) = ("p", "default", "gold");
    let of_one = prop::sample::select(vec![
        Act::Secret(p, ns, "b25l"),
        Act::Create(p, ns, name, "DFW"),
        Act::Lock(p, ns, name, true),
        Act::Lock(p, ns, name, true),
        Act::Lock(p, ns, name, false),
        Act::Delete(p, ns, name),
    ]);
    let any_act = prop_oneof![1 => act(), 1 => of_one];
    let moments = prop::collection::vec((any_act, disturbance(), pause()), 8..28);
    (any::<u64>(), moments)
}

fn course() -> impl Strategy<Value = (u64, Vec<Moment>)> {
    let moments = prop::collection::vec((act(), disturbance(), pause()), 4..24);
    (any::<u64>(), moments)
}

/// All is well again: what was suspended goes on, and each namespace has its Secret.
fn heal(scene: &Scene) {
    for (name, city) in MEMBERS {
        for act in [
            Act::City(name, Some(city)),
            Act::Taint(name, false),
            Act::Ready(name, true),
        ] {
            act.apply(&scene.rig);
        }
    }
    for project in ["p", "q"] {
        for namespace in ["default", "shop"] {
            Act::Secret(project, namespace, "b25l").apply(&scene.rig);
            for name in ["gold", "iron"] {
                Act::Suspend(project, namespace, name, false).apply(&scene.rig);
                Act::Lock(project, namespace, name, false).apply(&scene.rig);
            }
        }
    }
}

/// An operator does what doctor says of hub Namespaces: one that its member never had, since that could not be reached, and that
/// Karmada takes off it again, leaves a Work that does not end.
fn end_stuck_works(rig: &Rig) {
    for work in rig.hub.list("Work") {
        let is_of_namespace = work["spec"]["workload"]["manifests"][0]["kind"] == "Namespace";
        if is_of_namespace && !work["metadata"]["deletionTimestamp"].is_null() {
            let text = |key: &str| work["metadata"][key].as_str().unwrap_or_default();
            let freed = json!({"metadata": {"finalizers": null}});
            drop(rig.hub.merge("Work", text("namespace"), text("name"), freed));
        }
    }
}

async fn play(seed: u64, moments: &[Moment]) -> Vec<String> {
    let mut scene = Scene::new(seed, &["p", "q"]);
    scene
        .rig
        .simulator
        .latency(Some(Duration::from_micros(200)..=Duration::from_millis(20)));
    for project in ["p", "q"] {
        Act::Secret(project, "default", "b25l").apply(&scene.rig);
    }
    scene.rig.start();
    for (act, disturbance, pause) in moments {
        act.apply(&scene.rig);
        disturb(&mut scene.rig, disturbance).await;
        rest(Duration::from_millis(*pause)).await;
    }
    heal(&scene);
    scene.rig.karmada.hold_bindings(false);
    rest(Duration::from_secs(40)).await;
    scene.rig.simulator.faults().clear();
    end_stuck_works(&scene.rig);
    rest(SETTLED).await;
    let changes = scene.rig.simulator.take_changes();
    let mut lines = Guard::default().violations(&changes);
    lines.extend(Watchman::default().violations(&changes));
    lines.extend(wrong(&scene.rig));
    scene.rig.simulator.log().clear();
    rest(QUIET).await;
    lines.extend(restless(&scene.rig.simulator.log().entries()));
    lines
}

fn violates_nothing(seed: u64) {
    seeded(seed, 20, &course(), |(seed, moments)| {
        simulate(play(seed, &moments))
    });
}

#[test]
fn random_courses_of_vaults_violate_nothing() {
    share(0, 2, "FEDGATE_PROVE_SEEDS", SEEDS, violates_nothing);
}

#[test]
fn more_random_courses_of_vaults_violate_nothing() {
    share(1, 2, "FEDGATE_PROVE_SEEDS", SEEDS, violates_nothing);
}

#[test]
fn random_courses_of_guarded_vaults_violate_nothing() {
    share(0, 1, "FEDGATE_PROVE_SEEDS", SEEDS / 2, |seed| {
        seeded(seed, 20, &guarded_course(), |(seed, moments)| {
            simulate(play(seed, &moments))
        });
    });
}

#[test]
fn courses_that_have_failed_once_violate_nothing() {
    [12, 255, 294, 336, 489, 502, 717, 937, 1310, 1398]
        .into_iter()
        .for_each(violates_nothing);
}

/// What a hand takes on the hub, or a Cluster loses, ends nothing at the member (G41).
fn taken(act: Act) {
    let moments = [
        (
            Act::Create("q", "default", "gold", "DFW"),
            Disturbance::None,
            15_000,
        ),
        (act, Disturbance::None, 12_000),
    ];
    assert_eq!(simulate(play(1, &moments)), Vec::<String>::new(), "{act:?}");
}

#[test]
fn a_copy_that_a_hand_deletes_comes_again() {
    taken(Act::DropCopy("gold"));
}

#[test]
fn a_seal_that_a_hand_deletes_comes_again() {
    taken(Act::DropSeal("gold"));
}

#[test]
fn policies_that_a_hand_deletes_come_again() {
    for part in ["-pin-", "with-", "keep-"] {
        taken(Act::DropPolicies(part));
    }
}

#[test]
fn a_vault_outlives_its_clusters_label() {
    taken(Act::City("dfw-1", None));
}

#[test]
fn a_hub_namespace_that_a_hand_deletes_comes_again() {
    taken(Act::DropHubNamespaces);
}
