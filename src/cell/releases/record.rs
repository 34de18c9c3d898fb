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
    use proptest::{collection::vec, prelude::*};

    fn record() -> impl Strategy<Value = Record> {
        let plane = prop_oneof![Just(HUB.to_owned()), "[a-z]{1,8}", ".{0,70}"];
        (plane, ".{0,20}", ".{0,20}", ".{0,20}").prop_map(|(plane, kind, namespace, name)| Record {
            plane,
            kind,
            namespace,
            name,
        })
    }

    proptest! {
        #[test]
        fn records_of_any_words_are_read_as_they_were_written(records in vec(record(), 0..6)) {
            prop_assert_eq!(read(&write(&records)), records.clone());
            for record in &records {
                prop_assert_eq!(&record.target().name, &record.name);
            }
        }

        #[test]
        fn a_text_that_was_changed_is_records_or_none(
            records in vec(record(), 1..3),
            at in any::<proptest::sample::Index>(),
            with in ".{0,3}",
        ) {
            let mut text: Vec<char> = write(&records).chars().collect();
            let at = at.index(text.len());
            text.splice(at..=at, with.chars());
            let text: String = text.into_iter().collect();
            for record in read(&text) {
                prop_assert_eq!(record.target().name, record.name);
            }
        }
    }

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
