//! A table of digests: what the index keeps of one kind on one plane.
//!
//! A row holds identity and a digest `D` of what the gateway reads of the object. The body stays only from the event
//! that brought it until the key it woke has been settled.

use crate::engine::{chance::HashMap, object::is_partial, pool::Pool};
use kube::core::DynamicObject;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Namespace and name of a row; the namespace is empty for cluster-scoped objects.
pub type Name = (Arc<str>, Arc<str>);

/// One object as the index knows it.
#[derive(Debug, Clone)]
pub struct Row<D> {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resourceVersion; versions of one object grow.
    pub version: u64,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// Whether only its metadata could be read: what else it says cannot be compared.
    pub partial: bool,
    /// What the gateway reads of it.
    pub digest: D,
    /// The object itself, as long as someone may still need it.
    pub body: Option<Arc<DynamicObject>>,
}

impl<D> Row<D> {
    /// The resourceVersion as it stands on the wire.
    pub fn resource_version(&self) -> String {
        self.version.to_string()
    }
}

/// Where an object came from, which decides whether its body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A list: most of it is old news.
    List,
    /// A watch event.
    Event,
    /// The answer to a write, which may come late.
    Answer,
}

/// What became known by an event.
#[derive(Debug)]
pub enum Change<D> {
    /// Nothing that the index did not know.
    None,
    /// The row is new or differs; with the row it replaced.
    Changed(Option<Row<D>>),
}

/// How many UIDs of deleted objects are remembered, against answers that arrive after the deletion's event.
const TOMBSTONES: usize = 512;

/// See the module.
// Each flag is a state of its own; no enum would say it better.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug)]
pub struct Table<D> {
    rows: BTreeMap<Arc<str>, Rows<D>>,
    len: usize,
    synced: bool,
    /// The number of the list that is being read, or of the last one.
    list: u32,
    listing: bool,
    /// Whether the watch fails that fills it.
    failing: bool,
    tombstones: Tombstones,
    bodies: bool,
}

/// Counts the rows that are gone through, for the tests that bound them.
#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local! {
        pub(super) static ROWS: Cell<usize> = const { Cell::new(0) };
    }

    /// How many rows of any table the work goes through.
    pub(crate) fn of<T>(work: impl FnOnce() -> T) -> usize {
        let before = ROWS.get();
        work();
        ROWS.get() - before
    }
}

fn visited<T>(row: &T) -> &T {
    #[cfg(test)]
    visits::ROWS.set(visits::ROWS.get() + 1);
    row
}

/// The rows of a namespace by name. Boxed: a tree keeps room for rows that it does not have.
type Rows<D> = BTreeMap<Arc<str>, Box<Held<D>>>;

/// A row, and the list that named it last.
#[derive(Debug)]
struct Held<D> {
    row: Row<D>,
    list: u32,
}

/// Objects that are gone, by UID, each with the last version that may be late: an object may come back under its UID,
/// e.g. into a selection that it had left.
#[derive(Debug, Default)]
struct Tombstones {
    order: VecDeque<Arc<str>>,
    ends: HashMap<Arc<str>, End>,
}

/// The last version of an object that may be late, and the list that was the last one begun when it ended.
#[derive(Debug, Clone, Copy)]
struct End {
    version: u64,
    list: u32,
    /// Nothing but its absence from that list says so.
    unlisted: bool,
}

impl Tombstones {
    fn bury(&mut self, uid: Arc<str>, end: End) {
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

    /// Whether this version of an object is older than its end.
    fn cover(&self, uid: &str, version: u64) -> bool {
        self.ends.get(uid).is_some_and(|end| end.version >= version)
    }

    /// A watch goes on from the version of its list. One that tells of an object which the list lacked shows that the
    /// list was older than what was known of it, as one of a server that lags behind.
    fn tell(&mut self, uid: &str) {
        if self.ends.get(uid).is_some_and(|end| end.unlisted) {
            self.forget(uid);
        }
    }

    fn forget(&mut self, uid: &str) {
        self.ends.remove(uid);
        self.order.retain(|buried| **buried != *uid);
    }

    /// The end of an object that was before this list began is void.
    fn open(&mut self, uid: &str, list: u32) {
        if self.ends.get(uid).is_some_and(|end| end.list != list) {
            self.forget(uid);
        }
    }
}

/// The resourceVersion as a number; API servers promise that it is one.
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
    /// A table that keeps the body of what an event changed until [`Table::drop_body`].
    pub fn with_bodies() -> Self {
        Self {
            bodies: true,
            ..Self::default()
        }
    }

