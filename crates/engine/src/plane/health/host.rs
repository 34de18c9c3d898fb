//! The planes behind one address share what happens to it: one line in the log for its outage, however many watches end by
//! it, and one pace for their lists.

use super::pace::Pace;
use crate::{key::Plane, random::HashMap};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Failures of watches within this time are looked at together.
const GATHER: Duration = Duration::from_secs(2);
/// After this many such looks, failures of the smaller part of the planes are theirs: a server that is silent is noticed on
/// each connection by itself, within the time of its pings.
const LOOKS: usize = 12;
/// A watch that still fails so long after the host's first answer has a fault of its own.
const RETURN: Duration = Duration::from_mins(1);

/// Where the log has the lines of single watches.
const TARGET: &str = "fedgate_engine::plane::watch";

/// A host: scheme, name and port of an address.
#[derive(Debug)]
pub struct Host {
    address: String,
    /// The pace of lists.
    pub pace: Pace,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of watches of each plane.
    planes: HashMap<Plane, usize>,
    phase: Phase,
    /// Number of the phase: a timer of an earlier one does nothing.
    turn: u64,
    /// Watches that failed in this phase.
    failing: BTreeMap<(Plane, String), Failing>,
    /// Watches that the host refused because it has too many requests.
    throttled: BTreeSet<(Plane, String)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Calm,
    /// Watches have failed: of one plane, or of the host?
    Gathering,
    /// The host is unreachable, and the log says so.
    Down {
        planes: usize,
        watches: usize,
        /// True once one of them was answered.
        answered: bool,
    },
}

#[derive(Debug)]
struct Failing {
    line: FailureLine,
    resumed: bool,
}

/// The log line of a watch that fails.
#[derive(Debug, Clone)]
pub struct FailureLine {
    /// The error.
    pub error: String,
    /// The failure in words.
    pub what: &'static str,
    /// The operator's next step; `None` for failures of normal operation.
    pub next: Option<String>,
    /// Whether other planes of the host may meet the same.
    pub extent: Extent,
}

/// Whether a failure of a watch may be one of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The failure is the watch's own.
    Own,
    /// There was no answer: the host may be unreachable.
    Silent,
    /// The host has too many requests, of whichever plane.
    Throttling,
}

/// A watch on a host.
#[derive(Debug)]
pub struct Member<'a> {
    host: Arc<Host>,
    /// Plane of the watch.
    pub plane: &'a Plane,
    /// Kind of the watched objects.
    pub kind: &'a str,
}

impl Host {
    /// A host without planes.
    pub fn new(address: String) -> Arc<Self> {
        Arc::new(Self {
            address,
            pace: Pace::default(),
            state: Mutex::default(),
        })
    }

    /// Counts a watch in until it is dropped.
    pub fn join<'a>(self: &Arc<Self>, plane: &'a Plane, kind: &'a str) -> Member<'a> {
        *self.state.lock().planes.entry(plane.clone()).or_default() += 1;
        Member {
            host: self.clone(),
            plane,
            kind,
        }
    }

    /// True if the log says, or is about to say, that the host is unreachable, and the plane is among those that are.
    pub fn covers(&self, plane: &Plane) -> bool {
        let state = self.state.lock();
        state.phase != Phase::Calm && state.failing.keys().any(|(of, _)| of == plane)
    }

    /// The host has answered a watch otherwise than with too many requests. True if it had refused it so.
    fn answered(&self, state: &mut State, key: &(Plane, String)) -> bool {
        let was_refused = state.throttled.remove(key);
        if was_refused && state.throttled.is_empty() {
            tracing::info!(target: TARGET, host = self.address, "the host has answered all that it had refused");
        }
        was_refused
    }

