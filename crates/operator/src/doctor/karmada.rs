//! Karmada itself: the fields that fedgate writes, and the arguments of karmada-controller-manager.

use super::{Check, Finding, Subject, definitions};
use fedgate_api::names::CityCode;
use fedgate_gateway::{
    policy_spec::{city_set_spec, route_spec},
    route::Route,
};
use fedgate_kinds::FederatedKind;
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// The argument that keeps Instances, which cells write, from being propagated.
const SKIP: &str = "--skipped-propagating-apis=compute.datumapis.com/v1alpha/Instance";
/// The argument that bounds the time to Karmada's next attempt. Karmada's default is 1,000 s.
const DELAY: &str = "--rate-limiter-max-delay=";
/// The longest delay that fedgate recommends, since a tenant waits as long after the cause of a failure has gone.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
const GATES: &str = "--feature-gates=";
const MANAGER: &str = "karmada-controller-manager";
/// Oldest minor version of Karmada 1 whose labels the gateway reads (`permanent-id`).
const OLDEST: u32 = 10;
/// Newest minor version of Karmada 1 that was tested.
const NEWEST: u32 = 19;

/// Checks that Karmada's definitions on the hub have every field that the gateway writes.
pub(super) async fn fields(subject: &Subject, kinds: &[FederatedKind]) -> Finding {
    let check = Check::Karmada;
    for (group, kind, spec) in written(kinds) {
        let path = format!("/openapi/v3/apis/{group}");
        let document = match definitions::get(&subject.client, &path).await {
            Ok(document) => document,
            Err(error) => {
                let text = format!("the schemas of {group} cannot be read: {}", error.text());
                let next = "compare Karmada's version with those that were tested";
                return subject.open(check, text, next);
            }
        };
        let schemas = document["components"]["schemas"].as_object();
        let mut schemas = schemas.into_iter().flatten();
        let schema = schemas.find(|(name, _)| name.ends_with(&format!(".{kind}")));
        let schema = schema.map_or(&Value::Null, |(_, schema)| &schema["properties"]["spec"]);
        if let Some(field) = lacks("spec", &spec, schema, &document) {
            let text = format!("{kind} has no {field}, which fedgate writes");
            let next = "install a version of Karmada that was tested, with its CRDs";
            return subject.fail(check, text, next);
        }
    }
    subject.ok(check, "Karmada's kinds have the fields that fedgate writes")
}

/// An example of each kind that the gateway writes.
fn written(kinds: &[FederatedKind]) -> Vec<(&'static str, &'static str, Value)> {
    let policies = "policy.karmada.io/v1alpha1";
    let mut all = Vec::new();
    for kind in kinds {
        let (group, interpreter) = (
            "config.karmada.io/v1alpha1",
            kind.interpreter_object()["spec"].take(),
        );
        all.push((group, "ResourceInterpreterCustomization", interpreter));
        let Ok(city) = CityCode::parse("DFW") else {
            continue;
        };
        let cities = BTreeSet::from([city.clone()]);
        let policy = route_spec(kind, "ns", &Route::City(city));
        all.push((policies, "PropagationPolicy", policy));
        let set = city_set_spec("dfw", &cities, &kind.placement.label);
        all.push((policies, "ClusterPropagationPolicy", set));
    }
    all
}

/// The first field of an object that its schema does not have. Below a map, or a schema without fields, all are known.
fn lacks(path: &str, object: &Value, schema: &Value, document: &Value) -> Option<String> {
    let schema = resolved(schema, document);
    match object {
        Value::Object(fields) => {
            let Some(known) = schema["properties"].as_object() else {
                return (!schema.is_object()).then(|| path.to_owned());
            };
            fields.iter().find_map(|(name, value)| {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(schema) => lacks(&path, value, schema, document),
                    None => Some(path),
                }
            })
        }
        Value::Array(items) => {
            let mut items = items.iter();
            items.find_map(|item| lacks(&format!("{path}[]"), item, &schema["items"], document))
        }
        _ => None,
    }
}

/// The schema behind a reference.
fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    let reference = schema["$ref"]
        .as_str()
        .or_else(|| schema["allOf"][0]["$ref"].as_str());
    let name = reference.and_then(|reference| reference.rsplit('/').next());
    name.map_or(schema, |name| &document["components"]["schemas"][name])
}

/// Checks the arguments of karmada-controller-manager in the cluster that runs it.
pub(super) async fn arguments(subject: &Subject) -> Vec<Finding> {
    let path = "/apis/apps/v1/deployments?labelSelector=app%3Dkarmada-controller-manager";
    match definitions::ask(&subject.client, path, ("list", "deployments.apps")).await {
        Ok(list) => judge(subject, &list),
        Err(error) => vec![subject.error(Check::Karmada, &error)],
    }
}

