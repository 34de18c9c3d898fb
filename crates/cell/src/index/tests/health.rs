//! Tests: keys enqueued for networking, projects and the sweep; fields that the digests contain.

use super::*;
use crate::index::{digest::Owner, watches::Command};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{key::Plane, runtime::index::Index};
use kube::core::DynamicObject;

fn other() -> ProjectKey {
    ProjectKey::parse("other").unwrap()
}

/// Adds a namespace of a second tenant with one Instance.
fn with_another_project(fixture: &mut Fixture) {
    let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-other", keys::UPSTREAM_NAMESPACE: "default"});
    let namespace = json!({"metadata": {"name": "ns-b1", "labels": labels}});
    fixture.has(&Cell, TableId::Namespaces, namespace);
    let mut theirs = instance("web", 0);
    theirs["metadata"]["namespace"] = json!("ns-b1");
    fixture.has(&Cell, TableId::Instances, theirs);
}

#[test]
fn a_context_and_its_subnet_concern_those_alone_whose_binding_leads_there() {
    let mut fixture = Fixture::new(Settings {
        networking: true,
        ..settings()
    });
    for (name, leads) in [
        ("web", ("net", "ctx")),
        ("api", ("net", "else")),
        ("job", ("far", "ctx")),
    ] {
        fixture.has(&Cell, TableId::Deployments, deployment(name, 2));
        for (ordinal, gate) in [(0, "Network"), (1, "Quota")] {
            let mut waits = instance(name, ordinal);
            waits["spec"]["controller"]["schedulingGates"] = json!([{"name": gate}]);
            fixture.has(&Cell, TableId::Instances, waits);
        }
        let binding = json!({"metadata": {"namespace": NS, "name": format!("{name}-net-0")},
            "status": {"networkContextRef": {"namespace": leads.0, "name": leads.1}}});
        fixture.has(&Cell, TableId::Bindings, binding);
    }
    let context = json!({"metadata": {"namespace": "net", "name": "ctx"}});
    assert_eq!(fixture.has(&Cell, TableId::Contexts, context), [web(), first()]);
    for (claim, context, subnet) in [("ctx-0", "ctx", "sub"), ("else-0", "else", "other")] {
        let claim = json!({"metadata": {"namespace": "net", "name": claim},
            "spec": {"networkContext": {"name": context}}, "status": {"subnetRef": {"name": subnet}}});
        fixture.has(&Cell, TableId::SubnetClaims, claim);
    }
    let subnet = json!({"metadata": {"namespace": "net", "name": "sub"}});
    assert_eq!(fixture.has(&Cell, TableId::Subnets, subnet), [web(), first()]);
}

#[test]
fn a_project_concerns_its_own_instances_and_records() {
    let mut fixture = whole();
    with_another_project(&mut fixture);
    let record =
        json!([{"plane": "other", "kind": "ResourceClaim", "namespace": "default", "name": "instance-a"}]);
    let map = json!({"metadata": {"namespace": "fedgate-system", "name": "fedgate-releases-1"},
        "data": {"u-1": record.to_string()}});
    fixture.has(&Cell, TableId::Releases, map);
    let index = fixture.context.index.lock();
    let theirs = TableId::Instances.key("ns-b1", "web-0");
    assert_eq!(index.instances_of_project(&other()), [theirs]);
    assert_eq!(
        index.instances_of_project(&shop()),
        [TableId::Instances.key(NS, "api-0"), first()]
    );
    let records = [TableId::Releases.key("fedgate-system", "fedgate-releases-1")];
    assert_eq!(index.releases_of_project(&other()), records);
    assert_eq!(index.releases_of_project(&shop()), []);
}

