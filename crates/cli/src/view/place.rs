//! Places of placements and deployments: cities, locations, and the map between them (contract: locations.md).

use super::Object;
use fedgate_api::{Place, keys};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// A city or location of a placement of a Workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct City {
    /// Name of the placement.
    pub(crate) placement: String,
    /// The text that is shown: the city code, or the name of the location where the code is not known or would not tell two
    /// places of the placement apart. `-` for a placement whose selector has no location yet.
    pub(crate) shown: String,
    /// The city code; empty if it is not known.
    pub(crate) code: String,
    /// Name of the location; empty if none is known.
    pub(crate) location: String,
}

impl fmt::Display for City {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.placement, self.shown)
    }
}

impl City {
    /// A place of a placement.
    pub(super) fn new(placement: &str, code: &str, location: &str) -> Self {
        let mut city = Self {
            placement: placement.to_owned(),
            shown: String::new(),
            code: code.to_owned(),
            location: location.to_owned(),
        };
        city.show(false);
        city
    }

    /// Chooses the text that is shown; `is_shared` if the placement has another place of this city.
    pub(super) fn show(&mut self, is_shared: bool) {
        let texts = if is_shared {
            [&self.location, &self.code]
        } else {
            [&self.code, &self.location]
        };
        let shown = texts.into_iter().find(|text| !text.is_empty());
        self.shown = shown.map_or_else(|| "-".to_owned(), String::clone);
    }

    /// True unless it stands for the places of a selector that are not known.
    pub(crate) fn is_known(&self) -> bool {
        !self.code.is_empty() || !self.location.is_empty()
    }

    /// True if a user who names a city or a location means this one.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.is_known() && (self.code == name || self.location == name)
    }

    /// Adds the place to an object for programs.
    pub(crate) fn describe(&self, object: &mut Value) {
        object["placement"] = self.placement.as_str().into();
        object["city"] = self.is_known().then_some(&*self.shown).into();
        if !self.location.is_empty() {
            object["location"] = self.location.as_str().into();
        }
    }
}

/// The cities of locations, as far as objects of the project tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CityMap(BTreeMap<String, String>);

impl CityMap {
    /// Adds the pairs of location and city that one kind of objects tells. Earlier kinds count before later ones; a location
    /// that one kind puts in two cities has none.
    fn add<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut found: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        for (location, city) in pairs.filter(|(location, city)| !location.is_empty() && !city.is_empty()) {
            let known = found.entry(location).or_insert(Some(city));
            *known = known.filter(|known| *known == city);
        }
        for (location, city) in found {
            let city = city.unwrap_or_default().to_owned();
            self.0.entry(location.to_owned()).or_insert(city);
        }
    }

    /// Adds what deployments say that have both fields.
    pub(crate) fn add_deployments<'a>(&mut self, deployments: impl Iterator<Item = &'a Object>) {
        self.add(deployments.map(|d| (location_of(d), d.text("/spec/cityCode"))));
    }

    /// Adds what labels of Instances say.
    pub(crate) fn add_instances(&mut self, instances: &[Object]) {
        let labels = instances.iter().map(|instance| {
            (
                instance.label(keys::INSTANCE_LOCATION),
                instance.label(keys::INSTANCE_CITY_CODE),
            )
        });
        self.add(labels);
    }

    /// Adds what Locations say.
    pub(crate) fn add_locations(&mut self, locations: &[Object]) {
        self.add(
            locations
                .iter()
                .map(|location| (location.name(), city_of(location))),
        );
    }

    /// Adds a later kind of objects.
    pub(super) fn merge(&mut self, later: &Self) {
        for (location, city) in &later.0 {
            self.0.entry(location.clone()).or_insert_with(|| city.clone());
        }
    }

    /// The city of a location.
    pub(crate) fn city(&self, location: &str) -> Option<&str> {
        self.0
            .get(location)
            .map(String::as_str)
            .filter(|city| !city.is_empty())
    }
}

/// The city of a Location; empty if it names none.
pub(crate) fn city_of(location: &Object) -> &str {
    location.0["spec"]["topology"][keys::CITY_CODE]
        .as_str()
        .unwrap_or_default()
}

/// The location of a deployment; empty if it names none.
pub(crate) fn location_of(deployment: &Object) -> &str {
    deployment.text("/spec/locationRef/name")
}

/// The place of a deployment as text: its location, else its city.
pub(super) fn place_of(deployment: &Object) -> &str {
    match location_of(deployment) {
        "" => deployment.text("/spec/cityCode"),
        location => location,
    }
}

/// True if the deployment is at this place of a placement.
pub(crate) fn is_at(place: Place<&str>, deployment: &Object) -> bool {
    match place {
        Place::City(city) => deployment.text("/spec/cityCode") == city,
        Place::Location(location) | Place::Both { location, .. } => location_of(deployment) == location,
    }
}

/// The cities and the locations that a placement names; none of one with a selector.
pub(crate) fn places(placement: &Value) -> impl Iterator<Item = Place<&str>> {
    let cities = placement["cityCodes"].as_array().into_iter().flatten();
    let cities = cities.map(|code| Place::City(code.as_str().unwrap_or_default()));
    let locations = placement["locations"].as_array().into_iter().flatten();
    let locations = locations.map(|location| Place::Location(location["name"].as_str().unwrap_or_default()));
    cities.chain(locations)
}

/// True if the placement selects its locations.
pub(crate) fn is_selecting(placement: &Value) -> bool {
    placement["locationSelector"].is_object()
}

/// True if the placement names locations, or selects them.
pub(crate) fn is_located(placement: &Value) -> bool {
    placement["locations"].is_array() || is_selecting(placement)
}
