//! Tests of the brake on projections: the loss of write-backs that keeps projections, and the events that release them.

use super::fixture::{HUB, copy, object, source};
use super::*;
use fedgate_api::keys;
use serde_json::Value;
use std::time::Duration;

fn write_back(deployment: &str, name: &str) -> Value {
    let mut of = object(HUB, name, &format!("w-{name}"));
    of["metadata"]["labels"] = json!({keys::WORKLOAD_DEPLOYMENT_NAME: deployment});
    of
}

fn projection(deployment: &str, name: &str) -> Value {
    let mut of = object("default", name, &format!("p-{name}"));
    of["metadata"]["ownerReferences"] = json!([{"apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment", "name": deployment, "uid": format!("u-{deployment}")}]);
    of
}

fn reported(version: u64, status: &Value) -> Value {
    let mut of = copy("web", "DFW");
    of["metadata"]["resourceVersion"] = json!(version.to_string());
    of["status"] = status.clone();
    of
}

/// A hub with `lost + kept` write-backs of `web` loses `lost` of them with one list. `web` and `api` have one
/// projection each.
fn after_loss(lost: usize, kept: usize) -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::DEPLOYMENTS, &copy("web", "DFW"));
    for name in ["web", "api"] {
        index.shop_has(TableId::DEPLOYMENTS, &source(name, "DFW"));
        index.shop_has(TableId::INSTANCES, &projection(name, &format!("{name}-0")));
    }
    let all: Vec<Value> = (0..lost + kept)
        .map(|n| write_back("web", &format!("web-{n}")))
        .collect();
    index.list_hub(TableId::INSTANCES, &all);
    assert!(!index.withholds());
    index.list_hub(TableId::INSTANCES, &all[lost..]);
    index
}

/// Names of the enqueued projections.
fn projections(keys: &[Key], index: &GatewayIndex) -> Vec<String> {
    let kind = index.hub_key(TableId::INSTANCES, HUB, "x").kind;
    let of = keys.iter().filter(|key| key.kind == kind);
    of.map(|key| key.name.to_string()).collect()
}

#[test]
fn more_than_ten_and_than_a_tenth_hold_the_projections() {
    let withholds = |lost, kept| after_loss(lost, kept).withholds();
    assert_eq!([withholds(10, 0), withholds(11, 0)], [false, true]);
    assert_eq!(
        [withholds(20, 180), withholds(21, 179)],
        [false, true],
        "a tenth of all"
    );
}

fn says(replicas: u32) -> Value {
    json!({"replicas": replicas})
}

#[test]
fn a_deployments_last_awaited_write_back_lets_its_projections_go() {
    let mut index = after_loss(11, 0);
    index.hub_has(TableId::DEPLOYMENTS, &reported(6, &says(2)));
    assert!(index.withholds(), "two Instances are to be written back");
    let enqueued = index.hub_has(TableId::INSTANCES, &write_back("api", "api-7"));
    assert_eq!(projections(&enqueued, &index), ["api-7"]);
    let enqueued = index.hub_has(TableId::INSTANCES, &write_back("web", "web-7"));
    assert_eq!(projections(&enqueued, &index), ["web-7"], "one of two");
    assert!(index.withholds());
    let enqueued = index.hub_has(TableId::INSTANCES, &write_back("web", "web-8"));
    let mut enqueued = projections(&enqueued, &index);
    enqueued.sort();
    assert_eq!(enqueued, ["web-0", "web-8"]);
    assert!(!index.withholds());
}

#[test]
fn cells_of_one_city_write_no_more_back_than_there_was() {
    let mut index = after_loss(11, 0);
    index.hub_has(TableId::DEPLOYMENTS, &reported(6, &says(22)));
    for n in 0..10 {
        index.hub_has(TableId::INSTANCES, &write_back("web", &format!("web-{n}")));
    }
    assert!(index.withholds(), "one of eleven is missing");
    index.hub_has(TableId::INSTANCES, &write_back("web", "web-10"));
    assert!(!index.withholds(), "each Instance of two cells has one author");
}

