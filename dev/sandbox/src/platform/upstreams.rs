//! The API servers behind the stand-in of Milo.

use crate::front::upstream::Upstream;
use std::collections::BTreeMap;

/// The API servers of the core and of all projects.
pub(super) struct Upstreams {
    pub(super) core: Upstream,
    pub(super) projects: BTreeMap<String, Upstream>,
    /// `None`: the core is Milo's own API server, and has all projects.
    pub(super) spare: Option<Upstream>,
}

impl Upstreams {
    /// Whether the core is Milo's own API server. The stand-in leaves to Milo what Milo's API server does itself.
    pub(super) fn is_milo(&self) -> bool {
        self.spare.is_none()
    }

    /// The API server of a project's path. A name that has no API server of its own leads to the spare one, whether or not
    /// there is such a Project; Milo's own API server has all names.
    pub(super) fn of(&self, project: Option<&str>) -> &Upstream {
        match (project, &self.spare) {
            (Some(name), Some(spare)) => self.projects.get(name).unwrap_or(spare),
            _ => &self.core,
        }
    }
}
