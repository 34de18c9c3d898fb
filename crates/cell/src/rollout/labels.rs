//! Labels that identify an Instance and its owners, and their repair (contract: cell.md §7).

use super::Deployment;
use fedgate_api::keys;
use serde_json::{Map, Value, json};
use std::{ops::Deref, sync::Arc};

/// Labels or annotations of an object, by key. The strings may be shared with other objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Default for Labels {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl Labels {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| **known == *key);
        found.map(|(_, value)| &**value)
    }

    /// A copy with another value of a key, or without the key.
    #[cfg(test)]
    pub(crate) fn with(&self, key: &str, value: Option<&str>) -> Self {
        let others = self.0.iter().filter(|(known, _)| **known != *key).cloned();
        let new = value.map(|value| (key.into(), value.into()));
        others.chain(new).collect()
    }

    /// True if the key exists.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl Deref for Labels {
    type Target = [(Arc<str>, Arc<str>)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let labels = labels.into_iter();
        Self(labels.map(|(key, value)| (key.into(), value.into())).collect())
    }
}

/// Keys of other versions that no component reads.
const OBSOLETE: [&str; 1] = ["compute.datumapis.com/runtime-class"];

impl Deployment {
    /// The owner labels of the Instance with this ordinal. A place that is not known has no label here, so that one
    /// which is there already stays.
    pub fn labels(&self, ordinal: u32) -> impl Iterator<Item = (&'static str, String)> {
        let place = [
            (keys::INSTANCE_CITY_CODE, &self.city_code),
            (keys::INSTANCE_LOCATION, &self.location),
        ];
        let place = place
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?.to_string())));
        let others = [
            (keys::WORKLOAD_UID, self.workload_uid.to_string()),
            (keys::WORKLOAD_NAME, self.workload_name.to_string()),
            (keys::PLACEMENT_NAME, self.placement_name.to_string()),
            (keys::WORKLOAD_DEPLOYMENT_NAME, self.name.to_string()),
            (keys::WORKLOAD_DEPLOYMENT_UID, self.uid.to_string()),
            (keys::INSTANCE_INDEX, ordinal.to_string()),
        ];
        others.into_iter().chain(place)
    }

    /// Merge patch that repairs an Instance's labels; `None` if they are correct.
    pub fn repair(&self, ordinal: u32, labels: &Labels) -> Option<Value> {
        let wanted = self.labels(ordinal);
        let mut patch: Map<String, Value> = wanted
            .filter(|(key, value)| labels.get(key) != Some(value.as_str()))
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        let obsolete = OBSOLETE.into_iter().filter(|key| labels.contains_key(key));
        patch.extend(obsolete.map(|key| (key.to_owned(), Value::Null)));
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
}

/// True if the controller owns a label key, so that a template's value for it is ignored.
pub fn is_controllers(key: &str) -> bool {
    keys::LINKING.contains(&key) || key == keys::INSTANCE_LOCATION || OBSOLETE.contains(&key)
}
