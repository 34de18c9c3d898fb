//! Quarantine: records rejected objects, so that each verdict is logged once, counted, and released when the object
//! recovers (contract: federation.md §3.1, class quarantine). Verdicts are kept in memory only.

use crate::{
    error::Category,
    key::{Key, Kind, Plane},
    random::HashMap,
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, time::Duration};

/// Delay before a rejected object is retried, unless it changes first.
pub const RETRY_AFTER: Duration = Duration::from_mins(5);

/// A verdict, named by a word of a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    word: &'static str,
    /// True if the verdict stays until the object is released explicitly.
    held: bool,
}

/// The objects in quarantine, each with its verdict.
#[derive(Debug, Default)]
pub struct Quarantine(Mutex<HashMap<Key, Verdict>>);

impl Quarantine {
    /// Quarantines an object; true if the verdict is new, so the caller must log it. A server's rejection ends with the
    /// first reconcile without one.
    pub fn insert(&self, key: &Key, word: &'static str) -> bool {
        let held = word != Category::Refused.as_str();
        self.record(key, Verdict { word, held })
    }

    /// Quarantines an object until [`Quarantine::release`]: its reconciles succeed because the rejected write is not
    /// sent again.
    pub fn insert_until_released(&self, key: &Key, word: &'static str) -> bool {
        self.record(key, Verdict { word, held: true })
    }

    fn record(&self, key: &Key, verdict: Verdict) -> bool {
        let old = self.0.lock().insert(key.clone(), verdict);
        old.is_none_or(|old| old.word != verdict.word)
    }

    /// Releases an object, whatever its verdict.
    pub fn release(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Clears a server's rejection of the object; a held verdict stays.
    pub fn clear_refusal(&self, key: &Key) {
        self.lift_if(key, |verdict| !verdict.held);
    }

    /// Clears this verdict; a verdict with another word stays.
    pub fn lift(&self, key: &Key, word: &'static str) {
        self.lift_if(key, |verdict| verdict.word == word);
    }

    fn lift_if(&self, key: &Key, over: impl Fn(&Verdict) -> bool) {
        let mut verdicts = self.0.lock();
        if verdicts.get(key).is_some_and(over) {
            verdicts.remove(key);
        }
    }

    /// Drops the verdicts of all objects of a plane that was removed.
    pub fn forget(&self, plane: &Plane) {
        self.0.lock().retain(|key, _| key.plane != *plane);
    }

    /// Drops held verdicts of objects that no controller watches any more.
    pub fn retain(&self, looked_at: impl Fn(&Key) -> bool) {
        self.0
            .lock()
            .retain(|key, verdict| !verdict.held || looked_at(key));
    }

    /// Number of quarantined objects, by kind and verdict.
    pub fn counts(&self) -> BTreeMap<(Kind, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for (key, verdict) in self.0.lock().iter() {
            *counts.entry((key.kind.clone(), verdict.word)).or_default() += 1;
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
        assert!(quarantine.insert(&key, "owner_mismatch"));
        assert!(!quarantine.insert(&key, "owner_mismatch"));
        quarantine.clear_refusal(&key);
        assert_eq!(
            quarantine.counts(),
            [((key.kind.clone(), "owner_mismatch"), 1)].into()
        );
        assert!(quarantine.insert(&key, "refused"), "another verdict is news");
        quarantine.clear_refusal(&key);
        assert_eq!(quarantine.counts(), BTreeMap::new());
        assert!(quarantine.insert_until_released(&key, "refused"));
        quarantine.clear_refusal(&key);
        assert!(!quarantine.insert(&key, "refused"), "it was held");
        quarantine.lift(&key, "owner_mismatch");
        assert_eq!(quarantine.counts().len(), 1);
        quarantine.lift(&key, "refused");
        assert_eq!(quarantine.counts(), BTreeMap::new());
        quarantine.insert(&key, "refused");
        quarantine.forget(&Plane::Hub);
        assert_eq!(quarantine.counts(), BTreeMap::new());
    }
}
