//! Projects whose plane the gateway has as the hub, a cell or another project.

use super::{fixture::zoo, *};
use crate::index::derived::known_plane::{KnownPlane, PLANE_IS_CELL, PLANE_IS_HUB, PLANE_IS_TAKEN};
use fedgate_engine::runtime::index::{Defect, Index};

fn defect(index: &GatewayIndex, key: &ProjectKey) -> Option<Defect> {
    index.defect(&Plane::Project(key.clone()))
}

/// Asserts that nothing is changed for a project.
fn is_refused(index: &GatewayIndex, key: &ProjectKey, expected: Defect) {
    assert_eq!(defect(index, key), Some(expected));
    assert!(!index.project_ready(key) && !index.specs_synced(key));
    assert!(index.owners.values().all(|owner| owner.project != *key));
    assert!(!index.project_proves(key), "its absence proves nothing");
}

fn is_federated(index: &GatewayIndex, key: &ProjectKey) {
    assert_eq!(defect(index, key), None);
    assert!(index.is_complete(key));
}

fn event(object: &serde_json::Value) -> WatchEvent {
    WatchEvent::Apply(serde_json::from_value(object.clone()).map(Box::new).unwrap())
}

/// The Cluster of DFW, whose member has this UID.
fn member(version: u64, uid: &str, labels: &serde_json::Value) -> serde_json::Value {
    let mut cluster = fixture::cluster("DFW");
    cluster["metadata"]["resourceVersion"] = json!(version.to_string());
    cluster["metadata"]["labels"] = labels.clone();
    cluster["spec"] = json!({"id": uid});
    cluster
}

#[test]
fn a_project_whose_plane_is_the_hub_is_refused_before_and_after_it_was_federated() {
    let mut index = GatewayIndex::fixture();
    is_federated(&index, &shop());
    let applied = index.hub_event(
        TableId::Namespaces,
        event(&namespace("kube-system", "p1", &json!({}))),
    );
    is_refused(&index, &shop(), PLANE_IS_HUB);
    assert_eq!(applied.known_planes(), [(shop(), Some(KnownPlane::Hub))]);
    // A project that is engaged later.
    index.with_zoo("p1", "b2");
    is_refused(&index, &zoo(), PLANE_IS_HUB);
    // Another API server has taken the place of the hub.
    let mut other = namespace("kube-system", "h2", &json!({}));
    other["metadata"]["resourceVersion"] = json!("9");
    index.disengage(&zoo());
    let applied = index.hub_event(TableId::Namespaces, event(&other));
    assert_eq!(applied.known_planes(), [(shop(), None)]);
    is_federated(&index, &shop());
}

#[test]
fn a_project_whose_plane_is_a_cell_is_refused_as_long_as_the_cell_is_one() {
    let mut index = GatewayIndex::fixture();
    let cell = json!({fedgate_api::keys::CITY_CODE: "DFW"});
    let tell = |index: &mut GatewayIndex, cluster| index.hub_event(TableId::Clusters, event(&cluster));
    tell(&mut index, member(6, "p1", &json!({})));
    is_federated(&index, &shop());
    let applied = tell(&mut index, member(7, "p1", &cell));
    is_refused(&index, &shop(), PLANE_IS_CELL);
    let known = KnownPlane::Cell("dfw-1".into());
    assert_eq!(
        (known.to_string().as_str(), &applied.known_planes()),
        ("cell dfw-1", &vec![(shop(), Some(known.clone()))])
    );
    tell(&mut index, member(8, "m9", &cell));
    is_federated(&index, &shop());
}

#[test]
fn no_project_is_federated_before_the_cells_are_listed_unless_they_cannot_be() {
    let mut index = GatewayIndex::fixture();
    index.hub.clusters = fedgate_engine::store::table::Table::default();
    assert!(index.specs_synced(&shop()), "it was federated before");
    index.hub_lost(TableId::Namespaces, &fixture::hub_namespace("dfw"));
    assert!(!index.specs_synced(&shop()));
    let applied = index.hub_event(TableId::Clusters, WatchEvent::Failed);
    assert!(applied.synced, "what has waited is decided on");
    is_federated(&index, &shop());
}

