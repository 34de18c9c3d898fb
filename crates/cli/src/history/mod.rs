//! The revisions of a Workload, kept in a ConfigMap beside it (contract: cli.md §6).

mod active;
mod limits;
mod store;

pub(crate) use active::{Active, HISTORIES, Recorded, active, numbers_of, recorded};
pub(crate) use store::{Entry, forget, known, load, record};

use crate::{
    diff::Change,
    error::{Error, Kind},
    view::Object,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Annotation: number of the revision that is the live spec.
const ACTIVE: &str = "fedgate.dev/active-revision";
/// Annotation: the highest number given so far.
const LAST: &str = "fedgate.dev/last-revision";
/// Key of a revision in the ConfigMap, before its number.
const KEY: &str = "rev-";
/// The highest number that is believed: a higher one was not given by this command.
const HIGHEST: u64 = 1_000_000_000;
/// Version of the form of a revision.
const SCHEMA: u32 = 1;

fedgate_api::words! {
    /// The action that made a revision.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub(crate) enum Verb {
        /// `deploy` with flags.
        Deploy = "deploy",
        /// `deploy -f`.
        Apply = "apply",
        /// `scale`.
        Scale = "scale",
        /// `rollout restart`.
        Restart = "restart",
        /// `rollout undo`.
        Undo = "undo",
        /// `rollout pause`.
        Pause = "pause",
        /// `rollout resume`.
        Resume = "resume",
        /// A change that was not made by this command and was seen afterwards.
        Observed = "observed",
    }
}

/// The author of a revision. The client writes it: it is a record and no proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Actor {
    /// User name, or `unknown`.
    pub(crate) name: String,
    /// Program and version.
    pub(crate) client: String,
}

/// A spec that the Workload had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Revision {
    schema: u32,
    /// The number, which is given once.
    pub(crate) rev: u64,
    /// Time of the server at the change.
    pub(crate) time: Timestamp,
    /// The action that made it.
    pub(crate) verb: Verb,
    /// Number of the revision that `undo` copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<u64>,
    /// The reason that the user gave.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// The author.
    pub(crate) actor: Actor,
    /// Generation of the Workload after the write.
    pub(crate) generation: i64,
    /// Hash of the spec.
    pub(crate) spec_hash: String,
    /// Images of the spec, with their registries.
    pub(crate) image: String,
    /// The changes from the previous revision; `None` for the first one and for one that is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<Vec<Change>>,
    /// The spec; `None` if it is too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<Value>,
}

impl Revision {
    /// The changes in a few words: the first two, and the number of the others.
    pub(crate) fn summary(&self) -> String {
        let Some(changes) = &self.changes else {
            let text = match self.spec {
                Some(_) => "initial deploy",
                None => "(too large to undo)",
            };
            return text.to_owned();
        };
        let mut text = changes
            .iter()
            .take(2)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        if text.is_empty() {
            text.push_str("no changes");
        }
        if changes.len() > 2 {
            let _ = write!(text, " +{} more", changes.len() - 2);
        }
        text
    }
}

/// The revisions of a Workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    /// In the order of their numbers.
    pub(crate) revisions: Vec<Revision>,
    /// Number of the newest revision.
    pub(crate) active: Option<u64>,
    /// The highest number given so far.
    pub(crate) last: u64,
    /// Number of values that are no revisions of a known form.
    pub(crate) unreadable: usize,
}

impl History {
    /// Reads a ConfigMap. Values that do not parse are kept there and counted here.
    pub(crate) fn read(map: &Object) -> Self {
        let annotation = |key: &str| believed(map.0["metadata"]["annotations"][key].as_str()?);
        let mut history = Self {
            active: annotation(ACTIVE),
            last: annotation(LAST).unwrap_or(0),
            ..Self::default()
        };
        for (key, text) in map.0["data"].as_object().into_iter().flatten() {
            let Some(number) = number(key) else { continue };
            history.last = history.last.max(number);
            match serde_json::from_str::<Revision>(text.as_str().unwrap_or_default()) {
                Ok(revision) if revision.rev == number && revision.schema == SCHEMA => {
                    history.revisions.push(revision);
                }
                Ok(_) | Err(_) => history.unreadable += 1,
            }
        }
        history.revisions.sort_by_key(|revision| revision.rev);
        history
    }

    /// The revision with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.rev == number)
    }

    /// The revision with this number; an error if it is not kept.
    pub(crate) fn revision(&self, workload: &str, number: u64) -> Result<&Revision, Error> {
        self.get(number).ok_or_else(|| {
            let kept = match (self.revisions.first(), self.revisions.last()) {
                (Some(first), Some(last)) => format!(" (kept: #{}..#{})", first.rev, last.rev),
                _ => String::new(),
            };
            Error::new(Kind::NotFound, format!("revision #{number} not found{kept}"))
                .next(format!("kubectl compute rollout history {workload}"))
        })
    }

    /// The newest revision.
    pub(crate) fn active(&self) -> Option<&Revision> {
        self.active.and_then(|number| self.get(number))
    }

    /// True if no revision has the live spec, so that the next change records it first.
    pub(crate) fn lacks(&self, live: &Object) -> bool {
        let hash = hash(&live.0["spec"]);
        if self.active().is_some_and(|active| active.spec_hash == hash) {
            return false;
        }
        // A faster user may have recorded a later spec before this one was changed.
        let mut revisions = self.revisions.iter();
        !revisions.any(|revision| revision.spec_hash == hash && revision.generation == live.generation())
    }

    /// Number of the revision that the next change makes.
    pub(crate) fn next_number(&self, live: &Object) -> u64 {
        let observed = u64::from(self.lacks(live));
        self.last.saturating_add(1).saturating_add(observed)
    }

    /// True if the live spec was written by somebody else after the newest revision, as far as that is shown: a history
    /// that was read later than the Workload is no reason.
    pub(crate) fn is_behind(&self, live: &Object) -> bool {
        let Some(active) = self.active() else {
            return !self.revisions.is_empty();
        };
        live.generation() > active.generation && hash(&live.0["spec"]) != active.spec_hash
    }

    /// The newest revision whose spec differs from the live one, before the live one.
    pub(crate) fn previous(&self, live: &Object) -> Option<&Revision> {
        let live = hash(&live.0["spec"]);
        let mut older = self
            .revisions
            .iter()
            .rev()
            .filter(|revision| revision.spec.is_some());
        older.find(|revision| revision.spec_hash != live)
    }
}

/// Number of a revision in its key.
fn number(key: &str) -> Option<u64> {
    believed(key.strip_prefix(KEY)?)
}

/// A number, unless it is so high that nobody has counted to it.
fn believed(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= HIGHEST)
}

/// Key of a revision.
fn key(number: u64) -> String {
    format!("{KEY}{number:06}")
}

/// Name of the ConfigMap of a Workload's revisions.
pub(crate) fn name(workload: &str) -> String {
    let name = format!("compute-revisions.{workload}");
    if name.len() <= 253 {
        return name;
    }
    let digits = &hex(name.as_bytes())[..10];
    format!("{}-{digits}", name.get(..240).unwrap_or_default())
}

/// SHA-256 of the spec as JSON, in which keys are sorted.
pub(crate) fn hash(spec: &Value) -> String {
    hex(spec.to_string().as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