#[test]
fn the_sweep_comes_by_everything_and_by_instances_that_left_a_copy_or_a_claim() {
    let mut fixture = Fixture::new(settings());
    fixture.has(&Cell, TableId::Deployments, deployment("web", 1));
    fixture.has(&Cell, TableId::Instances, instance("web", 0));
    let mut copy = instance("web", 1);
    copy["metadata"]["labels"][keys::CELL] = json!("dfw-1");
    fixture.has(&Hub, TableId::HubInstances, copy);
    let left = claim("dfw-1", NS, "instance-web-2");
    fixture.has(&Project(shop()), TableId::Claims, left);
    let pod = json!({"metadata": {"namespace": NS, "name": "web-3"}});
    fixture.has(&Cell, TableId::Pods, pod);
    let map = json!({"metadata": {"namespace": "fedgate-system", "name": "fedgate-releases-1"}, "data": {}});
    fixture.has(&Cell, TableId::Releases, map);
    let index = fixture.context.index.lock();
    let instances = ["web-0", "web-1", "web-2"].map(|name| TableId::Instances.key(NS, name));
    assert_eq!(index.instance_keys(), instances);
    let mut all = vec![web()];
    all.extend(instances);
    all.extend(["web-0", "web-3"].map(|name| TableId::Pods.key(NS, name)));
    all.push(TableId::Releases.key("fedgate-system", "fedgate-releases-1"));
    assert_eq!(index.reconcilable_keys(), all);
    assert_eq!(
        (index.len(TableId::Deployments), index.len(TableId::Secrets)),
        (1, 0)
    );
}

