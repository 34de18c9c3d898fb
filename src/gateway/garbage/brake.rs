//! The brake: a project most of whose copies seem to have lost their origin looks like an error of ours, or of a plane.
//! Values only.
//!
//! Each project has its own, so that nobody holds up the others; above them is one of the whole hub. A project that is
//! held does not count there, because nothing of it is deleted anyway.

use crate::engine::{chance::HashMap, clock::Now, key::Key, room::give_back};
use std::{
    collections::{BTreeSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How old a count of all copies may become while something waits for its outcome.
const CENSUS_AGE: Duration = Duration::from_secs(1);

/// How many copies are orphans, of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Orphans that count.
    pub orphans: usize,
    /// All copies.
    pub total: usize,
}

impl Load {
    /// Whether these are too many of one project: more than ten, and more than a tenth.
    pub fn exceeds_project(self) -> bool {
        self.orphans > 10.max(self.total / 10)
    }

    /// Whether these are too many of the whole hub: more than fifty, and more than a fifth.
    pub fn exceeds_hub(self) -> bool {
        self.orphans > 50.max(self.total / 5)
    }
}

/// Which brake holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brake {
    /// The project's own.
    Project,
    /// That of the whole hub.
    Hub,
}

/// All copies counted at one time, by project.
#[derive(Debug, Default)]
pub(super) struct Census(HashMap<Arc<str>, Load>);

impl Census {
    /// One more copy of a project, and whether it is an orphan that counts.
    pub(super) fn count(&mut self, project: &Arc<str>, orphan: bool) {
        let load = self.0.entry(project.clone()).or_default();
        load.total += 1;
        load.orphans += usize::from(orphan);
    }
}

/// What is remembered of orphans that count, and which brakes hold.
#[derive(Debug, Default)]
pub(super) struct Brakes {
    /// The project of each orphan that counts and has had its turn.
    counted: HashMap<Key, Arc<str>>,
    /// How many those are.
    remembered: HashMap<Arc<str>, usize>,
    /// While the queue is long many have not had their turn yet: the last count of all.
    census: Census,
    taken: Option<Instant>,
    held: BTreeSet<Arc<str>>,
    hub_held: bool,
}

impl Brakes {
    /// Whether any holds.
    pub(super) fn hold(&self) -> bool {
        self.hub_held || !self.held.is_empty()
    }

    /// The projects whose brake holds, and `hub` for that of all.
    pub(super) fn names(&self) -> Vec<&str> {
        let hub = self.hub_held.then_some("hub");
        self.held.iter().map(|project| &**project).chain(hub).collect()
    }

    /// Whether all copies are to be counted anew before a decision.
    pub(super) fn is_outdated(&self, now: Now) -> bool {
        self.taken.is_none_or(|at| now.since(at) >= CENSUS_AGE)
    }

    /// Takes a new count; with those that are released by it.
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

    /// How a project stands.
    pub(super) fn load(&self, project: &Arc<str>) -> Load {
        let counted = self.census.0.get(project).copied().unwrap_or_default();
        let remembered = self.remembered.get(project).copied().unwrap_or_default();
        Load {
            orphans: counted.orphans.max(remembered),
            total: counted.total.max(remembered),
        }
    }

    /// How the hub stands without the projects that are held by themselves.
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

    /// Remembers that a copy of a project is an orphan that counts.
    pub(super) fn count(&mut self, key: &Key, project: &Arc<str>) {
        if self.counted.get(key) == Some(project) {
            return;
        }
        self.forget(key);
        self.counted.insert(key.clone(), project.clone());
        *self.remembered.entry(project.clone()).or_default() += 1;
    }

    /// The copy is none any more, or is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        let Some(project) = self.counted.remove(key) else {
            return;
        };
        give_back(&mut self.counted);
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

    /// Notes which brake a decision has met; whether anything is new for this project or the hub.
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
