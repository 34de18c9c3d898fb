//! Results: tables for people, objects for programs.

mod jsonpath;

pub(crate) use fedgate_terminal::{
    screen, style, table,
    write::{complain, warn, write, write_next},
};

use crate::{
    error::{Error, Kind},
    interrupt::Writes,
    view::Object,
};
use fedgate_terminal::write::say;
use jsonpath::Template;
use serde_json::{Value, json};
use std::{collections::BTreeMap, io};
use style::ColorChoice;
use table::{Table, escape};

/// A format of results.
#[derive(Debug, Clone, Default)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// One name a line.
    Name,
    /// A template in kubectl's dialect.
    Jsonpath(Template),
}

/// Names of the formats, for errors and completion.
pub(crate) const FORMATS: &str = "table, wide, json, yaml, name, jsonpath=TEMPLATE";

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => Template::parse(template).map(Self::Jsonpath),
                None => Err(format!("unknown format; the formats are {FORMATS}")),
            },
        }
    }
}

/// Where results and remarks go.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The format.
    pub(crate) format: Format,
    /// False without a line of column names.
    pub(crate) headers: bool,
    /// True without footers and hints.
    pub(crate) quiet: bool,
    /// When colours are used.
    pub(crate) color: ColorChoice,
    /// The line that was typed, for hints that repeat it.
    pub(crate) line: String,
    /// The writes that Ctrl-C waits for.
    pub(crate) writes: Writes,
}

/// A list of objects, and their table for people.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The objects, in the order of the rows.
    pub(crate) objects: Vec<Object>,
    /// The table.
    pub(crate) table: Table,
    /// Number of its columns in the narrow form.
    pub(crate) narrow: usize,
    /// The line after the table.
    pub(crate) footer: String,
    /// The line instead of an empty table.
    pub(crate) empty: String,
    /// The line after that one; empty if there is nothing to do.
    pub(crate) hint: String,
}

impl Output {
    /// Prints a list.
    pub(crate) fn list(&self, listing: &Listing) -> Result<(), Error> {
        let objects = &listing.objects;
        if !self.is_text() {
            let items: Vec<Value> = objects.iter().map(served).collect();
            return self.object(&json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}));
        }
        if objects.is_empty() {
            self.say(&listing.empty);
            self.remark(&listing.hint);
            return Ok(());
        }
        write(&self.table_text(&listing.table, listing.narrow))?;
        self.remark(&listing.footer);
        Ok(())
    }

    /// Prints a text for people, or an object for programs.
    pub(crate) fn result(&self, text: &str, object: &Value) -> Result<(), Error> {
        if self.is_text() {
            write(text)
        } else {
            self.object(object)
        }
    }

    /// Prints an object, or a `List`.
    pub(crate) fn object(&self, object: &Value) -> Result<(), Error> {
        write(&self.rendered(object)?)
    }

    fn rendered(&self, object: &Value) -> Result<String, Error> {
        let failed = |error: String| Error::new(Kind::Failed, error);
        Ok(match &self.format {
            Format::Name => {
                let items = match object["items"].as_array() {
                    Some(items) => items.iter().collect(),
                    None => vec![object],
                };
                items.into_iter().map(|item| name(item) + "\n").collect()
            }
            Format::Jsonpath(template) => template.render(object)?,
            Format::Yaml => serde_saphyr::to_string(object).map_err(|error| failed(error.to_string()))?,
            Format::Table | Format::Wide | Format::Json => {
                let json = serde_json::to_string_pretty(object).map_err(|error| failed(error.to_string()));
                json? + "\n"
            }
        })
    }

    /// Prints an object that follows others of a watch: in JSON one a line, in YAML one document each.
    pub(crate) fn next_object(&self, object: &Value) -> Result<(), Error> {
        write_next(&match self.format {
            Format::Json => format!("{object}\n"),
            Format::Yaml => format!("---\n{}", self.rendered(object)?),
            Format::Jsonpath(_) => self.rendered(object)? + "\n",
            Format::Table | Format::Wide | Format::Name => self.rendered(object)?,
        })
    }

    /// The text of a table for stdout; `narrow` is the number of its columns in the narrow form.
    pub(crate) fn table_text(&self, table: &Table, narrow: usize) -> String {
        let colour = self.color.applies(&io::stdout());
        table.text(self.columns(narrow), self.headers, colour)
    }

    /// Number of columns in this format, at most.
    fn columns(&self, narrow: usize) -> usize {
        match self.format {
            Format::Wide => usize::MAX,
            _ => narrow,
        }
    }

    /// True if the result is text for people, and not for programs.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Prints a line for people that `--quiet` hides: progress, a footer or a hint.
    pub(crate) fn remark(&self, line: &str) {
        if !self.quiet {
            self.say(line);
        }
    }

    /// Prints a line for people in every case: a plan or a result that is not for programs.
    #[allow(clippy::unused_self)]
    pub(crate) fn say(&self, line: &str) {
        say(line);
    }
}

/// A number with its noun.
pub(crate) fn plural<N: std::fmt::Display + Copy + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let s = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// Lines of text, each escaped and ended.
pub(crate) fn escaped(lines: &[String]) -> String {
    lines.iter().map(|line| escape(line) + "\n").collect()
}

/// The object as the server sent it, less the fields that nobody reads.
pub(crate) fn served(object: &Object) -> Value {
    let mut object = object.0.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

/// `<kind>.<group>/<name>` of an object.
fn name(object: &Value) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let kind = text("/kind").to_lowercase();
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", text("/metadata/name"))
}

/// A list that is watched.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    output: &'a Output,
    /// The rows as they were printed last, by name of the object.
    rows: BTreeMap<String, String>,
    widths: Vec<usize>,
    is_first: bool,
}

impl<'a> Watched<'a> {
    /// A list that was not printed yet.
    pub(crate) fn new(output: &'a Output) -> Self {
        Self {
            output,
            rows: BTreeMap::new(),
            widths: Vec::new(),
            is_first: true,
        }
    }

    /// Prints the rows and objects that have changed since the last time, and names those that are gone.
    pub(crate) fn print(&mut self, listing: &Listing) -> Result<(), Error> {
        let columns = self.output.columns(listing.narrow);
        let mut before = std::mem::take(&mut self.rows);
        let mut changed = Vec::new();
        for (row, object) in listing.objects.iter().enumerate() {
            let identity = if self.output.is_text() {
                listing.table.identity(row, columns)
            } else {
                object.text("/metadata/resourceVersion").to_owned()
            };
            let name = object.name().to_owned();
            if before.remove(&name).as_ref() != Some(&identity) {
                changed.push(row);
            }
            self.rows.insert(name, identity);
        }
        if self.output.is_text() {
            let headers = self.is_first && self.output.headers && !changed.is_empty();
            let colour = self.output.color.applies(&io::stdout());
            let widths = &mut self.widths;
            write_next(&listing.table.text_of(&changed, columns, headers, colour, widths))?;
            self.is_first &= changed.is_empty();
        } else {
            let objects = changed.iter().filter_map(|row| listing.objects.get(*row));
            for object in objects {
                self.output.next_object(&served(object))?;
            }
        }
        for name in before.keys() {
            self.output.say(&format!("{name} is gone or matches no more"));
        }
        Ok(())
    }
}
