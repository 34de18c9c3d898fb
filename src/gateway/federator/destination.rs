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

impl Destination {
    /// Finds the destination of a deployment from the labels of the Clusters.
    pub fn of(
        places: &ClusterPlaces,
        kind: &FederatedKind,
        source: Option<&Row<Source>>,
        copy: Option<&Row<HubCopy>>,
    ) -> Self {
        let city = source.map_or_else(
            || Err(NoCity::InvalidCity(String::new())),
            |source| city(places, kind, source, copy),
        );
        let known = source.zip(city.as_ref().ok());
        let location = known.and_then(|(source, city)| places.of_copy(&source.digest.place, city).cloned());
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

/// The city of a deployment. Where no Cluster has its location any more, its copy for that location tells the city, as
/// the copies of a city stay where they are while it has no cell.
fn city(
    places: &ClusterPlaces,
    kind: &FederatedKind,
    source: &Row<Source>,
    copy: Option<&Row<HubCopy>>,
) -> Result<CityCode, NoCity> {
    let found = places.city(&source.digest.place);
    let Err(NoCity::Unknown(location)) = &found else {
        return found;
    };
    let had = copy.and_then(|copy| Some((copy, copy.digest.city.as_ref()?)));
    let stays = had.filter(|(copy, city)| {
        let placed = place::placed(kind, Some(city.as_str()), Some(location.as_str()));
        copy.digest.placed == placed
    });
    stays.map_or(found.clone(), |(_, city)| Ok(city.clone()))
}
