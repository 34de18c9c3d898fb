//! One tenant's many changes cost the others nothing, and none of them is lost.

use crate::{
    end::wrong,
    invariants::Watchman,
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_simulator::Verb;
use serde_json::json;
use std::time::Duration;

const DEPLOYMENTS: usize = 300;
/// How long one tenant changes all of its deployments every second.
const ROUNDS: u32 = 20;

/// Operations are made of words that live as long as the process.
fn word(text: String) -> &'static str {
    text.leak()
}

/// How many copies with such names the gateway has written to the hub since the log was cleared.
fn copies_written(rig: &Rig, prefix: &str) -> usize {
    let entries = rig.simulator.log().entries();
    let copies = entries.iter().filter(|e| {
        &*e.user == GATEWAY
            && &*e.plane == HUB
            && matches!(e.verb, Verb::Create | Verb::Patch)
            && &*e.resource == "workloaddeployments"
            && e.name.starts_with(prefix)
    });
    copies.count()
}

fn image_on_hub(rig: &Rig, name: &str) -> String {
    let copies = rig.hub.list("WorkloadDeployment");
    let copy = copies.iter().find(|copy| copy["metadata"]["name"] == *name);
    let image = copy.map(|c| &c["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"]);
    image.and_then(|i| i.as_str()).unwrap_or_default().to_owned()
}

async fn beside_a_restless_tenant() {
    let mut rig = Rig::new(1, &["restless", "quiet"]);
    rig.start();
    let names: Vec<&str> = (0..DEPLOYMENTS).map(|n| word(format!("web-{n}"))).collect();
    for name in &names {
        Create("restless", "default", name, "DFW", 0).apply(&mut rig);
    }
    Create("quiet", "default", "first", "DFW", 0).apply(&mut rig);
    rest(Duration::from_secs(5)).await;
    assert_eq!(rig.hub.list("WorkloadDeployment").len(), DEPLOYMENTS + 1);
    // What cells report is no part of this.
    rig.cells_rest();
    rig.simulator.log().clear();
    let mut last = "";
    for round in 1..=ROUNDS {
        last = word(format!("shop/web:{round}"));
        for name in &names {
            Image("restless", "default", name, last).apply(&mut rig);
        }
        if round.is_multiple_of(5) {
            let fresh = word(format!("fresh-{round}"));
            Create("quiet", "default", fresh, "DFW", 0).apply(&mut rig);
            Image("quiet", "default", "first", last).apply(&mut rig);
            rest(Duration::from_millis(100)).await;
            assert_eq!(copies_written(&rig, fresh), 1, "at once: {fresh}");
            assert_eq!(image_on_hub(&rig, "first"), last, "at once");
            rest(Duration::from_millis(900)).await;
        } else {
            rest(Duration::from_secs(1)).await;
        }
    }
    let written = copies_written(&rig, "web-");
    assert!(
        (90..=120).contains(&written),
        "{written} in {ROUNDS} s: 8 at once, then 5 a second"
    );
    rest(SETTLED).await;
    for name in &names {
        assert_eq!(image_on_hub(&rig, name), last, "{name}");
    }
    assert_eq!(
        Watchman::default().violations(&rig.simulator.take_changes()),
        Vec::<String>::new()
    );
    rig.cells_act();
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig.simulator.log().clear();
    rest(SETTLED).await;
    assert_eq!(rig.writes(), Vec::<String>::new(), "at rest nothing is written");
}

#[test]
#[ignore = "verify: minutes of a storm"]
fn a_restless_tenant_delays_no_other_and_its_last_values_arrive() {
    simulate(beside_a_restless_tenant());
}

/// How many status updates a second a copy gets, and for how many seconds.
const STORM: (u64, u64) = (1_000, 5);

/// Acceptance 29 of federation.md; a real API server takes less than that of one object.
#[test]
fn a_storm_of_status_updates_is_four_writes_a_second_and_its_last_value() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 0).apply(&mut rig);
        rest(SETTLED).await;
        rig.cells_rest();
        rig.simulator.log().clear();
        let copy = rig.hub.list("WorkloadDeployment").remove(0);
        let hub = copy["metadata"]["namespace"].as_str().unwrap();
        let (rate, seconds) = STORM;
        for sent in 1..=rate * seconds {
            let status = json!({"status": {"replicas": sent}});
            rig.hub
                .merge_status("WorkloadDeployment", hub, "web", status)
                .unwrap();
            rest(Duration::from_secs(1) / u32::try_from(rate).unwrap()).await;
        }
        rest(Duration::from_secs(1)).await;
        let source = rig.projects["p"].get("WorkloadDeployment", "default", "web");
        assert_eq!(source.unwrap()["status"]["replicas"], rate * seconds);
        let written = rig
            .writes()
            .iter()
            .filter(|line| line.contains("workloaddeployments/status"))
            .count();
        // Three tokens of progress at once, then one per 250 ms.
        let limit = usize::try_from(3 + 4 * seconds + 1).unwrap();
        assert!((1..=limit).contains(&written), "{written} writes");
        assert_eq!(rig.writes().len(), written, "and nothing else");
    });
}
