//! What only the whole run shows, and what takes minutes: it was begun by other tests.

use crate::support::{
    Case, Wish,
    audit::Entry,
    case::name,
    cell::CellRole,
    in_all_worlds,
    kinds::{CLAIM, CONFIG_MAP, DEPLOYMENT, INSTANCE, Kind, NAMESPACE, NETWORK_BINDING, POD, WORKLOAD},
    log_lines,
    plane::Plane,
    rights::{granted, needed},
    seconds,
    suite::{ALPHA, BETA},
    trials, wait_for,
};
use fedgate_api::keys;
use fedgate_kinds::FederatedKind;
use fedgate_manifests::KindManifests;
use serde_json::Value;
use std::collections::BTreeSet;
use tokio::time::{Instant, sleep};

trials![
    w03_a_raised_budget_frees_the_denied,
    w11_a_claim_that_is_free_again_is_taken,
    w25_what_nobody_released_is_released,
    a06_rest_and_a_restart_write_nothing,
    #[core]
    no_request_of_a_cell_was_forbidden,
    no_right_of_a_cell_is_unused,
    #[core]
    nothing_is_left_on_any_plane,
    #[core]
    no_log_line_has_a_key_twice,
];

/// The slow tier and its chance of more.
const SLOW_TIER: u64 = 380;

/// The word that an earlier test has left; a run of chosen tests may do without it.
async fn word(case: &Case, what: &'static str) -> Option<Value> {
    let word = case.suite.was_begun(what).await;
    if word.is_none() {
        eprintln!("    {what} was not begun in this run, so there is nothing to look at");
    }
    word
}

async fn runs(plane: &Plane, word: &Value, name: &str, count: u64) {
    let namespace = word["namespace"].as_str().expect("a word has a namespace");
    let what = "runs, and nobody has touched anything";
    let ready = |w: &Value| w["status"]["readyReplicas"] == count;
    plane
        .sees(&WORKLOAD, namespace, name, what, seconds(SLOW_TIER), ready)
        .await;
}

