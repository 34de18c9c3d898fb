//! Digest of a quota claim.

use super::{Strings, annotation, condition, label};
use fedgate_api::{keys, names::CLAIM_PREFIX};
use fedgate_engine::diff::Digest;
use jiff::Timestamp;
use kube::{ResourceExt, core::DynamicObject};
use std::sync::Arc;

/// A `ResourceClaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The cell that created the claim.
    pub cell: Option<Arc<str>>,
    /// The Instance's namespace at that cell.
    pub namespace: Option<Arc<str>>,
    /// UID of the Instance.
    pub instance: Option<Arc<str>>,
    /// Creation time, in seconds since 1970.
    pub created: i64,
    /// `spec.requests`.
    pub requests: Digest,
    /// Condition Granted.
    pub granted: Option<Granted>,
}

impl Claim {
    /// True if it is the claim of the Instance with this UID at this cell.
    pub fn is_of(&self, cell: &str, instance: &str) -> bool {
        self.cell.as_deref() == Some(cell) && self.instance.as_deref() == Some(instance)
    }
}

/// Name of the claim of an Instance.
pub fn claim_name(instance: &str) -> String {
    format!("{CLAIM_PREFIX}{instance}")
}

/// The condition Granted of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// True if the status is True.
    pub yes: bool,
    /// Machine-readable reason.
    pub reason: Arc<str>,
    /// Human-readable message.
    pub message: Arc<str>,
    /// Time of the last transition, in seconds since 1970.
    pub since: i64,
}

/// Builds the digest of a `ResourceClaim`.
pub fn claim(object: &DynamicObject, words: &mut Strings) -> Claim {
    let granted = condition(object, "Granted").map(|c| {
        let word = |field: &str| c[field].as_str().unwrap_or_default();
        let since: Option<Timestamp> = word("lastTransitionTime").parse().ok();
        Granted {
            yes: c["status"] == "True",
            reason: words.intern(word("reason")),
            message: words.intern(word("message")),
            since: since.map_or(0, Timestamp::as_second),
        }
    });
    Claim {
        cell: label(object, keys::SOURCE_CLUSTER, words),
        namespace: label(object, keys::INSTANCE_NAMESPACE, words),
        instance: annotation(object, keys::INSTANCE_UID).map(Into::into),
        requests: Digest::of(&object.data["spec"]["requests"]),
        created: object.creation_timestamp().map_or(0, |time| time.0.as_second()),
        granted,
    }
}
