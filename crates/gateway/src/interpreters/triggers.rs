//! Triggers of interpreters: those that a change of the index concerns.

use crate::index::{GatewayIndex, TableId, change::Change};
use fedgate_engine::key::Key;

/// Adds the key of an interpreter that has changed.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    if let Change::Interpreter { name } = change {
        keys.push(index.hub_key(TableId::Interpreters, "", name));
    }
}
