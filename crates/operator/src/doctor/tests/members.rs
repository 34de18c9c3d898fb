//! Tests of what kinds need whose objects live at one member: the way to each member, the Works, and the names of Clusters.

use super::fake::{Fake, at_one_member, cluster, items, of, refusal, run, run_with};
use crate::doctor::{Check, Report, Role, Subject, Verdict};
use axum::body::Body;
use fedgate_engine::{
    metrics::{Metrics, PlaneKind},
    plane::client::{Clients, Limits},
};
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{convert::Infallible, time::Duration};

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1";
const OWN: [&str; 3] = ["azimuth.stackhpc.com", "clusters", "FEDGATE-DOCTOR"];
/// The checks that only such kinds need.
const CHECKS: [Check; 3] = [Check::Cells, Check::Members, Check::Works];

/// Path of the question to a member.
fn question(member: &str) -> String {
    format!(
        "{CLUSTERS}/{member}/proxy/apis/azimuth.stackhpc.com/v1alpha1/namespaces/default/clusters/FEDGATE-DOCTOR"
    )
}

fn hub_with(clusters: &[Value]) -> Fake {
    Fake::asked_by("fedgate-gateway").with(CLUSTERS, 200, items(&json!(clusters)))
}

async fn report(hub: &Fake) -> Report {
    run_with(&at_one_member(), false, [hub.subject(Role::Hub, "")]).await
}

