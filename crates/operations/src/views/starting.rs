//! The answers of a process whose role does not run yet, because a plane that it needs is being awaited.

use super::{header::Process, health};
use crate::{
    CellRow, Class, Flows, Header, JournalRow, NoAnswer, OperationsSource, Overview, PlaneRow, ProjectRow,
    RefusedProject, Rows, StuckGroup, StuckItem, Time, query::Query,
};
use fedgate_engine::{clock::Clock, metrics::PlaneKind};
use parking_lot::Mutex;

/// The answers before the role runs; see the module.
#[derive(Debug)]
pub struct Starting {
    process: Process,
    clock: Clock,
    /// The awaited plane's kind.
    plane: &'static str,
    awaited: Mutex<Option<Awaited>>,
}

/// Why the role does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Awaited {
    since: Time,
    error: String,
}

impl Starting {
    /// A process that checks a plane of this kind.
    pub fn new(process: Process, clock: Clock, plane: &'static str) -> Self {
        Self {
            process,
            clock,
            plane,
            awaited: Mutex::default(),
        }
    }

    /// Records the error of the last check; true if it is another one than before.
    pub fn failed(&self, error: &str) -> bool {
        let mut awaited = self.awaited.lock();
        let is_new = awaited.as_ref().is_none_or(|known| known.error != error);
        let since = awaited
            .as_ref()
            .map_or_else(|| Time(self.clock.now().wall), |known| known.since);
        *awaited = Some(Awaited {
            since,
            error: error.to_owned(),
        });
        is_new
    }

    /// The reason why the role does not run yet.
    pub fn reason(&self) -> String {
        let awaited = self.awaited.lock();
        awaited.as_ref().map_or_else(
            || format!("the {} is being checked", self.plane),
            |awaited| format!("the {} is awaited: {}", self.plane, awaited.error),
        )
    }

    /// An empty answer of a gateway, which will have projects and cells; a cell has neither.
    fn empty<T: Default>(&self) -> Result<T, NoAnswer> {
        match self.unserved() {
            NoAnswer::Starting(_) => Ok(T::default()),
            unserved => Err(unserved),
        }
    }

    fn group(&self) -> Option<StuckGroup> {
        let Awaited { since, error } = self.awaited.lock().clone()?;
        Some(StuckGroup {
            class: Class::Plane,
            plane: self.plane.to_owned(),
            word: "awaited".to_owned(),
            count: 1,
            oldest: Some(since),
            next: "check the address and the credential of the plane; the start goes on by itself".to_owned(),
            items: vec![StuckItem {
                kind: "planes".to_owned(),
                name: self.plane.to_owned(),
                since: Some(since),
                message: error,
                ..StuckItem::default()
            }],
        })
    }
}

impl OperationsSource for Starting {
    fn header(&self) -> Header {
        Header {
            as_of: Time(self.clock.now().wall),
            complete: false,
            missing: vec![self.plane.to_owned()],
            replica: self.process.replica(None),
        }
    }

    fn overview(&self) -> Overview {
        Overview {
            health: health::of(self.group().as_slice(), false),
            ..Overview::default()
        }
    }

    fn planes(&self, _: &Query) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        Default::default()
    }

    fn stuck(&self, query: &Query) -> Rows<StuckGroup> {
        let wanted = |group: &StuckGroup| query.class.is_none_or(|class| class == group.class);
        Rows {
            items: self.group().into_iter().filter(wanted).collect(),
            ..Rows::default()
        }
    }

    fn unserved(&self) -> NoAnswer {
        if self.plane == PlaneKind::Cell.as_str() {
            return NoAnswer::NotServed;
        }
        NoAnswer::Starting(self.reason())
    }

    fn journal(&self, _: &Query) -> Rows<JournalRow> {
        Rows::default()
    }

    fn projects(&self, _: &Query) -> Result<Rows<ProjectRow>, NoAnswer> {
        self.empty()
    }

    fn cells(&self, _: &Query) -> Result<Rows<CellRow>, NoAnswer> {
        self.empty()
    }

    fn flows(&self, _: &Query) -> Result<Flows, NoAnswer> {
        self.empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HealthState;
    use crate::ReplicaRole;
    use fedgate_engine::metrics::Build;

    #[test]
    fn a_start_that_waits_says_for_whom_and_since_when() {
        let process = Process {
            identity: "gateway-1".to_owned(),
            build: Build {
                version: "1",
                revision: "r",
                rustc: "c",
            },
            started: Time::from_second(1),
        };
        let starting = Starting::new(process, Clock::fixed(jiff::Timestamp::UNIX_EPOCH), "hub");
        assert_eq!(starting.overview().health.state, HealthState::Syncing);
        assert_eq!(starting.reason(), "the hub is being checked");
        assert!(starting.failed("refused"), "a new error is worth a line");
        assert!(!starting.failed("refused"));
        let health = starting.overview().health;
        assert_eq!(
            (health.state, health.reasons[0].word.as_str()),
            (HealthState::Degraded, "awaited")
        );
        assert_eq!(starting.reason(), "the hub is awaited: refused");
        let header = starting.header();
        assert_eq!(
            (header.complete, header.replica.role),
            (false, ReplicaRole::Standby)
        );
        let stuck = starting.stuck(&Query::default());
        assert_eq!(stuck.items[0].items[0].message, "refused");
    }
}
