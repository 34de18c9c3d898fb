//! The fields of a Workload that the flags of `deploy` set: a flag changes its field and nothing else (contract: cli.md §3).

use super::intent::{CONTAINERS, PLACEMENTS, chosen, items_mut, set_minimum};
use crate::{
    args::{DeployFlags, Edit, OnFailure},
    error::Error,
    manifest::field_mut,
};
use fedgate_api::{API_VERSION, RolloutSettings, keys};
use serde_json::{Value, json};

/// Names and values on creation, where no flag gives them.
const PLACEMENT: &str = "default";
const CONTAINER: &str = "app";
const NETWORK: &str = "default";
const INSTANCE_TYPE: &str = "datumcloud/d1-standard-2";
/// Path of the instance type.
const INSTANCE_TYPE_PATH: [&str; 6] = ["spec", "template", "spec", "runtime", "resources", "instanceType"];

impl DeployFlags {
    /// The Workload that the flags make.
    pub(crate) fn created(&self, name: &str, namespace: &str) -> Result<Value, Error> {
        let missing = |flag: &str| {
            let what = format!("workload {name:?} does not exist, so {flag} is required");
            Error::usage(what).next(format!("kubectl compute deploy {name} --image IMAGE --city CITY"))
        };
        let image = self.image.as_ref().ok_or_else(|| missing("--image"))?;
        if self.city.is_empty() && self.location.is_empty() {
            return Err(missing("--city"));
        }
        let or = |flag: &Option<String>, default: &str| flag.clone().unwrap_or_else(|| default.to_owned());
        let placement = or(&self.placement, PLACEMENT);
        let mut workload = json!({
            "apiVersion": API_VERSION, "kind": "Workload",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "template": {"metadata": {}, "spec": {
                    "runtime": {
                        "resources": {"instanceType": or(&self.instance_type, INSTANCE_TYPE)},
                        "sandbox": {"containers": [{"name": or(&self.container, CONTAINER), "image": image}]},
                    },
                    "networkInterfaces": [{"network": {"name": or(&self.network, NETWORK)}}],
                }},
                "placements": [{"name": placement,
                    "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady",
                        "rollout": {"maxSurge": 1}}}],
            },
        });
        self.apply(name, &mut workload)?;
        let scale = &mut workload["spec"]["placements"][0]["scaleSettings"];
        // `--max-surge 0` alone leaves `rollout` out, because a server without this field refuses a strict write that has it.
        if scale["rollout"] == json!({"maxSurge": 0})
            && let Some(scale) = scale.as_object_mut()
        {
            scale.remove("rollout");
        }
        Ok(workload)
    }

    /// Changes the fields that the flags name.
    pub(crate) fn apply(&self, name: &str, workload: &mut Value) -> Result<(), Error> {
        self.keep_network(name, workload)?;
        if let Some(instance_type) = &self.instance_type {
            *field_mut(workload, &INSTANCE_TYPE_PATH) = json!(instance_type);
        }
        self.place(name, workload)?;
        if self.allow_gap {
            *field_mut(workload, &["metadata", "annotations", keys::ALLOW_GAP]) = json!("true");
        } else if let (true, Some(Value::Object(annotations))) = (
            !self.city.is_empty() || !self.location.is_empty(),
            workload.pointer_mut("/metadata/annotations"),
        ) {
            annotations.remove(keys::ALLOW_GAP);
        }
        self.contain(name, workload)?;
        for Edit { name, entry } in &self.label {
            if let Some(value) = entry {
                *field_mut(workload, &["spec", "template", "metadata", "labels", name]) = value.clone();
            } else if let Some(Value::Object(labels)) = workload.pointer_mut("/spec/template/metadata/labels")
            {
                labels.remove(name);
            }
        }
        Ok(())
    }

    /// Instances keep their network, so that another one is refused.
    fn keep_network(&self, name: &str, workload: &Value) -> Result<(), Error> {
        let Some(network) = &self.network else {
            return Ok(());
        };
        let interfaces = workload.pointer("/spec/template/spec/networkInterfaces");
        let mut interfaces = interfaces.and_then(Value::as_array).into_iter().flatten();
        if interfaces.any(|interface| interface["network"]["name"] == **network) {
            return Ok(());
        }
        let what = format!("the network of workload {name:?} is fixed; --network cannot change it");
        Err(Error::usage(what).next("kubectl compute deploy -f FILE"))
    }

    fn place(&self, name: &str, workload: &mut Value) -> Result<(), Error> {
        let is_named = !self.city.is_empty() || !self.location.is_empty();
        let rollout = [
            ("maxSurge", self.max_surge.clone()),
            (
                "minReadySeconds",
                self.min_ready.map(|time| json!(time.as_secs())),
            ),
            ("onFailure", self.on_failure.map(|what| json!(what.word()))),
        ];
        let has_rollout_flag = rollout.iter().any(|(_, value)| value.is_some());
        if !is_named && !has_rollout_flag && self.min.is_none() && self.placement.is_none() {
            return Ok(());
        }
        let placements = items_mut(workload, PLACEMENTS);
        let at = chosen(placements, name, self.placement.as_deref(), "placement")?;
        let placement = &mut placements[at];
        set_places(placement, name, &self.city, &self.location)?;
        for (field, value) in rollout {
            if let Some(value) = value {
                *field_mut(placement, &["scaleSettings", "rollout", field]) = value;
            }
        }
        match self.min {
            Some(minimum) => set_minimum(placement, minimum),
            None => Ok(()),
        }
    }

    fn contain(&self, name: &str, workload: &mut Value) -> Result<(), Error> {
        let lists = [
            ("env", "/name", &self.env),
            ("ports", "/name", &self.port),
            ("envFrom", "/configMapRef/name", &self.env_from_configmap),
            ("envFrom", "/secretRef/name", &self.env_from_secret),
        ];
        let is_edited = lists.iter().any(|(.., edits)| !edits.is_empty());
        if self.image.is_none() && self.container.is_none() && self.health_http.is_none() && !is_edited {
            return Ok(());
        }
        let machine = workload.pointer("/spec/template/spec/runtime/virtualMachine");
        if machine.is_some_and(|machine| !machine.is_null()) {
            let what = format!("workload {name:?} is a virtual machine, which flags cannot change");
            return Err(Error::usage(what).next("kubectl compute deploy -f FILE"));
        }
        let containers = items_mut(workload, CONTAINERS);
        let at = chosen(containers, name, self.container.as_deref(), "container")?;
        let container = &mut containers[at];
        if let Some(image) = &self.image {
            *field_mut(container, &["image"]) = json!(image);
        }
        if let Some(probe) = &self.health_http {
            *field_mut(container, &["readinessProbe"]) = probe.clone();
        }
        for (list, key, edits) in lists {
            for edit in edits {
                edit_list(container, list, key, edit);
            }
        }
        Ok(())
    }
}

