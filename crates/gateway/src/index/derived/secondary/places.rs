//! The map of locations and cities that the labels of the hub's Clusters make (contract: locations.md §2.1).

use super::RefCounts;
use crate::{
    index::rows::{Cell, Place},
    route::{CityRoute, Route},
};
use fedgate_api::names::{CityCode, LocationName};
use fedgate_engine::store::table::Row;
use std::collections::{BTreeMap, BTreeSet};

/// Cities and locations of the Clusters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClusterPlaces {
    /// The locations of a city's Clusters; `None` for a Cluster without a location.
    cities: BTreeMap<CityCode, RefCounts<Option<LocationName>>>,
    /// The cities of a location's Clusters; `None` for a Cluster without a city.
    locations: BTreeMap<LocationName, RefCounts<Option<CityCode>>>,
}

/// Why a deployment has no city.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCity {
    /// The text is no city code; empty if there is no place at all.
    InvalidCity(String),
    /// The text is no name of a location.
    InvalidLocation(String),
    /// No Cluster has the location.
    Unknown(LocationName),
    /// Clusters of the location have several cities, or one of them has none.
    Disputed(LocationName),
    /// The deployment names another city than that of its location, which is the second one.
    Conflict {
        /// The location that the deployment names.
        location: LocationName,
        /// The city that it names.
        named: CityCode,
        /// The city of the location.
        city: CityCode,
    },
}

/// A change of the map.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlacesChanged {
    /// Cities that gained or lost a location, their first or their last cell.
    pub cities: BTreeSet<CityCode>,
    /// Locations that gained or lost a city, their first or their last cell, and those of these cities.
    pub locations: BTreeSet<LocationName>,
}

impl PlacesChanged {
    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.cities.is_empty() && self.locations.is_empty()
    }

    /// True if the city of a deployment at this place may depend on the change.
    pub fn concerns(&self, place: &Place) -> bool {
        place.city().is_some_and(|city| self.cities.contains(city))
            || place
                .location()
                .is_some_and(|location| self.locations.contains(location))
    }
}

impl ClusterPlaces {
    /// Applies a change of a Cluster.
    pub fn cluster(&mut self, old: Option<&Row<Cell>>, new: Option<&Row<Cell>>) -> PlacesChanged {
        let labels = |row: Option<&Row<Cell>>| {
            row.map_or((None, None), |row| {
                (row.digest.city.clone(), row.digest.location.clone())
            })
        };
        let (before, after) = (labels(old), labels(new));
        let mut changed = PlacesChanged::default();
        if before == after {
            return changed;
        }
        let cities: BTreeSet<CityCode> = before.0.iter().chain(&after.0).cloned().collect();
        let locations: BTreeSet<LocationName> = before.1.iter().chain(&after.1).cloned().collect();
        let locations_of = |map: &Self, city: &CityCode| map.cities.get(city).map(RefCounts::set);
        let cities_of = |map: &Self, location: &LocationName| map.locations.get(location).map(RefCounts::set);
        let were: Vec<_> = cities.iter().map(|city| locations_of(self, city)).collect();
        let had: Vec<_> = locations
            .iter()
            .map(|location| cities_of(self, location))
            .collect();
        self.count(before, false);
        self.count(after, true);
        for (city, were) in cities.into_iter().zip(were) {
            let are = locations_of(self, &city);
            if were != are {
                let both = were.into_iter().chain(are).flatten().flatten();
                changed.locations.extend(both);
                changed.cities.insert(city);
            }
        }
        for (location, had) in locations.into_iter().zip(had) {
            let has = cities_of(self, &location);
            if had != has {
                changed
                    .cities
                    .extend(had.into_iter().chain(has).flatten().flatten());
                changed.locations.insert(location);
            }
        }
        changed
    }

    fn count(&mut self, (city, location): (Option<CityCode>, Option<LocationName>), is: bool) {
        if let Some(city) = &city {
            let of = self.cities.entry(city.clone()).or_default();
            of.count(location.clone(), is);
            if of.is_empty() {
                self.cities.remove(city);
            }
        }
        if let Some(location) = location {
            let of = self.locations.entry(location.clone()).or_default();
            of.count(city, is);
            if of.is_empty() {
                self.locations.remove(&location);
            }
        }
    }

    /// True if a city has a cell.
    pub fn serves(&self, city: &CityCode) -> bool {
        self.cities.contains_key(city)
    }

    /// The locations whose Clusters agree on a city, each with that.
    pub fn cities_of_locations(&self) -> impl Iterator<Item = (&LocationName, &CityCode)> {
        let agreed = |of: &'_ RefCounts<Option<CityCode>>| of.only().is_some_and(Option::is_some);
        self.locations
            .iter()
            .filter(move |(_, of)| agreed(of))
            .filter_map(|(location, of)| Some((location, of.only()?.as_ref()?)))
    }

    /// The location of a city, if all its Clusters have this one and it is in no other city.
    pub fn only_location(&self, city: &CityCode) -> Option<&LocationName> {
        let location = self.cities.get(city)?.only()?.as_ref()?;
        let of = self.locations.get(location)?.only()?.as_ref()?;
        (of == city).then_some(location)
    }

