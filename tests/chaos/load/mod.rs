//! The load: tenants that create, change, delete and create again, each in a namespace of its own.

mod by_hand;

use crate::{
    pending::pending,
    rng::Rng,
    support::{
        kinds::{CONFIG_MAP, DEPLOYMENT, Kind, NAMESPACE, SECRET, WORKLOAD},
        plane::Plane,
    },
    sure::sure,
    wanted::{Deployment, NOWHERE, SOURCES, Wanted, Workload},
};
use kube::api::ListParams;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

const DEPLOYMENTS: [&str; 6] = ["web", "api", "jobs", "cache", "edge", "batch"];
const WORKLOADS: [&str; 2] = ["shop", "blog"];
const CITIES: [&str; 2] = ["DFW", "LHR"];

/// One tenant: what it has asked for, and what it was told.
pub(crate) struct Tenant {
    pub(crate) plane: Plane,
    pub(crate) ns: String,
    pub(crate) wanted: Wanted,
    /// What was deleted and is to be there again as soon as its name is free.
    again: BTreeSet<(&'static str, String)>,
    hub: Plane,
    rng: Rng,
    revision: u64,
    /// How often what was done.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Answers that cannot be: what was asked for was not there.
    pub(crate) complaints: Vec<String>,
}

fn kind(name: &str) -> &'static Kind {
    match name {
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "Workload" => &WORKLOAD,
        _ => &DEPLOYMENT,
    }
}

impl Tenant {
    pub(crate) fn new(plane: &Plane, hub: &Plane, ns: &str, rng: Rng) -> Self {
        Self {
            plane: plane.clone(),
            hub: hub.clone(),
            ns: ns.to_owned(),
            wanted: Wanted::default(),
            again: BTreeSet::new(),
            rng,
            revision: 0,
            counts: BTreeMap::new(),
            complaints: Vec::new(),
        }
    }

    /// Works until told to stop, then brings back what is to be there again.
    pub(crate) async fn run(mut self, pause: Duration, stop: watch::Receiver<bool>) -> Self {
        while !*stop.borrow() {
            self.step().await;
            let millis = u64::try_from(pause.as_millis()).unwrap_or(100);
            sleep(Duration::from_millis(
                self.rng.between(millis / 2, millis * 3 / 2),
            ))
            .await;
        }
        while !self.again.is_empty() || !self.wanted.exists {
            let _pending = pending(format!(
                "the names of namespace {} (there: {}) and {:?} to be free on {}",
                self.ns, self.wanted.exists, self.again, self.plane.name
            ));
            self.bring_back().await;
            sleep(Duration::from_millis(300)).await;
        }
        self
    }

