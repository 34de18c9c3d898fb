//! Results on stdout: once, or again at each change.

use super::answer::Answer;
use crate::client::args::{AskArgs, ListFormat};
use fedgate_operations::{Answer as Document, Time};
use fedgate_terminal::{
    error::Error,
    screen::Screen,
    style::ColorChoice,
    table::Table,
    time,
    write::{say, write_next},
};
use serde::de::DeserializeOwned;
use std::io;

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// The format.
    pub(super) format: ListFormat,
    /// False without a line of column names.
    pub(super) headers: bool,
    /// True with colours.
    pub(super) color: bool,
}

impl Output {
    /// The flags of a command.
    pub(super) fn of(format: ListFormat, args: &AskArgs) -> Self {
        Self {
            format,
            headers: !args.no_headers,
            color: is_coloured(args.color),
        }
    }

    /// The text of a table with its first `narrow` columns, or wide with all; empty without a row.
    pub(super) fn table(self, table: &Table, narrow: usize) -> String {
        self.next_table(table, narrow, self.headers, &mut Vec::new())
    }

    /// The text of a table that may follow another one, whose columns were so wide.
    pub(super) fn next_table(
        self,
        table: &Table,
        narrow: usize,
        headers: bool,
        widths: &mut Vec<usize>,
    ) -> String {
        let columns = match self.format {
            ListFormat::Wide => usize::MAX,
            _ => narrow,
        };
        if table.is_empty() {
            return String::new();
        }
        table.text_after(columns, headers, self.color, widths)
    }

    /// The text of an answer: the object itself, or the text for people.
    pub(super) fn text<T: DeserializeOwned>(
        self,
        answer: &Answer,
        render: impl FnOnce(&Document<T>) -> String,
    ) -> Result<String, Error> {
        match self.format {
            ListFormat::Json => Ok(answer.json()),
            _ => Ok(render(&answer.document()?)),
        }
    }
}

/// True if stdout gets colours.
pub(super) fn is_coloured(choice: ColorChoice) -> bool {
    choice.applies(&io::stdout())
}

/// A result that is printed again: in place on a terminal, else anew; objects for programs one after the other.
pub(super) struct Repeated {
    screen: Screen,
    is_json: bool,
}

impl Repeated {
    /// A result that was not printed yet.
    pub(super) fn new(is_json: bool) -> Self {
        Self {
            screen: Screen::stdout(),
            is_json,
        }
    }

    /// Prints the result as it is now.
    pub(super) fn print(&mut self, text: &str) -> Result<(), Error> {
        if self.is_json {
            return write_next(text);
        }
        self.screen.clear_notice()?;
        self.screen.draw(text)
    }

    /// Says that the replica does not answer.
    pub(super) fn lost(&mut self, notice: &str) -> Result<(), Error> {
        if self.is_json {
            say(notice);
            return Ok(());
        }
        self.screen.notice(notice)
    }
}

/// The age of an instant at the time for which the answer holds; `-` if it is unknown.
pub(super) fn age(since: Option<Time>, as_of: Time) -> String {
    since.map_or_else(|| "-".to_owned(), |since| time::age(since.0, as_of.0))
}

/// A number of words: `1 group`, `2 groups`.
pub(crate) fn counted(count: usize, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}")
}

/// The query of a stream about these topics, of a project or of all.
pub(super) fn topics(topics: &str, project: Option<&str>) -> String {
    let query = query(&[("topics", Some(topics)), ("project", project)]);
    query.trim_start_matches('?').to_owned()
}

/// `name=value` pairs of a query, those without a value left out; empty, or with its question mark.
pub(super) fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    match query.finish() {
        query if query.is_empty() => query,
        query => format!("?{query}"),
    }
}
