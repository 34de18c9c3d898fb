//! Memory of the Workloads of one project, each with an environment variable of some bytes.

use super::{
    fill::{Part, list, live, namespace, uid},
    objects,
};
use anyhow::Result;
use fedgate_api::names::ProjectKey;
use fedgate_gateway::index::{GatewayIndex, TableId, networking::WorkloadChecks};
use fedgate_kinds::FederatedKind;
use serde_json::{Value, json};
use std::sync::Arc;

fn workload(number: usize, bytes: usize) -> Value {
    let name = format!("storefront-{number}");
    let mut template = objects::deployment(&name, "DFW", None)["spec"]["template"].clone();
    template["spec"]["runtime"]["sandbox"]["containers"][0]["env"] =
        json!([{"name": "DATA", "value": "x".repeat(bytes)}]);
    json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload",
        "metadata": {"name": name, "namespace": "production", "uid": uid(3, number), "resourceVersion": "123456",
            "generation": 1, "finalizers": [fedgate_api::keys::WORKLOAD_FINALIZER]},
        "spec": {"template": template,
            "placements": [{"name": "main", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}]}})
}

/// Fills one project with Workloads of this size.
pub(crate) fn measure(name: &'static str, count: usize, bytes: usize) -> Result<Part> {
    let mut index = GatewayIndex::new(
        Arc::new(FederatedKind::builtin()?.into()),
        WorkloadChecks::default(),
    );
    let project = ProjectKey::parse("large")?;
    index.engage(project.clone());
    let system = namespace("kube-system", "u", &json!({}));
    let home = [system, namespace("production", "v", &json!({}))];
    list(home.into_iter(), |event| {
        index.project_event(&project, TableId::Namespaces, event)
    })?;
    let before = live()?;
    let workloads = (0..count).map(|number| workload(number, bytes));
    list(workloads, |event| {
        index.project_event(&project, TableId::Workloads, event)
    })?;
    let bytes = live()?.saturating_sub(before);
    Ok(Part { name, count, bytes })
}
