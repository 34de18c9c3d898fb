//! Kills at random moments, restarts, and what a life costs.

use crate::support::{
    Case, Wish,
    case::name,
    kinds::{CLAIM, INSTANCE, POD},
    lone_trials, seconds, wait_for,
};
use fedgate_api::keys;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    time::Duration,
};
use tokio::time::sleep;

lone_trials![
    requests_of_a_life_are_within_the_budget,
    a10_gateway_and_cell_are_killed_at_random_moments,
    w22_the_count_of_attempts_survives_a_kill,
];

/// Requests of a cell for one Instance's life: created, Ready, gone. docs/performance.md names them; two are the
/// `NetworkPolicy`'s.
const BUDGET: usize = 32;
const KILLS: usize = 15;

async fn requests_of_a_life_are_within_the_budget(case: Case) {
    const COUNT: usize = 20;
    let wish = Wish::new("web", COUNT as u64).parallel();
    let mark = case.mark();
    case.run(&wish).await;
    case.delete(&wish).await;
    case.emptied(case.dfw()).await;
    let asked = case.asked_by(case.dfw(), &mark);
    // Lists and watches are the process's own, shared by all.
    let of_lives = asked
        .iter()
        .filter(|(_, e)| !matches!(e.verb.as_str(), "list" | "watch") && e.object_ref.resource != "events");
    let lives: Vec<String> = of_lives
        .map(|(plane, e)| format!("{plane}: {}", e.action()))
        .collect();
    assert!(
        lives.len() > 5 * COUNT,
        "the audit logs show the cell at work: {}",
        lives.len()
    );
    let mut kinds: Vec<(usize, &str)> = lives
        .iter()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|kind| (lives.iter().filter(|l| *l == kind).count(), kind.as_str()))
        .collect();
    kinds.sort_by(|a, b| b.cmp(a));
    eprintln!("    {} requests for {COUNT} lives: {kinds:?}", lives.len());
    assert!(
        lives.len() <= BUDGET * COUNT,
        "{} requests for {COUNT} lives: {kinds:#?}",
        lives.len()
    );
}

/// A number below the limit.
fn chance(limit: u64) -> u64 {
    RandomState::new().hash_one(0) % limit
}

/// Kills the gateway or a cell, and starts it again a moment later. The other cell has been left what it needs five
/// minutes for (W25).
async fn blow(case: &Case) {
    sleep(Duration::from_millis(chance(900))).await;
    let suite = &case.suite;
    if chance(3) == 0 {
        suite.gateway.kill().await;
        suite.gateway.start().await;
    } else {
        suite.dfw.kill().await;
        suite.dfw.start().await;
    }
}

/// The tenant's wishes, one after the other.
async fn tenant(case: &Case, wishes: &mut [Wish], round: usize) {
    let wish = &mut wishes[round % 3];
    match round {
        0..3 => {
            case.create(wish).await;
        }
        3 => {
            wish.places[0].2 = 1;
            case.update(wish).await;
        }
        4 => {
            *wish = wish.clone().image("shop/web:broken");
            case.update(wish).await;
        }
        5 => {
            *wish = wish.clone().image("shop/web:3");
            case.update(wish).await;
        }
        6 => {
            wish.places[0].2 = 3;
            case.update(wish).await;
        }
        7 => {
            *wish = wish.clone().image("shop/web:4");
            case.update(wish).await;
        }
        8 => case.delete(wish).await,
        _ => {}
    }
}

async fn a10_gateway_and_cell_are_killed_at_random_moments(case: Case) {
    let mut wishes = [
        Wish::new("one", 3).and_in("eu", "LHR", 2),
        Wish::new("two", 3).parallel(),
        Wish::new("three", 2).parallel().and_in("eu", "LHR", 1),
    ];
    for round in 0..KILLS {
        tenant(&case, &mut wishes, round).await;
        blow(&case).await;
    }
    for wish in &wishes[..2] {
        case.runs(wish).await;
    }
    let wanted: BTreeSet<String> = wishes[..2].iter().flat_map(Wish::instances).collect();
    let names = |all: Vec<Value>| -> BTreeSet<String> { all.iter().map(|o| name(o).to_owned()).collect() };
    wait_for(
        "nothing is too much and nothing is missing on any plane",
        seconds(90),
        || async {
            let mut at_cells = BTreeSet::new();
            for cell in [&case.suite.dfw, &case.suite.lhr] {
                let instances = case.at(cell, &INSTANCE).await;
                if instances
                    .iter()
                    .any(|i| i["metadata"]["labels"][keys::CELL].is_string())
                {
                    return None;
                }
                let pods = names(case.at(cell, &POD).await);
                let instances = names(instances);
                if pods != instances {
                    return None;
                }
                at_cells.extend(instances);
            }
            let hub = names(case.hub.list(&INSTANCE, &case.hub_ns, "").await);
            let project = names(case.project.list(&INSTANCE, &case.ns, "").await);
            let claims: BTreeSet<String> = names(case.project.list(&CLAIM, &case.ns, "").await)
                .iter()
                .map(|claim| claim.trim_start_matches("instance-").to_owned())
                .collect();
            [at_cells, hub, project, claims]
                .iter()
                .all(|found| *found == wanted)
                .then_some(())
        },
    )
    .await;
    for wish in &wishes[..2] {
        case.delete(wish).await;
    }
    case.emptied(&case.suite.dfw).await;
    case.emptied(&case.suite.lhr).await;
}

async fn w22_the_count_of_attempts_survives_a_kill(case: Case) {
    let wish = Wish::new("web", 1).image("shop/web:exits");
    case.create(&wish).await;
    let recovery = |i: &Value| -> Value {
        let text = i["metadata"]["annotations"][keys::RECOVERY].as_str();
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    };
    let attempts = |i: &Value| recovery(i)["attempts"].as_u64().unwrap_or_default();
    let instance = "web-us-dfw-0";
    let before = case
        .sees(&INSTANCE, instance, "waits before its second attempt", |i| {
            attempts(i) == 1
        })
        .await;
    case.dfw().kill().await;
    case.dfw().start().await;
    // The second comes when the first said, not sooner and not anew.
    let after = case
        .sees(&INSTANCE, instance, "has its second attempt behind it", |i| {
            attempts(i) > 1
        })
        .await;
    assert_eq!(attempts(&after), 2, "{} {}", recovery(&before), recovery(&after));
    let good = wish.image("shop/web:2");
    case.update(&good).await;
    case.runs(&good).await;
}
