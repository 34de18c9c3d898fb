//! Where a copy is to go: the city of a deployment, and the location that the copy names (contract: locations.md §2.4).

use crate::gateway::index::{
    digest::{HubCopy, Source, place},
    secondary::places::{ClusterPlaces, NoCity},
};
use fedgate_api::names::{CityCode, LocationName};
use fedgate_engine::{diff::Digest, store::table::Row};
use fedgate_kinds::FederatedKind;

/// Where a copy is to go.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The city; the error for a deployment that does not exist is that of an empty place.
    pub city: Result<CityCode, NoCity>,
    /// The location that the copy is to name, if any.
    pub location: Option<LocationName>,
    /// Digest of both, comparable with that of a copy; see [`place::placed`].
    pub placed: Digest,
}

/// The labels of the Clusters, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    /// The map that they make.
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
        let city = city(labels, source, copy);
        let named = source.digest.place.location();
        let location = match (&city, named) {
            (Ok(_), Some(named)) => Some(named),
            (Ok(city), None) if labels.listed && labels.places.serves(city) => {
                labels.places.only_location(city)
            }
            // A city whose Clusters are not known, or gone for a while, takes no location away.
            (Ok(city), None) => copy
                .filter(|copy| copy.digest.city.as_ref() == Some(city))
                .and_then(|copy| copy.digest.location.as_ref()),
            (Err(_), _) => None,
        };
        let location = location.cloned();
        Self::new(kind, city, location)
    }

    fn new(kind: &FederatedKind, city: Result<CityCode, NoCity>, location: Option<LocationName>) -> Self {
        let placed = place::placed(
            kind,
            city.as_ref().ok().map(CityCode::as_str),
            location.as_ref().map(LocationName::as_str),
        );
        Self {
            city,
            location,
            placed,
        }
    }
}

/// The city of a deployment. Where no Cluster is known to have its location, its copy for that location has the city,
/// as the copies of a city stay where they are while it has no cell.
fn city(labels: Labels<'_>, source: &Row<Source>, copy: Option<&Row<HubCopy>>) -> Result<CityCode, NoCity> {
    let place = &source.digest.place;
    let found = match place.location() {
        Some(location) if !labels.listed => Err(NoCity::Unknown(location.clone())),
        _ => labels.places.city(place),
    };
    let Err(NoCity::Unknown(location)) = &found else {
        return found;
    };
    let stays = copy.filter(|copy| copy.digest.location.as_ref() == Some(location));
    let city = stays.and_then(|copy| copy.digest.city.clone());
    city.map_or(found, Ok)
}