#[test]
fn a_write_back_of_a_deployment_that_is_not_reported_on_lets_nothing_go() {
    let mut index = after_loss(11, 0);
    let enqueued = index.hub_has(TableId::INSTANCES, &write_back("web", "web-7"));
    assert_eq!(projections(&enqueued, &index), ["web-7"]);
    assert!(index.withholds());
}

#[test]
fn a_report_of_what_was_written_back_lets_a_deployments_projections_go() {
    let mut index = after_loss(11, 0);
    let none = json!({"conditions": [{"type": "Available", "status": "False", "reason": "NoCellReporting"}]});
    for (version, status, why) in [
        (6, json!({}), "it has no status"),
        (7, none, "Karmada says that no cell reports"),
        (
            8,
            says(1),
            "the cell has an Instance that it has not written back",
        ),
    ] {
        let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(version, &status));
        assert_eq!(projections(&enqueued, &index), [""; 0], "{why}");
        assert!(index.withholds(), "{why}");
    }
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(9, &says(0)));
    assert_eq!(projections(&enqueued, &index), ["web-0"]);
    assert!(!index.withholds());
    let mut other = says(0);
    other["readyReplicas"] = json!(1);
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(10, &other));
    assert_eq!(
        projections(&enqueued, &index),
        [""; 0],
        "nothing is held any more"
    );
}

#[test]
fn the_first_full_report_is_looked_at() {
    // Nothing is withheld, but a projection may have waited for it.
    let mut index = after_loss(0, 1);
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(8, &says(1)));
    assert_eq!(projections(&enqueued, &index), ["web-0"]);
    let mut index = after_loss(0, 1);
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(8, &says(2)));
    assert_eq!(projections(&enqueued, &index), [""; 0], "one is missing");
    let enqueued = index.hub_has(TableId::INSTANCES, &write_back("web", "web-1"));
    let mut enqueued = projections(&enqueued, &index);
    enqueued.sort();
    assert_eq!(enqueued, ["web-0", "web-1"], "it was the last one");
    let enqueued = index.hub_has(TableId::INSTANCES, &write_back("web", "web-2"));
    assert_eq!(projections(&enqueued, &index), ["web-2"], "that is over");
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(9, &says(4)));
    assert_eq!(projections(&enqueued, &index), [""; 0]);
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(10, &says(3)));
    assert_eq!(projections(&enqueued, &index), ["web-0"], "it says fewer now");
}

#[test]
fn a_report_that_is_no_other_says_nothing() {
    // A copy that appears for the first time, or again with the same status, is no new report.
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::DEPLOYMENTS, &reported(6, &says(0)));
    index.shop_has(TableId::DEPLOYMENTS, &source("web", "DFW"));
    index.shop_has(TableId::INSTANCES, &projection("web", "web-0"));
    let all: Vec<Value> = (0..11).map(|n| write_back("web", &format!("web-{n}"))).collect();
    index.list_hub(TableId::INSTANCES, &all);
    index.list_hub(TableId::INSTANCES, &[]);
    let mut same = reported(7, &says(0));
    same["metadata"]["generation"] = json!(9);
    same["spec"]["cityCode"] = json!("LHR");
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &same);
    assert_eq!(projections(&enqueued, &index), [""; 0]);
    assert!(index.withholds(), "the spec is another, the status is not");
    index.hub_has(TableId::DEPLOYMENTS, &reported(8, &json!({"readyReplicas": 1})));
    assert!(!index.withholds());
    index.hub_lost(TableId::DEPLOYMENTS, &reported(9, &says(0)));
    index.list_hub(TableId::INSTANCES, &all);
    index.list_hub(TableId::INSTANCES, &[]);
    let enqueued = index.hub_has(TableId::DEPLOYMENTS, &reported(10, &says(0)));
    assert_eq!(projections(&enqueued, &index), [""; 0]);
    assert!(index.withholds(), "it has only been seen now");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_let_go_after_its_retention() {
    let retention = Duration::from_secs(60);
    let mut index = after_loss(11, 0);
    tokio::time::advance(Duration::from_secs(59)).await;
    index.forget_withheld(retention);
    assert!(index.withholds());
    tokio::time::advance(Duration::from_secs(1)).await;
    index.forget_withheld(retention);
    assert!(!index.withholds());
}
