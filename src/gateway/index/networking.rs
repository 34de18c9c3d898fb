//! Objects of a project that Workloads are checked against: Locations for their places (K3) and Networks for their
//! interfaces (K1), both of group `networking.datumapis.com`. Locations may be served namespaced or cluster-scoped.
//!
//! The gateway watches each kind only if its check is on. A project may lack their CRDs, so neither list counts towards
//! the readiness of a project: while a list is missing, only the project's Workloads wait.

use super::{GatewayIndex, Project, TableId, apply::Applied, change::Change};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    plane::watch::WatchEvent,
    store::{
        apply::{RowChange, apply_event},
        table::Row,
    },
};
use kube::core::DynamicObject;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Workload checks that read other objects of the project, as the settings enable them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkloadChecks {
    /// K3: each city and location needs a Location; selectors select among them.
    pub locations: bool,
    /// K1: each interface needs its Network.
    pub networks: bool,
}

impl WorkloadChecks {
    /// The tables to watch for the enabled checks.
    pub fn tables(self) -> impl Iterator<Item = TableId> {
        [
            (self.locations, TableId::Locations),
            (self.networks, TableId::Networks),
        ]
        .into_iter()
        .filter_map(|(on, table)| on.then_some(table))
    }
}

/// The field of a Workload that depends on every Location; as a name it concerns the Workloads with a selector.
const SELECTOR: &str = "locationSelector";

/// Most keys of a topology that are kept: more than a selector can name.
const MOST_KEYS: usize = 64;
/// Longest key of a label, with its prefix.
const LONGEST_KEY: usize = 317;
/// Longest value of a label, and of a city code.
const LONGEST_VALUE: usize = 63;

/// A Location of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Its topology, as far as a selector of labels can match it.
    pub topology: Arc<BTreeMap<String, String>>,
    /// City of the Location.
    pub city: Option<Arc<str>>,
    /// True if the condition Ready is False. A Location without this condition counts as ready.
    pub refused: bool,
}

impl Location {
    /// Reads a Location.
    pub fn read(object: &DynamicObject) -> Self {
        let topology = object.data.pointer("/spec/topology").and_then(Value::as_object);
        let topology: BTreeMap<String, String> = topology
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .filter(|(key, value)| key.len() <= LONGEST_KEY && value.len() <= LONGEST_VALUE)
            .take(MOST_KEYS)
            .collect();
        let conditions = object
            .data
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let refused = conditions.into_iter().flatten().any(|condition| {
            let is = |field: &str, value: &str| condition.get(field).and_then(Value::as_str) == Some(value);
            is("type", "Ready") && is("status", "False")
        });
        let city = topology.get(keys::CITY_CODE).filter(|city| !city.is_empty());
        Self {
            city: city.map(|city| city.as_str().into()),
            topology: topology.into(),
            refused,
        }
    }
}

/// A Location as a project has it.
pub trait Placeable {
    /// True if new deployments may be placed there: it is neither terminating nor Ready=False.
    fn is_open(&self) -> bool;
    /// City that it opens for new deployments.
    fn serves(&self) -> Option<&Arc<str>>;
}

impl Placeable for Row<Location> {
    fn is_open(&self) -> bool {
        !self.deleting && !self.digest.refused
    }

    fn serves(&self) -> Option<&Arc<str>> {
        self.digest.city.as_ref().filter(|_| self.is_open())
    }
}

impl Project {
    /// The cities with a Location that is neither Ready=False nor terminating.
    pub fn served_cities(&self) -> impl Iterator<Item = &Arc<str>> {
        self.locations.iter().filter_map(|(_, row)| row.serves())
    }

    /// All Locations with their names, those of several namespaces in the order of these.
    pub fn listed_locations(&self) -> impl Iterator<Item = (&Arc<str>, &Row<Location>)> {
        self.locations.iter().map(|((_, name), row)| (name, row))
    }

    /// Namespace and name of the Networks that are not terminating.
    pub fn live_networks(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.networks
            .iter()
            .filter(|(_, row)| !row.deleting)
            .map(|((namespace, name), _)| (namespace, name))
    }
}

