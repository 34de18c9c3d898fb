//! The places that a new spec wants, and what becomes of the deployments that exist (contract: locations.md §2.3).

use crate::{
    diff,
    plane::Plane,
    view::{City, CityMap, Joined, Object, is_at, is_located, is_selecting, minimum, places},
};
use fedgate_api::{LabelSelector, Place};
use serde_json::Value;
use std::collections::BTreeMap;

/// All that is known of locations.
#[derive(Debug, Default)]
pub(crate) struct Known {
    cities: CityMap,
    /// Topologies of the project's Locations by name; `None` if they cannot be listed, or there are none.
    topologies: Option<BTreeMap<String, BTreeMap<String, String>>>,
}

impl Known {
    /// Reads what is needed for the effects of a new spec, and gives the locations of the live Workload their cities. Nothing
    /// is read as long as both specs name cities alone.
    pub(crate) async fn read(plane: &Plane, joined: Option<&mut Joined>, spec: &Value) -> Self {
        let live = joined
            .as_ref()
            .map(|joined| joined.workload.list("/spec/placements"));
        let wanted = spec["placements"].as_array().into_iter().flatten();
        let mut known = Self::default();
        if let Some(joined) = &joined {
            known.cities.add_deployments(joined.deployments());
        }
        if live.into_iter().flatten().chain(wanted).any(is_located) {
            let locations = plane.locations().await;
            known.cities.add_locations(&locations);
            known.topologies = topologies(&locations);
        }
        if let Some(joined) = joined {
            joined.map(&known.cities);
        }
        known
    }

    /// The locations that a selector matches; `None` if that is not known.
    fn selected(&self, selector: &Value) -> Option<Vec<&str>> {
        let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
        let topologies = self.topologies.as_ref()?.iter();
        let matching = topologies.filter(|(_, topology)| selector.matches(topology));
        Some(matching.map(|(name, _)| &**name).collect())
    }

    /// True if the location is known to be in the city.
    fn is_in(&self, location: &str, city: &str) -> bool {
        self.cities.city(location) == Some(city)
    }

    /// True if the Locations can be listed, and this is one of them.
    fn lists(&self, location: &str) -> bool {
        let mut all = self.topologies.iter();
        all.any(|all| all.contains_key(location))
    }
}

/// Topologies by name, without names that several namespaces have with different ones; `None` without Locations.
fn topologies(locations: &[Object]) -> Option<BTreeMap<String, BTreeMap<String, String>>> {
    let mut all: BTreeMap<String, Option<BTreeMap<String, String>>> = BTreeMap::new();
    for location in locations {
        let topology = location.0["spec"]["topology"].clone();
        let topology: BTreeMap<String, String> = serde_json::from_value(topology).unwrap_or_default();
        let known = all
            .entry(location.name().to_owned())
            .or_insert_with(|| Some(topology.clone()));
        *known = known.take().filter(|known| *known == topology);
    }
    let known = all
        .into_iter()
        .filter_map(|(name, topology)| Some((name, topology?)));
    (!locations.is_empty()).then(|| known.collect())
}

/// Places that are wanted.
#[derive(Debug)]
pub(super) struct Target<'a> {
    placement: &'a str,
    pub(super) minimum: i64,
    at: At<'a>,
}

#[derive(Debug)]
enum At<'a> {
    /// A place by its name.
    Place(Place<&'a str>),
    /// All that the selector has had: it is the same as before.
    Same,
    /// The places of a selector of which no Location tells.
    Unlisted,
    /// The places of a selector that cannot be resolved here.
    Unknown,
}

impl Target<'_> {
    /// True if this is a place of the placement by its name.
    pub(super) fn is_added_to(&self, placement: &str) -> bool {
        self.placement == placement && matches!(self.at, At::Place(_))
    }

    /// The place in its new form, if the placement of the live spec had the other one.
    pub(super) fn form_after(&self, was_located: bool) -> Option<String> {
        match self.at {
            At::Place(Place::City(code)) if was_located => Some(format!("city {code}")),
            At::Place(Place::Location(name)) if !was_located => Some(format!("location {name}")),
            At::Place(_) | At::Same | At::Unlisted | At::Unknown => None,
        }
    }

    /// The effect if nothing is there yet.
    pub(super) fn added(&self) -> Option<String> {
        let Self {
            placement, minimum, ..
        } = self;
        match self.at {
            At::Place(Place::City(name) | Place::Location(name) | Place::Both { location: name, .. }) => {
                Some(format!("adds {name} (min {minimum})"))
            }
            At::Unknown => Some(format!(
                "adds each location that placement {placement:?} selects (min {minimum})"
            )),
            At::Same | At::Unlisted => None,
        }
    }
}

