//! Results: tables for people, objects for programs.

pub(crate) mod jsonpath;
pub(crate) mod screen;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod watched;

use crate::{error::Error, view::Object};
use jsonpath::Template;
use serde_json::{Value, json};
use std::io::{self, Write};
use style::ColorChoice;
use table::Table;

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
#[derive(Debug)]
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
}

/// A list of objects, and their table for people.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The objects, in the order of the rows.
    pub(crate) objects: Vec<Object>,
    /// The table.
    pub(crate) table: Table,
    /// Number of its columns in the narrow and in the wide form.
    pub(crate) columns: (usize, usize),
    /// The line after the table.
    pub(crate) footer: String,
    /// The line instead of an empty table.
    pub(crate) empty: String,
}

impl Output {
    /// Prints a list.
    pub(crate) fn list(&self, listing: &Listing) -> Result<(), Error> {
        let Listing {
            objects,
            table,
            columns,
            footer,
            empty,
        } = listing;
        let columns = match self.format {
            Format::Table => columns.0,
            Format::Wide => columns.1,
            Format::Json | Format::Yaml | Format::Name | Format::Jsonpath(_) => {
                let items = objects.iter().map(served);
                let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items.collect::<Vec<_>>()});
                return self.object(&list);
            }
        };
        if objects.is_empty() {
            self.remark(empty);
            return Ok(());
        }
        let colour = self.color.applies(&io::stdout());
        write(&table.text(columns, self.headers, colour))?;
        self.remark(footer);
        Ok(())
    }

    /// Prints an object, or a `List`.
    pub(crate) fn object(&self, object: &Value) -> Result<(), Error> {
        match &self.format {
            Format::Name => {
                let items = match object["items"].as_array() {
                    Some(items) => items.iter().collect(),
                    None => vec![object],
                };
                items
                    .into_iter()
                    .try_for_each(|item| write(&format!("{}\n", name(item))))
            }
            Format::Jsonpath(template) => write(&template.render(object)?),
            Format::Yaml => {
                let yaml = serde_saphyr::to_string(object);
                write(&yaml.map_err(|error| Error::new(crate::error::Kind::Failed, error.to_string()))?)
            }
            Format::Table | Format::Wide | Format::Json => {
                let json = serde_json::to_string_pretty(object);
                let json = json.map_err(|error| Error::new(crate::error::Kind::Failed, error.to_string()))?;
                write(&format!("{json}\n"))
            }
        }
    }

    /// Prints an object that follows others of a watch: in JSON one a line, in YAML one document each.
    pub(crate) fn next_object(&self, object: &Value) -> Result<(), Error> {
        match self.format {
            Format::Json => write(&format!("{object}\n")),
            Format::Yaml => {
                write("---\n")?;
                self.object(object)
            }
            Format::Jsonpath(_) => {
                self.object(object)?;
                write("\n")
            }
            Format::Table | Format::Wide | Format::Name => self.object(object),
        }
    }

    /// The text of a table with its first columns, for stdout.
    pub(crate) fn table_text(&self, table: &Table, columns: usize) -> String {
        table.text(columns, self.headers, self.color.applies(&io::stdout()))
    }

    /// Prints a table with its first columns.
    pub(crate) fn table(&self, table: &Table, columns: usize) -> Result<(), Error> {
        write(&self.table_text(table, columns))
    }

    /// Number of columns in this format.
    pub(crate) fn columns(&self, narrow: usize, wide: usize) -> usize {
        if matches!(self.format, Format::Wide) {
            wide
        } else {
            narrow
        }
    }

    /// True if the result is text for people, and not for programs.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Prints a line for people, unless they asked for none.
    pub(crate) fn remark(&self, line: &str) {
        if !self.quiet && !line.is_empty() {
            // Without stderr nobody reads it.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
}

/// Prints a warning.
pub(crate) fn warn(line: &str) {
    // Without stderr nobody reads it.
    let _ = writeln!(io::stderr(), "warning: {}", table::escape(line));
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

/// Writes to stdout. A reader that has gone, e.g. `head`, is no error.
pub(crate) fn write(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(crate::error::Kind::Failed, "cannot write the result").because(error.to_string()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
