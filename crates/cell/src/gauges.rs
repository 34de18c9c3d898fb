//! The cell's own part of the metrics and of `/debug/planes`.

use super::{
    context::Shared,
    index::{CellIndex, tables::TableId},
    operations::instances,
};
use fedgate_engine::metrics::{Family, Gauges, Holder};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Adds the cell's gauges.
pub(super) fn collect(shared: &Shared, into: &mut Gauges) {
    let index = &*shared.read_index(Holder::Metrics);
    for (plane, engaged) in shared.planes.lock().iter() {
        let tables = engaged.watches.iter().map(|(table, _)| *table);
        for table in tables.filter(|table| *table != TableId::Claims) {
            let plural = table.resource().plural;
            into.set(Family::CachedObjects, &[plane.kind(), &plural], index.len(table));
        }
    }
    let claims = TableId::Claims;
    let plural = claims.resource().plural;
    into.set(Family::CachedObjects, &["project", &plural], index.len(claims));
    let now = shared.now();
    for (_, row) in index.instances.iter().filter(|(_, row)| row.deleting) {
        into.add(Family::PendingDeletions, &[], 1_usize);
        let age = index
            .deleted
            .get(&row.uid)
            .map_or(Duration::ZERO, |since| now.since_wall(*since));
        into.raise(Family::OldestPendingDeletion, &[], age);
    }
    if shared.settings.quota {
        into.set(Family::QuotaUnverified, &[], index.unverified());
    }
    let instances = instances(index);
    for (state, count) in [
        ("desired", instances.desired),
        ("existing", instances.existing),
        ("ready", instances.ready),
        ("updated", instances.updated),
    ] {
        into.set(Family::ReportedInstances, &[state], count);
    }
    let records: usize = index.releases.iter().map(|(_, row)| row.digest.len()).sum();
    into.set(Family::ReleaseRecords, &[], records);
}

/// The cell's part of `/debug/planes`.
pub(super) fn describe(index: &CellIndex) -> Map<String, Value> {
    let located = json!(format!("{:?}", index.located()));
    [("located".to_owned(), located)].into_iter().collect()
}
