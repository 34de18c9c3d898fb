//! The end of a trace: whole, moving, or broken at a hop.

use super::{Chain, Hop, Source, State};
use crate::{output::table::escape, time::age};
use jiff::Timestamp;

/// The end of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every hop is as it should be.
    Whole,
    /// A hop waits.
    Moving(String),
    /// A hop is broken.
    Broken {
        /// The line about it.
        line: String,
        /// The command to run next.
        next: String,
    },
}

impl Verdict {
    /// The verdict about a Workload's cities: broken beats moving.
    pub(crate) fn of(workload: &str, chains: &[Chain], now: Timestamp) -> Self {
        let broken = chains.iter().find_map(|chain| {
            let (at, _) = chain.first(State::Broken)?;
            Some((chain, at))
        });
        if let Some((chain, at)) = broken {
            return Self::Broken {
                line: broken_line(chain, at, now),
                next: next(workload, chain, at),
            };
        }
        let waiting = chains
            .iter()
            .find_map(|chain| Some((chain, chain.first(State::Waiting)?.1)));
        match waiting {
            Some((chain, link)) => {
                let time = link
                    .since
                    .map(|since| format!(" ({})", age(since, now)))
                    .unwrap_or_default();
                let city = &chain.city;
                Self::Moving(format!(
                    "Moving: {}/{} waits at {}{time}.",
                    city.placement,
                    city.shown,
                    link.hop.word()
                ))
            }
            None => Self::Whole,
        }
    }
}

/// `First broken link (us/IAD): binding -> cell: pop-iad: cluster not Ready for 6m`. Unseen hops before it widen the span.
fn broken_line(chain: &Chain, at: usize, now: Timestamp) -> String {
    let before = chain.links.get(..at).unwrap_or_default();
    let from = before.iter().rev().find(|link| link.state != State::Unseen);
    let unseen = before
        .iter()
        .rev()
        .take_while(|link| link.state == State::Unseen)
        .chain(after(chain, at));
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
    let city = &chain.city;
    escape(&format!(
        "First broken link ({}/{}): {from} -> {to}{note}: {}: {}{time}",
        city.placement, city.shown, link.object, link.detail
    ))
}

/// The unseen hops that a broken one may stand for: the project tells with one condition of hub and binding.
fn after(chain: &Chain, at: usize) -> impl Iterator<Item = &super::Link> {
    let tells_of_both = chain
        .links
        .get(at)
        .is_some_and(|link| link.hop == Hop::Hub && link.source == Source::Project);
    let rest = chain.links.get(at + 1..).unwrap_or_default();
    rest.iter()
        .take_while(move |link| tells_of_both && link.hop == Hop::Binding && link.state == State::Unseen)
}

/// The command that shows more of the broken hop.
fn next(workload: &str, chain: &Chain, at: usize) -> String {
    let link = &chain.links[at];
    let is_hub_unseen = chain.links.iter().any(|link| link.state == State::Unseen);
    match link.hop {
        Hop::Project => format!("kubectl compute workloads describe {workload}"),
        Hop::Hub | Hop::Binding | Hop::Cell if is_hub_unseen => {
            let city = &chain.city.shown;
            format!("kubectl compute trace {workload} --city {city} --hub-context CONTEXT")
        }
        Hop::Hub | Hop::Binding | Hop::Cell => format!("kubectl compute status {workload}"),
        Hop::Instances | Hop::Projection => {
            format!(
                "kubectl compute instances --workload {workload} --city {}",
                chain.city.shown
            )
        }
    }
}
