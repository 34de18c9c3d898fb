//! The place that a deployment names: a city, a location, or both (contract: locations.md §2.2).

use super::Strings;
use fedgate_api::{
    keys,
    names::{CityCode, LocationName},
};
use fedgate_engine::diff::Digest;
use fedgate_kinds::FederatedKind;
use kube::core::DynamicObject;
use serde_json::{Map, Value};
use std::sync::Arc;

/// JSON pointer to the city of a kind that may name a location.
const CITY: &str = "/spec/cityCode";
/// JSON pointer to the name of a location.
const LOCATION: &str = "/spec/locationRef/name";

/// The place that a deployment names. Narrow, since every deployment has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A city.
    City(CityCode),
    /// A location, whose city is that of its Clusters on the hub.
    Location(LocationName),
    /// A location and its city.
    Both(Box<(CityCode, LocationName)>),
    /// A text that is no city code; empty if there is no place at all.
    InvalidCity(Arc<str>),
    /// A text that is no name of a location.
    InvalidLocation(Arc<str>),
}

fn location<'a>(kind: &FederatedKind, object: &'a DynamicObject) -> Option<&'a str> {
    let value = object.data.pointer(LOCATION)?;
    value.as_str().filter(|_| kind.may_name_a_location())
}

/// Most characters that are kept of a text that is no place, which is as long as a tenant likes.
const INVALID: usize = 100;

fn shortened(text: &str) -> Arc<str> {
    let end = text.char_indices().nth(INVALID).map_or(text.len(), |(at, _)| at);
    text[..end].into()
}

impl Place {
    /// Reads the place of an object; `city` is the text that the kind's path selects.
    pub fn read(
        kind: &FederatedKind,
        object: &DynamicObject,
        city: Option<&str>,
        words: &mut Strings,
    ) -> Self {
        let location = location(kind, object).map(|name| {
            LocationName::of_word(words.intern(name)).map_err(|_| Self::InvalidLocation(shortened(name)))
        });
        let parsed = |city: &str, words: &mut Strings| {
            words.city(city).map_err(|_| Self::InvalidCity(shortened(city)))
        };
        match (city, location) {
            (_, Some(Err(invalid))) => invalid,
            (None, Some(Ok(location))) => Self::Location(location),
            (Some(city), Some(Ok(location))) => match parsed(city, words) {
                Ok(city) => Self::Both(Box::new((city, location))),
                Err(invalid) => invalid,
            },
            (city, None) => match parsed(city.unwrap_or_default(), words) {
                Ok(city) => Self::City(city),
                Err(invalid) => invalid,
            },
        }
    }

    /// True if it is a city or a location.
    pub fn is_valid(&self) -> bool {
        !matches!(self, Self::InvalidCity(_) | Self::InvalidLocation(_))
    }

    /// The city that it names.
    pub fn city(&self) -> Option<&CityCode> {
        match self {
            Self::City(city) => Some(city),
            Self::Both(both) => Some(&both.0),
            Self::Location(_) | Self::InvalidCity(_) | Self::InvalidLocation(_) => None,
        }
    }

    /// The location that it names.
    pub fn location(&self) -> Option<&LocationName> {
        match self {
            Self::Location(location) => Some(location),
            Self::Both(both) => Some(&both.1),
            Self::City(_) | Self::InvalidCity(_) | Self::InvalidLocation(_) => None,
        }
    }

    /// The text for people: the location if there is one, else the city.
    pub fn as_str(&self) -> &str {
        match self {
            Self::City(city) => city.as_str(),
            Self::Location(location) => location.as_str(),
            Self::Both(both) => both.1.as_str(),
            Self::InvalidCity(text) | Self::InvalidLocation(text) => text,
        }
    }
}

/// Digest of a copy's city and location. The same for all objects of a kind that cannot name a location, whose city is
/// part of their content.
pub fn placed(kind: &FederatedKind, city: Option<&str>, location: Option<&str>) -> Digest {
    if kind.may_name_a_location() {
        Digest::of_hash(&(city, location))
    } else {
        Digest::of_hash(&())
    }
}

/// Digest of a payload from that of its content and its [`placed`].
pub fn whole(content: Digest, placed: Digest) -> Digest {
    Digest::of_hash(&(content, placed))
}

/// [`placed`] of a copy as it is.
pub(super) fn placed_of(kind: &FederatedKind, copy: &DynamicObject) -> Digest {
    let city = copy.data.pointer(CITY).and_then(Value::as_str);
    placed(kind, city, location(kind, copy))
}

/// Takes the fields of the place out of a payload, which [`placed`] compares on its own.
pub(super) fn without_place(kind: &FederatedKind, payload: &mut Map<String, Value>) {
    let spec = payload.get_mut("spec").and_then(Value::as_object_mut);
    let Some(spec) = spec.filter(|_| kind.may_name_a_location()) else {
        return;
    };
    spec.remove("cityCode");
    if let Some(reference) = spec.get_mut("locationRef").and_then(Value::as_object_mut) {
        reference.remove("name");
        if reference.is_empty() {
            spec.remove("locationRef");
        }
    }
}

/// Fills in the city or location that a copy lacks, where it is known.
pub fn complete(
    kind: &FederatedKind,
    payload: &mut Map<String, Value>,
    city: &CityCode,
    location: Option<&LocationName>,
) {
    let spec = payload.get_mut("spec").and_then(Value::as_object_mut);
    let Some(spec) = spec.filter(|_| kind.may_name_a_location()) else {
        return;
    };
    if spec.get("cityCode").is_none_or(Value::is_null) {
        spec.insert("cityCode".to_owned(), city.as_str().into());
    }
    if let Some(location) = location {
        let reference = spec.entry("locationRef").or_insert(Value::Null);
        if reference.is_null() {
            *reference = Value::Object(Map::new());
        }
        if let Some(reference) = reference.as_object_mut() {
            reference
                .entry("name")
                .or_insert_with(|| location.as_str().into());
        }
    }
}

/// The city that the spec of a copy names, if it may name a location.
pub(super) fn city_of_copy<'a>(kind: &FederatedKind, copy: &'a DynamicObject) -> Option<&'a str> {
    let city = copy.data.pointer(CITY).filter(|_| kind.may_name_a_location())?;
    city.as_str()
}

/// The location that a copy names, if it is a valid name.
pub(super) fn location_of_copy(
    kind: &FederatedKind,
    copy: &DynamicObject,
    words: &mut Strings,
) -> Option<LocationName> {
    LocationName::of_word(words.intern(location(kind, copy)?)).ok()
}

/// The location that a Cluster's label names, if it is a valid name.
pub(super) fn location_of_cluster(object: &DynamicObject, words: &mut Strings) -> Option<LocationName> {
    let name = super::label(object, keys::LOCATION)?;
    LocationName::of_word(words.intern(name)).ok()
}
