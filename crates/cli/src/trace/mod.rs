//! The way of a Workload's city from the project to its Instances and back, and the first broken link of it, as the
//! project's own objects tell (contract: cli.md §10). The module is pure: the objects were read before.

mod links;

use crate::{
    error::Kind,
    output::{style::Tone, table::escape},
    time::age,
    view::{City, Instances, Object},
};
use jiff::{SignedDuration, Timestamp};
use links::links;

fedgate_api::words! {
    /// A hop, in the order of the way.
    pub(crate) enum Hop {
        /// The deployment in the project.
        Project = "project",
        /// The copy of the deployment on the hub.
        Hub = "hub",
        /// Karmada's binding of the copy.
        Binding = "binding",
        /// The deployment in the cell.
        Cell = "cell",
        /// The Instances in the cell.
        Instances = "instances",
        /// The Instances in the project.
        Projection = "projection",
    }
}

/// The state of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Not yet as it should be.
    Waiting,
    /// Refused, or waiting for too long.
    Broken,
    /// Not known: no object of the project tells.
    Unseen,
}

impl State {
    /// The word and its tone.
    pub(crate) const fn word(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("ok", Tone::Good),
            Self::Waiting => ("waiting", Tone::Busy),
            Self::Broken => ("broken", Tone::Bad),
            Self::Unseen => ("unseen", Tone::Dim),
        }
    }
}

/// A hop with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The hop.
    pub(crate) hop: Hop,
    /// The object that proves it.
    pub(crate) object: String,
    /// The state.
    pub(crate) state: State,
    /// The time when it came into this state.
    pub(crate) since: Option<Timestamp>,
    /// The reason.
    pub(crate) detail: String,
    /// The project's generation that it has.
    pub(crate) generation: Option<i64>,
    /// True if no object proves it, but a later hop does.
    pub(crate) is_inferred: bool,
}

impl Link {
    /// The source of the proof.
    pub(crate) const fn source(&self) -> &'static str {
        if self.is_inferred { "inferred" } else { "project" }
    }
}

/// The objects that tell of a city.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The Workload.
    pub(crate) workload: &'a Object,
    /// The placement and city.
    pub(crate) city: &'a City,
    /// The deployment in the project.
    pub(crate) deployment: Option<&'a Object>,
    /// All Instances of the project.
    pub(crate) instances: &'a Instances,
    /// The Events of the project about deployments, as far as they were read.
    pub(crate) events: &'a [Object],
}

/// The hops of a city.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The placement and city.
    pub(crate) city: City,
    /// The hops, in their order.
    pub(crate) links: Vec<Link>,
}

impl Chain {
    /// The first hop in this state, and its index.
    pub(crate) fn first(&self, state: State) -> Option<(usize, &Link)> {
        let mut links = self.links.iter().enumerate();
        links.find(|(_, link)| link.state == state)
    }

    /// True if its Instances are not in the project as they should be.
    pub(crate) fn is_unprojected(&self) -> bool {
        let is_open = |state| matches!(state, State::Waiting | State::Broken);
        let mut links = self.links.iter();
        links.any(|link| link.hop == Hop::Projection && is_open(link.state))
    }

    /// Time until the first waiting hop is broken by its age.
    pub(crate) fn next_change(&self, stuck_after: SignedDuration, now: Timestamp) -> Option<SignedDuration> {
        if self.first(State::Broken).is_some() {
            return None;
        }
        let (_, waiting) = self.first(State::Waiting)?;
        let left = stuck_after - now.duration_since(waiting.since?);
        Some(left.max(SignedDuration::from_millis(10)))
    }
}

/// The hops of a city from the objects that tell of it.
pub(crate) fn chain(evidence: &Evidence<'_>, stuck_after: SignedDuration, now: Timestamp) -> Chain {
    let mut links = links(evidence);
    let is_cell_proven = links
        .iter()
        .any(|link| link.hop == Hop::Cell && link.state == State::Ok);
    let mut is_broken = false;
    for link in &mut links {
        if is_cell_proven && matches!(link.hop, Hop::Hub | Hop::Binding) {
            infer(link);
        }
        let is_aged = link
            .since
            .is_some_and(|since| now.duration_since(since) >= stuck_after);
        if link.state == State::Waiting && is_aged && !is_broken {
            link.state = State::Broken;
        }
        is_broken |= link.state == State::Broken;
    }
    Chain {
        city: evidence.city.clone(),
        links: links.into(),
    }
}

/// A hop without a refusal that lies before a proven cell is as it should be, because the spec has passed it.
fn infer(link: &mut Link) {
    if matches!(link.state, State::Waiting | State::Unseen) {
        link.state = State::Ok;
        link.is_inferred = true;
        link.since = None;
        "the cell has this generation".clone_into(&mut link.detail);
    }
}

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
        let (time, waiting) = (time.unwrap_or_default(), link.hop.as_str());
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
        .map(|link| format!("{} unseen, {}", link.hop.as_str(), link.detail))
        .collect();
    let note = if notes.is_empty() {
        String::new()
    } else {
        format!(" ({})", notes.join("; "))
    };
    let link = &chain.links[at];
    let to = after(chain, at).last().unwrap_or(link).hop.as_str();
    let time = link
        .since
        .map(|since| format!(" for {}", age(since, now)))
        .unwrap_or_default();
    let from = from.map_or("workload", |link| link.hop.as_str());
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

#[cfg(test)]
mod tests;
