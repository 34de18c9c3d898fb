//! State of a companion between reconciles. Values only.

use super::decide::Snapshot;
use fedgate_engine::{clock::Now, diff::Digest, plan::Requeue};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// Time for which a companion stays after the member has applied a spec that no longer names it.
const LINGER: Duration = Duration::from_mins(1);

/// State of a companion; the default one unless something about it is unusual.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Memory {
    /// Payload that was sent, and as the hub stored it.
    pub(crate) accepted: Option<(Digest, Digest)>,
    /// Entries of objects that no longer expect it, with the time since when their members have their new spec.
    leaving: BTreeMap<String, Instant>,
    /// Number of probes of its Works.
    pub(crate) probes: u32,
}

impl Memory {
    /// Entries of objects whose members have had a spec without the companion for long enough.
    pub(crate) fn expired(&self, now: Now) -> BTreeSet<String> {
        let long = self
            .leaving
            .iter()
            .filter(|(_, since)| now.since(**since) >= LINGER);
        long.map(|(entry, _)| entry.clone()).collect()
    }

    /// Records since when members have a spec without the companion. Returns when the next one has had it long enough.
    pub(crate) fn note(&mut self, s: &Snapshot, now: Now) -> Requeue {
        if s.row.is_none() {
            *self = Self::default();
            return Requeue::AwaitChange;
        }
        let applied: BTreeSet<&String> = s
            .leaving
            .iter()
            .filter(|one| one.is_applied)
            .map(|one| &one.entry)
            .collect();
        for entry in &applied {
            self.leaving.entry((*entry).clone()).or_insert(now.instant);
        }
        self.leaving.retain(|entry, since| {
            let is_expired = now.since(*since) >= LINGER && !s.wanted_by.contains(entry);
            is_expired || applied.contains(entry)
        });
        let left = self
            .leaving
            .values()
            .map(|since| LINGER.saturating_sub(now.since(*since)));
        let next = left.filter(|left| !left.is_zero()).min();
        next.map_or(Requeue::AwaitChange, Requeue::After)
    }
}
