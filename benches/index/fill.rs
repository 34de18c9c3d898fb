//! An index filled as watches fill it, and the bytes that each part of it takes.

use super::objects;
use anyhow::{Result, anyhow};
use fedgate_api::{
    keys,
    names::{CityCode, HubNamespace, ProjectKey},
};
use fedgate_engine::plane::watch::WatchEvent;
use fedgate_gateway::{
    index::{GatewayIndex, TableId, apply::Applied, networking::WorkloadChecks},
    policy_spec,
    route::Route,
};
use fedgate_kinds::{FederatedKind, KindId};
use serde_json::{Value, json};
use std::sync::Arc;
use tikv_jemalloc_ctl::thread;

/// A time that never moves.
const THEN: &str = "2026-05-04T10:00:00Z";
const CITIES: [&str; 3] = ["DFW", "LHR", "SYD"];
const KIND: KindId = KindId::FIRST;

/// How much there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Projects, each with one namespace for its deployments.
    pub(crate) projects: usize,
    /// Deployments of each project.
    pub(crate) deployments: usize,
    /// Instances of each deployment.
    pub(crate) instances: usize,
}

/// One part of the index.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// What it holds.
    pub(crate) name: &'static str,
    /// How many of them.
    pub(crate) count: usize,
    /// Bytes that are allocated for them, as the allocator rounds them.
    pub(crate) bytes: u64,
}

impl Part {
    /// Bytes for each.
    pub(crate) fn each(&self) -> u64 {
        self.bytes / u64::try_from(self.count).unwrap_or(1).max(1)
    }
}

/// Bytes that this thread has allocated and not freed. Exact, because nothing here moves to another thread.
pub(crate) fn live() -> Result<u64> {
    let allocated = thread::allocatedp::read()
        .map_err(|e| anyhow!("the allocator does not say: {e}"))?
        .get();
    let freed = thread::deallocatedp::read()
        .map_err(|e| anyhow!("the allocator does not say: {e}"))?
        .get();
    Ok(allocated.wrapping_sub(freed))
}

pub(crate) fn uid(kind: u32, number: usize) -> String {
    format!("{kind:08x}-5e1f-4c0d-8a4b-{number:012x}")
}

/// A project and what it has, by number.
struct Home {
    number: usize,
    key: ProjectKey,
    hub: HubNamespace,
}

const NAMESPACE: &str = "production";

impl Home {
    fn new(number: usize) -> Result<Self> {
        Ok(Self {
            number,
            key: ProjectKey::parse(&format!("project-{number:05}"))?,
            hub: HubNamespace::of(&uid(1, number)),
        })
    }

    fn name(n: usize) -> String {
        format!("storefront-main-{}-{n}", Self::city(n).to_lowercase())
    }

    fn city(n: usize) -> &'static str {
        CITIES[n % CITIES.len()]
    }

    /// A number that no deployment of another project has.
    fn serial(&self, n: usize) -> usize {
        self.number * 100_000 + n
    }
}

/// Puts a name, a UID and a version on an object.
fn stored(mut object: Value, namespace: &str, name: &str, uid: &str) -> Value {
    let (group, version, kind) = ("compute.datumapis.com", "v1alpha", "WorkloadDeployment");
    object["apiVersion"] = json!(format!("{group}/{version}"));
    object["kind"] = json!(kind);
    let meta = &mut object["metadata"];
    meta["namespace"] = json!(namespace);
    meta["name"] = json!(name);
    meta["uid"] = json!(uid);
    meta["resourceVersion"] = json!("123456");
    meta["creationTimestamp"] = json!(THEN);
    meta["generation"] = json!(1);
    object
}

pub(crate) fn namespace(name: &str, uid: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid, "resourceVersion": "123456",
        "creationTimestamp": THEN, "labels": labels}})
}

fn condition(kind: &str, reason: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": format!("{reason} at dfw-1"),
        "lastTransitionTime": THEN, "observedGeneration": 1})
}

