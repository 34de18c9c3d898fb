//! Random courses of events over several tenants, with crashes, faults and delays, and with every invariant checked at every
//! change.
//!
//! A course is drawn from a seed, which a failure prints beside the shortest course that still fails:
//! `FEDGATE_PROVE_SEED=n cargo test --test prove random` draws that one alone, `FEDGATE_PROVE_SEEDS=10000` draws so many.

use crate::{
    end::{unused, wrong},
    invariants::{Watchman, restless},
    ops::{LOCATION, Op},
    rig::{GATEWAY, Rig, count, number, rest, simulate},
};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Simulator, When, karmada::Cluster};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use std::{sync::atomic::Ordering, time::Duration};

/// How many seeds are drawn without being asked for more.
const SEEDS: u64 = 200;
/// Seeds that once led to a failure, with what it was.
const NAMED: [(u64, &str); 2] = [
    (
        250,
        "a finalizer went while a binding was there that had just been made",
    ),
    (7_989, "a policy went while the copy that needs it was on its way"),
];
/// After the last disturbance everything must have come to rest within this time: what was refused for want of rights is
/// asked again after five minutes.
pub(crate) const SETTLED: Duration = Duration::from_mins(6);
/// So long nothing may be written then.
pub(crate) const QUIET: Duration = Duration::from_mins(10);

/// The cities that a Workload may be in.
const CITIES: [&[&str]; 3] = [&["DFW"], &["DFW", "LHR"], &["FRA"]];

