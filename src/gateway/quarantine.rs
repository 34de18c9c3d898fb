//! What is refused as it is: kept so that it is said once, counted, and let go when it heals
//! (contract: federation.md §3.1, class quarantine). Verdicts live in memory.

use crate::engine::{
    error::Category,
    key::{Key, Kind, Plane},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// A refused object is tried again after this, unless it changes.
pub const RETRY_AFTER: Duration = Duration::from_mins(5);

/// The objects in quarantine, each with its verdict: one word of a closed set.
#[derive(Debug, Default)]
pub struct Quarantine(Mutex<HashMap<Key, &'static str>>);

impl Quarantine {
    /// Puts an object in; whether that is news, and so has to be said.
    pub fn put(&self, key: &Key, verdict: &'static str) -> bool {
        self.0.lock().insert(key.clone(), verdict) != Some(verdict)
    }

    /// The object is well.
    pub fn release(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// No server refuses the object any more; a verdict of another kind stays.
    pub fn accepted(&self, key: &Key) {
        self.lift(key, Category::Refused.as_str());
    }

    /// A verdict no longer holds; one of another kind stays.
    pub fn lift(&self, key: &Key, verdict: &'static str) {
        let mut held = self.0.lock();
        if held.get(key) == Some(&verdict) {
            held.remove(key);
        }
    }

    /// The plane has left, and what was thought of its objects with it.
    pub fn forget(&self, plane: &Plane) {
        self.0.lock().retain(|key, _| key.plane != *plane);
    }

    /// How many objects are in, by kind and verdict.
    pub fn counts(&self) -> BTreeMap<(Kind, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for (key, verdict) in self.0.lock().iter() {
            *counts.entry((key.kind.clone(), *verdict)).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_news_once_and_an_acceptance_lifts_only_a_refusal() {
        let quarantine = Quarantine::default();
        let key = Key::new(Plane::Hub, Kind::new("things", "x.y"), "ns", "a");
        assert!(quarantine.put(&key, "owner_mismatch"));
        assert!(!quarantine.put(&key, "owner_mismatch"));
        quarantine.accepted(&key);
        assert_eq!(
            quarantine.counts(),
            [((key.kind.clone(), "owner_mismatch"), 1)].into()
        );
        assert!(quarantine.put(&key, "refused"), "another verdict is news");
        quarantine.accepted(&key);
        assert_eq!(quarantine.counts(), BTreeMap::new());
        quarantine.put(&key, "refused");
        quarantine.forget(&Plane::Hub);
        assert_eq!(quarantine.counts(), BTreeMap::new());
    }
}
