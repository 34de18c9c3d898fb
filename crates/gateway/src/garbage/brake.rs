//! The brake: if most copies of a project appear to have lost their origin, the likely cause is an error of the gateway
//! or of a plane, so no copy is deleted. Values only.
//!
//! Each project has its own brake, so that one project cannot delay another; a second brake covers the whole hub. A
//! project that its own brake holds does not count for the hub's, because none of its copies is deleted anyway.

use fedgate_engine::{clock::Now, key::Key, random::HashMap, shrink::shrink_if_sparse};
use std::{
    collections::{BTreeSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Maximum age of a count of all copies while a decision depends on it.
const CENSUS_AGE: Duration = Duration::from_secs(1);

/// Number of orphaned copies, and of all copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Orphans that count for the brakes.
    pub orphans: usize,
    /// All copies.
    pub total: usize,
}

impl Load {
    /// True if one project has too many orphans: more than ten, and more than a tenth of its copies.
    pub fn exceeds_project(self) -> bool {
        self.orphans > 10.max(self.total / 10)
    }

    /// True if the whole hub has too many orphans: more than fifty, and more than a fifth of all copies.
    pub fn exceeds_hub(self) -> bool {
        self.orphans > 50.max(self.total / 5)
    }
}

/// The brake that holds a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brake {
    /// The project's own brake.
    Project,
    /// The brake of the whole hub.
    Hub,
}

/// A count of all copies at one time, by project.
#[derive(Debug, Default)]
pub(super) struct Census(HashMap<Arc<str>, Load>);

impl Census {
    /// Counts a copy of a project; `orphan` is true if it is an orphan that counts for the brakes.
    pub(super) fn count(&mut self, project: &Arc<str>, orphan: bool) {
        let load = self.0.entry(project.clone()).or_default();
        load.total += 1;
        load.orphans += usize::from(orphan);
    }
}

/// Orphans that count for the brakes, and the brakes that hold.
#[derive(Debug, Default)]
pub(super) struct Brakes {
    /// The project of each orphan that counts and has been reconciled.
    counted: HashMap<Key, Arc<str>>,
    /// Number of these orphans by project.
    remembered: HashMap<Arc<str>, usize>,
    /// The last count of all copies: while the queue is long, many orphans have not been reconciled yet.
    census: Census,
    taken: Option<Instant>,
    held: BTreeSet<Arc<str>>,
    hub_held: bool,
}

impl Brakes {
    /// True if any brake holds.
    pub(super) fn hold(&self) -> bool {
        self.hub_held || !self.held.is_empty()
    }

    /// The projects whose brake holds, and `hub` if the hub's brake holds.
    pub(super) fn names(&self) -> Vec<&str> {
        let hub = self.hub_held.then_some("hub");
        self.held.iter().map(|project| &**project).chain(hub).collect()
    }

    /// True if all copies must be counted again before a decision.
    pub(super) fn is_outdated(&self, now: Now) -> bool {
        self.taken.is_none_or(|at| now.since(at) >= CENSUS_AGE)
    }

    /// Stores a new count; returns the projects whose brake it releases.
    pub(super) fn take(&mut self, census: Census, now: Now) -> Vec<Arc<str>> {
        (self.census, self.taken) = (census, Some(now.instant));
        let released: Vec<Arc<str>> = self.held.iter().filter(|p| !self.exceeds(p)).cloned().collect();
        self.held.retain(|project| !released.contains(project));
        self.hub_held &= self.hub().exceeds_hub();
        released
    }

    fn exceeds(&self, project: &Arc<str>) -> bool {
        self.load(project).exceeds_project()
    }

    /// Orphans and copies of a project: the larger of the last count and of the reconciled orphans.
    pub(super) fn load(&self, project: &Arc<str>) -> Load {
        let counted = self.census.0.get(project).copied().unwrap_or_default();
        let remembered = self.remembered.get(project).copied().unwrap_or_default();
        Load {
            orphans: counted.orphans.max(remembered),
            total: counted.total.max(remembered),
        }
    }

    /// Orphans and copies of the hub; orphans of projects that their own brake holds are left out.
    pub(super) fn hub(&self) -> Load {
        let mut hub = Load::default();
        for project in self.census.0.keys() {
            let load = self.load(project);
            hub.total += load.total;
            if !load.exceeds_project() {
                hub.orphans += load.orphans;
            }
        }
        hub
    }

    /// Records that a copy of a project is an orphan that counts.
    pub(super) fn count(&mut self, key: &Key, project: &Arc<str>) {
        if self.counted.get(key) == Some(project) {
            return;
        }
        self.forget(key);
        self.counted.insert(key.clone(), project.clone());
        *self.remembered.entry(project.clone()).or_default() += 1;
    }

    /// Forgets a copy that is no orphan, or is deleted.
    pub(super) fn forget(&mut self, key: &Key) {
        let Some(project) = self.counted.remove(key) else {
            return;
        };
        shrink_if_sparse(&mut self.counted);
        if let Entry::Occupied(mut left) = self.remembered.entry(project.clone()) {
            *left.get_mut() -= 1;
            if *left.get() == 0 {
                left.remove();
            }
        }
        if let Some(load) = self.census.0.get_mut(&project) {
            load.orphans = load.orphans.saturating_sub(1);
            load.total = load.total.saturating_sub(1);
        }
    }

    /// Records which brake a decision met; true if a brake of this project or the hub's has changed.
    pub(super) fn note(&mut self, project: &Arc<str>, met: Option<Brake>) -> bool {
        let (held, hub_held) = (self.held.contains(project), self.hub_held);
        match met {
            Some(Brake::Project) => drop(self.held.insert(project.clone())),
            Some(Brake::Hub) => self.hub_held = true,
            None => {}
        }
        if met.is_none() && held && !self.exceeds(project) {
            self.held.remove(project);
        }
        if met.is_none() && hub_held && !self.hub().exceeds_hub() {
            self.hub_held = false;
        }
        (held, hub_held) != (self.held.contains(project), self.hub_held)
    }
}