/// What happens at one moment, beside what tenants do.
#[derive(Debug, Clone)]
pub(crate) enum Disturbance {
    None,
    /// The gateway is killed and comes back.
    Kill,
    /// Its next requests meet a fault.
    Fault(Fault),
    /// A plane is down for so many seconds.
    Down(&'static str, u64),
    /// All watches of a plane end.
    CloseWatches(&'static str),
    /// A plane forgets its older versions, and all watches end.
    Compact(&'static str),
    /// From now on watches of a plane tell each event twice, or no more.
    Repeat(&'static str, bool),
    /// The wall clocks of the gateway and of a plane jump by so many seconds: one forth, the other back.
    Jump(&'static str, i64),
    /// Bindings of copies that are gone stay, as while a cell is away, or go again.
    HoldBindings(bool),
}

/// One moment: what is done, what else happens, and how long it lasts in milliseconds.
pub(crate) type Moment = (Op, Disturbance, u64);

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let project = prop::sample::select(vec!["p", "q"]);
    let namespace = prop::sample::select(vec!["default", "shop"]);
    let name = prop::sample::select(vec!["web", "api"]);
    let city = prop::sample::select(vec!["DFW", "LHR", "FRA", "dfw"]);
    let config = prop::sample::select(vec!["one", "two"]);
    let place = (project.clone(), namespace.clone(), name.clone());
    prop_oneof![
        2 => (project.clone()).prop_map(|p| Op::Namespace(p, "shop")),
        1 => (project.clone()).prop_map(|p| Op::DropNamespace(p, "shop")),
        8 => (place.clone(), city.clone(), 0..3u32).prop_map(|((p, ns, n), c, r)| Op::Create(p, ns, n, c, r)),
        3 => (place.clone(), city.clone(), config.clone())
            .prop_map(|((p, ns, n), c, m)| Op::CreateWith(p, ns, n, c, m)),
        5 => place.clone().prop_map(|(p, ns, n)| Op::Delete(p, ns, n)),
        4 => (place.clone(), 0..3u32).prop_map(|((p, ns, n), r)| Op::Scale(p, ns, n, r)),
        4 => (place.clone(), city).prop_map(|((p, ns, n), c)| Op::Move(p, ns, n, c)),
        2 => (place.clone(), prop::sample::select(vec!["shop/web:2", "shop/web:3"]))
            .prop_map(|((p, ns, n), i)| Op::Image(p, ns, n, i)),
        2 => (place.clone(), any::<bool>()).prop_map(|((p, ns, n), on)| Op::Suspend(p, ns, n, on)),
        2 => (place.clone(), prop::option::of(config.clone())).prop_map(|((p, ns, n), m)| Op::Mount(p, ns, n, m)),
        3 => (project.clone(), namespace.clone(), config.clone(), prop::sample::select(vec!["a", "b"]))
            .prop_map(|(p, ns, m, v)| Op::Config(p, ns, m, v)),
        1 => (project.clone(), namespace.clone(), config).prop_map(|(p, ns, m)| Op::DropConfig(p, ns, m)),
        2 => (project.clone(), namespace.clone(), prop::sample::select(vec!["b25l", "dHdv"]))
            .prop_map(|(p, ns, v)| Op::Secret(p, ns, "login", v)),
        1 => (project.clone(), namespace.clone()).prop_map(|(p, ns)| Op::DropSecret(p, ns, "login")),
        2 => (place.clone()).prop_map(|(p, ns, n)| Op::MountSecret(p, ns, n, "login")),
        3 => (project.clone(), namespace.clone(), prop::sample::select(CITIES.to_vec()))
            .prop_map(|(p, ns, c)| Op::Workload(p, ns, "shop", c)),
        1 => (project.clone(), namespace.clone()).prop_map(|(p, ns)| Op::DropWorkload(p, ns, "shop")),
        1 => project.clone().prop_map(Op::Leave),
        2 => project.clone().prop_map(Op::Engage),
        1 => name.clone().prop_map(Op::DropCopy),
        1 => Just(Op::DropPolicies),
        1 => name.prop_map(Op::EditCopy),
        1 => (prop::sample::select(vec!["web-0", "api-0", "web-1"]), any::<bool>())
            .prop_map(|(n, ready)| Op::Report(n, ready)),
        1 => (project, namespace, prop::sample::select(vec!["web-0", "api-0"]))
            .prop_map(|(p, ns, n)| Op::DropProjection(p, ns, n)),
    ]
}

pub(crate) fn disturbance() -> impl Strategy<Value = Disturbance> {
    let plane = prop::sample::select(vec!["hub", "p", "q"]);
    let fault = prop::sample::select(vec![
        Fault::DropBefore,
        Fault::LoseAnswer,
        Fault::Conflict,
        Fault::TooMany { retry_after: Some(2) },
        Fault::TooMany { retry_after: None },
        Fault::Internal,
        Fault::Unavailable,
        Fault::TimeoutAfterApply,
        Fault::Unauthorized,
        Fault::Forbidden,
        Fault::TruncatedLine,
        Fault::Hang,
        Fault::HangAfterApply,
        Fault::Reset,
        Fault::HtmlBadGateway,
        Fault::Padded { bytes: 300_000 },
        Fault::Nested { levels: 200 },
    ]);
    prop_oneof![
        12 => Just(Disturbance::None),
        2 => Just(Disturbance::Kill),
        5 => fault.prop_map(Disturbance::Fault),
        1 => (plane.clone(), 1..40u64).prop_map(|(p, s)| Disturbance::Down(p, s)),
        1 => plane.clone().prop_map(Disturbance::CloseWatches),
        1 => (plane.clone(), any::<bool>()).prop_map(|(p, on)| Disturbance::Repeat(p, on)),
        1 => (plane.clone(), prop::sample::select(vec![-7_200, -90, 90, 7_200]))
            .prop_map(|(p, s)| Disturbance::Jump(p, s)),
        1 => plane.prop_map(Disturbance::Compact),
        1 => any::<bool>().prop_map(Disturbance::HoldBindings),
    ]
}

/// How long a moment lasts, in milliseconds.
pub(crate) fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..50u64, 2 => 50..2_000u64, 1 => 2_000..12_000u64]
}

fn course() -> impl Strategy<Value = (u64, Vec<Moment>)> {
    (
        any::<u64>(),
        prop::collection::vec((op(), disturbance(), pause()), 4..24),
    )
}

pub(crate) async fn disturb(rig: &mut Rig, what: &Disturbance) {
    match *what {
        Disturbance::None => {}
        Disturbance::Kill => {
            rig.kill().await;
            rig.start();
        }
        Disturbance::Fault(ref fault) => {
            let soon = When::During(Duration::ZERO..Duration::from_millis(500));
            rig.simulator
                .faults()
                .add(Rule::new(soon, fault.clone()).user(GATEWAY));
        }
        Disturbance::Down(plane, seconds) => {
            let Some(plane) = rig.simulator.plane(plane) else {
                return;
            };
            plane.set_down(Some(fedgate_simulator::Down::Refused));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                plane.set_down(None);
            });
        }
        Disturbance::Repeat(plane, on) => {
            if let Some(plane) = rig.simulator.plane(plane) {
                plane.repeat_events(on);
            }
        }
        Disturbance::Jump(plane, seconds) => {
            rig.off.fetch_add(seconds, Ordering::Relaxed);
            if let Some(plane) = rig.simulator.plane(plane) {
                plane.jump(Duration::from_secs(seconds.unsigned_abs()), seconds < 0);
            }
        }
        Disturbance::HoldBindings(hold) => rig.karmada.hold_bindings(hold),
        Disturbance::CloseWatches(plane) => {
            if let Some(plane) = rig.simulator.plane(plane) {
                plane.close_watches(None);
            }
        }
        Disturbance::Compact(plane) => {
            if let Some(plane) = rig.simulator.plane(plane) {
                plane.compact();
                plane.close_watches(None);
            }
        }
    }
}

