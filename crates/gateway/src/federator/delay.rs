//! Deployments that do not reach the hub although their tenants did nothing wrong: their tenants see why (contract:
//! federation.md §3.1). Only deployments that have something to deliver are written, few at a time, the oldest first.

use crate::{
    context::Shared,
    index::{
        GatewayIndex, ObjectRef,
        derived::summary::is_refused,
        rows::{
            Source,
            status::{FEDERATED, OwnCondition},
        },
    },
};
use fedgate_api::{Reason, names::ProjectKey};
use fedgate_engine::{
    clock::Now,
    key::{Key, Plane},
    random::HashMap,
    runtime::inspect::SLICE,
    runtime::{
        failures::{Cause, LastFailure},
        queue::Priority,
    },
    store::table::Row,
};
use fedgate_operations::Stage;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A deployment that waits for the hub or for a permission tells its tenant after this time.
const WAITS: Duration = Duration::from_secs(30);
/// A deployment whose key fails by itself tells its tenant after this time.
const FAILS: Duration = Duration::from_secs(60);
/// Minimum time between two writes of a delay to one deployment.
const AGAIN: Duration = Duration::from_mins(5);
/// Maximum number of deployments in a second that tell their tenants.
const PER_SECOND: usize = 10;
/// Time between two calls of [`Delays::admit`], in seconds.
const TICK: usize = 5;

/// Reasons of `Federated` that a [`Delay`] has.
pub const REASONS: [Reason; 3] = [Reason::HubUnreachable, Reason::MissingRights, Reason::Retrying];

/// True if this is the reason of a [`Delay`].
pub fn is_delay(reason: &str) -> bool {
    REASONS.iter().any(|of| of.as_str() == reason)
}

/// Why a deployment does not reach the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delay {
    /// The hub does not answer.
    HubUnreachable {
        /// Time of the first failure.
        since: Timestamp,
    },
    /// A permission is missing.
    MissingRights {
        /// The permission: `<verb> <resource>`.
        right: String,
        /// The plane that denies it, as a tenant knows it.
        place: &'static str,
    },
    /// The key of the deployment fails for another reason.
    Retrying {
        /// Verb and kind of the request, e.g. `patch workloaddeployments.compute.datumapis.com`.
        request: String,
        /// The plane that was asked, as a tenant knows it.
        place: &'static str,
        /// The category of the failure.
        category: &'static str,
        /// Time of the first failure.
        since: Timestamp,
    },
}

/// A plane as a tenant knows it.
fn place(plane: &Plane) -> &'static str {
    match plane {
        Plane::Project(_) => "in this project",
        Plane::Hub | Plane::Cell | Plane::Home => "on the hub",
    }
}

impl Delay {
    /// Why a key does not reach the hub: the cause that holds back its calls, or its own failure. A project that is
    /// down shows nothing to its tenant.
    pub fn of(
        cause: Option<&Cause>,
        since: Option<Timestamp>,
        failure: Option<&LastFailure>,
        now: Now,
    ) -> Option<Self> {
        match (cause, since, failure) {
            (Some(Cause::Plane(Plane::Hub)), Some(since), _) => {
                (now.since_wall(since) >= WAITS).then_some(Self::HubUnreachable { since })
            }
            (Some(Cause::Right(right)), Some(since), _) => {
                (now.since_wall(since) >= WAITS).then(|| Self::MissingRights {
                    right: right.to_string(),
                    place: place(&right.plane),
                })
            }
            (Some(_), ..) | (None, _, None) => None,
            (None, _, Some(failure)) => (now.since_wall(failure.since) >= FAILS).then(|| {
                let kind = failure.object.split(' ').next().unwrap_or_default();
                Self::Retrying {
                    request: format!("{} {kind}", failure.verb),
                    place: place(&failure.plane),
                    category: failure.category.as_str(),
                    since: failure.since,
                }
            }),
        }
    }

    /// The reason of its condition.
    pub fn reason(&self) -> Reason {
        match self {
            Self::HubUnreachable { .. } => Reason::HubUnreachable,
            Self::MissingRights { .. } => Reason::MissingRights,
            Self::Retrying { .. } => Reason::Retrying,
        }
    }

