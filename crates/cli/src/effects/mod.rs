//! The effects of a change of a Workload on its Instances (contract: cli.md §3).

mod places;

use crate::{
    diff,
    output::plural,
    view::{City, Counts, Joined, Object, is_located, minimum},
};
pub(crate) use places::Known;
use places::{Fate, Target, fates, targets};
use serde_json::Value;
use std::fmt;

/// An effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Instances get the new template.
    Replaces(i64),
    /// A city gets Instances.
    Adds { city: String, minimum: i64 },
    /// The locations of a selector get Instances; they are not known here.
    Selects { placement: String, minimum: i64 },
    /// A deployment stays, and its place is said in the other form.
    Keeps { city: String, place: String },
    /// A city gets more or fewer Instances.
    Scales { city: String, from: i64, to: i64 },
    /// A city loses its Instances.
    Removes { city: String, instances: i64 },
    /// A city may lose its Instances: it is not known whether the spec still means it.
    MayRemove {
        city: String,
        instances: i64,
        /// The locations that may be in this city; `None` if a selector may keep it.
        candidates: Option<String>,
    },
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaces(number) => write!(
                f,
                "replaces {}, one at a time per city",
                plural(*number, "instance")
            ),
            Self::Adds { city, minimum } => write!(f, "adds {city} (min {minimum})"),
            Self::Selects { placement, minimum } => {
                write!(
                    f,
                    "adds each location that placement {placement:?} selects (min {minimum})"
                )
            }
            Self::Keeps { city, place } => write!(f, "keeps {city} as {place}"),
            Self::Scales { city, from, to } => write!(f, "scales {city} from min {from} to min {to}"),
            Self::Removes {
                city,
                instances: number,
            } => write!(f, "removes {city} and its {}", plural(*number, "instance")),
            Self::MayRemove {
                city,
                instances: number,
                candidates,
            } => {
                let (verb, doubt) = match candidates {
                    None => ("remove", "the selector keeps it".to_owned()),
                    Some(candidates) => ("replace", format!("{candidates} is in this city")),
                };
                let instances = plural(*number, "instance");
                write!(
                    f,
                    "may {verb} {city} and its {instances}: no location tells whether {doubt}"
                )
            }
        }
    }
}

/// The effects of a new spec. `joined` is the live Workload; `None` if it does not exist.
pub(crate) fn effects(joined: Option<&Joined>, spec: &Value, known: &Known) -> Vec<Effect> {
    let live = joined.map(|joined| &joined.workload.0["spec"]);
    let targets = targets(joined, spec, known);
    let before = joined.map(|joined| &*joined.cities).unwrap_or_default();
    let fates = fates(before, &targets, known);
    let mut effects = Vec::new();
    if live.is_some_and(|live| !diff::same(live.get("template"), spec.get("template"))) {
        let stay = fates.iter().filter(|(_, fate)| *fate != Fate::Goes);
        let replaced = stay.map(|((_, deployment), _)| existing(deployment.as_ref()));
        let replaced = replaced.fold(0, i64::saturating_add);
        if replaced > 0 {
            effects.push(Effect::Replaces(replaced));
        }
    }
    for (at, target) in targets.iter().enumerate() {
        effects.extend(gains(at, target, &fates, live));
    }
    effects.extend(fates.iter().filter_map(|((city, deployment), fate)| {
        let (city, instances) = (city.shown.clone(), existing(deployment.as_ref()));
        match fate {
            Fate::Stays(_) => None,
            Fate::Goes => Some(Effect::Removes { city, instances }),
            Fate::MayGo(candidates) => Some(Effect::MayRemove {
                city,
                instances,
                candidates: candidates.clone(),
            }),
        }
    }));
    effects
}

/// The effects at one of the places that are wanted.
fn gains(
    at: usize,
    target: &Target<'_>,
    fates: &[(&(City, Option<Object>), Fate)],
    live: Option<&Value>,
) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut is_new = true;
    for ((city, _), _) in fates.iter().filter(|(_, fate)| *fate == Fate::Stays(at)) {
        is_new = false;
        let was = live.and_then(|live| placement(live, &city.placement));
        let was_located = was.is_some_and(is_located);
        if let Some(place) = target.form_after(was_located) {
            let city = if was_located { &city.location } else { &city.shown };
            effects.push(Effect::Keeps {
                city: city.clone(),
                place,
            });
        }
        let was = was.map(|was| minimum(&was["scaleSettings"]));
        if let Some(from) = was.filter(|was| *was != target.minimum) {
            effects.push(Effect::Scales {
                city: city.shown.clone(),
                from,
                to: target.minimum,
            });
        }
    }
    if is_new {
        effects.extend(target.added());
    }
    effects
}

/// Number of Instances of a deployment.
fn existing(deployment: Option<&Object>) -> i64 {
    deployment.map_or(0, |deployment| Counts::of(deployment).replicas)
}

/// The placement of this name.
fn placement<'a>(spec: &'a Value, name: &str) -> Option<&'a Value> {
    let mut placements = spec["placements"].as_array().into_iter().flatten();
    placements.find(|placement| placement["name"] == *name)
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
        let of = |spec: &Value| texts(effects(joined.as_ref(), spec, &Known::default()));
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
            texts(effects(None, &spec(&["DFW"], 1, "a"), &Known::default())),
            ["adds DFW (min 1)"]
        );
    }
}
