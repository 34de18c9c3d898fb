//! The API servers behind the stand-in of Milo.

use crate::front::upstream::Upstream;
use std::collections::BTreeMap;

/// All of them.
pub(super) struct Upstreams {
    pub(super) core: Upstream,
    pub(super) projects: BTreeMap<String, Upstream>,
    /// `None`: the core is Milo's own API server, and has all projects.
    pub(super) spare: Option<Upstream>,
}

impl Upstreams {
    /// Whether the core is Milo's own API server: what Milo does itself is not played then.
    pub(super) fn is_milo(&self) -> bool {
        self.spare.is_none()
    }

    /// Where a path of this project leads. A name that has no API server of its own leads to the spare one, whether or not
    /// there is such a Project; Milo's own API server has all names.
    pub(super) fn of(&self, project: Option<&str>) -> &Upstream {
        match (project, &self.spare) {
            (Some(name), Some(spare)) => self.projects.get(name).unwrap_or(spare),
            _ => &self.core,
        }
    }
}
