//! The places at which a Workload wants deployments (contract: locations.md §2.3, number 1 and 2).

use super::snapshot::{Listed, Locations, WorkloadSnapshot, is_leaving};
use fedgate_api::{LabelSelector, Place, Placement, Places, WorkloadDeployment};

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
    /// The project's Locations are not read, and the placement has a selector: the pair is that of a deployment that exists. The
    /// deployment stays, and none is created.
    Existing,
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

/// The places of all placements of a Workload.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// The pairs in the order of the spec.
    pub(super) pairs: Vec<Pair<'a>>,
    /// Placements whose selector resolves to nothing.
    pub(super) unresolved: Vec<Unresolved<'a>>,
}

/// A placement whose selector resolves to nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unresolved<'a> {
    /// The placement.
    pub(super) placement: &'a Placement,
    /// True if the project's Locations are read, and none matches.
    pub(super) is_read: bool,
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
            Some(Places::Locations(locations)) => all.pairs.extend(locations.iter().map(|location| {
                let access = of_location(snapshot.checks.listed.as_ref(), &location.name);
                pair(Place::Location(&location.name), access)
            })),
            Some(Places::Selected(selector)) => {
                let listed = snapshot.checks.listed.as_ref();
                let pairs = match listed {
                    None => own_places(snapshot, placement)
                        .map(|place| pair(place, Access::Existing))
                        .collect(),
                    Some(listed) => selected(snapshot, placement, selector, listed),
                };
                if listed.is_none() || pairs.is_empty() {
                    let is_read = listed.is_some();
                    all.unresolved.push(Unresolved { placement, is_read });
                }
                all.pairs.extend(pairs);
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

fn of_location(listed: Option<&Listed>, name: &str) -> Access {
    let is_open = |listed: &Listed| listed.get(name).is_some_and(|location| location.placeable);
    if listed.is_none_or(is_open) {
        Access::Open
    } else {
        Access::NoLocation
    }
}

/// The pairs of a placement with a selector: the Locations that match, and the placement's deployments of which it is not
/// known whether they match, since their Locations are not listed.
fn selected<'a>(
    snapshot: &'a WorkloadSnapshot,
    placement: &'a Placement,
    selector: &LabelSelector,
    listed: &'a Listed,
) -> Vec<Pair<'a>> {
    let pair = |place, access| Pair {
        placement,
        place,
        access,
    };
    let matching = listed
        .iter()
        .filter(|(_, location)| selector.matches(&location.topology));
    let matching = matching.map(|(name, _)| pair(Place::Location(name), of_location(Some(listed), name)));
    let is_known = |place: &Place<&str>| match place.location() {
        Some(location) => listed.contains_key(*location),
        None => listed.keys().any(|name| {
            let city = snapshot.cities.get(name).map(String::as_str);
            city == place.city().copied()
        }),
    };
    let unknown = own_places(snapshot, placement).filter(|place| !is_known(place));
    matching
        .chain(unknown.map(|place| pair(place, Access::NoLocation)))
        .collect()
}

/// The places of a placement's deployments, in the order of their names; both fields of one are its location.
fn own_places<'a>(
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
