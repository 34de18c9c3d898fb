//! The places at which a Workload wants deployments (contract: locations.md §2.3, number 1 and 2).

use super::snapshot::{Locations, WorkloadSnapshot, is_leaving};
use fedgate_api::{Place, Placement, Places, WorkloadDeployment};

/// A placement at one of its places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    /// The placement.
    pub(super) placement: &'a Placement,
    /// The place: a city or a location, as the placement says it.
    pub(super) place: Place<&'a str>,
    /// Whether it may get a deployment.
    pub(super) access: Access,
}

/// Whether a pair may get a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// A deployment is created if there is none.
    Open,
    /// The place has no Location that is ready: a deployment that exists is kept, none is created.
    NoLocation,
    /// The placement's selector cannot be resolved: the pair is that of a deployment that exists, and keeps it.
    Kept,
}

impl Pair<'_> {
    /// The city or location as text.
    pub(super) fn at(&self) -> &str {
        name_of(&self.place)
    }
}

/// The location of a place, else its city.
pub(super) fn name_of<'a>(place: &Place<&'a str>) -> &'a str {
    match place {
        Place::City(city) => city,
        Place::Location(location) | Place::Both { location, .. } => location,
    }
}

/// All that a Workload wants.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// The pairs in the order of the spec.
    pub(super) pairs: Vec<Pair<'a>>,
    /// Placements whose selector cannot be resolved.
    pub(super) unresolved: Vec<&'a Placement>,
}

/// The pairs of a Workload's spec.
pub(super) fn wanted(snapshot: &WorkloadSnapshot) -> Wanted<'_> {
    let mut all = Wanted {
        pairs: Vec::new(),
        unresolved: Vec::new(),
    };
    for placement in &snapshot.workload.spec.placements {
        let pair = |place, access| Pair {
            placement,
            place,
            access,
        };
        match placement.places() {
            Some(Places::Cities(cities)) => all.pairs.extend(cities.iter().map(|city| {
                let access = of_city(&snapshot.checks.locations, city);
                pair(Place::City(city), access)
            })),
            Some(Places::Locations(locations)) => all.pairs.extend(
                locations
                    .iter()
                    .map(|location| pair(Place::Location(&location.name), Access::Open)),
            ),
            Some(Places::Selected(_)) => {
                let own = kept(snapshot, placement);
                all.pairs.extend(own.map(|place| pair(place, Access::Kept)));
                all.unresolved.push(placement);
            }
            // No object of today's definition; the checks have refused it.
            None => {}
        }
    }
    all
}

fn of_city(locations: &Locations, city: &str) -> Access {
    if locations.serve(city) {
        Access::Open
    } else {
        Access::NoLocation
    }
}

/// The places of a placement's deployments, in the order of their names; both fields of one are its location.
fn kept<'a>(
    snapshot: &'a WorkloadSnapshot,
    placement: &'a Placement,
) -> impl Iterator<Item = Place<&'a str>> {
    let own = |d: &&WorkloadDeployment| d.spec.placement_name == placement.name && !is_leaving(d);
    let mut own: Vec<&WorkloadDeployment> = snapshot.deployments.iter().filter(own).collect();
    own.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    own.into_iter().filter_map(|d| match d.spec.place()? {
        Place::Both { location, .. } => Some(Place::Location(location)),
        one => Some(one),
    })
}
