//! The end of a trace: whole, moving, or broken at a hop.

use super::{Chain, Hop, Link, State};
use crate::{error::Kind, output::table::escape, time::age, view::Object};
use jiff::Timestamp;

/// The end of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The word for programs.
    pub(crate) word: &'static str,
    /// The kind of error that ends a single trace; `None` if every hop is as it should be.
    pub(crate) fault: Option<Kind>,
    /// The line for people.
    pub(crate) line: String,
    /// The command to run next, if a hop is broken.
    pub(crate) next: Option<String>,
}

impl Verdict {
    /// The verdict about a Workload's cities: broken beats moving.
    pub(crate) fn of(project: &str, workload: &Object, chains: &[Chain], now: Timestamp) -> Self {
        let first = |state| chains.iter().find_map(|chain| Some((chain, chain.first(state)?)));
        let verdict = |word, fault, line, next| Self {
            word,
            fault,
            line,
            next,
        };
        if let Some((chain, (at, _))) = first(State::Broken) {
            let line = broken_line(chain, at, now);
            let next = next(project, workload, chain, at);
            return verdict("Broken", Some(Kind::Blocked), line, Some(next));
        }
        let Some((chain, (_, link))) = first(State::Waiting) else {
            return verdict("Whole", None, "Whole.".to_owned(), None);
        };
        let time = link.since.map(|since| format!(" ({})", age(since, now)));
        let (time, waiting) = (time.unwrap_or_default(), link.hop.word());
        let text = format!("Moving: {} waits at {waiting}{time}.", chain.city);
        verdict("Moving", Some(Kind::Moving), text, None)
    }
}

/// `First broken link (us/IAD): cell -> instances: 1 of 2 ready: InstancesNotReady for 6m`. Unseen hops before it widen the span.
fn broken_line(chain: &Chain, at: usize, now: Timestamp) -> String {
    let before = chain.links.get(..at).unwrap_or_default();
    let from = before.iter().rev().find(|link| link.state != State::Unseen);
    let unseen = before.iter().rev().take_while(|link| link.state == State::Unseen);
    let unseen = unseen.chain(after(chain, at));
    let notes: Vec<String> = unseen
        .map(|link| format!("{} unseen, {}", link.hop.word(), link.detail))
        .collect();
    let note = if notes.is_empty() {
        String::new()
    } else {
        format!(" ({})", notes.join("; "))
    };
    let link = &chain.links[at];
    let to = after(chain, at).last().unwrap_or(link).hop.word();
    let time = link
        .since
        .map(|since| format!(" for {}", age(since, now)))
        .unwrap_or_default();
    let from = from.map_or("workload", |link| link.hop.word());
    escape(&format!(
        "First broken link ({}): {from} -> {to}{note}: {}: {}{time}",
        chain.city, link.object, link.detail
    ))
}

/// The unseen hops that a broken one may stand for, because the project tells with one condition of hub and binding.
fn after(chain: &Chain, at: usize) -> impl Iterator<Item = &Link> {
    let is_hub = chain.links.get(at).is_some_and(|link| link.hop == Hop::Hub);
    let rest = chain.links.get(at + 1..).unwrap_or_default().iter();
    rest.take_while(move |link| is_hub && link.hop == Hop::Binding && link.state == State::Unseen)
}

/// The step that shows more of the broken hop. Hub and binding are the operator's; a cell lies behind a binding that no
/// object of the project tells of, unless it is proven.
fn next(project: &str, workload: &Object, chain: &Chain, at: usize) -> String {
    let name = workload.name();
    match chain.links[at].hop {
        Hop::Project => format!("kubectl compute workloads describe {name}"),
        Hop::Hub | Hop::Binding | Hop::Cell => {
            let namespace = workload.text("/metadata/namespace");
            format!("ask the operator: fedgate trace {project} {namespace}/{name}")
        }
        Hop::Instances | Hop::Projection => {
            let city = &chain.city.shown;
            format!("kubectl compute instances --workload {name} --city {city}")
        }
    }
}
