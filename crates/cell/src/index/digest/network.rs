//! Digests of networking objects.

use super::{Strings, condition, controller};
use fedgate_api::{LocationReference, NetworkReference};
use fedgate_engine::object::entries;
use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// An object with a condition Ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// True if it is being deleted: it is never ready then.
    pub deleting: bool,
    /// True if its condition Ready is True.
    pub ready: bool,
}

impl Readiness {
    /// True if it is ready, and stays so.
    pub fn holds(&self) -> bool {
        self.ready && !self.deleting
    }
}

/// A `NetworkBinding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// UID of the object.
    pub uid: Arc<str>,
    /// UID of its controller.
    pub controller: Option<Arc<str>>,
    /// `spec.network`.
    pub network: NetworkReference,
    /// `spec.location`.
    pub location: LocationReference,
    /// Condition Ready of the object.
    pub readiness: Readiness,
    /// Reason and message of a Ready=False.
    pub refusal: Option<(Arc<str>, Arc<str>)>,
    /// `status.networkContextRef`: namespace and name.
    pub context: Option<(Arc<str>, Arc<str>)>,
}

/// A `NetworkContext`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkContext {
    /// UID of the object.
    pub uid: Arc<str>,
    /// `spec.location`.
    pub location: LocationReference,
    /// `spec.ipFamilies`.
    pub families: Vec<Arc<str>>,
    /// Condition Ready of the object.
    pub readiness: Readiness,
}

/// A `SubnetClaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetClaim {
    /// Name of the object.
    pub name: Arc<str>,
    /// `spec.subnetClass`.
    pub class: Arc<str>,
    /// `spec.ipFamily`.
    pub family: Arc<str>,
    /// `spec.networkContext.name`.
    pub context: Arc<str>,
    /// `spec.location`.
    pub location: LocationReference,
    /// Condition Ready of the object.
    pub readiness: Readiness,
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

fn uid(object: &DynamicObject, words: &mut Strings) -> Arc<str> {
    words.intern(object.metadata.uid.as_deref().unwrap_or_default())
}

/// Deletion and condition Ready of any networking object.
pub fn readiness(object: &DynamicObject, _: &mut Strings) -> Readiness {
    Readiness {
        deleting: object.metadata.deletion_timestamp.is_some(),
        ready: condition(object, "Ready").is_some_and(|ready| ready["status"] == "True"),
    }
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
        uid: uid(object, words),
        controller: controller(object, words),
        network,
        location: location(spec),
        readiness: readiness(object, words),
        refusal: refusal.and_then(|c| Some((word(&c["reason"], words)?, word(&c["message"], words)?))),
        context: word(&context["namespace"], words).zip(word(&context["name"], words)),
    }
}

/// Builds the digest of a `NetworkContext`.
pub fn context(object: &DynamicObject, words: &mut Strings) -> NetworkContext {
    let spec = &object.data["spec"];
    let families = entries(&spec["ipFamilies"]).iter();
    NetworkContext {
        uid: uid(object, words),
        location: location(spec),
        families: families.filter_map(|family| word(family, words)).collect(),
        readiness: readiness(object, words),
    }
}

/// Builds the digest of a `SubnetClaim`.
pub fn subnet_claim(object: &DynamicObject, words: &mut Strings) -> SubnetClaim {
    let spec = &object.data["spec"];
    let mut field = |value: &Value| word(value, words).unwrap_or_default();
    SubnetClaim {
        name: field(&Value::from(object.metadata.name.as_deref().unwrap_or_default())),
        class: field(&spec["subnetClass"]),
        family: field(&spec["ipFamily"]),
        context: field(&spec["networkContext"]["name"]),
        location: location(spec),
        readiness: readiness(object, words),
        subnet: word(&object.data["status"]["subnetRef"]["name"], words),
    }
}
