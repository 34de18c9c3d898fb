//! Failures of many keys at once: their number, and their lines in the log.

use crate::{
    ops::Op::*,
    rig::{HUB, Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_engine::{error::Category, key::Plane, runtime::failures::Cause};
use fedgate_simulator::Down;
use parking_lot::Mutex;
use serde_json::Value;
use std::{io, sync::Arc, time::Duration};

/// Deployments that are edited while the hub is down.
const EDITED: usize = 100;

/// Log lines in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn saying(&self, message: &str) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["message"].as_str().is_some_and(|m| m.starts_with(message)))
            .collect()
    }
}

/// Keys behind a hub that is down are one failure, with one line at its begin and one at its end.
#[test]
fn keys_behind_a_hub_that_is_down_are_one_failure_and_one_line() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(subscriber.finish());
    for down in [Down::Refused, Down::BlackHole] {
        lines.0.lock().clear();
        simulate(outage(lines.clone(), down));
    }
}

async fn outage(lines: Lines, down: Down) {
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
            failures.describe(&shared.queue.backoffs().behind)
        );
        assert_eq!(*causes[0].0, Cause::Plane(Plane::Hub));
        assert!(
            matches!(causes[0].1.category, Category::Network | Category::Timeout),
            "{causes:?}"
        );
        let behind = shared.queue.backoffs().behind;
        assert_eq!(behind.get(&causes[0].0), Some(&EDITED), "{down:?}");
    }
    let reported = lines.saying("the plane is down");
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(reported[0]["plane"], "hub");
    assert_eq!(lines.saying("a key is stuck"), Vec::<Value>::new());
    handle.set_down(None);
    rest(SETTLED).await;
    let shared = &rig.gateway().shared;
    assert_eq!(shared.workers.failures().count(), 0);
    assert_eq!(
        shared.queue.backoffs(),
        fedgate_engine::runtime::queue::Backoffs::default()
    );
    assert_eq!(lines.saying("the plane answers again").len(), 1);
    assert_eq!(lines.saying("the key is settled again"), Vec::<Value>::new());
}
