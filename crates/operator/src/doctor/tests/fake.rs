//! Planes that answer from a table, and runs on them.
//!
//! The tests pause the clock, because the time limit of a run would otherwise end it on a slow machine.

use super::{client, list, status};
use crate::doctor::{Check, Planes, Report, Role, Subject, Verdict, examine};
use axum::body::{Body, Bytes};
use fedgate_api::keys::CLUSTER_CLAIM_ID;
use fedgate_kinds::{FederatedKind, Kinds};
use fedgate_manifests::{KindManifests, Plane};
use http::{Method, Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

/// The hub's objects, because rendering them takes longer than a run.
static OF_THE_HUB: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let kinds: Vec<KindManifests> = Vec::new();
    fedgate_manifests::objects(Plane::Hub, &kinds).unwrap()
});

/// A plane where everything is right, but for the answers that a test gives.
#[derive(Clone, Default)]
pub(super) struct Fake {
    /// Status and body by path, or by verb and path.
    answers: Arc<BTreeMap<String, (u16, Value)>>,
    /// The resource for which every right is denied.
    denied: &'static str,
    /// The name under which it knows who asks.
    user: &'static str,
    /// Requests so far: verb, path and query.
    pub(super) requests: Arc<Mutex<Vec<String>>>,
}

fn with_code(code: u16, text: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(text.to_owned()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
    answer
}

fn body(value: &Value) -> Response<Body> {
    Response::new(Body::from(value.to_string()))
}

/// A Cluster in which everything is right.
pub(super) fn cluster(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"topology.datum.net/city-code": "DFW"}},
        "spec": {"apiEndpoint": "https://a.example", "impersonatorSecretRef": {"name": "a", "namespace": "b"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "apiEnablements": [
            {"groupVersion": "compute.datumapis.com/v1alpha", "resources": [{"kind": "WorkloadDeployment"}]},
            {"groupVersion": "azimuth.stackhpc.com/v1alpha1", "resources": [{"kind": "Cluster"}]}]}})
}

/// The kinds that are federated by default, and one whose objects live at one member and are deleted with its consent.
pub(super) fn at_one_member() -> Kinds {
    Kinds::load(&["clusters.azimuth.stackhpc.com".to_owned()], None).unwrap()
}

/// A refusal in the words of an API server.
pub(super) fn refusal(code: u16, reason: &str, message: &str, [group, kind, name]: [&str; 3]) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message, "details": {"group": group, "kind": kind, "name": name}})
}

/// The member's answer about an object, by the hub's proxy.
fn proxied(path: &str) -> Option<Value> {
    let (_, path) = path.split_once("/proxy/apis/")?;
    let [group, _, "namespaces", _, plural, name] = path.split('/').collect::<Vec<_>>()[..] else {
        return None;
    };
    let message = format!("{plural}.{group} \"{name}\" not found");
    Some(refusal(404, "NotFound", &message, [group, plural, name]))
}

/// The schemas of our kinds as an API server publishes them.
pub(super) fn schemas() -> Value {
    let mut schemas = serde_json::Map::new();
    for crd in fedgate_api::crd::all().unwrap() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        schema["x-kubernetes-group-version-kind"] = json!([{"group": "compute.datumapis.com", "kind": kind}]);
        schemas.insert(format!("com.datumapis.compute.v1alpha.{kind}"), schema);
    }
    json!({"components": {"schemas": schemas}})
}

/// Karmada's schemas; a schema without fields knows all of them.
pub(super) fn karmada(kinds: [&str; 2]) -> Value {
    let spec = json!({"properties": {"spec": {"type": "object"}}});
    let named = kinds.map(|kind| (format!("io.karmada.{kind}"), spec.clone()));
    json!({"components": {"schemas": serde_json::Map::from_iter(named)}})
}

impl Fake {
    /// A plane that denies every right for this resource.
    pub(super) fn denying(resource: &'static str) -> Self {
        Self {
            denied: resource,
            ..Self::default()
        }
    }

    /// A plane that knows who asks by this name.
    pub(super) fn asked_by(user: &'static str) -> Self {
        Self {
            user,
            ..Self::default()
        }
    }

    /// Adds this answer. A refusal is given by its message, by its Status, or in brackets by a text that is none.
    pub(super) fn with(mut self, path: &str, code: u16, answer: Value) -> Self {
        Arc::make_mut(&mut self.answers).insert(path.to_owned(), (code, answer));
        self
    }

