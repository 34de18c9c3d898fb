//! Runs a scenario on one side.

use crate::scenario::{Fact, Scenario, Step};
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
            match &fact.of {
                Some(binding) => *found = work_of(found, binding),
                None => drop(found["metadata"]["managedFields"].take()),
            }
        }
        let instead = match (&fact.has, found) {
            (None, Ok(Value::Null)) => return None,
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

/// The Work of a binding in a list of Works; `null` if it is not there.
fn work_of(list: &Value, binding: &str) -> Value {
    let (namespace, name) = binding.split_once('/').unwrap();
    let is_of = |work: &&Value| {
        let annotations = &work["metadata"]["annotations"];
        annotations["resourcebinding.karmada.io/namespace"] == namespace
            && annotations["resourcebinding.karmada.io/name"] == name
    };
    let works = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    works.iter().find(is_of).cloned().unwrap_or_default()
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

/// Runs it; answers what was not as it says.
pub(crate) async fn run(side: &Side, scenario: &Scenario, namespace: String) -> Option<String> {
    let mut labels = serde_json::Map::new();
    // Else Karmada gives it to every member.
    labels.insert("namespace.karmada.io/skip-auto-propagation".into(), json!("true"));
    labels.extend(
        scenario
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value))),
    );
    let made =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}", "labels": labels}});
    let made = Step::Request {
        request: "POST /api/v1/namespaces".to_owned(),
        at: "hub".to_owned(),
        body: made,
    };
    for (at, step) in std::iter::once(&made).chain(&scenario.steps).enumerate() {
        let wrong = match step {
            Step::Request { request, at, body } => {
                let body = fill(body, &namespace);
                let request = request.replace("${ns}", &namespace);
                let answer = side.ask(at, &request, &body).await;
                answer.err().map(|error| format!("{request} at {at}: {error}"))
            }
            Step::Expect { expect } => {
                let facts: Vec<Fact> = expect.iter().map(|fact| fact_in(fact, &namespace)).collect();
                side.await_all(&facts).await
            }
        };
        if let Some(wrong) = wrong {
            return Some(format!("{}, step {at}: {wrong}", scenario.name));
        }
    }
    None
}

fn fact_in(fact: &Fact, namespace: &str) -> Fact {
    Fact {
        get: fact.get.replace("${ns}", namespace),
        of: fact
            .of
            .as_ref()
            .map(|binding| binding.replace("${ns}", namespace)),
        at: fact.at.clone(),
        has: fact.has.as_ref().map(|wanted| fill(wanted, namespace)),
    }
}

/// Puts the namespace into every text.
fn fill(value: &Value, namespace: &str) -> Value {
    serde_json::from_str(&value.to_string().replace("${ns}", namespace)).unwrap()
}