    fn after(
        self: &Arc<Self>,
        delay: Duration,
        turn: u64,
        act: impl FnOnce(&Arc<Self>, &mut State) + Send + 'static,
    ) {
        let host = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(host) = host.upgrade() {
                let mut state = host.state.lock();
                if state.turn == turn {
                    act(&host, &mut state);
                }
            }
        });
    }

    fn gather(self: &Arc<Self>, turn: u64, left: usize) {
        self.after(GATHER, turn, move |host, state| {
            if state.is_common() {
                host.goes_down(state);
            } else if left > 1 && state.failing.values().any(|one| !one.resumed) {
                host.gather(turn, left - 1);
            } else {
                for ((plane, kind), one) in std::mem::take(&mut state.failing) {
                    failed(&plane, &kind, &one.line);
                    if one.resumed {
                        resumed(&plane, &kind);
                    }
                }
                state.enter(Phase::Calm);
            }
        });
    }

    fn goes_down(&self, state: &mut State) {
        let (planes, watches) = (state.planes_failing(), state.failing.len());
        let line = state
            .failing
            .values()
            .map(|one| &one.line)
            .find(|line| line.next.is_some());
        let (error, next) = line.map_or(("", None), |line| (&*line.error, line.next.as_deref()));
        let host = &self.address;
        tracing::warn!(
            host,
            planes,
            watches,
            error,
            next,
            "the host is unreachable; its planes are tried again"
        );
        state.failing.retain(|_, one| !one.resumed);
        let answered = false;
        state.enter(Phase::Down {
            planes,
            watches,
            answered,
        });
        self.end_if_all_are_back(state);
    }

    fn end_if_all_are_back(&self, state: &mut State) {
        if let Phase::Down { planes, watches, .. } = state.phase
            && state.failing.is_empty()
        {
            let host = &self.address;
            tracing::info!(host, planes, watches, "the host answers again");
            state.enter(Phase::Calm);
        }
    }

    /// Looks at what still fails some time after the first answer.
    fn await_rest(self: &Arc<Self>, turn: u64) {
        self.after(RETURN, turn, |host, state| {
            if state.is_common() {
                if let Phase::Down { answered, .. } = &mut state.phase {
                    *answered = false;
                }
                return;
            }
            let rest = std::mem::take(&mut state.failing);
            host.end_if_all_are_back(state);
            for ((plane, kind), one) in rest {
                failed(&plane, &kind, &one.line);
            }
        });
    }
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.turn += 1;
        if phase == Phase::Calm {
            self.failing.clear();
        }
    }

    fn planes_failing(&self) -> usize {
        let planes: BTreeSet<&Plane> = self.failing.keys().map(|(plane, _)| plane).collect();
        planes.len()
    }

    /// True if more than half of several planes fail.
    fn is_common(&self) -> bool {
        self.planes.len() > 1 && self.planes_failing() * 2 > self.planes.len()
    }
}

impl Member<'_> {
    fn key(&self) -> (Plane, String) {
        (self.plane.clone(), self.kind.to_owned())
    }

    /// Logs that the watch fails, unless that is part of an outage of the host.
    pub fn fails(&self, line: FailureLine) {
        let mut state = self.host.state.lock();
        let key = self.key();
        if line.extent == Extent::Throttling && state.planes.len() > 1 {
            let is_first = state.throttled.is_empty();
            state.throttled.insert(key);
            if is_first {
                let next = line.next.as_deref().unwrap_or_default();
                tracing::warn!(
                    target: TARGET, host = self.host.address, error = line.error, next,
                    "the host has too many requests: lists and starts of watches are sent more slowly"
                );
            }
            return;
        }
        self.host.answered(&mut state, &key);
        let is_silence = line.extent == Extent::Silent;
        let is_part = match state.phase {
            Phase::Calm => is_silence && state.planes.len() > 1,
            Phase::Gathering => is_silence || state.failing.contains_key(&key),
            Phase::Down { .. } => true,
        };
        if !is_part {
            return failed(self.plane, self.kind, &line);
        }
        if state.phase == Phase::Calm {
            state.enter(Phase::Gathering);
            self.host.gather(state.turn, LOOKS);
        }
        state.failing.insert(key, Failing { line, resumed: false });
    }

    /// Logs that the watch goes on, unless its failure is not in the log.
    pub fn goes_on(&self) {
        let mut state = self.host.state.lock();
        let key = self.key();
        if self.host.answered(&mut state, &key) && !state.failing.contains_key(&key) {
            return;
        }
        if let Phase::Down { answered, .. } = &mut state.phase {
            let is_first = !std::mem::replace(answered, true);
            state.failing.remove(&key);
            if is_first {
                self.host.await_rest(state.turn);
            }
            self.host.end_if_all_are_back(&mut state);
        } else if let Some(one) = state.failing.get_mut(&key) {
            one.resumed = true;
        } else {
            resumed(self.plane, self.kind);
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut state = self.host.state.lock();
        if let Some(watches) = state.planes.get_mut(self.plane) {
            *watches -= 1;
            if *watches == 0 {
                state.planes.remove(self.plane);
            }
        }
        let key = self.key();
        state.failing.remove(&key);
        self.host.answered(&mut state, &key);
        // A watch that leaves, e.g. for another credential, says nothing of the host.
        if state.planes.is_empty() {
            state.enter(Phase::Calm);
        }
    }
}

fn failed(plane: &Plane, kind: &str, line: &FailureLine) {
    let FailureLine {
        error, what, next, ..
    } = line;
    if let Some(next) = next {
        tracing::warn!(target: TARGET, %plane, kind, error, next, "a watch fails and is retried: {what}");
    } else {
        tracing::info!(target: TARGET, %plane, kind, error, "a watch is restarted: {what}");
    }
}

fn resumed(plane: &Plane, kind: &str) {
    tracing::info!(target: TARGET, %plane, kind, "the watch goes on");
}
