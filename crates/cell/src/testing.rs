//! A cell for tests of decisions: objects as an API server stores them, and an index that receives their events.

use super::{
    Cell,
    context::{Shared, State},
    index::{CellIndex, tables::TableId},
    settings::Settings,
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::runtime::index::Index;
use fedgate_engine::runtime::role::Role;
use fedgate_engine::{
    clock::Clock,
    executor::PlaneAccess,
    key::{Key, Plane},
    metrics::Metrics,
    plan::{Effect, Endpoint, ReasonLabel, Target, Write, WriteResult},
    plane::{health::PlaneHealth, lease::LeaseHandle, watch::WatchEvent},
    runtime::{Setup, shared_for_tests},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The tenant's namespace at the cell and on the hub.
pub(crate) const NS: &str = "ns-a1";

/// The time at which tests decide.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn shop() -> ProjectKey {
    ProjectKey::parse("shop").unwrap()
}

/// Identifies an object: plane, kind, namespace, name.
type Place = (String, String, String, String);

/// Objects, index and shared state of a cell.
pub(crate) struct Fixture {
    pub(crate) context: Shared,
    objects: BTreeMap<Place, Value>,
    version: u64,
}

/// No plane receives any request.
struct Nowhere;

impl PlaneAccess for Nowhere {
    fn client(&self, _: &Plane) -> Option<kube::Client> {
        None
    }

    fn health(&self, _: &Plane) -> Option<Arc<PlaneHealth>> {
        None
    }

    fn may_write(&self) -> bool {
        false
    }

    fn permit_expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn write_unresolved(&self, _: &Target) {}

    fn object_observed(&self, _: &Target, _: u64, _: WriteResult) {}

    fn wrote(&self, _: &Target, _: ReasonLabel) {}

    fn fight_detected(&self, _: &Target, _: &'static str) {}
}

/// A cell in a city with a hub; it runs Pods and claims quota.
pub(crate) fn settings() -> Settings {
    Settings {
        cell: "dfw-1".into(),
        place: Some(("us-south-1".into(), "DFW".into())),
        data: true,
        provider: true,
        hub: true,
        quota: true,
        namespace: "fedgate-system".into(),
        max_replicas: 1000,
        ..Settings::default()
    }
}

/// Applies an event; the keys that it concerns.
pub(crate) fn keys_of(index: &mut CellIndex, plane: &Plane, table: TableId, event: WatchEvent) -> Vec<Key> {
    let applied = index.event(plane, table, event);
    let mut keys = Vec::new();
    for change in &applied.changes {
        Cell::triggers(index, change, &mut keys);
    }
    keys
}

fn boxed(object: &Value) -> Box<DynamicObject> {
    Box::new(serde_json::from_value(object.clone()).unwrap())
}

impl Fixture {
    /// All lists are complete, and only the tenant's namespaces exist. No plane receives any request.
    pub(crate) fn new(settings: Settings) -> Self {
        Self::with_access(settings, Arc::new(Nowhere))
    }

    /// Changes a setting.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(Arc::make_mut(&mut self.context.state.settings));
    }

    /// As [`Fixture::new`], with this access to planes.
    pub(crate) fn with_access(settings: Settings, access: Arc<dyn PlaneAccess>) -> Self {
        let mut index = CellIndex::new(settings);
        index.kinds_discovered(&Plane::Cell, 0, &TableId::SERVING.map(TableId::resource));
        let lists = index.cell_tables().into_iter().map(|table| (Plane::Cell, table));
        let lists: Vec<_> = lists
            .chain(TableId::HUB.map(|table| (Plane::Hub, table)))
            .chain([(Plane::Project(shop()), TableId::Claims)])
            .collect();
        index.engage(&shop());
        for (plane, table) in lists {
            for event in [WatchEvent::Init, WatchEvent::InitDone] {
                index.event(&plane, table, event);
            }
        }
        let state = State {
            settings: index.settings.clone(),
            ..State::default()
        };
        let setup = Setup {
            lease: LeaseHandle::always(),
            identity: "test".to_owned(),
            workers: 2_000,
            sweep_interval: Duration::from_mins(5),
            metrics: Metrics::new().unwrap(),
            clock: Clock::system(),
        };
        let index = Arc::new(Mutex::new(index));
        let context = shared_for_tests(index, state, setup, access);
        let mut fixture = Self {
            context,
            objects: BTreeMap::new(),
            version: 1,
        };
        let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-shop", keys::UPSTREAM_NAMESPACE: "default"});
        for (plane, table) in [
            (Plane::Cell, TableId::Namespaces),
            (Plane::Hub, TableId::HubNamespaces),
        ] {
            fixture.has(&plane, table, json!({"metadata": {"name": NS, "labels": labels}}));
        }
        fixture
    }

    fn address(plane: &Plane, table: TableId, object: &Value) -> Place {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let kind = table.resource().plural;
        (plane.to_string(), kind, text("namespace"), text("name"))
    }

    /// Creates or changes an object; returns the enqueued keys. Missing identity is filled in.
    pub(crate) fn has(&mut self, plane: &Plane, table: TableId, mut object: Value) -> Vec<Key> {
        self.version += 1;
        let resource = table.resource();
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        let address = Self::address(plane, table, &object);
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("u-{}", address.3));
        }
        if meta["generation"].is_null() {
            meta["generation"] = json!(1);
        }
        meta["resourceVersion"] = json!(self.version.to_string());
        let event = WatchEvent::Apply(boxed(&object));
        self.objects.insert(address, object);
        keys_of(&mut self.context.index.lock(), plane, table, event)
    }

    /// Deletes an object; returns the enqueued keys.
    pub(crate) fn lost(&mut self, plane: &Plane, table: TableId, namespace: &str, name: &str) -> Vec<Key> {
        let bare = json!({"metadata": {"namespace": namespace, "name": name}});
        let object = self.objects.remove(&Self::address(plane, table, &bare)).unwrap();
        let event = WatchEvent::Delete(boxed(&object));
        keys_of(&mut self.context.index.lock(), plane, table, event)
    }

    /// The stored object.
    pub(crate) fn get(&self, plane: &Plane, table: TableId, namespace: &str, name: &str) -> Option<&Value> {
        let bare = json!({"metadata": {"namespace": namespace, "name": name}});
        self.objects.get(&Self::address(plane, table, &bare))
    }

    /// Changes an object by a merge patch, as any client may.
    pub(crate) fn change(
        &mut self,
        plane: &Plane,
        table: TableId,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Vec<Key> {
        let mut object = self.get(plane, table, namespace, name).unwrap().clone();
        merge(&mut object, patch);
        self.has(plane, table, object)
    }

    /// Applies effects as an API server does.
    pub(crate) fn perform(&mut self, effects: &[Effect]) {
        for effect in effects {
            self.perform_one(effect);
        }
    }

    fn perform_one(&mut self, effect: &Effect) {
        let target = &effect.target;
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let table = {
            let index = self.context.index.lock();
            index.table_of_object(&target.plane, &target.kind(), namespace, &target.name)
        };
        let (plane, table, name) = (&target.plane, table.unwrap(), target.name.as_str());
        let had = self.get(plane, table, namespace, name).cloned();
        match (&effect.write, had) {
            (Write::Create { body, .. }, None) => {
                self.has(plane, table, body.clone());
            }
            (Write::Create { .. }, Some(_)) => panic!("{target:?} is there already"),
            (_, None) => panic!("{target:?} is not there"),
            (
                Write::Merge { patch } | Write::Apply { body: patch, .. } | Write::Update { body: patch, .. },
                Some(mut object),
            ) => {
                holds(&patch["metadata"], &object["metadata"]);
                let before = object["spec"].clone();
                if matches!(effect.write, Write::Update { .. }) {
                    object["spec"] = Value::Null;
                }
                match effect.endpoint {
                    Endpoint::Main => {
                        let mut patch = patch.clone();
                        assert!(
                            patch["status"].is_null(),
                            "status through the object itself: {patch}"
                        );
                        patch.as_object_mut().unwrap().remove("status");
                        merge(&mut object, &patch);
                    }
                    Endpoint::Status => {
                        // Lists are written whole: a concurrent change would be lost.
                        let merges = matches!(effect.write, Write::Merge { .. });
                        let version = &patch["metadata"]["resourceVersion"];
                        assert!(
                            !merges || version.is_string(),
                            "a status without a version: {patch}"
                        );
                        merge(&mut object, &json!({"status": patch["status"]}));
                    }
                }
                if object["spec"] != before {
                    let generation = object["metadata"]["generation"].as_i64().unwrap();
                    object["metadata"]["generation"] = json!(generation + 1);
                }
                let held = object["metadata"]["finalizers"].as_array();
                if held.is_none_or(Vec::is_empty) && !object["metadata"]["deletionTimestamp"].is_null() {
                    self.lost(plane, table, namespace, name);
                } else {
                    self.has(plane, table, object);
                }
            }
            (
                Write::Delete {
                    uid,
                    resource_version,
                },
                Some(mut object),
            ) => {
                let asked = json!({"uid": uid, "resourceVersion": resource_version});
                holds(&asked, &object["metadata"]);
                let held = object["metadata"]["finalizers"].as_array();
                if held.is_none_or(Vec::is_empty) {
                    self.lost(plane, table, namespace, name);
                } else {
                    object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
                    self.has(plane, table, object);
                }
            }
            (Write::Replace { .. }, _) | (Write::DeleteNamed, Some(_)) => {
                panic!("a cell reads what it writes")
            }
        }
    }
}

