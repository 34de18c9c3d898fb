//! The operations API of a gateway on real planes, and what tenants see of an outage: operations.md §1.3, §2.

use crate::support::{
    Case, annotation, condition, kinds::DEPLOYMENT, lone_trials, seconds, suite::ALPHA_KEY, trials, wait_for,
};
use serde_json::{Value, json};

trials![answers_come_from_memory_and_trace_a_deployment];
lone_trials![an_outage_of_the_hub_is_shown_and_a_start_during_it_waits];

/// Each path answers its document, a trace is whole, the journal has the writes, and no plane is asked for it.
async fn answers_come_from_memory_and_trace_a_deployment(case: Case) {
    let gateway = &case.suite.gateway;
    case.deploy("web", "DFW").await;
    case.project_sees("web", "is delivered", |web| {
        condition(web, "Federated").is_some_and(|condition| condition["status"] == "True")
    })
    .await;
    case.quiet().await;
    let (before, paths) = (
        case.count(),
        [
            "overview", "planes", "projects", "cells", "flows", "stuck", "journal",
        ],
    );
    for path in paths {
        let (code, document) = gateway.operations(path).await.unwrap();
        assert_eq!(code, 200, "{path}: {document}");
        assert_eq!(
            document["apiVersion"], "operations.fedgate.dev/v1",
            "{path}: {document}"
        );
        assert_eq!(document["replica"]["role"], "leader", "{path}: {document}");
    }
    let path = format!("trace/{ALPHA_KEY}/{}/workloaddeployments/web", case.ns);
    let trace = wait_for("the trace shows the copy", seconds(30), || async {
        let (code, trace) = gateway.operations(&path).await?;
        (code == 200 && trace["branches"][0]["hops"][1]["state"] == "ok").then_some(trace)
    })
    .await;
    let hops: Vec<&str> = trace["branches"][0]["hops"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|hop| hop["hop"].as_str())
        .collect();
    assert_eq!(hops[..4], ["project", "hub", "binding", "cell"], "{trace}");
    let journal = trace["journal"].as_array().unwrap();
    let reasons: Vec<&str> = journal.iter().filter_map(|row| row["reason"].as_str()).collect();
    assert!(reasons.contains(&"create_copy"), "{reasons:?}");
    let (code, unknown) = gateway
        .operations(&format!(
            "trace/{ALPHA_KEY}/{}/workloaddeployments/other",
            case.ns
        ))
        .await
        .unwrap();
    assert_eq!((code, &unknown["kind"]), (404, &json!("Error")), "{unknown}");
    let (code, refusal) = gateway.operations("projects?limit=501").await.unwrap();
    assert_eq!((code, &refusal["code"]), (400, &json!("Invalid")), "{refusal}");
    assert_eq!(case.writes(&before), Vec::<String>::new());
    assert_eq!(case.gets(&before), 0, "an answer sends no request to a plane");
}

fn federated(object: &Value) -> String {
    let found = condition(object, "Federated");
    found.map_or_else(String::new, |condition| {
        format!(
            "{} {} {}",
            condition["status"].as_str().unwrap_or_default(),
            condition["reason"].as_str().unwrap_or_default(),
            condition["observedGeneration"]
        )
    })
}

/// A deployment that is edited while the hub is down says so, one at rest does not; a gateway that is started meanwhile
/// lives, answers what it waits for, and goes on by itself.
async fn an_outage_of_the_hub_is_shown_and_a_start_during_it_waits(case: Case) {
    let gateway = &case.suite.gateway;
    for name in ["web", "calm"] {
        case.deploy(name, "DFW").await;
        case.copy(name).await;
    }
    case.quiet().await;
    case.suite.stop_plane("hub").await;
    let scale = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
    let edited = case.merge(&DEPLOYMENT, "web", scale).await;
    let generation = &edited["metadata"]["generation"];
    let waiting = format!("False HubUnreachable {generation}");
    wait_for(
        "the edited deployment says that it waits",
        seconds(90),
        || async {
            let web = case.suite.alpha.get(&DEPLOYMENT, &case.ns, "web").await?;
            (federated(&web) == waiting).then_some(())
        },
    )
    .await;
    let calm = case.suite.alpha.get(&DEPLOYMENT, &case.ns, "calm").await.unwrap();
    assert!(!federated(&calm).contains("HubUnreachable"), "{calm}");
    let (code, overview) = gateway.operations("overview").await.unwrap();
    assert_eq!(
        (code, &overview["health"]["state"]),
        (200, &json!("degraded")),
        "{overview}"
    );
    assert_eq!(overview["health"]["reasons"][0]["plane"], "hub", "{overview}");

    gateway.stop().await;
    gateway.spawn().await;
    let overview = wait_for(
        "the start says that it waits for the hub",
        seconds(60),
        || async {
            let (_, overview) = gateway.operations("overview").await?;
            (overview["health"]["state"] == "degraded").then_some(overview)
        },
    )
    .await;
    assert!(gateway.lives().await);
    assert_eq!(
        (&overview["complete"], &overview["health"]["reasons"][0]["word"]),
        (&json!(false), &json!("awaited"))
    );
    case.suite.start_plane("hub").await;
    gateway.ready().await;
    case.copy_sees("web", "has the edit", |copy| {
        annotation(copy, fedgate_api::keys::SOURCE_GENERATION)
            == generation.as_i64().map(|n| n.to_string()).as_deref()
    })
    .await;
    case.project_sees("web", "goes on", |web| !federated(web).contains("HubUnreachable"))
        .await;
}
