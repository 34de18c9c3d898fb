//! The cell that a copy names (contract: serving.md §1).

use super::*;
use crate::{
    federator::observe::observe,
    index::{
        GatewayIndex, TableId,
        fixture::{self, shop},
    },
};

#[tokio::test]
async fn a_cell_is_named_by_one_patch_of_the_version_that_was_seen() {
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    s.cell_to_name = Some("dfw-2".into());
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "name_cell");
    assert_eq!(
        patch(&effect),
        &json!({"metadata": {"uid": "u-copy", "resourceVersion": "900", "annotations": {keys::CELL: "dfw-2"}}})
    );
    let unasked = decision(&s, &Memory::default(), &SETTINGS, Permit::Unasked, now());
    assert_eq!(unasked.action, Action::Permit(Class::Update));
    s.complete = false;
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
}

#[tokio::test]
async fn a_copy_that_goes_to_another_city_names_no_cell() {
    let mut there = hub_copy();
    there["metadata"]["annotations"][keys::CELL] = json!("dfw-2");
    let mut d = deployment();
    d["spec"]["cityCode"] = json!("LHR");
    let effect = one(decide(
        &snapshot(&d, Some(&there)),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
    assert_eq!(effect.reason.label(), "move_copy");
    assert_eq!(
        patch(&effect)["metadata"]["annotations"].get(keys::CELL),
        Some(&Value::Null)
    );
}

/// A copy of this name at these cells, which a cell keeps until it is healthy elsewhere, and an Instance that `dfw-1` wrote.
fn index(named: Option<&str>, clusters: &[&str], evicted_from: &[&str]) -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "DFW"));
    let mut copy = fixture::copy("web", "DFW");
    if let Some(named) = named {
        copy["metadata"]["annotations"][keys::CELL] = json!(named);
    }
    index.hub_has(TableId::DEPLOYMENTS, &copy);
    let mut binding = fixture::binding("web");
    let owner = json!([{"apiVersion": "x", "kind": "WorkloadDeployment", "name": "web", "uid": "c-web"}]);
    binding["metadata"]["ownerReferences"] = owner;
    binding["spec"]["clusters"] = clusters.iter().map(|name| json!({"name": name})).collect();
    let tasks = evicted_from.iter().map(|from| json!({"fromCluster": from}));
    binding["spec"]["gracefulEvictionTasks"] = tasks.collect();
    index.hub_has(TableId::Bindings, &binding);
    index
}

fn write_back(cell: &str, city: &str, version: &str) -> Value {
    let mut written = fixture::object(fixture::HUB, "web-0", "w-0");
    written["metadata"]["resourceVersion"] = json!(version);
    written["metadata"]["labels"] = json!({keys::CELL: cell, keys::INSTANCE_CITY_CODE: city,
        keys::WORKLOAD_DEPLOYMENT_NAME: "web"});
    written
}

fn to_name(index: &GatewayIndex) -> Option<Arc<str>> {
    let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
    observe(index, &key, &shop()).unwrap().cell_to_name
}

/// The cell that the copy names, those to which Karmada schedules it, those that keep it, and the cell to name.
type Case = (
    Option<&'static str>,
    &'static [&'static str],
    &'static [&'static str],
    Option<&'static str>,
);

#[test]
fn a_cell_is_named_where_another_one_is_named_or_has_written() {
    let table: [Case; 8] = [
        // One cell has it, and no other has written.
        (None, &["dfw-1"], &[], None),
        // Another one has written, as after an upgrade, or when the label of the first is gone.
        (None, &["dfw-2"], &[], Some("dfw-2")),
        (Some("dfw-1"), &["dfw-2"], &[], Some("dfw-2")),
        (Some("dfw-2"), &["dfw-2"], &[], None),
        (Some("dfw-2"), &["dfw-1"], &[], Some("dfw-1")),
        // Karmada keeps it at the first until it is healthy at the second.
        (None, &["dfw-2"], &["dfw-1"], None),
        // It is at no cell, or at two.
        (Some("dfw-1"), &[], &[], None),
        (Some("dfw-1"), &["dfw-1", "dfw-2"], &[], None),
    ];
    for (named, clusters, evicted_from, expected) in table {
        let mut index = index(named, clusters, evicted_from);
        let written = TableId::WrittenBack(KindId::FIRST);
        index.hub_has(written, &write_back("dfw-1", "DFW", "5"));
        assert_eq!(
            to_name(&index).as_deref(),
            expected,
            "{named:?} {clusters:?} {evicted_from:?}"
        );
    }
}

#[test]
fn the_binding_of_an_earlier_copy_names_no_cell() {
    let mut index = index(Some("dfw-1"), &["dfw-2"], &[]);
    let mut anew = fixture::copy("web", "DFW");
    anew["metadata"]["uid"] = json!("c-anew");
    anew["metadata"]["resourceVersion"] = json!("6");
    anew["metadata"]["annotations"][keys::CELL] = json!("dfw-1");
    index.hub_has(TableId::DEPLOYMENTS, &anew);
    assert_eq!(to_name(&index), None);
}

#[test]
fn a_write_back_of_another_city_names_no_cell_and_one_of_another_cell_wakes_its_deployment() {
    let written = TableId::WrittenBack(KindId::FIRST);
    let mut index = index(None, &["dfw-1"], &[]);
    let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
    assert!(
        !index
            .hub_has(written, &write_back("dfw-1", "DFW", "5"))
            .contains(&key)
    );
    assert!(
        index
            .hub_has(written, &write_back("lhr-1", "LHR", "6"))
            .contains(&key)
    );
    assert_eq!(to_name(&index), None, "it has come from another city");
    assert!(
        index
            .hub_has(written, &write_back("dfw-2", "DFW", "7"))
            .contains(&key)
    );
    assert_eq!(to_name(&index).as_deref(), Some("dfw-1"));
}