/// The acts of courses in which places change: tenants name a location, and its label comes and goes.
fn place_op() -> impl Strategy<Value = Op> {
    let place = (
        prop::sample::select(vec!["p", "q"]),
        prop::sample::select(vec!["default", "shop"]),
        prop::sample::select(vec!["web", "api"]),
    );
    prop_oneof![
        6 => op(),
        6 => place.prop_map(|(p, ns, n)| Op::Locate(p, ns, n, LOCATION)),
        3 => any::<bool>().prop_map(Op::Label),
        1 => prop::sample::select(vec!["web", "api"]).prop_map(Op::LabelCopy),
    ]
}

fn course_of_places() -> impl Strategy<Value = (u64, Vec<Moment>)> {
    (
        any::<u64>(),
        prop::collection::vec((place_op(), disturbance(), pause()), 4..24),
    )
}

/// Makes a rig with projects p and q. Each answer of a plane takes up to 20 ms.
pub(crate) fn unhurried(seed: u64) -> Rig {
    let rig = Rig::unhurried(seed, &["p", "q"]);
    rig.simulator
        .latency(Some(Duration::from_micros(200)..=Duration::from_millis(20)));
    rig
}

/// Plays a course, at whose end this is done, and says what is wrong then.
async fn play(seed: u64, moments: &[Moment], last: &[Op]) -> Vec<String> {
    let rig = unhurried(seed);
    if seed.is_multiple_of(2) {
        // The code that is drawn beside those of cells has one that is not ready; otherwise it has none.
        rig.karmada.join(&Cluster::new("low-1", keys::CITY_CODE, "dfw"));
        rig.karmada.ready("low-1", false);
    }
    play_at(rig, moments, last, wrong).await
}

/// Plays the moments at these planes, then the `ending`, and lists what `wrong` and the invariants find.
pub(crate) async fn play_at(
    mut rig: Rig,
    moments: &[Moment],
    ending: &[Op],
    wrong: impl Fn(&Rig) -> Vec<String>,
) -> Vec<String> {
    rig.start();
    for (op, disturbance, pause) in moments {
        op.apply(&mut rig);
        disturb(&mut rig, disturbance).await;
        rest(Duration::from_millis(*pause)).await;
    }
    for project in ["p", "q"] {
        Op::Engage(project).apply(&mut rig);
    }
    for op in ending {
        op.apply(&mut rig);
    }
    rig.karmada.hold_bindings(false);
    rest(Duration::from_secs(40)).await;
    rig.simulator.faults().clear();
    rest(SETTLED).await;
    let mut watchman = Watchman::default();
    let mut lines = watchman.violations(&rig.simulator.take_changes());
    lines.extend(watchman.crossings(&rig.simulator.log().entries()));
    lines.extend(wrong(&rig));
    lines.extend(unused(&rig));
    rig.simulator.log().clear();
    rest(QUIET).await;
    lines.extend(restless(&rig.simulator.log().entries()));
    lines
}

