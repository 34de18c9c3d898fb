//! Where a copy is to go: its city and route, and the location that it names (contract: locations.md §2.4).

use crate::{
    index::{
        GatewayIndex, ObjectRef,
        derived::secondary::places::{ClusterPlaces, NoCity},
        rows::{HubCopy, Source, place},
    },
    route::{CityRoute, Route},
};
use fedgate_api::names::{CityCode, LocationName};
use fedgate_engine::{diff::Digest, store::table::Row};
use fedgate_kinds::FederatedKind;

/// Where a copy is to go.
#[derive(Debug, Clone)]
pub struct Destination {
    /// City and route; the error for a deployment that does not exist is that of an empty place.
    pub to: Result<CityRoute, NoCity>,
    /// The location that the copy is to name, if any.
    pub location: Option<LocationName>,
    /// Digest of city, route and location, comparable with that of a copy; see [`place::placed`].
    pub placed: Digest,
}

/// The labels of the Clusters, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    /// The city of each location, as the labels of the Clusters say.
    pub places: &'a ClusterPlaces,
    /// True if the Clusters have been listed: before that the map is a part of the real one, and proves nothing.
    pub listed: bool,
}

impl Destination {
    /// Finds the destination of a deployment.
    pub fn of(
        labels: Labels<'_>,
        kind: &FederatedKind,
        source: Option<&Row<Source>>,
        copy: Option<&Row<HubCopy>>,
    ) -> Self {
        let Some(source) = source else {
            return Self::new(kind, Err(NoCity::InvalidCity(String::new())), None);
        };
        let to = destination(labels, source, copy);
        let named = source.digest.place.location();
        let location = match (to.as_ref().map(|to| &to.city), named) {
            (Ok(_), Some(named)) => Some(named),
            (Ok(city), None) if labels.listed && labels.places.serves(city) => {
                labels.places.only_location(city)
            }
            // A location stays with its city while the Clusters of the city are not known, or are gone for a while.
            (Ok(city), None) => copy
                .filter(|copy| copy.digest.city.as_ref() == Some(city))
                .and_then(|copy| copy.digest.location.as_ref()),
            (Err(_), _) => None,
        };
        let location = location.cloned();
        Self::new(kind, to, location)
    }

    /// The destination of an object that stays in its city.
    pub fn staying(kind: &FederatedKind, city: CityCode) -> Self {
        Self::new(kind, Ok(CityRoute::to_city(city)), None)
    }

    fn new(kind: &FederatedKind, to: Result<CityRoute, NoCity>, location: Option<LocationName>) -> Self {
        let placed = place::placed(
            kind,
            to.as_ref().ok().map(|to| to.city.as_str()),
            location.as_ref().map(LocationName::as_str),
        );
        Self { to, location, placed }
    }

    /// The city, if it is known.
    pub fn city(&self) -> Option<&CityCode> {
        self.to.as_ref().ok().map(|to| &to.city)
    }
}

/// The destination of a copy whose kind has an immutable place: the copy stays in its city, even if the object names another one.
pub fn fixed(
    index: &GatewayIndex,
    ObjectRef { kind, hub, name }: &ObjectRef,
    source: Option<&Row<Source>>,
    asked: Destination,
) -> Destination {
    match index.fixed_city(*kind, hub, name, source.map(|source| &source.uid)) {
        Some(city) if asked.city() != Some(&city) => Destination::staying(&index.kinds[*kind], city),
        Some(_) | None => asked,
    }
}

/// City and route of a deployment. Where no Cluster is known to have its location, its copy for that location stays where
/// it is, as the copies of a city do while it has no cell.
fn destination(
    labels: Labels<'_>,
    source: &Row<Source>,
    copy: Option<&Row<HubCopy>>,
) -> Result<CityRoute, NoCity> {
    let place = &source.digest.place;
    let found = match place.location() {
        Some(location) if !labels.listed => Err(NoCity::Unknown(location.clone())),
        _ => labels.places.destination(place),
    };
    match &found {
        // A cell of the city that has no location label would lose the copy, although its location may be the named one.
        Ok(CityRoute {
            city,
            route: Route::Location(_),
        }) if copy.is_some_and(|copy| copy.digest.route() == Some(Route::City(city.clone())))
            && !labels.places.are_located(city) =>
        {
            Ok(CityRoute::to_city(city.clone()))
        }
        Err(NoCity::Unknown(location)) => {
            let stays = copy.filter(|copy| copy.digest.location.as_ref() == Some(location));
            let there = stays.and_then(|copy| {
                let city = copy.digest.city.clone()?;
                let route = copy.digest.route().unwrap_or_else(|| Route::City(city.clone()));
                Some(CityRoute { city, route })
            });
            there.map_or(found, Ok)
        }
        _ => found,
    }
}
