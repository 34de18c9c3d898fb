//! Namespaces of projects by the places that their deployments name, so that a change of a Cluster reads the deployments of no
//! other place.

use super::{RefCounts, both, places::PlacesChanged};
use crate::index::{Project, rows::Source};
use fedgate_api::names::{CityCode, LocationName, ProjectKey};
use fedgate_engine::store::table::Row;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A project and a namespace of it.
type Namespace = (ProjectKey, Arc<str>);

/// The namespaces with deployments at each place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ByPlace {
    cities: BTreeMap<CityCode, RefCounts<Namespace>>,
    locations: BTreeMap<LocationName, RefCounts<Namespace>>,
}

fn count<P: Ord + Clone>(
    places: &mut BTreeMap<P, RefCounts<Namespace>>,
    place: &P,
    namespace: &Namespace,
    is_there: bool,
) {
    let of = places.entry(place.clone()).or_default();
    of.count(namespace.clone(), is_there);
    if of.is_empty() {
        places.remove(place);
    }
}

impl ByPlace {
    /// Applies the change of a deployment's row from `old` to `new`.
    pub(crate) fn change(
        &mut self,
        project: &ProjectKey,
        namespace: &Arc<str>,
        old: Option<&Row<Source>>,
        new: Option<&Row<Source>>,
    ) {
        if old.map(|row| &row.digest.place) == new.map(|row| &row.digest.place) {
            return;
        }
        let namespace = (project.clone(), namespace.clone());
        for (row, is_there) in both(old, new) {
            if let Some(city) = row.digest.place.city() {
                count(&mut self.cities, city, &namespace, is_there);
            }
            if let Some(location) = row.digest.place.location() {
                count(&mut self.locations, location, &namespace, is_there);
            }
        }
    }

    /// Removes the deployments of a project.
    pub(crate) fn forget(&mut self, key: &ProjectKey, project: &Project) {
        for (_, table) in project.sources.enumerate() {
            for ((namespace, _), row) in table.iter() {
                self.change(key, namespace, Some(row), None);
            }
        }
    }

    /// The namespaces with deployments that a change of places concerns.
    pub fn concerned(&self, changed: &PlacesChanged) -> BTreeSet<&Namespace> {
        let cities = changed.cities.iter().filter_map(|city| self.cities.get(city));
        let locations = changed.locations.iter();
        let locations = locations.filter_map(|location| self.locations.get(location));
        cities.chain(locations).flat_map(RefCounts::keys).collect()
    }
}
