//! Policies that are cleaned up while a new deployment wants them, each time at another moment and with other delays. Never
//! is there a deployment whose city is not delivered. `FEDGATE_PROVE_RACES` sets how many interleavings are played.

use crate::{
    end::wrong,
    invariants::Watchman,
    ops::Op::*,
    rig::{Rig, count, rest, simulate},
    scenarios::SETTLED,
};
use std::time::Duration;

/// Interleavings, shared by tests that run side by side.
const RACES: u64 = 10_000;
const SHARES: u64 = 4;
/// Namespaces in which the same happens at a time.
const SIDE_BY_SIDE: [&str; 25] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u",
    "v", "w", "x", "y",
];
const LINGER: Duration = Duration::from_millis(500);
const BEFORE_ITS_END: Duration = Duration::from_millis(450);

/// The last deployment of a city goes, and around the end of the linger another one comes.
async fn interleave(seed: u64) {
    let mut rig = Rig::new(seed, &["p"]);
    rig.simulator.log().disable();
    rig.simulator
        .latency(Some(Duration::from_micros(100)..=Duration::from_millis(15)));
    rig.settings.city_linger = LINGER;
    // Thousands come and go: none of them is to wait for its turn.
    rig.settings.hub_limits.rate = 0;
    rig.start();
    let mut watchman = Watchman::default();
    for namespace in SIDE_BY_SIDE {
        Namespace("p", namespace).apply(&mut rig);
        // The city set of the namespace changes with the city: one stays, one comes and goes.
        Create("p", namespace, "stays", "LHR", 0).apply(&mut rig);
        Create("p", namespace, "web", "DFW", 0).apply(&mut rig);
    }
    rest(Duration::from_secs(20)).await;
    // What they report is no part of this.
    rig.cells_rest();
    let (mut goes, mut comes) = ("web", "api");
    let races = count("FEDGATE_PROVE_RACES", RACES);
    for round in 0..races.div_ceil(SHARES * SIDE_BY_SIDE.len() as u64) {
        for namespace in SIDE_BY_SIDE {
            Delete("p", namespace, goes).apply(&mut rig);
            rest(Duration::from_micros(700)).await;
        }
        // From a little before the clean-up begins until it is over.
        let offset = Duration::from_micros((round * 19_997 + seed * 104_729) % 400_000);
        rest(BEFORE_ITS_END + offset).await;
        for namespace in SIDE_BY_SIDE {
            Create("p", namespace, comes, "DFW", 0).apply(&mut rig);
            rest(Duration::from_micros(700)).await;
        }
        rest(Duration::from_millis(1_500)).await;
        let violated = watchman.violations(&rig.simulator.take_changes());
        assert_eq!(violated, Vec::<String>::new(), "seed {seed}, round {round}");
        std::mem::swap(&mut goes, &mut comes);
    }
    rig.cells_act();
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
}

#[test]
fn a_last_delete_against_a_new_create() {
    simulate(interleave(1));
}

#[test]
fn a_last_delete_against_a_new_create_with_other_delays() {
    simulate(interleave(2));
}

#[test]
fn a_last_delete_against_a_new_create_with_third_delays() {
    simulate(interleave(3));
}

#[test]
fn a_last_delete_against_a_new_create_with_fourth_delays() {
    simulate(interleave(4));
}

/// Rounds of creations that are taken back, in as many namespaces at a time.
const TAKEN_BACK: u64 = 40;

/// A deployment is made and deleted while its copy is on its way to the hub, or while Karmada makes its binding, which takes
/// up to two seconds.
async fn take_back(seed: u64, within: Duration) {
    let mut rig = Rig::unhurried(seed, &["p"]);
    rig.simulator
        .latency(Some(Duration::from_micros(200)..=Duration::from_millis(20)));
    rig.settings.city_linger = LINGER;
    rig.settings.hub_limits.rate = 0;
    rig.start();
    rig.cells_rest();
    let mut watchman = Watchman::default();
    for namespace in SIDE_BY_SIDE {
        Namespace("p", namespace).apply(&mut rig);
        Create("p", namespace, "stays", "LHR", 0).apply(&mut rig);
    }
    rest(Duration::from_secs(20)).await;
    let most = u64::try_from(within.as_micros()).unwrap();
    for round in 0..TAKEN_BACK {
        for namespace in SIDE_BY_SIDE {
            Create("p", namespace, "web", "DFW", 0).apply(&mut rig);
        }
        rest(Duration::from_micros((round * 19_997 + seed * 104_729) % most)).await;
        for namespace in SIDE_BY_SIDE {
            Delete("p", namespace, "web").apply(&mut rig);
        }
        rest(Duration::from_secs(15)).await;
        let violated = watchman.violations(&rig.simulator.take_changes());
        assert_eq!(violated, Vec::<String>::new(), "seed {seed}, round {round}");
    }
    rig.cells_act();
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
}

#[test]
fn a_creation_that_is_taken_back_while_its_copy_is_sent() {
    simulate(take_back(1, Duration::from_millis(120)));
}

#[test]
fn a_creation_that_is_taken_back_while_its_binding_is_made() {
    simulate(take_back(2, Duration::from_millis(2_200)));
}
