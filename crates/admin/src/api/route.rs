//! The paths of the API: which one a request is for, and the object that it names.

use super::refusal::Refusal;
use axum::{
    extract::{FromRequestParts, MatchedPath, RawPathParams},
    http::request::Parts,
};

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

/// The routes with their paths below [`BASE`].
const ROUTES: [(Route, &str); 11] = [
    (Route::Overview, "overview"),
    (Route::Planes, "planes"),
    (Route::Projects, "projects"),
    (Route::Project, "projects/{project}"),
    (Route::Cells, "cells"),
    (Route::Cell, "cells/{cell}"),
    (Route::Flows, "flows"),
    (Route::Stuck, "stuck"),
    (Route::Trace, "trace/{project}/{namespace}/{kind}/{name}"),
    (Route::Journal, "journal"),
    (Route::Events, "events"),
];

impl Route {
    /// All routes.
    pub fn all() -> impl Iterator<Item = Self> {
        ROUTES.into_iter().map(|(route, _)| route)
    }

    /// The path below [`BASE`] with its open places, e.g. `projects/{project}`: the metrics' label.
    pub fn path(self) -> &'static str {
        let found = ROUTES.iter().find(|(route, _)| *route == self);
        found.map_or("", |(_, path)| path)
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
