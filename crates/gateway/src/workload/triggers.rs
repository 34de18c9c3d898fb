//! Triggers of the Workload controller: the Workloads that a change of the index concerns.

use crate::index::{
    GatewayIndex, Project,
    change::{Change, SourceChange},
};
use fedgate_engine::key::Key;

/// Adds the keys of the Workloads whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        // Watches are not ordered: a Workload may appear before its namespace.
        Change::ProjectNamespace {
            project, namespace, ..
        } => {
            let of = index.projects.get(project).into_iter();
            let names = of.flat_map(|of| of.workloads.in_namespace(namespace));
            keys.extend(names.map(|(name, _)| index.workload_key(project, namespace, name)));
        }
        Change::Suspension { project } => keys.extend(index.workloads_naming(project, None)),
        Change::Source(source) if source.rollup => {
            if let Some(project) = index.projects.get(&source.project) {
                deployment_changed(index, project, source, keys);
            }
        }
        Change::Keys(_)
        | Change::Binding(_)
        | Change::CityPolicy { .. }
        | Change::Cluster { .. }
        | Change::Companion { .. }
        | Change::Copy { .. }
        | Change::HubNamespace { .. }
        | Change::Instance { .. }
        | Change::Payload { .. }
        | Change::Source(_) => {}
    }
}

/// The Workloads that control a deployment, and those that may wait for its name.
fn deployment_changed(index: &GatewayIndex, project: &Project, source: &SourceChange, keys: &mut Vec<Key>) {
    let SourceChange {
        project: of,
        namespace,
        name,
        ..
    } = source;
    for uid in &source.controllers {
        let controller = project.workloads_by_uid.get(uid);
        let controller = controller.filter(|(home, _)| home == namespace);
        keys.extend(controller.map(|(_, workload)| index.workload_key(of, namespace, workload)));
    }
    if source.gone {
        // A Workload whose name the deployment's name starts with may want a deployment of the same name.
        let beginnings = name.match_indices('-').map(|(end, _)| &name[..end]);
        let workloads = beginnings.filter(|start| project.workloads.get(namespace, start).is_some());
        keys.extend(workloads.map(|workload| index.workload_key(of, namespace, workload)));
    }
}
