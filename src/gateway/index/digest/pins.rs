//! Digest of a `ConfigMap` with the pins of a hub namespace.

use crate::gateway::pin::Pin;
use kube::core::DynamicObject;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// The pins of a hub namespace, by their keys; `None` for a value that is no pin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins(pub BTreeMap<Arc<str>, Option<Arc<Pin>>>);

impl Pins {
    /// Digests the `ConfigMap`.
    pub fn read(object: &DynamicObject) -> Self {
        let data = object.data.get("data").and_then(Value::as_object);
        let pins = data.into_iter().flatten().map(|(key, value)| {
            let pin = value.as_str().and_then(Pin::parse);
            (key.as_str().into(), pin.map(Arc::new))
        });
        Self(pins.collect())
    }
}
