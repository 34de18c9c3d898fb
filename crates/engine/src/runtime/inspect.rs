//! The state of a runtime for people and machines: its planes, and which of their first lists are missing. Answered from
//! memory; the index is locked for a slice of planes at a time.

use super::{
    Runtime,
    index::{Defect, Index, Watches},
    plane_states::{Known, Seen},
    planes::EngagedPlane,
    role::{IndexOf, Role},
};
use crate::{
    executor::permissions::Permission, key::Plane, metrics::Holder, plane::kubeconfig::Expiry,
    random::HashMap,
};
use parking_lot::MutexGuard;
use std::{collections::BTreeMap, time::Duration};

/// Maximum number of rows that are read under one lock of the index.
pub const SLICE: usize = 256;

crate::words! {
    /// State of a plane.
    pub enum PlaneState {
        /// A watch or a required permission is forbidden.
        Unauthorized = "unauthorized",
        /// A watch fails, or the plane has a [`Defect`].
        Backoff = "backoff",
        /// First lists are read.
        Syncing = "syncing",
        /// All watches run.
        Connected = "connected",
    }
}

/// The engaged planes as a whole.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Number of planes by kind and state.
    pub states: BTreeMap<(&'static str, PlaneState), usize>,
    /// The planes that forbid a watch which they must allow, in order.
    pub forbidding: Vec<Plane>,
    /// The planes that cannot be worked with although they answer, in order.
    pub defects: Vec<(Plane, Defect)>,
}

/// A plane and its watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneReport {
    /// The plane.
    pub plane: Plane,
    /// State of the plane.
    pub state: PlaneState,
    /// Time since it was engaged.
    pub engaged: Duration,
    /// Time since the last event of a watch; `None` without watches.
    pub idle: Option<Duration>,
    /// True if it answers neither watches nor calls.
    pub is_down: bool,
    /// The end of its credential, if that is known.
    pub expiry: Option<Expiry>,
    /// The permissions that it denies.
    pub missing: Vec<String>,
    /// Why it cannot be worked with, although it answers.
    pub defect: Option<Defect>,
    /// Watches of the plane.
    pub watches: Vec<WatchReport>,
}

/// A watch of a plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchReport {
    /// The resource and its group.
    pub kind: String,
    /// True once its first list is complete.
    pub synced: bool,
    /// True if the plane forbids it.
    pub forbidden: bool,
    /// Number of its failures.
    pub restarts: u64,
    /// The present error, its cause in a word, and the operator's next step.
    pub error: Option<(String, &'static str, Option<String>)>,
}

impl<R: Role> Runtime<R> {
    /// The engaged planes, the hub first, then by name.
    pub fn engaged(&self) -> Vec<Plane> {
        let mut planes: Vec<Plane> = self.shared.planes.lock().keys().cloned().collect();
        planes.sort_unstable();
        planes
    }

    /// The engaged planes as a whole. Only those whose state may have changed since the last survey are read.
    pub fn survey(&self) -> Survey {
        self.surveyed().survey()
    }