/// The elements of a list.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The containers that run it: all but those beside it.
fn managers(deployments: &Value) -> Vec<&Value> {
    let containers = list(&deployments["items"]).flat_map(|deployment| {
        let containers = list(&deployment["spec"]["template"]["spec"]["containers"]);
        let is_named = |container: &&Value| {
            let mut words = [&container["name"], &container["image"]].into_iter();
            words.any(|word| word.as_str().is_some_and(|word| word.contains(MANAGER)))
        };
        let (named, others): (Vec<_>, Vec<_>) = containers.partition(is_named);
        if named.is_empty() { others } else { named }
    });
    containers.collect()
}

fn judge(subject: &Subject, deployments: &Value) -> Vec<Finding> {
    let containers = managers(deployments);
    let images: Vec<&str> = containers.iter().filter_map(|of| of["image"].as_str()).collect();
    if images.is_empty() {
        let text = "no Deployment is labelled app=karmada-controller-manager";
        let next = format!("look for {SKIP} where karmada-controller-manager runs");
        return vec![subject.open(Check::SkippedPropagatingApis, text, next)];
    }
    let words = containers
        .iter()
        .flat_map(|of| list(&of["command"]).chain(list(&of["args"])));
    let arguments: Vec<&str> = words.filter_map(Value::as_str).collect();
    let gates = arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix(GATES));
    let is_off = gates
        .flat_map(|gates| gates.split(','))
        .any(|gate| gate == "PropagateDeps=false");
    let gates = if is_off {
        subject.fail(
            Check::PropagateDeps,
            "karmada-controller-manager runs with PropagateDeps=false, so ConfigMaps and Secrets stay on the hub",
            "remove PropagateDeps=false from its --feature-gates",
        )
    } else {
        subject.ok(Check::PropagateDeps, "PropagateDeps is not switched off")
    };
    let check = Check::SkippedPropagatingApis;
    let skipped = if arguments.iter().any(|argument| skips(argument)) {
        subject.ok(check, "Instances are skipped")
    } else {
        let text = "karmada-controller-manager may propagate Instances, which cells write";
        subject.fail(check, text, format!("run it with {SKIP}"))
    };
    vec![
        version(subject, &images),
        gates,
        skipped,
        delay(subject, &arguments),
    ]
}

/// Checks the longest time that Karmada waits before it tries a failed object again.
fn delay(subject: &Subject, arguments: &[&str]) -> Finding {
    let mut delays = arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix(DELAY));
    // Go takes the last one of repeated arguments.
    let delay = delays.next_back().unwrap_or("16m40s");
    if fedgate_terminal::time::duration(delay).is_ok_and(|delay| delay <= LONGEST_DELAY) {
        let text = format!("{MANAGER} retries after {delay} at most");
        return subject.ok(Check::RetryDelay, text);
    }
    let text = format!(
        "{MANAGER} may wait {delay} before it tries a failed object again, and a tenant's change or deletion waits as long"
    );
    let next = format!("run it with {DELAY}{}s", LONGEST_DELAY.as_secs());
    subject.open(Check::RetryDelay, text, next)
}

/// Checks the versions that images name.
fn version(subject: &Subject, images: &[&str]) -> Finding {
    let runs = |images: &[&str]| format!("{MANAGER} runs {}", images.join(", "));
    let is_tested = |image: &&str| minor(image).is_some_and(|minor| (OLDEST..=NEWEST).contains(&minor));
    let other: Vec<&str> = images.iter().copied().filter(|image| !is_tested(image)).collect();
    if other.is_empty() {
        return subject.ok(Check::Karmada, runs(images));
    }
    let why = if other.iter().all(|image| minor(image).is_some()) {
        "is outside"
    } else {
        "does not say whether it is one of"
    };
    let text = format!(
        "{}, whose tag {why} Karmada 1.{OLDEST} to 1.{NEWEST}",
        runs(&other)
    );
    let next = format!(
        "run a version from v1.{OLDEST} to v1.{NEWEST}, or compare its changes with docs/compatibility.md"
    );
    subject.open(Check::Karmada, text, next)
}

/// The minor version of Karmada 1 that an image's tag names; a newer major version counts as newer than all.
fn minor(image: &str) -> Option<u32> {
    let name = image.split('@').next()?.rsplit('/').next()?;
    let (_, tag) = name.split_once(':')?;
    let mut numbers = tag.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (numbers.next()?.ok()?, numbers.next()?.ok()?) {
        (1, minor) => Some(minor),
        (0, _) => Some(0),
        _ => Some(u32::MAX),
    }
}

/// True if this argument makes Karmada skip Instances: by group, by version or by kind.
fn skips(argument: &str) -> bool {
    let apis = argument.strip_prefix("--skipped-propagating-apis=");
    let mut apis = apis.into_iter().flat_map(|apis| apis.split(';'));
    apis.any(|api| {
        let kinds = api.strip_prefix("compute.datumapis.com/v1alpha/");
        matches!(api, "compute.datumapis.com" | "compute.datumapis.com/v1alpha")
            || kinds.is_some_and(|kinds| kinds.split(',').any(|kind| kind == "Instance"))
    })
}

