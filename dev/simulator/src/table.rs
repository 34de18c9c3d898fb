//! The objects of one kind, and their history.

use crate::{definition::Definition, meta};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    iter,
    ops::Bound,
    sync::Arc,
    task::Waker,
};
use tokio::time::Instant;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// One step of a table's history.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) at: Instant,
    pub(crate) kind: Kind,
    pub(crate) key: Box<str>,
    /// The object after the change; for a deletion its last state, with the version of the deletion.
    pub(crate) object: Arc<Value>,
    pub(crate) previous: Option<Arc<Value>>,
}

impl Change {
    /// Whether more changed than the status and what the server sets.
    pub(crate) fn is_of_specification(&self) -> bool {
        let bare = |object: &Value| {
            let mut bare = object.clone();
            meta::put(&mut bare, "status", Value::Null);
            for key in ["resourceVersion", "managedFields"] {
                meta::set(&mut bare, key, Value::Null);
            }
            bare
        };
        let previous = self.previous.as_deref().filter(|_| self.kind == Kind::Modified);
        previous.is_none_or(|previous| bare(previous) != bare(&self.object))
    }
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) definition: Arc<Definition>,
    pub(crate) objects: BTreeMap<Box<str>, Arc<Value>>,
    pub(crate) changes: VecDeque<Change>,
    /// Changes up to this revision are no longer kept.
    pub(crate) dropped: u64,
    pub(crate) wakers: BTreeMap<u64, Waker>,
    /// Grows when all watches are closed; a watch of an older number ends.
    pub(crate) epoch: u64,
    /// Watches see nothing newer than this.
    pub(crate) paused: Option<u64>,
    /// Lists and watches see nothing newer than this.
    pub(crate) stale: Option<u64>,
}

impl Table {
    pub(crate) fn new(definition: Arc<Definition>) -> Self {
        Self {
            definition,
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            dropped: 0,
            wakers: BTreeMap::new(),
            epoch: 0,
            paused: None,
            stale: None,
        }
    }

    /// The revision up to which watches see changes.
    pub(crate) fn horizon(&self) -> u64 {
        let limit = |at: Option<u64>| at.unwrap_or(u64::MAX);
        limit(self.paused).min(limit(self.stale))
    }

    /// The table as it was at a revision; `None` if the history does not reach back to it.
    pub(crate) fn at(&self, revision: u64) -> Option<Past<'_>> {
        if revision < self.dropped {
            return None;
        }
        let undone = self
            .changes
            .iter()
            .rev()
            .take_while(|change| change.revision > revision)
            .map(|change| (&*change.key, change.previous.as_ref()))
            .collect();
        Some(Past {
            objects: &self.objects,
            undone,
        })
    }

    /// The place in the history of the first change after a revision.
    pub(crate) fn after(&self, revision: u64) -> usize {
        self.changes.partition_point(|change| change.revision <= revision)
    }

    /// Lets the oldest changes go until `limit` are left, but none that a stale view needs.
    pub(crate) fn trim(&mut self, limit: usize) {
        let needed = self.horizon();
        while self.changes.len() > limit && self.changes.front().is_some_and(|c| c.revision <= needed) {
            if let Some(change) = self.changes.pop_front() {
                self.dropped = change.revision;
            }
        }
    }
}

/// A table as it was: what there is now, but for the keys that were changed since.
pub(crate) struct Past<'a> {
    objects: &'a BTreeMap<Box<str>, Arc<Value>>,
    /// What changed keys held then.
    undone: BTreeMap<&'a str, Option<&'a Arc<Value>>>,
}

impl<'a> Past<'a> {
    /// The objects after a key, or all of them, by key.
    pub(crate) fn after(&self, key: Option<&str>) -> impl Iterator<Item = (&'a str, &'a Arc<Value>)> {
        let bounds = (key.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut same = self
            .objects
            .range::<str, _>(bounds)
            .map(|(key, object)| (&**key, object))
            .filter(|(key, _)| !self.undone.contains_key(key))
            .peekable();
        let mut undone = self
            .undone
            .range::<str, _>(bounds)
            .filter_map(|(key, object)| Some((*key, (*object)?)))
            .peekable();
        iter::from_fn(move || match (same.peek(), undone.peek()) {
            (Some((one, _)), Some((other, _))) if other < one => undone.next(),
            (Some(_), _) => same.next(),
            (None, _) => undone.next(),
        })
    }
}
