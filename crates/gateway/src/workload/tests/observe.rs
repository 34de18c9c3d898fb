//! Tests of the input that the index gives to a Workload's checks, by settings, and of the events that enqueue the
//! Workload.

use super::super::observe;
use super::*;
use crate::index::{GatewayIndex, Resources, TableId, locations::LocationKind, networking::WorkloadChecks};
use crate::{keys_of, settings::LocationSource};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    key::{Key, Plane},
    plane::watch::WatchEvent,
    runtime::index::Index,
};
use fedgate_kinds::{FederatedKind, PerKind};
use kube::core::{ApiResource, DynamicObject};
use std::sync::{Arc, LazyLock};

static KINDS: LazyLock<Arc<PerKind<FederatedKind>>> =
    LazyLock::new(|| Arc::new(FederatedKind::builtin().unwrap().into()));

fn off() -> WorkloadChecks {
    WorkloadChecks {
        locations: LocationSource::None,
        ..WorkloadChecks::default()
    }
}

fn locations() -> WorkloadChecks {
    WorkloadChecks {
        locations: LocationSource::NetworkServices,
        ..WorkloadChecks::default()
    }
}

fn networks() -> WorkloadChecks {
    WorkloadChecks {
        networks: true,
        ..off()
    }
}

/// The table of the kind of locations that most tests use.
const PLACES: TableId = TableId::Locations(LocationKind::NetworkLocation);

/// An index with one project; all its lists are complete but those of its locations and Networks.
pub(super) struct Scene {
    pub(super) index: GatewayIndex,
    pub(super) project: ProjectKey,
    version: u64,
}

impl Scene {
    /// Creates the Workloads `shop` in DFW and IAD, and `lone` in LHR, which names another Network.
    pub(super) fn new(checks: WorkloadChecks) -> Self {
        let mut index = GatewayIndex::new(KINDS.clone(), checks);
        for table in index.hub_tables() {
            index.hub_event(table, WatchEvent::Init);
            index.hub_event(table, WatchEvent::InitDone);
        }
        let project = ProjectKey::parse("shop-prod").unwrap();
        index.engage(project.clone());
        let mut index = Self {
            index,
            project,
            version: 1,
        };
        for namespace in ["kube-system", "default"] {
            index.apply(
                TableId::Namespaces,
                json!({"metadata": {"name": namespace, "uid": namespace}}),
            );
        }
        let shop = workload(&[("us", &["DFW", "IAD"])]);
        let mut lone = workload(&[("eu", &["LHR"])]);
        lone.metadata.name = Some("lone".into());
        lone.metadata.uid = Some("5f1c2d9e-0000-4000-8000-000000000002".into());
        lone.spec.template.spec.network_interfaces[0].network.name = "edge".into();
        for workload in [shop, lone] {
            index.apply(TableId::Workloads, serde_json::to_value(workload).unwrap());
        }
        for table in index.index.project_tables() {
            if !table.is_for_checks() {
                index.event(table, WatchEvent::InitDone);
            }
        }
        index
    }

    /// A world whose project serves Locations of the network services.
    fn with_locations() -> Self {
        let mut index = Self::new(locations());
        index.discovers(&[Resources::default()[TableId::Locations(LocationKind::NetworkLocation)].clone()]);
        index
    }

    /// The project tells that it serves these kinds. Returns the tables whose watches begin, those whose watches
    /// end, and the names of the keys that it enqueues.
    pub(super) fn discovers(&mut self, served: &[ApiResource]) -> (Vec<TableId>, Vec<TableId>, Vec<String>) {
        let plane = Plane::Project(self.project.clone());
        let engagement = self.index.projects[&self.project].engagement;
        let discovered = self.index.kinds_discovered(&plane, engagement, served);
        let keys = keys_of(&self.index, &discovered.changes);
        let names = keys.iter().map(|key| key.name.to_string()).collect();
        (discovered.watch, discovered.unwatch, names)
    }

    /// The names of the keys that the event enqueues. A check's list must not count as a list that the project waits
    /// for.
    fn event(&mut self, table: TableId, event: WatchEvent) -> Vec<String> {
        let enqueued = self.index.project_event(&self.project, table, event);
        assert!(!enqueued.synced || !table.is_for_checks());
        enqueued
            .keys(&self.index)
            .iter()
            .map(|key| key.name.to_string())
            .collect()
    }

    /// The kinds that are still looked for.
    pub(super) fn wanted(&self) -> Vec<ApiResource> {
        self.index.optional_kinds(&Plane::Project(self.project.clone()))
    }

