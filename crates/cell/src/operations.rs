//! The cell's answers to the operations API: its planes, what is stuck here, and its last writes (contract: operations.md
//! §2.2).

use super::{
    Cell,
    conditions::UNPLACED,
    index::{CellIndex, tables::TableId},
};
use fedgate_api::{
    Condition, ConditionStatus,
    conditions::{
        find,
        types::{PROGRAMMED, READY},
    },
};
use fedgate_engine::metrics::Holder;
use fedgate_engine::{
    clock::Now,
    key::Key,
    runtime::{Runtime, role::Role},
};
use fedgate_operations::views::{
    header::{self, Process},
    health, journal, planes,
    stuck::{self as views, Found, is_older},
};
use fedgate_operations::{
    Class, Deletions, Deployments, Header, HubSummary, Instances, JournalRow, OperationsSource, Overview,
    PlaneRow, RefusedProject, Rows, StuckGroup, StuckItem, Time,
    query::{JournalQuery, PlanesQuery, STUCK_FOR, StuckQuery},
};
use std::{sync::Arc, time::Duration};

/// A deletion is shown after this time.
const DELETING: Duration = Duration::from_mins(15);

/// The cell's answers; see the module.
pub struct Operations {
    cell: Arc<Runtime<Cell>>,
    process: Process,
}

impl Operations {
    /// The answers of a running cell.
    pub fn new(cell: Arc<Runtime<Cell>>, process: Process) -> Self {
        Self { cell, process }
    }

    /// The object of a key as its tenant knows it, as far as the cell knows its project.
    fn naming(&self, key: &Key) -> StuckItem {
        let plural = key.kind.as_str().split('.').next().unwrap_or_default();
        let project = self.cell.role.project(&self.cell.shared, key);
        views::item(
            key,
            project.as_ref().map(fedgate_api::names::ProjectKey::as_str),
            &key.namespace,
            plural,
        )
    }

    fn found(&self, stuck_for: Duration) -> Vec<Found> {
        let mut found = views::of_runtime(&self.cell, &self.cell.survey(), stuck_for, &|key| {
            self.naming(key)
        });
        let now = self.cell.shared.now();
        let old: Vec<(Key, Time)> = deleting(&self.cell.shared.read_index(Holder::Operations), now);
        for (key, since) in old {
            found.push(Found {
                class: Class::Deleting,
                plane: "cell",
                word: "Deleting".to_owned(),
                item: StuckItem {
                    since: Some(since),
                    ..self.naming(&key)
                },
            });
        }
        let index = self.cell.shared.read_index(Holder::Operations);
        let unserving = unserving(&index, stuck_for, now);
        drop(index);
        for (key, class, said) in unserving {
            found.push(Found {
                class,
                plane: "cell",
                word: said.reason,
                item: StuckItem {
                    since: Some(Time(said.last_transition_time.0)),
                    message: said.message,
                    ..self.naming(&key)
                },
            });
        }
        found
    }
}

/// The Instances that the cell cannot place, which its operator mends, and those that cannot run as they are specified.
fn unserving(index: &CellIndex, stuck_for: Duration, now: Now) -> Vec<(Key, Class, Condition)> {
    let rows = index.instances.iter().filter(|(_, row)| !row.deleting);
    let found = rows.filter_map(|((namespace, name), row)| {
        let said = find(&row.digest.conditions, PROGRAMMED).filter(|c| c.status != ConditionStatus::True)?;
        let class = if said.message.starts_with(UNPLACED) {
            Class::Waiting
        } else if said.priority()
            >= fedgate_api::Reason::ConfigurationError
                .priority()
                .unwrap_or(u8::MAX)
        {
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
    let rows = index.instances.iter().filter(|(_, row)| row.deleting);
    let old = rows.filter_map(|((namespace, name), row)| {
        let since = Time(*index.deleted.get(&row.uid)?);
        is_older(Some(since), DELETING, now).then(|| (TableId::Instances.key(namespace, name), since))
    });
    old.collect()
}

/// The Instances of the cell.
pub(super) fn instances(index: &CellIndex) -> Instances {
    let is_ready = |conditions: &[_]| {
        find(conditions, READY).is_some_and(|condition| condition.status == ConditionStatus::True)
    };
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
        sums.ready += u64::from(is_ready(&row.digest.conditions));
        sums.updated += u64::from(row.digest.hash.is_some() && row.digest.hash == row.digest.applied);
    }
    sums
}

/// The next step for a class, a kind of plane, and a word.
fn next_step(class: Class, plane: &str, word: &str) -> String {
    match class {
        Class::Right => format!("apply manifests/{plane} on this plane and bind its roles: {word} is denied"),
        Class::Plane => {
            "check the address and the credential of the plane, the network and the API server itself"
                .to_owned()
        }
        Class::Waiting if plane == "cell" => {
            "add nodes with room to the cell, or uncordon some: kubectl get nodes at the cell".to_owned()
        }
        Class::Unavailable => "the message says what its template lacks; its tenant corrects that".to_owned(),
        Class::Deleting => "see its finalizers: kubectl get instances -o yaml at the cell".to_owned(),
        _ => "see the log of the cell program for the key".to_owned(),
    }
}

impl OperationsSource for Operations {
    fn header(&self) -> Header {
        header::header(&self.cell, &self.process)
    }

    fn overview(&self) -> Overview {
        let runtime = &self.cell;
        let found = self.found(STUCK_FOR);
        let stuck = views::counts(&found);
        let groups = views::groups(found, &StuckQuery::default(), next_step);
        let complete = runtime.syncing(1).is_empty();
        let now = runtime.shared.now();
        let hub = runtime.plane_reports(&[fedgate_engine::key::Plane::Hub]).pop();
        let index = runtime.shared.read_index(Holder::Operations);
        let oldest = index.deleted.values().min().copied().map(Time);
        Overview {
            health: health::of(&groups, complete),
            hub: hub.map(|report| HubSummary {
                state: planes::state(report.state),
                since: None,
                last_event: report
                    .idle
                    .map(|idle| fedgate_operations::views::before(now, idle)),
                credential_ends: report.expiry.map(|expiry| Time::from_second(expiry.at)),
            }),
            deployments: Deployments {
                total: index.deployments.len(),
                ..Deployments::default()
            },
            instances: instances(&index),
            stuck,
            deletions: Deletions {
                pending: index.deleted.len(),
                oldest,
            },
            ..header::overview(runtime)
        }
    }

    fn planes(&self, query: &PlanesQuery) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        planes::rows(&self.cell, query)
    }

    fn stuck(&self, query: &StuckQuery) -> Rows<StuckGroup> {
        let found = self.found(query.stuck_for);
        views::page(views::groups(found, query, next_step), query)
    }

    fn journal(&self, query: &JournalQuery) -> Rows<JournalRow> {
        let entries = self.cell.shared.executor.journal().entries();
        let owner = |key: &Key| {
            let project = self.cell.role.project(&self.cell.shared, key)?;
            Some((project, key.namespace.clone()))
        };
        journal::rows(&entries, query, owner)
    }
}