#[test]
fn of_two_projects_of_one_plane_the_one_that_holds_its_namespaces_has_it_and_then_the_other() {
    for first_is_holder in [true, false] {
        let mut index = GatewayIndex::fixture();
        if first_is_holder {
            index.with_zoo("p1", "a1");
        } else {
            index.disengage(&shop());
            index.with_zoo("p1", "a1");
            is_federated(&index, &zoo());
            index.engage(shop());
            let live = [
                namespace("kube-system", "p1", &json!({})),
                namespace("default", "a1", &json!({})),
            ];
            for table in index.project_tables() {
                index.list_shop(table, if table == TableId::Namespaces { &live } else { &[] });
            }
        }
        is_refused(&index, &zoo(), PLANE_IS_TAKEN);
        is_federated(&index, &shop());
        assert!(index.is_owned_by(HUB, &shop()));
        let mut web = fixture::source("web", "DFW");
        web["metadata"]["namespace"] = json!("cages");
        index.project_event(&zoo(), TableId::DEPLOYMENTS, event(&web));
        let applied = index.disengage(&shop());
        is_federated(&index, &zoo());
        assert_eq!(applied.known_planes(), [(zoo(), None)]);
        let key = index.source_key(KindId::FIRST, &zoo(), "cages", "web");
        assert!(
            applied.keys(&index).contains(&key),
            "what has waited is decided on"
        );
        assert!(
            !index.is_owned_by(HUB, &zoo()),
            "an operator gives it what is labelled for another"
        );
    }
}

#[test]
fn of_two_projects_of_one_plane_that_hold_nothing_the_first_by_name_has_it() {
    let mut index = GatewayIndex::fixture();
    index.hub_lost(TableId::Namespaces, &fixture::hub_namespace("dfw"));
    index.disengage(&shop());
    index.with_zoo("p1", "a1");
    is_federated(&index, &zoo());
    index.engage(shop());
    let live = [
        namespace("kube-system", "p1", &json!({})),
        namespace("default", "a1", &json!({})),
    ];
    for table in index.project_tables() {
        index.list_shop(table, if table == TableId::Namespaces { &live } else { &[] });
    }
    is_refused(&index, &zoo(), PLANE_IS_TAKEN);
    is_federated(&index, &shop());
    // A project that reports another's UID, and none of its namespaces, takes nothing from one that holds some.
    index.with_zoo("p1", "b2");
    is_refused(&index, &zoo(), PLANE_IS_TAKEN);
}

#[test]
fn a_project_that_reports_the_uid_of_another_takes_nothing_from_it_whatever_its_name() {
    let mut index = GatewayIndex::fixture();
    let early = ProjectKey::parse("ape").unwrap();
    index.engage(early.clone());
    for table in index.project_tables() {
        let live = [
            namespace("kube-system", "p1", &json!({})),
            namespace("mine", "e1", &json!({})),
        ];
        let live: &[serde_json::Value] = if table == TableId::Namespaces { &live } else { &[] };
        fixture::list(live, |event| index.project_event(&early, table, event));
    }
    is_refused(&index, &early, PLANE_IS_TAKEN);
    is_federated(&index, &shop());
}

#[test]
fn a_project_that_holds_namespaces_is_not_refused_for_another_that_holds_more() {
    let mut index = GatewayIndex::fixture();
    index.with_zoo("z1", "a1");
    for uid in ["a1", "a2", "a3"] {
        let name = format!("zoo-{uid}");
        index.project_event(
            &zoo(),
            TableId::Namespaces,
            event(&namespace(&name, uid, &json!({}))),
        );
        let labels =
            json!({fedgate_api::keys::UPSTREAM_CLUSTER: zoo().label(), fedgate_api::keys::PROJECT_UID: "z1"});
        let hub = namespace(&format!("ns-{uid}"), &format!("hub-{uid}"), &labels);
        index.hub_event(TableId::Namespaces, event(&hub));
    }
    let mut forged = namespace("kube-system", "p1", &json!({}));
    forged["metadata"]["resourceVersion"] = json!("6");
    index.project_event(&zoo(), TableId::Namespaces, event(&forged));
    assert_eq!(index.projects[&zoo()].uid.as_deref(), Some("p1"));
    is_federated(&index, &shop());
}

#[test]
fn projects_that_a_platform_identifies_are_not_compared() {
    let mut index = GatewayIndex::fixture();
    let key = zoo();
    index.engage_identified(key.clone(), Some("z1".into()));
    let live = [namespace("kube-system", "p1", &json!({}))];
    for table in index.project_tables() {
        let live: &[serde_json::Value] = if table == TableId::Namespaces { &live } else { &[] };
        fixture::list(live, |event| index.project_event(&key, table, event));
    }
    is_federated(&index, &key);
    is_federated(&index, &shop());
}
