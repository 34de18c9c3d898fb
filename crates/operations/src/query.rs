//! The queries of the paths (contract: operations.md §2.2). They are parsed once, by the server.

use crate::Class;
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
    /// All orders, as the parameter `sort` names them.
    pub const ALL: [(&'static str, Self); 4] = [
        ("name", Self::Name),
        ("worst", Self::Worst),
        ("since", Self::Since),
        ("instances", Self::Instances),
    ];
}

/// The parameters of a path, each by its name in the contract; a path takes some of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub plane: Option<String>,
    /// State of the plane, or of the cell.
    pub state: Option<String>,
    /// Part of the name of a plane or project.
    pub q: Option<String>,
    /// Reason of the worst state of a project, or of a write.
    pub reason: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// The city: of a project's deployments, or of the cell.
    pub city: Option<String>,
    /// The cell.
    pub cell: Option<String>,
    /// The class. [`Class::Unavailable`] is shown only if it is named here.
    pub class: Option<Class>,
    /// How long an object does not go on before it is stuck: the parameter `for`; [`STUCK_FOR`] without it.
    pub stuck_for: Option<Duration>,
    /// Namespace of a write's object, in the project or on the hub.
    pub namespace: Option<String>,
    /// Name of a write's object.
    pub name: Option<String>,
    /// `ok`, `failed`, or the category of a failure.
    pub result: Option<String>,
    /// Only writes with a greater number.
    pub after: Option<u64>,
    /// Number of flows before the sums, 1 to [`TOP_MOST`]; [`TOP`] without it.
    pub top: Option<usize>,
    /// The order of projects or cells.
    pub sort: Sort,
    /// The page; of `/stuck` in groups.
    pub page: PageQuery,
}

/// True if a parameter has this value, or is not given.
pub fn selects(wanted: Option<&str>, had: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == had)
}