    /// The planes as they are now; another survey waits while this is held.
    fn surveyed(&self) -> MutexGuard<'_, Known> {
        let denying = self.shared.executor.missing_rights();
        let denying = denying.into_iter().map(|right| right.plane).collect();
        let states = &self.shared.planes.states;
        let (planes, mut known) = states.begin(|| self.engaged(), denying);
        let read = self.each_plane(Holder::Operations, &planes, |index, plane, engaged, missing| {
            let seen = Seen {
                state: state_of::<R>(index, plane, &engaged.watches, missing),
                forbids: forbids::<R>(&engaged.watches),
                defect: index.defect(plane),
                ends: engaged.connection.current().expiry().map(|expiry| expiry.at),
            };
            (plane.clone(), seen)
        });
        for plane in &planes {
            known.take(plane, None);
        }
        for (plane, seen) in read {
            known.take(&plane, Some(&seen));
        }
        known
    }

    /// The state of each of these planes that is engaged.
    pub fn plane_states(&self, planes: &[Plane]) -> Vec<(Plane, PlaneState)> {
        self.each_plane(Holder::Operations, planes, |index, plane, engaged, missing| {
            (
                plane.clone(),
                state_of::<R>(index, plane, &engaged.watches, missing),
            )
        })
    }

    /// A report on each of these planes that is engaged.
    pub fn plane_reports(&self, planes: &[Plane]) -> Vec<PlaneReport> {
        self.each_plane(Holder::Operations, planes, |index, plane, engaged, missing| {
            PlaneReport {
                plane: plane.clone(),
                state: state_of::<R>(index, plane, &engaged.watches, missing),
                engaged: engaged.since.elapsed(),
                idle: engaged.watches.iter().map(|(_, status)| status.idle_time()).min(),
                is_down: engaged.connection.health().is_down(),
                expiry: engaged.connection.current().expiry(),
                missing: missing.iter().map(ToString::to_string).collect(),
                defect: index.defect(plane),
                watches: engaged
                    .watches
                    .iter()
                    .map(|(table, status)| WatchReport {
                        kind: index.kind_of(*table).as_str().to_owned(),
                        synced: status.synced(),
                        forbidden: status.forbidden(),
                        restarts: status.restarts(),
                        error: status.failure(plane),
                    })
                    .collect(),
            }
        })
    }

    /// At most `limit` of the planes whose first lists are not complete, the hub first, then by name.
    pub fn syncing(&self, limit: usize) -> Vec<Plane> {
        self.surveyed().syncing().take(limit).cloned().collect()
    }

    /// The planes whose credential has ended at this time in seconds since the epoch, with the end; the oldest first.
    pub fn expired(&self, now: i64) -> Vec<(Plane, i64)> {
        let known = self.surveyed();
        let all = known.expired(now);
        all.map(|(plane, end)| (plane.clone(), end)).collect()
    }

    /// Reads those of these planes that are engaged, with the permissions that each denies. The index is locked for a
    /// slice of them at a time.
    pub(super) fn each_plane<T>(
        &self,
        holder: Holder,
        planes: &[Plane],
        mut report: impl FnMut(&IndexOf<R>, &Plane, &EngagedPlane<TableOf<R>>, &[Permission]) -> T,
    ) -> Vec<T> {
        let mut missing: HashMap<Plane, Vec<Permission>> = HashMap::default();
        for right in self.shared.executor.missing_rights() {
            missing.entry(right.plane.clone()).or_default().push(right);
        }
        let mut reports = Vec::with_capacity(planes.len());
        for slice in planes.chunks(SLICE) {
            let index = self.shared.read_index(holder);
            let engaged = self.shared.planes.lock();
            let found = slice
                .iter()
                .filter_map(|plane| Some((plane, engaged.get(plane)?)));
            reports.extend(found.map(|(plane, engaged)| {
                let denied = missing.get(plane).map_or(&[][..], Vec::as_slice);
                report(&index, plane, engaged, denied)
            }));
        }
        reports
    }
}

type TableOf<R> = <IndexOf<R> as Index>::TableId;

/// The state of a plane; `missing` are the permissions that it denies.
pub(super) fn state_of<R: Role>(
    index: &IndexOf<R>,
    plane: &Plane,
    watches: &Watches<TableOf<R>>,
    missing: &[Permission],
) -> PlaneState {
    if forbids::<R>(watches) || !missing.is_empty() {
        PlaneState::Unauthorized
    } else if any_fails(watches) || index.defect(plane).is_some() {
        PlaneState::Backoff
    } else if index.is_connected(plane, watches) {
        PlaneState::Connected
    } else {
        PlaneState::Syncing
    }
}

/// True if a watch fails that is not forbidden.
pub(super) fn any_fails<T>(watches: &Watches<T>) -> bool {
    watches
        .iter()
        .any(|(_, status)| status.is_failing() && !status.forbidden())
}

fn forbids<R: Role>(watches: &Watches<TableOf<R>>) -> bool {
    watches
        .iter()
        .any(|(table, status)| status.forbidden() && !IndexOf::<R>::is_optional(*table))
}