/// Draws a course and plays it, `play` says what is wrong with it; of one that fails the shortest that still does is told.
pub(crate) fn seeded<T: std::fmt::Debug>(
    seed: u64,
    shrinks: u32,
    course: &impl Strategy<Value = T>,
    play: impl Fn(T) -> Vec<String>,
) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: shrinks,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let verdict = runner.run(course, |drawn| {
        let lines = play(drawn);
        if lines.is_empty() {
            Ok(())
        } else {
            Err(TestCaseError::fail(lines.join("\n")))
        }
    });
    if let Err(error) = verdict {
        panic!("seed {seed}: {error}");
    }
}

/// The seeds of one of several tests that run side by side; how many there are in all `variable` may say.
pub(crate) fn share(of: u64, shares: u64, variable: &str, seeds: u64, test: impl Fn(u64)) {
    if let Some(seed) = number("FEDGATE_PROVE_SEED") {
        if of == 0 {
            test(seed);
        }
        return;
    }
    let seeds = count(variable, seeds);
    (0..seeds).filter(|seed| seed % shares == of).for_each(test);
}

/// All requests, in words.
pub(crate) fn requests(simulator: &Simulator) -> Vec<String> {
    let mut entries = simulator.log().entries();
    // Their names are made of the machine's time.
    for event in entries.iter_mut().filter(|e| &*e.resource == "events") {
        event.name.clear();
    }
    entries.iter().map(ToString::to_string).collect()
}

fn violates_nothing(seed: u64) {
    seeded(seed, 300, &course(), |(seed, moments)| {
        simulate(play(seed, &moments, &[]))
    });
}

/// docs/contract/locations.md: where each label of a copy leads is there before it, whatever changes when.
#[test]
fn random_courses_of_places_violate_nothing() {
    share(0, 1, "FEDGATE_PROVE_SEEDS", SEEDS / 2, |seed| {
        seeded(seed, 300, &course_of_places(), |(seed, moments)| {
            simulate(play(seed, &moments, &[Op::Label(true)]))
        });
    });
}

#[test]
fn random_courses_violate_nothing() {
    share(0, 2, "FEDGATE_PROVE_SEEDS", SEEDS, violates_nothing);
}

#[test]
fn more_random_courses_violate_nothing() {
    share(1, 2, "FEDGATE_PROVE_SEEDS", SEEDS, violates_nothing);
}

#[test]
fn seeds_that_failed_once_fail_no_more() {
    for (seed, what) in NAMED {
        println!("seed {seed}: {what}");
        violates_nothing(seed);
    }
}

#[test]
fn a_seed_replays_exactly() {
    let log = |seed: u64| {
        let mut rng = TestRunner::new_with_rng(
            Config::default(),
            TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]),
        );
        let (_, moments) = course().new_tree(&mut rng).unwrap().current();
        simulate(async {
            let mut rig = unhurried(seed);
            rig.start();
            for (op, disturbance, pause) in &moments {
                op.apply(&mut rig);
                rig.rotate("p");
                disturb(&mut rig, disturbance).await;
                rest(Duration::from_millis(*pause)).await;
            }
            rest(SETTLED).await;
            requests(&rig.simulator)
        })
    };
    let (first, second) = (log(3), log(3));
    assert!(first.len() > 50);
    assert_eq!(first, second);
    assert_ne!(first, log(4), "the seed must matter");
}
