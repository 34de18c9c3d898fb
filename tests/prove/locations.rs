//! A fleet whose city gets a location (docs/contract/locations.md §4, rows 22 and 24).

use crate::{
    end::wrong,
    ops::{LOCATION, Op::*},
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::SETTLED,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Deployments of the city.
const COPIES: usize = 100;

/// The names of the deployments.
fn names() -> Vec<&'static str> {
    let name = |n: usize| &*Box::leak(format!("web-{n:03}").into_boxed_str());
    (0..COPIES).map(name).collect()
}

/// The gateway's writes of copies since the log was cleared: how many each second, and how often each copy.
fn writes(rig: &Rig) -> (BTreeMap<u64, usize>, BTreeMap<String, usize>) {
    let entries = rig.simulator.log().entries();
    let ours = entries.iter().filter(|e| {
        &*e.user == GATEWAY && &*e.plane == HUB && e.verb.writes() && &*e.resource == "workloaddeployments"
    });
    let (mut seconds, mut copies) = (BTreeMap::new(), BTreeMap::new());
    let Some(first) = entries.first().map(|e| e.at) else {
        return (seconds, copies);
    };
    for entry in ours {
        *seconds.entry((entry.at - first).as_secs()).or_default() += 1;
        *copies.entry(entry.name.clone()).or_default() += 1;
    }
    (seconds, copies)
}

fn copies_at(rig: &Rig, location: Option<&str>) -> usize {
    let copies = rig.hub.list("WorkloadDeployment");
    let named = |copy: &&Arc<Value>| copy["spec"]["locationRef"]["name"].as_str() == location;
    copies.iter().filter(named).count()
}

/// UIDs of all Instances of the project.
fn instances(rig: &Rig) -> BTreeMap<String, String> {
    let all = rig.projects["p"].list("Instance");
    let text = |of: &Value, field: &str| of["metadata"][field].as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|one| (text(one, "name"), text(one, "uid")))
        .collect()
}

#[test]
#[ignore = "verify: hundreds of copies"]
fn when_a_city_gets_its_location_each_copy_is_written_once_at_the_hubs_pace() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        for name in names() {
            Create("p", "default", name, "DFW", 1).apply(&mut rig);
        }
        rest(2 * SETTLED).await;
        let before = instances(&rig);
        assert_eq!((before.len(), copies_at(&rig, None)), (COPIES, COPIES));

        rig.simulator.log().clear();
        Label(true).apply(&mut rig);
        rest(2 * SETTLED).await;
        assert_eq!(copies_at(&rig, Some(LOCATION)), COPIES);
        let (seconds, copies) = writes(&rig);
        assert!(copies.values().all(|count| *count == 1), "{copies:?}");
        assert_eq!(copies.len(), COPIES);
        // The first second spends what the project has saved.
        for (second, count) in seconds.iter().skip(1) {
            assert!(*count <= 10, "{count} in second {second}");
        }
        assert_eq!(instances(&rig), before, "no Instance is replaced");

        rig.simulator.log().clear();
        rig.kill().await;
        rig.start();
        rest(SETTLED).await;
        assert_eq!(writes(&rig).1, BTreeMap::new(), "a restart writes nothing");

        // And back: a half of the tenants has changed its form meanwhile.
        for name in names().into_iter().step_by(2) {
            Locate("p", "default", name, LOCATION).apply(&mut rig);
        }
        rest(2 * SETTLED).await;
        assert_eq!(instances(&rig), before);
        for name in names().into_iter().step_by(2) {
            Move("p", "default", name, "DFW").apply(&mut rig);
        }
        rest(2 * SETTLED).await;
        Label(false).apply(&mut rig);
        rest(2 * SETTLED).await;
        assert_eq!((instances(&rig), copies_at(&rig, None)), (before, COPIES));
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}
