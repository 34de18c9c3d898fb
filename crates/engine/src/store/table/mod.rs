//! A table of digests: the index's data for one kind on one plane.
//!
//! A row holds the identity of an object and a digest `D` of the fields that the controllers read. A row keeps the body
//! from the event that delivered it until the enqueued key has been reconciled.

use crate::{interner::Interner, object::is_partial, random::HashMap};
use kube::core::DynamicObject;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Namespace and name of a row; the namespace is empty for cluster-scoped objects.
pub type Name = (Arc<str>, Arc<str>);

/// One object in the index.
#[derive(Debug, Clone)]
pub struct Row<D> {
    /// UID of the object.
    pub uid: Arc<str>,
    /// resourceVersion of the object; the versions of one object increase.
    pub version: u64,
    /// True if it has a deletionTimestamp.
    pub deleting: bool,
    /// True if only its metadata could be read: its other fields cannot be compared.
    pub partial: bool,
    /// Digest of the fields that the controllers read.
    pub digest: D,
    /// The object itself, while a reconcile may still need it.
    pub body: Option<Arc<DynamicObject>>,
}

impl<D> Row<D> {
    /// The resourceVersion in its wire form.
    pub fn resource_version(&self) -> String {
        self.version.to_string()
    }
}

/// Origin of an object, which decides if its body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A list: most of its objects are known already.
    List,
    /// A watch event.
    Event,
    /// The response to a write, which may arrive late.
    Answer,
}

/// Effect of an object on the table.
#[derive(Debug)]
pub enum Upserted<D> {
    /// No change to a known row.
    None,
    /// The row is new or differs; with the row it replaced.
    Changed(Option<Row<D>>),
}

/// Maximum number of remembered UIDs of deleted objects, against responses that arrive after the deletion event.
const TOMBSTONES: usize = 512;

/// Rows of one kind on one plane; see the module.
// Each flag is an independent state; an enum would not be clearer.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug)]
pub struct Table<D> {
    rows: BTreeMap<Arc<str>, Rows<D>>,
    len: usize,
    synced: bool,
    /// Number of the list that is being read, or of the last one.
    list: u32,
    listing: bool,
    /// True while the watch that fills the table fails.
    failing: bool,
    tombstones: Tombstones,
    bodies: bool,
}

/// Counts the rows that are iterated, for the tests that limit them.
#[cfg(any(test, feature = "testing"))]
pub mod visits {
    use std::cell::Cell;

    thread_local! {
        pub(super) static ROWS: Cell<usize> = const { Cell::new(0) };
    }

    /// Number of rows of all tables that `work` iterates.
    pub fn of<T>(work: impl FnOnce() -> T) -> usize {
        let before = ROWS.get();
        work();
        ROWS.get() - before
    }
}

fn visited<T>(row: &T) -> &T {
    #[cfg(any(test, feature = "testing"))]
    visits::ROWS.set(visits::ROWS.get() + 1);
    row
}

/// The rows of a namespace by name. Boxed, because a tree reserves space for rows that it does not have.
type Rows<D> = BTreeMap<Arc<str>, Box<Held<D>>>;

/// A row, and the last list that contained it.
#[derive(Debug)]
struct Held<D> {
    row: Row<D>,
    list: u32,
}

/// Deleted objects by UID, each with the last version that may arrive late: an object may return under its UID, e.g.
/// into a selection that it had left.
#[derive(Debug, Default)]
struct Tombstones {
    order: VecDeque<Arc<str>>,
    ends: HashMap<Arc<str>, End>,
}

/// Last version of a deleted object that may arrive late, and the last list begun before its deletion was recorded.
#[derive(Debug, Clone, Copy)]
struct End {
    version: u64,
    list: u32,
    /// True if the only evidence of the deletion is the object's absence from that list.
    unlisted: bool,
}

impl Tombstones {
    fn record(&mut self, uid: Arc<str>, end: End) {
        if uid.is_empty() {
            return;
        }
        if let Some(had) = self.ends.insert(uid.clone(), end) {
            let version = had.version.max(end.version);
            self.ends.insert(uid, End { version, ..end });
            return;
        }
        if self.order.len() == TOMBSTONES
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
        self.order.push_back(uid);
    }

    /// True if this version of an object is not newer than its recorded deletion.
    fn covers(&self, uid: &str, version: u64) -> bool {
        self.ends.get(uid).is_some_and(|end| end.version >= version)
    }

    /// Drops the tombstone of an object that was only missing from a list. A watch resumes from the version of its
    /// list, so an event for an object missing from the list shows that the list was stale, as from a server that lags
    /// behind.
    fn notify(&mut self, uid: &str) {
        if self.ends.get(uid).is_some_and(|end| end.unlisted) {
            self.forget(uid);
        }
    }

