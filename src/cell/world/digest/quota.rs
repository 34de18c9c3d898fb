//! Claims of quota.

use super::{Words, annotation, condition, label};
use crate::api::keys;
use jiff::Timestamp;
use kube::core::DynamicObject;
use std::sync::Arc;

/// A `ResourceClaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The cell that made it.
    pub cell: Option<Arc<str>>,
    /// The Instance's namespace at that cell.
    pub namespace: Option<Arc<str>>,
    /// UID of the Instance.
    pub instance: Option<Arc<str>>,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// Its condition Granted.
    pub granted: Option<Granted>,
}

/// The condition Granted of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Whether it is True.
    pub yes: bool,
    /// In one word.
    pub reason: Arc<str>,
    /// For people.
    pub message: Arc<str>,
    /// Since when, in seconds since 1970.
    pub since: i64,
}

/// Reads a claim.
pub fn claim(object: &DynamicObject, words: &mut Words) -> Claim {
    let granted = condition(object, "Granted").map(|c| {
        let word = |field: &str| c[field].as_str().unwrap_or_default();
        let since: Option<Timestamp> = word("lastTransitionTime").parse().ok();
        Granted {
            yes: c["status"] == "True",
            reason: words.share(word("reason")),
            message: words.share(word("message")),
            since: since.map_or(0, Timestamp::as_second),
        }
    });
    let created = object.metadata.creation_timestamp.as_ref();
    Claim {
        cell: label(object, keys::SOURCE_CLUSTER, words),
        namespace: label(object, keys::INSTANCE_NAMESPACE, words),
        instance: annotation(object, keys::INSTANCE_UID).map(Into::into),
        created: created.map_or(0, |time| time.0.as_second()),
        granted,
    }
}