impl OnFailure {
    /// The value of the field.
    const fn word(self) -> &'static str {
        match self {
            Self::Hold => RolloutSettings::HOLD,
            Self::Undo => RolloutSettings::UNDO,
        }
    }
}

/// Sets or removes an item of a container's list, which is known by the text at `key`. An item that is there keeps its place.
fn edit_list(container: &mut Value, list: &str, key: &str, Edit { name, entry }: &Edit) {
    let mut items = container[list].as_array().cloned().unwrap_or_default();
    let is_it = |item: &Value| item.pointer(key).is_some_and(|value| value == name.as_str());
    match (entry, items.iter().position(is_it)) {
        (Some(entry), Some(at)) => items[at] = entry.clone(),
        (Some(entry), None) => items.push(entry.clone()),
        (None, Some(at)) => drop(items.remove(at)),
        (None, None) => return,
    }
    *field_mut(container, &[list]) = Value::Array(items);
}

/// Fields that say where, with the pronoun for several or one.
const FIELDS: [(&str, &str); 3] = [
    ("cityCodes", "them"),
    ("locations", "them"),
    ("locationSelector", "it"),
];

/// Sets cities or locations of a placement; both are empty if no flag names them. A placement has one field for them, and flags
/// change no form (contract: locations.md §2.2).
fn set_places(
    placement: &mut Value,
    workload: &str,
    cities: &[String],
    locations: &[String],
) -> Result<(), Error> {
    let named: Vec<Value> = locations.iter().map(|name| json!({"name": name})).collect();
    let (flag, field, value) = match (cities, &*named) {
        ([], []) => return Ok(()),
        (_, []) => ("--city", "cityCodes", json!(cities)),
        _ => ("--location", "locations", json!(named)),
    };
    let mut others = FIELDS.iter().filter(|(other, _)| *other != field);
    if let Some((other, pronoun)) = others.find(|(other, _)| !placement[*other].is_null()) {
        let own = placement["name"].as_str().unwrap_or_default();
        let what = format!(
            "placement {own:?} of workload {workload:?} has {other}; {flag} would set {field} beside {pronoun}"
        );
        return Err(Error::usage(what).next("kubectl compute deploy -f FILE"));
    }
    *field_mut(placement, &[field]) = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        args::{pair, port, variable},
        diff,
    };

    fn flags() -> DeployFlags {
        DeployFlags::default()
    }

    fn live() -> Value {
        let mut flags = flags();
        flags.image = Some("web:1".to_owned());
        flags.city = vec!["DFW".to_owned()];
        flags.env = vec![variable("A=1").unwrap(), variable("B=2").unwrap()];
        flags.port = vec![port("8080").unwrap()];
        let mut workload = flags.created("web", "default").unwrap();
        workload["spec"]["placements"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "eu", "cityCodes": ["LHR"], "scaleSettings": {"minReplicas": 2}}));
        workload["spec"]["template"]["spec"]["volumes"] = json!([{"name": "data", "disk": {}}]);
        workload
    }

    fn lines(edit: impl FnOnce(&mut DeployFlags)) -> Vec<String> {
        let (before, mut after, mut flags) = (live(), live(), flags());
        edit(&mut flags);
        flags.apply("web", &mut after).unwrap();
        let changes = diff::changes(Some(&before), &after);
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_gap_is_allowed_until_other_cities_are_named_without_it() {
        let mut workload = live();
        let mut apply = |allow_gap, cities: &[&str]| {
            let flags = DeployFlags {
                allow_gap,
                city: cities.iter().map(|city| (*city).to_owned()).collect(),
                placement: (!cities.is_empty()).then(|| "eu".to_owned()),
                ..flags()
            };
            flags.apply("web", &mut workload).unwrap();
            workload["metadata"]["annotations"][keys::ALLOW_GAP].clone()
        };
        assert_eq!(apply(true, &["ORD"]), "true");
        assert_eq!(apply(false, &[]), "true");
        assert_eq!(apply(false, &["DFW"]), Value::Null);
        assert_eq!(apply(true, &[]), "true");
    }

    #[test]
    fn a_flag_changes_its_field_and_nothing_else() {
        let container = "spec.template.spec.runtime.sandbox.containers[app]";
        assert_eq!(
            lines(|flags| flags.image = Some("web:2".to_owned())),
            [format!("~ {container}.image: web:1 -> web:2")]
        );
        assert_eq!(
            lines(|flags| {
                flags.placement = Some("eu".to_owned());
                flags.min = Some(3);
            }),
            ["~ spec.placements[eu].scaleSettings.minReplicas: 2 -> 3"]
        );
        assert_eq!(
            lines(|flags| flags.env = ["B=3", "A-", "Z-"].map(|env| variable(env).unwrap()).to_vec()),
            [
                format!("~ {container}.env[B].value: 2 -> 3"),
                format!("- {container}.env[A]: {{\"name\":\"A\",\"value\":\"1\"}}")
            ]
        );
        assert_eq!(
            lines(|flags| flags.port = vec![port("p8080-").unwrap(), port("web=80/udp").unwrap()]),
            [
                format!("+ {container}.ports[web]: {{\"name\":\"web\",\"port\":80,\"protocol\":\"UDP\"}}"),
                format!(
                    "- {container}.ports[p8080]: {{\"name\":\"p8080\",\"port\":8080,\"protocol\":\"TCP\"}}"
                )
            ]
        );
        assert_eq!(
            lines(|flags| {
                flags.placement = Some("eu".to_owned());
                flags.max_surge = Some(json!("50%"));
                flags.min_ready = Some(std::time::Duration::from_secs(90));
                flags.on_failure = Some(OnFailure::Undo);
            }),
            [
                "+ spec.placements[eu].scaleSettings.rollout.maxSurge: 50%",
                "+ spec.placements[eu].scaleSettings.rollout.minReadySeconds: 90",
                "+ spec.placements[eu].scaleSettings.rollout.onFailure: Undo"
            ]
        );
        assert_eq!(
            lines(|flags| flags.health_http = Some(json!({"httpGet": {"path": "/", "port": 80}}))),
            [
                format!("+ {container}.readinessProbe.httpGet.path: /"),
                format!("+ {container}.readinessProbe.httpGet.port: 80")
            ]
        );
        assert_eq!(
            lines(|flags| flags.label = vec![pair("tier=front").unwrap()]),
            ["+ spec.template.metadata.labels.tier: front"]
        );
        assert_eq!(lines(|_| {}), [""; 0]);
    }

    #[test]
    fn a_field_that_is_there_several_times_must_be_named() {
        let refused = |edit: fn(&mut DeployFlags)| {
            let mut flags = flags();
            edit(&mut flags);
            flags.apply("web", &mut live()).unwrap_err().what
        };
        assert_eq!(
            refused(|flags| flags.min = Some(2)),
            "workload \"web\" has several: --placement must name one of default, eu"
        );
        assert_eq!(
            refused(|flags| {
                flags.image = Some("x".to_owned());
                flags.container = Some("b".to_owned());
            }),
            "workload \"web\" has no container \"b\"; it has app"
        );
        assert_eq!(
            refused(|flags| flags.network = Some("other".to_owned())),
            "the network of workload \"web\" is fixed; --network cannot change it"
        );
        assert!(
            flags()
                .created("web", "default")
                .unwrap_err()
                .what
                .contains("--image is required")
        );
    }

    #[test]
    fn a_name_is_found_among_items_without_one() {
        let mut workload = live();
        let list = &mut workload["spec"]["placements"];
        list[0].as_object_mut().unwrap().remove("name");
        let mut flags = flags();
        flags.placement = Some("eu".to_owned());
        flags.city = vec!["AMS".to_owned()];
        flags.apply("web", &mut workload).unwrap();
        let cities = |at: usize| workload["spec"]["placements"][at]["cityCodes"].clone();
        assert_eq!((cities(0), cities(1)), (json!(["DFW"]), json!(["AMS"])));
    }

    #[test]
    fn an_empty_list_is_named() {
        let (mut workload, mut flags) = (live(), flags());
        *workload.pointer_mut(CONTAINERS).unwrap() = json!([]);
        flags.image = Some("x".to_owned());
        let error = flags.apply("web", &mut workload).unwrap_err();
        let named = (1, "workload \"web\" has no containers".to_owned());
        assert_eq!((error.kind.exit(), error.what), named);
    }

    #[test]
    fn a_label_that_is_removed_makes_no_map() {
        let (mut workload, mut flags) = (live(), flags());
        flags.label = vec![pair("tier-").unwrap()];
        flags.apply("web", &mut workload).unwrap();
        assert_eq!(workload, live());
    }

    proptest::proptest! {
        #[test]
        fn any_template_survives_a_flag_for_another_field(extra in "[a-z]{1,8}", value in 0_i64..100, list in proptest::collection::vec(0_i64..9, 0..4)) {
            let mut workload = live();
            workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0][&extra] = json!(value);
            workload["spec"]["template"]["spec"][&extra] = json!({"deep": list});
            let mut wanted = workload.clone();
            wanted["spec"]["template"]["metadata"]["labels"] = json!({"tier": "front"});
            let mut flags = flags();
            flags.label = vec![pair("tier=front").unwrap()];
            flags.apply("web", &mut workload).unwrap();
            proptest::prop_assert_eq!(workload, wanted);
        }
    }
}
