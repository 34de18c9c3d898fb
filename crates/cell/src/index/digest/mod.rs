//! Digests: the fields that a cell reads of each kind of object. One function per kind builds the digest from the
//! object as served.

mod companions;
mod deployment;
mod hub;
mod instance;
mod network;
mod pod;
mod quota;

pub use companions::{Namespace, Place, namespace, place};
pub use deployment::{Deployment, Spec, deployment};
pub use hub::{HubDeployment, HubInstance, copy, fingerprint, hub_deployment, owned_fields};
pub use instance::{Instance, Owner, instance};
pub use network::{binding, context, readiness, subnet_claim};
pub use pod::{Attached, Pod, network_policy, network_policy_spec, pod, service, service_spec};
pub use quota::{Claim, Granted, claim};

use crate::rollout::labels::Labels;
use fedgate_engine::interner::Interner;
use kube::core::DynamicObject;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Interner for strings that many objects repeat.
pub type Strings = Interner<str>;

/// JSON text of a value, without white space and with sorted keys.
fn text(value: &Value) -> String {
    value.to_string()
}

fn labels(
    of: Option<&BTreeMap<String, String>>,
    words: &mut Strings,
    counts: impl Fn(&str) -> bool,
) -> Labels {
    let all = of.into_iter().flatten().filter(|(key, _)| counts(key));
    all.map(|(key, value)| (words.intern(key.as_str()), words.intern(value.as_str())))
        .collect()
}

fn label(object: &DynamicObject, key: &str, words: &mut Strings) -> Option<Arc<str>> {
    let labels = object.metadata.labels.as_ref()?;
    labels.get(key).map(|value| words.intern(value.as_str()))
}

fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// UID of the controller.
fn controller(object: &DynamicObject, words: &mut Strings) -> Option<Arc<str>> {
    let owners = object.metadata.owner_references.as_ref()?;
    let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(words.intern(controller.uid.as_str()))
}

/// The condition of a type in `status.conditions`.
fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == type_)
}