/// A deployment as the Workload controller and the federator leave it.
fn source(home: &Home, n: usize) -> Value {
    let (name, own) = (Home::name(n), uid(2, home.serial(n)));
    let mut object = stored(
        objects::deployment(&name, Home::city(n), None),
        NAMESPACE,
        &name,
        &own,
    );
    let workload = uid(3, home.number);
    object["spec"]["workloadRef"]["uid"] = json!(workload);
    let meta = &mut object["metadata"];
    meta["finalizers"] = json!([keys::FEDERATOR_FINALIZER]);
    meta["labels"] = json!({keys::WORKLOAD_UID: workload, keys::SERVICE_NAME: "compute.datumapis.com"});
    meta["annotations"] = json!({keys::FEDERATION_NAMESPACE: home.hub.as_str(), keys::HUB: "7a1c0000-0000-4000-8000-00000000c001"});
    meta["ownerReferences"] = json!([{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload",
        "name": "storefront", "uid": workload, "controller": true}]);
    object["status"] = objects::report(1);
    let conditions = [
        condition("Available", "StableInstanceFound"),
        condition("Federated", "Delivered"),
        condition("ReferencedDataReady", "NoReferencedData"),
    ];
    object["status"]["conditions"] = json!(conditions);
    object
}

fn copy_uid(home: &Home, n: usize) -> String {
    uid(4, home.serial(n))
}

fn copy(home: &Home, n: usize) -> Value {
    let source = source(home, n);
    let object = json!({"metadata": {
            "labels": {keys::CITY_CODE: Home::city(n), keys::UPSTREAM_NAMESPACE: NAMESPACE},
            "annotations": {keys::SOURCE_UID: source["metadata"]["uid"], keys::SOURCE_GENERATION: "1",
                keys::CLAIM_NAME: policy_name(Home::city(n))},
        },
        "spec": source["spec"],
        "status": objects::report(1),
    });
    stored(object, home.hub.as_str(), &Home::name(n), &copy_uid(home, n))
}

fn policy_name(city: &str) -> String {
    format!("city-{}", city.to_lowercase())
}

fn binding(home: &Home, n: usize) -> Value {
    let (mut object, status) = objects::binding(home.hub.as_str(), &Home::name(n), &copy_uid(home, n));
    let name = objects::binding_name(&Home::name(n));
    object["status"] = status;
    object["metadata"]["annotations"] = json!({keys::CLAIM_NAME: policy_name(Home::city(n))});
    stored(object, home.hub.as_str(), &name, &uid(5, home.serial(n)))
}

fn policy(home: &Home, city: &str, kind: &FederatedKind) -> Result<Value> {
    let spec = policy_spec::route_spec(kind, home.hub.as_str(), &Route::City(CityCode::parse(city)?));
    let name = policy_name(city);
    Ok(stored(
        json!({"spec": spec}),
        home.hub.as_str(),
        &name,
        &uid(6, home.number),
    ))
}

fn instance_name(n: usize, i: usize) -> String {
    format!("{}-{i}", Home::name(n))
}

fn write_back(home: &Home, n: usize, i: usize) -> Value {
    let name = instance_name(n, i);
    let mut object = objects::write_back(&home.key, NAMESPACE, &Home::name(n), &copy_uid(home, n), &name);
    object["status"] = objects::instance_status(true);
    stored(object, home.hub.as_str(), &name, &uid(7, home.serial(n) * 16 + i))
}

fn projection(home: &Home, n: usize, i: usize) -> Value {
    let name = instance_name(n, i);
    let owner = uid(2, home.serial(n));
    let mut object = objects::projection(&home.key, NAMESPACE, &Home::name(n), &owner, &name);
    object["status"] = objects::instance_status(true);
    stored(object, NAMESPACE, &name, &uid(8, home.serial(n) * 16 + i))
}

/// The index and what its parts take.
pub(crate) struct Filled {
    pub(crate) index: GatewayIndex,
    pub(crate) parts: Vec<Part>,
    size: Size,
    homes: Vec<Home>,
}

fn event(object: Value) -> Result<WatchEvent> {
    Ok(WatchEvent::InitApply(Box::new(serde_json::from_value(object)?)))
}

/// Feeds one complete list.
pub(crate) fn list(
    objects: impl Iterator<Item = Value>,
    mut feed: impl FnMut(WatchEvent) -> Applied,
) -> Result<()> {
    drop(feed(WatchEvent::Init));
    for object in objects {
        drop(feed(event(object)?));
    }
    drop(feed(WatchEvent::InitDone));
    Ok(())
}

impl Filled {
    /// Fills an index part by part.
    pub(crate) fn new(size: Size) -> Result<Self> {
        let kinds = Arc::new(FederatedKind::builtin()?.into());
        let homes = (0..size.projects).map(Home::new).collect::<Result<Vec<_>>>()?;
        let index = GatewayIndex::new(kinds, WorkloadChecks::default());
        // The first template makes the schema that all templates are read with. The schema is no part of a deployment.
        fedgate_api::written_template(&source(&Home::new(0)?, 0)["spec"]["template"])?;
        let mut filled = Self {
            index,
            parts: Vec::with_capacity(16),
            size,
            homes,
        };
        filled.fill()?;
        Ok(filled)
    }

