//! An index for tests of the controllers and of packages that read it, filled by watch events.

// Fixtures fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

use super::{
    GatewayIndex, TableId,
    apply::Applied,
    derived::{known_plane::KnownPlane, ownership::RejectedClaim, project_hub::OtherHub},
    networking::WorkloadChecks,
    watches::Command,
};
use crate::{
    keys_of, policy_spec,
    rate_limit::Limits,
    route::Route,
    settings::{LocationSource, Settings},
};
use fedgate_api::{
    keys,
    names::{CityCode, ProjectKey},
};
use fedgate_engine::{
    clock::Clock,
    key::Key,
    metrics::Metrics,
    plane::{lease::LeaseHandle, watch::WatchEvent},
    runtime::Setup,
};
use fedgate_kinds::{FederatedKind, PlatformKind};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The hub namespace of namespace `default` in project `shop`.
pub const HUB: &str = "ns-a1";

/// The project of the fixture.
pub fn shop() -> ProjectKey {
    ProjectKey::parse("shop").unwrap()
}

/// A second project; see [`GatewayIndex::with_zoo`].
pub fn zoo() -> ProjectKey {
    ProjectKey::parse("zoo").unwrap()
}

/// An object for tests to build upon.
pub fn object(namespace: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X",
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "5"}})
}

/// A Namespace.
pub fn namespace(name: &str, uid: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "uid": uid, "resourceVersion": "5", "labels": labels}})
}

/// [`HUB`] as the gateway writes it for a city set.
pub fn hub_namespace(cities: &str) -> Value {
    namespace(
        HUB,
        "u-hub",
        &json!({keys::UPSTREAM_CLUSTER: shop().label(), keys::UPSTREAM_NAMESPACE: "default",
            keys::SKIP_AUTO_PROPAGATION: "true", keys::PROJECT_UID: "p1", keys::CITIES: cities}),
    )
}

/// A deployment of the project with the gateway's finalizer, in a city.
pub fn source(name: &str, city: &str) -> Value {
    let mut source = object("default", name, &format!("u-{name}"));
    source["metadata"]["generation"] = json!(1);
    source["metadata"]["finalizers"] = json!([keys::FEDERATOR_FINALIZER]);
    source["metadata"]["annotations"] = json!({keys::FEDERATION_NAMESPACE: HUB});
    source["spec"] = json!({"cityCode": city, "template": {"spec": {}}});
    source
}

