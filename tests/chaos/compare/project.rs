//! Project planes: what the tenant asked for, and nothing else.

use super::{Asked, Findings, at, stays};
use crate::{
    load::Tenant,
    support::{
        kinds::{CONFIG_MAP, DEPLOYMENT, NAMESPACE, SECRET, WORKLOAD},
        uid,
    },
    wanted::{Deployment, Workload},
};
use serde_json::Value;

/// The Workload that a deployment belongs to.
fn owner(deployment: &Value) -> Option<&str> {
    let owner = &deployment["metadata"]["ownerReferences"][0];
    (owner["kind"] == WORKLOAD.name)
        .then(|| owner["uid"].as_str())
        .flatten()
}

impl Findings<'_> {
    pub(super) fn project(&mut self, asked: &Asked<'_>) {
        let (all, project, ns) = (self.all, asked.project, asked.ns);
        self.present(all, project, &NAMESPACE, "", ns);
        for (name, wanted) in &asked.wanted.deployments {
            if let Some(object) = self.present(all, project, &DEPLOYMENT, ns, name) {
                let found = Deployment::read(&object["spec"]);
                if found != *wanted {
                    let at = at(project, &DEPLOYMENT, ns, name);
                    self.add(&at, format!("{wanted:?}"), format!("{found:?}"));
                }
            }
        }
        let mut workloads = Vec::new();
        for (name, wanted) in &asked.wanted.workloads {
            if let Some(object) = self.present(all, project, &WORKLOAD, ns, name) {
                workloads.push(uid(object));
                self.workload(asked, name, wanted, object);
            }
        }
        for (at, object) in all.within(project, &DEPLOYMENT, ns) {
            let wanted = match owner(object) {
                Some(owner) => workloads.contains(&owner),
                None => asked.wanted.deployments.contains_key(&at.3),
            };
            if !wanted {
                self.surplus(at, "nobody asks for it", object);
            }
        }
        for (at, object) in all.within(project, &WORKLOAD, ns) {
            if !asked.wanted.workloads.contains_key(&at.3) {
                self.surplus(at, "nobody asks for it", object);
            }
        }
        self.sources(asked);
    }

    fn workload(&mut self, asked: &Asked<'_>, name: &str, wanted: &Workload, object: &Value) {
        let at = at(asked.project, &WORKLOAD, asked.ns, name);
        let cities = wanted.cities.iter().map(|city| (*city).to_owned()).collect();
        let expected = (cities, wanted.scale, wanted.image.clone());
        let found = Workload::read(&object["spec"]);
        if found != expected {
            self.add(&at, format!("{expected:?}"), format!("{found:?}"));
        }
        let own = |deployment: &&Value| owner(deployment) == Some(uid(object)) && stays(deployment);
        let deployments: Vec<&Value> = self
            .all
            .within(asked.project, &DEPLOYMENT, asked.ns)
            .map(|(_, deployment)| deployment)
            .filter(own)
            .collect();
        let mut has: Vec<Deployment> = deployments
            .iter()
            .map(|deployment| Deployment::read(&deployment["spec"]))
            .collect();
        let mut stands_for: Vec<Deployment> = wanted.deployments().collect();
        has.sort_by(|a, b| a.city.cmp(&b.city));
        stands_for.sort_by(|a, b| a.city.cmp(&b.city));
        if has != stands_for {
            self.add(&at, format!("deployments {stands_for:?}"), format!("{has:?}"));
        }
        for counter in ["replicas", "readyReplicas", "desiredReplicas"] {
            let sum: i64 = deployments
                .iter()
                .filter_map(|deployment| deployment["status"][counter].as_i64())
                .sum();
            let found = object["status"][counter].as_i64().unwrap_or_default();
            if found != sum {
                self.add(&at, format!("status.{counter} = {sum}"), found.to_string());
            }
        }
    }

    fn sources(&mut self, asked: &Asked<'_>) {
        for ((kind, name), revision) in &asked.wanted.sources {
            let kind = if *kind == "Secret" { &SECRET } else { &CONFIG_MAP };
            let object = self.present(self.all, asked.project, kind, asked.ns, name);
            // A Secret's value is base64: that it arrived is compared further on, plane with plane.
            if let Some(object) = object.filter(|_| kind.name == CONFIG_MAP.name) {
                let at = at(asked.project, kind, asked.ns, name);
                self.same(&at, "data", &Tenant::content(*revision), &object["data"]);
            }
        }
    }
}
