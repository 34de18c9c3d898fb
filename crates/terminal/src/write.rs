//! Writes to stdout and stderr.

use crate::{
    error::{Error, Kind},
    table::{escape, escape_lines},
};
use std::{
    io::{self, Write},
    sync::OnceLock,
};

/// Takes the lines of [`say`] in a process that has a log.
static LOG: OnceLock<fn(&str)> = OnceLock::new();

/// Sends the lines of [`say`] to the log of a process from now on; the first log counts.
pub fn say_to(log: fn(&str)) {
    let _ = LOG.set(log);
}

/// Writes to stdout. A reader that has gone, e.g. `head`, is no error.
pub fn write(text: &str) -> Result<(), Error> {
    write_next(text).or_else(|error| match error.kind {
        Kind::Interrupted => Ok(()),
        _ => Err(error),
    })
}

/// Writes to stdout while more is to come: without a reader the command ends, as by Ctrl-C.
pub fn write_next(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// The end of a write of a result that goes on.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Error> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::new(Kind::Interrupted, "nobody reads the result").shown(),
        _ => Error::new(Kind::Failed, "cannot write the result").because(error.to_string()),
    })
}

/// Prints a line for people on stderr; an empty one is left out.
pub fn say(line: &str) {
    if line.is_empty() {
        return;
    }
    match LOG.get() {
        Some(log) => log(line),
        // Without stderr nobody reads it.
        None => drop(writeln!(io::stderr(), "{}", escape_lines(line))),
    }
}

/// Prints a warning.
pub fn warn(line: &str) {
    // Without stderr nobody reads it.
    let _ = writeln!(io::stderr(), "warning: {}", escape(line));
}

/// Prints an error or a help text on stderr.
pub fn complain(text: &str) {
    // Without stderr nobody reads it.
    let _ = writeln!(io::stderr(), "{text}");
}