/// The preconditions of a write.
fn holds(asked: &Value, metadata: &Value) {
    for key in ["uid", "resourceVersion"] {
        let asked = &asked[key];
        assert!(
            asked.is_null() || *asked == metadata[key],
            "{key} is {} and not {asked}",
            metadata[key]
        );
    }
}

/// A JSON merge patch.
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

/// Effects as text: plane, verb, kind, endpoint, name, reason.
pub(crate) fn words(effects: &[Effect]) -> Vec<String> {
    let of = |effect: &Effect| {
        let verb = match &effect.write {
            Write::Create { .. } => "create",
            Write::Replace { .. } => "update",
            Write::Apply { .. } => "apply",
            Write::Update { .. } | Write::Merge { .. } => "patch",
            Write::Delete { .. } | Write::DeleteNamed => "delete",
        };
        let status = match effect.endpoint {
            Endpoint::Main => "",
            Endpoint::Status => "/status",
        };
        let Target {
            plane,
            resource,
            name,
            ..
        } = &effect.target;
        format!(
            "{plane}: {verb} {}{status} {name}: {}",
            resource.plural, effect.reason
        )
    };
    effects.iter().map(of).collect()
}

/// The body or patch of an effect, without its preconditions.
pub(crate) fn body(effect: &Effect) -> Value {
    let mut body = match &effect.write {
        Write::Create { body, .. }
        | Write::Replace { body }
        | Write::Apply { body, .. }
        | Write::Update { body, .. } => body.clone(),
        Write::Merge { patch } => patch.clone(),
        Write::Delete { .. } | Write::DeleteNamed => Value::Null,
    };
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("uid");
        metadata.remove("resourceVersion");
        if metadata.is_empty() {
            body.as_object_mut().unwrap().remove("metadata");
        }
    }
    body
}

