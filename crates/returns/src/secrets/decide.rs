//! The decision for the Secrets of an object: a pure function of the snapshot and of what was sent (contract: clusters.md §7
//! rule 1).

use crate::{
    index::digest::{Home, Object, SecretMark},
    reason::{Verdict, WriteReason},
};
use fedgate_api::{keys, names};
use fedgate_engine::{
    diff::Digest,
    key::{Kind, Plane},
    plan::{Effect, Endpoint, Target, Write},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// An object at the member, and what it returns.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The kinds with returns.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// The object's kind.
    pub kind: KindId,
    /// v1 Secret.
    pub resource: ApiResource,
    /// Name of the member's Karmada Cluster.
    pub member: Arc<str>,
    /// Namespace of the object, here and on the hub.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// The object; `None` if it is gone.
    pub object: Option<Object>,
    /// The hub Namespace of the same name.
    pub home: Option<Home>,
    /// The Secrets that the object names and that exist.
    pub secrets: BTreeMap<Arc<str>, Row<SecretMark>>,
}

/// The state of a Secret on the hub, as far as this process has written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The hub has none.
    Absent,
    /// The hub has what was sent.
    Sent(Sent),
    /// The Secret was not sent in this version, because it is too large.
    Refused(Version),
}

/// A Secret that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The version that was read.
    pub version: Version,
    /// Digest of all that was sent.
    pub whole: Digest,
    /// Digest of its metadata, which tell whose it is.
    pub whose: Digest,
}

/// A version of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    uid: Arc<str>,
    number: u64,
}

impl Version {
    fn of(row: &Row<SecretMark>) -> Self {
        Self {
            uid: row.uid.clone(),
            number: row.version,
        }
    }

    /// The version of a Secret that was read; `None` if the server has given it none.
    pub fn read(object: &DynamicObject) -> Option<Self> {
        Some(Self {
            uid: object.metadata.uid.as_deref()?.into(),
            number: object.metadata.resource_version.as_deref()?.parse().ok()?,
        })
    }

    /// True if it is this version of the Secret, or a later one.
    fn covers(&self, other: &Self) -> bool {
        self.uid == other.uid && self.number >= other.number
    }
}

/// A Secret that was just read at the member.
#[derive(Debug, Clone)]
pub struct Body {
    /// Name of the Secret.
    pub name: Arc<str>,
    /// The Secret.
    pub object: DynamicObject,
    /// Version of the Secret.
    pub version: Version,
}

impl Body {
    /// True if it is the version that the index knows, or a later one.
    pub fn is_as_new_as(&self, row: &Row<SecretMark>) -> bool {
        self.version.covers(&Version::of(row))
    }
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Wait for an event.
    Wait,
    /// The object cannot return anything.
    Refuse(Verdict, String),
    /// Read the Secret of this name, and decide again.
    Read(Arc<str>),
    /// Remember this of the Secret, and decide again; nothing is written.
    Note(Arc<str>, Known),
    /// Execute this; then this is known of the Secret, or nothing.
    Do(Box<Effect>, Arc<str>, Option<Known>),
}

/// State of an object's Secrets on the hub as far as it is known, by name.
pub type Knowledge = BTreeMap<Arc<str>, Known>;

/// Decides. A Secret of which nothing is known since the start may be on the hub or not.
pub fn decide(s: &Snapshot, known: &Knowledge, body: Option<&Body>) -> Decision {
    let was_sent = |(name, state): (&Arc<str>, &Known)| matches!(state, Known::Sent(_)).then(|| name.clone());
    let Some(object) = &s.object else {
        let left = known.iter().find_map(was_sent);
        return left.map_or(Decision::Wait, |name| {
            delete(s, name, WriteReason::ReturnGone, None)
        });
    };
    // An object that merely loses the label was let go by Karmada, not deleted: its Secrets stay on the hub.
    if !object.is_managed {
        return Decision::Wait;
    }
    let is_wanted = |name: &Arc<str>| object.names.iter().any(|(wanted, _)| wanted == name);
    let mut unwanted = known.iter().filter(|(name, _)| !is_wanted(name));
    if let Some(name) = unwanted.find_map(was_sent) {
        return delete(s, name, WriteReason::ReturnGone, None);
    }
    let Some(identity) = identity(s, object) else {
        return Decision::Wait;
    };
    let kind = Kind::of(&s.kinds[s.kind].resource);
    let has_labels = names::is_label_value(&s.name) && names::is_label_value(kind.as_str());
    if !has_labels && !object.names.is_empty() {
        let message = format!(
            "{kind} {} has a name of more than 63 characters, which no label holds: it returns no Secret",
            s.name
        );
        return Decision::Refuse(Verdict::NoLabelValue, message);
    }
    let whose = Digest::of(&identity);
    let mut refused = None;
    for (name, rule) in &object.names {
        let most = s.kinds[s.kind].returns[*rule].max_bytes as usize;
        let decision = one(s, (name, most), known.get(name), (&identity, whose), body);
        match decision {
            None if matches!(known.get(name), Some(Known::Refused(_))) => refused = Some((name, most)),
            None => {}
            Some(decision) => return decision,
        }
    }
    refused.map_or(Decision::Wait, |(name, most)| {
        let message = format!("Secret {name} has more than {most} bytes, which its kind admits at most");
        Decision::Refuse(Verdict::TooLarge, message)
    })
}