    async fn step(&mut self) {
        self.bring_back().await;
        if !self.wanted.exists {
            return;
        }
        match self.rng.between(0, 100) {
            0..30 => self.create_or_scale().await,
            30..40 => self.change_city().await,
            40..54 => self.change_template().await,
            54..60 => self.relabel().await,
            60..68 => self.delete_deployment(false).await,
            68..76 => self.delete_deployment(true).await,
            76..88 => self.work_on_workload().await,
            88..95 => self.work_on_source().await,
            95..99 => self.meddle().await,
            _ => self.delete_namespace().await,
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn image(&mut self) -> String {
        self.revision += 1;
        format!("shop/web:1.0.{}", self.revision)
    }

    fn city(&mut self) -> String {
        if self.rng.chance(6) {
            NOWHERE.to_owned()
        } else {
            (*self.rng.pick(&CITIES)).to_owned()
        }
    }

    /// A deployment that is there.
    fn deployment(&mut self) -> Option<String> {
        let names: Vec<String> = self.wanted.deployments.keys().cloned().collect();
        (!names.is_empty()).then(|| self.rng.pick(&names).clone())
    }

    // -- requests ----------------------------------------------------------------------------------------------

    /// Creates the object; false if an earlier one of its name is still there, or its namespace is going.
    async fn create(&mut self, kind: &Kind, object: Value) -> bool {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let what = format!(
            "create {} {name} in {} of {}",
            kind.name, self.ns, self.plane.name
        );
        let ns = if kind.namespaced { self.ns.as_str() } else { "" };
        let asked = sure(&what, || self.plane.try_create(kind, ns, object.clone())).await;
        match asked {
            Ok(_) => true,
            // Only this tenant creates here: what is there and stays came from an attempt whose answer was lost.
            Err(status) if status.is_already_exists() => {
                let found = sure(&what, || async { self.plane.api(kind, ns).get_opt(&name).await }).await;
                matches!(found, Ok(Some(object)) if object.metadata.deletion_timestamp.is_none())
            }
            Err(status) if status.message.contains("being terminated") => false,
            Err(status) => {
                self.complaints
                    .push(format!("{what}: {} {}", status.code, status.message));
                false
            }
        }
    }

    async fn patch(&mut self, kind: &Kind, name: &str, patch: Value) {
        let what = format!("patch {} {name} in {} of {}", kind.name, self.ns, self.plane.name);
        let asked = sure(&what, || self.plane.try_merge(kind, &self.ns, name, &patch)).await;
        if let Err(status) = asked {
            self.complaints
                .push(format!("{what}: {} {}", status.code, status.message));
        }
    }

    async fn delete(&mut self, kind: &Kind, name: &str) {
        let what = format!(
            "delete {} {name} in {} of {}",
            kind.name, self.ns, self.plane.name
        );
        let ns = if kind.namespaced { self.ns.as_str() } else { "" };
        let asked = sure(&what, || self.plane.try_delete(kind, ns, name, None)).await;
        if let Err(status) = asked
            && !status.is_not_found()
        {
            self.complaints
                .push(format!("{what}: {} {}", status.code, status.message));
        }
    }

    /// Creates what is to be there again, where the name is free.
    async fn bring_back(&mut self) {
        if !self.wanted.exists {
            let namespace = json!({"metadata": {"name": self.ns}});
            self.wanted.exists = self.create(&NAMESPACE, namespace).await;
            if !self.wanted.exists {
                return;
            }
            self.clear().await;
            self.again = SOURCES
                .iter()
                .map(|(kind, name)| (*kind, (*name).to_owned()))
                .collect();
        }
        for (what, name) in self.again.clone() {
            let back = match what {
                "WorkloadDeployment" => self.create_deployment(&name).await,
                "Workload" => self.create_workload(&name).await,
                _ => self.create_source(what, &name).await,
            };
            if back {
                self.again.remove(&(what, name));
            }
        }
    }

    /// Deletes what a former namespace of the name has left: Kubernetes forgets objects of our kinds if a namespace is
    /// deleted while its API server starts and does not name those kinds yet.
    async fn clear(&mut self) {
        for kind in [&WORKLOAD, &DEPLOYMENT, &CONFIG_MAP, &SECRET] {
            let what = format!("list {} of {}", kind.plural, self.plane.name);
            let api = self.plane.api(kind, &self.ns);
            let list = sure(&what, || async { api.list(&ListParams::default()).await }).await;
            let left = list.map(|list| list.items).unwrap_or_default();
            let names = left.into_iter().filter_map(|object| object.metadata.name);
            for name in names.filter(|name| name != "kube-root-ca.crt") {
                self.delete(kind, &name).await;
                self.count("object of a former namespace deleted");
            }
        }
    }

    // -- deployments -------------------------------------------------------------------------------------------

    async fn create_deployment(&mut self, name: &str) -> bool {
        let wanted = Deployment {
            city: self.city(),
            scale: self.rng.between(1, 4),
            image: self.image(),
            data: self.rng.chance(50),
        };
        let made = self.create(&DEPLOYMENT, wanted.object(name)).await;
        if made {
            self.wanted.deployments.insert(name.to_owned(), wanted);
            self.count("deployment created");
        }
        made
    }

    async fn create_or_scale(&mut self) {
        let name = *self.rng.pick(&DEPLOYMENTS);
        if self.again.contains(&("WorkloadDeployment", name.to_owned())) {
            return;
        }
        if self.wanted.deployments.contains_key(name) {
            let scale = self.rng.between(1, 4);
            self.change(name, "deployment scaled", |wanted| wanted.scale = scale)
                .await;
        } else {
            self.create_deployment(name).await;
        }
    }

    async fn change(&mut self, name: &str, what: &'static str, change: impl FnOnce(&mut Deployment)) {
        let Some(wanted) = self.wanted.deployments.get_mut(name) else {
            return;
        };
        change(wanted);
        let patch = wanted.patch();
        self.patch(&DEPLOYMENT, name, patch).await;
        self.count(what);
    }

    async fn change_city(&mut self) {
        let city = self.city();
        if let Some(name) = self.deployment() {
            self.change(&name, "city changed", |wanted| wanted.city = city)
                .await;
        }
    }

    async fn change_template(&mut self) {
        let (image, flip) = (self.image(), self.rng.chance(30));
        if let Some(name) = self.deployment() {
            self.change(&name, "template changed", |wanted| {
                wanted.image = image;
                wanted.data ^= flip;
            })
            .await;
        }
    }

    /// Labels and annotations that must not reach the hub.
    async fn relabel(&mut self) {
        let value = format!("r{}", self.rng.between(0, 1000));
        let metadata = json!({
            "labels": {"app.example.com/rev": value, "propagationpolicy.karmada.io/evil": value},
            "annotations": {"policy.karmada.io/evil": value},
        });
        if let Some(name) = self.deployment() {
            self.patch(&DEPLOYMENT, &name, json!({"metadata": metadata}))
                .await;
            self.count("deployment relabelled");
        }
    }

    async fn delete_deployment(&mut self, again: bool) {
        if let Some(name) = self.deployment() {
            self.delete(&DEPLOYMENT, &name).await;
            self.wanted.deployments.remove(&name);
            if again {
                self.again.insert(("WorkloadDeployment", name));
                self.count("deployment deleted and created again");
            } else {
                self.count("deployment deleted");
            }
        }
    }

    // -- Workloads, sources, the namespace -----------------------------------------------------------------------

    fn workload(&mut self) -> Workload {
        let cities = match self.rng.between(0, 3) {
            0 => vec!["DFW"],
            1 => vec!["LHR"],
            _ => CITIES.to_vec(),
        };
        Workload {
            cities,
            scale: self.rng.between(1, 3),
            image: self.image(),
        }
    }

    async fn create_workload(&mut self, name: &str) -> bool {
        let wanted = self.workload();
        let made = self.create(&WORKLOAD, wanted.object(name)).await;
        if made {
            self.wanted.workloads.insert(name.to_owned(), wanted);
            self.count("Workload created");
        }
        made
    }

    async fn work_on_workload(&mut self) {
        let name = *self.rng.pick(&WORKLOADS);
        if self.again.contains(&("Workload", name.to_owned())) {
            return;
        }
        if !self.wanted.workloads.contains_key(name) {
            self.create_workload(name).await;
        } else if self.rng.chance(25) {
            self.delete(&WORKLOAD, name).await;
            self.wanted.workloads.remove(name);
            self.again.insert(("Workload", name.to_owned()));
            self.count("Workload deleted and created again");
        } else {
            let wanted = self.workload();
            let patch = json!({"spec": wanted.object(name)["spec"]});
            self.wanted.workloads.insert(name.to_owned(), wanted);
            self.patch(&WORKLOAD, name, patch).await;
            self.count("Workload changed");
        }
    }

    /// The content of a source at a revision.
    pub(crate) fn content(revision: u64) -> Value {
        json!({"a": format!("revision {revision}")})
    }

    async fn create_source(&mut self, what: &'static str, name: &str) -> bool {
        self.revision += 1;
        let mut object = json!({"metadata": {"name": name}});
        let field = if what == "Secret" { "stringData" } else { "data" };
        object[field] = Self::content(self.revision);
        let made = self.create(kind(what), object).await;
        let known = SOURCES.iter().find(|source| **source == (what, name));
        if let (true, Some(source)) = (made, known) {
            self.wanted.sources.insert(*source, self.revision);
            self.count("source created");
        }
        made
    }

    async fn work_on_source(&mut self) {
        let source = *self.rng.pick(&SOURCES);
        let (what, name) = source;
        if !self.wanted.sources.contains_key(&source) {
            return;
        }
        if self.rng.chance(25) {
            self.delete(kind(what), name).await;
            self.wanted.sources.remove(&source);
            self.again.insert((what, name.to_owned()));
            self.count("source deleted and created again");
        } else {
            self.revision += 1;
            self.wanted.sources.insert(source, self.revision);
            let field = if what == "Secret" { "stringData" } else { "data" };
            let mut patch = json!({});
            patch[field] = Self::content(self.revision);
            self.patch(kind(what), name, patch).await;
            self.count("source changed");
        }
    }

    async fn delete_namespace(&mut self) {
        let name = self.ns.clone();
        self.delete(&NAMESPACE, &name).await;
        self.wanted = Wanted::default();
        self.again.clear();
        self.count("namespace deleted and created again");
    }
}
