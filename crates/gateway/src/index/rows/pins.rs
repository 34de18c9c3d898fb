//! Digest of a `ConfigMap` with the pins of a hub namespace.

use crate::pin::{Pin, RECORD_LIMIT};
use kube::core::DynamicObject;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// The pins of a hub namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// By their keys; `None` for a value that is no pin.
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
