//! The last deltas, for streams that read slowly or come back.

use super::{collector::Change, collector::Content, reader};
use crate::api::topics::{Selection, Topic};
use bytes::Bytes;
use std::collections::VecDeque;
use tokio::time::Instant;

/// Maximum number of deltas.
const KEPT: usize = 300;
/// Maximum size of all deltas together, in bytes: half a mebibyte for each stream.
const KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of rows of a delta.
pub(super) const ROWS: usize = 512;
/// Maximum size of a delta in bytes.
pub(super) const BYTES: usize = 256 * 1024;

/// The last deltas.
#[derive(Default)]
pub(super) struct Log {
    deltas: VecDeque<(u64, Instant, Change)>,
    size: usize,
    /// Number of the newest delta.
    last: u64,
}

/// The next event of a stream.
pub(super) enum Next {
    /// There is none yet.
    Wait,
    /// Rows.
    Rows(Vec<Bytes>),
    /// Topics that the reader has to fetch anew.
    Reset(Vec<Topic>),
}

impl Log {
    /// Number of the newest delta.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// True if every delta after this one is kept.
    pub(super) fn has_all_after(&self, read: u64) -> bool {
        let first = self.deltas.front().map_or(self.last + 1, |(number, ..)| *number);
        read <= self.last && read + 1 >= first
    }

    /// Adds a delta, unless nothing changed.
    pub(super) fn push(&mut self, now: Instant, change: Change) {
        if change.parts.is_empty() {
            return;
        }
        self.last += 1;
        self.size += change.size();
        self.deltas.push_back((self.last, now, change));
        while self.deltas.len() > KEPT || self.size > KEPT_BYTES {
            let Some((_, _, change)) = self.deltas.pop_front() else {
                break;
            };
            self.size -= change.size();
        }
    }

    /// Number of the newest delta from this time or before.
    pub(super) fn last_before(&self, time: Option<Instant>) -> u64 {
        let Some(time) = time else { return 0 };
        let mut deltas = self.deltas.iter().rev();
        deltas
            .find(|(_, at, _)| *at <= time)
            .map_or(0, |(number, ..)| *number)
    }

    /// Forgets all deltas; a stream that comes back with an earlier number has missed some.
    pub(super) fn forget(&mut self) {
        self.deltas.clear();
        self.size = 0;
        self.last += 1;
    }

    /// The event after the delta `read`, which becomes the one that was read.
    pub(super) fn next(&self, selection: &Selection, read: &mut u64) -> Next {
        if !self.has_all_after(*read) {
            *read = self.last;
            return Next::Reset(selection.iter().map(|(_, topic)| *topic).collect());
        }
        let from = *read;
        for (number, _, change) in self.deltas.iter().filter(|(number, ..)| *number > from) {
            *read = *number;
            let parts = change.parts.iter().filter(|(part, _)| selection.contains(*part));
            let parts: Vec<(Topic, &Content)> =
                parts.map(|((_, topic), content)| (*topic, content)).collect();
            if parts.is_empty() {
                continue;
            }
            let sum = |of: fn(&Content) -> usize| parts.iter().map(|(_, content)| of(content)).sum::<usize>();
            if sum(|content| content.rows) > ROWS || sum(|content| content.text.len()) > BYTES {
                return Next::Reset(parts.into_iter().map(|(topic, _)| topic).collect());
            }
            let texts = parts
                .iter()
                .map(|(topic, content)| (*topic, content.text.clone()));
            return Next::Rows(reader::data(&change.as_of, texts));
        }
        *read = self.last;
        Next::Wait
    }
}