    fn part(
        &mut self,
        name: &'static str,
        count: usize,
        fill: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let before = live()?;
        fill(self)?;
        let bytes = live()?.saturating_sub(before);
        self.parts.push(Part { name, count, bytes });
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        let Size {
            projects,
            deployments,
            instances,
        } = self.size;
        let all = projects * deployments;
        let (copies, write_backs) = (TableId::Federated(KIND), TableId::WrittenBack(KIND));
        self.part("projects", projects, Self::projects)?;
        let cells = CITIES.iter().map(|city| {
            json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": city.to_lowercase(), "uid": format!("cell-{city}"), "resourceVersion": "5",
                    "labels": {keys::CITY_CODE: city}}})
        });
        list(cells, |e| self.index.hub_event(TableId::Clusters, e))?;
        self.part("hub namespaces", projects, |f| {
            f.hub(TableId::Namespaces, |home| vec![hub_namespace(home)])
        })?;
        self.part("city policies", projects * CITIES.len(), |f| {
            let kinds = f.index.kinds.clone();
            f.hub(TableId::CityPolicies, |home| {
                CITIES
                    .iter()
                    .filter_map(|city| policy(home, city, &kinds[KIND]).ok())
                    .collect()
            })
        })?;
        self.part("deployments", all, |f| {
            f.project(copies, |home| (0..deployments).map(|n| source(home, n)).collect())
        })?;
        self.part("copies", all, |f| {
            f.hub(copies, |home| (0..deployments).map(|n| copy(home, n)).collect())
        })?;
        self.part("bindings", all, |f| {
            f.hub(TableId::Bindings, |home| {
                (0..deployments).map(|n| binding(home, n)).collect()
            })
        })?;
        let each = |of: fn(&Home, usize, usize) -> Value| {
            move |home: &Home| {
                (0..deployments)
                    .flat_map(|n| (0..instances).map(move |i| (n, i)))
                    .map(|(n, i)| of(home, n, i))
                    .collect()
            }
        };
        self.part("write-backs", all * instances, |f| {
            f.hub(write_backs, each(write_back))
        })?;
        self.part("projections", all * instances, |f| {
            f.project(write_backs, each(projection))
        })
    }

    /// Projects with the namespaces that every one has, and nothing else.
    fn projects(&mut self) -> Result<()> {
        for home in &self.homes {
            self.index.engage(home.key.clone());
            for role in self.index.project_tables() {
                let mut there = Vec::new();
                if role == TableId::Namespaces {
                    there.extend(
                        ["default", "kube-node-lease", "kube-public"]
                            .into_iter()
                            .enumerate()
                            .map(|(i, name)| namespace(name, &uid(9, home.number * 8 + i), &json!({}))),
                    );
                    there.push(namespace("kube-system", &uid(10, home.number), &json!({})));
                    there.push(namespace(NAMESPACE, &uid(1, home.number), &json!({})));
                }
                list(there.into_iter(), |e| {
                    self.index.project_event(&home.key, role, e)
                })?;
            }
        }
        Ok(())
    }

    fn hub(&mut self, role: TableId, of: impl Fn(&Home) -> Vec<Value>) -> Result<()> {
        let (index, homes) = (&mut self.index, &self.homes);
        list(homes.iter().flat_map(of), |e| index.hub_event(role, e))
    }

    fn project(&mut self, role: TableId, of: impl Fn(&Home) -> Vec<Value>) -> Result<()> {
        for home in &self.homes {
            list(of(home).into_iter(), |e| {
                self.index.project_event(&home.key, role, e)
            })?;
        }
        Ok(())
    }
}

/// The Namespace of the hub as the gateway makes it.
fn hub_namespace(home: &Home) -> Value {
    let labels = json!({keys::UPSTREAM_CLUSTER: home.key.label(), keys::UPSTREAM_NAMESPACE: NAMESPACE,
        keys::SKIP_AUTO_PROPAGATION: "true", keys::PROJECT_UID: uid(10, home.number), keys::CITIES: "dfw-lhr-syd"});
    namespace(home.hub.as_str(), &uid(11, home.number), &labels)
}
