//! Matches existing deployments with the pairs of placement and place of the Workload (contract: cell.md §1, step 5;
//! locations.md §2.3, number 3): by their spec, never by name.

use super::{
    snapshot::{Cities, WorkloadSnapshot, is_leaving},
    wanted::{Pair, Unresolved, Wanted, name_of, wanted},
};
use fedgate_api::{Place, WorkloadDeployment};
use std::collections::BTreeSet;

/// The deployment of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Match<'a> {
    /// No deployment.
    None,
    /// A terminating deployment; its successor is created later.
    Leaving,
    /// The deployment exists; its `placementName` may be an earlier name of the placement, and its place may be said in another
    /// form.
    Live(&'a WorkloadDeployment),
}

/// Every pair with its deployment, and the remaining deployments.
#[derive(Debug)]
pub(super) struct Matches<'a> {
    /// The pairs in the order of the spec.
    pub(super) pairs: Vec<(Pair<'a>, Match<'a>)>,
    /// Deployments of no pair, terminating ones included.
    pub(super) unmatched: Vec<&'a WorkloadDeployment>,
    /// Placements whose selector resolves to nothing.
    pub(super) unresolved: Vec<Unresolved<'a>>,
}

impl Matches<'_> {
    /// True if a pair without a deployment and a deployment without a pair may be one place in two forms, as far as a
    /// map is concerned that is not complete.
    pub(super) fn may_change_form(&self) -> bool {
        let open = self.pairs.iter().filter(|(_, found)| *found == Match::None);
        let mut located = open.map(|(pair, _)| pair.place.location().is_some());
        let live = self.unmatched.iter().filter(|d| !is_leaving(d));
        let is_located = |d: &WorkloadDeployment| d.spec.location_ref.is_some();
        let forms: BTreeSet<bool> = live.map(|d| is_located(d)).collect();
        located.any(|located| forms.contains(&!located))
    }
}

/// Matches pairs with deployments.
pub(super) fn assign(snapshot: &WorkloadSnapshot) -> Matches<'_> {
    let Wanted { pairs, unresolved } = wanted(snapshot);
    // Oldest first; the name makes the order total.
    let mut live: Vec<&WorkloadDeployment> = snapshot.deployments.iter().filter(|d| !is_leaving(d)).collect();
    live.sort_by_key(|d| {
        (
            d.metadata.creation_timestamp.as_ref().map(|t| t.0),
            d.metadata.name.clone(),
        )
    });
    let mut of = Assignment {
        pairs: pairs.into_iter().map(|pair| (pair, Match::None)).collect(),
        live,
        leaving: snapshot.deployments.iter().filter(|d| is_leaving(d)).collect(),
    };
    let cities = &snapshot.cities;
    let changes = |pair: &Pair, d: &WorkloadDeployment| changes_form(pair, d, cities);
    // All that are the same come first: a change of form takes no deployment that is another pair's own.
    of.within_placements(is_at);
    of.within_placements(changes);
    of.renamed(|one, other| one.place == other.place, is_at);
    let same_city = |one: &Pair, other: &Pair| city_of(&one.place, cities) == city_of(&other.place, cities);
    of.renamed(same_city, changes);
    of.matches(snapshot, unresolved)
}

/// True if a deployment is at the pair's place.
fn is_at(pair: &Pair, deployment: &WorkloadDeployment) -> bool {
    let place = deployment.spec.place();
    match (pair.place, place) {
        (Place::City(city), Some(is)) => is.city() == Some(&city),
        (wanted, Some(is)) => wanted.location() == is.location(),
        (_, None) => false,
    }
}

/// True if a deployment is at the pair's place, said in the other form: one has a location, the other only the city that
/// the map gives it.
fn changes_form(pair: &Pair, deployment: &WorkloadDeployment, cities: &Cities) -> bool {
    let places = (pair.place, deployment.spec.place());
    let ((Place::City(city), Some(other)) | (other, Some(Place::City(city)))) = places else {
        return false;
    };
    let of = other.location().and_then(|location| cities.get(*location));
    of.is_some_and(|of| of == city)
}

/// The city of a place, by its own words or by the map.
fn city_of<'a>(place: &Place<&'a str>, cities: &'a Cities) -> Option<&'a str> {
    match place.location() {
        Some(location) => cities.get(*location).map(String::as_str),
        None => place.city().copied(),
    }
}

/// Pairs and deployments that are being matched.
struct Assignment<'a> {
    pairs: Vec<(Pair<'a>, Match<'a>)>,
    /// Live deployments without a pair, oldest first.
    live: Vec<&'a WorkloadDeployment>,
    leaving: Vec<&'a WorkloadDeployment>,
}

impl<'a> Assignment<'a> {
    /// Matches each pair that is still open with a deployment of its placement that fits; of several cities and locations
    /// the first by name, of one place the oldest.
    fn within_placements(&mut self, fits: impl Fn(&Pair, &WorkloadDeployment) -> bool) {
        for (pair, found) in self.pairs.iter_mut().filter(|(_, found)| *found == Match::None) {
            let own = |d: &WorkloadDeployment| d.spec.placement_name == pair.placement.name && fits(pair, d);
            let candidates = self.live.iter().enumerate().filter(|(_, d)| own(d));
            let first = candidates.min_by_key(|(_, d)| d.spec.place().map(|place| name_of(&place)));
            *found = match first.map(|(at, _)| at) {
                Some(at) => Match::Live(self.live.remove(at)),
                None if self.leaving.iter().any(|d| own(d)) => Match::Leaving,
                None => Match::None,
            };
        }
    }

    /// A renamed placement keeps its deployments: if exactly one placement and one deployment of a place remain, they are
    /// matched, and no Instance is replaced.
    fn renamed(
        &mut self,
        alike: impl Fn(&Pair, &Pair) -> bool,
        fits: impl Fn(&Pair, &WorkloadDeployment) -> bool,
    ) {
        for i in 0..self.pairs.len() {
            let (pair, found) = self.pairs[i];
            let open = self.pairs.iter().filter(|(_, found)| *found == Match::None);
            let placements: BTreeSet<&str> = open
                .filter(|(other, _)| alike(&pair, other))
                .map(|(other, _)| &*other.placement.name)
                .collect();
            if found == Match::None
                && placements.len() == 1
                && self.live.iter().filter(|d| fits(&pair, d)).count() == 1
                && let Some(at) = self.live.iter().position(|d| fits(&pair, d))
            {
                self.pairs[i].1 = Match::Live(self.live.remove(at));
            }
        }
    }

    /// The result. A deployment may belong to a placement that was renamed and whose selector cannot be resolved: it is
    /// left as it is.
    fn matches(mut self, snapshot: &WorkloadSnapshot, unresolved: Vec<Unresolved<'a>>) -> Matches<'a> {
        let pairs = &self.pairs;
        let without = |of: &Unresolved| {
            let own = |(pair, _): &(Pair, Match)| pair.placement.name == of.placement.name;
            !of.is_read && !pairs.iter().any(own)
        };
        if unresolved.iter().any(without) {
            let placements = &snapshot.workload.spec.placements;
            let named = |d: &WorkloadDeployment| placements.iter().any(|p| p.name == d.spec.placement_name);
            self.live.retain(|d| named(d));
        }
        self.live.extend(self.leaving);
        Matches {
            pairs: self.pairs,
            unmatched: self.live,
            unresolved,
        }
    }
}
