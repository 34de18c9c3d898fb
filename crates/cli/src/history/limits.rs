//! The bounds of a history: it lives in one object of the API server, whose size is limited.

use super::{History, Revision, key};
use crate::diff::Change;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Number of revisions that are kept.
const REVISIONS: usize = 20;
/// Bytes of all keys and values of the ConfigMap: etcd takes 1.5 MiB, an apply doubles what changes.
pub(super) const BYTES: usize = 900 << 10;
/// Bytes of the JSON of a spec that is kept.
pub(super) const SPEC: usize = 300 << 10;
/// Bytes of a value that is kept in changes that are too large.
const VALUE: usize = 256;
/// Bytes of the JSON of a change beside its path and values.
const OVERHEAD: usize = 64;

/// The revision, without its spec and changes if they are too large.
pub(super) fn shrunk(mut revision: Revision) -> Revision {
    let size = revision.spec.as_ref().map_or(0, |spec| spec.to_string().len());
    if size > SPEC {
        revision.spec = None;
        revision.changes = None;
    }
    revision.changes = revision.changes.map(bounded);
    revision
}

/// The changes, with large values cut off and the last ones counted if they are too large. The specs have them whole.
fn bounded(changes: Vec<Change>) -> Vec<Change> {
    let size = |change: &Change| {
        let values = [&change.old, &change.new].into_iter().flatten();
        change.path.len() + values.map(|value| value.to_string().len()).sum::<usize>() + OVERHEAD
    };
    if changes.iter().map(size).sum::<usize>() <= SPEC {
        return changes;
    }
    let cut = |value: Value| match value.to_string().len() {
        bytes if bytes > VALUE => json!(format!("({bytes} bytes)")),
        _ => value,
    };
    let (mut kept, mut total, mut more) = (Vec::new(), 0, 0);
    for mut change in changes {
        change.old = change.old.map(cut);
        change.new = change.new.map(cut);
        total += size(&change);
        if total <= SPEC {
            kept.push(change);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        kept.push(Change {
            path: "spec".to_owned(),
            old: None,
            new: Some(json!(format!("({more} more changes)"))),
        });
    }
    kept
}

/// Removes the oldest revisions until the rest is within the bounds. The active one stays; so does everything that is no
/// readable revision.
pub(super) fn prune(data: &mut BTreeMap<String, String>, history: &mut History) {
    let size = |data: &BTreeMap<String, String>| -> usize {
        data.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    loop {
        if history.revisions.len() <= REVISIONS && size(data) < BYTES {
            return;
        }
        let oldest = history
            .revisions
            .iter()
            .position(|revision| Some(revision.rev) != history.active);
        let Some(oldest) = oldest else { return };
        let revision = history.revisions.remove(oldest);
        data.remove(&key(revision.rev));
    }
}
