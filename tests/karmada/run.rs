//! Runs a scenario on one side.

use crate::scenario::{Fact, Lane, Scenario, Step};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// How long controllers may take: Karmada looks at some things every few seconds only.
const PATIENCE: Duration = Duration::from_secs(90);

/// Planes with somebody's Karmada.
pub(crate) struct Side {
    clients: BTreeMap<&'static str, Client>,
}

impl Side {
    pub(crate) fn new(clients: BTreeMap<&'static str, Client>) -> Self {
        Self { clients }
    }

    async fn ask(&self, at: &str, request: &str, body: &Value) -> Result<Value, kube::Error> {
        let (method, path) = request.split_once(' ').unwrap();
        let kind = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind);
        self.clients[at].request(request.body(bytes).unwrap()).await
    }

    /// What there is instead of what must hold.
    async fn unmet(&self, fact: &Fact) -> Option<String> {
        let mut found = self
            .ask(&fact.at, &format!("GET {}", fact.get), &Value::Null)
            .await;
        if let Ok(found) = &mut found {
            found["metadata"]["managedFields"].take();
        }
        if let (None, Ok(found), true) = (&fact.has, &found, fact.some.is_some() || fact.none.is_some()) {
            let item = |wanted: &Value| items(found).iter().any(|item| has(item, wanted));
            let met = fact.some.as_ref().is_none_or(item) && !fact.none.as_ref().is_some_and(item);
            return (!met).then(|| format!("{} at {}: has {:?}", fact.get, fact.at, items(found)));
        }
        if let Some(wanted) = &fact.refused {
            let instead = match found {
                Err(kube::Error::Api(status)) if has(&json!(status), wanted) => return None,
                found => format!("{found:?}, not refused with {wanted}"),
            };
            return Some(format!("{} at {}: {instead}", fact.get, fact.at));
        }
        let instead = match (&fact.has, found) {
            (Some(wanted), Ok(found)) if has(&found, wanted) => return None,
            (None, Err(kube::Error::Api(status))) if status.code == 404 => return None,
            (Some(wanted), Ok(found)) => format!("is {found}, not {wanted}"),
            (None, Ok(found)) => format!("is there: {found}"),
            (_, Err(error)) => error.to_string(),
        };
        Some(format!("{} at {}: {instead}", fact.get, fact.at))
    }

    async fn first_unmet(&self, facts: &[Fact]) -> Option<String> {
        for fact in facts {
            if let Some(unmet) = self.unmet(fact).await {
                return Some(unmet);
            }
        }
        None
    }

    /// Waits until texts are there, and keeps them.
    async fn keep(&self, step: &Kept<'_>, words: &mut Words) -> Option<String> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let found = self
                .ask(step.at, &format!("GET {}", step.get), &Value::Null)
                .await;
            let found = found.unwrap_or_default();
            let object = match &step.some {
                Value::Null => Some(&found),
                wanted => items(&found).iter().find(|item| has(item, wanted)),
            };
            let text = |pointer: &String| Some(object?.pointer(pointer)?.as_str()?.to_owned());
            let texts: Option<Words> = step
                .keep
                .iter()
                .map(|(name, pointer)| Some((name.clone(), text(pointer)?)))
                .collect();
            if let Some(texts) = texts {
                words.extend(texts);
                return None;
            }
            if tokio::time::Instant::now() > end {
                return Some(format!("{} at {}: is {found}", step.get, step.at));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until all holds; what does not when patience ends.
    async fn await_all(&self, facts: &[Fact]) -> Option<String> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let unmet = self.first_unmet(facts).await?;
            if tokio::time::Instant::now() > end {
                return Some(unmet);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Whether an object has these fields. Conditions are looked for by what is wanted of them; other lists are compared whole.
fn has(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::String(any) if any == "*" => found.as_str().is_some_and(|text| !text.is_empty()),
        Value::Object(fields) => fields.iter().all(|(key, value)| has(&found[key], value)),
        Value::Array(items) => {
            let all = found.as_array().map(Vec::as_slice).unwrap_or_default();
            if items.iter().any(|item| item.get("type").is_some()) {
                let listed = |wanted: &Value| all.iter().any(|found| has(found, wanted));
                return items.iter().all(listed);
            }
            all.len() == items.len() && all.iter().zip(items).all(|(found, wanted)| has(found, wanted))
        }
        exact => exact == found,
    }
}

/// Texts in the place of `${name}`, by name.
type Words = BTreeMap<String, String>;

/// A step that keeps texts.
struct Kept<'a> {
    keep: &'a BTreeMap<String, String>,
    get: String,
    at: &'a str,
    some: Value,
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Runs it; answers what was not as it says.
pub(crate) async fn run(side: &Side, scenario: &Scenario, namespace: String) -> Option<String> {
    let mut words = Words::from([("ns".to_owned(), namespace)]);
    for (at, step) in beginning(scenario).iter().chain(&scenario.steps).enumerate() {
        if let Some(wrong) = take(side, step, &mut words).await {
            return Some(format!("{}, step {at}: {wrong}", scenario.name));
        }
    }
    None
}

/// The scenario's namespace, at members too where lanes lead to them, and its lanes.
fn beginning(scenario: &Scenario) -> Vec<Step> {
    let mut labels = serde_json::Map::new();
    // Else Karmada gives it to every member.
    labels.insert("namespace.karmada.io/skip-auto-propagation".into(), json!("true"));
    labels.extend(
        scenario
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value))),
    );
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}", "labels": labels}});
    let post = |path: &str, at: &str, body: Value| Step::Request {
        request: format!("POST {path}"),
        at: at.to_owned(),
        body,
    };
    let planes = if scenario.lanes.is_empty() {
        &["hub"][..]
    } else {
        &["hub", "dfw-1", "lhr-1"]
    };
    let namespaces = planes
        .iter()
        .map(|plane| post("/api/v1/namespaces", plane, namespace.clone()));
    let policies = "/apis/policy.karmada.io/v1alpha1/namespaces/${ns}/propagationpolicies";
    let lanes = scenario
        .lanes
        .iter()
        .map(|(name, lane)| post(policies, "hub", policy(name, lane)));
    namespaces.chain(lanes).collect()
}