    fn forget(&mut self, uid: &str) {
        self.ends.remove(uid);
        self.order.retain(|buried| **buried != *uid);
    }

    /// Drops the tombstone of an object if it was recorded before this list began.
    fn open(&mut self, uid: &str, list: u32) {
        if self.ends.get(uid).is_some_and(|end| end.list != list) {
            self.forget(uid);
        }
    }
}

/// The resourceVersion as a number; API servers guarantee that it is a number.
fn version_of(object: &DynamicObject) -> Option<u64> {
    object.metadata.resource_version.as_deref()?.parse().ok()
}

impl<D> Default for Table<D> {
    fn default() -> Self {
        Self {
            bodies: false,
            rows: BTreeMap::new(),
            len: 0,
            synced: false,
            list: 0,
            listing: false,
            failing: false,
            tombstones: Tombstones::default(),
        }
    }
}

impl<D: PartialEq> Table<D> {
    /// A table that keeps the body of each changed object until [`Table::drop_body`].
    pub fn with_bodies() -> Self {
        Self {
            bodies: true,
            ..Self::default()
        }
    }

    /// True if a complete list has been read. Before that, the absence of an object means nothing.
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// True if the absence of an object proves its deletion: a complete list has been read, and its watch delivers
    /// changes.
    pub fn proves(&self) -> bool {
        self.synced && !self.listing && !self.failing
    }

    /// True if its watch fails.
    pub fn is_failing(&self) -> bool {
        self.failing
    }

    /// Resets the table after the plane was restored to an older state: versions no longer show which state is newer,
    /// and tombstones are void. The rows stay until the next list, which confirms or removes them.
    pub fn rewind(&mut self) {
        self.synced = false;
        self.tombstones = Tombstones::default();
        for held in self.rows.values_mut().flat_map(BTreeMap::values_mut) {
            held.row.version = 0;
            held.row.body = None;
        }
    }

    /// Records that the watch fails or has resumed.
    pub fn set_failing(&mut self, failing: bool) {
        self.failing = failing;
    }

