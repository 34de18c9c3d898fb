//! Deployments of places that a placement no longer names: each serves until the deployments that replace it are ready
//! (contract: serving.md §4).

use super::{
    matching::{Match, Matches},
    ready::is_ready,
    snapshot::{WorkloadSnapshot, is_leaving, serves},
    wanted::{Access, name_of},
};
use crate::index::rows::MAX_REPLACED;
use fedgate_api::{WorkloadDeployment, keys};
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

/// The deployments of former places that stay, by UID.
#[derive(Debug, Default)]
pub(super) struct Kept<'a>(BTreeMap<&'a str, KeptDeployment<'a>>);

/// A deployment that stays, and the pair that it waits for.
#[derive(Debug)]
pub(super) struct KeptDeployment<'a> {
    deployment: &'a WorkloadDeployment,
    placement: &'a str,
    /// Number of the pair whose deployment is not ready.
    pub(super) awaits: usize,
}

impl KeptDeployment<'_> {
    /// Its place, for messages.
    pub(super) fn at(&self) -> String {
        let spec = &self.deployment.spec;
        let place = spec.place();
        format!("{}/{}", spec.placement_name, place.as_ref().map_or("", name_of))
    }
}

/// The pairs of a placement.
#[derive(Debug, Default)]
struct PlacementPairs {
    /// The first without a deployment that may get one.
    creatable: Option<usize>,
    /// The first without a deployment and without a Location.
    unplaceable: Option<usize>,
    /// True if a pair has a deployment.
    has_deployment: bool,
}

impl<'a> Kept<'a> {
    /// The deployments of no pair that rule 2 of serving.md §4 keeps.
    pub(super) fn of(snapshot: &'a WorkloadSnapshot, matches: &Matches<'a>) -> Self {
        if allows_gap(&snapshot.workload.metadata) {
            return Self::default();
        }
        let mut placements: BTreeMap<&'a str, PlacementPairs> = BTreeMap::new();
        let mut awaited: BTreeMap<&'a str, usize> = BTreeMap::new();
        for (number, (pair, found)) in matches.pairs.iter().enumerate() {
            let of = placements.entry(&*pair.placement.name).or_default();
            match *found {
                Match::None if pair.access != Access::Open => {
                    of.unplaceable.get_or_insert(number);
                }
                Match::None | Match::Leaving => {
                    of.creatable.get_or_insert(number);
                }
                Match::Live(new) => {
                    of.has_deployment = true;
                    let mut uids = replaced(new).peekable();
                    if uids.peek().is_some() && !is_ready(*pair, new) {
                        for uid in uids {
                            awaited.entry(uid).or_insert(number);
                        }
                    }
                }
            }
        }
        let kept = matches.unmatched.iter().copied().filter_map(|deployment| {
            let uid = deployment.metadata.uid.as_deref()?;
            let of = placements.get(&*deployment.spec.placement_name);
            let creatable = || of?.creatable.filter(|_| serves(deployment));
            let unplaceable = || {
                of?.unplaceable
                    .filter(|_| of.is_some_and(|of| !of.has_deployment))
            };
            let awaits = awaited
                .get(uid)
                .copied()
                .or_else(creatable)
                .or_else(unplaceable)?;
            let (pair, _) = matches.pairs.get(awaits)?;
            let kept = KeptDeployment {
                deployment,
                placement: &pair.placement.name,
                awaits,
            };
            (!is_leaving(deployment)).then_some((uid, kept))
        });
        Self(kept.collect())
    }

    /// True if the deployment stays.
    pub(super) fn contains(&self, deployment: &WorkloadDeployment) -> bool {
        let uid = deployment.metadata.uid.as_deref();
        uid.is_some_and(|uid| self.0.contains_key(uid))
    }

    /// True if an available one waits for a pair of the placement.
    pub(super) fn serves(&self, placement: &str) -> bool {
        let mut all = self.0.values();
        all.any(|kept| kept.placement == placement && serves(kept.deployment))
    }

    /// The first by place.
    pub(super) fn first(&self) -> Option<&KeptDeployment<'a>> {
        self.0.values().min_by_key(|kept| kept.at())
    }
}

/// UIDs of the deployments that the new ones of each placement replace, separated by commas.
pub(super) fn uids_to_replace<'a>(
    snapshot: &'a WorkloadSnapshot,
    matches: &Matches<'a>,
) -> BTreeMap<&'a str, String> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    if !allows_gap(&snapshot.workload.metadata) {
        let unmatched = matches.unmatched.iter().copied();
        for former in unmatched.filter(|d| !is_leaving(d) && serves(d)) {
            let of = all.entry(&*former.spec.placement_name).or_default();
            of.extend(former.metadata.uid.as_deref());
        }
    }
    let joined = |uids: BTreeSet<&str>| uids.into_iter().take(MAX_REPLACED).collect::<Vec<_>>().join(",");
    all.into_iter()
        .map(|(placement, uids)| (placement, joined(uids)))
        .collect()
}

/// True if the tenant allows that nothing serves while a placement moves.
pub(super) fn allows_gap(workload: &ObjectMeta) -> bool {
    let annotations = workload.annotations.as_ref();
    annotations
        .and_then(|all| all.get(keys::ALLOW_GAP))
        .map(String::as_str)
        == Some("true")
}

/// UIDs of the deployments that a deployment was created to replace.
fn replaced(new: &WorkloadDeployment) -> impl Iterator<Item = &str> {
    let annotations = new.metadata.annotations.as_ref();
    let uids = annotations.and_then(|all| all.get(keys::REPLACES));
    uids.into_iter()
        .flat_map(|uids| uids.split(','))
        .take(MAX_REPLACED)
}
