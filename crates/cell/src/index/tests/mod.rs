//! Tests: contents of the index, and the keys that each change enqueues.

mod health;

use super::{CellIndex, CellLocation, Settings, tables::TableId};
use crate::testing::{Fixture, NS, condition, deployment, instance, settings, shop};
use fedgate_api::keys;
use fedgate_engine::{
    key::{
        Key,
        Plane::{Cell, Hub, Project},
    },
    plane::watch::WatchEvent,
};
use serde_json::{Value, json};

fn web() -> Key {
    TableId::Deployments.key(NS, "web")
}

fn first() -> Key {
    TableId::Instances.key(NS, "web-0")
}

fn whole() -> Fixture {
    let mut fixture = Fixture::new(settings());
    fixture.has(&Cell, TableId::Deployments, deployment("web", 1));
    fixture.has(&Cell, TableId::Deployments, deployment("api", 1));
    fixture.has(&Cell, TableId::Instances, instance("web", 0));
    fixture.has(&Cell, TableId::Instances, instance("api", 0));
    fixture
}

fn claim(cell: &str, namespace: &str, name: &str) -> Value {
    json!({"metadata": {"namespace": "default", "name": name, "annotations": {keys::INSTANCE_UID: "u-web-0"},
        "labels": {keys::SOURCE_CLUSTER: cell, keys::INSTANCE_NAMESPACE: namespace}}})
}

#[test]
fn of_a_project_claims_alone_are_taken_in() {
    let mut fixture = whole();
    let of = claim("dfw-1", NS, "instance-web-0");
    assert_eq!(fixture.has(&Project(shop()), TableId::Pods, of.clone()), []);
    assert_eq!(fixture.has(&Project(shop()), TableId::Claims, of), [first()]);
}

#[test]
fn an_instance_concerns_itself_its_pod_and_its_deployment_alone() {
    let mut fixture = whole();
    let ready = json!({"status": {"conditions": [condition("Ready", "True", "Available")]}});
    let pod = TableId::Pods.key(NS, "web-0");
    assert_eq!(
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &ready),
        [web(), first(), pod.clone()]
    );
    assert_eq!(
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &json!({})),
        [],
        "nothing has changed"
    );
    assert_eq!(
        fixture.lost(&Cell, TableId::Instances, NS, "web-0"),
        [web(), first(), pod]
    );
    let renamed = json!({"metadata": {"namespace": NS, "name": "web-7"}});
    assert!(
        fixture.has(&Cell, TableId::Instances, renamed).contains(&web()),
        "it holds a name of the deployment's"
    );
}

#[test]
fn a_namespaces_labels_concern_all_that_is_in_it() {
    let mut fixture = whole();
    let moved = json!({"metadata": {"labels": {keys::UPSTREAM_NAMESPACE: "other"}}});
    let api = TableId::Instances.key(NS, "api-0");
    let all = [TableId::Deployments.key(NS, "api"), web(), api.clone(), first()];
    assert_eq!(fixture.change(&Cell, TableId::Namespaces, "", NS, &moved), all);
    assert_eq!(fixture.change(&Hub, TableId::HubNamespaces, "", NS, &moved), all);
    let unread = json!({"metadata": {"labels": {"mine": "yes"}}});
    assert_eq!(fixture.change(&Cell, TableId::Namespaces, "", NS, &unread), []);
}