    /// The object with the next version.
    fn object(&mut self, mut object: Value) -> Box<DynamicObject> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        Box::new(serde_json::from_value(object).unwrap())
    }

    pub(super) fn apply(&mut self, table: TableId, object: Value) -> Vec<String> {
        let object = self.object(object);
        self.event(table, WatchEvent::Apply(object))
    }

    pub(super) fn delete(&mut self, table: TableId, object: Value) -> Vec<String> {
        let object = self.object(object);
        self.event(table, WatchEvent::Delete(object))
    }

    /// Sends a list from start to end; returns the names of the enqueued keys.
    pub(super) fn list(&mut self, table: TableId, objects: impl IntoIterator<Item = Value>) -> Vec<String> {
        let mut enqueued = self.event(table, WatchEvent::Init);
        for object in objects {
            let object = self.object(object);
            enqueued.extend(self.event(table, WatchEvent::InitApply(object)));
        }
        enqueued.extend(self.event(table, WatchEvent::InitDone));
        enqueued
    }

    pub(super) fn snapshot(&self) -> WorkloadSnapshot {
        let key: Key = self.index.workload_key(&self.project, "default", "shop");
        let observed = observe::observe(&self.index, &key, &self.project, None).ok();
        observed.unwrap().snapshot
    }

    pub(super) fn decided(&self) -> Vec<WorkloadEffect> {
        decide(&self.snapshot(), at(0))
    }

    pub(super) fn serving(&self) -> Vec<String> {
        match self.snapshot().checks.locations {
            Locations::Serving(cities) => cities.into_iter().collect(),
            other => panic!("{other:?}"),
        }
    }

    fn existing(&self) -> Vec<String> {
        match self.snapshot().checks.networks {
            Networks::Existing(names) => names
                .into_iter()
                .map(|(ns, name)| format!("{ns}/{name}"))
                .collect(),
            other => panic!("{other:?}"),
        }
    }
}

