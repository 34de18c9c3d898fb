//! Memory of the companion controller between reconciles of a key.

use super::decide::Snapshot;
use fedgate_engine::{clock::Now, diff::Digest, key::Key, plan::Requeue, random::HashMap};
use parking_lot::Mutex;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// Time for which a companion stays after the member has applied a spec that no longer names it.
const LINGER: Duration = Duration::from_mins(1);

/// Records by key; a key has none unless something about it is unusual.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<Key, Record>>);

#[derive(Debug, Default)]
struct Record {
    /// Payload that was sent, and as the hub stored it.
    accepted: Option<(Digest, Digest)>,
    /// Entries of objects that no longer expect it, with the time since when their members have their new spec.
    leaving: HashMap<String, Instant>,
    /// How often its Works were looked at.
    looks: u32,
}

impl Memory {
    /// The payload that was sent, and as the hub stored it.
    pub(crate) fn accepted(&self, key: &Key) -> Option<(Digest, Digest)> {
        self.0.lock().get(key)?.accepted
    }

    /// Records a payload that the hub stored otherwise than it was sent.
    pub(crate) fn accept(&self, key: &Key, sent: Digest, stored: Option<Digest>) {
        let mut records = self.0.lock();
        match stored.filter(|stored| *stored != sent) {
            Some(stored) => records.entry(key.clone()).or_default().accepted = Some((sent, stored)),
            None => {
                if let Some(record) = records.get_mut(key) {
                    record.accepted = None;
                }
            }
        }
    }

    /// Counts a look; returns how many there were before.
    pub(crate) fn looked(&self, key: &Key) -> u32 {
        let mut records = self.0.lock();
        let record = records.entry(key.clone()).or_default();
        record.looks = record.looks.saturating_add(1);
        record.looks - 1
    }

    /// Drops everything about a key.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Entries of objects whose members have had a spec without the companion for long enough.
    pub(crate) fn expired(&self, key: &Key, now: Now) -> BTreeSet<String> {
        let records = self.0.lock();
        let since = records.get(key).into_iter().flat_map(|record| &record.leaving);
        since
            .filter(|(_, since)| now.since(**since) >= LINGER)
            .map(|(entry, _)| entry.clone())
            .collect()
    }

    /// Records since when members have a spec without the companion. Returns when the next one has had it long enough.
    pub(crate) fn note(&self, key: &Key, s: &Snapshot, now: Now) -> Requeue {
        let mut records = self.0.lock();
        if s.row.is_none() {
            records.remove(key);
            return Requeue::AwaitChange;
        }
        let applied = || s.leaving.iter().filter(|one| one.is_applied);
        if applied().next().is_some() {
            let since = &mut records.entry(key.clone()).or_default().leaving;
            for one in applied() {
                since.entry(one.entry.clone()).or_insert(now.instant);
            }
        }
        let Some(record) = records.get_mut(key) else {
            return Requeue::AwaitChange;
        };
        record.leaving.retain(|entry, since| {
            let is_expired = now.since(*since) >= LINGER && !s.wanted_by.contains(entry);
            is_expired || s.leaving.iter().any(|one| one.is_applied && one.entry == *entry)
        });
        let left = record
            .leaving
            .values()
            .map(|since| LINGER.saturating_sub(now.since(*since)));
        let next = left.filter(|left| !left.is_zero()).min();
        next.map_or(Requeue::AwaitChange, Requeue::After)
    }
}
