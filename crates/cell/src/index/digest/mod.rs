//! Digests: the fields that a cell reads of each kind of object. One function per kind builds the digest from the
//! object as served.

mod deployment;
mod hub;
mod instance;
mod namespaces;
mod network;
mod pod;
mod quota;

pub use deployment::{Deployment, Spec, deployment};
pub use hub::{HubDeployment, HubInstance, fingerprint, hub_deployment, owned_fields, write_back};
pub use instance::{InstanceDigest, Owner, instance};
pub use namespaces::{Namespace, namespace, place, records};
pub use network::{
    Binding, INTERFACE, NetworkContext, SubnetClaim, binding, context, is_ready, subnet_claim,
};
pub use pod::{Attached, Pod, network_policy, network_policy_spec, pod, service, service_spec};
pub use quota::{Claim, Granted, claim, claim_name};

use crate::rollout::labels::Labels;
use fedgate_engine::{interner::Interner, object::entries};
use kube::{ResourceExt, core::DynamicObject};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Interner for strings that many objects repeat.
pub type Strings = Interner<str>;

fn labels(of: &BTreeMap<String, String>, words: &mut Strings, counts: impl Fn(&str) -> bool) -> Labels {
    let all = of.iter().filter(|(key, _)| counts(key));
    all.map(|(key, value)| (words.intern(key.as_str()), words.intern(value.as_str())))
        .collect()
}

fn label(object: &DynamicObject, key: &str, words: &mut Strings) -> Option<Arc<str>> {
    object.labels().get(key).map(|value| words.intern(value.as_str()))
}

fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.annotations().get(key).map(String::as_str)
}

/// UID of the controller.
pub fn controller(object: &DynamicObject, words: &mut Strings) -> Option<Arc<str>> {
    let mut owners = object.owner_references().iter();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(words.intern(controller.uid.as_str()))
}

/// The condition of a type in `status.conditions`.
fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let mut conditions = entries(&object.data["status"]["conditions"]).iter();
    conditions.find(|c| c["type"] == type_)
}
