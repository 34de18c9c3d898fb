//! A list that is watched: whole at first, then a row or an object for each change.

use super::{Listing, Output, served, write_next};
use crate::error::Error;
use std::{collections::BTreeMap, io};

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
