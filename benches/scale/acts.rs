//! What tenants, Karmada and cells do on the planes.

use super::{
    objects,
    planes::{DEPLOYMENTS, NAMESPACE, Planes, failed, until},
};
use anyhow::{Context, Result};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::ops::Range;

const COMPUTE: &str = "compute.datumapis.com/v1alpha";

/// A text of `metadata`; empty if it is not there.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// A tenant creates a deployment; it as it is kept.
pub(crate) fn deploy(project: &Plane, name: &str) -> Result<Value> {
    let mut object = objects::deployment(name, "DFW", None);
    object["apiVersion"] = json!(COMPUTE);
    object["kind"] = json!("WorkloadDeployment");
    object["metadata"]["namespace"] = json!(NAMESPACE);
    project.create(object).map_err(failed)
}

/// The same with a spec of so many bytes.
pub(crate) fn deploy_large(project: &Plane, name: &str, bytes: usize) -> Result<()> {
    let mut object = objects::deployment(name, "DFW", None);
    object["apiVersion"] = json!(COMPUTE);
    object["kind"] = json!("WorkloadDeployment");
    object["metadata"]["namespace"] = json!(NAMESPACE);
    let container = &mut object["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
    container["env"] = json!([{"name": "DATA", "value": "x".repeat(bytes)}]);
    project.create(object).map_err(failed).map(drop)
}

/// A tenant changes the spec of a deployment.
pub(crate) fn edit(project: &Plane, name: &str, replicas: usize) -> Result<()> {
    let patch = json!({"spec": {"scaleSettings": {"minReplicas": replicas}}});
    project
        .merge(DEPLOYMENTS, NAMESPACE, name, patch)
        .map_err(failed)
        .map(drop)
}

/// Name of a deployment of [`Planes::fill`].
pub(crate) fn filled(n: usize) -> String {
    format!("web-{n}")
}

impl Planes {
    /// Deployments in these projects, in turn; answers once all have their copies.
    pub(crate) async fn fill(&self, homes: Range<usize>, numbers: Range<usize>) -> Result<()> {
        let wanted = self.copies() + numbers.len();
        for n in numbers {
            let home = homes.start + n % homes.len();
            deploy(&self.projects[home], &filled(n))?;
            if n % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        until("every deployment has its copy", || self.copies() >= wanted).await
    }

    /// So many deployments in so many projects, bound and reported; answers once all is returned.
    pub(crate) async fn deploy_all(&self, homes: usize, count: usize) -> Result<()> {
        self.fill(0..homes, 0..count).await?;
        self.bind()?;
        self.quiet().await
    }

    /// Three Instances of each deployment; answers with their number once all are projected.
    pub(crate) async fn project_instances(&self) -> Result<usize> {
        let instances = self.write_back(3)?;
        until("every Instance is projected", || self.projections() >= instances).await?;
        self.quiet().await?;
        Ok(instances)
    }

    /// Karmada binds every copy that it has not bound yet, and the cell reports.
    pub(crate) fn bind(&self) -> Result<()> {
        for copy in self.hub.list(DEPLOYMENTS) {
            let (namespace, name) = (text(&copy, "namespace"), text(&copy, "name"));
            let bound = objects::binding_name(name);
            if self.hub.get("resourcebindings", namespace, &bound).is_some() {
                continue;
            }
            let (mut binding, status) = objects::binding(namespace, name, text(&copy, "uid"));
            binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
            binding["kind"] = json!("ResourceBinding");
            binding["metadata"]["namespace"] = json!(namespace);
            self.hub.create(binding).map_err(failed)?;
            let status = json!({"status": status});
            self.hub
                .merge_status("resourcebindings", namespace, &bound, status)
                .map_err(failed)?;
            self.report(namespace, name, 1)?;
        }
        Ok(())
    }

    /// The cell reports so many ready instances of a copy.
    pub(crate) fn report(&self, namespace: &str, name: &str, ready: u32) -> Result<()> {
        let status = json!({"status": objects::report(ready)});
        self.hub
            .merge_status(DEPLOYMENTS, namespace, name, status)
            .map_err(failed)
            .map(drop)
    }

    /// The cell writes back so many Instances for every copy.
    pub(crate) fn write_back(&self, each: usize) -> Result<usize> {
        (0..each).map(|number| self.write_back_number(number)).sum()
    }

    /// The cell writes back the Instance of this number for every copy.
    pub(crate) fn write_back_number(&self, number: usize) -> Result<usize> {
        let copies = self.hub.list(DEPLOYMENTS);
        for copy in &copies {
            let (namespace, deployment) = (text(copy, "namespace"), text(copy, "name"));
            let owner = self
                .hub
                .get("namespaces", "", namespace)
                .context("a copy has no Namespace")?;
            let cluster = owner["metadata"]["labels"][keys::UPSTREAM_CLUSTER]
                .as_str()
                .unwrap_or_default();
            let key = ProjectKey::parse(cluster.strip_prefix("cluster-").unwrap_or_default())?;
            let name = format!("{deployment}-{number}");
            let mut object = objects::write_back(&key, NAMESPACE, deployment, text(copy, "uid"), &name);
            object["apiVersion"] = json!(COMPUTE);
            object["kind"] = json!("Instance");
            object["metadata"]["namespace"] = json!(namespace);
            self.hub.create(object).map_err(failed)?;
            let status = json!({"status": objects::instance_status(true)});
            self.hub
                .merge_status("instances", namespace, &name, status)
                .map_err(failed)?;
        }
        Ok(copies.len())
    }
}
