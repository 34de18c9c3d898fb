//! Labels by which Instances are found and joined, and their repair (contract: cell.md §7).

use crate::api::keys;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Keys of ours that earlier versions wrote and nobody reads any more.
const OBSOLETE: [&str; 2] = [
    "compute.datumapis.com/location",
    "compute.datumapis.com/runtime-class",
];

/// What the labels of all Instances of a deployment say alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linking {
    /// UID of the Workload.
    pub workload_uid: Arc<str>,
    /// Name of the Workload.
    pub workload_name: Arc<str>,
    /// Name of the Workload's placement.
    pub placement_name: Arc<str>,
    /// City code.
    pub city_code: Arc<str>,
    /// Name of the deployment.
    pub deployment_name: Arc<str>,
    /// UID of the deployment at the cell.
    pub deployment_uid: Arc<str>,
}

impl Linking {
    /// The seven labels of the Instance of an ordinal.
    pub fn labels(&self, ordinal: u32) -> [(&'static str, String); 7] {
        [
            (keys::WORKLOAD_UID, self.workload_uid.to_string()),
            (keys::WORKLOAD_NAME, self.workload_name.to_string()),
            (keys::PLACEMENT_NAME, self.placement_name.to_string()),
            (keys::INSTANCE_CITY_CODE, self.city_code.to_string()),
            (keys::WORKLOAD_DEPLOYMENT_NAME, self.deployment_name.to_string()),
            (keys::WORKLOAD_DEPLOYMENT_UID, self.deployment_uid.to_string()),
            (keys::INSTANCE_INDEX, ordinal.to_string()),
        ]
    }

    /// The merge patch of labels that brings an Instance's up to date; `None` if they are.
    pub fn repair(&self, ordinal: u32, labels: &Labels) -> Option<Value> {
        let wanted = self.labels(ordinal).into_iter();
        let mut patch: Map<String, Value> = wanted
            .filter(|(key, value)| labels.get(*key) != Some(value))
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        let obsolete = OBSOLETE.into_iter().filter(|key| labels.contains_key(*key));
        patch.extend(obsolete.map(|key| (key.to_owned(), Value::Null)));
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
}

/// Whether a key is the controller's, so that a template's label of it does not count.
pub fn is_controllers(key: &str) -> bool {
    keys::LINKING.contains(&key) || OBSOLETE.contains(&key)
}
