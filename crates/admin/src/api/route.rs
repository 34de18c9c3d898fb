//! The paths of the API: which one a request is for, and the object that it names.

use super::refusal::Refusal;
use percent_encoding::percent_decode_str;

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

/// A route with its path below [`BASE`] and its parameters.
type Row = (Route, &'static str, &'static [&'static str]);

const ROUTES: [Row; 11] = [
    (Route::Overview, "overview", &[]),
    (
        Route::Planes,
        "planes",
        &["plane", "state", "q", "limit", "continue"],
    ),
    (
        Route::Projects,
        "projects",
        &["state", "reason", "city", "sort", "q", "limit", "continue"],
    ),
    (Route::Project, "projects/{project}", &[]),
    (
        Route::Cells,
        "cells",
        &["state", "city", "sort", "limit", "continue"],
    ),
    (Route::Cell, "cells/{cell}", &[]),
    (Route::Flows, "flows", &["top", "project", "city", "cell"]),
    (
        Route::Stuck,
        "stuck",
        &["class", "plane", "project", "cell", "for", "limit", "continue"],
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
            "limit",
            "continue",
        ],
    ),
    (Route::Events, "events", &["topics", "project"]),
];

impl Route {
    /// All routes.
    pub fn all() -> impl Iterator<Item = Self> {
        ROUTES.into_iter().map(|(route, ..)| route)
    }

    fn row(self) -> Row {
        ROUTES
            .into_iter()
            .find(|(route, ..)| *route == self)
            .unwrap_or(ROUTES[0])
    }

    /// The path below [`BASE`] with its open places, e.g. `projects/{project}`: the metrics' label.
    pub fn path(self) -> &'static str {
        self.row().1
    }

    /// The parameters that a query may have.
    pub fn parameters(self) -> &'static [&'static str] {
        self.row().2
    }

    /// First segment of the path: the resource that a role names.
    pub fn resource(self) -> &'static str {
        self.path().split('/').next().unwrap_or_default()
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
    /// The target of a path, which is still encoded. `Ok(None)` if there is no such path; an error if a value is not valid.
    pub fn of(path: &str) -> Result<Option<Self>, Refusal> {
        let Some(rest) = path.strip_prefix(BASE) else {
            return Ok(None);
        };
        let segments: Vec<&str> = rest.split('/').collect();
        for (route, pattern, _) in ROUTES {
            let pattern: Vec<&str> = pattern.split('/').collect();
            let is_open = |part: &str| part.starts_with('{');
            let fits = pattern.len() == segments.len()
                && pattern
                    .iter()
                    .zip(&segments)
                    .all(|(part, segment)| part == segment || is_open(part) && !segment.is_empty());
            if fits {
                let open = pattern.iter().zip(&segments).filter(|(part, _)| is_open(part));
                let values = open.map(|(part, segment)| decoded(part, segment));
                let values = values.collect::<Result<_, _>>()?;
                return Ok(Some(Self { route, values }));
            }
        }
        Ok(None)
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

fn decoded(part: &str, segment: &str) -> Result<String, Refusal> {
    let part = part.trim_matches(['{', '}']);
    let value = percent_decode_str(segment).decode_utf8();
    let value = value.map_err(|_| Refusal::invalid(format!("the {part} of the path is not UTF-8")))?;
    checked(&format!("the {part} of the path"), value.into_owned())
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