    /// The condition `Federated` of a generation that waits. Its message has no words of a server.
    pub fn condition(&self, generation: i64) -> OwnCondition {
        let message = match self {
            Self::HubUnreachable { since } => {
                format!(
                    "the hub has not answered since {since}; generation {generation} is kept and is carried when it answers"
                )
            }
            Self::MissingRights { right, place } => {
                format!("fedgate may not {right} {place}; its operator has to grant it")
            }
            Self::Retrying {
                request,
                place,
                category,
                since,
            } => format!("{request} {place} fails ({category}) since {since}; it is tried again"),
        };
        OwnCondition::new(FEDERATED, false, self.reason(), &message, generation)
    }
}

/// The deployments that may tell their tenants that they wait, and those that have told them.
#[derive(Debug, Default)]
pub struct Delays(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Time from which each admitted deployment may tell its tenant.
    admitted: HashMap<Key, Instant>,
    written: HashMap<Key, Instant>,
}

impl Delays {
    /// The delay of a deployment, if its tenant may be told now; a deployment that is reconciled earlier than it was
    /// admitted for is reconciled again then.
    pub fn of(&self, shared: &Shared, key: &Key) -> Option<Delay> {
        let from = *self.0.lock().admitted.get(key)?;
        let left = from.saturating_duration_since(shared.now().instant);
        if left.is_zero() {
            return delay_of(shared, key);
        }
        shared.queue.add_after(key.clone(), left);
        None
    }

    /// Records that the delay was written to a deployment.
    pub fn written(&self, key: &Key, now: Now) {
        let mut state = self.0.lock();
        state.admitted.remove(key);
        state.written.insert(key.clone(), now.instant);
    }

    /// Admits the oldest deployments that wait, and enqueues them; called every [`TICK`] seconds. A deployment whose
    /// cause ends before it is admitted is not written. Any number of deployments may wait, so the index is locked for slices.
    pub fn admit(&self, shared: &Shared) {
        let now = shared.now();
        if !shared.planes.lease.may_write() {
            *self.0.lock() = State::default();
            return;
        }
        let mut old = waiting(&shared.index.lock(), now);
        old.sort_unstable();
        let mut state = self.0.lock();
        state.admitted.clear();
        state.written.retain(|_, at| now.since(*at) < AGAIN);
        let all = old.chunks(SLICE).flat_map(|slice| {
            let index = shared.index.lock();
            let found = slice.iter().filter_map(|(_, object)| as_waiting(&index, object));
            found.collect::<Vec<Waiting>>()
        });
        let is_due = |(key, _, shown): &Waiting| {
            !state.written.contains_key(key)
                && delay_of(shared, key)
                    .is_some_and(|delay| shown.as_deref() != Some(delay.reason().as_str()))
        };
        let chosen = spread(all, is_due);
        state.admitted.extend(
            chosen
                .iter()
                .map(|(key, after)| (key.clone(), now.instant + *after)),
        );
        drop(state);
        for (key, after) in chosen {
            if after.is_zero() {
                shared.queue.add(key, Priority::Fresh);
            } else {
                shared.queue.add_after(key, after);
            }
        }
    }
}

fn delay_of(shared: &Shared, key: &Key) -> Option<Delay> {
    let failures = shared.workers.failures();
    let cause = shared.queue.cause(key);
    let since = cause
        .as_ref()
        .and_then(|cause| failures.of_cause(cause))
        .map(|failure| failure.since);
    let failure = if cause.is_none() { failures.of(key) } else { None };
    Delay::of(cause.as_deref(), since, failure.as_ref(), shared.now())
}

/// A deployment that waits: its key, its project, and the reason of a [`Delay`] that its present generation shows.
type Waiting = (Key, ProjectKey, Option<String>);

/// The deployments that have waited for the hub for long enough, with the time since when.
fn waiting(index: &GatewayIndex, now: Now) -> Vec<(Timestamp, ObjectRef)> {
    let waits = index.undelivered.of(Stage::ProjectToHub).iter();
    let old = waits.filter(|(_, since)| now.since_wall(since.at) >= WAITS);
    old.map(|(object, since)| (since.at, object.clone())).collect()
}

