//! The paths of the API: which one a request is for, and the object that it names.

use super::{position::List, refusal::Refusal};
use axum::{
    extract::{FromRequestParts, MatchedPath, RawPathParams},
    http::request::Parts,
};
use fedgate_operations::query::Sort;

/// Where the paths begin.
pub const BASE: &str = "/api/v1/";
/// Maximum length of a name in a path or a query, in bytes: that of a Kubernetes name.
pub(super) const NAME_LIMIT: usize = 253;

/// A path of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// The state of the fleet.
    Overview,
    /// The planes.
    Planes,
    /// The projects.
    Projects,
    /// A project.
    Project,
    /// The cells.
    Cells,
    /// A cell.
    Cell,
    /// The flows.
    Flows,
    /// Stuck objects.
    Stuck,
    /// The way of an object.
    Trace,
    /// The last writes.
    Journal,
    /// The event stream.
    Events,
}

/// A page of a list.
const PAGE: [&str; 2] = ["limit", "continue"];

/// The routes with their paths below [`BASE`], and their parameters beside those of a page.
const ROUTES: [(Route, &str, &[&str]); 11] = [
    (Route::Overview, "overview", &[]),
    (Route::Planes, "planes", &["plane", "state", "q"]),
    (
        Route::Projects,
        "projects",
        &["state", "reason", "city", "sort", "q"],
    ),
    (Route::Project, "projects/{project}", &[]),
    (Route::Cells, "cells", &["state", "city", "sort"]),
    (Route::Cell, "cells/{cell}", &[]),
    (Route::Flows, "flows", &["top", "project", "city", "cell"]),
    (
        Route::Stuck,
        "stuck",
        &["class", "plane", "project", "cell", "for"],
    ),
    (Route::Trace, "trace/{project}/{namespace}/{kind}/{name}", &[]),
    (
        Route::Journal,
        "journal",
        &[
            "project",
            "namespace",
            "name",
            "plane",
            "reason",
            "result",
            "after",
        ],
    ),
    (Route::Events, "events", &["topics", "project"]),
];

impl Route {
    /// All routes.
    pub fn all() -> impl Iterator<Item = Self> {
        ROUTES.into_iter().map(|(route, ..)| route)
    }

    fn row(self) -> (&'static str, &'static [&'static str]) {
        let found = ROUTES.iter().find(|(route, ..)| *route == self);
        found.map_or(("", &[]), |(_, path, parameters)| (*path, *parameters))
    }

    /// The path below [`BASE`] with its open places, e.g. `projects/{project}`: the metrics' label.
    pub fn path(self) -> &'static str {
        self.row().0
    }

    /// The names of its parameters.
    pub(super) fn parameters(self) -> impl Iterator<Item = &'static str> {
        let pages = [
            Self::Planes,
            Self::Projects,
            Self::Cells,
            Self::Stuck,
            Self::Journal,
        ];
        let of_page = PAGE.into_iter().filter(move |_| pages.contains(&self));
        self.row().1.iter().copied().chain(of_page)
    }

    /// The list to which a position in its pages belongs.
    pub(super) fn list(self, sort: Sort) -> List {
        let sort = match self {
            Self::Planes | Self::Stuck => Sort::Worst,
            Self::Journal => Sort::Since,
            _ => sort,
        };
        (self.path(), sort)
    }

    /// First segment of the path: the resource that a role names.
    pub fn resource(self) -> &'static str {
        self.path().split('/').next().unwrap_or_default()
    }

    /// The route that the router has matched; `None` for a path that does not exist.
    pub fn matched(path: Option<&MatchedPath>) -> Option<Self> {
        let path = path?.as_str().strip_prefix(BASE)?;
        Self::all().find(|route| route.path() == path)
    }
}

/// The route of a request, and the values of the open places of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The route.
    pub route: Route,
    /// The values, in the order of the path.
    pub values: Vec<String>,
}

impl Target {
    /// The target of a request that was routed. `Ok(None)` if there is no such path; an error if a value is not valid.
    pub async fn of(parts: &Parts) -> Result<Option<Self>, Refusal> {
        let Some(route) = Route::matched(parts.extensions.get()) else {
            return Ok(None);
        };
        let values = RawPathParams::from_request_parts(&mut parts.clone(), &()).await;
        let values = values.map_err(|error| Refusal::invalid(error.body_text()))?;
        if values.iter().any(|(_, value)| value.is_empty()) {
            return Ok(None);
        }
        let values = values.iter();
        let values =
            values.map(|(part, value)| checked(&format!("the {part} of the path"), value.to_owned()));
        let values = values.collect::<Result<_, _>>()?;
        Ok(Some(Self { route, values }))
    }

    /// The project that the path or the query names. What is longer than a name is none.
    pub fn project(&self, query: &str) -> Option<String> {
        match self.route {
            Route::Project | Route::Trace => self.values.first().cloned(),
            _ => form_urlencoded::parse(query.as_bytes())
                .find(|(name, value)| name == "project" && value.len() <= NAME_LIMIT)
                .map(|(_, value)| value.into_owned()),
        }
    }
}

/// The value, if it may be a name.
pub(super) fn checked(place: &str, value: String) -> Result<String, Refusal> {
    if value.is_empty() {
        return Err(Refusal::invalid(format!(
            "{place} is empty; name it or leave it out"
        )));
    }
    if value.len() > NAME_LIMIT {
        return Err(Refusal::invalid(format!(
            "{place} has {} bytes; a name has at most {NAME_LIMIT}",
            value.len()
        )));
    }
    if value.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!(
            "{place} is {value:?}; a name has no control characters"
        )));
    }
    Ok(value)
}