#[test]
fn where_the_cell_is_is_known_once_it_is_told_or_its_places_are_listed() {
    let told = CellIndex::new(settings());
    assert!(told.location_known());
    let mut asks = CellIndex::new(Settings {
        networking: true,
        place: None,
        ..settings()
    });
    assert!(!asks.location_known());
    assert_eq!(
        asks.optional_kinds(&Cell),
        TableId::SERVING.map(TableId::resource)
    );
    assert_eq!(asks.optional_kinds(&Plane::Hub), []);
    let served = [TableId::ServingLocations.resource()];
    let found = asks.kinds_discovered(&Cell, 1, &served).watch;
    assert_eq!(found, [TableId::ServingLocations]);
    assert_eq!(
        asks.optional_kinds(&Cell),
        [TableId::MiloServingLocations.resource()]
    );
    asks.event(&Cell, TableId::ServingLocations, WatchEvent::Init);
    assert!(!asks.location_known());
    let listed = asks.event(&Cell, TableId::ServingLocations, WatchEvent::InitDone);
    assert!(matches!(listed.commands[..], [Command::LocationChanged]));
    assert!(asks.location_known(), "there is none");
    let place = json!({"apiVersion": "x.example.com/v1", "kind": "Place", "metadata": {"name": "one", "uid": "u", "resourceVersion": "7"},
        "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
    let place: Box<DynamicObject> = serde_json::from_value(place).unwrap();
    let moved = asks.event(&Cell, TableId::ServingLocations, WatchEvent::Apply(place));
    assert!(matches!(moved.commands[..], [Command::LocationChanged]));
}

#[test]
fn a_companion_concerns_who_says_that_it_waits_behind_no_gate() {
    let mut fixture = whole();
    let expects = json!({"metadata": {"annotations": {keys::EXPECTED_REFERENCED_DATA: r#"["Secret/db"]"#}}});
    fixture.change(&Cell, TableId::Deployments, NS, "web", &expects);
    let db = json!({"metadata": {"namespace": NS, "name": "db"}});
    for (status, enqueued) in [("False", vec![first()]), ("True", vec![])] {
        let said = json!({"status": {"conditions": [condition("ReferencedDataReady", status, "Ready")]}});
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &said);
        assert_eq!(
            fixture.has(&Cell, TableId::Secrets, db.clone()),
            enqueued,
            "{status}"
        );
        fixture.lost(&Cell, TableId::Secrets, NS, "db");
    }
}

#[test]
fn a_grant_is_seen_on_the_claim_of_this_cell_and_instance_alone() {
    let mut fixture = whole();
    let granted = json!({"status": {"conditions": [condition("QuotaGranted", "True", "QuotaAvailable")]}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &granted);
    for (cell, uid, status, unseen) in [
        ("lhr-1", "u-web-0", "True", 1),
        ("dfw-1", "u-former", "True", 1),
        ("dfw-1", "u-web-0", "False", 1),
        ("dfw-1", "u-web-0", "True", 0),
    ] {
        let mut claim = claim(cell, NS, "instance-web-0");
        claim["metadata"]["annotations"][keys::INSTANCE_UID] = json!(uid);
        claim["status"] = json!({"conditions": [condition("Granted", status, "QuotaAvailable")]});
        fixture.has(&Project(shop()), TableId::Claims, claim);
        assert_eq!(
            fixture.context.index.lock().unverified(),
            unseen,
            "{cell} {uid} {status}"
        );
    }
}

#[test]
fn only_a_provider_that_is_off_retires_and_only_for_an_instance() {
    let finalizers = json!([keys::PROVIDER_FINALIZER]);
    let object = |name: &str| -> Box<DynamicObject> {
        let object = json!({"apiVersion": "x.example.com/v1", "kind": "X",
            "metadata": {"namespace": NS, "name": name, "uid": "u", "resourceVersion": "7", "finalizers": finalizers}});
        serde_json::from_value(object).unwrap()
    };
    for (provider, table, retires) in [
        (true, TableId::Instances, false),
        (false, TableId::Secrets, false),
        (false, TableId::Instances, true),
    ] {
        let mut index = CellIndex::new(Settings {
            provider,
            ..settings()
        });
        let enqueued = index.event(&Cell, table, WatchEvent::Apply(object("a")));
        let watches = matches!(enqueued.commands[..], [Command::WatchPods]);
        assert_eq!(watches, retires, "{provider} {table:?}");
    }
}

#[test]
fn of_an_instance_its_controller_and_all_annotations_but_ours_are_read() {
    let mut fixture = Fixture::new(settings());
    let owner = |kind: &str, group: &str| {
        let mut of = instance("web", 0);
        of["metadata"]["annotations"] = json!({"shop.example.com/note": "x", keys::RECOVERY: "{}"});
        of["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
        of["metadata"]["ownerReferences"][0]["apiVersion"] = json!(format!("{group}/v1alpha"));
        of
    };
    for (kind, group, is_deployment) in [
        ("Workload", "compute.datumapis.com", false),
        ("WorkloadDeployment", "apps.example.com", false),
        ("WorkloadDeployment", "compute.datumapis.com", true),
    ] {
        fixture.has(&Cell, TableId::Instances, owner(kind, group));
        let index = fixture.context.index.lock();
        let read = &index.instances.get(NS, "web-0").unwrap().digest;
        let controller = Owner {
            is_deployment,
            name: "web".into(),
            uid: "u-web".into(),
        };
        assert_eq!(read.owner, Some(controller), "{kind} of {group}");
        assert_eq!(read.annotations.get("shop.example.com/note"), Some("x"));
        assert_eq!(read.annotations.get(keys::RECOVERY), None);
    }
}

#[test]
fn of_a_pod_its_address_its_ends_and_their_times_are_read() {
    let mut addressed = settings();
    addressed.pods.external_address = Some("x.example.com/address".into());
    let mut fixture = Fixture::new(addressed);
    let ended = json!({"exitCode": 3, "finishedAt": "2026-05-04T10:00:00Z", "containerID": "c"});
    for (address, state, read, has_ended) in [
        ("", json!({"running": {}}), None, false),
        ("192.0.2.1", json!({"terminated": ended}), Some("192.0.2.1"), true),
    ] {
        let pod = json!({
            "metadata": {"namespace": NS, "name": "web-0", "annotations": {"x.example.com/address": address}},
            "status": {"containerStatuses": [{"name": "web", "state": state, "lastState": {"terminated": ended}}]},
        });
        fixture.has(&Cell, TableId::Pods, pod);
        let index = fixture.context.index.lock();
        let digest = &index.pods.get(NS, "web-0").unwrap().digest;
        assert_eq!((digest.external.as_deref(), digest.has_ended), (read, has_ended));
        let last = &digest.seen()["status"]["containerStatuses"][0]["lastState"]["terminated"];
        assert_eq!(
            *last,
            json!({"exitCode": 3, "finishedAt": "2026-05-04T10:00:00Z"})
        );
    }
}

#[test]
fn of_a_binding_what_it_refuses_is_read() {
    let mut fixture = Fixture::new(Settings {
        networking: true,
        ..settings()
    });
    for (status, refused) in [("Unknown", false), ("False", true)] {
        let binding = json!({"metadata": {"namespace": NS, "name": "web-net-0", "uid": "b-1"},
            "status": {"conditions": [condition("Ready", status, "NetworkNotFound")]}});
        fixture.has(&Cell, TableId::Bindings, binding);
        let index = fixture.context.index.lock();
        let read = &index.bindings.get(NS, "web-net-0").unwrap().digest;
        assert_eq!(read.refusal.is_some(), refused, "{status}");
    }
}