/// A deployment with this number of Instances.
pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"namespace": NS, "name": name},
        "spec": {
            "workloadRef": {"name": "storefront", "uid": "w-1"}, "placementName": "main", "cityCode": "DFW",
            "scaleSettings": {"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"},
            "template": {"metadata": {"labels": {"app": "storefront"}}, "spec": {
                "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{"name": "web", "image": "shop/web:1", "ports": [{"name": "http", "port": 80}]}]}},
                "networkInterfaces": [{"network": {"name": "default"}}],
            }},
        },
    })
}

/// A condition.
pub(crate) fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": format!("{reason} it is"),
        "lastTransitionTime": "2026-05-04T10:00:00Z", "observedGeneration": 1})
}

/// An Instance of a deployment as the deployment controller creates it.
pub(crate) fn instance(deployment: &str, ordinal: u32) -> Value {
    let name = format!("{deployment}-{ordinal}");
    json!({
        "metadata": {
            "namespace": NS, "name": name,
            "labels": {
                "app": "storefront",
                keys::WORKLOAD_UID: "w-1", keys::WORKLOAD_NAME: "storefront", keys::PLACEMENT_NAME: "main",
                keys::INSTANCE_CITY_CODE: "DFW", keys::INSTANCE_LOCATION: "us-south-1", keys::WORKLOAD_DEPLOYMENT_NAME: deployment,
                keys::WORKLOAD_DEPLOYMENT_UID: format!("u-{deployment}"), keys::INSTANCE_INDEX: ordinal.to_string(),
            },
            "finalizers": [keys::CLAIM_FINALIZER, keys::INSTANCE_FINALIZER],
            "ownerReferences": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                "name": deployment, "uid": format!("u-{deployment}"), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "web", "image": "shop/web:1", "ports": [{"name": "http", "port": 80}]}]}},
            "networkInterfaces": [{"network": {"name": "default"}}],
            "location": {"name": "us-south-1", "namespace": "default"},
            "controller": {"templateHash": "v1-0", "schedulingGates": [{"name": "Quota"}]},
        },
        "status": {"conditions": [
            {"type": "Programmed", "status": "Unknown", "reason": "Pending", "message": "Waiting for controller",
                "lastTransitionTime": "1970-01-01T00:00:00Z"},
        ]},
    })
}
