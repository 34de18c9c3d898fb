//! A gate before the gateway's writes: an admission webhook that lets a number of them through and holds the next, so
//! that a crash falls between two requests wherever the test wants it.
//!
//! A server that finds the object changed meanwhile carries out the same request anew, and asks for admission anew:
//! what has been let through is let through again and counts once.

use super::{
    audit::GATEWAY,
    kinds::{CONFIG_MAP, WEBHOOK},
    plane::{Plane, seconds, wait_for},
    tls,
};
use axum::{Json, Router, extract::State, routing::post, serve::Listener};
use fedgate_engine::diff::merge_patch;
use serde_json::{Value, json};
use std::{collections::HashSet, net::SocketAddr, sync::Arc};
use tokio::{sync::watch, task::JoinHandle};

/// Nobody may create this: the refusal shows that the gate is in use.
const PROBE: &str = "gate-probe";

/// How many writes may still pass (any number if `None`), which have passed, and how many wait.
#[derive(Default)]
struct Passage {
    left: Option<usize>,
    passed: HashSet<String>,
    held: usize,
}

/// What a request asks for, whatever else has changed the object meanwhile.
fn asked(request: &Value) -> String {
    let without_bookkeeping = |object: &Value| {
        let mut object = object.clone();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in [
                "managedFields",
                "resourceVersion",
                "generation",
                "uid",
                "creationTimestamp",
            ] {
                meta.remove(field);
            }
        }
        object
    };
    let old = without_bookkeeping(&request["oldObject"]);
    let change = match request["operation"].as_str() {
        Some("DELETE") => None,
        _ => merge_patch(&old, &without_bookkeeping(&request["object"])),
    };
    json!([
        request["namespace"],
        request["resource"],
        request["name"],
        request["operation"],
        change
    ])
    .to_string()
}

struct Inside {
    /// Writes in other namespaces pass.
    namespaces: Vec<String>,
    passage: watch::Sender<Passage>,
}

impl Inside {
    /// Whether the write may be carried out; one that is held is answered, with no, when the gate opens.
    async fn admits(&self, request: &Value) -> bool {
        if request["name"] == PROBE {
            return false;
        }
        if !self.namespaces.iter().any(|ns| request["namespace"] == **ns) {
            return true;
        }
        let asked = asked(request);
        let mut held = false;
        self.passage.send_modify(|passage| match &mut passage.left {
            None => {}
            Some(_) if passage.passed.contains(&asked) => {}
            Some(0) => {
                passage.held += 1;
                held = true;
            }
            Some(left) => {
                *left -= 1;
                passage.passed.insert(asked);
            }
        });
        if held {
            let mut passage = self.passage.subscribe();
            let _ = passage.wait_for(|passage| passage.left.is_none()).await;
        }
        !held
    }
}

async fn review(State(inside): State<Arc<Inside>>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let allowed = inside.admits(request).await;
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": allowed},
    }))
}

/// See the module. It ends with [`Gate::remove`]; should a test fail before, the API servers pass over a gate that does
/// not answer.
pub(crate) struct Gate {
    name: String,
    planes: Vec<Plane>,
    inside: Arc<Inside>,
    server: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Gate {
    /// An open gate for the gateway's writes in these namespaces, each on its plane.
    pub(crate) async fn new(before: &[(&Plane, &str)]) -> Gate {
        let (listener, ca) = tls::listen().await;
        let address = listener.local_addr().expect("the gate has an address");
        let inside = Arc::new(Inside {
            namespaces: before.iter().map(|(_, ns)| (*ns).to_owned()).collect(),
            passage: watch::Sender::default(),
        });
        let router = Router::new()
            .route("/", post(review))
            .with_state(Arc::clone(&inside));
        let server = tokio::spawn(async move {
            let served = axum::serve(listener, router).await;
            served.expect("the gate serves until it is dropped");
        });
        let gate = Gate {
            name: format!("gate-{}", super::case::unique()),
            planes: before.iter().map(|(plane, _)| (*plane).clone()).collect(),
            inside,
            server,
        };
        let ca = k8s_openapi::ByteString(ca.into_bytes());
        for (plane, ns) in before {
            plane
                .create(&WEBHOOK, "", gate.configuration(address, &json!(ca)))
                .await;
            wait_for("the gate is in use", seconds(20), || async {
                let probe = json!({"metadata": {"name": PROBE}});
                let refused = plane.try_create(&CONFIG_MAP, ns, probe).await.is_err();
                plane.delete(&CONFIG_MAP, ns, PROBE).await;
                refused.then_some(())
            })
            .await;
        }
        gate
    }

    fn configuration(&self, address: SocketAddr, ca: &Value) -> Value {
        json!({
            "metadata": {"name": self.name},
            "webhooks": [{
                "name": "gate.fedgate.dev",
                "clientConfig": {"url": format!("https://{address}/"), "caBundle": ca},
                "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"]}],
                "matchConditions": [
                    {"name": "who", "expression": format!(
                        "request.userInfo.username == '{GATEWAY}' || request.name == '{PROBE}' && request.operation == 'CREATE'")},
                    {"name": "what", "expression": "!(request.resource.resource in ['events', 'leases'])"},
                ],
                "failurePolicy": "Ignore", "timeoutSeconds": 20, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }],
        })
    }

    /// Lets this many writes through from now on, and holds those that follow.
    pub(crate) fn admit(&self, writes: usize) {
        self.inside.passage.send_replace(Passage {
            left: Some(writes),
            ..Passage::default()
        });
    }

    /// Waits until a write is held.
    pub(crate) async fn holds(&self) {
        let mut passage = self.inside.passage.subscribe();
        let held = passage.wait_for(|passage| passage.held > 0).await;
        held.map(drop).expect("the gate has its end of the channel");
    }

    /// Refuses what is held and lets everything else through.
    pub(crate) fn open(&self) {
        self.inside.passage.send_replace(Passage::default());
    }

    /// Takes the gate away.
    pub(crate) async fn remove(self) {
        for plane in &self.planes {
            plane.delete(&WEBHOOK, "", &self.name).await;
        }
    }
}