impl GatewayIndex {
    /// Applies an event of a project's Locations. Their list is not among the lists that a project needs: `synced`
    /// stays unset.
    pub(super) fn location_event(&mut self, key: &ProjectKey, event: WatchEvent) -> Applied {
        let Some(project) = self.projects.get_mut(key) else {
            return Applied::default();
        };
        let (deltas, first) = apply_event(&mut project.locations, event, &mut self.words, |o, _| {
            Location::read(o)
        });
        let mut names = BTreeSet::new();
        for RowChange { name, old } in &deltas {
            let (old, new) = (old.as_ref(), project.locations.get(&name.0, &name.1));
            let city = (old.and_then(Placeable::serves), new.and_then(Placeable::serves));
            if city.0 != city.1 {
                names.extend(city.0.into_iter().chain(city.1).cloned());
            }
            let seen = |row: &Row<Location>| (row.is_open(), row.digest.topology.clone());
            if old.map(seen) != new.map(seen) {
                names.extend([name.1.clone(), SELECTOR.into()]);
            }
        }
        let synced = project.locations.synced();
        checks_changed(key, first, if synced { names } else { BTreeSet::new() })
    }

    /// Applies an event of a project's Networks, as [`GatewayIndex::location_event`] does.
    pub(super) fn network_event(&mut self, key: &ProjectKey, event: WatchEvent) -> Applied {
        let Some(project) = self.projects.get_mut(key) else {
            return Applied::default();
        };
        let (deltas, first) = apply_event(&mut project.networks, event, &mut self.words, |_, _| ());
        let live = |row: Option<&Row<()>>| row.is_some_and(|row| !row.deleting);
        let names = deltas
            .into_iter()
            .filter(|d| live(d.old.as_ref()) != live(project.networks.get(&d.name.0, &d.name.1)))
            .map(|d| d.name.1)
            .collect();
        let synced = project.networks.synced();
        checks_changed(key, first, if synced { names } else { BTreeSet::new() })
    }
}

/// The Workloads of a project may pass or fail their checks: with the first complete list all of them, later those that
/// name one of `names`.
fn checks_changed(project: &ProjectKey, first: bool, names: BTreeSet<Arc<str>>) -> Applied {
    let changes = (first || !names.is_empty()).then(|| Change::WorkloadChecks {
        project: project.clone(),
        names: (!first).then_some(names),
    });
    Applied {
        changes: changes.into_iter().collect(),
        ..Applied::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(topology: &Value, conditions: &Value) -> Location {
        let object = json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Location",
            "metadata": {"name": "dfw-1", "namespace": "default"},
            "spec": {"locationClassName": "self-managed", "topology": topology},
            "status": {"conditions": conditions}});
        Location::read(&serde_json::from_value(object).unwrap())
    }

    /// A tenant may write what it likes into its objects; the memory is everybody's.
    #[test]
    fn of_a_huge_topology_no_more_is_kept_than_labels_can_be() {
        let mut topology = json!({"long": "x".repeat(64), "x".repeat(318): "long"});
        for n in 0..1_000 {
            topology[format!("key-{n:04}")] = json!("x".repeat(63));
        }
        let kept = read(&topology, &json!([])).topology;
        assert_eq!(kept.len(), MOST_KEYS);
        assert!(kept.keys().all(|key| key.starts_with("key-")));
    }

    #[test]
    fn a_location_is_its_city_and_whether_it_refuses() {
        let location = |city: Option<&str>, refused| (city.map(str::to_owned), refused);
        let read = |topology: &Value, conditions: &Value| {
            let location = read(topology, conditions);
            (location.city.map(|city| city.to_string()), location.refused)
        };
        let dfw = json!({"topology.datum.net/city-code": "DFW", "topology.datum.net/region": "us"});
        let ready =
            |status: &str| json!([{"type": "Other", "status": "False"}, {"type": "Ready", "status": status}]);
        assert_eq!(read(&dfw, &Value::Null), location(Some("DFW"), false));
        assert_eq!(read(&dfw, &ready("Unknown")), location(Some("DFW"), false));
        assert_eq!(read(&dfw, &ready("True")), location(Some("DFW"), false));
        assert_eq!(read(&dfw, &ready("False")), location(Some("DFW"), true));
        let none = json!({"topology.datum.net/region": "us"});
        assert_eq!(read(&none, &ready("True")), location(None, false));
        let odd = json!({"topology.datum.net/city-code": 7});
        assert_eq!(read(&odd, &json!("nonsense")), location(None, false));
        assert_eq!(read(&Value::Null, &Value::Null), location(None, false));
        let empty = json!({"topology.datum.net/city-code": ""});
        assert_eq!(read(&empty, &Value::Null), location(None, false));
    }
}
