//! Digests of networking objects, in the types of `cell::network::decide`.

use super::{Strings, condition, controller};
use crate::network::decide::{Binding, Claim, Context, Readiness};
use fedgate_api::{LocationReference, NetworkReference};
use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

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
pub fn context(object: &DynamicObject, words: &mut Strings) -> Context {
    let spec = &object.data["spec"];
    let families = spec["ipFamilies"].as_array().into_iter().flatten();
    Context {
        uid: uid(object, words),
        location: location(spec),
        families: families.filter_map(|family| word(family, words)).collect(),
        readiness: readiness(object, words),
    }
}

/// Builds the digest of a `SubnetClaim`.
pub fn subnet_claim(object: &DynamicObject, words: &mut Strings) -> Claim {
    let spec = &object.data["spec"];
    let mut field = |value: &Value| word(value, words).unwrap_or_default();
    Claim {
        name: field(&Value::from(object.metadata.name.as_deref().unwrap_or_default())),
        class: field(&spec["subnetClass"]),
        family: field(&spec["ipFamily"]),
        context: field(&spec["networkContext"]["name"]),
        location: location(spec),
        readiness: readiness(object, words),
        subnet: word(&object.data["status"]["subnetRef"]["name"], words),
    }
}
