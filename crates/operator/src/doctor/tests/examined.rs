//! Tests of whole runs: each check broken in turn, on planes that answer from a table.

use super::fake::{Fake, of, run};
use crate::doctor::{Check, Role, Subject, Verdict};
use axum::body::Body;
use fedgate_engine::metrics::PlaneKind;
use http::{Method, Request, Response};
use serde_json::json;

#[tokio::test(start_paused = true)]
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
        fedgate_engine::metrics::Metrics::new().unwrap().families.clone(),
    );
    let silence = tower::service_fn(|_: Request<kube::client::Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let silent = Subject {
        role: Role::Project,
        name: "beta".to_owned(),
        client: clients.plane_of(PlaneKind::Project, None, silence),
        expiry: None,
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

#[tokio::test(start_paused = true)]
async fn everything_is_ok_on_planes_where_everything_is_right_and_nothing_is_written() {
    let fake = Fake::asked_by("fedgate-cell-dfw-1");
    let host = fake.clone().with(
        "/apis/apps/v1/deployments",
        200,
        json!({"items": [{"spec": {"template": {"spec": {"containers": [{"image": "karmada:v1.19.0",
            "args": ["--rate-limiter-max-delay=30s", "--skipped-propagating-apis=compute.datumapis.com/v1alpha/Instance"]}]}}}}]}),
    );
    let subjects = [
        fake.subject(Role::Hub, ""),
        fake.subject(Role::Project, "alpha"),
        fake.subject(Role::Cell, "dfw-1"),
        fake.subject(Role::CellHub, "dfw-1"),
        fake.subject(Role::Admin, ""),
        host.subject(Role::KarmadaHost, ""),
    ];
    let report = run(subjects).await;
    let checked: Vec<&str> = Check::ALL
        .iter()
        .filter(|check| !of(&report, **check).is_empty())
        .map(|check| check.as_str())
        .collect();
    // The gateway's replicas are no plane: their checks are tested with replicas that answer (tests/client/doctor.rs). No
    // kind of these planes lives at one member (members.rs).
    let of_others = [Check::Gateway, Check::Cells, Check::Members, Check::Works];
    let of_planes = Check::ALL.iter().filter(|check| !of_others.contains(*check));
    assert_eq!(
        checked,
        of_planes.map(|check| check.as_str()).collect::<Vec<_>>(),
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

#[tokio::test(start_paused = true)]
async fn what_a_project_or_a_cell_lacks_is_told_of_it() {
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
    let stranger = Fake::asked_by("fedgate-cell-lhr-1");
    let report = run([stranger.subject(Role::CellHub, "dfw-1")]).await;
    assert_eq!(of(&report, Check::CellLogin)[0].0, Verdict::Fail);
}
