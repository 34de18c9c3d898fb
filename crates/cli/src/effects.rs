//! The effects of a change of a Workload on its Instances (contract: cli.md §3).

use crate::view::{City, Counts, Joined};
use serde_json::Value;

/// The effects of a new spec, a sentence each. `joined` is the live Workload; `None` if it does not exist.
pub(crate) fn effects(joined: Option<&Joined>, spec: &Value) -> Vec<String> {
    let wanted = cities(spec);
    let mut effects = Vec::new();
    let live = joined.map(|joined| &joined.workload.0["spec"]);
    let before = live.map(cities).unwrap_or_default();
    let instances = |city: &City| {
        let found = joined
            .into_iter()
            .flat_map(|joined| &joined.cities)
            .find(|(of, _)| of == city);
        let deployment = found.and_then(|(_, deployment)| deployment.as_ref());
        deployment.map_or(0, |deployment| Counts::of(deployment).replicas)
    };
    let stays = |city: &City| wanted.iter().any(|(other, _)| other == city);
    if live.is_some_and(|live| live["template"] != spec["template"]) {
        let replaced: i64 = before
            .iter()
            .filter(|(city, _)| stays(city))
            .map(|(city, _)| instances(city))
            .sum();
        if replaced > 0 {
            effects.push(format!("replaces {}, one at a time per city", noun(replaced)));
        }
    }
    for (city, minimum) in &wanted {
        match before.iter().find(|(other, _)| other == city) {
            None => effects.push(format!("adds {} (min {minimum})", city.city)),
            Some((_, was)) if was != minimum => {
                effects.push(format!("scales {} from min {was} to min {minimum}", city.city));
            }
            Some(_) => {}
        }
    }
    for (city, _) in before.iter().filter(|(city, _)| !stays(city)) {
        effects.push(format!("removes {} and its {}", city.city, noun(instances(city))));
    }
    effects
}

fn noun(instances: i64) -> String {
    let s = if instances == 1 { "" } else { "s" };
    format!("{instances} instance{s}")
}

/// The cities of a spec with the minimum of their placement.
fn cities(spec: &Value) -> Vec<(City, i64)> {
    let placements = spec["placements"].as_array().into_iter().flatten();
    let cities = placements.flat_map(|placement| {
        let minimum = placement["scaleSettings"]["minReplicas"].as_i64().unwrap_or(1);
        let codes = placement["cityCodes"].as_array().into_iter().flatten();
        codes.map(move |code| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let city = City {
                placement: text(&placement["name"]),
                city: text(code),
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
        let of = |spec: &Value| effects(joined.as_ref(), spec);
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
        assert_eq!(effects(None, &spec(&["DFW"], 1, "a")), ["adds DFW (min 1)"]);
    }
}
