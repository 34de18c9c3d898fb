//! A plane that takes its time for the gateway's writes of a kind, as one that is overloaded: an admission webhook that
//! admits each of them late.

use crate::support::{
    audit::GATEWAY,
    kinds::{CONFIG_MAP, Kind, WEBHOOK},
    plane::Plane,
    seconds, tls, wait_for,
};
use axum::{Json, Router, extract::State, routing::post, serve::Listener};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

const NAME: &str = "fedgate-runbooks-slow";
/// Nobody may create this: the refusal shows that the webhook is in use.
const PROBE: &str = "slow-probe";

/// See the module.
pub(super) struct Slow {
    plane: Plane,
    server: JoinHandle<()>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn review(State(delay): State<Duration>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let admitted = request["name"] != PROBE;
    if admitted {
        tokio::time::sleep(delay).await;
    }
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": admitted},
    }))
}

impl Slow {
    /// From now on each of these writes in the namespace takes this long. A server that finds the object changed meanwhile
    /// asks for admission anew.
    pub(super) async fn before(plane: &Plane, kind: &Kind, namespace: &str, delay: Duration) -> Self {
        let (listener, authority) = tls::listen().await;
        let address = listener.local_addr().expect("it has an address");
        let router = Router::new().route("/", post(review)).with_state(delay);
        let server = tokio::spawn(async move {
            let served = axum::serve(listener, router).await;
            served.expect("it serves until it is dropped");
        });
        let rule = |resource: &str, verbs: Value| {
            let resources = [resource.to_owned(), format!("{resource}/status")];
            json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": verbs})
        };
        let condition = format!("request.userInfo.username == '{GATEWAY}' || request.name == '{PROBE}'");
        let webhook = json!({
            "metadata": {"name": NAME},
            "webhooks": [{
                "name": "slow.fedgate.dev",
                "clientConfig": {"url": format!("https://{address}/"), "caBundle": ByteString(authority.into_bytes())},
                "rules": [rule(kind.plural, json!(["CREATE", "UPDATE"])), rule(CONFIG_MAP.plural, json!(["CREATE"]))],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "matchConditions": [{"name": "who", "expression": condition}],
                "failurePolicy": "Ignore", "timeoutSeconds": 30, "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        });
        plane.create(&WEBHOOK, "", webhook).await;
        wait_for("the webhook is in use", seconds(20), || async {
            let probe = json!({"metadata": {"name": PROBE}});
            let refused = plane.try_create(&CONFIG_MAP, namespace, probe).await.is_err();
            plane.delete(&CONFIG_MAP, namespace, PROBE).await;
            refused.then_some(())
        })
        .await;
        Self {
            plane: plane.clone(),
            server,
        }
    }

    pub(super) async fn end(self) {
        self.plane.delete(&WEBHOOK, "", NAME).await;
    }
}
