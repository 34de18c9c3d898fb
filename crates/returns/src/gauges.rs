//! The role's own part of the metrics.

use super::context::Shared;
use fedgate_engine::{
    metrics::{Family, Gauges, Holder},
    runtime::index::Index,
};

/// Adds the numbers of rows.
pub(super) fn collect(shared: &Shared, into: &mut Gauges) {
    let index = &*shared.read_index(Holder::Metrics);
    for (plane, engaged) in shared.planes.lock().iter() {
        for (table, _) in &engaged.watches {
            let labels = [plane.kind(), &index.plural(*table)];
            into.set(Family::CachedObjects, &labels, index.len(*table));
        }
    }
}
