//! The last failure of each key whose last reconcile failed, to diagnose stuck keys.

use crate::{
    clock::Now,
    error::{Category, Failure},
    key::{Key, Plane},
    random::HashMap,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Limit of recorded failures. Beyond it the oldest stay: they show which keys are stuck, and newer failures add no
/// information.
const KEPT: usize = 10_000;
/// Limit of a recorded message in bytes: servers return messages of any content and length.
const MESSAGE_BYTES: usize = 1_024;

/// The last failure of a key, and since when it has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// The category of the failure.
    pub category: Category,
    /// The plane that the request was sent to; it may differ from the key's plane.
    pub plane: Plane,
    /// The verb of the request.
    pub verb: &'static str,
    /// `<kind> <namespace>/<name>`.
    pub object: String,
    /// The error message of the server or of the transport, truncated to 1,024 bytes.
    pub message: String,
    /// Time of the first failure in this row.
    pub since: Timestamp,
    /// Time of the last failure.
    pub last: Timestamp,
    /// Number of failures in a row.
    pub attempts: u32,
}

/// The recorded failures, by key.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    failures: HashMap<Key, LastFailure>,
    dropped: u64,
}

impl Failures {
    /// Records a failed reconcile. `NotLeader` and `CircuitOpen` are skipped: a missing Lease, or a call rejected
    /// because others failed, is no failure of the key.
    pub fn failed(&self, key: &Key, failure: &Failure, now: Now) {
        if matches!(failure.category, Category::NotLeader | Category::CircuitOpen) {
            return;
        }
        let mut kept = self.0.lock();
        let before = kept.failures.get(key).map(|known| (known.since, known.attempts));
        if before.is_none() && kept.failures.len() >= KEPT {
            kept.dropped += 1;
            return;
        }
        let (since, attempts) = before.unwrap_or((now.wall, 0));
        let last = LastFailure {
            category: failure.category,
            plane: failure.plane.clone(),
            verb: failure.verb,
            object: failure.object.clone(),
            message: beginning(&failure.message),
            since,
            last: now.wall,
            attempts: attempts.saturating_add(1),
        };
        kept.failures.insert(key.clone(), last);
    }

    /// Removes the record of a key whose reconcile succeeded.
    pub fn succeeded(&self, key: &Key) {
        let mut kept = self.0.lock();
        if !kept.failures.is_empty() {
            kept.failures.remove(key);
        }
    }

    /// Drops the failures of a plane that was removed; none of its keys is retried.
    pub fn forget(&self, plane: &Plane) {
        self.0.lock().failures.retain(|key, _| key.plane != *plane);
    }

    /// The last failure of a key, if its last reconcile failed.
    pub fn of(&self, key: &Key) -> Option<LastFailure> {
        self.0.lock().failures.get(key).cloned()
    }

    /// Number of failing keys, by kind of the called plane and by category.
    pub fn counts(&self) -> BTreeMap<(&'static str, Category), usize> {
        let mut counts = BTreeMap::new();
        for failure in self.0.lock().failures.values() {
            *counts
                .entry((failure.plane.kind(), failure.category))
                .or_default() += 1;
        }
        counts
    }

    /// Number of failures that were not recorded because the limit was reached.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// The counts as JSON, for `/debug/planes`.
    pub fn describe(&self) -> serde_json::Value {
        let counts = self.counts().into_iter().map(|((plane, category), count)| {
            serde_json::json!({"plane": plane, "category": category.as_str(), "count": count})
        });
        serde_json::json!({"counts": counts.collect::<Vec<_>>(), "dropped": self.dropped()})
    }
}

/// The beginning of a message, up to the limit.
fn beginning(text: &str) -> String {
    text[..text.floor_char_boundary(MESSAGE_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Kind;
    use fedgate_api::names::ProjectKey;
    use std::time::Duration;
    use tokio::time::Instant;

    fn project(name: &str) -> Plane {
        Plane::Project(ProjectKey::parse(name).unwrap())
    }

    fn key(plane: Plane, name: &str) -> Key {
        Key::new(plane, Kind::new("things", "x.y"), "ns", name)
    }

    fn failure(category: Category, message: &str) -> Failure {
        Failure {
            plane: Plane::Hub,
            verb: "apply",
            object: "things.x.y ns/a".to_owned(),
            category,
            message: message.to_owned(),
            retry_after: Duration::ZERO,
        }
    }

    fn at(second: i64) -> Now {
        Now {
            instant: Instant::now(),
            wall: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn the_last_failure_of_a_key_is_kept_until_a_turn_goes_well() {
        let failures = Failures::default();
        let a = key(project("p"), "a");
        failures.failed(&a, &failure(Category::Timeout, "slow"), at(10));
        failures.failed(&a, &failure(Category::Server, &"ü".repeat(2_000)), at(20));
        failures.failed(&a, &failure(Category::CircuitOpen, "not asked"), at(30));
        failures.failed(&a, &failure(Category::NotLeader, "not asked"), at(30));
        let last = failures.of(&a).unwrap();
        assert_eq!((last.category, last.attempts), (Category::Server, 2));
        assert_eq!((last.since, last.last), (at(10).wall, at(20).wall));
        assert_eq!(last.message.len(), MESSAGE_BYTES);
        assert_eq!((last.verb, &*last.object), ("apply", "things.x.y ns/a"));
        assert_eq!(failures.counts(), [(("hub", Category::Server), 1)].into());
        failures.succeeded(&a);
        assert_eq!((failures.of(&a), failures.counts().len()), (None, 0));
    }

    #[test]
    fn the_oldest_failures_stay_and_those_of_a_plane_go_with_it() {
        let failures = Failures::default();
        for n in 0..KEPT + 5 {
            let plane = project(if n == 0 { "q" } else { "p" });
            failures.failed(&key(plane, &n.to_string()), &failure(Category::Server, ""), at(0));
        }
        assert_eq!(failures.dropped(), 5);
        assert!(failures.of(&key(project("p"), "1")).is_some());
        assert!(failures.of(&key(project("p"), &KEPT.to_string())).is_none());
        failures.forget(&project("p"));
        assert_eq!(failures.counts(), [(("hub", Category::Server), 1)].into());
        assert_eq!(failures.describe()["counts"][0]["category"], "server");
    }
}