/// The step for one Secret; `None` if nothing is left to do.
fn one(
    s: &Snapshot,
    (name, most): (&Arc<str>, usize),
    known: Option<&Known>,
    (identity, whose): (&Value, Digest),
    body: Option<&Body>,
) -> Option<Decision> {
    let row = s.secrets.get(name);
    // A Secret that Karmada has delivered is the hub's own, e.g. a companion.
    if row.is_some_and(|row| row.digest.is_delivered) {
        return None;
    }
    let Some(row) = row else {
        let is_absent = known == Some(&Known::Absent);
        return (!is_absent).then(|| {
            let after = Some(Known::Absent);
            delete(s, name.clone(), WriteReason::ReturnGone, after)
        });
    };
    let now = Version::of(row);
    match known {
        Some(Known::Sent(sent)) if sent.version.covers(&now) && sent.whose == whose => return None,
        Some(Known::Refused(version)) if version.covers(&now) => return None,
        _ => {}
    }
    let Some(body) = body.filter(|body| body.name == *name && body.version.covers(&now)) else {
        return Some(Decision::Read(name.clone()));
    };
    if size(&body.object) > most {
        return Some(match known {
            // The hub may have an earlier one.
            None | Some(Known::Sent(_)) => {
                let after = Some(Known::Absent);
                delete(s, name.clone(), WriteReason::ReturnTooLarge, after)
            }
            Some(Known::Absent | Known::Refused(_)) => {
                Decision::Note(name.clone(), Known::Refused(body.version.clone()))
            }
        });
    }
    let content = render(s, name, identity, &body.object);
    let sent = Sent {
        version: body.version.clone(),
        whole: Digest::of(&content),
        whose,
    };
    if matches!(known, Some(Known::Sent(before)) if before.whole == sent.whole) {
        return Some(Decision::Note(name.clone(), Known::Sent(sent)));
    }
    let write = Write::Replace { body: content };
    let effect = effect(s, name, write, WriteReason::Return);
    Some(Decision::Do(
        Box::new(effect),
        name.clone(),
        Some(Known::Sent(sent)),
    ))
}

/// Labels, annotation and owner of what the object returns; `None` while one of them is not known.
fn identity(s: &Snapshot, object: &Object) -> Option<Value> {
    let home = s.home.as_ref()?;
    let resource = &s.kinds[s.kind].resource;
    let owner = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "name": &*s.name, "uid": &**object.copy.as_ref()?,
        "controller": true,
    });
    Some(json!({
        "labels": {
            keys::UPSTREAM_CLUSTER: &**home.cluster.as_ref()?,
            keys::UPSTREAM_NAMESPACE: &**home.namespace.as_ref()?,
            keys::CELL: &*s.member,
            keys::RETURNED: Kind::of(resource).as_str(),
            keys::RETURNED_FOR: &*s.name,
        },
        "annotations": {keys::SOURCE_UID: &**object.source.as_ref()?},
        "ownerReferences": [owner],
    }))
}

fn render(s: &Snapshot, name: &str, identity: &Value, secret: &DynamicObject) -> Value {
    let mut metadata = identity.clone();
    metadata["name"] = json!(names::return_name(&s.member, name));
    metadata["namespace"] = json!(&*s.namespace);
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    for field in ["type", "data"] {
        if let Some(value) = secret.data.get(field).filter(|value| !value.is_null()) {
            object[field] = value.clone();
        }
    }
    object
}

/// Bytes of all values.
fn size(secret: &DynamicObject) -> usize {
    let data = secret.data.get("data").and_then(Value::as_object);
    let values = data.into_iter().flatten().filter_map(|(_, value)| value.as_str());
    values.map(|value| value.len() / 4 * 3).sum()
}

fn delete(s: &Snapshot, name: Arc<str>, reason: WriteReason, after: Option<Known>) -> Decision {
    let effect = effect(s, &name, Write::DeleteNamed, reason);
    Decision::Do(Box::new(effect), name, after)
}

fn effect(s: &Snapshot, name: &str, write: Write, reason: WriteReason) -> Effect {
    let name = names::return_name(&s.member, name);
    Effect {
        target: Target::namespaced(Plane::Hub, &s.resource, &s.namespace, &name),
        endpoint: Endpoint::Main,
        write,
        reason: reason.into(),
    }
}
