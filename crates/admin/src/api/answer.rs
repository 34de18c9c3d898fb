//! From a question to the text of its answer, which is at most 1 MiB.

use super::{
    position::{List, Positions},
    question::Question,
    refusal::Refusal,
    route::Route,
};
use bytes::Bytes;
use fedgate_operations::{
    API_VERSION, Answer, CellRow, ErrorCode, Header, JournalRow, NoAnswer, OperationsSource, Page, Planes,
    ProjectRow, Rows, Stuck,
    query::{From, PageQuery, Sort},
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
    match question {
        Question::Overview => reply.whole("Overview", source.overview()),
        Question::Planes(query) => {
            let (rows, refused) = source.planes(query);
            let list = Listed::by_rank(Route::Planes, Sort::Worst, &query.page);
            reply.page("Planes", &list, rows, |page| Planes {
                page,
                refused: refused.clone(),
            })
        }
        Question::Projects(query) => {
            let rows = known(source.projects(query))?;
            let list = Listed::new(Route::Projects, query.sort, &query.page, |row: &ProjectRow| {
                row.project.clone()
            });
            reply.page("Projects", &list, rows, |page| page)
        }
        Question::Project(name) => reply.whole("Project", known(source.project(name))?),
        Question::Cells(query) => {
            let rows = known(source.cells(query))?;
            let list = Listed::new(Route::Cells, query.sort, &query.page, |row: &CellRow| {
                row.cell.clone()
            });
            reply.page("Cells", &list, rows, |page| page)
        }
        Question::Cell(name) => reply.whole("Cell", known(source.cell(name))?),
        Question::Flows(query) => reply.whole("Flows", known(source.flows(query))?),
        Question::Stuck(query) => {
            let list = Listed::by_rank(Route::Stuck, Sort::Worst, &query.page);
            let rows = source.stuck(query);
            if rows.items.is_empty() {
                known_names(source, query.project.as_deref(), query.cell.as_deref())?;
            }
            reply.page("Stuck", &list, rows, |page| Stuck {
                groups: page.items,
                next: page.next,
                remaining: page.remaining,
            })
        }
        Question::Trace(query) => reply.whole("Trace", known(source.trace(query))?),
        Question::Journal(query) => {
            let rows = source.journal(query);
            if rows.items.is_empty() {
                known_names(source, query.project.as_deref(), None)?;
            }
            let mut list = Listed::new(Route::Journal, Sort::Since, &query.page, |row: &JournalRow| {
                row.seq.to_string()
            });
            list.by_name = true;
            reply.page("Journal", &list, rows, |page| page)
        }
        // It has no document of its own, and never comes here.
        Question::Events(_) => Err(Refusal::unavailable("a stream is no answer")),
    }
}

/// Refuses names that the gateway does not know, because an empty answer would say that all is well with them.
fn known_names(
    source: &dyn OperationsSource,
    project: Option<&str>,
    cell: Option<&str>,
) -> Result<(), Refusal> {
    let project = project.map(|name| source.project(name).map(drop));
    let cell = cell.map(|name| source.cell(name).map(drop));
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

/// The list of a page, and how a row's position is found.
struct Listed<'a, T> {
    list: List,
    page: &'a PageQuery,
    name: fn(&T) -> String,
    by_name: bool,
}

impl<'a, T> Listed<'a, T> {
    fn new(route: Route, sort: Sort, page: &'a PageQuery, name: fn(&T) -> String) -> Self {
        Self {
            list: (route.path(), sort),
            page,
            name,
            by_name: sort == Sort::Name,
        }
    }

    /// A page of a list that is never in order of name.
    fn by_rank(route: Route, sort: Sort, page: &'a PageQuery) -> Self {
        Self::new(route, sort, page, |_| String::new())
    }

    /// Where the page after these rows begins.
    fn after(&self, rows: &[T]) -> From {
        match (&self.page.from, rows.last()) {
            (from, None) => from.clone(),
            (_, Some(row)) if self.by_name => From::After((self.name)(row)),
            (From::Skip(before), _) => From::Skip(before + rows.len()),
            (From::Start | From::After(_), _) => From::Skip(rows.len()),
        }
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
        list: &Listed<'_, T>,
        mut rows: Rows<T>,
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
        rows.next = Some(list.after(&rows.items));
        self.whole(kind, body(self.shown(list, &rows)))
    }

    fn shown<T: Clone>(&self, list: &Listed<'_, T>, rows: &Rows<T>) -> Page<T> {
        let next = rows.next.as_ref();
        Page {
            items: rows.items.clone(),
            next: next.and_then(|from| self.positions.encode(list.list, from)),
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
