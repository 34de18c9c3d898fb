//! Triggers of deployments: those that a change of the index concerns.

use crate::index::{CellIndex, change::Change, tables::TableId};
use fedgate_engine::key::Key;

/// Adds the keys of the deployments whose decisions may depend on a change.
pub fn triggers(index: &CellIndex, change: &Change, keys: &mut Vec<Key>) {
    let key = |namespace: &str, name: &str| TableId::Deployments.key(namespace, name);
    match change {
        Change::Deployment {
            name: (namespace, name),
            ..
        } => keys.push(key(namespace, name)),
        // Whether rolling updates are held depends on the project.
        Change::Namespace(namespace) => {
            let names = index.deployments.in_namespace(namespace);
            keys.extend(names.map(|(name, _)| key(namespace, name)));
        }
        Change::Instance {
            name: (namespace, _),
            deployments,
        } => {
            let names = deployments.iter();
            let existing = names.filter(|name| index.deployments.get(namespace, name).is_some());
            keys.extend(existing.map(|name| key(namespace, name)));
        }
        Change::Location => {
            let all = index.deployments.iter();
            keys.extend(all.map(|((namespace, name), _)| key(namespace, name)));
        }
        Change::Network(deployments) => {
            keys.extend(deployments.iter().map(|(namespace, name)| key(namespace, name)));
        }
        // Rolling updates of this project may wait for this list.
        Change::ClaimsListed(project) => keys.extend(index.deployments_of_project(project)),
        _ => {}
    }
}
