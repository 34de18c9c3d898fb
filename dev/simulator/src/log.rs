//! The request log.

use crate::route::Verb;
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::time::Instant;

/// One request.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number, from 0 on; it is not used again after [`Log::clear`].
    pub n: u64,
    /// When it was carried out.
    pub at: Instant,
    /// The plane's name.
    pub plane: Arc<str>,
    /// Who asked.
    pub user: Arc<str>,
    /// What was asked.
    pub verb: Verb,
    /// The kind's group; empty for the core.
    pub group: Arc<str>,
    /// The kind's plural, or the path of what is no resource.
    pub resource: Arc<str>,
    /// `status`, `finalize` or another part of the object.
    pub subresource: Option<Arc<str>>,
    /// Empty for a cluster-scoped kind and for all namespaces.
    pub namespace: String,
    /// Empty for lists, watches and creates with a generated name.
    pub name: String,
    /// HTTP status of the answer that was made; 0 if there was none. Whether it arrived is another question.
    pub code: u16,
    /// An object was changed.
    pub changed: bool,
    /// A delete named the UID of the object, or a write carried it.
    pub uid_precondition: bool,
    /// The fault that met this request.
    pub fault: Option<&'static str>,
    /// The body of the request; empty unless [`Log::keep_bodies`] was called before.
    pub body: Bytes,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            plane,
            user,
            verb,
            resource,
            namespace,
            name,
            code,
            ..
        } = self;
        write!(f, "{user} {verb} {plane} {resource}")?;
        if let Some(part) = &self.subresource {
            write!(f, "/{part}")?;
        }
        write!(f, " {namespace}/{name}: {code}")?;
        if let Some(fault) = self.fault {
            write!(f, " ({fault})")?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    kept: Vec<Entry>,
}

/// Every request to every plane, in the order in which they were carried out. The test's own direct access is not in it.
#[derive(Debug, Clone, Default)]
pub struct Log {
    entries: Arc<Mutex<Entries>>,
    off: Arc<AtomicBool>,
    bodies: Arc<AtomicBool>,
}

impl Log {
    /// Keeps the bodies of requests from now on.
    pub fn keep_bodies(&self) {
        self.bodies.store(true, Ordering::Relaxed);
    }

    /// The body of a request, if bodies are kept.
    pub(crate) fn kept(&self, body: &Bytes) -> Bytes {
        if self.bodies.load(Ordering::Relaxed) {
            body.clone()
        } else {
            Bytes::new()
        }
    }

    pub(crate) fn add(&self, entry: impl FnOnce() -> Entry) {
        if self.off.load(Ordering::Relaxed) {
            return;
        }
        let mut entries = self.entries.lock();
        let entry = Entry {
            n: entries.next,
            ..entry()
        };
        entries.next += 1;
        entries.kept.push(entry);
    }

    /// All entries.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().kept.clone()
    }

    /// The entries from number `n` on.
    pub fn since(&self, n: u64) -> Vec<Entry> {
        let entries = self.entries.lock();
        let at = entries.kept.partition_point(|entry| entry.n < n);
        entries.kept[at..].to_vec()
    }

    /// The number that the next entry gets.
    pub fn next(&self) -> u64 {
        self.entries.lock().next
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.lock().kept.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.entries.lock().kept.clear();
    }

    /// Keeps no entries from now on; the planes' counters go on.
    pub fn disable(&self) {
        self.off.store(true, Ordering::Relaxed);
    }

    /// Keeps entries again.
    pub fn enable(&self) {
        self.off.store(false, Ordering::Relaxed);
    }
}
