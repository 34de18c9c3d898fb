//! The states of a city's hops, with their ages: a hop that waits for long is broken, one behind it is not.

use super::{Evidence, Finding, Findings, Hop, Proof, Source, cell, hub, project};
use crate::view::City;
use jiff::{SignedDuration, Timestamp};

/// The state of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Not yet as it should be.
    Waiting,
    /// Refused, or waiting for too long.
    Broken,
    /// Not known: no plane that was read tells.
    Unseen,
}

impl State {
    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Waiting => "waiting",
            Self::Broken => "broken",
            Self::Unseen => "unseen",
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
    /// The reason, or the flag that would show it.
    pub(crate) detail: String,
    /// The project's generation that it has.
    pub(crate) generation: Option<i64>,
    /// The plane that proves it.
    pub(crate) source: Source,
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
        self.links
            .iter()
            .enumerate()
            .find(|(_, link)| link.state == state)
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
    let mut findings = project::findings(evidence);
    if let Some(deployment) = evidence.deployment {
        hub::refine(&mut findings, evidence, deployment);
        cell::refine(&mut findings, evidence, deployment);
        if findings.projection.proof != Proof::Holds
            && let Some(quarantine) = project::quarantine(deployment, evidence.events)
        {
            findings.projection.detail = format!("{}; {quarantine}", findings.projection.detail);
        }
    }
    Chain {
        city: evidence.city.clone(),
        links: links(findings, stuck_after, now),
    }
}

/// The cities whose Instances are not in the project as they should be.
pub(crate) fn unprojected(chains: &[Chain]) -> Vec<City> {
    let is_open =
        |link: &Link| link.hop == Hop::Projection && matches!(link.state, State::Waiting | State::Broken);
    let open = chains.iter().filter(|chain| chain.links.iter().any(is_open));
    open.map(|chain| chain.city.clone()).collect()
}

fn links(findings: Findings, stuck_after: SignedDuration, now: Timestamp) -> Vec<Link> {
    let Findings {
        project,
        mut hub,
        mut binding,
        cell,
        instances,
        projection,
    } = findings;
    if cell.proof == Proof::Holds {
        infer(&mut hub);
        infer(&mut binding);
    }
    let findings = [
        (Hop::Project, project),
        (Hop::Hub, hub),
        (Hop::Binding, binding),
        (Hop::Cell, cell),
        (Hop::Instances, instances),
        (Hop::Projection, projection),
    ];
    let mut is_broken = false;
    let links = findings.map(|(hop, finding)| {
        let aged = finding
            .since
            .is_some_and(|since| now.duration_since(since) >= stuck_after);
        let state = match finding.proof {
            Proof::Holds => State::Ok,
            Proof::Unseen => State::Unseen,
            Proof::Refused => State::Broken,
            Proof::NotYet if aged && !is_broken => State::Broken,
            Proof::NotYet => State::Waiting,
        };
        is_broken |= state == State::Broken;
        let Finding {
            proof: _,
            object,
            since,
            detail,
            generation,
            source,
        } = finding;
        Link {
            hop,
            object,
            state,
            since,
            detail,
            generation,
            source,
        }
    });
    links.into()
}

/// A hop without a refusal that lies before a proven cell is as it should be: the spec has passed it. A hub that was named
/// and cannot be read stays unseen, with its cause.
fn infer(finding: &mut Finding) {
    let is_open = match finding.proof {
        Proof::NotYet => true,
        Proof::Unseen => finding.source == Source::Project,
        Proof::Holds | Proof::Refused => false,
    };
    if is_open {
        finding.proof = Proof::Holds;
        finding.source = Source::Inferred;
        finding.since = None;
        "the cell has this generation".clone_into(&mut finding.detail);
    }
}
