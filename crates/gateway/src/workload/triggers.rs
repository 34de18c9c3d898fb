//! Triggers of the Workload controller: the Workloads that a change of the index concerns.

use crate::index::{
    GatewayIndex, Project,
    change::{Change, SourceChange},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::key::Key;
use std::{collections::BTreeSet, sync::Arc};

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
        Change::WorkloadChecks { project, names } => checked(index, project, names.as_ref(), keys),
        Change::Suspension { project } => checked(index, project, None, keys),
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
        | Change::PlaceFreed { .. }
        | Change::Source(_) => {}
    }
}

/// The Workloads of a project that name one of these cities or Networks; all without `names`.
fn checked(
    index: &GatewayIndex,
    project: &ProjectKey,
    names: Option<&BTreeSet<Arc<str>>>,
    keys: &mut Vec<Key>,
) {
    // A Workload's text holds each city and Network that it names as a JSON string. The same string elsewhere in the
    // text costs one reconcile without effect, and so does a Workload whose text is not kept.
    let quoted: Option<Vec<String>> = names.map(|names| {
        let quoted = names.iter().filter_map(|name| serde_json::to_string(name).ok());
        quoted.collect()
    });
    let concerned = |text: Option<&str>| match (&quoted, text) {
        (Some(names), Some(text)) => names.iter().any(|name| text.contains(name)),
        (None, _) | (_, None) => true,
    };
    let of = index.projects.get(project).into_iter();
    let workloads = of.flat_map(|of| of.workloads.iter());
    let concerned = workloads.filter(|(_, row)| concerned(row.digest.text()));
    keys.extend(concerned.map(|((namespace, name), _)| index.workload_key(project, namespace, name)));
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
