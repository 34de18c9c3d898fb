//! A trace with a line for each city: its hops up to the first broken one.

use super::{
    super::output::age,
    table::{state, words},
};
use fedgate_operations::{
    Answer as Document, Branch, FirstBroken, Hop, HopKind, HopState, Time, Trace, Verdict,
};
use fedgate_terminal::{style::Tone, table::escape};
use std::fmt::Write;

/// Column of the verdict in the first line.
const VERDICT_AT: usize = 64;

/// The characters of a drawing, and those for a terminal that does not show UTF-8.
const CHARACTERS: [(&str, &str); 5] = [
    ("└─", "+-"),
    ("├─", "|-"),
    ("│ ", "| "),
    (" ── ", " -- "),
    ("✗", "x"),
];

/// The characters and colours of a drawing.
#[derive(Debug, Clone, Copy)]
pub(in crate::client) struct Drawing {
    /// True if the terminal shows UTF-8.
    pub(in crate::client) is_utf8: bool,
    /// True with colours.
    pub(in crate::client) color: bool,
}

impl Drawing {
    /// The drawing for the locale of the environment.
    pub(super) fn of_locale(color: bool) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        Self {
            is_utf8: locale.is_some_and(|locale| is_utf8(&locale)),
            color,
        }
    }

    fn toned(self, word: &str, tone: Tone) -> String {
        let style = if self.color {
            tone.style()
        } else {
            Tone::Plain.style()
        };
        format!("{style}{word}{style:#}")
    }
}

/// True if the name of a locale, e.g. `C.UTF-8`, is one of UTF-8.
pub(in crate::client) fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The drawing of a trace.
pub(in crate::client) fn text(document: &Document<Trace>, drawing: Drawing) -> String {
    let (trace, as_of) = (&document.body, document.header.as_of);
    let object = &trace.object;
    let name = escape(&format!(
        "{} {}/{}",
        object.project, object.namespace, object.name
    ));
    let mut text = format!("{name:<VERDICT_AT$} {}\n", verdict(trace, drawing));
    for (at, branch) in trace.branches.iter().enumerate() {
        let is_last = at + 1 == trace.branches.len();
        let place = place(&branch.placement, &branch.city);
        let hops = hops(branch, as_of, drawing);
        let (fork, below) = if is_last {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        let _ = writeln!(text, "{fork} {}  {hops}", escape(&place));
        if let Some(broken) = trace.first_broken.as_ref().filter(|broken| is_of(broken, branch)) {
            let next = escape(&broken.next);
            let _ = writeln!(text, "{below} next: {next}");
        }
    }
    if drawing.is_utf8 {
        return text;
    }
    let ascii = CHARACTERS.iter();
    ascii.fold(text, |text, (utf8, ascii)| text.replace(utf8, ascii))
}

fn verdict(trace: &Trace, drawing: Drawing) -> String {
    match (trace.verdict, &trace.first_broken) {
        (Verdict::Whole, _) => drawing.toned("whole", Tone::Good),
        (Verdict::Moving, _) => drawing.toned("moving", Tone::Busy),
        (Verdict::Broken, None) => drawing.toned("broken", Tone::Bad),
        (Verdict::Broken, Some(first)) => {
            let place = escape(&place(&first.placement, &first.city));
            format!(
                "{} at {place}: {}",
                drawing.toned("broken", Tone::Bad),
                first.hop.as_str()
            )
        }
    }
}

fn place(placement: &str, city: &str) -> String {
    if placement.is_empty() {
        city.to_owned()
    } else {
        format!("{placement}/{city}")
    }
}

fn is_of(first: &FirstBroken, branch: &Branch) -> bool {
    first.placement == branch.placement && first.city == branch.city
}

/// The hops up to the first broken one, and the state of the branch.
fn hops(branch: &Branch, as_of: Time, drawing: Drawing) -> String {
    let broken = branch.hops.iter().position(|hop| hop.state == HopState::Broken);
    let shown = branch
        .hops
        .iter()
        .take(broken.map_or(branch.hops.len(), |at| at + 1));
    let hops: Vec<String> = shown.map(|hop| self::hop(hop, as_of, drawing)).collect();
    let is_whole = branch.hops.iter().all(|hop| hop.state == HopState::Ok);
    let end = if is_whole {
        format!("     {}", drawing.toned("ok", Tone::Good))
    } else {
        String::new()
    };
    hops.join(" ── ") + &end
}

/// `cell pop-iad gen 3 ✗ 6m  ClusterNotReachable`.
fn hop(hop: &Hop, as_of: Time, drawing: Drawing) -> String {
    let short = escape(&short(hop));
    let (word, tone) = state(hop.state);
    let age = hop
        .since
        .map(|since| format!(" {}", age(Some(since), as_of)))
        .unwrap_or_default();
    let words = words(hop);
    let words = if words.is_empty() {
        words
    } else {
        format!("  {}", escape(&words))
    };
    match hop.state {
        HopState::Ok => short,
        HopState::Broken => format!("{short} {}{age}{words}", drawing.toned("✗", tone)),
        HopState::Waiting => format!("{short} {}{age}{words}", drawing.toned(word, tone)),
        HopState::Unseen => format!("{short} {}", drawing.toned(word, tone)),
    }
}

/// The hop with the generation or the numbers that it has.
fn short(hop: &Hop) -> String {
    let counts = || Some(format!("{}/{}", hop.has?, hop.wants?));
    let kind = hop.hop.as_str();
    match hop.hop {
        HopKind::Instances => counts().map_or_else(|| kind.to_owned(), |counts| format!("{counts} ready")),
        HopKind::Projection => {
            counts().map_or_else(|| kind.to_owned(), |counts| format!("{counts} projected"))
        }
        HopKind::Binding if hop.state == HopState::Ok => format!("{kind} ok"),
        HopKind::Binding | HopKind::Write => kind.to_owned(),
        HopKind::Project | HopKind::Hub | HopKind::Cell => {
            let object = if hop.hop == HopKind::Cell {
                hop.object.as_str()
            } else {
                ""
            };
            let generation = hop.has.map(|has| format!("gen {has}")).unwrap_or_default();
            let parts = [kind, object, &generation];
            parts
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" ")
        }
    }
}
