//! Writes in the forms that the cell's controllers use.

use crate::reason::WriteReason;
use fedgate_api::keys;
use fedgate_engine::plan::{Effect, Endpoint, Target, Write};
use serde_json::{Value, json};
use std::sync::Arc;

/// Label of every Pod, Service and `NetworkPolicy` of the provider.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "fedgate");

/// The version of an object that a decision is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resourceVersion.
    pub version: Arc<str>,
}

impl ObjectVersion {
    /// A merge patch that fails unless the object still has this version.
    pub fn patch(&self, target: Target, endpoint: Endpoint, mut patch: Value, reason: WriteReason) -> Effect {
        patch["metadata"]["uid"] = json!(*self.uid);
        patch["metadata"]["resourceVersion"] = json!(*self.version);
        Effect {
            target,
            endpoint,
            write: Write::Merge { patch },
            reason: reason.into(),
        }
    }

    /// The deletion of exactly this object.
    pub fn delete(&self, target: Target, reason: WriteReason) -> Effect {
        delete(target, &self.uid, reason)
    }
}

/// The deletion of the object with this UID.
pub fn delete(target: Target, uid: &str, reason: WriteReason) -> Effect {
    Effect {
        target,
        endpoint: Endpoint::Main,
        write: Write::Delete {
            uid: uid.to_owned(),
            resource_version: None,
        },
        reason: reason.into(),
    }
}

/// The creation of an object.
pub fn create(target: Target, body: Value, reason: WriteReason) -> Effect {
    Effect {
        target,
        endpoint: Endpoint::Main,
        write: Write::Create { body },
        reason: reason.into(),
    }
}

/// The finalizers that the Instance controller sets on an Instance.
pub fn finalizers(hub: bool) -> Vec<&'static str> {
    let mut finalizers = vec![keys::CLAIM_FINALIZER];
    if hub {
        finalizers.push(keys::INSTANCE_FINALIZER);
    }
    finalizers
}