async fn no_log_line_has_a_key_twice(case: Case) {
    let (faults, lines) = log_lines::faults(&case.suite.dir).expect("the logs can be read");
    assert!(lines > 100, "the logs show gateway and cells at work");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

async fn w03_a_raised_budget_frees_the_denied(case: Case) {
    if let Some(word) = word(&case, "w03").await {
        runs(&case.suite.beta, &word, "web", 2).await;
    }
}

async fn w11_a_claim_that_is_free_again_is_taken(case: Case) {
    if let Some(word) = word(&case, "w11").await {
        runs(&case.suite.alpha, &word, "web", 1).await;
    }
}

async fn w25_what_nobody_released_is_released(case: Case) {
    if let Some(word) = word(&case, "w25").await {
        let text = |key: &str| word[key].as_str().expect("the word says it").to_owned();
        let limit = seconds(SLOW_TIER);
        let (project, hub) = (&case.suite.alpha, &case.hub);
        project
            .gone(&CLAIM, &text("namespace"), &text("claim"), limit)
            .await;
        hub.gone(&INSTANCE, &text("hub"), &text("copy"), limit).await;
        project
            .gone(&INSTANCE, &text("namespace"), &text("copy"), seconds(30))
            .await;
    }
}

/// What is asked for all the time, by design.
const LEASES: &[&str] = &["leases"];

/// True for what a cell at rest may ask. A watch is logged when the server ends it, and opened anew; a kind that the plane
/// does not serve is looked for again, ever more seldom since the cell's start.
fn is_at_rest(entry: &Entry) -> bool {
    entry.verb == "watch"
        || (entry.object_ref.resource.is_empty()
            && entry.request_uri.starts_with("/apis/")
            && entry.response_status.code == 404)
}

/// What a cell asked of any plane since the marks, without these resources.
fn asked(case: &Case, cell: &CellRole, from: &[u64], without: &[&str]) -> Vec<(String, Entry)> {
    let users = cell.users();
    let logs = case.suite.logs();
    let of = logs.iter().zip(from).flat_map(|((plane, log), from)| {
        let entries = log.since(*from, &cell.name);
        entries.into_iter().map(|entry| ((*plane).to_owned(), entry))
    });
    of.filter(|(_, e)| users.contains(&e.user.username) && !without.contains(&e.object_ref.resource.as_str()))
        .collect()
}

fn ends(case: &Case) -> Vec<u64> {
    case.suite.logs().map(|(_, log)| log.mark()).to_vec()
}

/// Waits until no cell has asked for anything for five seconds.
async fn quiet(case: &Case) {
    let (mut from, mut since) = (ends(case), Instant::now());
    let deadline = since + seconds(90);
    while since.elapsed() < seconds(5) {
        sleep(seconds(1)).await;
        let now = ends(case);
        let all: Vec<_> = case
            .suite
            .cells()
            .into_iter()
            .flat_map(|cell| asked(case, cell, &from, LEASES))
            .filter(|(_, e)| !is_at_rest(e))
            .collect();
        if !all.is_empty() {
            since = Instant::now();
        }
        from = now;
        assert!(since < deadline, "the cells do not come to rest: {all:#?}");
    }
}

async fn a06_rest_and_a_restart_write_nothing(case: Case) {
    let wish = Wish::new("web", 3).and_in("eu", "LHR", 2);
    case.run(&wish).await;
    quiet(&case).await;
    let from = ends(&case);
    sleep(seconds(20)).await;
    for cell in case.suite.cells() {
        let mut all = asked(&case, cell, &from, LEASES);
        all.retain(|(_, e)| !is_at_rest(e));
        assert!(all.is_empty(), "{} asks at rest: {all:#?}", cell.name);
    }
    let from = ends(&case);
    for cell in case.suite.cells() {
        cell.restart().await;
    }
    quiet(&case).await;
    for cell in case.suite.cells() {
        let all = asked(&case, cell, &from, LEASES);
        assert!(all.len() > 5, "{} has read its planes anew", cell.name);
        let writes: Vec<_> = all.iter().filter(|(_, e)| e.is_write()).collect();
        assert!(
            writes.is_empty(),
            "the restart of {} writes: {writes:#?}",
            cell.name
        );
    }
    case.runs(&wish).await;
}

/// What the server says of a Pod that `pods::a_pod_that_the_server_refuses_is_told_with_its_words` has it refuse.
const TINY: &str = "maximum cpu usage per Container is 10m";

async fn no_request_of_a_cell_was_forbidden(case: Case) {
    let mut forbidden = Vec::new();
    let mut all = 0;
    for cell in case.suite.cells() {
        for (plane, entry) in asked(&case, cell, &[0; 6], &[]) {
            all += 1;
            let said = &entry.response_status.message;
            // Admission refuses what a test of refusals has it refuse; an authorizer would name the user.
            let allowed = entry.response_status.code != 403
                || said.contains("because it is being terminated")
                || said.contains(TINY)
                || case.suite.outages.had(&plane, &entry.request_received_timestamp);
            if !allowed {
                forbidden.push(format!(
                    "{plane}: {} {}: {said}",
                    entry.action(),
                    entry.object_ref.name
                ));
            }
        }
    }
    assert!(all > 100, "the audit logs show the cells at work");
    forbidden.sort();
    forbidden.dedup();
    assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
}

/// What the cells' roles grant, and no request of the run has needed.
fn unused(case: &Case) -> Vec<String> {
    let mut used = BTreeSet::new();
    for cell in case.suite.cells() {
        for (plane, entry) in asked(case, cell, &[0; 6], &[]) {
            let plane = match plane.as_str() {
                ALPHA | BETA => "project",
                "hub" => "hub",
                _ => "cell",
            };
            if entry.response_status.code != 403 {
                used.extend(needed(plane, &entry));
            }
        }
    }
    let planes = [
        (fedgate_manifests::Plane::Cell, "cell"),
        (fedgate_manifests::Plane::Hub, "hub"),
        (fedgate_manifests::Plane::Project, "project"),
    ];
    let kinds: Vec<KindManifests> = FederatedKind::builtin()
        .expect("the kinds load")
        .iter()
        .map(|kind| KindManifests::of(kind, None))
        .collect();
    let granted = granted(fedgate_manifests::CELL, &planes, &kinds);
    assert!(granted.len() > 20, "the cells have roles: {}", granted.len());
    let left = granted.difference(&used).filter(|right| !right.is_spare());
    left.map(ToString::to_string).collect()
}

async fn no_right_of_a_cell_is_unused(case: Case) {
    // The logs have a watch once it has ended.
    for cell in case.suite.cells() {
        cell.stop().await;
    }
    let mut left = unused(&case);
    for _ in 0..10 {
        if left.is_empty() {
            break;
        }
        sleep(seconds(1)).await;
        left = unused(&case);
    }
    for cell in case.suite.cells() {
        cell.start().await;
    }
    let left = in_all_worlds("cells", left);
    assert!(
        left.is_empty(),
        "granted and never used; take it out of crates/manifests/src/yaml or src/rbac.rs there, or say in support/rights.rs why not: {left:#?}"
    );
}

async fn nothing_is_left_on_any_plane(case: Case) {
    case.suite.keep_no_longer().await;
    case.project.delete(&NAMESPACE, "", &case.ns).await;
    let suite = &case.suite;
    let of_projects: &[&Kind] = &[&WORKLOAD, &DEPLOYMENT, &INSTANCE, &CLAIM];
    let of_hub: &[&Kind] = &[&DEPLOYMENT, &INSTANCE];
    let of_cells: &[&Kind] = &[&DEPLOYMENT, &INSTANCE, &POD, &NETWORK_BINDING];
    let planes = [
        (&suite.alpha, of_projects),
        (&suite.beta, of_projects),
        (&suite.hub, of_hub),
    ];
    let cells = suite.cells().map(|cell| (&cell.plane, of_cells));
    for (plane, kinds) in planes.into_iter().chain(cells) {
        for kind in kinds {
            wait_for(
                &format!("{} has no {}", plane.name, kind.name),
                seconds(150),
                || async { plane.list(kind, "", "").await.is_empty().then_some(()) },
            )
            .await;
        }
    }
    for cell in suite.cells() {
        let all = cell.plane.list(&CONFIG_MAP, "fedgate-system", "").await;
        let records: Vec<&Value> = all
            .iter()
            .filter(|c| {
                name(c).starts_with("fedgate-releases-")
                    && c["data"].as_object().is_some_and(|d| !d.is_empty())
            })
            .collect();
        assert!(records.is_empty(), "{records:#?}");
    }
    wait_for("the hub has no namespace of a project", seconds(150), || async {
        suite
            .hub
            .list(&NAMESPACE, "", keys::PROJECT_UID)
            .await
            .is_empty()
            .then_some(())
    })
    .await;
}
