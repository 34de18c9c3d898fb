//! The paths, parameters and errors as tables of docs/reference/operations-api.md.

use super::{
    Refusal,
    route::{BASE, Route},
};
use fedgate_operations::{
    ErrorCode,
    query::{LIMIT, MOST, SEARCH_LIMIT, TOP, TOP_MOST},
};
use std::fmt::Write;

impl Route {
    /// The kind of the answer, and the name of its schema.
    fn about(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => (
                "overview",
                "The state of the fleet, or of a cell, in at most 16 KiB.",
            ),
            Self::Planes => (
                "planes",
                "The hub first, then the worst; on the first page also the refused projects.",
            ),
            Self::Projects => ("projects", "A row for each project."),
            Self::Project => (
                "project",
                "One project with its cities, hub namespaces and stuck objects.",
            ),
            Self::Cells => ("cells", "A row for each Karmada Cluster."),
            Self::Cell => ("cell", "One cell with its projects and what is stuck there."),
            Self::Flows => (
                "flows",
                "Projects, cities and cells with their Instances; rows named `*` sum what is beyond `top`.",
            ),
            Self::Stuck => (
                "stuck",
                "What does not go on, in groups with the same cause, the worst class first.",
            ),
            Self::Trace => (
                "trace",
                "The way of an object, hop by hop; `{kind}` is `workloads`, the plural of a federated kind, or `instances`.",
            ),
            Self::Journal => ("journal", "The last writes of the replica, newest first."),
            Self::Events => ("", "Server-sent events, see below."),
        }
    }

    /// True if a cell serves it too.
    fn is_of_cell(self) -> bool {
        matches!(
            self,
            Self::Overview | Self::Planes | Self::Stuck | Self::Journal | Self::Events
        )
    }
}

/// The parameters with their values.
fn parameters() -> [(&'static str, String); 18] {
    let row = |name, meaning: &str| (name, meaning.to_owned());
    [
        row("after", "number of a write: later ones alone"),
        row("cell", "name of a cell"),
        row("city", "city code"),
        row(
            "class",
            "a class of stuck objects; `unavailable` is shown only if it is named",
        ),
        row(
            "continue",
            "value of `continue` of the page before; it is of one process, list and order",
        ),
        row(
            "for",
            "how long an object does not go on before it is stuck; default 60s, at most 30 days",
        ),
        ("limit", format!("rows of a page, 1 to {MOST}; default {LIMIT}")),
        row("name", "name of the object that was written"),
        row("namespace", "namespace of the object that was written"),
        row("plane", "`hub`, `project` or `cell`"),
        row("project", "key of a project"),
        ("q", format!("part of a name, at most {SEARCH_LIMIT} characters")),
        row(
            "reason",
            "of `/projects` the word of the worst state, of `/journal` the reason of a write",
        ),
        row("result", "`ok`, `failed`, or the category of a failure"),
        row(
            "sort",
            "`name` (default), `worst`, `since` or `instances`; only in order of name no row that stays is missed or shown twice",
        ),
        row("state", "state of a plane or of a cell"),
        (
            "top",
            format!("rows before the sums, 1 to {TOP_MOST}; default {TOP}"),
        ),
        row(
            "topics",
            "a list of `overview` (default), `projects`, `cells`, `stuck`, `journal`; with `project` of `projects` (default), `stuck`, `journal`",
        ),
    ]
}

/// The errors with their meaning.
const ERRORS: [(ErrorCode, &str); 9] = [
    (
        ErrorCode::Invalid,
        "A parameter is unknown, given twice, or has a value that is not allowed; or the answer would be larger than 1 MiB.",
    ),
    (ErrorCode::Unauthorized, "No bearer token, or a wrong one."),
    (
        ErrorCode::Forbidden,
        "The user of the hub's token may not get this resource, or not of this project.",
    ),
    (
        ErrorCode::NotFound,
        "No such path, project, cell or object; or a cell does not serve it.",
    ),
    (ErrorCode::MethodNotAllowed, "Only GET and HEAD are served."),
    (
        ErrorCode::Expired,
        "`continue` is of another process: begin again without it.",
    ),
    (
        ErrorCode::Misdirected,
        "An address without token was asked under a foreign name, or by a page of another origin.",
    ),
    (
        ErrorCode::Busy,
        "Eight requests are being answered, ten wrong tokens came in a second, or five reviews were made in it.",
    ),
    (
        ErrorCode::Unavailable,
        "No answer within 2 s, no role yet, 32 streams are open, or the hub does not review the token.",
    ),
];

/// The tables of paths, parameters and errors.
pub fn markdown() -> String {
    let mut text = String::from("| path | parameters | cell | answer |\n|---|---|---|---|\n");
    for route in Route::all() {
        let (schema, about) = route.about();
        let parameters: Vec<_> = route
            .parameters()
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let link = match schema {
            "" => String::new(),
            name => format!(" [Schema](operations-api/{name}.schema.json)."),
        };
        let cell = if route.is_of_cell() { "yes" } else { "–" };
        let _ = writeln!(
            text,
            "| `{BASE}{}` | {} | {cell} | {about}{link} |",
            route.path(),
            parameters.join(", ")
        );
    }
    text.push_str("\n| parameter | meaning |\n|---|---|\n");
    for (name, meaning) in parameters() {
        let _ = writeln!(text, "| `{name}` | {meaning} |");
    }
    text.push_str("\n| status | code | meaning |\n|---|---|---|\n");
    for (code, meaning) in ERRORS {
        let status = Refusal::new(code, "", "").status().as_u16();
        let _ = writeln!(text, "| {status} | `{code:?}` | {meaning} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_a_path_is_explained_and_no_other() {
        let mut used: Vec<_> = Route::all().flat_map(Route::parameters).copied().collect();
        used.sort_unstable();
        used.dedup();
        let explained: Vec<_> = parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(explained, used);
    }
}
