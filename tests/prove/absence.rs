//! Absence in a view that is not live proves nothing: a gateway that cannot see what is there keeps what came of it.

use crate::{
    end::wrong,
    ops::Op::{self, *},
    rig::{HUB, Rig, rest, simulate, user},
    scenarios::SETTLED,
};
use fedgate_simulator::{Fault, Rule, Verb, When};
use std::time::Duration;

/// What is deleted at a plane while nobody asked for it, a line each.
fn deleted(rig: &Rig, plane: &str) -> Vec<String> {
    let entries = rig.simulator.log().entries();
    let deletes = entries
        .iter()
        .filter(|e| &*e.plane == plane && e.verb == Verb::Delete && e.changed);
    deletes.map(ToString::to_string).collect()
}

/// A standby that knows the project `p`, and a leader.
async fn led() -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.elected = true;
    rig.start_as(0);
    rest(Duration::from_secs(20)).await;
    rig.start_as(1);
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig
}

const NEW: [&str; 5] = ["one", "two", "three", "four", "five"];

/// The standby loses its way to `plane`, then the leader carries this, and 90 s later hands over.
async fn led_by_one_that_is_cut_off(plane: &str, meanwhile: &[Op]) {
    let mut rig = led().await;
    let rule = Rule::new(When::Always, Fault::DropBefore)
        .plane(plane)
        .user(&user(1));
    let rule = rig.simulator.faults().add(rule);
    rig.simulator.plane(plane).unwrap().close_watches(None);
    rest(Duration::from_secs(1)).await;
    for op in meanwhile {
        op.apply(&mut rig);
    }
    rest(Duration::from_secs(90)).await;
    rig.simulator.log().clear();
    rig.stop_replica(0).await;
    rest(Duration::from_mins(4)).await;
    assert_eq!(deleted(&rig, HUB), Vec::<String>::new());
    assert_eq!(deleted(&rig, "p"), Vec::<String>::new());
    rig.simulator.faults().remove(rule);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    assert_eq!(deleted(&rig, HUB), Vec::<String>::new());
}

#[test]
fn a_new_leader_that_is_cut_off_from_a_project_keeps_what_it_does_not_see() {
    simulate(async {
        let new = NEW.map(|name| Create("p", "default", name, "DFW", 1));
        led_by_one_that_is_cut_off("p", &new).await;
    });
}
