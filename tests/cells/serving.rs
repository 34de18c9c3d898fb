//! A city of two cells: a deployment runs at one of them, and goes on at the other when it has to (docs/contract/serving.md).

use crate::support::{
    Case, Wish,
    case::{is_true, message, name, says, uid},
    cell::CellRole,
    kinds::{BINDING, CLAIM, CLUSTER, DEPLOYMENT, EVENT, INSTANCE, SERVING_LOCATION},
    label, lone_trials, seconds, wait_for, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

lone_trials![
    s01_a_deployment_runs_at_one_of_two_cells_and_goes_on_at_the_other,
    s04_a_drained_cell_is_emptied_while_every_deployment_serves,
    s05_a_lost_cells_deployments_go_on_at_the_other_and_leave_it_when_it_returns,
    s08_an_overdue_move_is_cancelled,
    s11_a_move_needs_no_second_claim_of_quota,
];

/// Seconds until a change has arrived on the next plane.
const SOON: u64 = 60;

/// Lets the cell in LHR serve a city: its own location says so, and its Cluster.
async fn lhr_serves(case: &Case, city: &str) {
    let lhr = &case.suite.lhr;
    let all = lhr.plane.list(&SERVING_LOCATION, "", "").await;
    let topology = json!({"spec": {"topology": {keys::CITY_CODE: city}}});
    lhr.plane
        .merge(&SERVING_LOCATION, "", name(&all[0]), topology)
        .await;
    is_in(case, lhr, city).await;
}

async fn is_in(case: &Case, cell: &CellRole, city: &str) {
    let label = json!({"metadata": {"labels": {keys::CITY_CODE: city}}});
    case.hub.merge(&CLUSTER, "", &cell.name, label).await;
}

/// The UIDs of the project's Instances, by name.
async fn instances(case: &Case) -> BTreeMap<String, String> {
    let all = case.project.list(&INSTANCE, &case.ns, "").await;
    let both = |instance: &Value| (name(instance).to_owned(), uid(instance).to_owned());
    all.iter().map(both).collect()
}

/// Drains or opens a cell, by the taint of its Cluster.
async fn drain(case: &Case, cell: &CellRole, is_drained: bool) {
    let taints = if is_drained {
        json!([{"key": keys::DRAINING, "effect": "NoSchedule"}])
    } else {
        json!([])
    };
    let patch = json!({"spec": {"taints": taints}});
    case.hub.merge(&CLUSTER, "", &cell.name, patch).await;
}

/// Waits until all write-backs are this cell's, and it alone has Instances.
async fn runs_at(case: &Case, cell: &CellRole, other: &CellRole, count: usize) {
    serves(case, cell, count).await;
    let what = format!("{} has no Instance of {}", other.name, case.hub_ns);
    wait_for(&what, seconds(2 * SOON), || async {
        case.at(other, &INSTANCE).await.is_empty().then_some(())
    })
    .await;
}

/// Waits until all write-backs are this cell's, and it has the Instances.
async fn serves(case: &Case, cell: &CellRole, count: usize) {
    let what = format!("{} has {count} Instances of {}", cell.name, case.hub_ns);
    wait_for(&what, seconds(2 * SOON), || async {
        let written = case.hub.list(&INSTANCE, &case.hub_ns, "").await;
        let is_by_it = |i: &Value| label(i, keys::CELL) == Some(&*cell.name);
        let is_so = written.len() == count && written.iter().all(is_by_it);
        (is_so && case.at(cell, &INSTANCE).await.len() == count).then_some(())
    })
    .await;
}

/// The cell that runs the deployments of a case, and the other one.
async fn homes(case: &Case) -> (&CellRole, &CellRole) {
    let (dfw, lhr) = (case.dfw(), &case.suite.lhr);
    if case.at(dfw, &DEPLOYMENT).await.is_empty() {
        (lhr, dfw)
    } else {
        (dfw, lhr)
    }
}

/// Two cells serve DFW while the test runs.
async fn with_two_cells(case: &Case, test: impl Future<Output = ()>) {
    let (dfw, lhr) = (case.dfw(), &case.suite.lhr);
    let serving = async {
        lhr_serves(case, "DFW").await;
        test.await;
    };
    let restored = async {
        for cell in [dfw, lhr] {
            drain(case, cell, false).await;
        }
        is_in(case, dfw, "DFW").await;
        lhr_serves(case, "LHR").await;
    };
    with_cleanup(serving, restored).await;
}

/// serving.md §1 rules 3, 4 and 7: the deployment goes on at the other cell when the Cluster of its cell has lost the label of the city.
async fn s01_a_deployment_runs_at_one_of_two_cells_and_goes_on_at_the_other(case: Case) {
    with_two_cells(
        &case,
        Box::pin(async {
            let mut wish = Wish::new("web", 2);
            case.run(&wish).await;
            let (home, other) = homes(&case).await;
            runs_at(&case, home, other, 2).await;
            let before = instances(&case).await;

            is_in(&case, home, "ELSEWHERE").await;
            runs_at(&case, other, home, 2).await;
            case.runs(&wish).await;
            assert!(instances(&case).await.keys().eq(before.keys()), "the names stay");
            is_in(&case, home, "DFW").await;
            let copy = case
                .hub
                .get(&DEPLOYMENT, &case.hub_ns, "web-us-dfw")
                .await
                .expect("the copy is there");
            assert_eq!(copy["metadata"]["annotations"][keys::CELL], json!(other.name));

            // Nothing moves back: not with the label, and not with an edit.
            wish.places[0].2 = 3;
            case.update(&wish).await;
            case.runs(&wish).await;
            runs_at(&case, other, home, 3).await;
            case.delete(&wish).await;
            case.emptied(other).await;
        }),
    )
    .await;
}

/// Asks the project every 50 ms whether each deployment is available, for ever.
async fn serve_without_a_gap(case: &Case, count: usize) {
    loop {
        let all = case.project.list(&DEPLOYMENT, &case.ns, "").await;
        let serving = all.iter().filter(|d| is_true(d, "Available")).count();
        assert_eq!(serving, count, "{all:?}");
        let ready = case.project.list(&INSTANCE, &case.ns, "").await;
        assert!(ready.iter().all(|i| is_true(i, "Ready")), "{ready:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Drains a cell that runs so many deployments of two Instances each, and waits until the other one has them with their claims of quota.
async fn drain_without_a_gap(case: &Case, [drained, other]: [&CellRole; 2], deployments: usize) {
    let moved = async {
        drain(case, drained, true).await;
        runs_at(case, other, drained, 2 * deployments).await;
        let what = "the other cell holds all claims of quota";
        wait_for(what, seconds(SOON), || async {
            let claims = case.project.list(&CLAIM, &case.ns, "").await;
            let is_its = |claim: &Value| {
                label(claim, keys::SOURCE_CLUSTER) == Some(&*other.name) && is_true(claim, "Granted")
            };
            (claims.len() == 2 * deployments && claims.iter().all(is_its)).then_some(())
        })
        .await;
    };
    tokio::select! {
        () = moved => {}
        () = serve_without_a_gap(case, deployments) => {}
    }
}

/// serving.md §2: drain, then an operator moves one deployment back.
async fn s04_a_drained_cell_is_emptied_while_every_deployment_serves(case: Case) {
    const NUMBER: usize = 4;
    with_two_cells(
        &case,
        Box::pin(async {
            let wishes: Vec<Wish> = (0..NUMBER)
                .map(|n| Wish::new(&format!("web{n}"), 2).parallel())
                .collect();
            for wish in &wishes {
                case.create(wish).await;
            }
            let what = "the Instances of all are ready";
            wait_for(what, seconds(SOON), || async {
                let all = case.project.list(&INSTANCE, &case.ns, "").await;
                (all.len() == 2 * NUMBER && all.iter().all(|i| is_true(i, "Ready"))).then_some(())
            })
            .await;
            let what = "each deployment is delivered";
            wait_for(what, seconds(SOON), || async {
                let all = case.project.list(&DEPLOYMENT, &case.ns, "").await;
                let is_done =
                    |d: &Value| says(d, ["Federated", "True", "Delivered"]) && is_true(d, "Available");
                (all.len() == NUMBER && all.iter().all(is_done)).then_some(())
            })
            .await;
            let (home, other) = homes(&case).await;
            let before = instances(&case).await;
            let mark = case.mark();
            drain_without_a_gap(&case, [home, other], NUMBER).await;
            assert_eq!(instances(&case).await, before, "the Instances stay");
            let what = "each deployment is delivered to the other cell";
            wait_for(what, seconds(SOON), || async {
                let all = case.project.list(&DEPLOYMENT, &case.ns, "").await;
                let is_told = |d: &Value| message(d, "Federated") == format!("delivered to {}", other.name);
                all.iter().all(is_told).then_some(())
            })
            .await;
            let asked = case.asked(&mark);
            let writes = asked.iter().filter(|(plane, entry)| {
                plane == "hub"
                    && entry.user.username == "fedgate-gateway"
                    && entry.is_write()
                    && entry.response_status.code < 400
            });
            let writes: Vec<String> = writes
                .map(|(_, entry)| format!("{} {}", entry.action(), entry.object_ref.name))
                .collect();
            assert_eq!(writes.len(), 4 * NUMBER, "{writes:#?}");

            drain(&case, home, false).await;
            let by_hand = json!({"metadata": {"annotations": {keys::MOVE_TO: home.name}}});
            case.hub
                .merge(&DEPLOYMENT, &case.hub_ns, "web0-us-dfw", by_hand)
                .await;
            let what = "one deployment is back";
            wait_for(what, seconds(2 * SOON), || async {
                let (here, there) = (case.at(home, &INSTANCE).await, case.at(other, &INSTANCE).await);
                let copy = case.hub.get(&DEPLOYMENT, &case.hub_ns, "web0-us-dfw").await?;
                let named = &copy["metadata"]["annotations"];
                let is_done = named[keys::CELL] == *home.name
                    && named[keys::MOVE_TO].is_null()
                    && named[keys::MOVING_TO].is_null();
                (is_done && here.len() == 2 && there.len() == 2 * NUMBER - 2).then_some(())
            })
            .await;
            assert_eq!(instances(&case).await, before, "the Instances stay");
        }),
    )
    .await;
}

/// serving.md §2: a lost cell.
async fn s05_a_lost_cells_deployments_go_on_at_the_other_and_leave_it_when_it_returns(case: Case) {
    let suite = &case.suite;
    let test = Box::pin(with_two_cells(
        &case,
        Box::pin(async {
            suite.gateway.restart_with(&["--cell-lost-after", "5s"]).await;
            let wish = Wish::new("web", 2).parallel();
            case.run(&wish).await;
            let (home, other) = homes(&case).await;
            runs_at(&case, home, other, 2).await;
            let before = instances(&case).await;
            suite.stop_plane(&home.name).await;
            let back = async {
                serves(&case, other, 2).await;
                case.runs(&wish).await;
                assert_eq!(instances(&case).await, before, "the Instances stay");
            };
            with_cleanup(back, suite.start_plane(&home.name)).await;
            runs_at(&case, other, home, 2).await;
            assert_eq!(instances(&case).await, before, "the Instances stay");
        }),
    ));
    with_cleanup(test, suite.gateway.restart_with(&[])).await;
}

/// serving.md §2: a move that is overdue.
async fn s08_an_overdue_move_is_cancelled(case: Case) {
    let suite = &case.suite;
    let test = Box::pin(with_two_cells(
        &case,
        Box::pin(async {
            suite.gateway.restart_with(&["--move-timeout", "15s"]).await;
            let wish = Wish::new("web", 2).parallel();
            case.run(&wish).await;
            let (home, other) = homes(&case).await;
            runs_at(&case, home, other, 2).await;
            let before = instances(&case).await;
            other.stop().await;
            let cancelled = async {
                drain(&case, home, true).await;
                case.project_says(&DEPLOYMENT, "web-us-dfw", ["Federated", "True", "Moving"])
                    .await;
                case.project_says(&DEPLOYMENT, "web-us-dfw", ["Federated", "True", "MoveStalled"])
                    .await;
                let what = "the tenant has the Event";
                wait_for(what, seconds(SOON), || async {
                    let all = case.project.list(&EVENT, &case.ns, "").await;
                    all.iter()
                        .any(|event| event["reason"] == "MoveStalled")
                        .then_some(())
                })
                .await;
                let binding = case
                    .hub
                    .get(&BINDING, &case.hub_ns, "web-us-dfw-workloaddeployment")
                    .await;
                let spec = &binding.expect("the binding is there")["spec"];
                assert!(spec["gracefulEvictionTasks"].is_null(), "{spec}");
                assert_eq!(spec["clusters"][0]["name"], *home.name, "{spec}");
                serves(&case, home, 2).await;
                assert_eq!(instances(&case).await, before, "the Instances stay");
            };
            with_cleanup(cancelled, other.start()).await;
            // The second attempt comes after a minute.
            runs_at(&case, other, home, 2).await;
            assert_eq!(instances(&case).await, before, "the Instances stay");
        }),
    ));
    with_cleanup(test, suite.gateway.restart_with(&[])).await;
}

/// serving.md §2 rule 9: a move while the project's budget of Instances is used up.
async fn s11_a_move_needs_no_second_claim_of_quota(case: Case) {
    Box::pin(case.within_budgets(async |case: &Case| {
        with_two_cells(case, Box::pin(moves_with_a_budget_that_is_used_up(case))).await;
    }))
    .await;
}

async fn moves_with_a_budget_that_is_used_up(case: &Case) {
    case.budget("100").await;
    let wish = Wish::new("web", 2).parallel();
    case.run(&wish).await;
    case.project_says(
        &DEPLOYMENT,
        "web-us-dfw",
        ["Available", "True", "StableInstanceFound"],
    )
    .await;
    let (home, other) = homes(case).await;
    case.budget_is_used_up().await;
    let more = Wish::new("more", 1);
    case.create(&more).await;
    let denied = ["QuotaGranted", "False", "QuotaExceeded"];
    case.project_says(&INSTANCE, "more-us-dfw-0", denied).await;
    case.delete(&more).await;
    case.project
        .gone(&INSTANCE, &case.ns, "more-us-dfw-0", seconds(SOON))
        .await;
    let before = instances(case).await;
    drain_without_a_gap(case, [home, other], 1).await;
    assert_eq!(instances(case).await, before, "the Instances stay");
    case.delete(&wish).await;
    case.emptied(other).await;
}
