//! The places of a Workload that no Location serves, and the cities of its locations.

use super::row::workload_refusal;
use crate::{
    plane::{Plane, Resource},
    view::{City, CityMap, Joined, Object, city_of},
};
use fedgate_api::{conditions::types::READY, keys};
use std::collections::BTreeSet;

/// The cities of locations, looked up again when there is another location.
#[derive(Debug, Default)]
pub(crate) struct Cities {
    map: CityMap,
    /// Locations whose city was looked up.
    asked: BTreeSet<String>,
}

impl Cities {
    /// The map, which is read again if one of these locations was not looked up yet.
    pub(crate) async fn of(&mut self, plane: &Plane, unmapped: BTreeSet<String>) -> &CityMap {
        if !unmapped.is_subset(&self.asked) {
            let (instances, locations) = tokio::join!(
                plane.list_metadata(Resource::Instances, keys::INSTANCE_LOCATION),
                plane.locations()
            );
            self.map = CityMap::default();
            self.map.add_instances(&instances.unwrap_or_default());
            self.map.add_locations(&locations);
            self.asked.extend(unmapped);
        }
        &self.map
    }
}

/// The places that Locations serve, looked up again when the spec or the places without a deployment have changed.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    /// Generation of the Workload at the last lookup, and the places that had no deployment.
    of: (i64, BTreeSet<City>),
    /// `None` if Locations cannot be listed, or there are none: then places may not be checked at all.
    served: Option<Served>,
    cities: Cities,
}

/// The names of Locations that are ready, and their cities.
#[derive(Debug, PartialEq, Eq)]
struct Served {
    names: BTreeSet<String>,
    cities: BTreeSet<String>,
}

impl Locations {
    /// Gives the locations of Workloads their cities. Nothing is read as long as each place has its city.
    pub(crate) async fn map(&mut self, plane: &Plane, all: &mut [Joined]) {
        let unmapped = all.iter().flat_map(Joined::unmapped).map(str::to_owned);
        let map = self.cities.of(plane, unmapped.collect()).await;
        for joined in all {
            joined.map(map);
        }
    }

    /// Notes the places that no Location serves. Nothing is read as long as every place has its deployment, or may still get
    /// one because the Workload's controller has not acted.
    pub(crate) async fn look_up(&mut self, plane: &Plane, joined: &mut Joined) {
        self.map(plane, std::slice::from_mut(joined)).await;
        let workload = &joined.workload;
        let acted = workload.number("/status/observedGeneration") == workload.generation();
        let lacking = joined.cities.iter().filter(|(city, deployment)| {
            let is_open = deployment.is_none() && city.is_known();
            is_open && (acted || workload_refusal(workload, city).is_some())
        });
        let mut lacking: BTreeSet<City> = lacking.map(|(city, _)| city.clone()).collect();
        if lacking.is_empty() {
            return;
        }
        let of = (workload.generation(), lacking.clone());
        if self.of != of {
            self.of = of;
            self.served = served(&plane.locations().await);
        }
        if let Some(served) = &self.served {
            lacking.retain(|city| {
                if city.location.is_empty() {
                    !served.cities.contains(&city.code)
                } else {
                    !served.names.contains(&city.location)
                }
            });
            joined.unserved = lacking;
        }
    }
}

/// The names and cities of Locations, without those that are not ready; `None` without Locations.
fn served(locations: &[Object]) -> Option<Served> {
    let ready: Vec<&Object> = locations
        .iter()
        .filter(|location| !location.condition(READY).is_some_and(|ready| ready.refuses()))
        .collect();
    let served = Served {
        cities: ready
            .iter()
            .map(|location| city_of(location).to_owned())
            .collect(),
        names: ready.iter().map(|location| location.name().to_owned()).collect(),
    };
    (!locations.is_empty()).then_some(served)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_location_that_is_not_ready_serves_no_city_and_without_locations_nothing_is_known() {
        let location = |code: &str, ready: &str| {
            Object(json!({"spec": {"topology": {keys::CITY_CODE: code}},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        };
        let all = [
            location("DFW", "True"),
            location("LHR", "False"),
            location("IAD", "Unknown"),
        ];
        let served = served(&all).unwrap().cities;
        assert_eq!(served.iter().collect::<Vec<_>>(), ["DFW", "IAD"]);
        assert_eq!(super::served(&[]), None);
    }
}
