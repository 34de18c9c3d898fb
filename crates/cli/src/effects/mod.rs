//! The effects of a change of a Workload on its Instances (contract: cli.md §3).

mod places;

use crate::{
    diff,
    output::plural,
    view::{City, Counts, Joined, Object, is_located, minimum},
};
use fedgate_api::{conditions::types::AVAILABLE, keys::REPLACES};
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

/// The effects of a new spec. `joined` is the live Workload; `None` if it does not exist. A deployment of a former place waits for
/// no other one if the Workload `allows_gap`.
pub(crate) fn effects(joined: Option<&Joined>, spec: &Value, allows_gap: bool, known: &Known) -> Vec<Effect> {
    let live = joined.map(|joined| &joined.workload.0["spec"]);
    let targets = targets(joined, spec, known);
    let before = joined.map(Joined::places).unwrap_or_default();
    let fates = fates(&before, &targets, known);
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
    effects.extend(fates.iter().filter_map(|(before, fate)| {
        let (city, deployment) = before;
        let is_replaced = || !allows_gap && is_replaced(before, &targets, &fates);
        let instances = plural(existing(deployment.as_ref()), "instance");
        let what = format!("{} and its {instances}", city.shown);
        let text = match fate {
            Fate::Stays(_) => return None,
            Fate::Goes if is_replaced() => {
                format!("removes {what} once the new cities are ready")
            }
            Fate::Goes => format!("removes {what}"),
            Fate::MayGo(None) => {
                format!("may remove {what}: no location tells whether the selector keeps it")
            }
            Fate::MayGo(Some(candidates)) => {
                format!("may replace {what}: no location tells whether {candidates} is in this city")
            }
        };
        // That a former place goes once the new cities are ready was confirmed with the edit that removed it.
        let is_known = joined.is_some_and(|joined| joined.is_former(city)) && is_replaced();
        let loss = (!is_known).then(|| (what, *fate == Fate::Goes));
        Some(Effect { text, loss })
    }));
    effects
}

/// True if a deployment stays until others are ready (contract: serving.md §4): one of them names it in annotation `replaces`, or it
/// is available and its placement gains a place.
fn is_replaced(
    (city, deployment): &(City, Option<Object>),
    targets: &[Target<'_>],
    fates: &[(&(City, Option<Object>), Fate)],
) -> bool {
    let Some(deployment) = deployment else {
        return false;
    };
    let serves = deployment
        .condition(AVAILABLE)
        .is_some_and(|available| available.holds());
    let is_new = |at: usize| !fates.iter().any(|(_, fate)| *fate == Fate::Stays(at));
    let mut targets = targets.iter().enumerate();
    let names_it = |(other, fate): &(&(City, Option<Object>), Fate)| {
        let other = other.1.as_ref().filter(|_| *fate != Fate::Goes);
        let mut uids = other
            .into_iter()
            .flat_map(|other| other.annotation(REPLACES).split(','));
        !deployment.uid().is_empty() && uids.any(|uid| uid == deployment.uid())
    };
    fates.iter().any(names_it)
        || serves && targets.any(|(at, target)| target.is_added_to(&city.placement) && is_new(at))
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

    /// The effects of these cities while DFW serves, with an ORD that was created to replace it if the live spec names that, and
    /// whether the change asks.
    fn moved(live: &str, wanted: &[&str], allows_gap: bool) -> Vec<(String, bool)> {
        let workload =
            Object(json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec(&[live], 1, "a")}));
        let deployment = |city: &str, available: &str, annotations: Value| {
            Object(
                json!({"metadata": {"name": city, "uid": city, "annotations": annotations},
                "spec": {"workloadRef": {"uid": "u"}, "placementName": "us", "cityCode": city},
                "status": {"replicas": 1, "desiredReplicas": 1,
                    "conditions": [{"type": "Available", "status": available, "reason": "X"}]}}),
            )
        };
        let mut deployments = vec![deployment("DFW", "True", json!({}))];
        if live == "ORD" {
            deployments.push(deployment("ORD", "False", json!({REPLACES: "x,DFW"})));
        }
        let joined = join(vec![workload], deployments).pop();
        let effects = effects(
            joined.as_ref(),
            &spec(wanted, 1, "a"),
            allows_gap,
            &Known::default(),
        );
        let lines = effects
            .into_iter()
            .map(|effect| (effect.text, effect.loss.is_some()));
        lines.collect()
    }

    #[test]
    fn a_city_that_serves_waits_for_its_replacement() {
        let line = |text: &str, asks| (text.to_owned(), asks);
        let adds = line("adds ORD (min 1)", false);
        let at_once = line("removes DFW and its 1 instance", true);
        let waits = |asks| {
            line(
                "removes DFW and its 1 instance once the new cities are ready",
                asks,
            )
        };
        assert_eq!(moved("DFW", &["ORD"], false), [adds.clone(), waits(true)]);
        assert_eq!(moved("DFW", &["ORD"], true), [adds, at_once.clone()]);
        assert_eq!(moved("DFW", &[], false), std::slice::from_ref(&at_once));
        // Meanwhile the spec names DFW no more.
        assert_eq!(moved("ORD", &["ORD"], false), [waits(false)]);
        assert_eq!(moved("ORD", &["ORD"], true), std::slice::from_ref(&at_once));
        assert_eq!(
            moved("ORD", &["DFW"], false),
            [line("removes ORD and its 1 instance", true)]
        );
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
        let of = |spec: &Value| texts(effects(joined.as_ref(), spec, false, &Known::default()));
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
            texts(effects(None, &spec(&["DFW"], 1, "a"), false, &Known::default())),
            ["adds DFW (min 1)"]
        );
    }
}
