//! Failures of many keys at once: their number, their lines in the log, and what metrics show of planes and deletions.

use crate::{
    logs,
    ops::Op::*,
    rig::{HUB, Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_engine::{error::Category, key::Plane, runtime::failures::Cause};
use fedgate_simulator::Down;
use serde_json::Value;
use std::time::Duration;

/// Deployments that are edited while the hub is down.
const EDITED: usize = 100;

/// Keys behind a hub that is down are one failure, with one line at its begin and one at its end.
#[test]
#[ignore = "verify: a hundred keys behind a long outage"]
fn keys_behind_a_hub_that_is_down_are_one_failure_and_one_line() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(outage(down));
    }
}

fn saying<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    let says = |line: &&Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.starts_with(message))
    };
    lines.iter().filter(says).collect()
}

async fn outage(down: Down) {
    let logged = logs::capture(tracing::Level::INFO);
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    // An operation has the names of a scenario, which are constants.
    let names: Vec<&str> = (0..EDITED).map(|n| &*format!("web-{n}").leak()).collect();
    for name in &names {
        Create("p", "default", name, "DFW", 1).apply(&mut rig);
    }
    rest(SETTLED).await;
    let handle = rig.simulator.plane(HUB).unwrap();
    handle.set_down(Some(down));
    rest(Duration::from_secs(1)).await;
    for name in &names {
        Scale("p", "default", name, 2).apply(&mut rig);
    }
    rest(Duration::from_mins(2)).await;
    {
        let shared = &rig.gateway().shared;
        let failures = shared.workers.failures();
        let causes = failures.causes();
        assert_eq!(
            failures.count(),
            1,
            "{down:?}: {:?}",
            failures.describe(&shared.queue.backoffs().behind())
        );
        assert_eq!(*causes[0].0, Cause::Plane(Plane::Hub));
        assert!(
            matches!(causes[0].1.category, Category::Network | Category::Timeout),
            "{causes:?}"
        );
        let behind = shared.queue.backoffs().behind();
        assert_eq!(behind.get(&causes[0].0), Some(&EDITED), "{down:?}");
    }
    let lines = logged.take();
    let reported = saying(&lines, "the plane is down");
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(reported[0]["plane"], "hub");
    assert_eq!(saying(&lines, "a key is stuck"), Vec::<&Value>::new());
    handle.set_down(None);
    rest(SETTLED).await;
    let shared = &rig.gateway().shared;
    assert_eq!(shared.workers.failures().count(), 0);
    assert_eq!(
        shared.queue.backoffs(),
        fedgate_engine::runtime::queue::Backoffs::default()
    );
    let lines = logged.take();
    assert_eq!(saying(&lines, "the plane answers again").len(), 1);
    assert_eq!(saying(&lines, "the key is settled again"), Vec::<&Value>::new());
}

/// The value of a series in the text of a scrape.
fn value<'a>(text: &'a str, series: &str) -> &'a str {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing in {text}"))
}

/// An age in the text of a scrape, in seconds.
fn age(text: &str, series: &str) -> f64 {
    value(text, series).parse().unwrap()
}

#[test]
fn metrics_tell_the_hub_from_projects_and_name_nobody() {
    for (down, hub, project) in [
        (HUB, "backoff", "connected"),
        ("shop-one", "connected", "backoff"),
    ] {
        simulate(async move {
            let mut rig = Rig::new(1, &["shop-one"]);
            rig.start();
            Create("shop-one", "default", "web", "DFW", 1).apply(&mut rig);
            rest(SETTLED).await;
            let text = rig.metrics();
            assert_eq!(
                value(&text, r#"fedgate_planes{plane="hub",state="connected"}"#),
                "1"
            );
            assert_eq!(
                value(&text, r#"fedgate_planes{plane="hub",state="backoff"}"#),
                "0"
            );
            assert_eq!(value(&text, r#"fedgate_projects{state="engaged"}"#), "1");
            assert_eq!(value(&text, r#"fedgate_projects{state="refused"}"#), "0");
            rig.simulator.plane(down).unwrap().set_down(Some(Down::Refused));
            Scale("shop-one", "default", "web", 2).apply(&mut rig);
            rest(Duration::from_mins(2)).await;
            let text = rig.metrics();
            for (plane, state) in [("hub", hub), ("project", project)] {
                let series = format!("fedgate_planes{{plane=\"{plane}\",state=\"{state}\"}}");
                assert_eq!(value(&text, &series), "1", "{down} is down");
            }
            assert!(
                age(&text, "fedgate_oldest_stuck_key_seconds") >= 100.0,
                "{down} is down"
            );
            assert_eq!(value(&text, "fedgate_failures"), "1");
            for name in ["shop", "default", "web", "DFW", "dfw", "ns-"] {
                let named = text
                    .lines()
                    .find(|line| line.contains(name) && !line.starts_with('#'));
                assert_eq!(named, None, "{name}");
            }
        });
    }
}

/// The age of a deletion is that of its deletionTimestamp, also in the first scrape of a gateway that has just started.
#[test]
fn a_deletion_is_as_old_as_its_timestamp_in_the_first_scrape() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(SETTLED).await;
        rig.simulator.plane(HUB).unwrap().set_down(Some(Down::Refused));
        Delete("p", "default", "web").apply(&mut rig);
        rest(Duration::from_mins(20)).await;
        rig.kill().await;
        rig.start();
        rest(Duration::from_secs(1)).await;
        let text = rig.metrics();
        assert!(
            age(&text, "fedgate_oldest_pending_deletion_seconds") >= 1_200.0,
            "{text}"
        );
    });
}
