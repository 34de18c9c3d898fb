//! Quarantine: records rejected objects, so that each verdict is logged once, counted, and released when the object
//! recovers (contract: federation.md §3.1, class quarantine). Verdicts are kept in memory only.

use crate::{
    error::Category,
    key::{Key, Kind, Plane},
    random::HashMap,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Why an object is quarantined: a word of the closed set of its role (see [`labels`](crate::labels)), or the
/// [`Category`] of a server's rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictLabel(&'static str);

impl VerdictLabel {
    /// A verdict with this label; only [`labels`](crate::labels) and tests call it.
    pub const fn new(label: &'static str) -> Self {
        Self(label)
    }

    /// The label.
    pub const fn label(self) -> &'static str {
        self.0
    }
}

impl From<Category> for VerdictLabel {
    fn from(category: Category) -> Self {
        Self(category.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    label: VerdictLabel,
    /// True if the verdict stays until the object is released explicitly.
    held: bool,
    /// Since when it has been the verdict.
    since: Instant,
}

/// The objects in quarantine, each with its verdict.
#[derive(Debug, Default)]
pub struct Quarantine(Mutex<HashMap<Key, Verdict>>);

impl Quarantine {
    /// Quarantines an object; true if the verdict is new, so the caller must log it. A server's rejection ends with the
    /// first reconcile without one.
    pub fn insert(&self, key: &Key, verdict: impl Into<VerdictLabel>) -> bool {
        let label = verdict.into();
        let held = label != Category::Refused.into();
        self.record(key, label, held)
    }

    /// Quarantines an object until [`Quarantine::release`]: its reconciles succeed because the rejected write is not
    /// sent again.
    pub fn insert_until_released(&self, key: &Key, verdict: impl Into<VerdictLabel>) -> bool {
        let label = verdict.into();
        self.record(key, label, true)
    }

    fn record(&self, key: &Key, label: VerdictLabel, held: bool) -> bool {
        let mut verdicts = self.0.lock();
        let known = verdicts.get(key).filter(|known| known.label == label);
        let since = known.map_or_else(Instant::now, |known| known.since);
        let is_new = known.is_none();
        verdicts.insert(key.clone(), Verdict { label, held, since });
        is_new
    }

    /// Releases an object, whatever its verdict.
    pub fn release(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Clears a server's rejection of the object; a held verdict stays.
    pub fn clear_refusal(&self, key: &Key) {
        self.lift_if(key, |verdict| !verdict.held);
    }

    /// Clears this verdict; another one stays.
    pub fn lift(&self, key: &Key, verdict: impl Into<VerdictLabel>) {
        let label = verdict.into();
        self.lift_if(key, |verdict| verdict.label == label);
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

    /// Drops held verdicts of objects that no controller watches.
    pub fn retain(&self, looked_at: impl Fn(&Key) -> bool) {
        self.0
            .lock()
            .retain(|key, verdict| !verdict.held || looked_at(key));
    }

    /// The quarantined objects, each with its verdict and since when it has had it.
    pub fn all(&self) -> Vec<(Key, &'static str, Instant)> {
        let verdicts = self.0.lock();
        let all = verdicts.iter();
        all.map(|(key, verdict)| (key.clone(), verdict.label.0, verdict.since))
            .collect()
    }

    /// Number of quarantined objects, by kind and verdict.
    pub fn counts(&self) -> BTreeMap<(Kind, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for (key, verdict) in self.0.lock().iter() {
            *counts.entry((key.kind.clone(), verdict.label.0)).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISMATCH: VerdictLabel = VerdictLabel::new("owner_mismatch");

    #[test]
    fn a_verdict_is_news_once_and_an_acceptance_lifts_only_a_refusal() {
        let quarantine = Quarantine::default();
        let key = Key::new(Plane::Hub, Kind::new("things", "x.y"), "ns", "a");
        assert!(quarantine.insert(&key, MISMATCH));
        assert!(!quarantine.insert(&key, MISMATCH));
        quarantine.clear_refusal(&key);
        assert_eq!(
            quarantine.counts(),
            [((key.kind.clone(), "owner_mismatch"), 1)].into()
        );
        assert!(
            quarantine.insert(&key, Category::Refused),
            "another verdict is news"
        );
        quarantine.clear_refusal(&key);
        assert_eq!(quarantine.counts(), BTreeMap::new());
        assert!(quarantine.insert_until_released(&key, Category::Refused));
        quarantine.clear_refusal(&key);
        assert!(!quarantine.insert(&key, Category::Refused), "it was held");
        quarantine.lift(&key, MISMATCH);
        assert_eq!(quarantine.counts().len(), 1);
        quarantine.lift(&key, Category::Refused);
        assert_eq!(quarantine.counts(), BTreeMap::new());
        quarantine.insert(&key, Category::Refused);
        quarantine.forget(&Plane::Hub);
        assert_eq!(quarantine.counts(), BTreeMap::new());
    }
}