    /// City and route of a deployment at this place. A location that a Cluster has decides.
    pub fn destination(&self, place: &Place) -> Result<CityRoute, NoCity> {
        let (named, location) = match place {
            Place::City(city) => return Ok(CityRoute::to_city(city.clone())),
            Place::InvalidCity(text) => return Err(NoCity::InvalidCity(text.to_string())),
            Place::InvalidLocation(text) => return Err(NoCity::InvalidLocation(text.to_string())),
            Place::Location(location) => (None, location),
            Place::Both(both) => (Some(&both.0), &both.1),
        };
        let Some(of) = self.locations.get(location) else {
            // No Cluster has the location: of a city whose Clusters have none that of the deployment counts.
            let unlabelled =
                |city: &&CityCode| self.cities.get(*city).is_none_or(|of| of.only() == Some(&None));
            return named
                .filter(unlabelled)
                .cloned()
                .map(CityRoute::to_city)
                .ok_or_else(|| NoCity::Unknown(location.clone()));
        };
        let Some(Some(city)) = of.only() else {
            return Err(NoCity::Disputed(location.clone()));
        };
        if let Some(named) = named.filter(|named| *named != city) {
            return Err(NoCity::Conflict {
                location: location.clone(),
                named: named.clone(),
                city: city.clone(),
            });
        }
        Ok(CityRoute {
            city: city.clone(),
            route: Route::Location(location.clone()),
        })
    }

    /// True if all Clusters of a city have a location.
    pub fn are_located(&self, city: &CityCode) -> bool {
        let of = self.cities.get(city);
        of.is_some_and(|of| of.keys().all(Option::is_some))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::index::rows::Strings;
    use fedgate_api::keys;
    use fedgate_kinds::FederatedKind;
    use serde_json::json;

    /// The row of a Cluster with these labels, of which an empty one is absent.
    fn cluster(city: &str, location: &str) -> Row<Cell> {
        let mut labels = json!({keys::CITY_CODE: city, keys::LOCATION: location});
        let present = |_: &String, value: &mut serde_json::Value| *value != "";
        let map = labels.as_object_mut().unwrap();
        map.retain(present);
        let object = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "c", "labels": labels}});
        let kinds = FederatedKind::builtin().unwrap().into();
        let object = serde_json::from_value(object).unwrap();
        let digest = Cell::read(&object, keys::CITY_CODE, &kinds, &mut Strings::default());
        Row {
            uid: "u".into(),
            version: 1,
            deleting: false,
            partial: false,
            digest,
            body: None,
        }
    }

    /// The places of Clusters with these cities and locations.
    pub(crate) fn clusters(labels: &[(&str, &str)]) -> ClusterPlaces {
        let mut places = ClusterPlaces::default();
        for (city, location) in labels {
            places.cluster(None, Some(&cluster(city, location)));
        }
        places
    }

    fn names(changed: &PlacesChanged) -> (Vec<&str>, Vec<&str>) {
        let cities = changed.cities.iter().map(CityCode::as_str);
        let locations = changed.locations.iter().map(LocationName::as_str);
        (cities.collect(), locations.collect())
    }

    #[test]
    fn a_change_of_labels_concerns_the_cities_and_locations_of_both() {
        let mut places = clusters(&[("DFW", "a"), ("DFW", "a")]);
        let (dfw, moved, bare) = (cluster("DFW", "a"), cluster("LHR", "b"), cluster("DFW", ""));
        // Another Cluster still says the same.
        assert!(places.cluster(Some(&dfw), None).is_empty());
        assert_eq!(
            names(&places.cluster(Some(&dfw), Some(&moved))),
            (vec!["DFW", "LHR"], vec!["a", "b"])
        );
        assert_eq!(
            names(&places.cluster(Some(&moved), Some(&bare))),
            (vec!["DFW", "LHR"], vec!["b"])
        );
        // A second location of the city concerns the deployments of the first.
        assert_eq!(names(&places.cluster(None, Some(&dfw))), (vec!["DFW"], vec!["a"]));
        assert_eq!(
            names(&places.cluster(None, Some(&cluster("DFW", "c")))),
            (vec!["DFW"], vec!["a", "c"])
        );
        assert!(places.cluster(Some(&dfw), Some(&dfw)).is_empty());
        for row in [&bare, &dfw, &cluster("DFW", "c")] {
            places.cluster(Some(row), None);
        }
        assert_eq!(places, ClusterPlaces::default());
    }

    #[test]
    fn a_location_has_the_city_on_which_its_clusters_agree() {
        let agreed = |labels: &[(&str, &str)]| {
            let places = clusters(labels);
            let all = places.cities_of_locations();
            all.map(|(location, city)| format!("{location}={city}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            agreed(&[("LHR", "b"), ("LHR", "c"), ("DFW", "a"), ("DFW", "a")]),
            ["a=DFW", "b=LHR", "c=LHR"]
        );
        assert_eq!(agreed(&[("LHR", "a"), ("DFW", "a")]), [""; 0]);
        assert_eq!(agreed(&[("", "a"), ("DFW", "a")]), [""; 0]);
    }
}
