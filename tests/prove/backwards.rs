//! Random courses as in `random`, on planes that go back besides: API servers that show some kinds as they were, live and after
//! a restart, and an etcd that has lost the last of what it had acknowledged.
//!
//! `FEDGATE_PROVE_SEED` and `FEDGATE_PROVE_SEEDS` choose seeds as there.

use crate::{
    end::{unused, wrong},
    invariants::{Watchman, restless},
    ops::Op,
    random::{Disturbance, QUIET, SETTLED, disturb, disturbance, op, pause, seeded, share, unhurried},
    rig::{HUB, Rig, rest, simulate},
};
use fedgate_simulator::Down;
use proptest::prelude::*;
use std::{collections::BTreeMap, time::Duration};

/// How many seeds are drawn without being asked for more.
const SEEDS: u64 = 60;

/// What may be shown as it was.
const KINDS: [(&str, &str); 12] = [
    ("p", "WorkloadDeployment"),
    ("p", "Workload"),
    ("p", "Instance"),
    ("p", "Namespace"),
    ("p", "ConfigMap"),
    ("p", "Secret"),
    (HUB, "WorkloadDeployment"),
    (HUB, "Instance"),
    (HUB, "Namespace"),
    (HUB, "PropagationPolicy"),
    (HUB, "ClusterPropagationPolicy"),
    (HUB, "ResourceBinding"),
];

#[derive(Debug, Clone)]
pub(crate) enum Setback {
    Other(Disturbance),
    /// Kinds are shown as they were some versions ago, for so many seconds; the gateway starts anew on that view, or is led to
    /// it while it runs.
    Stale {
        kinds: Vec<(&'static str, &'static str)>,
        versions: u64,
        seconds: u64,
        restart: bool,
    },
    /// The last versions of a plane are lost while it is away for so many seconds.
    Lost {
        plane: &'static str,
        versions: u64,
        seconds: u64,
    },
}

type Moment = (Op, Setback, u64);

pub(crate) fn stale() -> impl Strategy<Value = Setback> {
    let kinds = prop::collection::vec(prop::sample::select(KINDS.to_vec()), 1..=2);
    (kinds, 1..40u64, 1..60u64, any::<bool>()).prop_map(|(kinds, versions, seconds, restart)| {
        Setback::Stale {
            kinds,
            versions,
            seconds,
            restart,
        }
    })
}

pub(crate) fn lost(planes: &'static [&'static str]) -> impl Strategy<Value = Setback> {
    let plane = prop::sample::select(planes);
    (plane, 1..40u64, 1..20u64).prop_map(|(plane, versions, seconds)| Setback::Lost {
        plane,
        versions,
        seconds,
    })
}

pub(crate) fn course(
    op: impl Strategy<Value = Op>,
    setback: impl Strategy<Value = Setback>,
    pause: impl Strategy<Value = u64>,
) -> impl Strategy<Value = (u64, Vec<Moment>)> {
    let setback = prop_oneof![
        6 => disturbance().prop_map(Setback::Other),
        1 => setback,
    ];
    let moments = prop::collection::vec((op, setback, pause), 4..24);
    (any::<u64>(), moments)
}

/// The oldest version of each plane that it may go back to.
type Floors = BTreeMap<&'static str, u64>;

async fn set_back(rig: &mut Rig, setback: &Setback, floors: &Floors) {
    match setback {
        Setback::Other(disturbance) => disturb(rig, disturbance).await,
        Setback::Stale {
            kinds,
            versions,
            seconds,
            restart,
        } => {
            if *restart {
                rig.kill().await;
            }
            for (plane, kind) in kinds {
                let handle = rig.simulator.plane(plane).unwrap();
                handle.serve_stale(kind, earlier(&handle, *versions, floors[plane]));
                handle.close_watches(Some(kind));
                let (kind, seconds) = (*kind, *seconds);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    handle.serve_fresh(kind);
                });
            }
            if *restart {
                rig.start();
            }
        }
        Setback::Lost {
            plane,
            versions,
            seconds,
        } => {
            let handle = rig.simulator.plane(plane).unwrap();
            handle.set_down(Some(Down::Refused));
            handle.restore(earlier(&handle, *versions, floors[plane]));
            let seconds = *seconds;
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                handle.set_down(None);
            });
        }
    }
}

fn earlier(plane: &fedgate_simulator::Plane, versions: u64, floor: u64) -> u64 {
    let wanted = plane.revision().saturating_sub(versions);
    wanted.max(floor).max(plane.oldest())
}

/// Plays a course and says what is wrong in the end. What was lost breaks every rule about what went before and may have its
/// versions given again unseen, so there a restart comes before the end, and the end alone counts.
pub(crate) async fn play_at(
    mut rig: Rig,
    moments: &[Moment],
    ending: &[Op],
    wrong: impl Fn(&Rig) -> Vec<String>,
) -> Vec<String> {
    let mut floors = Floors::new();
    for name in [HUB, "p", "q"] {
        let plane = rig.simulator.plane(name).unwrap();
        plane.keep_history(100_000);
        floors.insert(name, plane.revision());
    }
    rig.start();
    for (op, setback, pause) in moments {
        op.apply(&mut rig);
        set_back(&mut rig, setback, &floors).await;
        rest(Duration::from_millis(*pause)).await;
    }
    for project in ["p", "q"] {
        Op::Engage(project).apply(&mut rig);
    }
    for op in ending {
        op.apply(&mut rig);
    }
    rig.karmada.hold_bindings(false);
    rest(Duration::from_mins(1)).await;
    rig.simulator.faults().clear();
    let lost = moments
        .iter()
        .any(|(_, setback, _)| matches!(setback, Setback::Lost { .. }));
    if lost {
        rig.kill().await;
        rig.start();
    }
    rest(SETTLED).await;
    let mut watchman = Watchman::default();
    let mut lines = Vec::new();
    let violated = watchman.violations(&rig.simulator.take_changes());
    if !lost {
        lines.extend(violated);
    }
    lines.extend(watchman.crossings(&rig.simulator.log().entries()));
    lines.extend(wrong(&rig));
    lines.extend(unused(&rig));
    rig.simulator.log().clear();
    rest(QUIET).await;
    lines.extend(restless(&rig.simulator.log().entries()));
    lines
}

fn violates_nothing(seed: u64, setback: impl Strategy<Value = Setback>) {
    seeded(seed, 30, &course(op(), setback, pause()), |(seed, moments)| {
        simulate(async { play_at(unhurried(seed), &moments, &[], wrong).await })
    });
}

#[test]
fn servers_that_show_kinds_as_they_were() {
    share(0, 1, "FEDGATE_PROVE_SEEDS", SEEDS, |seed| {
        violates_nothing(seed, stale());
    });
}

#[test]
fn planes_that_lose_what_they_acknowledged() {
    share(0, 1, "FEDGATE_PROVE_SEEDS", SEEDS, |seed| {
        violates_nothing(seed, lost(&[HUB, "p", "q"]));
    });
}
