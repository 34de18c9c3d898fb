//! Two gateways with a hub each that are given one project: one of them has it, and the other changes nothing. And a hub
//! that is made anew with another UID.

use crate::{
    end::wrong,
    operations::operations,
    ops::Op::*,
    rig::{HUB, Rig, rest, simulate, user},
    scenarios::SETTLED,
};
use fedgate_api::keys;
use fedgate_operations::{Class, OperationsSource, query::Query};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

const SECOND: &str = "hub-2";

/// When the clocks of the simulated API servers, and those of gateways, begin.
const SERVERS: i64 = 1_767_225_600;
const GATEWAYS: i64 = 1_800_000_000;

/// The changes that a gateway has made, its own matters aside.
fn written(rig: &Rig, replica: u32) -> Vec<String> {
    let user = user(replica);
    let entries = rig.simulator.log().entries();
    let own = entries.iter().filter(|e| {
        let is_own_matter = ["leases", "events", "resourceinterpretercustomizations"].contains(&&*e.resource);
        *e.user == *user && e.verb.writes() && e.changed && !is_own_matter
    });
    own.map(ToString::to_string).collect()
}

/// The hub that each deployment of the project names.
fn named(rig: &Rig) -> Vec<Value> {
    let all = rig.projects["p"].list("WorkloadDeployment");
    let hub = |d: &Value| d["metadata"]["annotations"][keys::HUB].clone();
    all.iter().map(|d| hub(d)).collect()
}

fn uid_of(rig: &Rig, hub: &str) -> Value {
    let plane = rig.simulator.plane(hub).unwrap();
    plane.get("Namespace", "", "kube-system").unwrap()["metadata"]["uid"].clone()
}

/// The names of the copies on a hub.
fn copies(rig: &Rig, hub: &str) -> BTreeSet<String> {
    let all = rig.simulator.plane(hub).unwrap().list("WorkloadDeployment");
    let name = |o: &Value| o["metadata"]["name"].as_str().unwrap().to_owned();
    all.iter().map(|o| name(o)).collect()
}

/// The words of the planes that are stuck.
fn stuck_planes(rig: &Rig) -> Vec<String> {
    let stuck = operations(rig).stuck(&Query::default());
    let planes = stuck.items.iter().filter(|group| group.class == Class::Plane);
    planes.map(|group| group.word.clone()).collect()
}

#[test]
fn a_project_that_another_gateway_has_is_left_to_it() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 2).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert_eq!(named(&rig), [uid_of(&rig, HUB)]);
        let _second = rig.add_hub(SECOND);
        rig.start_at(1, SECOND);
        rest(SETTLED).await;
        for step in [
            Scale("p", "default", "web", 3),
            Create("p", "default", "api", "LHR", 1),
            Workload("p", "default", "shop", &["DFW"]),
            Delete("p", "default", "web"),
        ] {
            step.apply(&mut rig);
            rest(SETTLED).await;
        }
        rest(Duration::from_hours(2)).await;
        assert_eq!(written(&rig, 1), Vec::<String>::new());
        assert_eq!(copies(&rig, SECOND), BTreeSet::new());
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert_eq!(named(&rig), vec![uid_of(&rig, HUB); 2]);
        assert_eq!(stuck_planes(&rig), Vec::<String>::new(), "the first one is well");
    });
}

#[test]
fn of_two_gateways_that_meet_at_a_project_one_has_each_deployment() {
    for seed in 0..10 {
        simulate(async {
            let mut rig = Rig::new(seed, &["p"]);
            let _second = rig.add_hub(SECOND);
            for name in ["a", "b", "c"] {
                Create("p", "default", name, "DFW", 1).apply(&mut rig);
            }
            rig.start();
            rig.start_at(1, SECOND);
            rest(SETTLED).await;
            for name in ["d", "e"] {
                Create("p", "default", name, "LHR", 1).apply(&mut rig);
            }
            rest(SETTLED).await;
            let (one, other) = (copies(&rig, HUB), copies(&rig, SECOND));
            let both: Vec<_> = one.intersection(&other).collect();
            assert!(both.is_empty(), "seed {seed}: {both:?} are on both hubs");
            let hubs = [uid_of(&rig, HUB), uid_of(&rig, SECOND)];
            for (hub, copies) in [(HUB, &one), (SECOND, &other)] {
                let uid = uid_of(&rig, hub);
                let named = named(&rig).iter().filter(|named| **named == uid).count();
                assert_eq!(copies.len(), named, "seed {seed}: {hub} has those that name it");
            }
            assert!(
                named(&rig).iter().all(|named| hubs.contains(named)),
                "seed {seed}"
            );
            rig.simulator.log().clear();
            rest(Duration::from_hours(2)).await;
            let fought: Vec<_> = written(&rig, 0).into_iter().chain(written(&rig, 1)).collect();
            assert_eq!(fought, Vec::<String>::new(), "seed {seed}: nobody fights");
        });
    }
}

