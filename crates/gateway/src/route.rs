//! The label by which a copy on the hub is given to a policy, its route (contract: locations.md §2.4).

use fedgate_api::{
    keys,
    names::{self, CityCode, LocationName},
};
use fedgate_kinds::FederatedKind;
use std::collections::BTreeMap;

/// The names of policies of locations begin with this; the name of the location in lower case follows.
const LOCATION_PREFIX: &str = "location-";

/// The route of a copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// To all cells of a city.
    City(CityCode),
    /// To the cells of a location.
    Location(LocationName),
}

/// How a copy reaches its cells: its Namespace by the city, itself by the route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CityRoute {
    /// The city.
    pub city: CityCode,
    /// The city again, or a location in it.
    pub route: Route,
}

impl CityRoute {
    /// To all cells of a city.
    pub fn to_city(city: CityCode) -> Self {
        let route = Route::City(city.clone());
        Self { city, route }
    }
}

impl Route {
    /// Key of the label that copies and Clusters have.
    pub fn label<'a>(&self, kind: &'a FederatedKind) -> &'a str {
        match self {
            Self::City(_) => &kind.placement.label,
            Self::Location(_) => keys::LOCATION,
        }
    }

    /// Value of the label.
    pub fn value(&self) -> &str {
        match self {
            Self::City(city) => city.as_str(),
            Self::Location(location) => location.as_str(),
        }
    }

    /// Reads the route from the labels of a policy's selector, which are those of copies; `None` unless there is one
    /// route exactly.
    pub fn of_selector<'a>(kind: &FederatedKind, label: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let location = label(keys::LOCATION).filter(|_| kind.may_name_a_location());
        match (label(&kind.placement.label), location) {
            (Some(city), None) => CityCode::parse(city).ok().map(Self::City),
            (None, Some(location)) => LocationName::of_word(location.into()).ok().map(Self::Location),
            (None, None) | (Some(_), Some(_)) => None,
        }
    }

    /// The labels of a copy with this route, that of the other kind of route being removed.
    pub fn labels<'a>(&'a self, kind: &'a FederatedKind) -> BTreeMap<&'a str, Option<&'a str>> {
        let other = kind.may_name_a_location().then(|| match self {
            Self::City(_) => keys::LOCATION,
            Self::Location(_) => &kind.placement.label,
        });
        let own = [(self.label(kind), Some(self.value()))];
        own.into_iter().chain(other.map(|key| (key, None))).collect()
    }

    /// The beginning of the names of its policies.
    fn prefix<'a>(&self, kind: &'a FederatedKind) -> &'a str {
        match self {
            Self::City(_) => &kind.placement.policy_prefix,
            Self::Location(_) => LOCATION_PREFIX,
        }
    }

    /// True if a policy of this name may be one that the gateway made for the route.
    pub fn is_policy_name(&self, kind: &FederatedKind, name: &str) -> bool {
        name.starts_with(self.prefix(kind))
    }

    /// Name of its policy if that is free; `None` if it is no object name.
    pub fn policy_name(&self, kind: &FederatedKind) -> Option<String> {
        names::policy_name(self.prefix(kind), self.value())
    }

    /// Name of its policy if the plain one is invalid or taken by another route.
    pub fn policy_name_hashed(&self, kind: &FederatedKind) -> String {
        names::policy_name_hashed(self.prefix(kind), self.value())
    }
}
