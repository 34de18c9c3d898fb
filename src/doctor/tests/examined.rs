//! Tests of whole runs: each check broken in turn, on planes that answer from a table.

use super::{client, list, status};
use crate::doctor::{Check, Planes, Report, Role, Subject, Verdict, examine, project_uid::Platform};
use axum::body::{Body, Bytes};
use fedgate_api::keys::{self, CLUSTER_CLAIM_ID};
use fedgate_engine::metrics::PlaneKind;
use fedgate_kinds::FederatedKind;
use fedgate_manifests::{KindManifests, Plane};
use http::{Method, Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// A plane where everything is right, but for the answers that a test gives.
#[derive(Clone, Default)]
pub(super) struct Fake {
    /// Status and body by path, or by verb and path.
    answers: Arc<BTreeMap<String, (u16, Value)>>,
    /// The resource for which every right is denied.
    denied: &'static str,
    user: &'static str,
    requests: Arc<Mutex<Vec<String>>>,
}

fn body(value: &Value) -> Response<Body> {
    Response::new(Body::from(value.to_string()))
}

fn cluster() -> Value {
    json!({"metadata": {"name": "dfw-1", "labels": {"topology.datum.net/city-code": "DFW"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "apiEnablements": [{
            "groupVersion": "compute.datumapis.com/v1alpha", "resources": [{"kind": "WorkloadDeployment"}]}]}})
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

    pub(super) fn with(mut self, path: &str, code: u16, answer: Value) -> Self {
        Arc::make_mut(&mut self.answers).insert(path.to_owned(), (code, answer));
        self
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<Body> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        self.requests
            .lock()
            .push(format!("{} {path}?{query}", request.method()));
        let verb = format!("{} {path}", request.method());
        if let Some((code, answer)) = self.answers.get(path).or_else(|| self.answers.get(&verb)) {
            return match code {
                200 => body(answer),
                code => status(*code, answer.as_str().unwrap_or_default()),
            };
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
            "kube-system" => body(&json!({"metadata": {"name": "kube-system", "uid": "p1"}})),
            "namespaces" => list(&[json!({"metadata": {"name": "kube-system", "uid": "h1"}})]),
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
            "clusters" => list(&[cluster()]),
            "resourceinterpretercustomizations" => {
                let kinds = FederatedKind::builtin().unwrap();
                list(
                    &kinds
                        .iter()
                        .map(FederatedKind::interpreter_object)
                        .collect::<Vec<_>>(),
                )
            }
            "resourcebindings" => list(&[json!({"metadata": {"name": "b",
                "labels": {"resourcebinding.karmada.io/depended-by-x": "y"}}})]),
            "resourceclaims" => list(&[json!({"metadata": {"name": "c", "namespace": "default",
                "labels": {"compute.datumapis.com/source-cluster": "dfw-1"}}})]),
            "instances" => list(&[json!({"metadata": {"name": "web-0", "namespace": "ns-a"}})]),
            "workloaddeployments" => list(&[json!({"metadata": {"name": "web", "namespace": "ns-a"}})]),
            _ => resources(path),
        }
    }

    /// Answers of a fixed path.
    fn object(path: &str) -> Option<Value> {
        let objects = || {
            let kinds: Vec<KindManifests> = Vec::new();
            fedgate_manifests::objects(Plane::Hub, &kinds)
                .unwrap()
                .into_iter()
        };
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
        let kind = match role {
            Role::Project => PlaneKind::Project,
            Role::Cell | Role::KarmadaHost => PlaneKind::Cell,
            Role::Hub | Role::CellHub | Role::Admin => PlaneKind::Hub,
        };
        let fake = self.clone();
        Subject {
            role,
            name: name.to_owned(),
            client: client(kind, move |request| fake.answer(request)),
            expiry: None,
            platform: None,
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

/// The same for a gateway whose tokens the hub reviews, or does not.
pub(super) async fn run_for(reviewed: bool, subjects: impl IntoIterator<Item = Subject>) -> Report {
    let mut planes = Planes::default();
    for subject in subjects {
        planes.push(subject);
    }
    let kinds = FederatedKind::builtin().unwrap().into();
    let reviewed = std::future::ready(reviewed);
    examine(planes, &kinds, reviewed).await.unwrap()
}

/// Verdict, plane and text of the findings of a check.
pub(super) fn of(report: &Report, check: Check) -> Vec<(Verdict, String)> {
    let found = report.findings.iter().filter(|finding| finding.check == check);
    found
        .map(|finding| (finding.verdict, finding.to_string()))
        .collect()
}

#[tokio::test]
async fn a_project_that_is_down_is_named_and_the_hubs_lines_are_complete() {
    let hub = Fake::default();
    let alone = run([hub.subject(Role::Hub, "")]).await;
    let down = Fake::default().with("/version", 503, json!("etcd down"));
    let report = run([hub.subject(Role::Hub, ""), down.subject(Role::Project, "alpha")]).await;
    let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    let (project, others): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.contains("project alpha"));
    assert_eq!(others.len(), alone.findings.len());
    assert_eq!(project.len(), 1, "{project:?}");
    assert!(
        project[0].starts_with("FAIL project alpha reach: the API server cannot be reached"),
        "{project:?}"
    );
    assert!(!project[0].contains("hub"), "{project:?}");
    assert!(project[0].contains("--project-kubeconfig"), "{project:?}");
    assert_eq!(
        (alone.exit_code(false), report.exit_code(false)),
        (0, 3),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plane_that_stays_silent_costs_20_s_and_no_line_of_another() {
    let clients = fedgate_engine::plane::client::Clients::new(
        fedgate_engine::plane::client::Limits::default(),
        fedgate_engine::metrics::Metrics::new().unwrap().client.clone(),
    );
    let silence = tower::service_fn(|_: Request<kube::client::Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let silent = Subject {
        role: Role::Project,
        name: "beta".to_owned(),
        client: clients.plane_of(PlaneKind::Project, silence),
        expiry: None,
        platform: None,
    };
    let began = tokio::time::Instant::now();
    let report = run([Fake::default().subject(Role::Hub, ""), silent]).await;
    assert!(began.elapsed() <= std::time::Duration::from_secs(20));
    assert_eq!(report.exit_code(false), 3);
    let reach = of(&report, Check::Reach);
    assert_eq!(
        (reach.len(), reach[0].0, reach[1].0),
        (2, Verdict::Ok, Verdict::Fail),
        "{reach:?}"
    );
    assert!(
        reach[1].1.contains("project beta") && !reach[1].1.contains("hub"),
        "{reach:?}"
    );
}

#[tokio::test]
async fn everything_is_ok_on_planes_where_everything_is_right_and_nothing_is_written() {
    let fake = Fake {
        user: "fedgate-cell-dfw-1",
        ..Fake::default()
    };
    let host = fake.clone().with(
        "/apis/apps/v1/deployments",
        200,
        json!({"items": [{"spec": {"template": {"spec": {"containers": [{"image": "karmada:v1.19.0",
            "args": ["--skipped-propagating-apis=compute.datumapis.com/v1alpha/Instance"]}]}}}}]}),
    );
    let report = run([
        fake.subject(Role::Hub, ""),
        fake.subject(Role::Project, "alpha"),
        fake.subject(Role::Cell, "dfw-1"),
        fake.subject(Role::CellHub, "dfw-1"),
        fake.subject(Role::Admin, ""),
        host.subject(Role::KarmadaHost, ""),
    ])
    .await;
    let checked: Vec<&str> = Check::ALL
        .iter()
        .filter(|check| !of(&report, **check).is_empty())
        .map(|check| check.name())
        .collect();
    // The gateway's replicas are no plane: their check is tested with replicas that answer (tests/client/doctor.rs). These
    // planes are of no platform.
    let of_others = [Check::Gateway, Check::HubProjects];
    let of_planes = Check::ALL.iter().filter(|check| !of_others.contains(*check));
    assert_eq!(
        checked,
        of_planes.map(|check| check.name()).collect::<Vec<_>>(),
        "{report}"
    );
    // The reviews of the fake allow everything, which is more than is needed.
    let open = |finding: &&crate::doctor::Finding| {
        finding.verdict != Verdict::Ok && finding.check != Check::Permissions
    };
    let open: Vec<String> = report
        .findings
        .iter()
        .filter(open)
        .map(ToString::to_string)
        .collect();
    assert!(open.is_empty(), "{open:#?}");
    assert_eq!((report.exit_code(false), report.exit_code(true)), (0, 1));
    for request in fake.requests.lock().iter() {
        let harmless = request.starts_with(Method::GET.as_str())
            || request.contains("reviews?")
            || request.contains("dryRun=All");
        assert!(harmless, "{request} writes");
    }

    let json = report.json();
    assert_eq!(json["apiVersion"], "doctor.fedgate.dev/v1");
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.len(), report.findings.len());
    for finding in findings {
        let keys: Vec<_> = finding.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 5, "{finding}");
        assert!(["ok", "open", "fail"].contains(&finding["verdict"].as_str().unwrap()));
    }
    let counts: u64 = ["ok", "open", "fail"]
        .iter()
        .map(|word| json["counts"][word].as_u64().unwrap())
        .sum();
    assert_eq!(counts, findings.len() as u64);
}

#[tokio::test]
async fn what_a_project_or_a_cell_lacks_is_told_of_it() {
    let lost = items(&json!([{"metadata": {"name": "c", "namespace": "default",
        "labels": {"compute.datumapis.com/source-cluster": "lhr-1"}}}]));
    let claims = "/apis/quota.miloapis.com/v1alpha1/resourceclaims";
    for (path, code, answer, check, verdict) in [
        (
            "/apis/compute.datumapis.com/v1alpha",
            404,
            json!("no"),
            Check::Kinds,
            Verdict::Fail,
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            500,
            json!("broken"),
            Check::Permissions,
            Verdict::Fail,
        ),
        (
            "/api/v1/namespaces/kube-system",
            404,
            json!("no"),
            Check::ProjectUid,
            Verdict::Fail,
        ),
        (claims, 200, lost, Check::Claims, Verdict::Open),
        (claims, 403, json!("forbidden"), Check::Claims, Verdict::Open),
    ] {
        let broken = Fake::default().with(path, code, answer);
        let hub = Fake::default().subject(Role::Hub, "");
        let report = run([hub, broken.subject(Role::Project, "alpha")]).await;
        let of_project = of(&report, check)
            .into_iter()
            .find(|(_, line)| line[5..].starts_with("project alpha "));
        let (had, line) = of_project.unwrap();
        assert_eq!(had, verdict, "{line}");
        assert!(!line.contains("hub"), "{line}");
    }
    let denied = Fake::denying("workloaddeployments");
    let report = run([denied.subject(Role::Cell, "dfw-1")]).await;
    let rights = of(&report, Check::Permissions);
    assert!(
        rights[0]
            .1
            .starts_with("FAIL cell dfw-1 rights: rights are missing: "),
        "{rights:?}"
    );
    let stranger = Fake {
        user: "fedgate-cell-lhr-1",
        ..Fake::default()
    };
    let report = run([stranger.subject(Role::CellHub, "dfw-1")]).await;
    assert_eq!(of(&report, Check::CellLogin)[0].0, Verdict::Fail);
}

#[tokio::test]
async fn the_project_of_a_platform_is_its_object_and_not_its_path() {
    let project = |metadata: Value, ready: &str| {
        json!({"apiVersion": "resourcemanager.miloapis.com/v1alpha1", "kind": "Project", "metadata": metadata,
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    };
    let present = || json!({"name": "shop", "uid": "u"});
    let leaving = json!({"name": "shop", "uid": "u", "deletionTimestamp": "2026-05-04T10:00:00Z"});
    for (code, answer, verdict, words) in [
        (
            200,
            project(present(), "True"),
            Verdict::Ok,
            "Project shop identifies it",
        ),
        (200, project(present(), "False"), Verdict::Open, "is not Ready"),
        (200, project(leaving, "True"), Verdict::Fail, "is being deleted"),
        (404, json!("no"), Verdict::Fail, "there is no Project shop"),
        (403, json!("no"), Verdict::Open, "may not get Project shop"),
        (500, json!("no"), Verdict::Fail, "cannot be reached"),
    ] {
        // Such a project has no namespace kube-system.
        let plane = Fake::default().with("/api/v1/namespaces/kube-system", 404, json!("no"));
        let path = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/shop";
        let platform = Fake::default().with(path, code, answer);
        let mut subject = plane.subject(Role::Project, "shop");
        subject.platform = Some(Platform {
            client: platform.subject(Role::Project, "shop").client,
            project: "shop".to_owned(),
        });
        let report = run([subject]).await;
        let (had, line) = of(&report, Check::ProjectUid).remove(0);
        assert_eq!(had, verdict, "{line}");
        assert!(line.contains(words), "{line}");
    }
}

#[tokio::test]
async fn a_project_of_another_hub_and_a_hub_of_another_platform_are_told() {
    let namespace = |name: &str, uid: &str, labels: Value| json!({"metadata": {"name": name, "uid": uid, "labels": labels}});
    let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-bank", keys::PROJECT_UID: "p9"});
    let namespaces = [
        namespace("kube-system", "h1", json!({})),
        namespace("ns-1", "n1", labels),
    ];
    let hub = Fake::default().with("/api/v1/namespaces", 200, items(&json!(namespaces)));
    let deployments = "/apis/compute.datumapis.com/v1alpha/workloaddeployments";
    let named =
        json!([{"metadata": {"name": "web", "namespace": "default", "annotations": {keys::HUB: "h2"}}}]);
    let project = Fake::default().with(deployments, 200, items(&named));
    let projects = "/apis/resourcemanager.miloapis.com/v1alpha1/projects";
    for (code, answer, verdict, words) in [
        (
            200,
            items(&json!([{"metadata": {"name": "shop", "uid": "p1"}}])),
            Verdict::Fail,
            "1 of the 1 projects",
        ),
        (
            200,
            items(&json!([{"metadata": {"name": "bank", "uid": "p9"}}])),
            Verdict::Ok,
            "all 1 projects",
        ),
        (403, json!("no"), Verdict::Open, "may not list Projects"),
    ] {
        let platform = Fake::default().with(projects, code, answer);
        let mut subject = project.subject(Role::Project, "shop");
        subject.platform = Some(Platform {
            client: platform.subject(Role::Project, "shop").client,
            project: "shop".to_owned(),
        });
        let report = run([hub.subject(Role::Hub, ""), subject]).await;
        let (had, line) = of(&report, Check::HubProjects).remove(0);
        assert_eq!(had, verdict, "{line}");
        assert!(line.contains(words), "{line}");
        let (had, line) = of(&report, Check::ProjectHub).remove(0);
        assert_eq!(had, Verdict::Fail, "{line}");
        assert!(
            line.contains("1 name hub h2 (default/web)") && line.contains("h1"),
            "{line}"
        );
    }
    let alone = run([project.subject(Role::Project, "shop")]).await;
    let (had, line) = of(&alone, Check::ProjectHub).remove(0);
    assert_eq!(had, Verdict::Open, "{line}");
}
