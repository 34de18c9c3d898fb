//! What tenants have asked for: the book that the load keeps, from which the end state follows.

use crate::support::{
    deployment, deployment_with_data,
    objects::{self, template},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// City whose only cell is not ready and never will be.
pub(crate) const NOWHERE: &str = "NYC";
/// Sources that every namespace has: kind and name.
pub(crate) const SOURCES: [(&str, &str); 3] =
    [("ConfigMap", "settings"), ("Secret", "keys"), ("Secret", "pull")];

/// One tenant's namespace in one project.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Whether the namespace is there.
    pub(crate) exists: bool,
    /// Deployments that the tenant wrote itself.
    pub(crate) deployments: BTreeMap<String, Deployment>,
    pub(crate) workloads: BTreeMap<String, Workload>,
    /// Revision of each source of [`SOURCES`] that is there.
    pub(crate) sources: BTreeMap<(&'static str, &'static str), u64>,
}

/// What can vary in a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deployment {
    pub(crate) city: String,
    pub(crate) scale: u64,
    pub(crate) image: String,
    /// Whether its template names the sources.
    pub(crate) data: bool,
}

/// What can vary in a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) cities: Vec<&'static str>,
    pub(crate) scale: u64,
    pub(crate) image: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn container(template: &Value) -> &Value {
    &template["spec"]["runtime"]["sandbox"]["containers"][0]
}

impl Deployment {
    pub(crate) fn object(&self, name: &str) -> Value {
        let mut object = if self.data {
            deployment_with_data(name, &self.city, Some("settings"), Some("keys"), &["pull"])
        } else {
            deployment(name, &self.city)
        };
        let spec = &mut object["spec"];
        spec["scaleSettings"]["minReplicas"] = json!(self.scale);
        spec["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = json!(self.image);
        object
    }

    /// The merge patch that brings any other state to this one.
    pub(crate) fn patch(&self) -> Value {
        let mut spec = self.object("any")["spec"].take();
        if !self.data {
            let template = &mut spec["template"]["spec"];
            template["volumes"] = Value::Null;
            template["runtime"]["sandbox"]["imagePullSecrets"] = Value::Null;
        }
        json!({"spec": spec})
    }

    /// What a stored deployment's spec says.
    pub(crate) fn read(spec: &Value) -> Self {
        Self {
            city: text(&spec["cityCode"]),
            scale: spec["scaleSettings"]["minReplicas"].as_u64().unwrap_or_default(),
            image: text(&container(&spec["template"])["image"]),
            data: spec["template"]["spec"]["volumes"]
                .as_array()
                .is_some_and(|v| !v.is_empty()),
        }
    }
}

impl Workload {
    pub(crate) fn object(&self, name: &str) -> Value {
        let mut object = objects::workload(name, &self.cities);
        object["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(self.scale);
        object["spec"]["template"] = template();
        object["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
            json!(self.image);
        object
    }

    /// The deployments that it stands for.
    pub(crate) fn deployments(&self) -> impl Iterator<Item = Deployment> + '_ {
        self.cities.iter().map(|city| Deployment {
            city: (*city).to_owned(),
            scale: self.scale,
            image: self.image.clone(),
            data: false,
        })
    }

    /// What a stored Workload's spec says.
    pub(crate) fn read(spec: &Value) -> (Vec<String>, u64, String) {
        let placement = &spec["placements"][0];
        let cities = placement["cityCodes"].as_array();
        (
            cities.into_iter().flatten().map(text).collect(),
            placement["scaleSettings"]["minReplicas"]
                .as_u64()
                .unwrap_or_default(),
            text(&container(&spec["template"])["image"]),
        )
    }
}
