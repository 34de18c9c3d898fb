//! The one label of a place by which a copy is delivered (contract: locations.md §2.4).

use super::HubView;
use crate::view::{City, Object, location_of};
use fedgate_api::keys;
use std::collections::BTreeSet;

/// A label that selects copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route<'a> {
    /// Key of the label.
    key: &'static str,
    /// The noun of its values.
    pub(super) noun: &'static str,
    /// Its value; empty if it is not known.
    pub(super) name: &'a str,
}

impl<'a> Route<'a> {
    /// The route that a deployment wants: its location if the copy goes by one, else the city. The labels of the copy are not
    /// asked which one.
    pub(super) fn wanted(view: &'a HubView, city: &'a City, deployment: &'a Object) -> Self {
        let location = location_of(deployment);
        let copy = view.copy(deployment.name());
        if !location.is_empty() && copy.is_some_and(|copy| !copy.label(keys::LOCATION).is_empty()) {
            return Self {
                key: keys::LOCATION,
                noun: "location",
                name: location,
            };
        }
        Self {
            key: keys::CITY_CODE,
            noun: "city",
            name: city_of(view, city, deployment),
        }
    }

    /// The label of a copy by which it goes instead; `None` if it goes by this route.
    pub(super) fn other(&self, copy: &'a Object) -> Option<String> {
        let label = copy.label(self.key);
        if label == self.name {
            return None;
        }
        Some(match copy.label(keys::LOCATION) {
            location if label.is_empty() && !location.is_empty() => format!("location {location}"),
            _ => format!("{} {label}", self.noun),
        })
    }

    /// The name of the policy that selects the copies of this route.
    pub(super) fn policy(&self, view: &'a HubView) -> Option<&'a str> {
        let policy = view.policies.iter().find(|policy| {
            let selectors = policy.list("/spec/resourceSelectors");
            selectors
                .iter()
                .any(|selector| selector["labelSelector"]["matchLabels"][self.key] == *self.name)
        });
        policy.map(Object::name)
    }
}

/// The city of a deployment: by its own words, or by the labels of Clusters that have its location. Empty if it is not known.
pub(super) fn city_of<'a>(view: &'a HubView, city: &'a City, deployment: &Object) -> &'a str {
    let location = location_of(deployment);
    let own = view
        .clusters
        .iter()
        .filter(|cluster| !location.is_empty() && cluster.label(keys::LOCATION) == location);
    let codes: BTreeSet<&str> = own.map(|cluster| cluster.label(keys::CITY_CODE)).collect();
    match codes.first() {
        Some(code) if codes.len() == 1 && !code.is_empty() => code,
        _ => &city.code,
    }
}
