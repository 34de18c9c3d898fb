//! Matches existing deployments with the (placement, city) pairs of the Workload (contract: cell.md §1, step 5): by
//! their spec, never by name.

use super::snapshot::is_leaving;
use fedgate_api::{Placement, WorkloadDeployment};

/// A placement in one of its cities.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    /// The placement.
    pub(super) placement: &'a Placement,
    /// The city code.
    pub(super) city: &'a str,
}

/// The deployment of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Match<'a> {
    /// No deployment.
    None,
    /// A terminating deployment; its successor is created later.
    Leaving,
    /// This deployment; its `placementName` may be an earlier name of the placement.
    Live(&'a WorkloadDeployment),
}

/// Every pair with its deployment, and the remaining deployments.
#[derive(Debug)]
pub(super) struct Matches<'a> {
    /// The pairs in the order of the spec.
    pub(super) pairs: Vec<(Pair<'a>, Match<'a>)>,
    /// Deployments of no pair, terminating ones included.
    pub(super) unmatched: Vec<&'a WorkloadDeployment>,
}

/// Matches pairs with deployments.
pub(super) fn assign<'a>(placements: &'a [Placement], deployments: &'a [WorkloadDeployment]) -> Matches<'a> {
    // Oldest first; the name makes the order total.
    let mut live: Vec<&WorkloadDeployment> = deployments.iter().filter(|d| !is_leaving(d)).collect();
    live.sort_by_key(|d| {
        (
            d.metadata.creation_timestamp.as_ref().map(|t| t.0),
            d.metadata.name.clone(),
        )
    });
    let leaving: Vec<&WorkloadDeployment> = deployments.iter().filter(|d| is_leaving(d)).collect();

    let mut pairs: Vec<(Pair, Match)> = placements
        .iter()
        .flat_map(|placement| {
            placement
                .city_codes
                .iter()
                .map(move |city| Pair { placement, city })
        })
        .map(|pair| {
            let same = |d: &&WorkloadDeployment| {
                d.spec.placement_name == pair.placement.name && d.spec.city_code.as_deref() == Some(pair.city)
            };
            let found = match live.iter().position(same) {
                Some(i) => Match::Live(live.remove(i)),
                None if leaving.iter().any(same) => Match::Leaving,
                None => Match::None,
            };
            (pair, found)
        })
        .collect();
    renamed(&mut pairs, &mut live);
    live.extend(leaving);
    Matches {
        pairs,
        unmatched: live,
    }
}

/// A renamed placement keeps its deployments: if exactly one pair and one deployment of a city remain, they are
/// matched, and no Instance is replaced.
fn renamed<'a>(pairs: &mut [(Pair<'a>, Match<'a>)], left: &mut Vec<&'a WorkloadDeployment>) {
    for i in 0..pairs.len() {
        let city = pairs[i].0.city;
        let open = pairs
            .iter()
            .filter(|(pair, found)| pair.city == city && *found == Match::None)
            .count();
        let of_city = |d: &WorkloadDeployment| d.spec.city_code.as_deref() == Some(city);
        if pairs[i].1 == Match::None
            && open == 1
            && left.iter().filter(|d| of_city(d)).count() == 1
            && let Some(at) = left.iter().position(|d| of_city(d))
        {
            pairs[i].1 = Match::Live(left.remove(at));
        }
    }
}
