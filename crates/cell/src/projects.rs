//! The projects whose quota claims are watched. The cell engages each when its claims are wanted, retries if the connection
//! cannot be made, and releases it when no object of the cell needs it.

use super::{Cell, context::Shared, index::tables::TableId};
use crate::release::RELEASE;
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    backoff::RetryTimer,
    key::Plane,
    plane::{client::Connection, discovery::ProjectEvent},
    random::HashMap,
    runtime::queue::Priority,
};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// Connection to a project, and the task that keeps it up to date.
pub type ProjectConnection = (Connection, BoxFuture<'static, ()>);

/// Makes the connection to a project.
pub type ConnectProject = Box<dyn Fn(&ProjectKey) -> Result<ProjectConnection, String> + Send + Sync>;

/// Source of the connections to projects for quota.
pub enum Projects {
    /// Discovered projects.
    Discovered,
    /// All projects behind one address: the connection to each is made on demand.
    OnDemand(ConnectProject),
}

/// Projects known to the cell.
#[derive(Default)]
pub(super) struct KnownProjects {
    /// Projects whose claims are wanted.
    wanted: BTreeMap<ProjectKey, WantedProject>,
    /// Discovered projects, wanted or not.
    found: HashMap<ProjectKey, Connection>,
    engagements: u64,
}

/// A project whose claims are wanted.
#[derive(Default)]
struct WantedProject {
    /// Backoff while the connection cannot be made.
    failed: Option<RetryTimer>,
    /// True if no object needed the project at the last check.
    is_idle: bool,
    /// The task that keeps the connection up to date, until this value is dropped.
    keeping: JoinSet<()>,
}

impl KnownProjects {
    /// The number of the next engagement. The first belongs to the cell's own planes.
    pub(super) fn next_engagement(&mut self) -> u64 {
        self.engagements += 1;
        self.engagements + 1
    }
}

impl Cell {
    /// Starts to watch the claims of a project.
    pub(super) fn want_project(&self, shared: &Shared, known: &mut KnownProjects, project: &ProjectKey) {
        if !known.wanted.contains_key(project) {
            self.engage_project(shared, known, project);
        }
    }

    fn engage_project(&self, shared: &Shared, known: &mut KnownProjects, project: &ProjectKey) {
        let wanted = known.wanted.entry(project.clone()).or_default();
        let connection = match &self.projects {
            Projects::Discovered => known.found.get(project).cloned(),
            Projects::OnDemand(make) => match make(project) {
                Ok((connection, work)) => {
                    wanted.failed = None;
                    wanted.keeping = JoinSet::new();
                    wanted.keeping.spawn(work);
                    Some(connection)
                }
                Err(error) => {
                    let timer = wanted.failed.get_or_insert_default();
                    let again = timer.failed(RELEASE, shared.now().instant);
                    tracing::warn!(%project, error, ?again, "the project does not answer quota requests; they are retried");
                    None
                }
            },
        };
        let Some(connection) = connection else {
            Self::lose_project(shared, project);
            return;
        };
        let plane = project_plane(project);
        {
            let mut index = shared.index.lock();
            index.unreachable.remove(project);
            index.engage(project);
        }
        shared.executor.forget(&plane);
        let engagement = known.next_engagement();
        shared
            .planes
            .engage(&plane, engagement, connection, &[TableId::Claims]);
        // Keys that wait for the project's claims or for a release there: the project may have another address now.
        shared.release_timers.lock().remove(&plane);
        let keys = {
            let index = shared.index.lock();
            let mut keys = index.keys_of_project(project);
            keys.extend(index.releases_of_project(project));
            keys
        };
        shared.queue.extend(keys, Priority::Fresh);
    }

    /// Records that a project whose claims are wanted has no connection.
    fn lose_project(shared: &Shared, project: &ProjectKey) {
        let keys = {
            let mut index = shared.index.lock();
            index.unreachable.insert(project.clone());
            index.keys_of_project(project)
        };
        shared.queue.extend(keys, Priority::Fresh);
    }

    /// Retries connections that could not be made, each when its backoff ends.
    pub(super) fn retry_connections(&self, shared: &Shared, known: &mut KnownProjects) {
        let now = shared.now().instant;
        let is_due = |wanted: &WantedProject| {
            wanted
                .failed
                .as_ref()
                .is_some_and(|timer| timer.wait(now).is_none())
        };
        let due = known.wanted.iter().filter(|(_, wanted)| is_due(wanted));
        let due: Vec<ProjectKey> = due.map(|(project, _)| project.clone()).collect();
        for project in due {
            self.engage_project(shared, known, &project);
        }
    }

    /// Releases projects that have not been needed since the last call.
    pub(super) fn release_unneeded(shared: &Shared, known: &mut KnownProjects) {
        let needed = shared.index.lock().needed_projects(shared.settings.quota);
        let mut over = Vec::new();
        known.wanted.retain(|project, wanted| {
            let was_idle = std::mem::replace(&mut wanted.is_idle, !needed.contains(project));
            let is_over = was_idle && wanted.is_idle;
            over.extend(is_over.then(|| project.clone()));
            !is_over
        });
        for project in over {
            tracing::info!(%project, "no Instance needs the project's quota; the watch of its claims ends");
            shared.index.lock().unreachable.remove(&project);
            Self::disengage_project(shared, &project);
        }
    }

    fn disengage_project(shared: &Shared, project: &ProjectKey) {
        let plane = project_plane(project);
        shared.disengage(&plane);
        shared.release_timers.lock().remove(&plane);
        let keys = {
            let mut index = shared.index.lock();
            index.claims.remove(project);
            index.quota_answered(project)
        };
        shared.queue.extend(keys, Priority::Fresh);
    }

    /// Applies an event of project discovery.
    pub(super) fn apply_discovery(&self, shared: &Shared, known: &mut KnownProjects, event: ProjectEvent) {
        match event {
            ProjectEvent::Engaged { key, connection, .. } => {
                known.found.insert(key.clone(), connection);
                if known.wanted.contains_key(&key) {
                    self.engage_project(shared, known, &key);
                }
            }
            ProjectEvent::Removed { key } => {
                tracing::info!(project = %key, "project removed; its granted claims are kept");
                known.found.remove(&key);
                Self::disengage_project(shared, &key);
                // The project stays wanted: if it appears again, perhaps at another address, waiting keys continue.
                if known.wanted.contains_key(&key) {
                    Self::lose_project(shared, &key);
                }
            }
            // The runtime parks the writes of a suspended project.
            _ => {}
        }
    }
}

/// The plane of a project.
fn project_plane(key: &ProjectKey) -> Plane {
    Plane::Project(key.clone())
}
