//! The role's own part of the metrics.

use super::context::Shared;
use fedgate_engine::{
    metrics::{Gauges, Holder},
    runtime::index::Index,
};

/// Adds the numbers of rows.
pub(super) fn collect(shared: &Shared, into: &mut Gauges) {
    let index = &*shared.read_index(Holder::Metrics);
    for (plane, engaged) in shared.planes.lock().iter() {
        for (table, _) in &engaged.watches {
            into.cached
                .insert((plane.kind(), index.plural(*table)), index.len(*table));
        }
    }
}
