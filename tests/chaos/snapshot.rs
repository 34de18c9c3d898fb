//! Everything that counts, on all planes, at one moment.

use crate::support::{
    hub_namespace,
    kinds::{
        BINDING, CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, INSTANCE, Kind, NAMESPACE, POLICY, SECRET, WORKLOAD,
    },
    plane::Plane,
    suite::Suite,
};
use kube::api::ListParams;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where an object is: plane, kind, namespace, name.
pub(crate) type At = (String, &'static str, String, String);

/// The objects of all planes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot(pub(crate) BTreeMap<At, Value>);

/// The planes of projects.
pub(crate) const PROJECTS: [&str; 2] = ["alpha", "beta"];
/// The cells, each with its city.
pub(crate) const CELLS: [(&str, &str); 2] = [("dfw-1", "DFW"), ("lhr-1", "LHR")];

const OF_PROJECT: [&Kind; 6] = [
    &NAMESPACE,
    &WORKLOAD,
    &DEPLOYMENT,
    &INSTANCE,
    &CONFIG_MAP,
    &SECRET,
];
const OF_HUB: [&Kind; 8] = [
    &NAMESPACE,
    &DEPLOYMENT,
    &INSTANCE,
    &CONFIG_MAP,
    &SECRET,
    &POLICY,
    &CLUSTER_POLICY,
    &BINDING,
];
const OF_CELL: [&Kind; 5] = [&NAMESPACE, &DEPLOYMENT, &INSTANCE, &CONFIG_MAP, &SECRET];

impl Snapshot {
    /// Reads all planes.
    pub(crate) async fn take(suite: &Suite) -> kube::Result<Self> {
        let mut all = Self::default();
        for plane in [&suite.alpha, &suite.beta] {
            all.add(plane, &OF_PROJECT).await?;
        }
        all.add(&suite.hub, &OF_HUB).await?;
        for cell in [&suite.dfw, &suite.lhr] {
            all.add(&cell.plane, &OF_CELL).await?;
        }
        Ok(all)
    }

    async fn add(&mut self, plane: &Plane, kinds: &[&'static Kind]) -> kube::Result<()> {
        for kind in kinds {
            let list = plane.api(kind, "").list(&ListParams::default()).await?;
            for object in list.items {
                let at = (
                    plane.name.clone(),
                    kind.name,
                    object.metadata.namespace.clone().unwrap_or_default(),
                    object.metadata.name.clone().unwrap_or_default(),
                );
                self.0
                    .insert(at, serde_json::to_value(object).expect("an object is JSON"));
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, plane: &str, kind: &Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.0
            .get(&(plane.to_owned(), kind.name, namespace.to_owned(), name.to_owned()))
    }

    /// All objects of the kind on the plane.
    pub(crate) fn all<'a>(
        &'a self,
        plane: &'a str,
        kind: &'a Kind,
    ) -> impl Iterator<Item = (&'a At, &'a Value)> + 'a {
        self.0
            .iter()
            .filter(move |(at, _)| at.0 == plane && at.1 == kind.name)
    }

    /// Those in the namespace.
    pub(crate) fn within<'a>(
        &'a self,
        plane: &'a str,
        kind: &'a Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a At, &'a Value)> + 'a {
        self.all(plane, kind).filter(move |(at, _)| at.2 == namespace)
    }

    /// Of each hub namespace: the project and the namespace there that it belongs to.
    pub(crate) fn origins(&self) -> BTreeMap<String, (&'static str, String)> {
        let mut origins = BTreeMap::new();
        for project in PROJECTS {
            for (at, namespace) in self.all(project, &NAMESPACE) {
                origins.insert(hub_namespace(namespace), (project, at.3.clone()));
            }
        }
        origins
    }
}
