//! The bounds of a history: it lives in one object of the API server, whose size is limited.

use super::{History, Revision, key};
use crate::diff::Change;
use serde_json::json;
use std::collections::BTreeMap;

/// Number of revisions that are kept.
const REVISIONS: usize = 20;
/// Bytes of all keys and values of the ConfigMap: etcd takes 1.5 MiB, an apply doubles what changes.
pub(super) const BYTES: usize = 900 << 10;
/// Bytes of the JSON of a spec that is kept.
pub(super) const SPEC: usize = 300 << 10;
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

/// The changes, or their number if they are too large. The specs have them whole.
fn bounded(changes: Vec<Change>) -> Vec<Change> {
    if json!(changes).to_string().len() <= SPEC {
        return changes;
    }
    vec![Change {
        path: "spec".to_owned(),
        old: None,
        new: Some(json!(format!("({} changes)", changes.len()))),
    }]
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
