//! Digests of a member's objects and Secrets, and of the Namespaces of the hub.

use fedgate_api::keys;
use fedgate_engine::interner::Interner;
use fedgate_kinds::FederatedKind;
use kube::{ResourceExt, core::DynamicObject};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// An object of a kind with returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// True if Karmada manages it.
    pub is_managed: bool,
    /// UID of its copy on the hub.
    pub copy: Option<Arc<str>>,
    /// UID of the project's object.
    pub source: Option<Arc<str>>,
    /// The Secrets that it names, each with the position of its rule among its kind's returns; each once.
    pub names: Box<[(Arc<str>, usize)]>,
}

impl Object {
    /// Digests an object.
    pub(super) fn read(object: &DynamicObject, kind: &FederatedKind, words: &mut Interner<str>) -> Self {
        let mut whole = object.data.clone();
        if let Some(map) = whole.as_object_mut() {
            map.insert("metadata".to_owned(), json!({"name": object.metadata.name}));
        }
        let mut uid = |key| object.annotations().get(key).map(|uid| words.intern(&**uid));
        Self {
            is_managed: is_managed(object),
            copy: uid(keys::TEMPLATE_UID),
            source: uid(keys::SOURCE_UID),
            names: names(kind, &whole, words),
        }
    }
}

fn names(kind: &FederatedKind, object: &Value, words: &mut Interner<str>) -> Box<[(Arc<str>, usize)]> {
    let rules = kind.returns.iter().enumerate();
    let named = rules.filter_map(|(at, rule)| Some((rule.name_for(object)?, at)));
    // The first of two rules that give the same name counts, as in the gateway.
    let mut once: BTreeMap<String, usize> = BTreeMap::new();
    for (name, at) in named {
        once.entry(name).or_insert(at);
    }
    once.into_iter()
        .map(|(name, at)| (words.intern(&name), at))
        .collect()
}

/// The metadata of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretMark {
    /// resourceVersion of the Secret: another one may have other values.
    pub version: Box<str>,
    /// True if it came from the hub by Karmada, which then has it.
    pub is_delivered: bool,
}

impl SecretMark {
    pub(super) fn read(object: &DynamicObject) -> Self {
        Self {
            version: object
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default()
                .into(),
            is_delivered: is_managed(object),
        }
    }
}

/// A Namespace of the hub: whose tenant's it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Label `upstream-namespace`.
    pub namespace: Option<Arc<str>>,
}

impl Home {
    pub(super) fn read(object: &DynamicObject, words: &mut Interner<str>) -> Self {
        let mut word = |key| object.labels().get(key).map(|value| words.intern(&**value));
        Self {
            cluster: word(keys::UPSTREAM_CLUSTER),
            namespace: word(keys::UPSTREAM_NAMESPACE),
        }
    }
}

fn is_managed(object: &DynamicObject) -> bool {
    let label = object.labels().get(keys::KARMADA_MANAGED);
    label.is_some_and(|value| value == "true")
}
