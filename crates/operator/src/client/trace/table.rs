//! A trace with a row for each hop, in the columns of `kubectl compute trace`.

use super::super::output::{Output, age};
use fedgate_operations::{Answer as Document, Branch, Hop, HopSource, HopState, Time, Trace};
use fedgate_terminal::{
    style::Tone,
    table::{Cell, Table},
};

const COLUMNS: &[&str] = &[
    "CITY",
    "HOP",
    "OBJECT",
    "STATE",
    "AGE",
    "DETAIL",
    "PLACEMENT",
    "WANTS",
    "HAS",
    "SOURCE",
];
/// Columns of the narrow form.
const NARROW: usize = 6;

/// The word and the tone of a state.
pub(super) const fn state(state: HopState) -> (&'static str, Tone) {
    match state {
        HopState::Ok => ("ok", Tone::Good),
        HopState::Waiting => ("waiting", Tone::Busy),
        HopState::Broken => ("broken", Tone::Bad),
        HopState::Unseen => ("unseen", Tone::Dim),
    }
}

/// Reason and details of a hop.
pub(super) fn words(hop: &Hop) -> String {
    let words: Vec<&str> = [hop.word.as_str(), &hop.detail]
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect();
    words.join(": ")
}

pub(in crate::client) fn text(document: &Document<Trace>, output: Output) -> String {
    let mut table = Table::new(COLUMNS);
    for branch in &document.body.branches {
        for hop in &branch.hops {
            table.row(row(branch, hop, document.header.as_of));
        }
    }
    output.table(&table, NARROW)
}

fn row(branch: &Branch, hop: &Hop, as_of: Time) -> Vec<Cell> {
    let (word, tone) = state(hop.state);
    let source = match hop.source {
        HopSource::Project => "project",
        HopSource::Hub => "hub",
        HopSource::Inferred => "inferred",
    };
    let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    vec![
        branch.city.as_str().into(),
        hop.hop.as_str().into(),
        hop.object.as_str().into(),
        Cell::toned(word, tone),
        age(hop.since, as_of).into(),
        words(hop).into(),
        branch.placement.as_str().into(),
        number(hop.wants).into(),
        number(hop.has).into(),
        source.into(),
    ]
}
