//! Triggers of the provider: the Instances whose Pods a change of the index concerns.

use crate::index::{CellIndex, change::Change, tables::TableId};
use fedgate_engine::key::Key;

/// Adds the keys of the Pods whose decisions may depend on a change.
pub fn triggers(index: &CellIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        Change::Pod((namespace, name)) => keys.push(TableId::Pods.key(namespace, name)),
        Change::Instance {
            name: (namespace, name),
            ..
        } if index.watches_pods() => keys.push(TableId::Pods.key(namespace, name)),
        _ => {}
    }
}
