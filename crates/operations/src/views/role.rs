//! The answers of a role without projects of its own: those that its runtime gives, and those that the role adds.

use super::{
    before,
    header::{self, Process},
    health, journal, planes,
    stuck::{self, Found, Naming},
};
use crate::{
    Class, Header, HubSummary, JournalRow, OperationsSource, Overview, PlaneRow, RefusedProject, Rows,
    StuckGroup, Time,
    query::{Query, STUCK_FOR},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    key::{Key, Plane},
    runtime::{Runtime, role::Role},
};
use std::{sync::Arc, time::Duration};

/// The part of the answers that a role adds.
pub trait Answering: Role {
    /// The next step for a class, a kind of plane, and a word.
    fn next_step(class: Class, plane: &str, word: &str) -> String;

    /// Adds stuck objects of which the runtime does not know.
    fn add_stuck(_: &Runtime<Self>, _stuck_for: Duration, _: Naming<'_>, _: &mut Vec<Found>) {}

    /// Fills in the sums of the role's objects.
    fn sum_up(_: &Runtime<Self>, _: &mut Overview) {}
}

/// The answers of a running role; see the module.
pub struct Operations<R: Role> {
    runtime: Arc<Runtime<R>>,
    process: Process,
}

impl<R: Answering> Operations<R> {
    /// The answers of a running role.
    pub fn new(runtime: Arc<Runtime<R>>, process: Process) -> Self {
        Self { runtime, process }
    }

    fn found(&self, stuck_for: Duration) -> Vec<Found> {
        let naming = |key: &Key| {
            let plural = key.kind.as_str().split('.').next().unwrap_or_default();
            let project = self.runtime.role.project(&self.runtime.shared, key);
            let project = project.as_ref().map(ProjectKey::as_str);
            stuck::item(key, project, &key.namespace, plural)
        };
        let mut found = stuck::of_runtime(&self.runtime, &self.runtime.survey(), stuck_for, &naming);
        R::add_stuck(&self.runtime, stuck_for, &naming, &mut found);
        found
    }
}

impl<R: Answering> OperationsSource for Operations<R> {
    fn header(&self) -> Header {
        header::header(&self.runtime, &self.process)
    }

    fn overview(&self) -> Overview {
        let runtime = &*self.runtime;
        let found = self.found(STUCK_FOR);
        let counts = stuck::counts(&found);
        let groups = stuck::groups(found, &Query::default(), R::next_step);
        let complete = runtime.syncing(1).is_empty();
        let now = runtime.shared.now();
        let hub = runtime.plane_reports(&[Plane::Hub]).pop();
        let mut overview = Overview {
            health: health::of(&groups, complete),
            hub: hub.map(|report| HubSummary {
                state: planes::state(report.state),
                since: None,
                last_event: report.idle.map(|idle| before(now, idle)),
                credential_ends: report.expiry.map(|expiry| Time::from_second(expiry.at)),
            }),
            stuck: counts,
            ..header::overview(runtime)
        };
        R::sum_up(runtime, &mut overview);
        overview
    }

    fn planes(&self, query: &Query) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        planes::rows(&self.runtime, query)
    }

    fn stuck(&self, query: &Query) -> Rows<StuckGroup> {
        let found = self.found(query.stuck_for.unwrap_or(STUCK_FOR));
        stuck::page(stuck::groups(found, query, R::next_step), query)
    }

    fn journal(&self, query: &Query) -> Rows<JournalRow> {
        let entries = self.runtime.shared.executor.journal().entries();
        journal::rows(&entries, query, |_| None)
    }
}
