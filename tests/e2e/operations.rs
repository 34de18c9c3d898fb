//! The operations API of a gateway on real planes: operations.md §2.

use crate::support::{
    Case, condition, kinds::DEPLOYMENT, lone_trials, seconds, suite::ALPHA_KEY, trials, wait_for,
    with_cleanup,
};
use serde_json::json;

trials![
    #[core]
    answers_come_from_memory_and_trace_a_deployment,
];
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

/// A gateway shows an outage of the hub with the edit that waits for it; one that is started meanwhile lives, answers with
/// the cause, and goes on by itself. Its Lease is on the hub, so that nothing is written to any plane during the outage.
async fn an_outage_of_the_hub_is_shown_and_a_start_during_it_waits(case: Case) {
    let gateway = &case.suite.gateway;
    for name in ["web", "calm"] {
        case.deploy(name, "DFW").await;
        case.copy(name).await;
    }
    case.quiet().await;
    case.suite.stop_plane("hub").await;
    let outage = async {
        let scale = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
        case.merge(&DEPLOYMENT, "web", scale).await;
        let overview = wait_for("the outage is shown", seconds(90), || async {
            let (_, overview) = gateway.operations("overview").await?;
            (overview["health"]["state"] == "degraded").then_some(overview)
        })
        .await;
        assert_eq!(overview["health"]["reasons"][0]["plane"], "hub", "{overview}");
        let waiting = &overview["undelivered"]["project_to_hub"]["count"];
        assert!(waiting.as_u64() >= Some(1), "{overview}");
        let path = format!("trace/{ALPHA_KEY}/{}/workloaddeployments/web", case.ns);
        let (code, trace) = gateway.operations(&path).await.unwrap();
        assert_eq!(
            (code, &trace["branches"][0]["hops"][1]["hop"]),
            (200, &json!("hub")),
            "{trace}"
        );
        assert_ne!(trace["branches"][0]["hops"][1]["state"], "ok", "{trace}");
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
        let word = &overview["health"]["reasons"][0]["word"];
        assert_eq!((&overview["complete"], word), (&json!(false), &json!("awaited")));
    };
    with_cleanup(outage, case.suite.start_plane("hub")).await;
    gateway.ready().await;
    case.copy_sees("web", "has the edit", |copy| {
        copy["spec"]["scaleSettings"]["minReplicas"] == 2
    })
    .await;
    case.condition("web", "Federated", "True", "Delivered").await;
}