/// A namespaced Location.
pub(super) fn location(name: &str, city: &str, ready: &str) -> Value {
    json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Location",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"locationClassName": "self-managed", "topology": {"topology.datum.net/city-code": city}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

/// A cluster-scoped Location.
pub(super) fn wide_location(name: &str, city: &str) -> Value {
    let mut location = location(name, city, "True");
    location["metadata"].as_object_mut().unwrap().remove("namespace");
    location
}

fn network(name: &str) -> Value {
    json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Network",
        "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"ipam": {"mode": "Auto"}}})
}

pub(super) fn leaving(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    object
}

pub(super) const NOTHING: [&str; 0] = [];
pub(super) const ALL: [&str; 3] = ["create shop-us-dfw us/DFW", "create shop-us-iad us/IAD", "status"];

#[test]
fn checks_that_are_off_are_neither_watched_nor_made() {
    let index = Scene::new(off());
    let tables = index.index.project_tables();
    assert!(!tables.iter().any(|table| table.is_for_checks()));
    assert_eq!(index.wanted(), []);
    let checks = index.snapshot().checks;
    assert_eq!(
        (checks.locations, checks.networks),
        (Locations::Unchecked, Networks::Unchecked)
    );
    assert_eq!(words(&index.decided()), ALL);
}

#[test]
fn each_check_is_watched_and_waited_for_alone_and_holds_up_nothing_else() {
    let mut index = Scene::new(locations());
    let tables = index.index.project_tables();
    assert!(!tables.iter().any(|table| table.is_for_checks()));
    let (watched, ..) =
        index.discovers(&[Resources::default()[TableId::Locations(LocationKind::NetworkLocation)].clone()]);
    assert_eq!(watched, [PLACES]);
    assert!(index.index.project_ready(&index.project));
    let checks = index.snapshot().checks;
    assert_eq!(
        (checks.locations, checks.networks),
        (Locations::Pending, Networks::Unchecked)
    );
    assert_eq!(index.decided(), []);

    let index = Scene::new(networks());
    let tables = index.index.project_tables();
    assert!(tables.contains(&TableId::Networks));
    assert!(index.index.project_ready(&index.project));
    let checks = index.snapshot().checks;
    assert_eq!(
        (checks.locations, checks.networks),
        (Locations::Unchecked, Networks::Pending)
    );
    assert_eq!(index.decided(), []);
}

#[test]
fn a_workload_that_leaves_waits_for_no_list() {
    let mut index = Scene::with_locations();
    let shop = workload(&[("us", &["DFW", "IAD"])]);
    index.apply(TableId::Workloads, leaving(serde_json::to_value(shop).unwrap()));
    assert_eq!(index.decided(), [RemoveFinalizer]);
}

#[test]
fn a_city_waits_for_its_location_and_is_woken_by_it() {
    let mut index = Scene::with_locations();
    let enqueued = index.list(PLACES, [wide_location("iad-1", "IAD")]);
    assert_eq!(enqueued, ["lone", "shop"], "the first list wakes all, once");
    let effects = index.decided();
    assert_eq!(words(&effects), ["create shop-us-iad us/IAD", "status"]);
    let status = status_of(&effects);
    assert_eq!(reasons(status), ["NoMatchingLocations", "NoMatchingLocations"]);
    let message = &status.placements[0].conditions[0].message;
    assert!(message.contains("ready for DFW;"), "{message}");

    assert_eq!(index.apply(PLACES, location("ams-1", "AMS", "True")), NOTHING);
    assert_eq!(index.apply(PLACES, location("dfw-1", "DFW", "Unknown")), ["shop"]);
    assert_eq!(words(&index.decided()), ALL);
}

#[test]
fn only_what_changes_a_location_s_service_wakes() {
    let mut index = Scene::with_locations();
    index.list(
        PLACES,
        [wide_location("iad-1", "IAD"), location("dfw-1", "DFW", "True")],
    );
    assert_eq!(index.serving(), ["DFW", "IAD"]);
    assert_eq!(index.apply(PLACES, location("dfw-1", "DFW", "Unknown")), NOTHING);
    assert_eq!(index.apply(PLACES, location("dfw-1", "DFW", "False")), ["shop"]);
    assert_eq!(index.serving(), ["IAD"]);
    assert_eq!(index.apply(PLACES, location("dfw-1", "LHR", "False")), NOTHING);
    assert_eq!(index.apply(PLACES, location("dfw-1", "DFW", "True")), ["shop"]);
    let moved = index.apply(PLACES, location("dfw-1", "LHR", "True"));
    assert_eq!(moved, ["lone", "shop"], "the old city's and the new one's");
    assert_eq!(index.serving(), ["IAD", "LHR"]);
    assert_eq!(
        index.apply(PLACES, leaving(wide_location("iad-1", "IAD"))),
        ["shop"]
    );
    assert_eq!(index.serving(), ["LHR"]);
    assert_eq!(index.delete(PLACES, wide_location("iad-1", "IAD")), NOTHING);
    assert_eq!(
        index.list(PLACES, []),
        ["lone"],
        "a later list wakes for what vanished"
    );
    assert_eq!(index.serving(), NOTHING);
}

#[test]
fn a_workload_waits_for_its_network_and_is_woken_by_it() {
    let mut index = Scene::new(networks());
    assert_eq!(index.list(TableId::Networks, [network("edge")]), ["lone", "shop"]);
    assert_eq!(
        index.existing(),
        NOTHING,
        "the other Workload's Network is not looked at"
    );
    let effects = index.decided();
    assert_eq!(words(&effects), ["status"]);
    let status = status_of(&effects);
    assert_eq!(reasons(status)[0], "NetworkNotFound");
    assert!(status.conditions[0].message.contains("default/default"));

    assert_eq!(
        index.apply(TableId::Networks, network("default")),
        ["lone", "shop"],
        "the namespace has its name"
    );
    assert_eq!(index.existing(), ["default/default"]);
    assert_eq!(words(&index.decided()), ALL);
    assert_eq!(index.apply(TableId::Networks, network("default")), NOTHING);
    assert_eq!(index.apply(TableId::Networks, leaving(network("edge"))), ["lone"]);
    index.delete(TableId::Networks, network("default"));
    assert_eq!(index.existing(), NOTHING);
}

/// The deployment of `shop` in DFW as the API server returns it.
pub(super) fn deployment_in_dfw() -> Value {
    let deployment = normalized(&[("us", &["DFW", "IAD"])]).deployments.remove(0);
    serde_json::to_value(deployment).unwrap()
}

pub(super) fn deployments(index: &Scene) -> TableId {
    TableId::Federated(index.index.workload_kind().unwrap())
}

#[test]
fn a_deployment_belongs_to_its_controller_or_else_to_whom_it_names() {
    let mut index = Scene::new(off());
    let mut deployment = deployment_in_dfw();
    let table = deployments(&index);
    index.apply(table, deployment.clone());
    assert_eq!(index.snapshot().deployments.len(), 1);

    let owners = deployment["metadata"]["ownerReferences"].take();
    index.apply(table, deployment.clone());
    assert_eq!(index.snapshot().deployments.len(), 1, "it names the Workload");

    deployment["metadata"]["ownerReferences"] = owners;
    deployment["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    index.apply(table, deployment);
    let snapshot = index.snapshot();
    assert_eq!(
        snapshot.deployments,
        [],
        "a name in the spec does not beat a controller"
    );
    assert_eq!(snapshot.held, [("shop-us-dfw".to_owned(), false)].into());
}

#[test]
fn an_own_deployment_that_cannot_be_read_is_no_free_place() {
    let mut index = Scene::new(off());
    let mut deployment = deployment_in_dfw();
    deployment["spec"]["scaleSettings"] = json!("as many as fit");
    let table = deployments(&index);
    index.apply(table, deployment);
    let key: Key = index.index.workload_key(&index.project, "default", "shop");
    let Err(observe::NoSnapshot::Undecodable { error, .. }) =
        observe::observe(&index.index, &key, &index.project, None)
    else {
        panic!("it was taken for something else");
    };
    assert!(
        error.starts_with("its WorkloadDeployment \"shop-us-dfw\": "),
        "{error}"
    );
    assert!(error.contains("as many as fit"), "{error}");

    index.apply(table, deployment_in_dfw());
    assert_eq!(index.snapshot().deployments.len(), 1, "a correction heals it");
}

#[test]
fn a_deployment_at_a_location_is_read_as_it_was_written() {
    let mut index = Scene::new(off());
    let mut shop = workload(&[("us", &[])]);
    shop.spec.placements[0].locations = serde_json::from_value(json!([{"name": "us-south-1"}])).unwrap();
    let shop = serde_json::to_value(shop).unwrap();
    index.apply(TableId::Workloads, shop.clone());
    let effects = index.decided();
    let [Create(made), PatchStatus(_)] = &effects[..] else {
        panic!("{:?}", words(&effects));
    };
    let mut made = serde_json::to_value(made).unwrap();
    made["spec"]["template"] = shop["spec"]["template"].clone();
    made["metadata"]["uid"] = json!("d");
    let table = deployments(&index);
    index.apply(table, made.clone());
    assert_eq!(words(&index.decided()), ["status"], "nothing differs");

    let with = |pointer: &str, key: &str, value: Value| {
        let mut object = made.clone();
        object.pointer_mut(pointer).unwrap()[key] = value;
        object
    };
    index.apply(table, with("/spec/locationRef", "namespace", json!("default")));
    assert_eq!(
        words(&index.decided()),
        ["status"],
        "locations are compared by name"
    );
    let label = "compute.datumapis.com/location";
    for (different, write) in [
        (with("/spec", "cityCode", json!("DFW")), "place"),
        (with("/metadata/labels", label, json!("eu-west-1")), "update"),
    ] {
        index.apply(table, different);
        let written = format!("{write} shop-us-us-south-1 us/@us-south-1");
        assert_eq!(words(&index.decided()), [&*written, "status"]);
    }
    let mut by_city = with("/spec", "cityCode", json!("DFW"));
    by_city["spec"].as_object_mut().unwrap().remove("locationRef");
    index.apply(table, by_city);
    let effects = index.decided();
    assert!(
        matches!(&effects[..], [Create(_), Delete { .. }, PatchStatus(_)]),
        "no Cluster says that it is the same place: {:?}",
        words(&effects)
    );
}

#[test]
fn workloads_with_locations_are_woken_by_their_locations_and_change_form_by_them() {
    let mut index = Scene::with_locations();
    index.list(
        PLACES,
        [wide_location("dfw-1", "DFW"), wide_location("lhr-1", "LHR")],
    );
    let mut shop = workload(&[("us", &["DFW"])]);
    index.apply(TableId::Workloads, serde_json::to_value(&shop).unwrap());
    let effects = index.decided();
    assert_eq!(words(&effects), ["create shop-us-dfw us/DFW", "status"]);
    let Create(made) = &effects[0] else { panic!() };
    let mut made = serde_json::to_value(made).unwrap();
    made["metadata"]["uid"] = json!("d");
    let table = deployments(&index);
    index.apply(table, made);

    let placement = &mut shop.spec.placements[0];
    placement.city_codes.clear();
    placement.locations = serde_json::from_value(json!([{"name": "dfw-1"}, {"name": "dfw-2"}])).unwrap();
    index.apply(TableId::Workloads, serde_json::to_value(&shop).unwrap());
    assert_eq!(words(&index.decided()), ["place shop-us-dfw us/@dfw-1", "status"]);
    assert_eq!(index.apply(PLACES, location("dfw-2", "DFW", "True")), ["shop"]);
    let both = [
        "create shop-us-dfw-2 us/@dfw-2",
        "place shop-us-dfw us/@dfw-1",
        "status",
    ];
    assert_eq!(words(&index.decided()), both);

    let placement = &mut shop.spec.placements[0];
    placement.locations.clear();
    placement.location_selector =
        serde_json::from_value(json!({"matchLabels": {"topology.datum.net/city-code": "LHR"}})).unwrap();
    index.apply(TableId::Workloads, serde_json::to_value(&shop).unwrap());
    let moved = ["create shop-us-lhr-1 us/@lhr-1", "delete shop-us-dfw", "status"];
    assert_eq!(words(&index.decided()), moved);
    assert_eq!(index.apply(PLACES, wide_location("ams-1", "AMS")), ["shop"]);
    assert_eq!(index.apply(PLACES, wide_location("ams-1", "AMS")), NOTHING);
}