/// The next step where the arguments cannot be seen.
pub(super) fn look_for_skip() -> String {
    format!(
        "look for {SKIP} among the arguments of karmada-controller-manager, or give --karmada-host-kubeconfig"
    )
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};
    use serde_json::json;

    fn verdicts(arguments: &[&str]) -> Vec<(Check, Verdict)> {
        let list = json!({"items": [{"spec": {"template": {"spec": {"containers": [
            {"image": "karmada:v1.18.2", "command": ["/bin/manager"], "args": arguments}]}}}}]});
        let found = judge(&subject(), &list).into_iter();
        found.map(|finding| (finding.check, finding.verdict)).collect()
    }

    #[test]
    fn the_arguments_of_karmada_decide() {
        use Check::{Karmada, PropagateDeps, RetryDelay, SkippedPropagatingApis};
        use Verdict::{Fail, Ok, Open};
        let good = [
            (Karmada, Ok),
            (PropagateDeps, Ok),
            (SkippedPropagatingApis, Ok),
            (RetryDelay, Open),
        ];
        for skip in [
            SKIP,
            "--skipped-propagating-apis=a/v1;compute.datumapis.com",
            "--skipped-propagating-apis=compute.datumapis.com/v1alpha/X,Instance;b",
        ] {
            assert_eq!(verdicts(&[skip]), good, "{skip}");
        }
        assert_eq!(
            verdicts(&["--skipped-propagating-apis=compute.datumapis.com/v1alpha/X"])[2].1,
            Fail
        );
        assert_eq!(
            verdicts(&[SKIP, "--feature-gates=A=true,PropagateDeps=false"])[1].1,
            Fail
        );
        assert_eq!(judge(&subject(), &json!({"items": []}))[0].verdict, Open);
    }

    #[test]
    fn a_delay_of_retries_over_half_a_minute_is_told() {
        for (delay, verdict) in [
            ("30s", Verdict::Ok),
            ("0m30s", Verdict::Ok),
            ("31s", Verdict::Open),
            ("1m", Verdict::Open),
            ("16m40s", Verdict::Open),
            ("1h", Verdict::Open),
            ("", Verdict::Open),
        ] {
            let found = verdicts(&[SKIP, &format!("{DELAY}{delay}")])[3];
            assert_eq!(found, (Check::RetryDelay, verdict), "{delay}");
        }
        let last = verdicts(&[&format!("{DELAY}30s"), &format!("{DELAY}2m")])[3];
        assert_eq!(last.1, Verdict::Open, "the last one counts");
    }

    #[test]
    fn the_image_of_karmada_is_one_of_those_that_were_tested_or_is_not() {
        let of = |images: &[&str]| {
            let containers: Vec<Value> = images.iter().map(|image| json!({"image": image})).collect();
            let list = json!({"items": [{"spec": {"template": {"spec": {"containers": containers}}}}]});
            let found = judge(&subject(), &list).swap_remove(0);
            (found.check, found.verdict, found.text)
        };
        let manager = "registry.example:5000/karmada/karmada-controller-manager";
        for (tag, verdict, words) in [
            (":v1.10.0", Verdict::Ok, "runs registry.example:5000"),
            (":v1.19.0-rc.0", Verdict::Ok, "runs"),
            (":v1.18.2@sha256:0123", Verdict::Ok, "runs"),
            (":v1.9.3", Verdict::Open, "is outside Karmada 1.10 to 1.19"),
            (":v1.20.0", Verdict::Open, "is outside"),
            (":v2.0.0", Verdict::Open, "is outside"),
            (":latest", Verdict::Open, "does not say"),
            ("@sha256:0123", Verdict::Open, "does not say"),
            ("", Verdict::Open, "does not say"),
        ] {
            let (check, had, text) = of(&[&format!("{manager}{tag}")]);
            assert_eq!((check, had), (Check::Karmada, verdict), "{text}");
            assert!(text.contains(words), "{text}");
        }
        let (_, verdict, text) = of(&["mesh/proxy:v2.1.0", &format!("{manager}:v1.18.0")]);
        assert_eq!(
            verdict,
            Verdict::Ok,
            "a container beside it is none of it: {text}"
        );
    }

    #[test]
    fn a_field_that_karmada_lacks_is_named() {
        let schema = json!({"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}},
            "map": {"additionalProperties": {}}, "there": {"allOf": [{"$ref": "#/components/schemas/x"}]}}});
        let document = json!({"components": {"schemas": {"x": {"properties": {"y": {}}}}}});
        let lacks = |object: Value| lacks("spec", &object, &schema, &document);
        assert_eq!(
            lacks(json!({"a": [{"b": "x"}], "map": {"k": {"deep": 1}}, "there": {"y": 1}})),
            None
        );
        assert_eq!(lacks(json!({"a": [{"c": "x"}]})).as_deref(), Some("spec.a[].c"));
        assert_eq!(lacks(json!({"there": {"z": 1}})).as_deref(), Some("spec.there.z"));
        assert_eq!(lacks(json!({"new": 1})).as_deref(), Some("spec.new"));
    }
}
