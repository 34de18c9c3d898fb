//! Hub or projects away from a cell: what runs goes on, what is local happens, and the rest follows when they are back.

use crate::support::{
    Case, Wish,
    case::{is_true, name},
    kinds::{CLAIM, CONFIG_MAP, DEPLOYMENT, INSTANCE, POD},
    lone_trials, message, says, seconds, uid, wait_for, with_cleanup,
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

lone_trials![
    w01_a_project_away_leaves_what_runs_alone,
    w02_quota_away_is_told_through_the_hub,
    w07_a_minute_without_hub_and_projects,
];

async fn w01_a_project_away_leaves_what_runs_alone(case: Case) {
    let wish = Wish::new("web", 2).parallel();
    case.run(&wish).await;
    let dfw = case.dfw();
    let before = case.at(dfw, &INSTANCE).await;
    let (mark, log) = (case.mark(), dfw.log_mark());
    for line in &dfw.quota {
        line.cut();
    }
    let body = async {
        wait_for("the cell notices", seconds(30), || async {
            let lines = dfw.log_since(log);
            lines
                .iter()
                .any(|line| line.contains("project alpha"))
                .then_some(())
        })
        .await;
        let version = before[0]["metadata"]["resourceVersion"].clone();
        dfw.plane
            .holds(
                &INSTANCE,
                &case.hub_ns,
                name(&before[0]),
                "is not written",
                seconds(15),
                |i| i.is_some_and(|i| i["metadata"]["resourceVersion"] == version),
            )
            .await;
        for instance in case.at(dfw, &INSTANCE).await {
            for kind in ["QuotaGranted", "Programmed", "Available", "Ready"] {
                assert!(is_true(&instance, kind), "{instance}");
            }
        }
        assert_eq!(case.writes_of(dfw, &mark), Vec::<String>::new());
    };
    with_cleanup(body, async { dfw.restore() }).await;
    case.runs(&wish).await;
}

async fn w02_quota_away_is_told_through_the_hub(case: Case) {
    let dfw = case.dfw();
    for line in &dfw.quota {
        line.cut();
    }
    let wish = Wish::new("web", 1);
    let body = async {
        case.create(&wish).await;
        case.project_says(
            &INSTANCE,
            "web-us-dfw-0",
            ["QuotaGranted", "False", "QuotaBackendUnavailable"],
        )
        .await;
        assert!(case.at(dfw, &POD).await.is_empty());
    };
    with_cleanup(body, async { dfw.restore() }).await;
    case.runs(&wish).await;
}

/// The records of what is still to be released elsewhere.
async fn records(case: &Case) -> usize {
    let all = case.dfw().plane.list(&CONFIG_MAP, "fedgate-system", "").await;
    let records = all.iter().filter(|c| name(c).starts_with("fedgate-releases-"));
    records
        .filter_map(|c| c["data"].as_object().map(serde_json::Map::len))
        .sum()
}

async fn w07_a_minute_without_hub_and_projects(case: Case) {
    let wish = Wish::new("web", 5).parallel();
    case.run(&wish).await;
    let dfw = case.dfw();
    let first = case.at(dfw, &INSTANCE).await;
    let (cut, minute) = (Instant::now(), seconds(60));
    dfw.cut_off();
    let mut two = wish.clone().image("shop/web:2");
    two.places[0].2 = 2;
    let body = async {
        // Karmada delivers it all the same: it is the cell's own ways that are cut.
        case.update(&two).await;
        for ordinal in 2..5 {
            let gone = format!("web-us-dfw-{ordinal}");
            dfw.plane.gone(&INSTANCE, &case.hub_ns, &gone, seconds(40)).await;
            dfw.plane.gone(&POD, &case.hub_ns, &gone, seconds(10)).await;
        }
        let held = case
            .cell_says(
                &DEPLOYMENT,
                "web-us-dfw",
                ["ReplicasReady", "False", "QuotaBackendUnavailable"],
            )
            .await;
        let message = message(&held, "ReplicasReady");
        assert!(
            message.contains("web-us-dfw-1"),
            "what is held is named: {message}"
        );
        assert_eq!(
            case.hub.list(&INSTANCE, &case.hub_ns, "").await.len(),
            5,
            "the hub does not know yet"
        );
        assert!(
            records(&case).await >= 3,
            "what is to be released elsewhere is written down"
        );
        sleep_until(cut + minute).await;
        let now = case.at(dfw, &INSTANCE).await;
        let same: Vec<(&str, bool)> = now.iter().map(|i| (uid(i), is_true(i, "Ready"))).collect();
        assert_eq!(
            same,
            [(uid(&first[0]), true), (uid(&first[1]), true)],
            "what runs goes on"
        );
    };
    with_cleanup(body, async { dfw.restore() }).await;
    case.runs(&two).await;
    wait_for("all releases are done", seconds(60), || async {
        let claims = case.project.list(&CLAIM, &case.ns, "").await;
        let copies = case.hub.list(&INSTANCE, &case.hub_ns, "").await;
        (claims.len() == 2 && copies.len() == 2 && records(&case).await == 0).then_some(())
    })
    .await;
    let says_so = |d: &Value| says(d, ["ReplicasReady", "True", "ReplicasAvailable"]);
    case.sees(&DEPLOYMENT, "web-us-dfw", "has all replicas", says_so)
        .await;
    assert_eq!(case.at(dfw, &POD).await.len(), 2);
}
