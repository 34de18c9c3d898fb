//! The questions of the server to a role.

use crate::{
    CellDetail, CellRow, Flows, Header, JournalRow, Overview, PlaneRow, ProjectDetail, ProjectRow,
    RefusedProject, StuckGroup, Trace, TracedObject,
    query::{From, Query},
};
use std::collections::BTreeSet;

/// Rows of a list, and where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<From>,
    /// Number of rows after this page.
    pub remaining: usize,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            next: None,
            remaining: 0,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// The role of the process does not serve the path.
    NotServed,
    /// The role does not run yet, with the reason.
    Starting(String),
    /// The named project, namespace, cell or object is unknown.
    Unknown {
        /// Names the unknown part.
        message: String,
        /// The next step.
        next: String,
    },
}

/// Projects and cells whose rows may have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The projects.
    pub projects: BTreeSet<String>,
    /// The cells.
    pub cells: BTreeSet<String>,
    /// True if more have changed than are named.
    pub overflow: bool,
}

/// The state of a role, from memory: no method sends a request to a plane. Each locks the index for slices of at most 256
/// rows.
///
/// A cell answers the methods without a default.
pub trait OperationsSource: Send + Sync + 'static {
    /// The fields of every answer.
    fn header(&self) -> Header;

    /// The state of the fleet.
    fn overview(&self) -> Overview;

    /// The planes, and on the first page the refused projects.
    fn planes(&self, query: &Query) -> (Rows<PlaneRow>, Vec<RefusedProject>);

    /// The stuck objects, in groups.
    fn stuck(&self, query: &Query) -> Rows<StuckGroup>;

    /// The last writes, newest first. `From::Skip` is not used: a page begins after a number, as `From::After`.
    fn journal(&self, query: &Query) -> Rows<JournalRow>;

    /// Why a path has no answer that the role does not give.
    fn unserved(&self) -> NoAnswer {
        NoAnswer::NotServed
    }

    /// The projects.
    fn projects(&self, _query: &Query) -> Result<Rows<ProjectRow>, NoAnswer> {
        Err(self.unserved())
    }

    /// A project.
    fn project(&self, _project: &str) -> Result<ProjectDetail, NoAnswer> {
        Err(self.unserved())
    }

    /// The rows of these projects; a project that is gone has none.
    fn project_rows(&self, _projects: &BTreeSet<String>) -> Vec<ProjectRow> {
        Vec::new()
    }

    /// The cells.
    fn cells(&self, _query: &Query) -> Result<Rows<CellRow>, NoAnswer> {
        Err(self.unserved())
    }

    /// A cell.
    fn cell(&self, _cell: &str) -> Result<CellDetail, NoAnswer> {
        Err(self.unserved())
    }

    /// The rows of these cells; a cell that is gone has none.
    fn cell_rows(&self, _cells: &BTreeSet<String>) -> Vec<CellRow> {
        Vec::new()
    }

    /// The flows.
    fn flows(&self, _query: &Query) -> Result<Flows, NoAnswer> {
        Err(self.unserved())
    }

    /// The way of an object.
    fn trace(&self, _object: &TracedObject) -> Result<Trace, NoAnswer> {
        Err(self.unserved())
    }

    /// Begins or ends to collect the names of changed projects and cells, for streams.
    fn collect_changes(&self, _on: bool) {}

    /// The names that were collected since the last call.
    fn take_changes(&self) -> Changes {
        Changes::default()
    }
}