    /// Whether a complete list has been read. Before that, absence means nothing.
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// Whether absence proves something: a complete list has been read, and its watch tells what changes.
    pub fn proves(&self) -> bool {
        self.synced && !self.listing && !self.failing
    }

    /// The plane was restored to an older state: versions say nothing of what is newer, and what is known of objects that
    /// are gone is void. The rows stay until the next list, which decides what has become of them.
    pub fn rewind(&mut self) {
        self.synced = false;
        self.tombstones = Tombstones::default();
        for held in self.rows.values_mut().flat_map(BTreeMap::values_mut) {
            held.row.version = 0;
            held.row.body = None;
        }
    }

    /// The watch fails, or goes on.
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

    /// The rows of one namespace whose names begin so, in order of names.
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

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes in an object. An older version than the one known, or one of an object known to be gone, is ignored; but what
    /// was known before a list began yields to the list, which is by quorum: a plane that was restored to an older state
    /// gives older versions, and may say that it has a newer one itself.
    pub fn upsert(
        &mut self,
        object: DynamicObject,
        digest: D,
        origin: Origin,
        words: &mut Pool<str>,
    ) -> (Name, Change<D>) {
        let word =
            |text: &Option<String>, words: &mut Pool<str>| words.share(text.as_deref().unwrap_or_default());
        let name = (
            word(&object.metadata.namespace, words),
            word(&object.metadata.name, words),
        );
        let uid = word(&object.metadata.uid, words);
        let version = version_of(&object).unwrap_or(0);
        match origin {
            Origin::List => self.tombstones.open(&uid, self.list),
            Origin::Event => self.tombstones.tell(&uid),
            Origin::Answer => {}
        }
        if let Some(held) = self.rows.get_mut(&name.0).and_then(|rows| rows.get_mut(&name.1)) {
            if origin == Origin::List && held.list != self.list && held.row.version > version {
                held.row.version = 0;
                held.row.body = None;
            }
            held.list = self.list;
        }
        if self.tombstones.cover(&uid, version) {
            return (name, Change::None);
        }
        let deleting = object.metadata.deletion_timestamp.is_some();
        let partial = is_partial(&object);
        let mut object = object;
        object.metadata.managed_fields = None;
        let body = (self.bodies && origin != Origin::List).then(|| Arc::new(object));
        if let Some(row) = self.get(&name.0, &name.1)
            && row.uid != uid
        {
            // The answer to a write may come after the watch has shown the next object of the name.
            if row.version > version {
                return (name, Change::None);
            }
            let replaced = row.uid.clone();
            self.bury(replaced, u64::MAX, origin == Origin::List);
        }
        if let Some(row) = self.get_mut(&name.0, &name.1)
            && row.uid == uid
        {
            if row.version >= version {
                return (name, Change::None);
            }
            if row.digest == digest && (row.deleting, row.partial) == (deleting, partial) {
                row.version = version;
                // Nobody is woken, so nobody would drop a body that was not there before.
                if row.body.is_some() && body.is_some() {
                    row.body = body;
                }
                return (name, Change::None);
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
        (name, Change::Changed(old.map(|held| held.row)))
    }

    /// Takes out an object as it was last seen; with its row if it was known. An object of another UID under the name
    /// stays.
    pub fn remove(&mut self, last: &DynamicObject) -> Option<Row<D>> {
        let meta = &last.metadata;
        let uid = meta.uid.as_deref().unwrap_or_default();
        self.bury(uid.into(), version_of(last).unwrap_or(u64::MAX), false);
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        if self.get(namespace, name).is_some_and(|row| &*row.uid != uid) {
            return None;
        }
        self.take(namespace, name)
    }

    fn bury(&mut self, uid: Arc<str>, version: u64, unlisted: bool) {
        let end = End {
            version,
            list: self.list,
            unlisted,
        };
        self.tombstones.bury(uid, end);
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

    /// A list begins: what it does not name by its end is gone.
    pub fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
        self.listing = true;
    }

    /// The list is complete. Returns what vanished while nobody looked, and whether this was the first list.
    pub fn end_list(&mut self) -> (Vec<(Name, Row<D>)>, bool) {
        let first = !self.synced;
        self.synced = true;
        // Whoever reads a list to its end tells what changes from then on.
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
            self.bury(row.uid.clone(), row.version, true);
        }
        (rows, first)
    }

    /// Drops the body of a row whose key has been settled.
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

    /// Puts a body that was read again to its row; not if the row tells of another version than was read: what is
    /// decided by the row is written from the body.
    pub fn keep_body(&mut self, object: DynamicObject) {
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