/// As [`source`], being deleted.
pub fn leaving(name: &str, city: &str) -> Value {
    let mut source = source(name, city);
    source["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    source["metadata"]["resourceVersion"] = json!("6");
    source
}

/// The copy of [`source`].
pub fn copy(name: &str, city: &str) -> Value {
    let mut copy = object(HUB, name, &format!("c-{name}"));
    copy["metadata"]["labels"] = json!({keys::CITY_CODE: city, keys::UPSTREAM_NAMESPACE: "default"});
    copy["metadata"]["annotations"] =
        json!({keys::SOURCE_UID: format!("u-{name}"), keys::SOURCE_GENERATION: "1"});
    copy["spec"] = json!({"cityCode": city, "template": {"spec": {}}});
    copy
}

/// The binding of a copy of the built-in kind.
pub fn binding(name: &str) -> Value {
    let mut binding = object(HUB, &format!("{name}-workloaddeployment"), &format!("b-{name}"));
    binding["spec"] = json!({"resource": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": name}});
    binding
}

/// The policy of a city set.
pub fn city_set(name: &str, cities: &[&str]) -> Value {
    let cities = cities.iter().map(|c| CityCode::parse(c).unwrap()).collect();
    let mut policy = object("", name, &format!("s-{name}"));
    let set = fedgate_api::names::city_set_of(name).unwrap();
    policy["spec"] = policy_spec::city_set_spec(set, &cities, keys::CITY_CODE);
    policy
}

/// The cities with a cell.
pub const CITIES: [&str; 5] = ["DFW", "LHR", "FRA", "IAD", "SYD"];

/// The cell of a city, as a Karmada Cluster.
pub fn cluster(city: &str) -> Value {
    let mut cluster = object("", &format!("{}-1", city.to_lowercase()), &format!("m-{city}"));
    cluster["metadata"]["labels"] = json!({keys::CITY_CODE: city});
    cluster
}

/// A policy of our form for a city.
pub fn city_policy(name: &str, city: &str) -> Value {
    let kind = &FederatedKind::builtin().unwrap()[0];
    let mut policy = object(HUB, name, &format!("p-{name}"));
    let route = Route::City(CityCode::parse(city).unwrap());
    policy["spec"] = policy_spec::route_spec(kind, HUB, &route);
    policy
}

/// A companion referenced by these entries.
pub fn companion(name: &str, referenced_by: &Value) -> Value {
    let mut companion = object(HUB, name, &format!("k-{name}"));
    companion["metadata"]["annotations"] = json!({keys::REFERENCED_BY: referenced_by.to_string()});
    companion
}

/// A runtime with many workers that may always write.
pub fn setup() -> Setup {
    Setup {
        lease: LeaseHandle::always(),
        identity: "test".to_owned(),
        workers: 2_000,
        sweep_interval: settings().sweep_interval,
        metrics: Metrics::new().unwrap(),
        clock: Clock::system(),
    }
}

/// Settings with short times.
pub fn settings() -> Settings {
    Settings {
        city_linger: Duration::from_secs(60),
        cell_lost_after: Duration::from_mins(5),
        moves_per_city: 8,
        move_timeout: Duration::from_mins(10),
        city_sets_per_project: 64,
        unused_city_set_after: Duration::from_secs(300),
        hub_namespace_retention: Duration::from_secs(600),
        projection_retention: Duration::from_secs(3_600),
        orphan_after: Duration::from_secs(60),
        sweep_interval: Duration::from_secs(300),
        release_after: None,
        require_owner: false,
        manage_interpreters: true,
        max_spec_size: 256 * 1024,
        instance_types: Vec::new(),
        cross_namespace_networks: false,
        status_interval: Duration::from_millis(250),
        hub_limits: Limits::default(),
        location_source: LocationSource::None,
        networking: false,
    }
}

impl GatewayIndex {
    /// The hub and project `shop` with complete lists that contain only the two Namespaces and the project's UID.
    pub fn fixture() -> Self {
        Self::fixture_with(Vec::new())
    }

    /// As [`GatewayIndex::fixture`], with kinds of the platform, which the project is not known to serve.
    pub fn fixture_with(platform: Vec<PlatformKind>) -> Self {
        let kinds = Arc::new(FederatedKind::builtin().unwrap().into());
        let mut index = Self::new(kinds, WorkloadChecks::default()).with_platform(platform);
        for table in index.hub_tables() {
            index.list_hub(table, &[]);
        }
        index.list_hub(TableId::Clusters, &CITIES.map(cluster));
        index.list_hub(TableId::Namespaces, &[hub_namespace("dfw")]);
        index.engage(shop());
        let live = [
            namespace("kube-system", "p1", &json!({})),
            namespace("default", "a1", &json!({})),
        ];
        for table in index.project_tables() {
            index.list_shop(table, if table == TableId::Namespaces { &live } else { &[] });
        }
        index
    }

    /// Engages a second project with this UID, whose namespace `cages` has `namespace_uid`; all of its lists are complete.
    pub fn with_zoo(&mut self, uid: &str, namespace_uid: &str) {
        self.engage(zoo());
        let live = [
            namespace("kube-system", uid, &json!({})),
            namespace("cages", namespace_uid, &json!({})),
        ];
        for table in self.project_tables() {
            let live: &[Value] = if table == TableId::Namespaces { &live } else { &[] };
            list(live, |event| self.project_event(&zoo(), table, event));
        }
    }

    /// Lists a table of the hub anew.
    pub fn list_hub(&mut self, table: TableId, objects: &[Value]) {
        list(objects, |event| self.hub_event(table, event));
    }

    /// Lists a table of the project anew.
    pub fn list_shop(&mut self, table: TableId, objects: &[Value]) {
        list(objects, |event| self.project_event(&shop(), table, event));
    }

    /// Creates or changes an object of the hub; returns the enqueued keys.
    pub fn hub_has(&mut self, table: TableId, object: &Value) -> Vec<Key> {
        let applied = self.hub_event(table, WatchEvent::Apply(boxed(object)));
        applied.keys(self)
    }

    /// Deletes an object of the hub; returns the enqueued keys.
    pub fn hub_lost(&mut self, table: TableId, object: &Value) -> Vec<Key> {
        let applied = self.hub_event(table, WatchEvent::Delete(boxed(object)));
        applied.keys(self)
    }

    /// Creates or changes an object of the project; returns the enqueued keys.
    pub fn shop_has(&mut self, table: TableId, object: &Value) -> Vec<Key> {
        let applied = self.project_event(&shop(), table, WatchEvent::Apply(boxed(object)));
        applied.keys(self)
    }

    /// Deletes an object of the project; returns the enqueued keys.
    pub fn shop_lost(&mut self, table: TableId, object: &Value) -> Vec<Key> {
        let applied = self.project_event(&shop(), table, WatchEvent::Delete(boxed(object)));
        applied.keys(self)
    }
}

impl Applied {
    /// The keys that the controllers' triggers return.
    pub fn keys(&self, index: &GatewayIndex) -> Vec<Key> {
        keys_of(index, &self.changes)
    }

    /// The claims that are rejected from now on.
    pub fn refused(&self) -> Vec<RejectedClaim> {
        let refused = self.commands.iter().filter_map(|command| match command {
            Command::ReportRejected(claim) => Some(claim.clone()),
            _ => None,
        });
        refused.collect()
    }

    /// The projects of which deployments name another hub than before, with that hub.
    pub fn other_hubs(&self) -> Vec<(ProjectKey, Option<OtherHub>)> {
        let others = self.commands.iter().filter_map(|command| match command {
            Command::ReportOtherHub(project, other) => Some((project.clone(), other.clone())),
            _ => None,
        });
        others.collect()
    }

    /// The projects whose plane the gateway has as another one than before, with that one.
    pub fn known_planes(&self) -> Vec<(ProjectKey, Option<KnownPlane>)> {
        let known = self.commands.iter().filter_map(|command| match command {
            Command::ReportKnownPlane(project, known) => Some((project.clone(), known.clone())),
            _ => None,
        });
        known.collect()
    }
}

fn boxed(object: &Value) -> Box<kube::core::DynamicObject> {
    Box::new(serde_json::from_value(object.clone()).unwrap())
}

/// Applies a list from `Init` to `InitDone`; returns its changes and the rejected claims.
pub fn list(objects: &[Value], mut feed: impl FnMut(WatchEvent) -> Applied) -> Applied {
    let mut all = feed(WatchEvent::Init);
    let listed = objects.iter().map(|object| WatchEvent::InitApply(boxed(object)));
    for event in listed.chain([WatchEvent::InitDone]) {
        let enqueued = feed(event);
        all.changes.extend(enqueued.changes);
        all.commands.extend(enqueued.commands);
    }
    all
}