/// The one line of a check.
fn line(report: &Report, check: Check) -> (Verdict, String) {
    let lines = of(report, check);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    lines.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_answer_but_the_members_own_is_a_fault_with_its_next_step() {
    let of_hub = |reason: &str, code| {
        let message = "clusters.cluster.karmada.io \"lhr-1\" is refused";
        refusal(code, reason, message, ["cluster.karmada.io", "clusters", "lhr-1"])
    };
    let own = |code, reason: &str, message: &str| refusal(code, reason, message, OWN);
    let impersonation = "groups \"o\" is forbidden: User \"i\" cannot impersonate resource \"groups\"";
    for (code, answer, words) in [
        (
            403,
            of_hub("Forbidden", 403),
            [
                "the hub does not let this user get clusters/proxy: lhr-1",
                "apply manifests/hub",
            ],
        ),
        (
            404,
            of_hub("NotFound", 404),
            [
                "the hub does not serve the proxy of these Clusters: lhr-1",
                "kubectl get apiservice",
            ],
        ),
        (
            403,
            own(403, "Forbidden", "no right"),
            [
                "do not let this user get clusters.azimuth.stackhpc.com: lhr-1 (no right (403))",
                "apply manifests/member",
            ],
        ),
        (
            403,
            refusal(403, "Forbidden", impersonation, ["", "groups", "o"]),
            [
                "may not act in the name of this user or its groups: lhr-1",
                "without organization",
            ],
        ),
        (
            500,
            json!("dial tcp 192.0.2.1:6443: connect: connection refused"),
            [
                "do not answer through the hub's proxy: lhr-1 (dial tcp 192.0.2.1",
                "clusters/lhr-1/proxy/readyz",
            ],
        ),
        (
            401,
            own(401, "Unauthorized", "Unauthorized"),
            [
                "no good credential to act in the gateway's name",
                "fedgate cells join --proxy",
            ],
        ),
        (
            404,
            refusal(
                404,
                "NotFound",
                "no secret",
                ["", "secrets", "lhr-1-impersonator"],
            ),
            [
                "no good credential to act in the gateway's name",
                "--report-secrets",
            ],
        ),
        (
            404,
            refusal(404, "NotFound", "another", [OWN[0], OWN[1], "another"]),
            ["an answer that proves nothing: lhr-1", "kubectl get --raw"],
        ),
        (
            200,
            json!({"metadata": {"name": OWN[2]}}),
            ["it has an object", "kubectl get --raw"],
        ),
    ] {
        let hub = hub_with(&[cluster("dfw-1"), cluster("lhr-1")]).with(&question("lhr-1"), code, answer);
        let report = report(&hub).await;
        let (verdict, line) = line(&report, Check::Members);
        assert_eq!(verdict, Verdict::Fail, "{line}");
        assert!(words.iter().all(|part| line.contains(part)), "{line}");
        assert!(!line.contains("dfw-1"), "{line}");
        assert_eq!(report.exit_code(false), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_serve_a_kind_is_an_open_check() {
    let answer = json!(["404 page not found\n"]);
    let hub = hub_with(&[cluster("dfw-1"), cluster("lhr-1")]).with(&question("lhr-1"), 404, answer);
    let report = report(&hub).await;
    let (verdict, line) = line(&report, Check::Members);
    assert_eq!(verdict, Verdict::Open, "{line}");
    for words in [
        "do not serve clusters.azimuth.stackhpc.com/v1alpha1, so that no object of this kind goes there: lhr-1",
        "CustomResourceDefinition",
    ] {
        assert!(line.contains(words), "{line}");
    }
    assert_eq!(report.exit_code(false), 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn members_that_answer_for_themselves_are_right_and_nothing_is_written() {
    let hub = hub_with(&[cluster("dfw-1"), cluster("lhr-1")]);
    let report = report(&hub).await;
    for (check, words) in [
        (
            Check::Members,
            "all 2 members say through the hub's proxy whether an object is gone",
        ),
        (Check::Works, "no Work that is being deleted keeps its object"),
    ] {
        let (verdict, line) = line(&report, check);
        assert_eq!(verdict, Verdict::Ok, "{line}");
        assert!(line.ends_with(words), "{line}");
    }
    assert_eq!(report.exit_code(false), 0, "{report}");
    let requests = hub.requests.lock().clone();
    let writes = |request: &&String| {
        !request.starts_with("GET ") && !request.contains("reviews?") && !request.contains("dryRun=All")
    };
    assert_eq!(requests.iter().find(writes), None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_asked_is_not_and_hides_no_other() {
    let without = |name: &str, field: &str| {
        let mut cluster = cluster(name);
        cluster["spec"].as_object_mut().unwrap().remove(field);
        cluster
    };
    let mut unready = cluster("ams-1");
    unready["status"]["conditions"][0]["status"] = json!("Unknown");
    let hub = hub_with(&[
        unready,
        without("bos-1", "impersonatorSecretRef"),
        cluster("dfw-1"),
        without("fra-1", "apiEndpoint"),
        cluster("lhr-1"),
        cluster("lhr-2"),
    ]);
    let right = refusal(403, "Forbidden", "no right", OWN);
    let hub = hub
        .with(&question("lhr-1"), 403, right.clone())
        .with(&question("lhr-2"), 403, right);
    let report = report(&hub).await;
    let lines = of(&report, Check::Members);
    for (verdict, [text, next]) in [
        (
            Verdict::Open,
            [
                "were not asked whether an object is gone: ams-1;",
                "kubectl describe clusters.cluster.karmada.io ams-1",
            ],
        ),
        (
            Verdict::Fail,
            ["(spec.impersonatorSecretRef): bos-1;", "join them again"],
        ),
        (
            Verdict::Fail,
            ["(spec.apiEndpoint): fra-1;", "--cluster-api-endpoint"],
        ),
        (
            Verdict::Fail,
            [
                "get clusters.azimuth.stackhpc.com: lhr-1, lhr-2 (",
                "apply manifests/member",
            ],
        ),
    ] {
        let is =
            |(had, line): &&(Verdict, String)| *had == verdict && line.contains(text) && line.contains(next);
        assert_eq!(lines.iter().filter(is).count(), 1, "{text}: {lines:#?}");
    }
    assert_eq!(lines.len(), 4, "{lines:#?}");
    let mut asked = hub.requests.lock().clone();
    asked.retain(|request| request.contains("/proxy/"));
    asked.sort();
    let wanted = ["dfw-1", "lhr-1", "lhr-2"].map(|member| format!("GET {}?", question(member)));
    assert_eq!(asked, wanted);
}

#[tokio::test(start_paused = true)]
async fn members_that_stay_silent_cost_8_s_and_hide_no_other() {
    let names: Vec<String> = (0..100).map(|n| format!("cell-{n:03}")).collect();
    let mut clusters: Vec<Value> = names.iter().map(|name| cluster(name)).collect();
    clusters.insert(0, cluster("lhr-1"));
    let hub = hub_with(&clusters).with(&question("lhr-1"), 404, json!(["404 page not found"]));
    let silent = tower::service_fn(move |request: Request<kube::client::Body>| {
        let hub = hub.clone();
        async move {
            if request.uri().path().contains("/clusters/cell-") {
                std::future::pending::<()>().await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Ok::<Response<Body>, Infallible>(hub.answer(&Request::from_parts(parts, body)))
        }
    });
    let clients = Clients::new(Limits::default(), Metrics::new().unwrap().families.clone());
    let subject = Subject {
        client: clients.plane_of(PlaneKind::Hub, None, silent),
        ..Fake::default().subject(Role::Hub, "")
    };
    let began = tokio::time::Instant::now();
    let report = run_with(&at_one_member(), false, [subject]).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let lines = of(&report, Check::Members);
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(
        lines[0].1.contains("do not serve") && lines[0].1.contains(": lhr-1;"),
        "{lines:#?}"
    );
    let silent = &lines[1].1;
    assert!(
        names.iter().all(|name| silent.contains(name.as_str())),
        "{silent}"
    );
    assert!(silent.contains("no answer in time"), "{silent}");
    assert_eq!(of(&report, Check::Reach).len(), 1, "{report}");
}

#[tokio::test(start_paused = true)]
async fn kinds_that_ask_no_member_need_none_of_it() {
    let mut none = cluster("none");
    none["spec"] = json!({});
    let hub = hub_with(&[none]);
    let report = run([hub.subject(Role::Hub, "")]).await;
    assert!(
        CHECKS.iter().all(|check| of(&report, *check).is_empty()),
        "{report}"
    );
    let requests = hub.requests.lock().clone();
    let needless = |request: &&String| request.contains("/proxy/") || request.contains("/works");
    assert_eq!(requests.iter().find(needless), None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_may_not_have_the_name_of_no_cluster() {
    let hub = hub_with(&[cluster("dfw-1"), cluster("none")]);
    let (verdict, text) = line(&report(&hub).await, Check::Cells);
    assert_eq!(verdict, Verdict::Fail);
    assert!(
        text.contains("Cluster none has the name") && !text.contains("dfw-1"),
        "{text}"
    );
    assert!(
        text.contains("fedgate cells leave none --hub-kubeconfig"),
        "{text}"
    );
}

/// A Work at dfw-1 that is being deleted for so many seconds, and whether it preserves its object.
fn work(name: &str, deleted: Option<i64>, preserves: bool) -> Value {
    let at = deleted.map(|ago| jiff::Timestamp::now() - jiff::SignedDuration::from_secs(ago));
    let at = at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    json!({"metadata": {"name": name, "namespace": "karmada-es-dfw-1", "deletionTimestamp": at},
        "spec": {"preserveResourcesOnDeletion": preserves}})
}

#[tokio::test(start_paused = true)]
async fn works_that_do_not_end_and_preserve_are_named_with_the_step_of_an_operator() {
    let lists = |works: &[Value]| {
        let metadata = works.iter().map(|work| json!({"metadata": work["metadata"]}));
        let metadata: Vec<Value> = metadata.collect();
        let at = format!("{WORKS}/namespaces/karmada-es-dfw-1/works");
        let hub = hub_with(&[cluster("dfw-1")]).with(&format!("{WORKS}/works"), 200, items(&json!(metadata)));
        // Whichever Work it is asked for, it answers with the first.
        hub.with(&at, 200, items(&json!(works[..1])))
    };
    let seen = async |works: &[Value]| line(&report(&lists(works)).await, Check::Works);
    for fine in [
        work("kept", None, true),
        // However slow the machine is: its time has not come yet.
        work("fresh", Some(-600), true),
        work("ends", Some(60), false),
    ] {
        let (verdict, text) = seen(std::slice::from_ref(&fine)).await;
        assert_eq!(verdict, Verdict::Ok, "{text}");
    }
    let stuck = [work("lab-1", Some(60), true), work("kept", None, true)];
    let (verdict, text) = seen(&stuck).await;
    assert_eq!(verdict, Verdict::Fail);
    assert!(
        text.contains("hold their Clusters, too: karmada-es-dfw-1/lab-1; "),
        "{text}"
    );
    let step = "kubectl patch works.work.karmada.io lab-1 -n karmada-es-dfw-1 --type=merge -p '{\"metadata\":{\"finalizers\":null}}'";
    assert!(text.ends_with(step), "{text}");
    let hub = lists(&stuck);
    let _ = report(&hub).await;
    let requests = hub.requests.lock().clone();
    let narrow = |request: &&String| {
        request.contains("karmada-es-dfw-1/works?") && request.contains("metadata.name%3Dlab-1")
    };
    assert_eq!(requests.iter().filter(narrow).count(), 1, "{requests:#?}");
    let refused = hub_with(&[cluster("dfw-1")]).with(&format!("{WORKS}/works"), 403, json!("no"));
    let (verdict, text) = line(&report(&refused).await, Check::Works);
    assert_eq!(verdict, Verdict::Fail);
    assert!(
        text.contains("may not list works.work.karmada.io") && text.contains("apply manifests/hub"),
        "{text}"
    );
}
