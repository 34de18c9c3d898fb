//! The states of a city's hops, with their ages: a hop that waits for long is broken, one behind it is not.

use super::{Evidence, Hop, Link, State, links::links};
use crate::view::City;
use jiff::{SignedDuration, Timestamp};

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

/// The cities whose Instances are not in the project as they should be.
pub(crate) fn unprojected(chains: &[Chain]) -> Vec<City> {
    let is_open =
        |link: &Link| link.hop == Hop::Projection && matches!(link.state, State::Waiting | State::Broken);
    let open = chains.iter().filter(|chain| chain.links.iter().any(is_open));
    open.map(|chain| chain.city.clone()).collect()
}
