//! Tests of the start's requirements, and what other tests of this module use.

mod broken;
mod examined;
mod fake;
mod members;

use super::{PreflightError, Role, Subject, preflight};
use axum::body::{Body, Bytes};
use fedgate_api::keys::{CLUSTER_CLAIM_ID, STAND_IN};
use fedgate_engine::{
    metrics::{Metrics, PlaneKind},
    plane::client::{Clients, Connection, Limits, PlaneClient},
};
use fedgate_kinds::FederatedKind;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc};

/// A client of a plane that answers by a function.
fn client(
    kind: PlaneKind,
    answer: impl Fn(&Request<Bytes>) -> Response<Body> + Clone + Send + Sync + 'static,
) -> PlaneClient {
    let clients = Clients::new(Limits::default(), Metrics::new().unwrap().families.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Ok::<_, Infallible>(answer(&Request::from_parts(parts, body)))
        }
    });
    clients.plane_of(kind, None, service)
}

/// The hub, for tests without requests.
pub(super) fn subject() -> Subject {
    Subject {
        role: Role::Hub,
        name: String::new(),
        client: client(PlaneKind::Hub, |_| status(404, "not found")),
        expiry: None,
    }
}

/// A hub as the gateway observes it at its start.
#[derive(Clone, Default)]
struct Hub {
    without: &'static str,
    webhook: bool,
    stand_in: bool,
    policy: bool,
    refuse: Option<(u16, &'static str)>,
}

fn status(code: u16, message: &str) -> Response<Body> {
    let body =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message});
    Response::builder()
        .status(code)
        .body(Body::from(body.to_string()))
        .unwrap()
}

fn list(items: &[Value]) -> Response<Body> {
    Response::new(Body::from(
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}).to_string(),
    ))
}

impl Hub {
    fn answer(&self, request: &Request<kube::client::Body>) -> Response<Body> {
        let path = request.uri().path();
        let marked = json!({"name": "x", "labels": {CLUSTER_CLAIM_ID: "id"}});
        if let (Some((code, message)), true) = (self.refuse, path.contains("clusterpropagationpolicies")) {
            return status(code, message);
        }
        match (request.method(), path.rsplit('/').next().unwrap_or_default()) {
            (&Method::POST, "clusterpropagationpolicies") => {
                assert!(
                    request.uri().query().unwrap_or_default().contains("dryRun=All"),
                    "nothing is ever created"
                );
                let metadata = if self.webhook {
                    marked
                } else {
                    json!({"name": "x"})
                };
                Response::new(Body::from(
                    json!({"apiVersion": "v1", "kind": "X", "metadata": metadata}).to_string(),
                ))
            }
            (_, "clusterpropagationpolicies") if self.policy => list(&[json!({"metadata": marked})]),
            (_, "clusterpropagationpolicies") => list(&[]),
            (_, "clusters") if self.stand_in => {
                list(&[json!({"metadata": {"name": "dfw-1", "annotations": {STAND_IN: "true"}}})])
            }
            (_, "clusters") => list(&[json!({"metadata": {"name": "dfw-1"}})]),
            _ => {
                let all = [
                    "propagationpolicies",
                    "clusterpropagationpolicies",
                    "resourcebindings",
                    "resourceinterpretercustomizations",
                    "clusters",
                    "workloaddeployments",
                    "instances",
                ];
                let served = all.iter().filter(|name| **name != self.without).map(|name| {
                    json!({"name": name, "singularName": "", "namespaced": true, "kind": "X", "verbs": []})
                });
                let resources = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "x/v1",
                    "resources": served.collect::<Vec<_>>()});
                Response::new(Body::from(resources.to_string()))
            }
        }
    }

    async fn check(self) -> Result<(), PreflightError> {
        let hub = Arc::new(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let hub = hub.clone();
            async move { Ok::<_, Infallible>(hub.answer(&request)) }
        });
        let connection = Connection::of_client(kube::Client::new(service, "default"));
        preflight(&connection.current(), &FederatedKind::builtin().unwrap().into()).await
    }
}

async fn text(hub: Hub) -> String {
    hub.check().await.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_hub_with_karmada_or_its_stand_in_passes() {
    let webhook = Hub {
        webhook: true,
        ..Hub::default()
    };
    let in_use = Hub {
        policy: true,
        ..Hub::default()
    };
    let stand_in = Hub {
        stand_in: true,
        ..Hub::default()
    };
    for hub in [webhook, in_use, stand_in] {
        hub.check().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_hub_lacks_is_named_with_the_next_step() {
    let without = text(Hub {
        without: "resourcebindings",
        webhook: true,
        ..Hub::default()
    })
    .await;
    assert!(
        without.contains("resourcebindings.work.karmada.io/v1alpha2 is not served")
            && without.contains("--hub-kubeconfig")
    );
    let ours = text(Hub {
        without: "instances",
        webhook: true,
        ..Hub::default()
    })
    .await;
    assert!(
        ours.contains("instances.compute.datumapis.com/v1alpha is not served; apply manifests/crds"),
        "{ours}"
    );
    let webhook = text(Hub::default()).await;
    assert!(
        webhook.contains("MutatingWebhookConfiguration mutating-config does not act"),
        "{webhook}"
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told_apart_and_what_a_starting_hub_says_is_waited_for() {
    for (refusal, part, may_pass) in [
        ((401, "Unauthorized"), "is refused", false),
        (
            (403, "forbidden: User x"),
            "may not list clusterpropagationpolicies.policy.karmada.io",
            true,
        ),
        (
            (500, "Internal error: failed calling webhook \"a\": refused"),
            "karmada-webhook does not answer",
            true,
        ),
        ((503, "etcd down"), "cannot be reached", true),
    ] {
        let error = Hub {
            refuse: Some(refusal),
            ..Hub::default()
        }
        .check()
        .await
        .unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.may_pass(), may_pass, "{error}");
    }
}
