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

/// An effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The sentence.
    pub(crate) text: String,
    /// The city that goes with its Instances, and whether that is certain; `None` if none goes.
    pub(crate) loss: Option<(String, bool)>,
}

impl From<String> for Effect {
    fn from(text: String) -> Self {
        Self { text, loss: None }
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
        // The surge of a rollout that has not ended is deleted and not replaced.
        let replaced = stay.filter_map(|((_, deployment), _)| {
            let counts = Counts::of(deployment.as_ref()?);
            Some(counts.replicas.min(counts.desired))
        });
        let replaced = replaced.fold(0, i64::saturating_add);
        if replaced > 0 {
            let instances = plural(replaced, "instance");
            effects.push(format!("replaces {instances}, {}", describe_replacement(spec)).into());
        }
    }
    for (at, target) in targets.iter().enumerate() {
        effects.extend(gains(at, target, &fates, live));
    }
    effects.extend(fates.iter().filter_map(|((city, deployment), fate)| {
        let instances = plural(existing(deployment.as_ref()), "instance");
        let what = format!("{} and its {instances}", city.shown);
        let text = match fate {
            Fate::Stays(_) => return None,
            Fate::Goes => format!("removes {what}"),
            Fate::MayGo(None) => {
                format!("may remove {what}: no location tells whether the selector keeps it")
            }
            Fate::MayGo(Some(candidates)) => {
                format!("may replace {what}: no location tells whether {candidates} is in this city")
            }
        };
        let loss = Some((what, *fate == Fate::Goes));
        Some(Effect { text, loss })
    }));
    effects
}

/// Says how Instances are replaced, if all placements agree.
fn describe_replacement(spec: &Value) -> String {
    let has_disk = spec["template"]["spec"]["volumes"]
        .as_array()
        .is_some_and(|volumes| volumes.iter().any(|volume| !volume["disk"].is_null()));
    let placements = spec["placements"].as_array().into_iter().flatten();
    let mut surges = placements.map(|placement| surge(placement, has_disk));
    let first = surges.next().flatten();
    if !surges.all(|other| other == first) {
        return "as each placement's rollout settings say".to_owned();
    }
    match first {
        Some(surge) => format!("with a surge of {surge} per city"),
        None => "one at a time per city".to_owned(),
    }
}

/// The surge of a placement; `None` without surge.
fn surge(placement: &Value, has_disk: bool) -> Option<String> {
    let settings = placement.pointer("/scaleSettings/rollout")?;
    match &settings["maxSurge"] {
        Value::Null => (!has_disk).then(|| "1".to_owned()),
        Value::String(percentage) => Some(percentage.clone()).filter(|percentage| percentage != "0%"),
        number => Some(number.to_string()).filter(|number| number != "0"),
    }
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
            effects.push(format!("keeps {city} as {place}").into());
        }
        let was = was.map(|was| minimum(&was["scaleSettings"]));
        if let Some(from) = was.filter(|was| *was != target.minimum) {
            let (city, to) = (&city.shown, target.minimum);
            effects.push(format!("scales {city} from min {from} to min {to}").into());
        }
    }
    if is_new {
        effects.extend(target.added().map(Effect::from));
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
            Object(
                json!({"metadata": {"name": city}, "status": {"replicas": 2, "desiredReplicas": 2},
                "spec": {"workloadRef": {"uid": "u"}, "placementName": "us", "cityCode": city}}),
            )
        };
        let joined = join(vec![workload], vec![deployment("DFW"), deployment("LHR")]).pop();
        let texts = |effects: Vec<Effect>| effects.into_iter().map(|effect| effect.text).collect::<Vec<_>>();
        let of = |spec: &Value| texts(effects(joined.as_ref(), spec, &Known::default()));
        assert_eq!(of(&spec(&["DFW", "LHR"], 2, "a")), [""; 0]);
        assert_eq!(
            of(&spec(&["DFW", "LHR"], 2, "b")),
            ["replaces 4 instances, one at a time per city"]
        );
        let mut surging = spec(&["DFW", "LHR"], 2, "b");
        for (surge, expected) in [
            (json!({}), "with a surge of 1 per city"),
            (json!({"maxSurge": "50%"}), "with a surge of 50% per city"),
            (json!({"maxSurge": 0}), "one at a time per city"),
        ] {
            surging["placements"][0]["scaleSettings"]["rollout"] = surge;
            assert_eq!(of(&surging), [format!("replaces 4 instances, {expected}")]);
        }
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
