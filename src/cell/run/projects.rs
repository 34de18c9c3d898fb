//! Projects whose quota claims are watched. The cell engages each when its claims are wanted, retries if the connection
//! cannot be made, and releases it when no object of the cell needs it any more.

use super::{Cell, Projects, TableId, links};
use crate::cell::releases::RELEASE;
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    backoff::RetryTimer,
    plane::{client::Connection, discovery::ProjectEvent},
    random::HashMap,
    runtime::queue::Priority,
};
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::{AbortHandle, JoinSet};

/// Projects known to the main loop.
#[derive(Default)]
pub(super) struct Known {
    /// Projects whose claims are wanted.
    wanted: BTreeSet<ProjectKey>,
    /// Discovered projects, wanted or not.
    found: HashMap<ProjectKey, Connection>,
    /// Backoff of projects whose connection could not be made, until it is.
    failed: BTreeMap<ProjectKey, RetryTimer>,
    /// Wanted projects that were not needed at the last check.
    unneeded: BTreeSet<ProjectKey>,
    /// Tasks that keep the connections up to date.
    keeping: JoinSet<()>,
    kept: HashMap<ProjectKey, AbortHandle>,
    engagements: u64,
}

impl Known {
    /// The number of the next engagement. The first belongs to the cell's own planes.
    pub(super) fn next_engagement(&mut self) -> u64 {
        self.engagements += 1;
        self.engagements + 1
    }

    fn keep(&mut self, project: &ProjectKey, handle: AbortHandle) {
        if let Some(former) = self.kept.insert(project.clone(), handle) {
            former.abort();
        }
        // Ended tasks are dropped.
        while self.keeping.try_join_next().is_some() {}
    }
}

impl Cell {
    /// Starts to watch the claims of a project.
    pub(super) fn wanted(&self, known: &mut Known, project: &ProjectKey) {
        if known.wanted.insert(project.clone()) {
            self.engage_project(known, project);
        }
    }

    fn engage_project(&self, known: &mut Known, project: &ProjectKey) {
        let connection = match &self.projects {
            Projects::Discovered => known.found.get(project).cloned(),
            Projects::OnDemand(make) => match make(project) {
                Ok((connection, work)) => {
                    known.failed.remove(project);
                    let handle = known.keeping.spawn(work);
                    known.keep(project, handle);
                    Some(connection)
                }
                Err(error) => {
                    let timer = known.failed.entry(project.clone()).or_default();
                    let again = timer.failed(RELEASE, self.ctx.now().instant);
                    tracing::warn!(%project, error, ?again, "the project does not answer quota requests; they are retried");
                    None
                }
            },
        };
        let Some(connection) = connection else {
            self.lose_project(project);
            return;
        };
        let plane = links::project(project);
        let selection = {
            let mut index = self.ctx.index.lock();
            index.unreachable.remove(project);
            index.engage(project);
            links::selection(&index, TableId::Claims)
        };
        self.ctx.executor.forget(&plane);
        let engagement = known.next_engagement();
        let watches = vec![(TableId::Claims, selection)];
        self.links.engage(&plane, engagement, connection, watches);
        self.enqueue_project(project);
    }

    /// Enqueues all keys that wait for a project's claims or for a release there: the project may have another address
    /// now.
    fn enqueue_project(&self, project: &ProjectKey) {
        self.releases.recovered(&links::project(project));
        let keys = {
            let index = self.ctx.index.lock();
            let mut keys = index.keys_of_project(project);
            keys.extend(index.deployments_of_project(project));
            keys.extend(index.releases_of_project(project));
            keys
        };
        self.ctx.queue.extend(keys, Priority::Fresh);
    }

    /// Records that a project whose claims are wanted has no connection.
    fn lose_project(&self, project: &ProjectKey) {
        let keys = {
            let mut index = self.ctx.index.lock();
            index.unreachable.insert(project.clone());
            let mut keys = index.keys_of_project(project);
            keys.extend(index.deployments_of_project(project));
            keys
        };
        self.ctx.queue.extend(keys, Priority::Fresh);
    }

    /// Retries connections that could not be made, each when its backoff ends.
    pub(super) fn try_again(&self, known: &mut Known) {
        let now = self.ctx.now().instant;
        let failed = known.failed.iter();
        let due = failed.filter(|(_, timer)| timer.wait(now).is_none());
        let due: Vec<ProjectKey> = due.map(|(project, _)| project.clone()).collect();
        for project in due {
            self.engage_project(known, &project);
        }
    }

    /// Releases projects that have not been needed since the last call.
    pub(super) fn release_unneeded(&self, known: &mut Known) {
        let needed = self.ctx.index.lock().needed_projects(self.ctx.settings.quota);
        let unneeded: BTreeSet<ProjectKey> = known.wanted.difference(&needed).cloned().collect();
        let (over, idle) = unneeded
            .into_iter()
            .partition(|project| known.unneeded.contains(project));
        known.unneeded = idle;
        let over: BTreeSet<ProjectKey> = over;
        for project in over {
            tracing::info!(%project, "no Instance needs the project's quota; the watch of its claims ends");
            known.wanted.remove(&project);
            known.failed.remove(&project);
            if let Some(handle) = known.kept.remove(&project) {
                handle.abort();
            }
            self.ctx.index.lock().unreachable.remove(&project);
            self.disengage_project(&project);
        }
    }

    fn disengage_project(&self, project: &ProjectKey) {
        let plane = links::project(project);
        self.links.planes.lock().remove(&plane);
        self.ctx.executor.forget(&plane);
        self.releases.recovered(&plane);
        let keys = {
            let mut index = self.ctx.index.lock();
            index.claims.remove(project);
            index.quota_answered(project)
        };
        self.ctx.queue.extend(keys, Priority::Fresh);
    }

    /// Applies an event of project discovery.
    pub(super) fn found(&self, known: &mut Known, event: ProjectEvent) {
        match event {
            ProjectEvent::Engaged { key, connection } => {
                known.found.insert(key.clone(), connection);
                if known.wanted.contains(&key) {
                    self.engage_project(known, &key);
                }
            }
            ProjectEvent::Removed { key } => {
                tracing::info!(project = %key, "project removed; its granted claims are kept");
                known.found.remove(&key);
                self.disengage_project(&key);
                // The project stays wanted: if it appears again, perhaps at another address, waiting keys continue.
                if known.wanted.contains(&key) {
                    self.lose_project(&key);
                }
            }
            ProjectEvent::Rejected { name, error } => {
                tracing::warn!(project = name, %error, "project rejected; the others continue");
            }
            ProjectEvent::RejectionCleared { name } => {
                tracing::info!(project = name, "the rejected credential was removed");
            }
        }
    }
}