    pub(super) fn answer(&self, request: &Request<Bytes>) -> Response<Body> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        self.requests
            .lock()
            .push(format!("{} {path}?{query}", request.method()));
        let verb = format!("{} {path}", request.method());
        if let Some((code, answer)) = self.answers.get(path).or_else(|| self.answers.get(&verb)) {
            return match (code, answer) {
                (200, answer) => body(answer),
                (code, Value::Array(text)) => with_code(*code, text[0].as_str().unwrap_or_default()),
                (code, Value::Object(_)) => with_code(*code, &answer.to_string()),
                (code, answer) => status(*code, answer.as_str().unwrap_or_default()),
            };
        }
        if let Some(refusal) = proxied(path) {
            return with_code(404, &refusal.to_string());
        }
        if let Some(found) = Self::object(path) {
            return body(&found);
        }
        match path.rsplit('/').next().unwrap_or_default() {
            "version" => {
                let now = jiff::Timestamp::now();
                let date = jiff::fmt::rfc2822::DateTimePrinter::new()
                    .timestamp_to_rfc9110_string(&now)
                    .unwrap();
                let mut answer = body(&json!({"gitVersion": "v1.36.3"}));
                answer.headers_mut().insert("date", date.parse().unwrap());
                answer
            }
            "selfsubjectaccessreviews" => self.review(request.body()),
            "selfsubjectreviews" => body(
                &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
                "metadata": {}, "status": {"userInfo": {"username": self.user, "groups": ["fedgate-cells"]}}}),
            ),
            "clusterpropagationpolicies" => {
                let policy = json!({"metadata": {"name": "x", "labels": {CLUSTER_CLAIM_ID: "id"}}});
                if request.method() == Method::POST {
                    body(&policy)
                } else {
                    list(&[policy])
                }
            }
            "clusters" => list(&[cluster("dfw-1")]),
            "works" => list(&[]),
            "resourcebindings" => list(&[json!({"metadata": {"name": "b",
                "labels": {"resourcebinding.karmada.io/depended-by-x": "y"}}})]),
            _ => resources(path),
        }
    }

    /// Answers of a fixed path.
    fn object(path: &str) -> Option<Value> {
        let objects = || OF_THE_HUB.iter().cloned();
        let name = path.rsplit('/').next().unwrap_or_default();
        match path {
            "/openapi/v3/apis/compute.datumapis.com/v1alpha" => Some(schemas()),
            "/openapi/v3/apis/policy.karmada.io/v1alpha1" => {
                Some(karmada(["PropagationPolicy", "ClusterPropagationPolicy"]))
            }
            "/openapi/v3/apis/config.karmada.io/v1alpha1" => {
                Some(karmada(["ResourceInterpreterCustomization", "Other"]))
            }
            _ if path.contains("/customresourcedefinitions/") => {
                objects().find(|o| o["kind"] == "CustomResourceDefinition" && o["metadata"]["name"] == name)
            }
            _ if path.contains("policybindings/") => objects()
                .find(|o| o["kind"] == "ValidatingAdmissionPolicyBinding" && o["metadata"]["name"] == name),
            _ if path.contains("/validatingadmissionpolicies/") => {
                objects().find(|o| o["kind"] == "ValidatingAdmissionPolicy" && o["metadata"]["name"] == name)
            }
            _ => None,
        }
    }

    fn review(&self, asked: &[u8]) -> Response<Body> {
        let asked: Value = serde_json::from_slice(asked).unwrap();
        let resource = &asked["spec"]["resourceAttributes"]["resource"];
        body(
            &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
            "spec": {}, "status": {"allowed": *resource != self.denied}}),
        )
    }

    pub(super) fn subject(&self, role: Role, name: &str) -> Subject {
        let fake = self.clone();
        Subject {
            role,
            name: name.to_owned(),
            client: client(role.kind(), move |request| fake.answer(request)),
            expiry: None,
        }
    }
}

pub(super) fn items(items: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
}

fn resources(path: &str) -> Response<Body> {
    let all = [
        "propagationpolicies",
        "clusterpropagationpolicies",
        "resourcebindings",
        "resourceinterpretercustomizations",
        "clusters",
        "workloads",
        "workloaddeployments",
        "instances",
    ];
    let served = all
        .map(|name| json!({"name": name, "singularName": "", "namespaced": true, "kind": "X", "verbs": []}));
    let version = path.trim_start_matches("/apis/");
    body(
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": served}),
    )
}

pub(super) async fn run(subjects: impl IntoIterator<Item = Subject>) -> Report {
    run_for(false, subjects).await
}

/// The report for a gateway whose tokens the hub reviews, or does not.
pub(super) async fn run_for(reviewed: bool, subjects: impl IntoIterator<Item = Subject>) -> Report {
    let kinds = FederatedKind::builtin().unwrap().into();
    run_with(&kinds, reviewed, subjects).await
}

/// The report with these kinds.
pub(super) async fn run_with(
    kinds: &Kinds,
    reviewed: bool,
    subjects: impl IntoIterator<Item = Subject>,
) -> Report {
    let mut planes = Planes::default();
    for subject in subjects {
        planes.push(subject);
    }
    let reviewed = std::future::ready(reviewed);
    examine(planes, kinds, reviewed).await.unwrap()
}

/// Verdict, plane and text of the findings of a check.
pub(super) fn of(report: &Report, check: Check) -> Vec<(Verdict, String)> {
    let found = report.findings.iter().filter(|finding| finding.check == check);
    found
        .map(|finding| (finding.verdict, finding.to_string()))
        .collect()
}
