//! What the index gives to the checks of a Workload, by the settings, and which events wake it.

use super::super::observe;
use super::*;
use crate::{
    api::names::ProjectKey,
    engine::key::Key,
    gateway::world::{Role, World, networking::WorkloadChecks},
    kinds::FederatedKind,
    plane::watch::Event,
};
use kube::core::DynamicObject;
use std::sync::{Arc, LazyLock};

static KINDS: LazyLock<Arc<Vec<FederatedKind>>> =
    LazyLock::new(|| Arc::new(FederatedKind::builtin().unwrap()));

const OFF: WorkloadChecks = WorkloadChecks {
    locations: false,
    networks: false,
};
const LOCATIONS: WorkloadChecks = WorkloadChecks {
    locations: true,
    networks: false,
};
const NETWORKS: WorkloadChecks = WorkloadChecks {
    locations: false,
    networks: true,
};

/// An index with one project, all of whose lists are complete but those of Locations and Networks.
struct Index {
    world: World,
    project: ProjectKey,
    version: u64,
}

impl Index {
    /// With the Workloads `shop` in DFW and IAD, and `lone` in LHR, which names another Network.
    fn new(checks: WorkloadChecks) -> Self {
        let mut world = World::new(KINDS.clone(), checks);
        for role in world.hub_roles() {
            world.hub_event(role, Event::Began);
            world.hub_event(role, Event::Complete);
        }
        let project = ProjectKey::parse("shop-prod").unwrap();
        world.engage(project.clone());
        let mut index = Self {
            world,
            project,
            version: 1,
        };
        for namespace in ["kube-system", "default"] {
            index.apply(
                Role::Namespaces,
                json!({"metadata": {"name": namespace, "uid": namespace}}),
            );
        }
        let shop = workload(&[("us", &["DFW", "IAD"])]);
        let mut lone = workload(&[("eu", &["LHR"])]);
        lone.metadata.name = Some("lone".into());
        lone.metadata.uid = Some("5f1c2d9e-0000-4000-8000-000000000002".into());
        lone.spec.template.spec.network_interfaces[0].network.name = "edge".into();
        for workload in [shop, lone] {
            index.apply(Role::Workloads, serde_json::to_value(workload).unwrap());
        }
        for role in index.world.project_roles() {
            if !matches!(role, Role::Locations | Role::Networks) {
                index.event(role, Event::Complete);
            }
        }
        index
    }

    /// The names of the keys that the event wakes. None may take a check's list for one that the project waits for.
    fn event(&mut self, role: Role, event: Event) -> Vec<String> {
        let woken = self.world.project_event(&self.project, role, event);
        assert!(!woken.synced || !matches!(role, Role::Locations | Role::Networks));
        woken.keys.iter().map(|key| key.name.to_string()).collect()
    }