#[test]
fn a_companion_concerns_those_alone_that_wait_for_it() {
    let mut fixture = whole();
    let gate = json!({"spec": {"controller": {"schedulingGates": [{"name": "ReferencedData"}]}}});
    for name in ["web-0", "api-0"] {
        fixture.change(&Cell, TableId::Instances, NS, name, &gate);
    }
    let expects = json!({"metadata": {"annotations": {keys::EXPECTED_REFERENCED_DATA: r#"["Secret/db"]"#}}});
    assert_eq!(
        fixture.change(&Cell, TableId::Deployments, NS, "web", &expects),
        [web(), first()]
    );
    let db = json!({"metadata": {"namespace": NS, "name": "db"}});
    assert_eq!(fixture.has(&Cell, TableId::Secrets, db), [first()]);
    let changed = json!({"data": {"a": "b"}});
    assert_eq!(
        fixture.change(&Cell, TableId::Secrets, NS, "db", &changed),
        [],
        "its content rolls nothing"
    );
    let open = json!({"spec": {"controller": {"schedulingGates": []}}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &open);
    assert_eq!(
        fixture.lost(&Cell, TableId::Secrets, NS, "db"),
        [],
        "nobody waits any more"
    );
    let error = json!({"metadata": {"annotations": {keys::REFERENCED_DATA_ERROR: "{}"}}});
    let api = TableId::Deployments.key(NS, "api");
    assert_eq!(
        fixture.change(&Cell, TableId::Deployments, NS, "api", &error),
        [api, TableId::Instances.key(NS, "api-0")]
    );
}

#[test]
fn one_of_a_hundred_companions_concerns_its_own_instances_alone() {
    let mut fixture = Fixture::new(settings());
    let name = |n: usize| format!("web{n}");
    let all: Vec<String> = (0..100).map(|n| format!("Secret/db{n}")).collect();
    // The last deployment waits for all Secrets, each other deployment for one Secret.
    for n in 0..=100 {
        let expected = if n == 100 { json!(all) } else { json!([all[n]]) };
        let mut of = deployment(&name(n), 1);
        of["metadata"]["annotations"] = json!({keys::EXPECTED_REFERENCED_DATA: expected.to_string()});
        fixture.has(&Cell, TableId::Deployments, of);
        let mut waits = instance(&name(n), 0);
        waits["spec"]["controller"]["schedulingGates"] = json!([{"name": "ReferencedData"}]);
        fixture.has(&Cell, TableId::Instances, waits);
    }
    for n in [0, 37, 99] {
        let db = json!({"metadata": {"namespace": NS, "name": format!("db{n}")}});
        let mut enqueued = fixture.has(&Cell, TableId::Secrets, db);
        enqueued.sort();
        let mut waiting = [n, 100].map(|n| TableId::Instances.key(NS, &format!("{}-0", name(n))));
        waiting.sort();
        assert_eq!(enqueued, waiting, "Secret db{n}");
    }
    let other = json!({"metadata": {"namespace": NS, "name": "db100"}});
    assert_eq!(
        fixture.has(&Cell, TableId::Secrets, other),
        [],
        "nobody waits for it"
    );
}

#[test]
fn a_claim_concerns_its_instance_and_none_of_another_project_or_cell() {
    let mut fixture = whole();
    let project = Project(shop());
    assert_eq!(
        fixture.has(&project, TableId::Claims, claim("dfw-1", NS, "instance-web-0")),
        [first()]
    );
    let granted = json!({"status": {"conditions": [condition("Granted", "True", "QuotaAvailable")]}});
    assert_eq!(
        fixture.change(&project, TableId::Claims, "default", "instance-web-0", &granted),
        [first()]
    );
    assert_eq!(
        fixture.has(&project, TableId::Claims, claim("lhr-1", NS, "instance-web-1")),
        []
    );
    assert_eq!(
        fixture.has(&project, TableId::Claims, claim("dfw-1", NS, "web-1")),
        []
    );
    let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-other", keys::UPSTREAM_NAMESPACE: "default"});
    fixture.has(
        &Cell,
        TableId::Namespaces,
        json!({"metadata": {"name": "ns-b1", "labels": labels}}),
    );
    let theirs = claim("dfw-1", "ns-b1", "instance-db-0");
    assert_eq!(
        fixture.has(&project, TableId::Claims, theirs),
        [],
        "the namespace is another project's"
    );
    assert_eq!(
        fixture.lost(&project, TableId::Claims, "default", "instance-web-0"),
        [first()]
    );
}

#[test]
fn the_place_concerns_every_deployment_and_whoever_waits_for_the_network() {
    let mut fixture = Fixture::new(unplaced());
    fixture.has(&Cell, TableId::Deployments, deployment("web", 1));
    let mut gated = instance("web", 0);
    gated["spec"]["controller"]["schedulingGates"] = json!([{"name": "Network"}]);
    fixture.has(&Cell, TableId::Instances, gated);
    fixture.has(&Cell, TableId::Instances, instance("web", 1));
    let place = json!({"metadata": {"name": "one"}, "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
    assert_eq!(
        fixture.has(&Cell, TableId::ServingLocations, place),
        [web(), first()]
    );
    assert_eq!(
        fixture.lost(&Cell, TableId::ServingLocations, "", "one"),
        [web(), first()]
    );
}

/// The location of a cell with these `ServingLocations`, each with its city, of the network services and of Milo's service.
fn located(settings: Settings, of_networking: &[&str], of_milo: &[&str]) -> String {
    let mut fixture = Fixture::new(settings);
    let tables = [
        (TableId::ServingLocations, of_networking),
        (TableId::MiloServingLocations, of_milo),
    ];
    for (table, places) in tables {
        for name in places {
            let topology = json!({keys::CITY_CODE: "LHR"});
            let place = json!({"metadata": {"name": name}, "spec": {"topology": topology}});
            fixture.has(&Cell, table, place);
        }
    }
    let at = fixture.context.index.lock().located();
    match at {
        CellLocation::At { location, city } => format!("{} in {city}", location.name),
        other => format!("{other:?}"),
    }
}

fn unplaced() -> Settings {
    Settings {
        networking: true,
        place: None,
        ..settings()
    }
}

#[test]
fn where_the_cell_is_follows_from_configuration_or_the_one_place() {
    assert_eq!(located(settings(), &[], &[]), "us-south-1 in DFW");
    let untold = Settings {
        place: None,
        ..settings()
    };
    assert_eq!(located(untold, &[], &[]), "Untold");
    assert_eq!(located(unplaced(), &[], &[]), "Nowhere");
    assert_eq!(located(unplaced(), &["eu"], &[]), "eu in LHR");
    assert_eq!(located(unplaced(), &["eu", "uk"], &[]), "Ambiguous(2)");
}

/// Case 19 of locations.md §4.
#[test]
fn places_of_both_groups_are_one_if_their_names_are() {
    let located = |of_networking: &[&str], of_milo: &[&str]| located(unplaced(), of_networking, of_milo);
    assert_eq!(located(&[], &["eu"]), "eu in LHR");
    assert_eq!(located(&["eu"], &["eu"]), "eu in LHR");
    assert_eq!(located(&["eu"], &["uk"]), "Ambiguous(2)");
    assert_eq!(located(&["eu"], &["eu", "uk"]), "Ambiguous(2)");
}

#[test]
fn a_namespace_names_its_project_by_both_labels() {
    let origin = |settings: Settings, labels: Value| {
        let mut fixture = Fixture::new(settings);
        fixture.has(
            &Cell,
            TableId::Namespaces,
            json!({"metadata": {"name": "ns-b1", "labels": labels}}),
        );
        let origin = fixture.context.index.lock().origin("ns-b1");
        origin.map(|(project, namespace)| format!("{project} {namespace}"))
    };
    let both = |cluster: &str| json!({keys::UPSTREAM_CLUSTER: cluster, keys::UPSTREAM_NAMESPACE: "default"});
    assert_eq!(
        origin(settings(), both("cluster-shop")).as_deref(),
        Some("shop default")
    );
    assert_eq!(
        origin(settings(), both("cluster-org_shop")).as_deref(),
        Some("org/shop default")
    );
    assert_eq!(origin(settings(), both("shop")), None);
    assert_eq!(
        origin(settings(), json!({keys::UPSTREAM_CLUSTER: "cluster-shop"})),
        None
    );
    let alone = Settings {
        project: Some(shop()),
        hub: false,
        ..settings()
    };
    assert_eq!(
        origin(alone, json!({})).as_deref(),
        Some("shop ns-b1"),
        "it is its own project's"
    );
}

#[test]
fn a_project_is_away_until_it_answers_or_nobody_asks() {
    let fixture = whole();
    let mut index = fixture.context.index.lock();
    let both = [TableId::Deployments.key(NS, "api"), web()];
    let (one, other) = (first(), TableId::Instances.key(NS, "api-0"));
    assert_eq!(index.quota_failed(&shop(), one.clone()), both);
    assert_eq!(index.quota_failed(&shop(), other.clone()), [], "no news");
    assert_eq!(index.quota_unwanted(&one), []);
    assert!(
        index.quota_unavailable.contains_key(&shop()),
        "the other still asks"
    );
    assert_eq!(index.quota_unwanted(&other), both);
    assert!(!index.quota_unavailable.contains_key(&shop()));
    assert_eq!(index.quota_answered(&shop()), []);
    index.quota_failed(&shop(), one);
    assert_eq!(index.quota_answered(&shop()), both);
}

#[test]
fn nothing_is_decided_before_every_list_of_the_cell_is_there() {
    let mut index = CellIndex::new(settings());
    let tables = index.cell_tables();
    for table in &tables {
        assert!(!index.cell_ready(), "{table:?} is missing");
        index.event(&Cell, *table, WatchEvent::Init);
        assert!(index.event(&Cell, *table, WatchEvent::InitDone).synced);
    }
    assert!(index.cell_ready() && !index.hub_ready());
}

#[test]
fn a_key_has_its_role_by_plane_and_name() {
    let index = CellIndex::new(settings());
    let table = |plane, of: TableId, namespace: &str, name: &str| {
        index.table_of_object(plane, &of.kind(), namespace, name)
    };
    assert_eq!(
        table(&Cell, TableId::Instances, NS, "a"),
        Some(TableId::Instances)
    );
    assert_eq!(
        table(&Hub, TableId::Instances, NS, "a"),
        Some(TableId::HubInstances)
    );
    assert_eq!(table(&Hub, TableId::Pods, NS, "a"), None);
    let own = "fedgate-system";
    assert_eq!(
        table(&Cell, TableId::ConfigMaps, own, "fedgate-releases-0"),
        Some(TableId::Releases)
    );
    assert_eq!(
        table(&Cell, TableId::ConfigMaps, NS, "fedgate-releases-0"),
        Some(TableId::ConfigMaps),
        "a tenant's own"
    );
    assert_eq!(
        table(&Project(shop()), TableId::Claims, "default", "a"),
        Some(TableId::Claims)
    );
}

#[test]
fn pods_are_looked_at_where_a_provider_that_is_off_has_left_its_finalizer() {
    let mut off = settings();
    off.provider = false;
    let mut fixture = Fixture::new(off);
    fixture.has(&Cell, TableId::Instances, instance("web", 0));
    assert!(!fixture.context.index.lock().watches_pods());
    let left = json!({"metadata": {"finalizers": [keys::PROVIDER_FINALIZER]}});
    let enqueued = fixture.change(&Cell, TableId::Instances, NS, "web-0", &left);
    assert!(fixture.context.index.lock().watches_pods());
    assert!(enqueued.contains(&TableId::Pods.key(NS, "web-0")), "{enqueued:?}");
    assert!(
        fixture.context.index.lock().cell_ready(),
        "their lists hold nothing else up"
    );
}

#[test]
fn projects_are_needed_for_what_is_here_for_claims_and_for_records() {
    let mut fixture = Fixture::new(settings());
    let needed = |fixture: &Fixture, quota| {
        let needed = fixture.context.index.lock().needed_projects(quota);
        needed.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(needed(&fixture, true), Vec::<String>::new());
    fixture.has(&Cell, TableId::Deployments, deployment("web", 1));
    assert_eq!(needed(&fixture, true), ["shop"]);
    assert_eq!(needed(&fixture, false), Vec::<String>::new());
    fixture.has(
        &Project(shop()),
        TableId::Claims,
        claim("dfw-1", NS, "instance-web-0"),
    );
    assert_eq!(needed(&fixture, false), ["shop"]);
    let record =
        json!([{"plane": "other", "kind": "ResourceClaim", "namespace": "default", "name": "instance-a"}]);
    let map = json!({"metadata": {"namespace": "fedgate-system", "name": "fedgate-releases-1"},
        "data": {"u-1": record.to_string()}});
    fixture.has(&Cell, TableId::Releases, map);
    assert_eq!(needed(&fixture, false), ["other", "shop"]);
}