fn policy(name: &str, lane: &Lane) -> Value {
    let selector = |group: &str| {
        json!({"apiVersion": format!("{group}.example.dev/v1"), "kind": "Gadget",
            "labelSelector": {"matchLabels": {LANE: name}}})
    };
    let mut spec = json!({
        "resourceSelectors": [selector("one"), selector("two")],
        "placement": {
            "clusterAffinity": {"clusterNames": lane.clusters},
            "clusterTolerations": [{"operator": "Exists"}],
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        },
    });
    if let Some(spec) = spec.as_object_mut() {
        spec.extend(lane.spec.clone());
    }
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name}, "spec": spec})
}

/// The label that gives a Gadget to a lane.
const LANE: &str = "example.dev/lane";

/// The one patch that gives a Gadget to another lane.
fn change_of_lane(lane: &str, more: &Value) -> Value {
    let mut patch = if more.is_null() { json!({}) } else { more.clone() };
    patch["metadata"]["labels"] = json!({LANE: lane, "propagationpolicy.karmada.io/permanent-id": null});
    patch["metadata"]["annotations"] = json!({
        "propagationpolicy.karmada.io/name": null, "propagationpolicy.karmada.io/namespace": null,
    });
    patch
}

async fn request(side: &Side, request: &str, at: &str, body: &Value, words: &Words) -> Option<String> {
    let request = fill(request, words);
    let answer = side.ask(at, &request, &fill_all(body, words)).await;
    answer.err().map(|error| format!("{request} at {at}: {error}"))
}

/// Takes a step; answers what was not as it says.
async fn take(side: &Side, step: &Step, words: &mut Words) -> Option<String> {
    match step {
        Step::Request {
            request: what,
            at,
            body,
        } => request(side, what, at, body, words).await,
        Step::Lane { lane, gadget, body } => {
            let path = format!("PATCH /apis/one.example.dev/v1/namespaces/${{ns}}/gadgets/{gadget}");
            request(side, &path, "hub", &change_of_lane(lane, body), words).await
        }
        Step::Keep { keep, get, at, some } => {
            let step = Kept {
                keep,
                get: fill(get, words),
                at,
                some: fill_all(some, words),
            };
            side.keep(&step, words).await
        }
        Step::Expect { expect } => {
            let facts: Vec<Fact> = expect.iter().map(|fact| fact_in(fact, words)).collect();
            side.await_all(&facts).await
        }
    }
}

fn fact_in(fact: &Fact, words: &Words) -> Fact {
    let wanted = |wanted: &Option<Value>| wanted.as_ref().map(|wanted| fill_all(wanted, words));
    Fact {
        get: fill(&fact.get, words),
        at: fact.at.clone(),
        has: wanted(&fact.has),
        refused: wanted(&fact.refused),
        some: wanted(&fact.some),
        none: wanted(&fact.none),
    }
}

/// Puts what they stand for into the place of all names in a text.
fn fill(text: &str, words: &Words) -> String {
    words.iter().fold(text.to_owned(), |text, (name, word)| {
        text.replace(&format!("${{{name}}}"), word)
    })
}

/// The same in every text of a value.
fn fill_all(value: &Value, words: &Words) -> Value {
    serde_json::from_str(&fill(&value.to_string(), words)).unwrap()
}
