//! Where a placement and its deployments are to run (contract: locations.md).

use super::{meta::NamedLocation, selector::LabelSelector};

/// Where a placement is to run: the one field of three that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Places<'a> {
    /// Each of these cities, by code.
    Cities(&'a [String]),
    /// Each of these locations.
    Locations(&'a [NamedLocation]),
    /// Each location of the project whose topology matches.
    Selected(&'a LabelSelector),
}

/// The place of a deployment: a city, a location, or a location with its city. `T` is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place<T> {
    /// Any cell of a city; the value is the city code.
    City(T),
    /// The cell of a location; the value is the location's name.
    Location(T),
    /// The cell of a location that is in this city. The location decides.
    Both {
        /// City code.
        city: T,
        /// Name of the location.
        location: T,
    },
}

impl<T> Place<T> {
    /// The place that two optional fields describe; `None` if both are absent.
    pub fn of(city: Option<T>, location: Option<T>) -> Option<Self> {
        match (city, location) {
            (Some(city), Some(location)) => Some(Self::Both { city, location }),
            (Some(city), None) => Some(Self::City(city)),
            (None, Some(location)) => Some(Self::Location(location)),
            (None, None) => None,
        }
    }

    /// The city code, if the place says one.
    pub fn city(&self) -> Option<&T> {
        match self {
            Self::City(city) | Self::Both { city, .. } => Some(city),
            Self::Location(_) => None,
        }
    }

    /// The location's name, if the place says one.
    pub fn location(&self) -> Option<&T> {
        match self {
            Self::Location(location) | Self::Both { location, .. } => Some(location),
            Self::City(_) => None,
        }
    }
}
