//! Runs a scenario on one of the planes.

use crate::{
    normal::Marks,
    scenario::{Scenario, Step, path},
};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// How long a controller or an event may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an answer may take; a watch has no end.
const ANSWER: Duration = Duration::from_secs(5);

/// One of the two planes.
pub(crate) struct Side {
    pub(crate) client: kube::Client,
    /// The simulated plane; `None` is the real one.
    pub(crate) plane: Option<fedgate_simulator::Plane>,
}

/// The outcome of each step.
pub(crate) async fn run(side: &Side, scenario: &Scenario, namespace: &str) -> Vec<Value> {
    let mut run = Run {
        side,
        namespace,
        answers: BTreeMap::new(),
        watches: BTreeMap::new(),
        marks: Marks::default(),
    };
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let made = run
        .send("POST /api/v1/namespaces", "", "application/json", &made)
        .await;
    assert_eq!(made.status(), 201, "{}", scenario.name);
    let mut outcomes = Vec::new();
    for step in &scenario.steps {
        outcomes.push(run.step(step).await);
    }
    outcomes
}

struct Run<'a> {
    side: &'a Side,
    namespace: &'a str,
    answers: BTreeMap<String, Value>,
    watches: BTreeMap<String, Lines>,
    marks: Marks,
}

impl Run<'_> {
    async fn step(&mut self, step: &Step) -> Value {
        if step.0.get("compact").is_some() {
            if let Some(plane) = &self.side.plane {
                plane.compact();
            }
            return Value::Null;
        }
        if step.0.get("watch").is_some() {
            let path = self.fill(step.text("watch"));
            let query = if path.contains('?') { '&' } else { '?' };
            let request = format!("GET {path}{query}watch=true");
            let answer = self.send(&request, step.text("accept"), "", &Value::Null).await;
            let code = answer.status().as_u16();
            self.watches
                .insert(step.text("as").to_owned(), Lines::new(answer.into_body()));
            return json!(code);
        }
        if step.0.get("events").is_some() {
            return self.events(step).await;
        }
        if step.0.get("until").is_some() {
            return self.until(step).await;
        }
        let (kind, body) = step.body();
        let body: Value = serde_json::from_str(&self.fill(&body.to_string())).unwrap();
        let request = self.fill(step.text("do"));
        let (code, answer) = self.ask(&request, step.text("accept"), &kind, &body).await;
        if step.0.get("as").is_some() {
            self.answers.insert(step.text("as").to_owned(), answer.clone());
        }
        if step.text("only") == "code" {
            return json!(code);
        }
        if step.0.get("names").is_some() {
            let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            return items
                .iter()
                .map(|item| item["metadata"]["name"].clone())
                .collect();
        }
        json!([code, self.marks.normal(&answer)])
    }

    /// Reads events of a watch; bookmarks count only where they end what there was.
    async fn events(&mut self, step: &Step) -> Value {
        let watch = self.watches.get_mut(step.text("events")).unwrap();
        let mut events = Vec::new();
        let to_end = step.text("take") == "end";
        let wanted = step.0["take"].as_u64().unwrap_or(u64::MAX);
        while u64::try_from(events.len()).unwrap() < wanted {
            let Ok(next) = tokio::time::timeout(PATIENCE, watch.next()).await else {
                events.push(json!("nothing came"));
                break;
            };
            let Some(event) = next else {
                events.push(json!("end"));
                break;
            };
            let initial_end =
                event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
            if event["type"] != "BOOKMARK" || initial_end {
                events.push(json!([event["type"], self.marks.normal(&event["object"])]));
            }
            assert!(!to_end || events.len() < 100, "the watch does not end");
        }
        Value::Array(events)
    }

    /// Asks until the answer is as it should be.
    async fn until(&mut self, step: &Step) -> Value {
        let request = self.fill(step.text("until"));
        let lacks = self.fill(step.text("lacks"));
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let (code, answer) = self.ask(&request, "", "", &Value::Null).await;
                let right = step.0.get("code").is_none_or(|wanted| *wanted == code);
                if right && (lacks.is_empty() || !answer.to_string().contains(&lacks)) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        json!(if waited.await.is_ok() {
            "it came"
        } else {
            "it did not come"
        })
    }

    /// Puts the namespace and earlier answers into a text.
    fn fill(&self, text: &str) -> String {
        let mut filled = text.replace("${ns}", self.namespace);
        while let Some((before, rest)) = filled.split_once("${") {
            let (name, after) = rest.split_once('}').unwrap();
            let (answer, field) = name.split_once('.').unwrap();
            let pointer = format!("/{}", field.replace('.', "/"));
            let value = self.answers[answer]
                .pointer(&pointer)
                .and_then(Value::as_str)
                .unwrap_or_default();
            filled = format!("{before}{value}{after}");
        }
        filled
    }

    async fn ask(&self, request: &str, accept: &str, kind: &str, body: &Value) -> (u16, Value) {
        let answer = self.send(request, accept, kind, body).await;
        let code = answer.status().as_u16();
        let Ok(whole) = tokio::time::timeout(ANSWER, answer.into_body().collect()).await else {
            return (code, json!("an answer without an end"));
        };
        let bytes = whole.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (
            code,
            serde_json::from_slice(&bytes).unwrap_or(Value::String(text)),
        )
    }

    async fn send(&self, request: &str, accept: &str, kind: &str, body: &Value) -> Response<Body> {
        let (method, short) = request.split_once(' ').unwrap();
        let path = path(short, self.namespace)
            .replace(' ', "%20")
            .replace('!', "%21");
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("user-agent", "conformance/1")
            .header(
                "accept",
                if accept.is_empty() {
                    "application/json"
                } else {
                    accept
                },
            );
        if !bytes.is_empty() {
            let kind = if kind.is_empty() { "application/json" } else { kind };
            request = request.header("content-type", kind);
        }
        self.side
            .client
            .send(request.body(Body::from(bytes)).unwrap())
            .await
            .unwrap()
    }
}

/// The lines of a watch.
struct Lines {
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self {
            body,
            rest: Vec::new(),
        }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend(frame.into_data().unwrap_or_default());
        }
    }
}
