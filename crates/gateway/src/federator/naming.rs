//! Deployments that were federated before they named a hub: they name ours a few at a time, so that an upgrade writes not
//! all of them at once.

use crate::{context::Shared, index::derived::project_hub::Share};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{key::Key, random::HashSet, runtime::queue::Priority};
use parking_lot::Mutex;
use std::ops::Bound;

/// Deployments of all projects that may name our hub between two calls of [`Naming::admit`].
const AT_A_TIME: usize = 50;
/// The same of one project.
const OF_A_PROJECT: usize = 10;

/// Which deployments may name our hub now.
#[derive(Debug, Default)]
pub struct Naming(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    due: HashSet<Key>,
    /// The project that was the last one.
    after: Option<ProjectKey>,
}

impl Naming {
    /// True if the turn of a deployment has come.
    pub fn is_due(&self, key: &Key) -> bool {
        self.0.lock().due.contains(key)
    }

    /// Admits the next deployments and enqueues them; called every few seconds.
    pub fn admit(&self, shared: &Shared) {
        let mut state = self.0.lock();
        state.due.clear();
        let index = shared.index.lock();
        if index.summary.unnamed.is_empty()
            || index.hub.identity.uid().is_none()
            || !shared.planes.lease.may_write()
        {
            return;
        }
        let from = state.after.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys: Vec<Key> = Vec::new();
        for project in index.summary.unnamed.range((from, Bound::Unbounded)) {
            if keys.len() >= AT_A_TIME {
                break;
            }
            state.after = Some(project.clone());
            let of = index
                .projects
                .get(project)
                .filter(|of| !of.suspended && of.share_of_other() < Some(Share::Most));
            let Some(of) = of.filter(|_| index.is_complete(project)) else {
                continue;
            };
            let unnamed = of.secondary.unnamed().take(OF_A_PROJECT);
            keys.extend(
                unnamed.map(|(namespace, kind, name)| index.source_key(kind, project, namespace, name)),
            );
        }
        if keys.len() < AT_A_TIME {
            // The next call begins with the first project.
            state.after = None;
        }
        drop(index);
        state.due.extend(keys.iter().cloned());
        shared.queue.extend(keys, Priority::Backlog);
    }
}