    /// The row of an object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Row<D>> {
        self.rows.get(namespace)?.get(name).map(|held| &held.row)
    }

    fn get_mut(&mut self, namespace: &str, name: &str) -> Option<&mut Row<D>> {
        let held = self.rows.get_mut(namespace)?.get_mut(name)?;
        Some(&mut held.row)
    }

    /// All rows, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = ((&Arc<str>, &Arc<str>), &Row<D>)> {
        self.rows.iter().flat_map(|(namespace, rows)| {
            rows.iter()
                .map(move |(name, held)| ((namespace, name), &visited(held).row))
        })
    }

    /// The rows of one namespace, in order of names.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Arc<str>, &Row<D>)> {
        let rows = self.rows.get(namespace);
        rows.into_iter()
            .flatten()
            .map(|(name, held)| (name, &visited(held).row))
    }

    /// The rows of one namespace whose names start with `beginning`, in order of names.
    pub fn beginning_with<'a>(
        &'a self,
        namespace: &str,
        beginning: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Row<D>)> {
        let rows = self.rows.get(namespace).into_iter();
        let rows = rows.flat_map(move |rows| rows.range(Arc::from(beginning)..));
        rows.take_while(move |(name, _)| name.starts_with(beginning))
            .map(|(name, held)| (name, &visited(held).row))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Inserts or updates an object. An older version than the known one, or a version of a deleted object, is ignored.
    /// Known state from before the current list yields to the list, which is a quorum read: a plane restored to an
    /// older state returns older versions, even if it reported a newer version itself.
    pub fn upsert(
        &mut self,
        object: DynamicObject,
        digest: D,
        origin: Origin,
        words: &mut Interner<str>,
    ) -> (Name, Upserted<D>) {
        let word = |text: &Option<String>, words: &mut Interner<str>| {
            words.intern(text.as_deref().unwrap_or_default())
        };
        let name = (
            word(&object.metadata.namespace, words),
            word(&object.metadata.name, words),
        );
        let uid = word(&object.metadata.uid, words);
        let version = version_of(&object).unwrap_or(0);
        match origin {
            Origin::List => self.tombstones.open(&uid, self.list),
            Origin::Event => self.tombstones.notify(&uid),
            Origin::Answer => {}
        }
        if let Some(held) = self.rows.get_mut(&name.0).and_then(|rows| rows.get_mut(&name.1)) {
            if origin == Origin::List && held.list != self.list && held.row.version > version {
                held.row.version = 0;
                held.row.body = None;
            }
            held.list = self.list;
        }
        if self.tombstones.covers(&uid, version) {
            return (name, Upserted::None);
        }
        let deleting = object.metadata.deletion_timestamp.is_some();
        let partial = is_partial(&object);
        let mut object = object;
        object.metadata.managed_fields = None;
        let body = (self.bodies && origin != Origin::List).then(|| Arc::new(object));
        if let Some(row) = self.get(&name.0, &name.1)
            && row.uid != uid
        {
            // The response to a write may arrive after the watch has shown the next object of the same name.
            if row.version > version {
                return (name, Upserted::None);
            }
            let replaced = row.uid.clone();
            self.record(replaced, u64::MAX, origin == Origin::List);
        }
        if let Some(row) = self.get_mut(&name.0, &name.1)
            && row.uid == uid
        {
            if row.version >= version {
                return (name, Upserted::None);
            }
            if row.digest == digest && (row.deleting, row.partial) == (deleting, partial) {
                row.version = version;
                // No key is enqueued, so no reconcile would drop a body that the row did not have before.
                if row.body.is_some() && body.is_some() {
                    row.body = body;
                }
                return (name, Upserted::None);
            }
        }
        let row = Row {
            uid,
            version,
            deleting,
            partial,
            digest,
            body,
        };
        let held = Box::new(Held { row, list: self.list });
        let rows = self.rows.entry(name.0.clone()).or_default();
        let old = rows.insert(name.1.clone(), held);
        self.len += usize::from(old.is_none());
        (name, Upserted::Changed(old.map(|held| held.row)))
    }

    /// Removes an object, given its last state; returns its row if it was known. An object of another UID under the
    /// same name stays.
    pub fn remove(&mut self, last: &DynamicObject) -> Option<Row<D>> {
        let meta = &last.metadata;
        let uid = meta.uid.as_deref().unwrap_or_default();
        self.record(uid.into(), version_of(last).unwrap_or(u64::MAX), false);
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        if self.get(namespace, name).is_some_and(|row| &*row.uid != uid) {
            return None;
        }
        self.take(namespace, name)
    }

    fn record(&mut self, uid: Arc<str>, version: u64, unlisted: bool) {
        let end = End {
            version,
            list: self.list,
            unlisted,
        };
        self.tombstones.record(uid, end);
    }

    fn take(&mut self, namespace: &str, name: &str) -> Option<Row<D>> {
        let rows = self.rows.get_mut(namespace)?;
        let held = rows.remove(name)?;
        self.len -= 1;
        if rows.is_empty() {
            self.rows.remove(namespace);
        }
        Some(held.row)
    }

    /// Starts a list: an object that the list does not contain is deleted.
    pub fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
        self.listing = true;
    }

    /// Completes the list. Returns the rows of objects deleted without an event, and true if this was the first list.
    pub fn end_list(&mut self) -> (Vec<(Name, Row<D>)>, bool) {
        let first = !self.synced;
        self.synced = true;
        // A list read to its end is followed by a watch that delivers all later changes.
        self.failing = false;
        if !std::mem::take(&mut self.listing) {
            return (Vec::new(), first);
        }
        let gone: Vec<Name> = self
            .rows
            .iter()
            .flat_map(|(namespace, rows)| rows.iter().map(move |(name, held)| (namespace, name, held)))
            .filter(|(.., held)| held.list != self.list)
            .map(|(namespace, name, _)| (namespace.clone(), name.clone()))
            .collect();
        let rows: Vec<_> = gone
            .into_iter()
            .filter_map(|name| self.take(&name.0, &name.1).map(|row| (name, row)))
            .collect();
        for (_, row) in &rows {
            self.record(row.uid.clone(), row.version, true);
        }
        (rows, first)
    }

    /// Drops the body of a row whose key has been reconciled.
    pub fn drop_body(&mut self, namespace: &str, name: &str) {
        if let Some(row) = self.get_mut(namespace, name) {
            row.body = None;
        }
    }

    /// Drops the bodies of all rows of a namespace.
    pub fn drop_bodies(&mut self, namespace: &str) {
        let rows = self.rows.get_mut(namespace).into_iter();
        for held in rows.flat_map(BTreeMap::values_mut) {
            held.row.body = None;
        }
    }

    /// Stores a body that was read again in its row, but only if the row has the same version: decisions use the row,
    /// and writes use the body.
    pub fn store_body(&mut self, object: DynamicObject) {
        let meta = &object.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        if let Some(row) = self.get_mut(namespace.unwrap_or_default(), name.unwrap_or_default())
            && object.metadata.uid.as_deref().unwrap_or_default() == &*row.uid
            && version_of(&object) == Some(row.version)
        {
            row.body = Some(Arc::new(object));
        }
    }
}

#[cfg(test)]
mod tests;
