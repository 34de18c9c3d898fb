//! Records of what is still to be released: one `ConfigMap` for each namespace, one entry for each Instance.

use crate::{
    api::names::{ProjectKey, short_hash},
    cell::{
        provider::pod::MANAGED_BY,
        world::{RELEASES_PREFIX, role::Role},
    },
    engine::{key::Plane, plan::Target},
};
use serde::{Deserialize, Serialize};

/// The word for the hub; every other is a project's key.
pub const HUB: &str = "(hub)";
/// The label by which they are watched.
pub const LABEL: (&str, &str) = MANAGED_BY;

/// One object that is to be released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// `(hub)`, or the project's key.
    pub plane: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace there.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Record {
    /// The object.
    pub fn target(&self) -> Target {
        let (plane, role) = if self.plane == HUB {
            (Plane::Hub, Role::HubInstances)
        } else {
            let project = ProjectKey::parse(&self.plane);
            (project.map_or(Plane::Hub, Plane::Project), Role::Claims)
        };
        Target::namespaced(plane, &role.resource(), &self.namespace, &self.name)
    }
}

/// Name of the `ConfigMap` for a namespace.
pub fn name(namespace: &str) -> String {
    format!("{RELEASES_PREFIX}{}", short_hash(namespace, 10))
}

/// The text of an entry.
pub fn write(records: &[Record]) -> String {
    serde_json::json!(records).to_string()
}

/// Reads an entry; what cannot be read is nothing that this program has written.
pub fn read(text: &str) -> Vec<Record> {
    serde_json::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_leads_to_its_object() {
        let records = [
            Record {
                plane: HUB.to_owned(),
                kind: "Instance".to_owned(),
                namespace: "ns-1".to_owned(),
                name: "web-0".to_owned(),
            },
            Record {
                plane: "shop".to_owned(),
                kind: "ResourceClaim".to_owned(),
                namespace: "default".to_owned(),
                name: "instance-web-0".to_owned(),
            },
        ];
        assert_eq!(read(&write(&records)), records);
        assert_eq!(records[0].target().plane, Plane::Hub);
        let claim = records[1].target();
        assert_eq!(claim.plane.to_string(), "project shop");
        assert_eq!(claim.kind().as_str(), "resourceclaims.quota.miloapis.com");
        assert_eq!(read("nonsense"), []);
    }

    #[test]
    fn a_namespace_has_one_name_of_its_own() {
        assert_eq!(name("ns-1").len(), RELEASES_PREFIX.len() + 10);
        assert_ne!(name("ns-1"), name("ns-2"));
    }
}
