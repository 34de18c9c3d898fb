//! Pins: the hub's record of the member at which each object lives. A `ConfigMap` for each hub namespace has the pins of its
//! objects (contract: clusters.md §2 rule 4). Values only.

use fedgate_api::keys;
use fedgate_kinds::FederatedKind;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// An object that is made again twice within this time is withheld from its member.
const REMADE_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// Largest number of copies whose UIDs a pin names. More are made only where copies are deleted by hand again and again.
const MOST_COPIES: usize = 64;

/// Most bytes of the pins of a hub namespace with which the pin of another object joins them. A `ConfigMap` may have 1 MiB; the
/// rest is for changes of those that are there.
pub(crate) const RECORD_LIMIT: usize = 900 * 1_024;

/// Before the UID of the project namespace in the name of the `ConfigMap` that holds the pins of a hub namespace.
const NAME_PREFIX: &str = "fedgate-pins-";

/// The selector of the `ConfigMaps` that hold pins.
pub fn selector() -> String {
    format!("{}=true", keys::PINS)
}

/// Where an object lives. No pin means that nothing of the object was ever delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// Name of the member, a Karmada Cluster. It never changes.
    pub member: Arc<str>,
    /// UID of the Cluster.
    pub member_uid: Arc<str>,
    /// UIDs of the copies that were made of the object, at most the last 64.
    pub copy_uids: Vec<Arc<str>>,
    /// UID of the object in the project.
    pub source_uid: Arc<str>,
    /// True once the member has applied a copy.
    #[serde(default)]
    pub delivered: bool,
    /// Adopted companions that went with the object to its member, as `<kind>.<group>/<name>`.
    #[serde(default, rename = "kept")]
    pub adopted: Vec<Arc<str>>,
    /// The last time that Karmada made the member's object again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remade: Option<Remade>,
    /// End of the object, if its member has deleted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// The end of an object by its member, of a kind with `deletion.byMember: ends`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Time at which the gateway observed the deletion.
    pub at: Timestamp,
    /// True once the member has nothing of the object.
    #[serde(default)]
    pub gone: bool,
}

/// The last time that the member's own controllers ended the object and Karmada made it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remade {
    /// UID of the member's object.
    pub uid: Arc<str>,
    /// Time at which the gateway observed it.
    pub at: Timestamp,
    /// Generation of the project's object at that time.
    pub generation: i64,
    /// True if this was the second time within an hour.
    pub again: bool,
}

/// The pins of a hub namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// The pins by their keys; `None` for a value that is no pin.
    pub by_key: BTreeMap<Arc<str>, Option<Arc<Pin>>>,
    /// True if there is no room for the pin of another object.
    pub is_full: bool,
}

impl Pins {
    /// Digests the `ConfigMap`.
    pub fn read(object: &DynamicObject) -> Self {
        let data = object.data.get("data").and_then(Value::as_object);
        let data = || data.into_iter().flatten();
        let pins = data().map(|(key, value)| {
            let pin = value.as_str().and_then(Pin::parse);
            (key.as_str().into(), pin.map(Arc::new))
        });
        let sizes = data().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
        Self {
            by_key: pins.collect(),
            is_full: sizes.sum::<usize>() > RECORD_LIMIT,
        }
    }
}

/// The Cluster that has the name of a pin's member, compared with the one that was pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinnedCluster {
    /// The pinned Cluster, or one of which an operator says that it is the same member.
    Same,
    /// No Cluster has the name: the pinned one has left the hub.
    Gone,
    /// Another Cluster has joined under the name, and no operator says that it is the same member.
    Replaced,
    /// Not known, because the list of Clusters is not complete or its watch fails.
    Unknown,
}

/// The key of an object among the pins of its hub namespace.
pub fn key(kind: &FederatedKind, name: &str) -> String {
    format!("{}.{}_{name}", kind.resource.plural, kind.resource.group)
}

/// Name of the `ConfigMap` with the pins of a hub namespace; `None` for a Namespace of another form.
pub fn record_name(hub_namespace: &str) -> Option<String> {
    hub_namespace
        .strip_prefix("ns-")
        .map(|uid| format!("{NAME_PREFIX}{uid}"))
}

/// True if a failure's object, `<plural> <namespace>/<name>`, is a `ConfigMap` with pins.
pub fn is_record(object: &str) -> bool {
    let (place, name) = object.rsplit_once('/').unwrap_or_default();
    place.strip_prefix("configmaps ") == Some(keys::SYSTEM_NAMESPACE) && name.starts_with(NAME_PREFIX)
}

/// The hub namespace of a `ConfigMap` with pins.
pub fn hub_namespace(record: &str) -> Option<String> {
    record.strip_prefix(NAME_PREFIX).map(|uid| format!("ns-{uid}"))
}

impl Pin {
    /// Reads the value of a key; `None` if it is no pin.
    pub fn parse(text: &str) -> Option<Self> {
        let pin: Self = serde_json::from_str(text).ok()?;
        let is_whole = !pin.member.is_empty() && !pin.member_uid.is_empty() && !pin.source_uid.is_empty();
        is_whole.then_some(pin)
    }

    /// True if a Cluster is its member: by its UID, or by an operator's word whose member it is.
    pub fn is_at(&self, uid: &Arc<str>, same_as: Option<&Arc<str>>) -> bool {
        *uid == self.member_uid || same_as == Some(&self.member_uid)
    }

    /// True once the member has ended the object and has nothing of it.
    pub fn is_over(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.gone)
    }

    /// Adds a copy that is made of the object.
    pub fn add_copy(&mut self, uid: Arc<str>) {
        if self.copy_uids.len() >= MOST_COPIES {
            self.copy_uids.remove(0);
        }
        self.copy_uids.push(uid);
    }

    /// True if an object at the member was made from one of the named copies: `template` is the UID of the copy that Karmada wrote
    /// into the object. `None` if it may be from a copy that the pin no longer names. Karmada releases objects without such a UID,
    /// but never before they were delivered; otherwise an object without it is somebody else's.
    pub fn owns(&self, template: Option<&str>) -> Option<bool> {
        let Some(uid) = template else {
            return Some(self.delivered);
        };
        let is_named = self.copy_uids.iter().any(|own| **own == *uid);
        (is_named || self.copy_uids.len() < MOST_COPIES).then_some(is_named)
    }

    /// The pin after Karmada has made the member's object again, while the project's object has this generation.
    #[must_use]
    pub fn remade(&self, uid: Arc<str>, at: Timestamp, generation: i64) -> Self {
        let last = self.remade.as_ref().filter(|last| last.generation == generation);
        let again = last.is_some_and(|last| at.duration_since(last.at) <= REMADE_WITHIN);
        let remade = Some(Remade {
            uid,
            at,
            generation,
            again,
        });
        Self {
            remade,
            ..self.clone()
        }
    }

    /// The pin of an object that its member has ended.
    #[must_use]
    pub fn with_end(&self, ended: Ended) -> Self {
        Self {
            ended: Some(ended),
            ..self.clone()
        }
    }

    /// Time at which the member's object was last made again, if an object of this generation is withheld because of that.
    pub fn withheld(&self, generation: i64) -> Option<Timestamp> {
        let last = self.remade.as_ref()?;
        (last.again && last.generation == generation).then_some(last.at)
    }

    /// The value of its key.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
