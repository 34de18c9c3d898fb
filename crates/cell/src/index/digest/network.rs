//! Digests of networking objects.

use super::{Strings, condition, controller};
use fedgate_api::{LocationReference, NetworkReference};
use fedgate_engine::object::entries;
use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// A `NetworkBinding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// UID of its controller.
    pub controller: Option<Arc<str>>,
    /// `spec.network`.
    pub network: NetworkReference,
    /// `spec.location`.
    pub location: LocationReference,
    /// True if its condition Ready is True.
    pub is_ready: bool,
    /// Reason and message of a Ready=False.
    pub refusal: Option<(Arc<str>, Arc<str>)>,
    /// `status.networkContextRef`: namespace and name.
    pub context: Option<(Arc<str>, Arc<str>)>,
}

/// A `NetworkContext`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkContext {
    /// `spec.location`.
    pub location: LocationReference,
    /// `spec.ipFamilies`; IPv4 if it names none.
    pub families: Vec<Arc<str>>,
    /// True if its condition Ready is True.
    pub is_ready: bool,
}

/// A `SubnetClaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetClaim {
    /// `spec.subnetClass`.
    pub class: Arc<str>,
    /// `spec.ipFamily`.
    pub family: Arc<str>,
    /// `spec.networkContext.name`.
    pub context: Arc<str>,
    /// `spec.location`.
    pub location: LocationReference,
    /// True if its condition Ready is True.
    pub is_ready: bool,
    /// `status.subnetRef.name`.
    pub subnet: Option<Arc<str>>,
}

/// Separates a deployment's name from the number of an interface in the name of a binding.
pub const INTERFACE: &str = "-net-";

fn location(spec: &Value) -> LocationReference {
    serde_json::from_value(spec["location"].clone()).unwrap_or_default()
}

fn word(value: &Value, words: &mut Strings) -> Option<Arc<str>> {
    value.as_str().map(|text| words.intern(text))
}

/// True if the condition Ready of a networking object is True.
pub fn is_ready(object: &DynamicObject, _: &mut Strings) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Builds the digest of a `NetworkBinding`.
pub fn binding(object: &DynamicObject, words: &mut Strings) -> Binding {
    let spec = &object.data["spec"];
    let context = &object.data["status"]["networkContextRef"];
    let refusal = condition(object, "Ready").filter(|ready| ready["status"] == "False");
    let network: NetworkReference =
        serde_json::from_value(spec["network"].clone()).unwrap_or_else(|_| NetworkReference {
            name: String::new(),
            namespace: None,
        });
    Binding {
        controller: controller(object, words),
        network,
        location: location(spec),
        is_ready: is_ready(object, words),
        refusal: refusal.and_then(|c| Some((word(&c["reason"], words)?, word(&c["message"], words)?))),
        context: word(&context["namespace"], words).zip(word(&context["name"], words)),
    }
}

/// Builds the digest of a `NetworkContext`.
pub fn context(object: &DynamicObject, words: &mut Strings) -> NetworkContext {
    let spec = &object.data["spec"];
    let named = entries(&spec["ipFamilies"]).iter();
    let mut families: Vec<Arc<str>> = named.filter_map(|family| word(family, words)).collect();
    if families.is_empty() {
        families.push("IPv4".into());
    }
    NetworkContext {
        location: location(spec),
        families,
        is_ready: is_ready(object, words),
    }
}

/// Builds the digest of a `SubnetClaim`.
pub fn subnet_claim(object: &DynamicObject, words: &mut Strings) -> SubnetClaim {
    let spec = &object.data["spec"];
    let mut field = |value: &Value| word(value, words).unwrap_or_default();
    SubnetClaim {
        class: field(&spec["subnetClass"]),
        family: field(&spec["ipFamily"]),
        context: field(&spec["networkContext"]["name"]),
        location: location(spec),
        is_ready: is_ready(object, words),
        subnet: word(&object.data["status"]["subnetRef"]["name"], words),
    }
}
