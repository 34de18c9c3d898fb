//! A city of two cells: a deployment runs at one of them, and goes on at the other when it has to (docs/contract/serving.md).

use crate::support::{
    Case, Wish,
    case::name,
    cell::CellRole,
    kinds::{CLUSTER, DEPLOYMENT, INSTANCE, SERVING_LOCATION},
    label, lone_trials, seconds, wait_for, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::collections::BTreeSet;

lone_trials![s01_a_deployment_runs_at_one_of_two_cells_and_goes_on_at_the_other];

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

/// The names of the project's Instances.
async fn instances(case: &Case) -> BTreeSet<String> {
    let all = case.project.list(&INSTANCE, &case.ns, "").await;
    all.iter().map(|i| name(i).to_owned()).collect()
}

/// Waits until all write-backs are this cell's, and it alone has Instances.
async fn runs_at(case: &Case, cell: &CellRole, other: &CellRole, count: usize) {
    let what = format!(
        "{} has {count} Instances of {}, {} none",
        cell.name, case.hub_ns, other.name
    );
    wait_for(&what, seconds(2 * SOON), || async {
        let written = case.hub.list(&INSTANCE, &case.hub_ns, "").await;
        let is_by_it = |i: &Value| label(i, keys::CELL) == Some(&*cell.name);
        let (here, there) = (case.at(cell, &INSTANCE).await, case.at(other, &INSTANCE).await);
        let is_so = written.len() == count && written.iter().all(is_by_it);
        (is_so && here.len() == count && there.is_empty()).then_some(())
    })
    .await;
}

/// serving.md §1 rules 3, 4 and 7: the deployment goes on at the other cell when the Cluster of its cell has lost the label of the city.
async fn s01_a_deployment_runs_at_one_of_two_cells_and_goes_on_at_the_other(case: Case) {
    let (dfw, lhr) = (case.dfw(), &case.suite.lhr);
    let serving = async {
        lhr_serves(&case, "DFW").await;
        let mut wish = Wish::new("web", 2);
        case.run(&wish).await;
        let at_dfw = !case.at(dfw, &DEPLOYMENT).await.is_empty();
        let (home, other) = if at_dfw { (dfw, lhr) } else { (lhr, dfw) };
        runs_at(&case, home, other, 2).await;
        let before = instances(&case).await;

        is_in(&case, home, "ELSEWHERE").await;
        runs_at(&case, other, home, 2).await;
        case.runs(&wish).await;
        assert_eq!(instances(&case).await, before, "the names stay");
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
    };
    let restored = async {
        is_in(&case, dfw, "DFW").await;
        lhr_serves(&case, "LHR").await;
    };
    with_cleanup(serving, restored).await;
}
