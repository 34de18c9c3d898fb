//! Digests of Secrets that have come back from members: on the hub, and in the project. Values are hashed, never kept.

use super::{Strings, annotation, companion::payload, controller, label};
use fedgate_api::keys;
use fedgate_engine::diff::Digest;
use fedgate_kinds::{CompanionKind, FederatedKind};
use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// A Secret on the hub that a member has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Label `upstream-namespace`.
    pub namespace: Option<Arc<str>>,
    /// Label `cell`: the member.
    pub cell: Option<Arc<str>>,
    /// Label `returned`: `<plural>.<group>` of the object.
    pub kind: Option<Arc<str>>,
    /// Label `returned-for`: name of the object.
    pub object: Option<Arc<str>>,
    /// Annotation `source-uid`: UID of the project's object.
    pub source_uid: Option<Arc<str>>,
    /// Name and UID of its controller.
    pub owner: Option<(Arc<str>, Arc<str>)>,
    /// Digest of type and values.
    pub payload: Digest,
    /// Type of the Secret.
    pub secret_type: Option<Arc<str>>,
    /// Bytes of all values.
    pub size: usize,
}

impl Returned {
    /// Digests a Secret of the hub.
    pub fn read(object: &DynamicObject, words: &mut Strings) -> Self {
        let (payload, secret_type, size) = payload(object, CompanionKind::SECRET);
        let owner = controller(object);
        let owner = owner.map(|owner| (words.intern(&owner.name), words.intern(&owner.uid)));
        let mut word = |key| words.share_some(label(object, key));
        Self {
            cluster: word(keys::UPSTREAM_CLUSTER),
            namespace: word(keys::UPSTREAM_NAMESPACE),
            cell: word(keys::CELL),
            kind: word(keys::RETURNED),
            object: word(keys::RETURNED_FOR),
            source_uid: words.share_some(annotation(object, keys::SOURCE_UID)),
            owner,
            payload,
            secret_type,
            size,
        }
    }
}

/// A Secret of a project with the label of what has come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnReturn {
    /// Owner of the Secret; `None` unless it has exactly one.
    pub owner: Option<Box<ReturnOwner>>,
    /// Digest of type and values.
    pub payload: Digest,
    /// Type of the Secret.
    pub secret_type: Option<Arc<str>>,
}

/// The object that owns a Secret of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnOwner {
    /// API version.
    pub api_version: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// True if it neither controls the Secret nor is held by it.
    pub is_plain: bool,
}

impl OwnReturn {
    /// Digests a Secret of a project.
    pub fn read(object: &DynamicObject, words: &mut Strings) -> Self {
        let (payload, secret_type, _) = payload(object, CompanionKind::SECRET);
        let owner = match object.metadata.owner_references.as_deref() {
            Some([owner]) => Some(Box::new(ReturnOwner {
                api_version: words.intern(&owner.api_version),
                kind: words.intern(&owner.kind),
                name: words.intern(&owner.name),
                uid: words.intern(&owner.uid),
                is_plain: owner.controller.is_none() && owner.block_owner_deletion.is_none(),
            })),
            _ => None,
        };
        Self {
            owner,
            payload,
            secret_type,
        }
    }

    /// True if it belongs to an object of this kind.
    pub fn is_of(&self, kind: &FederatedKind) -> bool {
        let resource = &kind.resource;
        let mut owner = self.owner.iter();
        owner.any(|owner| *owner.api_version == *resource.api_version && *owner.kind == *resource.kind)
    }
}

/// The Secrets that come back for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returning {
    /// Names of the Secrets, in the order of the kind's `returns`; `None` while the object names no Secret.
    names: Box<[Option<Arc<str>>]>,
    /// The first name of a Secret that may not come back.
    refused: Option<Arc<str>>,
}

impl Returning {
    /// Reads the names from a copy with its metadata.
    pub(super) fn read(kind: &FederatedKind, copy: &Value, words: &mut Strings) -> Self {
        let names = kind.returns.iter().map(|rule| rule.name_for(copy));
        let names = names.map(|name| words.share_some(name.as_deref())).collect();
        let refused = kind.returns.iter().find_map(|rule| rule.refused_name(copy));
        Self {
            names,
            refused: refused.map(Arc::from),
        }
    }

    /// The first name that the status of the object gives of a Secret that may not come back.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = Option<&Arc<str>>> {
        self.names.iter().map(Option::as_ref)
    }
}
