//! The queries of the paths (contract: operations.md §2.2). They are parsed once, by the server.

use crate::{CellState, Class, PlaneState};
use std::time::Duration;

/// Default number of rows of a page.
pub const LIMIT: usize = 100;
/// Maximum number of rows of a page.
pub const MOST: usize = 500;
/// Maximum number of characters of `q`.
pub const SEARCH_LIMIT: usize = 64;
/// Default of `for`: how long an object does not go on before it is stuck.
pub const STUCK_FOR: Duration = Duration::from_secs(60);
/// Default of `top`.
pub const TOP: usize = 40;
/// Maximum of `top`.
pub const TOP_MOST: usize = 200;

/// The part of a list that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// Maximum number of rows, 1 to [`MOST`].
    pub limit: usize,
    /// Where the page begins.
    pub from: From,
}

impl Default for PageQuery {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            from: From::Start,
        }
    }
}

/// Where a page begins. In order of name a page begins after a name, so that rows that appear and disappear shift none;
/// in another order it begins after a number of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum From {
    /// At the first row.
    #[default]
    Start,
    /// After the row of this name.
    After(String),
    /// After this number of rows.
    Skip(usize),
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// By name.
    #[default]
    Name,
    /// The worst first.
    Worst,
    /// The oldest state first.
    Since,
    /// The most Instances first.
    Instances,
}

impl Sort {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Name, Self::Worst, Self::Since, Self::Instances];

    /// The order as the parameter `sort` names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Worst => "worst",
            Self::Since => "since",
            Self::Instances => "instances",
        }
    }
}

/// Query of `/planes`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanesQuery {
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub plane: Option<String>,
    /// State of the plane.
    pub state: Option<PlaneState>,
    /// Part of its name.
    pub q: Option<String>,
    /// The page.
    pub page: PageQuery,
}

/// Query of `/projects`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectsQuery {
    /// State of its plane.
    pub state: Option<PlaneState>,
    /// Reason of its worst state.
    pub reason: Option<String>,
    /// A city of its deployments.
    pub city: Option<String>,
    /// Part of its name.
    pub q: Option<String>,
    /// The order.
    pub sort: Sort,
    /// The page.
    pub page: PageQuery,
}

/// Query of `/cells`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CellsQuery {
    /// State of the cell.
    pub state: Option<CellState>,
    /// City of the cell.
    pub city: Option<String>,
    /// The order.
    pub sort: Sort,
    /// The page.
    pub page: PageQuery,
}

/// Query of `/flows`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowsQuery {
    /// Number of rows before the sums, 1 to [`TOP_MOST`].
    pub top: usize,
    /// The project.
    pub project: Option<String>,
    /// The city.
    pub city: Option<String>,
    /// The cell.
    pub cell: Option<String>,
}

impl Default for FlowsQuery {
    fn default() -> Self {
        Self {
            top: TOP,
            project: None,
            city: None,
            cell: None,
        }
    }
}

/// Query of `/stuck`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckQuery {
    /// The class. [`Class::Unavailable`] is shown only if it is named here.
    pub class: Option<Class>,
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub plane: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// The cell.
    pub cell: Option<String>,
    /// How long an object does not go on before it is stuck.
    pub stuck_for: Duration,
    /// The page, in groups.
    pub page: PageQuery,
}

impl Default for StuckQuery {
    fn default() -> Self {
        Self {
            class: None,
            plane: None,
            project: None,
            cell: None,
            stuck_for: STUCK_FOR,
            page: PageQuery::default(),
        }
    }
}

/// Query of `/journal`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalQuery {
    /// The project.
    pub project: Option<String>,
    /// Namespace of the object, in the project or on the hub.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: Option<String>,
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub plane: Option<String>,
    /// The reason of the write.
    pub reason: Option<String>,
    /// `ok`, `failed`, or the category of a failure.
    pub result: Option<String>,
    /// Only writes with a greater number.
    pub after: Option<u64>,
    /// The page.
    pub page: PageQuery,
}

/// The object of `/trace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceQuery {
    /// The project.
    pub project: String,
    /// Namespace of the object.
    pub namespace: String,
    /// `workloads`, the plural of a federated kind, or `instances`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}
