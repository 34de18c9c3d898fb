//! Records of objects to release: `ConfigMaps` in each namespace, one entry for each Instance.

use crate::index::{RELEASES_PREFIX, digest::claim_name, tables::TableId};
use fedgate_api::names::{ProjectKey, short_hash};
use fedgate_engine::{key::Plane, plan::Target};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the hub in a record; every other name is a project's key.
pub const HUB: &str = "(hub)";

/// An object to release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// `(hub)`, or the project's key.
    pub plane: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object on its plane.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Time of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// A plane without an answer for this time is treated as gone for good.
const GIVEN_UP_AFTER: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Size in bytes from which a `ConfigMap` takes no further Instance: an API server accepts 1 MiB.
const FULL: usize = 512 * 1024;
/// Maximum number of `ConfigMaps` of a namespace.
const PARTS: usize = 8;

/// The records of a `ConfigMap`, by UID of the Instance.
pub type Records = BTreeMap<String, String>;

/// The `ConfigMap` for the records of an Instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPlace {
    /// Name of the `ConfigMap`.
    pub name: String,
    /// True if it exists.
    pub exists: bool,
    /// Present records of the Instance.
    pub has: Vec<Record>,
}

/// The `ConfigMap` for the records of an Instance: the one that has some already, else the first of its namespace
/// with room. `None` if all are full.
pub fn place<'a>(
    namespace: &str,
    instance: &str,
    known: impl Fn(&str) -> Option<&'a Records>,
) -> Option<RecordPlace> {
    let parts: Vec<(String, Option<&Records>)> = (0..PARTS)
        .map(|part| {
            let name = name(namespace, part);
            let records = known(&name);
            (name, records)
        })
        .collect();
    let bytes = |records: &Records| records.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
    let has_it = |records: &&Records| records.contains_key(instance);
    let first = |which: &dyn Fn(Option<&Records>) -> bool| parts.iter().find(|(_, records)| which(*records));
    let (name, records) = first(&|records| records.as_ref().is_some_and(has_it))
        .or_else(|| first(&|records| records.is_none_or(|records| bytes(records) < FULL)))?;
    let text = records.and_then(|records| records.get(instance));
    Some(RecordPlace {
        name: name.clone(),
        exists: records.is_some(),
        has: text.map(|text| read(text)).unwrap_or_default(),
    })
}

/// Earlier and new records, each object once.
pub fn joined(has: Vec<Record>, new: &[Record], now: Timestamp) -> Vec<Record> {
    let mut all = has;
    for record in new {
        if !all.iter().any(|known| known.names_the_same(record)) {
            all.push(Record {
                since: Some(now),
                ..record.clone()
            });
        }
    }
    all
}

impl Record {
    /// The write-back of an Instance, on the hub.
    pub fn of_write_back(namespace: &str, name: &str) -> Self {
        Self::of(HUB, TableId::HubInstances, namespace, name.to_owned())
    }

    /// The claim of an Instance in a namespace of its project.
    pub fn of_claim(project: &ProjectKey, namespace: &str, instance: &str) -> Self {
        Self::of(project.as_str(), TableId::Claims, namespace, claim_name(instance))
    }

    fn of(plane: &str, table: TableId, namespace: &str, name: String) -> Self {
        Self {
            plane: plane.to_owned(),
            kind: table.resource().kind,
            namespace: namespace.to_owned(),
            name,
            since: None,
        }
    }

    /// True if both are of the same object.
    fn names_the_same(&self, other: &Self) -> bool {
        let of =
            |record: &Self| [&record.plane, &record.kind, &record.namespace, &record.name].map(String::clone);
        of(self) == of(other)
    }

    /// The record with a valid time: one without a time, or with a time in the future, counts from now.
    #[must_use]
    pub fn seen(self, now: Timestamp) -> Self {
        let since = self.since.filter(|since| *since <= now).unwrap_or(now);
        Self {
            since: Some(since),
            ..self
        }
    }

    /// True if its plane has not answered for so long that no answer is expected.
    pub fn is_given_up(&self, now: Timestamp) -> bool {
        self.since
            .is_some_and(|since| now.duration_since(since) >= GIVEN_UP_AFTER)
    }

    /// The object.
    pub fn target(&self) -> Target {
        if self.plane == HUB {
            return TableId::HubInstances.target(&self.namespace, &self.name);
        }
        let project = ProjectKey::parse(&self.plane);
        Target {
            plane: project.map_or(Plane::Hub, Plane::Project),
            ..TableId::Claims.target(&self.namespace, &self.name)
        }
    }
}

