//! Requests and objects that the load waits for: a run that does not finish names them.

use crate::snapshot::Snapshot;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{LazyLock, Mutex, MutexGuard},
};
use tokio::time::Instant;

/// What is waited for, by a number of its own, and since when.
type All = BTreeMap<u64, (String, Instant)>;

static ALL: LazyLock<Mutex<(u64, All)>> = LazyLock::new(Mutex::default);

fn all() -> MutexGuard<'static, (u64, All)> {
    ALL.lock().unwrap()
}

/// Lasts as long as the wait.
pub(crate) struct Pending(u64);

/// Notes that somebody waits for this.
pub(crate) fn pending(what: impl Into<String>) -> Pending {
    let (next, all) = &mut *all();
    *next += 1;
    all.insert(*next, (what.into(), Instant::now()));
    Pending(*next)
}

impl Drop for Pending {
    fn drop(&mut self) {
        all().1.remove(&self.0);
    }
}

/// All that somebody waits for, a line each.
pub(crate) fn lines() -> Vec<String> {
    let (_, all) = &*all();
    all.values()
        .map(|(what, since)| format!("waits for {} s: {what}", since.elapsed().as_secs()))
        .collect()
}

/// The objects of all planes that are being deleted, and the bindings whose owner is gone, a line each.
pub(crate) fn stuck(state: &Snapshot) -> Vec<String> {
    let uids: BTreeSet<&str> = state
        .0
        .values()
        .filter_map(|object| object["metadata"]["uid"].as_str())
        .collect();
    let line = |((plane, kind, namespace, name), object): (&(String, &str, String, String), &Value)| {
        let metadata = &object["metadata"];
        let at = format!("{plane} {kind} {namespace}/{name}");
        let owner = metadata["ownerReferences"][0]["uid"].as_str();
        if let Some(since) = metadata["deletionTimestamp"].as_str() {
            let conditions = &object["status"]["conditions"];
            let held = &metadata["finalizers"];
            return Some(format!(
                "{at} is being deleted since {since}, finalizers {held}, conditions {conditions}"
            ));
        }
        let orphan = *kind == "ResourceBinding" && owner.is_some_and(|uid| !uids.contains(uid));
        orphan.then(|| format!("{at} is owned by {owner:?}, which is not there"))
    };
    state.0.iter().filter_map(line).collect()
}
