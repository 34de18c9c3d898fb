//! The cell's own part of the metrics, of `/debug/planes` and of the operations API: its deployments and Instances, and those
//! that are stuck (contract: operations.md §2.2).

use super::{
    Cell,
    conditions::UNPLACED,
    context::Shared,
    index::{CellIndex, tables::TableId},
};
use fedgate_api::{
    Condition, ConditionStatus, Reason,
    conditions::types::{PROGRAMMED, READY},
};
use fedgate_engine::{
    clock::Now,
    key::Key,
    metrics::{Family, Gauges, Holder},
    runtime::Runtime,
};
use fedgate_operations::{
    Class, Deletions, Deployments, Instances, Overview, StuckItem, Time,
    views::{
        role::Answering,
        stuck::{Found, Naming, is_older},
    },
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A deletion is shown after this time.
const DELETING: Duration = Duration::from_mins(15);

impl Answering for Cell {
    fn next_step(class: Class, plane: &str, word: &str) -> String {
        match class {
            Class::Right => {
                format!("apply manifests/{plane} on this plane and bind its roles: {word} is denied")
            }
            Class::Plane => {
                "check the address and the credential of the plane, the network and the API server itself"
                    .to_owned()
            }
            Class::Waiting if plane == "cell" => {
                "add nodes with room to the cell, or uncordon some: kubectl get nodes at the cell".to_owned()
            }
            Class::Unavailable => {
                "the message says what its template lacks; its tenant corrects that".to_owned()
            }
            Class::Deleting => "see its finalizers: kubectl get instances -o yaml at the cell".to_owned(),
            _ => "see the log of the cell program for the key".to_owned(),
        }
    }

    fn add_stuck(cell: &Runtime<Self>, stuck_for: Duration, naming: Naming<'_>, found: &mut Vec<Found>) {
        let now = cell.shared.now();
        let index = cell.shared.read_index(Holder::Operations);
        let (old, unserving) = (deleting(&index, now), unserving(&index, stuck_for, now));
        drop(index);
        let mut add = |key: &Key, class, word: String, since, message: String| {
            let item = StuckItem {
                since: Some(since),
                message,
                ..naming(key)
            };
            found.push(Found::new(class, "cell", word, item));
        };
        for (key, since) in old {
            add(&key, Class::Deleting, "Deleting".to_owned(), since, String::new());
        }
        for (key, class, said) in unserving {
            let since = Time(said.last_transition_time.0);
            add(&key, class, said.reason, since, said.message);
        }
    }

    fn sum_up(cell: &Runtime<Self>, overview: &mut Overview) {
        let index = cell.shared.read_index(Holder::Operations);
        overview.deployments = Deployments {
            total: index.deployments.len(),
            ..Deployments::default()
        };
        overview.instances = instances(&index);
        let deletions = || index.instances.iter().filter_map(|(_, row)| row.digest.deleted);
        overview.deletions = Deletions {
            pending: deletions().count(),
            oldest: deletions().min().map(Time),
        };
    }
}

/// The Instances that the cell cannot place, which its operator has to correct, and those that cannot run as they are specified.
fn unserving(index: &CellIndex, stuck_for: Duration, now: Now) -> Vec<(Key, Class, Condition)> {
    let rows = index.instances.iter().filter(|(_, row)| !row.deleting);
    let found = rows.filter_map(|((namespace, name), row)| {
        let said = row
            .digest
            .condition(PROGRAMMED)
            .filter(|c| c.status != ConditionStatus::True)?;
        let class = if said.message.starts_with(UNPLACED) {
            Class::Waiting
        } else if said.priority() >= Reason::ConfigurationError.priority().unwrap_or(u8::MAX) {
            Class::Unavailable
        } else {
            return None;
        };
        let is_old = is_older(Some(Time(said.last_transition_time.0)), stuck_for, now);
        is_old.then(|| (TableId::Instances.key(namespace, name), class, said.clone()))
    });
    found.collect()
}

/// The Instances whose deletion lasts.
fn deleting(index: &CellIndex, now: Now) -> Vec<(Key, Time)> {
    let old = index.instances.iter().filter_map(|((namespace, name), row)| {
        let since = Time(row.digest.deleted?);
        is_older(Some(since), DELETING, now).then(|| (TableId::Instances.key(namespace, name), since))
    });
    old.collect()
}

/// The Instances of the cell.
fn instances(index: &CellIndex) -> Instances {
    let specs = index
        .deployments
        .iter()
        .filter_map(|(_, row)| row.digest.spec.as_ref().ok());
    let mut sums = Instances {
        desired: specs.filter_map(|spec| spec.replicas).map(u64::from).sum(),
        ..Instances::default()
    };
    for (_, row) in index.instances.iter() {
        sums.existing += 1;
        sums.ready += u64::from(row.digest.is(READY));
        sums.updated += u64::from(row.digest.hash.is_some() && row.digest.hash == row.digest.applied);
    }
    sums
}

/// Adds the cell's gauges.
pub(super) fn gauges(shared: &Shared, into: &mut Gauges) {
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
    for since in index.instances.iter().filter_map(|(_, row)| row.digest.deleted) {
        into.add(Family::PendingDeletions, &[], 1_usize);
        into.raise(Family::OldestPendingDeletion, &[], now.since_wall(since));
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