    /// The object with the next version.
    fn object(&mut self, mut object: Value) -> Box<DynamicObject> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        Box::new(serde_json::from_value(object).unwrap())
    }

    fn apply(&mut self, role: Role, object: Value) -> Vec<String> {
        let object = self.object(object);
        self.event(role, Event::Applied(object))
    }

    fn delete(&mut self, role: Role, object: Value) -> Vec<String> {
        let object = self.object(object);
        self.event(role, Event::Deleted(object))
    }

    /// A list from its beginning to its end; what its end wakes.
    fn list(&mut self, role: Role, objects: impl IntoIterator<Item = Value>) -> Vec<String> {
        let mut woken = self.event(role, Event::Began);
        for object in objects {
            let object = self.object(object);
            woken.extend(self.event(role, Event::Listed(object)));
        }
        woken.extend(self.event(role, Event::Complete));
        woken
    }

    fn snapshot(&self) -> WorkloadSnapshot {
        let key: Key = self.world.workload_key(&self.project, "default", "shop");
        let observed = observe::observe(&self.world, &key, &self.project).ok();
        observed.unwrap().snapshot
    }

    fn decided(&self) -> Vec<WorkloadEffect> {
        decide(&self.snapshot(), at(0)).effects
    }

    fn serving(&self) -> Vec<String> {
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

/// A Location that is served namespaced.
fn location(name: &str, city: &str, ready: &str) -> Value {
    json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Location",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"locationClassName": "self-managed", "topology": {"topology.datum.net/city-code": city}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

/// A Location that is served cluster-scoped.
fn wide_location(name: &str, city: &str) -> Value {
    let mut location = location(name, city, "True");
    location["metadata"].as_object_mut().unwrap().remove("namespace");
    location
}

fn network(name: &str) -> Value {
    json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Network",
        "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"ipam": {"mode": "Auto"}}})
}

fn leaving(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    object
}

const NOTHING: [&str; 0] = [];
const ALL: [&str; 3] = ["create shop-us-dfw us/DFW", "create shop-us-iad us/IAD", "status"];

#[test]
fn checks_that_are_off_are_neither_watched_nor_made() {
    let index = Index::new(OFF);
    let roles = index.world.project_roles();
    assert!(!roles.contains(&Role::Locations) && !roles.contains(&Role::Networks));
    let checks = index.snapshot().checks;
    assert_eq!(
        (checks.locations, checks.networks),
        (Locations::Unchecked, Networks::Unchecked)
    );
    assert_eq!(words(&index.decided()), ALL);
}

#[test]
fn each_check_is_watched_and_waited_for_alone_and_holds_up_nothing_else() {
    let index = Index::new(LOCATIONS);
    let roles = index.world.project_roles();
    assert!(roles.contains(&Role::Locations) && !roles.contains(&Role::Networks));
    assert!(index.world.project_ready(&index.project));
    let checks = index.snapshot().checks;
    assert_eq!(
        (checks.locations, checks.networks),
        (Locations::Pending, Networks::Unchecked)
    );
    assert_eq!(index.decided(), []);

    let index = Index::new(NETWORKS);
    let roles = index.world.project_roles();
    assert!(!roles.contains(&Role::Locations) && roles.contains(&Role::Networks));
    assert!(index.world.project_ready(&index.project));
    let checks = index.snapshot().checks;
    assert_eq!(
        (checks.locations, checks.networks),
        (Locations::Unchecked, Networks::Pending)
    );
    assert_eq!(index.decided(), []);
}

#[test]
fn a_workload_that_leaves_waits_for_no_list() {
    let mut index = Index::new(LOCATIONS);
    let shop = workload(&[("us", &["DFW", "IAD"])]);
    index.apply(Role::Workloads, leaving(serde_json::to_value(shop).unwrap()));
    assert_eq!(index.decided(), [RemoveFinalizer]);
}

#[test]
fn a_city_waits_for_its_location_and_is_woken_by_it() {
    let mut index = Index::new(LOCATIONS);
    let woken = index.list(Role::Locations, [wide_location("iad-1", "IAD")]);
    assert_eq!(woken, ["lone", "shop"], "the first list wakes all, once");
    let effects = index.decided();
    assert_eq!(words(&effects), ["create shop-us-iad us/IAD", "status"]);
    let status = status_of(&effects);
    assert_eq!(reasons(status), ["NoMatchingLocations", "NoMatchingLocations"]);
    let message = &status.placements[0].conditions[0].message;
    assert!(message.contains("ready for DFW;"), "{message}");

    assert_eq!(
        index.apply(Role::Locations, location("ams-1", "AMS", "True")),
        NOTHING
    );
    assert_eq!(
        index.apply(Role::Locations, location("dfw-1", "DFW", "Unknown")),
        ["shop"]
    );
    assert_eq!(words(&index.decided()), ALL);
}

#[test]
fn only_what_changes_a_location_s_service_wakes() {
    let mut index = Index::new(LOCATIONS);
    index.list(
        Role::Locations,
        [wide_location("iad-1", "IAD"), location("dfw-1", "DFW", "True")],
    );
    assert_eq!(index.serving(), ["DFW", "IAD"]);
    assert_eq!(
        index.apply(Role::Locations, location("dfw-1", "DFW", "Unknown")),
        NOTHING
    );
    assert_eq!(
        index.apply(Role::Locations, location("dfw-1", "DFW", "False")),
        ["shop"]
    );
    assert_eq!(index.serving(), ["IAD"]);
    assert_eq!(
        index.apply(Role::Locations, location("dfw-1", "LHR", "False")),
        NOTHING
    );
    assert_eq!(
        index.apply(Role::Locations, location("dfw-1", "DFW", "True")),
        ["shop"]
    );
    let moved = index.apply(Role::Locations, location("dfw-1", "LHR", "True"));
    assert_eq!(moved, ["lone", "shop"], "the old city's and the new one's");
    assert_eq!(index.serving(), ["IAD", "LHR"]);
    assert_eq!(
        index.apply(Role::Locations, leaving(wide_location("iad-1", "IAD"))),
        ["shop"]
    );
    assert_eq!(index.serving(), ["LHR"]);
    assert_eq!(
        index.delete(Role::Locations, wide_location("iad-1", "IAD")),
        NOTHING
    );
    assert_eq!(
        index.list(Role::Locations, []),
        ["lone"],
        "a later list wakes for what vanished"
    );
    assert_eq!(index.serving(), NOTHING);
}

#[test]
fn a_workload_waits_for_its_network_and_is_woken_by_it() {
    let mut index = Index::new(NETWORKS);
    assert_eq!(index.list(Role::Networks, [network("edge")]), ["lone", "shop"]);
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
        index.apply(Role::Networks, network("default")),
        ["lone", "shop"],
        "the namespace has its name"
    );
    assert_eq!(index.existing(), ["default/default"]);
    assert_eq!(words(&index.decided()), ALL);
    assert_eq!(index.apply(Role::Networks, network("default")), NOTHING);
    assert_eq!(index.apply(Role::Networks, leaving(network("edge"))), ["lone"]);
    index.delete(Role::Networks, network("default"));
    assert_eq!(index.existing(), NOTHING);
}

/// The deployment of `shop` in DFW as the API server would show it.
fn deployment_in_dfw() -> Value {
    let deployment = settled(&[("us", &["DFW", "IAD"])]).deployments.remove(0);
    serde_json::to_value(deployment).unwrap()
}

fn deployments(index: &Index) -> Role {
    Role::Federated(index.world.workload_kind().unwrap())
}

#[test]
fn a_deployment_belongs_to_its_controller_or_else_to_whom_it_names() {
    let mut index = Index::new(OFF);
    let mut deployment = deployment_in_dfw();
    let role = deployments(&index);
    index.apply(role, deployment.clone());
    assert_eq!(index.snapshot().deployments.len(), 1);

    let owners = deployment["metadata"]["ownerReferences"].take();
    index.apply(role, deployment.clone());
    assert_eq!(index.snapshot().deployments.len(), 1, "it names the Workload");

    deployment["metadata"]["ownerReferences"] = owners;
    deployment["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    index.apply(role, deployment);
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
    let mut index = Index::new(OFF);
    let mut deployment = deployment_in_dfw();
    deployment["spec"]["scaleSettings"] = json!("as many as fit");
    let role = deployments(&index);
    index.apply(role, deployment);
    let key: Key = index.world.workload_key(&index.project, "default", "shop");
    let Err(observe::Absence::Undecodable { error, .. }) =
        observe::observe(&index.world, &key, &index.project)
    else {
        panic!("it was taken for something else");
    };
    assert!(
        error.starts_with("its WorkloadDeployment \"shop-us-dfw\": "),
        "{error}"
    );
    assert!(error.contains("as many as fit"), "{error}");

    index.apply(role, deployment_in_dfw());
    assert_eq!(index.snapshot().deployments.len(), 1, "a correction heals it");
}
