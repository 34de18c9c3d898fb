//! Triggers of release records: those that a change of the index concerns.

use crate::index::{CellIndex, change::Change, tables::TableId};
use fedgate_engine::key::Key;

/// Adds the key of a release record that has changed.
pub fn triggers(_: &CellIndex, change: &Change, keys: &mut Vec<Key>) {
    if let Change::Release((namespace, name)) = change {
        keys.push(TableId::Releases.key(namespace, name));
    }
}
