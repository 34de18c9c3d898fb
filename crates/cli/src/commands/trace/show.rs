//! A trace as a table for people, and as an object for programs.

use crate::{
    error::{Error, Kind},
    output::{
        Output,
        style::Tone,
        table::{Cell, Table},
    },
    time::age,
    trace::{Chain, Link, Verdict},
    view::City,
};
use jiff::Timestamp;
use serde_json::{Value, json};

const COLUMNS: &[&str] = &[
    "CITY",
    "HOP",
    "OBJECT",
    "STATE",
    "AGE",
    "DETAIL",
    "PLACEMENT",
    "GENERATION",
    "SOURCE",
];

/// Columns of the narrow form.
const NARROW: usize = 6;

/// The trace for people.
pub(super) fn text(output: &Output, chains: &[Chain], verdict: &Verdict, now: Timestamp) -> String {
    let mut table = Table::new(COLUMNS);
    for chain in chains {
        for link in &chain.links {
            table.row(row(&chain.city, link, now));
        }
    }
    output.table_text(&table, output.columns(NARROW, COLUMNS.len())) + &last_lines(verdict)
}

fn row(city: &City, link: &Link, now: Timestamp) -> Vec<Cell> {
    vec![
        (&*city.shown).into(),
        link.hop.word().into(),
        (&*link.object).into(),
        Cell::toned(link.state.word(), Tone::from(link.state)),
        link.since.map(|since| age(since, now)).unwrap_or_default().into(),
        (&*link.detail).into(),
        (&*city.placement).into(),
        link.generation.map(|n| n.to_string()).unwrap_or_default().into(),
        link.source.word().into(),
    ]
}

fn last_lines(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Whole => "Whole.\n".to_owned(),
        Verdict::Moving(line) => format!("{line}\n"),
        Verdict::Broken { line, next } => format!("{line}\n  next: {next}\n"),
    }
}

/// The trace for programs.
pub(super) fn object(name: &str, chains: &[Chain], verdict: &Verdict, now: Timestamp) -> Value {
    let links = |chain: &Chain| -> Vec<Value> {
        let links = chain.links.iter().map(|link| {
            json!({"hop": link.hop.word(), "object": link.object, "state": link.state.word(), "since": link.since,
                "age": link.since.map(|since| age(since, now)), "detail": link.detail, "generation": link.generation,
                "source": link.source.word()})
        });
        links.collect()
    };
    let cities = chains.iter().map(|chain| {
        let mut object = json!({"hops": links(chain)});
        chain.city.describe(&mut object);
        object
    });
    let (word, line) = match verdict {
        Verdict::Whole => ("Whole", "Whole."),
        Verdict::Moving(line) => ("Moving", line.as_str()),
        Verdict::Broken { line, .. } => ("Broken", line.as_str()),
    };
    json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Trace", "metadata": {"name": name}, "state": word,
        "message": line, "cities": cities.collect::<Vec<_>>()})
}

/// The end of a single trace, by its exit code: the result has said it already.
pub(super) fn end(verdict: &Verdict) -> Result<(), Error> {
    match verdict {
        Verdict::Whole => Ok(()),
        Verdict::Moving(line) => Err(Error::new(Kind::Moving, line).shown()),
        Verdict::Broken { line, next } => Err(Error::new(Kind::Blocked, line).next(next).shown()),
    }
}
