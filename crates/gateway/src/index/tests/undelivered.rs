//! Which objects wait at which stage of their way, and since when.

use super::super::{
    GatewayIndex, ObjectRef, TableId,
    fixture::{self, HUB, copy, shop, source},
};
use fedgate_api::keys;
use fedgate_engine::{clock::Clock, key::Plane, plane::watch::WatchEvent, runtime::index::Index};
use fedgate_operations::Stage;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

const START: &str = "2026-05-04T12:00:00Z";

/// The fixture behind the events of watches, with a clock that the test moves.
struct Watched {
    index: GatewayIndex,
    now: Arc<Mutex<Timestamp>>,
}

impl Watched {
    fn new() -> Self {
        let now: Arc<Mutex<Timestamp>> = Arc::new(Mutex::new(START.parse().unwrap()));
        let mut index = GatewayIndex::fixture();
        let clock = now.clone();
        index.clock = Clock::of(move || *clock.lock());
        Self { index, now }
    }

    fn at(&self, time: &str) {
        *self.now.lock() = format!("2026-05-04T{time}Z").parse().unwrap();
    }

    fn event(&mut self, plane: &Plane, table: TableId, event: WatchEvent) {
        let engagement = match plane {
            Plane::Project(key) => self.index.projects[key].engagement,
            _ => 0,
        };
        self.index.apply(plane, engagement, table, event);
    }

    fn shop_has(&mut self, table: TableId, object: &Value) {
        let event = WatchEvent::Apply(Box::new(serde_json::from_value(object.clone()).unwrap()));
        self.event(&Plane::Project(shop()), table, event);
    }

    fn hub_has(&mut self, table: TableId, object: &Value) {
        let event = WatchEvent::Apply(Box::new(serde_json::from_value(object.clone()).unwrap()));
        self.event(&Plane::Hub, table, event);
    }

    fn hub_lost(&mut self, table: TableId, object: &Value) {
        let event = WatchEvent::Delete(Box::new(serde_json::from_value(object.clone()).unwrap()));
        self.event(&Plane::Hub, table, event);
    }

    /// Stages with the names of their objects and since when each waits.
    fn waiting(&self) -> Vec<String> {
        let mut all = Vec::new();
        for &stage in Stage::ALL {
            for (ObjectRef { hub, name, .. }, since) in self.index.undelivered.of(stage) {
                assert_eq!(&**hub, HUB);
                let least = if since.at_least { " at least" } else { "" };
                all.push(format!("{} {name} {}{least}", stage.as_str(), since.at));
            }
        }
        all.sort();
        all
    }
}

fn deployments() -> TableId {
    TableId::Federated(GatewayIndex::fixture().workload_kind().unwrap())
}

fn instances() -> TableId {
    TableId::WrittenBack(GatewayIndex::fixture().workload_kind().unwrap())
}

fn version(mut object: Value, version: &str) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

fn created(mut object: Value, time: &str) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-05-04T{time}Z"));
    object
}

fn edited(generation: i64, at: &str) -> Value {
    let mut source = version(source("web", "DFW"), at);
    source["metadata"]["generation"] = json!(generation);
    source
}

fn federated(mut source: Value, status: &str, reason: &str, observed: i64, since: &str) -> Value {
    source["status"] = json!({"conditions": [{"type": "Federated", "status": status, "reason": reason, "message": "m",
        "observedGeneration": observed, "lastTransitionTime": format!("2026-05-04T{since}Z")}]});
    source
}

fn copied(generation: i64, at: &str) -> Value {
    let mut copy = version(copy("web", "DFW"), at);
    copy["metadata"]["annotations"][keys::SOURCE_GENERATION] = json!(generation.to_string());
    copy
}

#[test]
fn a_new_deployment_waits_since_its_creation_and_an_edit_since_it_was_seen() {
    let mut watched = Watched::new();
    watched.at("12:00:05");
    watched.shop_has(deployments(), &created(source("web", "DFW"), "12:00:03"));
    assert_eq!(watched.waiting(), ["project_to_hub web 2026-05-04T12:00:03Z"]);
    watched.at("12:00:07");
    watched.hub_has(deployments(), &copy("web", "DFW"));
    assert_eq!(watched.waiting(), ["hub_to_cell web 2026-05-04T12:00:07Z"]);
    let delivered = federated(edited(1, "6"), "True", "Delivered", 1, "12:00:09");
    watched.shop_has(deployments(), &delivered);
    assert_eq!(watched.waiting(), [""; 0]);
    watched.at("12:10:00");
    watched.shop_has(
        deployments(),
        &federated(edited(2, "7"), "True", "Delivered", 1, "12:00:09"),
    );
    watched.at("12:11:00");
    watched.shop_has(
        deployments(),
        &federated(edited(3, "8"), "True", "Delivered", 1, "12:00:09"),
    );
    assert_eq!(
        watched.waiting(),
        ["project_to_hub web 2026-05-04T12:10:00Z"],
        "a second edit makes it no younger"
    );
    watched.hub_has(deployments(), &copied(2, "9"));
    assert_eq!(
        watched.waiting(),
        ["project_to_hub web 2026-05-04T12:10:00Z"],
        "an earlier generation"
    );
    watched.at("12:12:00");
    watched.hub_has(deployments(), &copied(3, "10"));
    assert_eq!(watched.waiting(), ["hub_to_cell web 2026-05-04T12:12:00Z"]);
}

