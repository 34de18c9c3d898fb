//! Random courses of wishes, with a cell that is killed at random moments and planes that are away.
//!
//! A course is drawn from a seed, which a failure prints beside the shortest course that still fails. It is played with its
//! crashes and without them, and must end in the same: `FEDGATE_PROVE_SEED=n cargo test --test prove cell::random` draws that
//! one alone, `FEDGATE_PROVE_CELL_SEEDS=1000` draws so many.

use super::{
    courses::SETTLED,
    end::{self, settled, unready},
    invariants::Watchman,
    ops::{BAD, Op, SECOND, THIRD},
    rig::Rig,
};
use crate::{
    random::{requests, seeded, share},
    rig::{rest, simulate},
    state::{State, differences},
};
use fedgate_simulator::Down;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::time::Duration;

/// How many seeds are drawn without being asked for more.
const SEEDS: u64 = 20;
const DEPLOYMENTS: [&str; 2] = ["web", "api"];
/// So long nothing may be written in the end.
const QUIET: Duration = Duration::from_mins(10);

/// What happens at one moment, beside what tenants wish.
#[derive(Debug, Clone)]
enum Disturbance {
    None,
    /// The cell is killed and comes back.
    Kill,
    /// A plane is down for so many seconds.
    Down(&'static str, Down, u64),
    /// A plane forgets its older versions, and all watches end.
    Compact(&'static str),
}

/// One moment: what is wished, what else happens, and how long it lasts in milliseconds.
type Moment = (Op, Disturbance, u64);

fn op() -> impl Strategy<Value = Op> {
    let name = prop::sample::select(DEPLOYMENTS.to_vec());
    let image = prop::sample::select(vec![SECOND, THIRD, BAD]);
    prop_oneof![
        4 => (name.clone(), 0..4u32).prop_map(|(name, n)| Op::Create(name, n)),
        1 => name.clone().prop_map(Op::Delete),
        4 => (name.clone(), 0..4u32).prop_map(|(name, n)| Op::Scale(name, n)),
        4 => (name.clone(), image).prop_map(|(name, image)| Op::Image(name, image)),
        3 => (name.clone(), prop::option::of((0..3u32, 0..3u32))).prop_map(|(name, limits)| Op::Rollout(name, limits)),
        2 => (name, any::<bool>()).prop_map(|(name, on)| Op::Suspend(name, on)),
    ]
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    let plane = prop::sample::select(vec!["hub", "shop"]);
    let down = prop::sample::select(vec![Down::Refused, Down::BlackHole]);
    let any_plane = prop::sample::select(vec!["hub", "shop", "cell"]);
    prop_oneof![
        6 => Just(Disturbance::None),
        5 => Just(Disturbance::Kill),
        2 => (plane, down, 1..60u64).prop_map(|(plane, down, s)| Disturbance::Down(plane, down, s)),
        1 => any_plane.prop_map(Disturbance::Compact),
    ]
}

fn course() -> impl Strategy<Value = (u64, Vec<Moment>)> {
    let pause = prop_oneof![3 => 0..200u64, 3 => 200..3_000u64, 1 => 3_000..20_000u64];
    (
        any::<u64>(),
        prop::collection::vec((op(), disturbance(), pause), 4..20),
    )
}

async fn disturb(rig: &mut Rig, what: &Disturbance, kills: bool) {
    match *what {
        Disturbance::Kill if kills => {
            rig.kill().await;
            rig.start();
        }
        Disturbance::None | Disturbance::Kill => {}
        Disturbance::Down(plane, down, seconds) => {
            let plane = rig.simulator.plane(plane).unwrap();
            plane.set_down(Some(down));
            tokio::spawn(async move {
                rest(Duration::from_secs(seconds)).await;
                plane.set_down(None);
            });
        }
        Disturbance::Compact(plane) => {
            let plane = rig.simulator.plane(plane).unwrap();
            plane.compact();
            plane.close_watches(None);
        }
    }
}

/// Plays a course; what was asked for on the way, what there is in the end, and what is wrong with it.
async fn play(seed: u64, moments: &[Moment], kills: bool) -> (Vec<String>, State, Vec<String>) {
    let mut rig = Rig::new(seed, false);
    rig.simulator
        .latency(Some(Duration::from_micros(200)..=Duration::from_millis(20)));
    rig.start();
    for (op, disturbance, pause) in moments {
        op.apply(&rig);
        disturb(&mut rig, disturbance, kills).await;
        rest(Duration::from_millis(*pause)).await;
    }
    for name in DEPLOYMENTS {
        Op::Image(name, SECOND).apply(&rig);
        Op::Suspend(name, false).apply(&rig);
    }
    rest(Duration::from_mins(1)).await;
    rest(SETTLED).await;
    let state = end::state(&rig);
    let mut lines = settled(&rig);
    lines.extend(unready(&rig));
    let log = requests(&rig.simulator);
    rig.simulator.log().clear();
    rest(QUIET).await;
    lines.extend(
        rig.writes()
            .into_iter()
            .map(|write| format!("written at rest: {write}")),
    );
    rig.simulator.log().clear();
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    lines.extend(
        rig.writes()
            .into_iter()
            .map(|write| format!("a restart writes: {write}")),
    );
    lines.extend(Watchman::default().violations(&rig.simulator.take_changes()));
    (log, state, lines)
}

fn ends_as_without_crashes(seed: u64) {
    seeded(seed, 200, &course(), |(seed, moments)| {
        let (_, calm, mut lines) = simulate(play(seed, &moments, false));
        for line in &mut lines {
            line.insert_str(0, "never killed: ");
        }
        let (_, state, wrong) = simulate(play(seed, &moments, true));
        lines.extend(wrong);
        lines.extend(differences(&calm, &state));
        lines
    });
}

#[test]
fn random_courses_end_as_without_crashes() {
    share(0, 2, "FEDGATE_PROVE_CELL_SEEDS", SEEDS, ends_as_without_crashes);
}

#[test]
fn more_random_courses_end_as_without_crashes() {
    share(1, 2, "FEDGATE_PROVE_CELL_SEEDS", SEEDS, ends_as_without_crashes);
}

#[test]
fn a_seed_replays_exactly() {
    let log = |seed: u64| {
        let mut rng = TestRunner::new_with_rng(
            Config::default(),
            TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]),
        );
        let (_, moments) = course().new_tree(&mut rng).unwrap().current();
        let (log, _, _) = simulate(play(seed, &moments, true));
        log
    };
    let (first, second) = (log(3), log(3));
    assert!(first.len() > 100, "{} requests", first.len());
    assert_eq!(first, second);
    assert_ne!(first, log(4), "the seed must matter");
}