/// The places that a spec wants, in its order.
pub(super) fn targets<'a>(joined: Option<&Joined>, spec: &'a Value, known: &'a Known) -> Vec<Target<'a>> {
    let live = joined.map(|joined| joined.workload.list("/spec/placements"));
    let mut targets = Vec::new();
    for placement in spec["placements"].as_array().into_iter().flatten() {
        let name = placement["name"].as_str().unwrap_or_default();
        let mut push = |at| {
            targets.push(Target {
                placement: name,
                minimum: minimum(&placement["scaleSettings"]),
                at,
            });
        };
        places(placement).for_each(|place| push(At::Place(place)));
        if !is_selecting(placement) {
            continue;
        }
        let selector = &placement["locationSelector"];
        let mut before = live.into_iter().flatten();
        let before = before.find(|before| before["name"] == *name);
        if before.is_some_and(|before| diff::same(before.get("locationSelector"), Some(selector))) {
            push(At::Same);
        } else if let Some(selected) = known.selected(selector) {
            for location in selected {
                push(At::Place(Place::Location(location)));
            }
            push(At::Unlisted);
        } else {
            push(At::Unknown);
        }
    }
    targets
}

/// The fate of a deployment, or of a place that has none yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// The deployment stays as that of this target.
    Stays(usize),
    /// No object tells whether the deployment stays; with the locations that may be in its city.
    MayGo(Option<String>),
    /// The deployment goes.
    Goes,
}

/// A place of the live spec.
type Before = (City, Option<Object>);

/// The fates of the places of the live spec. As at the gateway, those that are the same are matched first.
pub(super) fn fates<'b>(
    before: &'b [Before],
    targets: &[Target<'_>],
    known: &Known,
) -> Vec<(&'b Before, Fate)> {
    let before = before.iter().filter(|(city, _)| city.is_known());
    let mut fates: Vec<(&Before, Fate)> = before.map(|before| (before, Fate::Goes)).collect();
    let mut is_free = vec![true; targets.len()];
    for rule in [same, in_place] {
        for (at, target) in targets.iter().enumerate() {
            let fitting = fates.iter_mut().filter(|(before, fate)| {
                let is_own = before.0.placement == target.placement && *fate == Fate::Goes;
                is_own && rule(before, &target.at, known)
            });
            if matches!(target.at, At::Place(_)) {
                // Of several locations of a city, the first by name.
                let first = fitting.min_by_key(|(before, _)| name_of(&before.0));
                if let Some((_, fate)) = first.filter(|_| is_free[at]) {
                    *fate = Fate::Stays(at);
                    is_free[at] = false;
                }
            } else {
                fitting.for_each(|(_, fate)| *fate = Fate::Stays(at));
            }
        }
    }
    let goes = fates.iter_mut().filter(|(_, fate)| *fate == Fate::Goes);
    for ((city, _), fate) in goes {
        let own = targets.iter().zip(&is_free);
        let own = own.filter(|(target, _)| target.placement == city.placement);
        *fate = uncertain(city, own, known).unwrap_or(Fate::Goes);
    }
    fates
}

/// The location of a place, else its city.
fn name_of(city: &City) -> &str {
    match &*city.location {
        "" => &city.code,
        location => location,
    }
}

/// True if the place is the same by its own words.
fn same((city, deployment): &Before, at: &At<'_>, _: &Known) -> bool {
    match at {
        At::Place(Place::City(code)) => match deployment {
            Some(deployment) => is_at(Place::City(code), deployment),
            None => city.location.is_empty() && city.code == *code,
        },
        At::Place(Place::Location(name) | Place::Both { location: name, .. }) => city.location == *name,
        At::Same => true,
        At::Unlisted | At::Unknown => false,
    }
}

