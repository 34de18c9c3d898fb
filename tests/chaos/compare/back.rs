//! The way back: projections and status.

use super::{Findings, at, has_data, hub::HUB, text};
use crate::{
    snapshot::PROJECTS,
    support::{
        cell::LINKING,
        condition, hub_namespace,
        kinds::{DEPLOYMENT, INSTANCE, NAMESPACE},
        label, uid,
    },
    wanted::NOWHERE,
};
use fedgate_api::keys;
use serde_json::{Value, json};

/// Conditions of the project deployment that do not come from the hub.
const OWN: [&str; 2] = ["ReferencedDataReady", "Federated"];

/// A status by its conditions' types, without what may differ between planes: times that a condition keeps, and the
/// generations of `like`'s conditions where that has none.
fn plain(status: &Value, like: &Value) -> Value {
    let mut status = status.clone();
    let conditions = status["conditions"].take();
    let mut by_type = json!({});
    for mut condition in conditions.as_array().cloned().unwrap_or_default() {
        let name = condition["type"].as_str().unwrap_or_default().to_owned();
        if OWN.contains(&name.as_str()) {
            continue;
        }
        let models = like["conditions"].as_array();
        let model = models.and_then(|all| all.iter().find(|c| c["type"] == *name));
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
            if model.is_none_or(|model| model["observedGeneration"].is_null()) {
                condition.remove("observedGeneration");
            }
        }
        by_type[name] = condition;
    }
    if like["observedGeneration"].is_null()
        && let Some(status) = status.as_object_mut()
    {
        status.remove("observedGeneration");
    }
    status["conditions"] = by_type;
    status
}

/// An Instance's status as it is projected: without generations, which mean nothing outside the cell.
fn ungenerated(status: &Value) -> Value {
    let mut status = status.clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("observedGeneration");
        }
    }
    status
}

impl Findings<'_> {
    pub(super) fn projections(&mut self) {
        let all = self.all;
        let origins = all.origins();
        for (at, write_back) in all.all(HUB, &INSTANCE) {
            let Some((project, ns)) = origins.get(&at.2) else {
                self.surplus(at, "no project has its origin", write_back);
                continue;
            };
            if let Some(projection) = self.present(all, project, &INSTANCE, ns, &at.3) {
                self.projection(project, ns, write_back, projection);
            }
        }
        for project in PROJECTS {
            for (at, projection) in all.all(project, &INSTANCE) {
                let namespace = all.get(project, &NAMESPACE, "", &at.2);
                let hub_ns = namespace.map(hub_namespace).unwrap_or_default();
                if all.get(HUB, &INSTANCE, &hub_ns, &at.3).is_none() {
                    self.surplus(at, "there is no write-back", projection);
                }
            }
        }
    }

    fn projection(&mut self, project: &str, ns: &str, write_back: &Value, projection: &Value) {
        let at = at(project, &INSTANCE, ns, text(projection, "/metadata/name"));
        self.same(&at, "spec", &write_back["spec"], &projection["spec"]);
        let status = ungenerated(&write_back["status"]);
        self.same(&at, "status", &status, &projection["status"]);
        let name = label(write_back, keys::WORKLOAD_DEPLOYMENT_NAME).unwrap_or_default();
        let deployment = self.all.get(project, &DEPLOYMENT, ns, name);
        let owner = json!([{
            "apiVersion": DEPLOYMENT.api_version(), "kind": DEPLOYMENT.name,
            "name": name, "uid": deployment.map(uid),
        }]);
        let found = &projection["metadata"]["ownerReferences"];
        self.same(&at, "owned by the live deployment", &owner, found);
        for key in LINKING
            .into_iter()
            .chain([keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE])
        {
            let (expected, found) = (label(write_back, key), label(projection, key));
            self.same(&at, key, &json!(expected), &json!(found));
        }
        self.same(
            &at,
            "no label for the cell",
            &Value::Null,
            &json!(label(projection, keys::CELL)),
        );
    }

    pub(super) fn statuses(&mut self) {
        let all = self.all;
        for project in PROJECTS {
            for (at, deployment) in all.all(project, &DEPLOYMENT) {
                let Some(namespace) = all.get(project, &NAMESPACE, "", &at.2) else {
                    continue;
                };
                let copy = all.get(HUB, &DEPLOYMENT, &hub_namespace(namespace), &at.3);
                if let Some(copy) = copy.filter(|copy| copy["status"].is_object()) {
                    let expected = plain(&copy["status"], &copy["status"]);
                    let found = plain(&deployment["status"], &copy["status"]);
                    self.same(at, "status", &expected, &found);
                }
                let (status, reason) = if deployment["spec"]["cityCode"] == NOWHERE {
                    ("False", "NoCellForCity")
                } else {
                    ("True", "Delivered")
                };
                self.says(at, deployment, "Federated", status, reason);
                if has_data(deployment) {
                    self.says(at, deployment, "ReferencedDataReady", "True", "Ready");
                }
            }
        }
    }

    fn says(&mut self, at: &super::At, deployment: &Value, kind: &str, status: &str, reason: &str) {
        let found = condition(deployment, kind);
        let so = found.is_some_and(|c| c["status"] == status && c["reason"] == reason);
        if !so {
            self.add(
                at,
                format!("{kind}={status} {reason}"),
                found.map_or_else(|| "absent".to_owned(), Value::to_string),
            );
        }
    }
}