fn as_waiting(index: &GatewayIndex, ObjectRef { kind, hub, name }: &ObjectRef) -> Option<Waiting> {
    let owner = index.owners.get(hub)?;
    let source = index.owned_source(*kind, hub, name)?;
    if is_refused(source) {
        return None;
    }
    let key = index.source_key(*kind, &owner.project, &owner.namespace, name);
    Some((key, owner.project.clone(), shown(source)))
}

/// The reason of a [`Delay`] that the present generation shows.
fn shown(source: &Row<Source>) -> Option<String> {
    let condition = source.digest.status.condition(FEDERATED)?;
    let current = condition.observed == Some(source.digest.generation);
    (current && is_delay(&condition.reason)).then(|| condition.reason.to_string())
}

/// Spreads the keys that are due over the seconds until the next call: at most [`PER_SECOND`] in a second, and one of each
/// project. A project without a second left is asked nothing more.
fn spread(all: impl Iterator<Item = Waiting>, is_due: impl Fn(&Waiting) -> bool) -> Vec<(Key, Duration)> {
    let mut chosen = Vec::new();
    let mut seconds = [0; TICK];
    let mut next: HashMap<ProjectKey, usize> = HashMap::default();
    for waiting in all {
        let from = next.get(&waiting.1).copied().unwrap_or(0);
        let Some(second) = (from..seconds.len()).find(|second| seconds[*second] < PER_SECOND) else {
            if seconds.iter().all(|count| *count == PER_SECOND) {
                break;
            }
            continue;
        };
        if !is_due(&waiting) {
            continue;
        }
        let (key, project, _) = waiting;
        seconds[second] += 1;
        next.insert(project, second + 1);
        chosen.push((key, Duration::from_secs(second as u64)));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_engine::key::Kind;

    fn keys(project: &str, count: usize) -> Vec<Waiting> {
        let project = ProjectKey::parse(project).unwrap();
        let plane = Plane::Project(project.clone());
        let kind = Kind::new("things", "x.y");
        (0..count)
            .map(|n| {
                (
                    Key::new(plane.clone(), kind.clone(), "default", &format!("web-{n}")),
                    project.clone(),
                    None,
                )
            })
            .collect()
    }

    #[test]
    fn a_project_has_one_write_a_second_and_the_process_ten() {
        let asked = std::cell::Cell::new(0);
        let of_one = spread(keys("a", 5_000).into_iter(), |_| {
            asked.set(asked.get() + 1);
            true
        });
        assert_eq!(
            asked.get(),
            TICK,
            "a project without a second left is asked nothing more"
        );
        let seconds: Vec<u64> = of_one.iter().map(|(_, after)| after.as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 3, 4]);
        let many: Vec<_> = (0..200).flat_map(|n| keys(&format!("p{n}"), 2)).collect();
        let chosen = spread(many.into_iter(), |_| true);
        assert_eq!(chosen.len(), 50);
        for second in 0..5 {
            let at = chosen
                .iter()
                .filter(|(_, after)| after.as_secs() == second)
                .count();
            assert_eq!(at, 10, "second {second}");
        }
    }

    #[test]
    fn messages_have_no_words_of_a_server() {
        let since: Timestamp = "2026-12-01T10:00:00Z".parse().unwrap();
        let table = [
            (
                Delay::HubUnreachable { since },
                "the hub has not answered since 2026-12-01T10:00:00Z; generation 4 is kept and is carried when it answers",
            ),
            (
                Delay::MissingRights {
                    right: "patch things.x.y".to_owned(),
                    place: "on the hub",
                },
                "fedgate may not patch things.x.y on the hub; its operator has to grant it",
            ),
            (
                Delay::Retrying {
                    request: "apply things.x.y".to_owned(),
                    place: "in this project",
                    category: "server",
                    since,
                },
                "apply things.x.y in this project fails (server) since 2026-12-01T10:00:00Z; it is tried again",
            ),
        ];
        for (delay, message) in table {
            let condition = delay.condition(4);
            assert_eq!(condition.message, message);
            assert!(REASONS.contains(&condition.reason) && !condition.status && condition.observed == 4);
        }
    }
}