/// Name of a `ConfigMap` for a namespace.
fn name(namespace: &str, part: usize) -> String {
    let first = format!("{RELEASES_PREFIX}{}", short_hash(namespace, 10));
    if part == 0 {
        first
    } else {
        format!("{first}-{part}")
    }
}

/// Formats an entry.
pub fn write(records: &[Record]) -> String {
    serde_json::json!(records).to_string()
}

/// Parses an entry; a malformed entry was not written by fedgate.
pub fn read(text: &str) -> Vec<Record> {
    serde_json::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use serde_json::json;

    fn any_record() -> impl Strategy<Value = Record> {
        let plane = prop_oneof![Just(HUB.to_owned()), "[a-z]{1,8}", ".{0,70}"];
        (plane, ".{0,20}", ".{0,20}", ".{0,20}").prop_map(|(plane, kind, namespace, name)| Record {
            plane,
            kind,
            namespace,
            name,
            since: None,
        })
    }

    proptest! {
        #[test]
        fn records_of_any_words_are_read_as_they_were_written(records in vec(any_record(), 0..6)) {
            prop_assert_eq!(read(&write(&records)), records.clone());
            for record in &records {
                prop_assert_eq!(&record.target().name, &record.name);
            }
        }

        #[test]
        fn a_text_that_was_changed_is_records_or_none(
            records in vec(any_record(), 1..3),
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
        let shop = ProjectKey::parse("shop").unwrap();
        let claim = Record {
            since: Some(Timestamp::UNIX_EPOCH),
            ..Record::of_claim(&shop, "default", "web-0")
        };
        let records = [record("web-0"), claim];
        let text = json!([
            {"plane": "(hub)", "kind": "Instance", "namespace": "ns-1", "name": "web-0"},
            {"plane": "shop", "kind": "ResourceClaim", "namespace": "default", "name": "instance-web-0",
                "since": "1970-01-01T00:00:00Z"},
        ]);
        assert_eq!(records, *read(&text.to_string()));
        assert_eq!(read(&write(&records)), records);
        assert_eq!(records[0].target().plane, Plane::Hub);
        let claim = records[1].target();
        assert_eq!(claim.plane.to_string(), "project shop");
        assert_eq!(claim.kind().as_str(), "resourceclaims.quota.miloapis.com");
        assert_eq!(read("nonsense"), []);
    }

    fn record(name: &str) -> Record {
        Record::of_write_back("ns-1", name)
    }

    #[test]
    fn a_namespace_has_names_of_its_own() {
        assert_eq!(name("ns-1", 0).len(), RELEASES_PREFIX.len() + 10);
        assert_ne!(name("ns-1", 0), name("ns-2", 0));
        assert_eq!(name("ns-1", 2), format!("{}-2", name("ns-1", 0)));
    }

    #[test]
    fn no_config_map_outgrows_its_server_and_no_namespace_all_bounds() {
        let mut maps: BTreeMap<String, Records> = BTreeMap::new();
        let long = "n".repeat(200);
        let mut kept = 0;
        for n in 0..20_000 {
            let uid = format!("u-{n}");
            let Some(place) = place("ns-1", &uid, |name| maps.get(name)) else {
                break;
            };
            assert_eq!(place.exists, maps.contains_key(&place.name));
            let text = write(&joined(place.has, &[record(&long)], Timestamp::UNIX_EPOCH));
            maps.entry(place.name).or_default().insert(uid, text);
            kept += 1;
        }
        assert_eq!(maps.len(), PARTS);
        let sizes = maps.values().map(|map| serde_json::json!(map).to_string().len());
        assert!(sizes.max() < Some(1024 * 1024));
        assert!(kept < 20_000, "there is an end: {kept}");
        // Records of one Instance stay together.
        let again = place("ns-1", "u-0", |name| maps.get(name)).unwrap();
        assert_eq!(again.name, name("ns-1", 0));
        let both = joined(
            again.has,
            &[record(&long), record("other")],
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn a_record_is_given_up_after_a_week_by_our_own_clock() {
        let at = |hours: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
        let seen = record("a").seen(at(1_000));
        assert_eq!(seen.since, Some(at(1_000)), "an old one begins now");
        assert!(!seen.is_given_up(at(1_167)) && seen.is_given_up(at(1_168)));
        assert_eq!(seen.clone().seen(at(1_100)), seen);
        assert_eq!(seen.seen(at(900)).since, Some(at(900)), "a clock that was ahead");
    }
}
