//! From a question to the text of its answer, which is at most 1 MiB.

use super::{
    position::{List, Positions},
    question::Question,
    refusal::Refusal,
    route::{Route, Target},
};
use bytes::Bytes;
use fedgate_operations::{
    API_VERSION, Answer, CellRow, ErrorCode, Header, JournalRow, NoAnswer, OperationsSource, Page, Planes,
    ProjectRow, Rows, Stuck, TracedObject,
    query::{From, Query, Sort},
};
use serde::Serialize;

/// Maximum size of an answer in bytes.
pub(super) const ANSWER_LIMIT: usize = 1024 * 1024;
/// Bytes that `continue` and `remaining` take of it.
const RESERVED: usize = 2048;

/// Answers a question from memory. It waits for the lock of the index, so it is not for a task.
pub(super) fn answer(
    source: &dyn OperationsSource,
    question: &Question,
    positions: &Positions,
) -> Result<Bytes, Refusal> {
    // Before the rows: `asOf` is never later than what they hold.
    let reply = Reply {
        header: source.header(),
        positions,
    };
    let query = &question.query;
    let Target { route, values } = &question.target;
    let list = route.list(query.sort);
    let value = |at: usize| values.get(at).cloned().unwrap_or_default();
    match route {
        Route::Overview => reply.whole("Overview", source.overview()),
        Route::Planes => {
            let (rows, refused) = source.planes(query);
            reply.page("Planes", list, query, rows, None, |page| Planes {
                page,
                refused: refused.clone(),
            })
        }
        Route::Projects => {
            let rows = known(source.projects(query))?;
            let name = |row: &ProjectRow| row.project.clone();
            reply.page("Projects", list, query, rows, by_name(query, &name), |page| page)
        }
        Route::Project => reply.whole("Project", known(source.project(&value(0)))?),
        Route::Cells => {
            let rows = known(source.cells(query))?;
            let name = |row: &CellRow| row.cell.clone();
            reply.page("Cells", list, query, rows, by_name(query, &name), |page| page)
        }
        Route::Cell => reply.whole("Cell", known(source.cell(&value(0)))?),
        Route::Flows => reply.whole("Flows", known(source.flows(query))?),
        Route::Stuck => {
            let rows = source.stuck(query);
            if rows.items.is_empty() {
                known_names(source, query)?;
            }
            reply.page("Stuck", list, query, rows, None, |page| Stuck {
                groups: page.items,
                next: page.next,
                remaining: page.remaining,
            })
        }
        Route::Trace => {
            let object = TracedObject {
                project: value(0),
                namespace: value(1),
                kind: value(2),
                name: value(3),
            };
            reply.whole("Trace", known(source.trace(&object))?)
        }
        Route::Journal => {
            let rows = source.journal(query);
            if rows.items.is_empty() {
                known_names(source, query)?;
            }
            let number = |row: &JournalRow| row.seq.to_string();
            reply.page("Journal", list, query, rows, Some(&number), |page| page)
        }
        // It has no document of its own, and never comes here.
        Route::Events => Err(Refusal::unavailable("a stream is no answer")),
    }
}

/// Refuses names that the gateway does not know, because an empty answer would say that all is well with them.
fn known_names(source: &dyn OperationsSource, query: &Query) -> Result<(), Refusal> {
    let project = query
        .project
        .as_deref()
        .map(|name| source.project(name).map(drop));
    let cell = query.cell.as_deref().map(|name| source.cell(name).map(drop));
    for answer in [project, cell].into_iter().flatten() {
        if let Err(none @ NoAnswer::Unknown { .. }) = answer {
            return known(Err(none));
        }
    }
    Ok(())
}

fn known<T>(result: Result<T, NoAnswer>) -> Result<T, Refusal> {
    result.map_err(|none| match none {
        NoAnswer::Starting(reason) => Refusal::unavailable(reason),
        NoAnswer::NotServed => Refusal::new(
            ErrorCode::NotFound,
            "a cell does not serve this path",
            "ask the gateway; a cell serves overview, planes, stuck, journal and events",
        ),
        NoAnswer::Unknown { message, next } => Refusal::new(ErrorCode::NotFound, message, next),
    })
}

/// The name of a row, where a page begins after a name.
type Name<'a, T> = Option<&'a dyn Fn(&T) -> String>;

fn by_name<'a, T>(query: &Query, name: &'a dyn Fn(&T) -> String) -> Name<'a, T> {
    (query.sort == Sort::Name).then_some(name)
}

/// Where the page after these rows begins.
fn after<T>(query: &Query, rows: &[T], name: Name<'_, T>) -> From {
    match (&query.page.from, rows.last(), name) {
        (from, None, _) => from.clone(),
        (_, Some(row), Some(name)) => From::After(name(row)),
        (From::Skip(before), ..) => From::Skip(before + rows.len()),
        (From::Start | From::After(_), ..) => From::Skip(rows.len()),
    }
}

/// The parts of every answer.
struct Reply<'a> {
    header: Header,
    positions: &'a Positions,
}

impl Reply<'_> {
    fn text<T: Serialize>(&self, kind: &str, body: T) -> Result<Vec<u8>, Refusal> {
        let answer = Answer {
            api_version: API_VERSION.to_owned(),
            kind: kind.to_owned(),
            header: self.header.clone(),
            body,
        };
        serde_json::to_vec(&answer).map_err(|error| {
            tracing::error!(%error, kind, "an answer of the operations API cannot be written; report this");
            Refusal::unavailable("the answer cannot be written, see the log")
        })
    }

    fn whole<T: Serialize>(&self, kind: &str, body: T) -> Result<Bytes, Refusal> {
        let text = self.text(kind, body)?;
        if text.len() > ANSWER_LIMIT {
            return Err(too_large());
        }
        Ok(text.into())
    }

    /// A page, cut to the rows that fit.
    fn page<T: Serialize + Clone, B: Serialize>(
        &self,
        kind: &str,
        list: List,
        query: &Query,
        mut rows: Rows<T>,
        name: Name<'_, T>,
        body: impl Fn(Page<T>) -> B,
    ) -> Result<Bytes, Refusal> {
        let text = self.text(kind, body(self.shown(list, &rows)))?;
        if text.len() <= ANSWER_LIMIT {
            return Ok(text.into());
        }
        let mut size = text.len();
        let mut kept = rows.items.len();
        while kept > 0 && size > ANSWER_LIMIT - RESERVED {
            kept -= 1;
            size -= serde_json::to_vec(&rows.items[kept]).map_or(0, |row| row.len());
        }
        if kept == 0 {
            return Err(too_large());
        }
        rows.remaining += rows.items.len() - kept;
        rows.items.truncate(kept);
        rows.next = Some(after(query, &rows.items, name));
        self.whole(kind, body(self.shown(list, &rows)))
    }

    fn shown<T: Clone>(&self, list: List, rows: &Rows<T>) -> Page<T> {
        let next = rows.next.as_ref();
        Page {
            items: rows.items.clone(),
            next: next.and_then(|from| self.positions.encode(list, from)),
            remaining: Some(rows.remaining),
        }
    }
}

fn too_large() -> Refusal {
    Refusal::new(
        ErrorCode::Invalid,
        "the answer is larger than 1 MiB",
        "narrow the question, e.g. with project, city or cell",
    )
}
