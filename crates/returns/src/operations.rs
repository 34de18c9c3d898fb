//! The role's answers to the operations API: its planes, what is stuck here, and its last writes (contract: operations.md
//! §2.2).

use super::Returns;
use fedgate_engine::{
    key::{Key, Plane},
    runtime::Runtime,
};
use fedgate_operations::views::{
    header::{self, Process},
    health, journal, planes,
    stuck::{self as views, Found},
};
use fedgate_operations::{
    Class, Header, HubSummary, JournalRow, OperationsSource, Overview, PlaneRow, RefusedProject, Rows,
    StuckGroup, Time,
    query::{JournalQuery, PlanesQuery, STUCK_FOR, StuckQuery},
};
use std::{sync::Arc, time::Duration};

/// The answers; see the module.
pub struct Operations {
    returns: Arc<Runtime<Returns>>,
    process: Process,
}

impl Operations {
    /// The answers of a running role.
    pub fn new(returns: Arc<Runtime<Returns>>, process: Process) -> Self {
        Self { returns, process }
    }

    fn found(&self, stuck_for: Duration) -> Vec<Found> {
        let naming = |key: &Key| {
            let plural = key.kind.as_str().split('.').next().unwrap_or_default();
            views::item(key, None, &key.namespace, plural)
        };
        views::of_runtime(&self.returns, &self.returns.survey(), stuck_for, &naming)
    }
}

/// The next step for a class, a kind of plane, and a word.
fn next_step(class: Class, plane: &str, word: &str) -> String {
    match class {
        Class::Right => {
            let roles = if plane == "cell" { "member" } else { plane };
            format!(
                "apply the roles for {roles} that fedgate manifests --interpreters writes: {word} is denied"
            )
        }
        Class::Plane => {
            "check the address and the credential of the plane, the network and the API server itself"
                .to_owned()
        }
        _ => "see the log of fedgate returns for the key".to_owned(),
    }
}

impl OperationsSource for Operations {
    fn header(&self) -> Header {
        header::header(&self.returns, &self.process)
    }

    fn overview(&self) -> Overview {
        let runtime = &self.returns;
        let found = self.found(STUCK_FOR);
        let stuck = views::counts(&found);
        let groups = views::groups(found, &StuckQuery::default(), next_step);
        let complete = runtime.syncing(1).is_empty();
        let now = runtime.shared.now();
        let hub = runtime.plane_reports(&[Plane::Hub]).pop();
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
            stuck,
            ..header::overview(runtime)
        }
    }

    fn planes(&self, query: &PlanesQuery) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        planes::rows(&self.returns, query)
    }

    fn stuck(&self, query: &StuckQuery) -> Rows<StuckGroup> {
        let found = self.found(query.stuck_for);
        views::page(views::groups(found, query, next_step), query)
    }

    fn journal(&self, query: &JournalQuery) -> Rows<JournalRow> {
        let entries = self.returns.shared.executor.journal().entries();
        journal::rows(&entries, query, |_| None)
    }
}
