//! Projects and cells whose rows have changed, collected only while a stream of the operations API is open.

use crate::index::{
    GatewayIndex, ObjectRef,
    change::{Change, CopyNews, NamespaceNews, SourceChange},
};
use fedgate_api::names::ProjectKey;
use fedgate_operations::Changes;
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of collected names; beyond it a stream reads everything anew.
const LIMIT: usize = 1_024;

/// Names of what has changed; see the module.
#[derive(Debug, Default)]
pub struct Touched {
    on: bool,
    projects: BTreeSet<ProjectKey>,
    cells: BTreeSet<Arc<str>>,
    overflow: bool,
}

impl Touched {
    /// Begins or ends to collect.
    pub fn collect(&mut self, on: bool) {
        *self = Self {
            on,
            ..Self::default()
        };
    }

    /// The names since the last call.
    pub fn take(&mut self) -> Changes {
        let Self {
            on,
            projects,
            cells,
            overflow,
        } = std::mem::take(self);
        self.on = on;
        Changes {
            projects: projects
                .iter()
                .map(|project| project.as_str().to_owned())
                .collect(),
            cells: cells.iter().map(ToString::to_string).collect(),
            overflow,
        }
    }

    fn note(&mut self, project: Option<&ProjectKey>, cells: &[Arc<str>]) {
        if self.projects.len() + self.cells.len() + cells.len() >= LIMIT {
            self.overflow = true;
            return;
        }
        self.projects.extend(project.cloned());
        self.cells.extend(cells.iter().cloned());
    }

    /// Records that a project has changed.
    pub(crate) fn project(&mut self, project: &ProjectKey) {
        if self.on {
            self.note(Some(project), &[]);
        }
    }

    /// Records that a cell has changed.
    pub(crate) fn cell(&mut self, cell: &Arc<str>) {
        if self.on {
            self.note(None, std::slice::from_ref(cell));
        }
    }
}

impl GatewayIndex {
    /// Records the projects and cells that these changes concern.
    pub(crate) fn touch(&mut self, changes: &[Change]) {
        if !self.touched.on {
            return;
        }
        for change in changes {
            match change {
                Change::Source(SourceChange { project, .. })
                | Change::ProjectNamespace { project, .. }
                | Change::Suspension { project } => self.touched.note(Some(project), &[]),
                Change::HubNamespace {
                    hub,
                    news: NamespaceNews::Owner,
                }
                | Change::Copy {
                    copy: ObjectRef { hub, .. },
                    news: CopyNews::Moved | CopyNews::Content,
                }
                | Change::Instance {
                    instance: ObjectRef { hub, .. },
                    is_write_back: false,
                    ..
                } => self.touch_hub(hub, &[]),
                Change::Instance { instance, .. } => {
                    let places = self.summary.places(&instance.hub).iter();
                    let cells: Vec<Arc<str>> = places.filter_map(|((_, cell), _)| cell.clone()).collect();
                    self.touch_hub(&instance.hub, &cells);
                }
                Change::Binding(change) => {
                    let template = change.template.as_ref();
                    let binding = template.and_then(|of| self.binding(of.kind, &of.hub, &of.name));
                    let cells = binding.map_or_else(Vec::new, |row| row.digest.clusters.to_vec());
                    self.touch_hub(&change.hub, &cells);
                }
                _ => {}
            }
        }
    }

    fn touch_hub(&mut self, hub: &str, cells: &[Arc<str>]) {
        let project = self.owners.get(hub).map(|owner| &owner.project);
        self.touched.note(project, cells);
    }
}
