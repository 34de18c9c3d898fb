//! The effects of a change of a Workload on its Instances (contract: cli.md §3).

use crate::{
    diff,
    view::{City, Counts, Joined, places},
};
use serde_json::Value;
use std::fmt;

/// An effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Instances get the new template.
    Replaces(i64),
    /// A city gets Instances.
    Adds { city: String, minimum: i64 },
    /// A city gets more or fewer Instances.
    Scales { city: String, from: i64, to: i64 },
    /// A city loses its Instances.
    Removes { city: String, instances: i64 },
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaces(number) => write!(f, "replaces {}, one at a time per city", instances(*number)),
            Self::Adds { city, minimum } => write!(f, "adds {city} (min {minimum})"),
            Self::Scales { city, from, to } => write!(f, "scales {city} from min {from} to min {to}"),
            Self::Removes {
                city,
                instances: number,
            } => write!(f, "removes {city} and its {}", instances(*number)),
        }
    }
}

/// The effects of a new spec. `joined` is the live Workload; `None` if it does not exist.
pub(crate) fn effects(joined: Option<&Joined>, spec: &Value) -> Vec<Effect> {
    let wanted = cities(spec);
    let mut effects = Vec::new();
    let live = joined.map(|joined| &joined.workload.0["spec"]);
    let before = live.map(cities).unwrap_or_default();
    let existing = |city: &City| {
        let found = joined
            .into_iter()
            .flat_map(|joined| &joined.cities)
            .find(|(of, _)| of == city);
        let deployment = found.and_then(|(_, deployment)| deployment.as_ref());
        deployment.map_or(0, |deployment| Counts::of(deployment).replicas)
    };
    let stays = |city: &City| wanted.iter().any(|(other, _)| other == city);
    if live.is_some_and(|live| !diff::same(live.get("template"), spec.get("template"))) {
        let replaced: i64 = before
            .iter()
            .filter(|(city, _)| stays(city))
            .map(|(city, _)| existing(city))
            .fold(0, i64::saturating_add);
        if replaced > 0 {
            effects.push(Effect::Replaces(replaced));
        }
    }
    for (City { placement, city }, minimum) in &wanted {
        let was = before
            .iter()
            .find(|(other, _)| other.placement == *placement && other.city == *city);
        match was {
            None => effects.push(Effect::Adds {
                city: city.clone(),
                minimum: *minimum,
            }),
            Some((_, was)) if was != minimum => effects.push(Effect::Scales {
                city: city.clone(),
                from: *was,
                to: *minimum,
            }),
            Some(_) => {}
        }
    }
    for (city, _) in before.iter().filter(|(city, _)| !stays(city)) {
        effects.push(Effect::Removes {
            city: city.city.clone(),
            instances: existing(city),
        });
    }
    effects
}

/// A number of Instances, with the noun.
pub(crate) fn instances(number: i64) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} instance{s}")
}

/// The cities of a spec with the minimum of their placement.
fn cities(spec: &Value) -> Vec<(City, i64)> {
    let placements = spec["placements"].as_array().into_iter().flatten();
    let cities = placements.flat_map(|placement| {
        let minimum = placement["scaleSettings"]["minReplicas"].as_i64().unwrap_or(1);
        places(placement).map(move |place| {
            let city = City {
                placement: placement["name"].as_str().unwrap_or_default().to_owned(),
                city: place.to_owned(),
            };
            (city, minimum)
        })
    });
    cities.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Object, join};
    use serde_json::json;

    fn spec(cities: &[&str], min: i64, image: &str) -> Value {
        json!({"template": {"image": image},
            "placements": [{"name": "us", "cityCodes": cities, "scaleSettings": {"minReplicas": min}}]})
    }

    #[test]
    fn each_effect_is_a_sentence() {
        let workload =
            Object(json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec(&["DFW", "LHR"], 2, "a")}));
        let deployment = |city: &str| {
            Object(json!({"metadata": {"name": city}, "status": {"replicas": 2},
                "spec": {"workloadRef": {"uid": "u"}, "placementName": "us", "cityCode": city}}))
        };
        let joined = join(vec![workload], vec![deployment("DFW"), deployment("LHR")]).pop();
        let texts = |effects: Vec<Effect>| effects.iter().map(ToString::to_string).collect::<Vec<_>>();
        let of = |spec: &Value| texts(effects(joined.as_ref(), spec));
        assert_eq!(of(&spec(&["DFW", "LHR"], 2, "a")), [""; 0]);
        assert_eq!(
            of(&spec(&["DFW", "LHR"], 2, "b")),
            ["replaces 4 instances, one at a time per city"]
        );
        assert_eq!(
            of(&spec(&["DFW", "IAD"], 2, "b")),
            [
                "replaces 2 instances, one at a time per city",
                "adds IAD (min 2)",
                "removes LHR and its 2 instances"
            ]
        );
        assert_eq!(
            of(&spec(&["DFW", "LHR"], 3, "a")),
            ["scales DFW from min 2 to min 3", "scales LHR from min 2 to min 3"]
        );
        assert_eq!(
            texts(effects(None, &spec(&["DFW"], 1, "a"))),
            ["adds DFW (min 1)"]
        );
    }
}
