//! Sums follow the rows, whatever their order.

use super::super::{
    GatewayIndex, TableId,
    derived::summary::OfCell,
    fixture::{HUB, binding, object, shop, source},
};
use fedgate_api::keys;
use fedgate_operations::{CellInstances, Class, Instances};
use serde_json::{Value, json};

fn deployments(index: &GatewayIndex) -> TableId {
    TableId::Federated(index.workload_kind().unwrap())
}

fn instances(index: &GatewayIndex) -> TableId {
    TableId::WrittenBack(index.workload_kind().unwrap())
}

fn deployment(name: &str, version: u32, counts: [i32; 4], federated: &str, available: &str) -> Value {
    let [desired, existing, ready, updated] = counts;
    let mut deployment = source(name, "DFW");
    deployment["metadata"]["resourceVersion"] = json!(version.to_string());
    deployment["spec"] = json!({"cityCode": "DFW", "placementName": "us", "workloadRef": {"name": "web", "uid": "w"},
        "scaleSettings": {"minReplicas": 1}, "template": {"spec": {}}});
    let condition = |of: &str, status: &str, reason: &str| {
        json!({"type": of, "status": status, "reason": reason, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-05-04T10:00:00Z"})
    };
    let truth = |word: &str, good: &str| if word == good { "True" } else { "False" };
    deployment["status"] = json!({"desiredReplicas": desired, "replicas": existing, "readyReplicas": ready,
        "currentReplicas": 0, "updatedReplicas": updated, "observedGeneration": 1,
        "conditions": [condition("Federated", truth(federated, "Delivered"), federated),
            condition("Available", truth(available, "StableInstanceFound"), available)]});
    deployment
}

fn federated(index: &GatewayIndex) -> Vec<String> {
    let all = index.summary.federated();
    all.map(|((_, state), count)| {
        let (status, reason) = state.as_ref().map_or(("", "None"), |(s, r)| (s, r));
        format!("{status} {reason} {count}")
    })
    .collect()
}

fn instance(name: &str, version: u32, city: &str, cell: &str, ready: &str) -> Value {
    let mut instance = object(HUB, name, &format!("i-{name}"));
    instance["metadata"]["resourceVersion"] = json!(version.to_string());
    instance["metadata"]["labels"] =
        json!({keys::CITY_CODE: city, keys::CELL: cell, keys::WORKLOAD_DEPLOYMENT_NAME: "web"});
    instance["status"] = json!({"conditions": [{"type": "Ready", "status": ready}]});
    instance
}

#[test]
fn federated_objects_and_their_instances_are_summed_by_reason_and_project() {
    let mut index = GatewayIndex::fixture();
    let table = deployments(&index);
    index.shop_has(table, &source("bare", "DFW"));
    let web = deployment("web", 6, [4, 3, 2, 1], "Propagating", "NoCellReporting");
    index.shop_has(table, &web);
    assert_eq!(federated(&index), [" None 1", "False Propagating 1"]);
    index.shop_has(
        table,
        &deployment("web", 7, [4, 4, 4, 4], "Delivered", "StableInstanceFound"),
    );
    let api = deployment("api", 7, [1, 1, 0, 1], "Delivered", "InstanceCrashing");
    index.shop_has(table, &api);
    assert_eq!(federated(&index), [" None 1", "True Delivered 2"]);
    let expected = Instances {
        desired: 5,
        existing: 5,
        ready: 4,
        updated: 5,
    };
    assert_eq!(index.reported_instances(), expected);
    assert_eq!(index.projects[&shop()].instances, expected);
    let shop = shop();
    let problems = index.summary.problems_of(&shop);
    let found: Vec<_> = problems
        .map(|((_, (_, name)), problem)| (&*name.1, problem.class, &*problem.reason))
        .collect();
    assert_eq!(found, [("api", Class::Unavailable, "InstanceCrashing")]);
    index.shop_lost(
        table,
        &deployment("api", 9, [1, 1, 0, 1], "Delivered", "InstanceCrashing"),
    );
    assert_eq!(index.summary.problems_of(&shop).count(), 0);
    index.disengage(&shop);
    assert_eq!(
        (federated(&index), index.reported_instances()),
        (Vec::new(), Instances::default())
    );
}

#[test]
fn projects_with_problems_and_deletions_are_known() {
    let mut index = GatewayIndex::fixture();
    let table = deployments(&index);
    let urgent = |index: &GatewayIndex| {
        let objects = index.summary.problems_after(true, None);
        objects
            .map(|((_, (_, (_, name))), _)| name.to_string())
            .collect::<Vec<_>>()
    };
    let known = |index: &GatewayIndex| {
        let shop = shop();
        let problems = index.summary.problems_of(&shop).count();
        (problems.min(1), index.summary.deletions(Some(&shop)).count())
    };
    index.shop_has(
        table,
        &deployment("web", 6, [1, 1, 1, 1], "Delivered", "StableInstanceFound"),
    );
    assert_eq!(known(&index), (0, 0));
    let bad = |name: &str, version| deployment(name, version, [1, 1, 0, 1], "Delivered", "InstanceCrashing");
    index.shop_has(table, &bad("web", 7));
    index.shop_has(table, &bad("api", 7));
    assert_eq!(known(&index), (1, 0));
    assert_eq!(
        urgent(&index),
        [""; 0],
        "a program that fails is its tenant's matter"
    );
    let refused = |name: &str, version| {
        deployment(
            name,
            version,
            [1, 1, 1, 1],
            "NoCellForCity",
            "StableInstanceFound",
        )
    };
    index.shop_has(table, &refused("web", 8));
    assert_eq!(urgent(&index), ["web"]);
    index.shop_has(table, &bad("web", 9));
    assert_eq!(urgent(&index), [""; 0], "it is only unavailable from now on");
    index.shop_has(table, &refused("db", 7));
    index.shop_has(table, &refused("web", 10));
    let after = index.summary.problems_after(true, None).next();
    let after = after.map(|(object, _)| object.clone());
    assert_eq!(
        index.summary.problems_after(true, after.as_ref()).count(),
        1,
        "web after db"
    );
    index.shop_lost(table, &refused("db", 8));
    index.shop_has(
        table,
        &deployment("web", 11, [1, 1, 1, 1], "Delivered", "StableInstanceFound"),
    );
    assert_eq!(known(&index), (1, 0), "api has one still");
    index.shop_lost(table, &bad("api", 9));
    assert_eq!(known(&index), (0, 0));
    let leaving = crate::index::fixture::leaving("old", "DFW");
    index.shop_has(table, &leaving);
    assert_eq!(known(&index).1, 1);
    assert_eq!(urgent(&index), ["old"]);
    index.shop_lost(table, &leaving);
    assert_eq!(known(&index), (0, 0));
    // With the project all of it goes, and an earlier engagement leaves nothing.
    index.shop_has(table, &refused("web", 12));
    assert_eq!(urgent(&index), ["web"]);
    index.shop_has(table, &leaving);
    index.engage(shop());
    assert_eq!((known(&index), urgent(&index)), ((0, 0), Vec::new()));
    index.shop_has(table, &bad("web", 13));
    index.disengage(&shop());
    assert_eq!(known(&index), (0, 0));
}

#[test]
fn a_project_that_is_engaged_again_is_counted_once() {
    let mut index = GatewayIndex::fixture();
    let table = deployments(&index);
    let web = deployment("web", 6, [4, 3, 2, 1], "Delivered", "StableInstanceFound");
    index.shop_has(table, &web);
    index.engage(shop());
    assert_eq!(index.reported_instances(), Instances::default());
    index.list_shop(table, &[web]);
    assert_eq!(federated(&index), ["True Delivered 1"]);
}

#[test]
fn write_backs_are_summed_by_hub_namespace_city_and_cell() {
    let mut index = GatewayIndex::fixture();
    let table = instances(&index);
    for (name, ready) in [("web-0", "True"), ("web-1", "False"), ("web-2", "True")] {
        index.hub_has(table, &instance(name, 5, "DFW", "dfw-1", ready));
    }
    index.hub_has(table, &instance("web-2", 6, "DFW", "dfw-2", "True"));
    let mut of_older_cell = instance("api-0", 5, "DFW", "dfw-1", "True");
    let labels = of_older_cell["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove(keys::WORKLOAD_DEPLOYMENT_NAME);
    index.hub_has(table, &of_older_cell);
    assert_eq!(index.summary.unlabelled(), 1);
    index.hub_has(table, &instance("api-0", 6, "DFW", "dfw-1", "True"));
    assert_eq!(index.summary.unlabelled(), 0);
    of_older_cell["metadata"]["resourceVersion"] = json!("7");
    index.hub_has(table, &of_older_cell);
    index.hub_lost(table, &of_older_cell);
    assert_eq!(index.summary.unlabelled(), 0);
    let part = |existing, ready| CellInstances { existing, ready };
    let found: Vec<_> = index
        .summary
        .places(HUB)
        .iter()
        .map(|((_, cell), sum)| (cell.as_deref(), *sum))
        .collect();
    assert_eq!(found, [(Some("dfw-1"), part(2, 1)), (Some("dfw-2"), part(1, 1))]);
    let mut wanted = binding("web");
    wanted["spec"]["clusters"] = json!([{"name": "dfw-1"}]);
    index.hub_has(TableId::Bindings, &wanted);
    let cell = index.summary.cell("dfw-1");
    assert_eq!(
        (cell.deployments, cell.not_applied, cell.instances),
        (1, 1, part(2, 1))
    );
    assert!(cell.last_report.is_some());
    wanted["metadata"]["resourceVersion"] = json!("6");
    wanted["status"] = json!({"conditions": [{"type": "FullyApplied", "status": "True"}]});
    index.hub_has(TableId::Bindings, &wanted);
    assert_eq!(index.summary.cell("dfw-1").not_applied, 0);
    index.hub_lost(TableId::Bindings, &wanted);
    for name in ["web-0", "web-1", "web-2"] {
        index.hub_lost(table, &instance(name, 9, "DFW", "dfw-1", "True"));
    }
    assert_eq!(index.summary.places(HUB), []);
    assert_eq!(
        [index.summary.cell("dfw-1"), index.summary.cell("dfw-2")],
        [OfCell::default(); 2]
    );
}