#[test]
fn a_project_moves_to_another_hub_once_its_deployments_name_none() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        let _second = rig.add_hub(SECOND);
        rig.start_at(1, SECOND);
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(copies(&rig, SECOND).len(), 1);
        rig.start();
        rest(SETTLED).await;
        assert_eq!(written(&rig, 0), Vec::<String>::new());
        assert_eq!(stuck_planes(&rig), ["other_hub"]);
        assert!(rig.metrics().contains("fedgate_projects{state=\"other_hub\"} 1"));
        rig.kill_replica(1).await;
        let none = json!({"metadata": {"annotations": {keys::HUB: null}}});
        let plane = rig.simulator.plane("p").unwrap();
        plane.merge("WorkloadDeployment", "default", "web", none).unwrap();
        rest(SETTLED).await;
        assert_eq!(named(&rig), [uid_of(&rig, HUB)]);
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert_eq!(stuck_planes(&rig), Vec::<String>::new());
        assert!(rig.metrics().contains("fedgate_projects{state=\"other_hub\"} 0"));
    });
}

/// A gateway with deployments, whose clock is that of the API servers.
async fn settled() -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.off.store(SERVERS - GATEWAYS, Ordering::Relaxed);
    rig.settings.projection_retention = Duration::from_hours(1);
    rig.start();
    for name in ["web", "api", "db"] {
        Create("p", "default", name, "DFW", 1).apply(&mut rig);
    }
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig
}

/// Deletions of the project's Instances.
fn lost(rig: &Rig) -> Vec<String> {
    let deletions = written(rig, 0).into_iter();
    deletions
        .filter(|line| line.contains("delete") && line.contains("instances"))
        .collect()
}

#[test]
fn a_hub_made_anew_with_another_uid_takes_the_place_of_the_former() {
    simulate(async {
        let mut rig = settled().await;
        let former = uid_of(&rig, HUB);
        rig.simulator.log().clear();
        rig.renew_hub();
        rest(SETTLED).await;
        assert_ne!(uid_of(&rig, HUB), former);
        assert_eq!(named(&rig), vec![uid_of(&rig, HUB); 3]);
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert_eq!(lost(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_gateway_that_never_had_the_former_hub_waits_for_an_operator() {
    simulate(async {
        let mut rig = settled().await;
        let former = uid_of(&rig, HUB);
        rig.kill().await;
        rig.renew_hub();
        rig.simulator.log().clear();
        rig.start();
        rest(SETTLED).await;
        assert_eq!(written(&rig, 0), Vec::<String>::new());
        assert_eq!(stuck_planes(&rig), ["other_hub"]);
        let says =
            json!({"metadata": {"name": "fedgate-system", "annotations": {keys::REPLACES_HUB: former}}});
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace"});
        namespace["metadata"] = says["metadata"].clone();
        rig.hub.create(namespace).unwrap();
        rest(SETTLED).await;
        assert_eq!(named(&rig), vec![uid_of(&rig, HUB); 3]);
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert_eq!(lost(&rig), Vec::<String>::new());
        assert_eq!(stuck_planes(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_project_whose_plane_is_the_hub_is_left_alone() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 2).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(copies(&rig, HUB).len(), 1);
        rig.simulator.log().clear();
        rig.engage(HUB);
        rest(Duration::from_hours(1)).await;
        assert_eq!(written(&rig, 0), Vec::<String>::new());
        assert_eq!(stuck_planes(&rig), ["plane_is_hub"]);
        assert!(rig.metrics().contains("fedgate_projects{state=\"refused\"} 1"));
        rig.leave(HUB);
        Delete("p", "default", "web").apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(copies(&rig, HUB), BTreeSet::new(), "no finalizer keeps it");
        assert_eq!(stuck_planes(&rig), Vec::<String>::new());
    });
}