/// True if the place is the same in the other form, by the map.
fn in_place((city, _): &Before, at: &At<'_>, known: &Known) -> bool {
    match at {
        At::Place(Place::City(code)) => known.is_in(&city.location, code),
        At::Place(Place::Location(name) | Place::Both { location: name, .. }) => {
            city.location.is_empty() && known.is_in(name, &city.code)
        }
        At::Same | At::Unlisted | At::Unknown => false,
    }
}

/// The fate of a place that matches none of its placement's targets, each with whether it is still free.
fn uncertain<'t>(
    city: &City,
    own: impl Iterator<Item = (&'t Target<'t>, &'t bool)>,
    known: &Known,
) -> Option<Fate> {
    let mut candidates = Vec::new();
    for (target, is_free) in own {
        match target.at {
            At::Unknown => return Some(Fate::MayGo(None)),
            // The gateway keeps what it cannot tell.
            At::Unlisted if !city.location.is_empty() && !known.lists(&city.location) => {
                return Some(Fate::MayGo(None));
            }
            At::Place(Place::City(_))
                if *is_free && !city.location.is_empty() && known.cities.city(&city.location).is_none() =>
            {
                candidates.push(&*city.location);
            }
            At::Place(Place::Location(name))
                if *is_free && city.location.is_empty() && known.cities.city(name).is_none() =>
            {
                candidates.push(name);
            }
            At::Place(_) | At::Same | At::Unlisted => {}
        }
    }
    candidates.dedup();
    (!candidates.is_empty()).then(|| Fate::MayGo(Some(candidates.join(" or "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{effects::effects, view::join};
    use serde_json::json;

    fn location(namespace: &str, name: &str, topology: &Value) -> Object {
        Object(json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"topology": topology}}))
    }

    fn known(locations: &[Object]) -> Known {
        let mut known = Known {
            topologies: topologies(locations),
            ..Known::default()
        };
        known.cities.add_locations(locations);
        known
    }

    fn spec(field: &str, value: &Value) -> Value {
        json!({"template": {}, "placements": [{"name": "us", field: value, "scaleSettings": {"minReplicas": 1}}]})
    }

    fn lines(
        field: &str,
        value: &Value,
        deployments: &[Value],
        wanted: &Value,
        known: &Known,
    ) -> Vec<String> {
        let workload = Object(json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec(field, value)}));
        let deployments = deployments.iter().enumerate().map(|(at, place)| {
            let mut spec = place.clone();
            spec["workloadRef"] = json!({"uid": "u"});
            spec["placementName"] = json!("us");
            Object(json!({"metadata": {"name": format!("d{at}")}, "spec": spec, "status": {"replicas": 1}}))
        });
        let joined = join(vec![workload], deployments.collect()).pop();
        let effects = effects(joined.as_ref(), wanted, false, known);
        effects.into_iter().map(|effect| effect.text).collect()
    }

    #[test]
    fn of_two_locations_of_a_city_the_gateway_keeps_the_first_by_name() {
        let code = json!({fedgate_api::keys::CITY_CODE: "DFW"});
        let known = known(&[location("a", "us-1", &code), location("a", "us-2", &code)]);
        let named = json!([{"name": "us-2"}, {"name": "us-1"}]);
        let places = ["us-2", "us-1"].map(|name| json!({"locationRef": {"name": name}}));
        assert_eq!(
            lines(
                "locations",
                &named,
                &places,
                &spec("cityCodes", &json!(["DFW"])),
                &known
            ),
            ["keeps us-1 as city DFW", "removes us-2 and its 1 instance"]
        );
        let city = json!({"cityCode": "DFW"});
        assert_eq!(
            lines(
                "cityCodes",
                &json!(["DFW"]),
                &[city],
                &spec("locations", &named),
                &known
            ),
            ["keeps DFW as location us-2", "adds us-1 (min 1)"]
        );
    }

    #[test]
    fn a_location_of_which_two_namespaces_say_different_things_is_not_known() {
        let (eu, us) = (json!({"region": "eu"}), json!({"region": "us"}));
        let known = known(&[location("a", "eu-1", &eu), location("b", "eu-1", &us)]);
        let place = json!({"locationRef": {"name": "eu-1"}});
        let selector = |region: &Value| json!({"matchLabels": region});
        let wanted = spec("locationSelector", &selector(&eu));
        assert_eq!(
            lines("locationSelector", &selector(&us), &[place], &wanted, &known),
            ["may remove eu-1 and its 1 instance: no location tells whether the selector keeps it"]
        );
    }
}