#[test]
fn a_refused_deployment_waits_for_nobody_and_one_that_waits_for_the_hub_since_it_says_so() {
    let mut watched = Watched::new();
    for reason in ["NoCellForCity", "InvalidCityCode", "HubRefused", "ApplyFailed"] {
        let refused = federated(edited(1, "6"), "False", reason, 1, "11:00:00");
        let mut watched = Watched::new();
        watched.shop_has(deployments(), &refused);
        assert_eq!(watched.waiting(), [""; 0], "{reason}");
        watched.shop_has(
            deployments(),
            &federated(edited(2, "7"), "False", reason, 1, "11:00:00"),
        );
        assert_eq!(
            watched.waiting().len(),
            1,
            "an edit of it may be the remedy: {reason}"
        );
    }
    let waits = federated(edited(2, "6"), "False", "HubUnreachable", 2, "11:00:00");
    watched.shop_has(deployments(), &waits);
    assert_eq!(watched.waiting(), ["project_to_hub web 2026-05-04T11:00:00Z"]);
}

#[test]
fn a_deletion_waits_since_its_timestamp_until_the_copy_is_being_deleted() {
    let mut watched = Watched::new();
    watched.hub_has(deployments(), &copy("web", "DFW"));
    watched.shop_has(deployments(), &fixture::leaving("web", "DFW"));
    assert_eq!(watched.waiting(), ["project_to_hub web 2026-05-04T10:00:00Z"]);
    let mut leaving = copied(1, "9");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:01Z");
    watched.hub_has(deployments(), &leaving);
    assert_eq!(watched.waiting(), [""; 0]);
    watched.hub_lost(deployments(), &leaving);
    assert_eq!(watched.waiting(), [""; 0]);
}

#[test]
fn a_status_waits_until_the_project_has_it_or_its_controller_settles_it() {
    let mut watched = Watched::new();
    let delivered = |at: &str| federated(edited(1, at), "True", "Delivered", 1, "12:00:00");
    watched.shop_has(deployments(), &delivered("6"));
    let mut copy = copied(1, "7");
    copy["status"] = json!({"readyReplicas": 2});
    watched.hub_has(deployments(), &copy);
    assert_eq!(
        watched.waiting(),
        ["hub_status_to_project web 2026-05-04T12:00:00Z"]
    );
    let mut returned = delivered("8");
    returned["status"]["readyReplicas"] = json!(2);
    watched.shop_has(deployments(), &returned);
    assert_eq!(watched.waiting(), [""; 0]);
    copy["metadata"]["resourceVersion"] = json!("9");
    copy["status"] = json!({"readyReplicas": 3});
    watched.hub_has(deployments(), &copy);
    assert_eq!(watched.waiting().len(), 1);
    let kind = watched.index.workload_kind().unwrap();
    let web = ObjectRef::new(kind, &HUB.into(), &"web".into());
    watched.index.end_wait(Stage::HubStatusToProject, &web);
    assert_eq!(watched.waiting(), [""; 0]);
}

#[test]
fn an_instance_waits_until_the_project_has_it_as_its_cell_wrote_it() {
    let mut watched = Watched::new();
    let instance = |namespace: &str, at: &str, ready: &str| {
        let object = version(fixture::object(namespace, "web-0", "i-0"), at);
        let mut object = created(object, "11:59:00");
        object["metadata"]["labels"] = json!({keys::WORKLOAD_DEPLOYMENT_NAME: "web"});
        object["spec"] = json!({"a": 1});
        object["status"] = json!({"conditions": [{"type": "Ready", "status": ready}]});
        object
    };
    watched.hub_has(instances(), &instance(HUB, "5", "False"));
    assert_eq!(
        watched.waiting(),
        ["writeback_to_projection web-0 2026-05-04T11:59:00Z"]
    );
    watched.shop_has(instances(), &instance("default", "6", "False"));
    assert_eq!(watched.waiting(), [""; 0]);
    watched.at("12:30:00");
    watched.hub_has(instances(), &instance(HUB, "7", "True"));
    assert_eq!(
        watched.waiting(),
        ["writeback_to_projection web-0 2026-05-04T12:30:00Z"]
    );
    watched.hub_lost(instances(), &instance(HUB, "8", "True"));
    assert_eq!(watched.waiting(), [""; 0]);
}

#[test]
fn first_lists_are_compared_once_they_are_complete_and_an_edit_before_the_start_is_at_least_so_old() {
    let mut watched = Watched::new();
    let plane = Plane::Project(shop());
    let engagement = watched.index.engage(shop());
    watched.at("13:00:00");
    let mut tables = watched.index.project_tables();
    tables.sort_by_key(|table| *table == TableId::Namespaces);
    for table in tables {
        let listed: Vec<Value> = match table {
            TableId::Federated(_) if table == deployments() => vec![edited(2, "6")],
            TableId::Namespaces => vec![
                fixture::namespace("kube-system", "p1", &json!({})),
                fixture::namespace("default", "a1", &json!({})),
            ],
            _ => Vec::new(),
        };
        assert_eq!(watched.waiting(), [""; 0], "before {table:?}");
        watched.event(&plane, table, WatchEvent::Init);
        for object in listed {
            let object = Box::new(serde_json::from_value(object).unwrap());
            watched.event(&plane, table, WatchEvent::InitApply(object));
        }
        watched.event(&plane, table, WatchEvent::InitDone);
    }
    assert_eq!(engagement, watched.index.projects[&shop()].engagement);
    let mut federated_once = federated(edited(2, "7"), "True", "Delivered", 1, "11:00:00");
    assert_eq!(watched.waiting().len(), 1, "{:?}", watched.waiting());
    federated_once["metadata"]["resourceVersion"] = json!("8");
    watched.index.disengage(&shop());
    assert_eq!(
        watched.waiting(),
        [""; 0],
        "a disengaged project waits for nothing"
    );
}
