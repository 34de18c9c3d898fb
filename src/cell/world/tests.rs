//! What the index knows, and whom a change wakes.

mod reach;

use super::{Located, Reading, World, role::Role};
use crate::{
    api::keys,
    cell::fixture::{Fixture, NS, condition, deployment, instance, reading, shop},
    engine::key::{
        Key,
        Plane::{Cell, Hub, Project},
    },
    plane::watch::Event,
};
use serde_json::{Value, json};

fn web() -> Key {
    Role::Deployments.key(NS, "web")
}

fn first() -> Key {
    Role::Instances.key(NS, "web-0")
}

fn whole() -> Fixture {
    let mut fixture = Fixture::new(reading());
    fixture.has(&Cell, Role::Deployments, deployment("web", 1));
    fixture.has(&Cell, Role::Deployments, deployment("api", 1));
    fixture.has(&Cell, Role::Instances, instance("web", 0));
    fixture.has(&Cell, Role::Instances, instance("api", 0));
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
    assert_eq!(fixture.has(&Project(shop()), Role::Pods, of.clone()), []);
    assert_eq!(fixture.has(&Project(shop()), Role::Claims, of), [first()]);
}

#[test]
fn an_instance_concerns_itself_its_pod_and_its_deployment_alone() {
    let mut fixture = whole();
    let ready = json!({"status": {"conditions": [condition("Ready", "True", "Available")]}});
    let pod = Role::Pods.key(NS, "web-0");
    assert_eq!(
        fixture.change(&Cell, Role::Instances, NS, "web-0", &ready),
        [first(), pod.clone(), web()]
    );
    assert_eq!(
        fixture.change(&Cell, Role::Instances, NS, "web-0", &json!({})),
        [],
        "nothing has changed"
    );
    assert_eq!(
        fixture.lost(&Cell, Role::Instances, NS, "web-0"),
        [first(), pod, web()]
    );
    let renamed = json!({"metadata": {"namespace": NS, "name": "web-7"}});
    assert!(
        fixture.has(&Cell, Role::Instances, renamed).contains(&web()),
        "it holds a name of the deployment's"
    );
}

#[test]
fn a_namespaces_labels_concern_all_that_is_in_it() {
    let mut fixture = whole();
    let moved = json!({"metadata": {"labels": {keys::UPSTREAM_NAMESPACE: "other"}}});
    let api = Role::Instances.key(NS, "api-0");
    let all = [api.clone(), first(), Role::Deployments.key(NS, "api"), web()];
    assert_eq!(fixture.change(&Cell, Role::Namespaces, "", NS, &moved), all);
    assert_eq!(fixture.change(&Hub, Role::HubNamespaces, "", NS, &moved), all);
    let unread = json!({"metadata": {"labels": {"mine": "yes"}}});
    assert_eq!(fixture.change(&Cell, Role::Namespaces, "", NS, &unread), []);
}

#[test]
fn a_companion_concerns_those_alone_that_wait_for_it() {
    let mut fixture = whole();
    let gate = json!({"spec": {"controller": {"schedulingGates": [{"name": "ReferencedData"}]}}});
    for name in ["web-0", "api-0"] {
        fixture.change(&Cell, Role::Instances, NS, name, &gate);
    }
    let expects = json!({"metadata": {"annotations": {keys::EXPECTED_REFERENCED_DATA: r#"["Secret/db"]"#}}});
    assert_eq!(
        fixture.change(&Cell, Role::Deployments, NS, "web", &expects),
        [web(), first()]
    );
    let db = json!({"metadata": {"namespace": NS, "name": "db"}});
    assert_eq!(fixture.has(&Cell, Role::Secrets, db), [first()]);
    let changed = json!({"data": {"a": "b"}});
    assert_eq!(
        fixture.change(&Cell, Role::Secrets, NS, "db", &changed),
        [],
        "its content rolls nothing"
    );
    let open = json!({"spec": {"controller": {"schedulingGates": []}}});
    fixture.change(&Cell, Role::Instances, NS, "web-0", &open);
    assert_eq!(
        fixture.lost(&Cell, Role::Secrets, NS, "db"),
        [],
        "nobody waits any more"
    );
    let error = json!({"metadata": {"annotations": {keys::REFERENCED_DATA_ERROR: "{}"}}});
    let api = Role::Deployments.key(NS, "api");
    assert_eq!(
        fixture.change(&Cell, Role::Deployments, NS, "api", &error),
        [api, Role::Instances.key(NS, "api-0")]
    );
}

#[test]
fn one_of_a_hundred_companions_concerns_its_own_instances_alone() {
    let mut fixture = Fixture::new(reading());
    let name = |n: usize| format!("web{n}");
    let all: Vec<String> = (0..100).map(|n| format!("Secret/db{n}")).collect();
    // One waits for all of them, the others for one each.
    for n in 0..=100 {
        let expected = if n == 100 { json!(all) } else { json!([all[n]]) };
        let mut of = deployment(&name(n), 1);
        of["metadata"]["annotations"] = json!({keys::EXPECTED_REFERENCED_DATA: expected.to_string()});
        fixture.has(&Cell, Role::Deployments, of);
        let mut waits = instance(&name(n), 0);
        waits["spec"]["controller"]["schedulingGates"] = json!([{"name": "ReferencedData"}]);
        fixture.has(&Cell, Role::Instances, waits);
    }
    for n in [0, 37, 99] {
        let db = json!({"metadata": {"namespace": NS, "name": format!("db{n}")}});
        let mut woken = fixture.has(&Cell, Role::Secrets, db);
        woken.sort();
        let mut waiting = [n, 100].map(|n| Role::Instances.key(NS, &format!("{}-0", name(n))));
        waiting.sort();
        assert_eq!(woken, waiting, "Secret db{n}");
    }
    let other = json!({"metadata": {"namespace": NS, "name": "db100"}});
    assert_eq!(
        fixture.has(&Cell, Role::Secrets, other),
        [],
        "nobody waits for it"
    );
}

#[test]
fn a_claim_concerns_its_instance_and_none_of_another_project_or_cell() {
    let mut fixture = whole();
    let project = Project(shop());
    assert_eq!(
        fixture.has(&project, Role::Claims, claim("dfw-1", NS, "instance-web-0")),
        [first()]
    );
    let granted = json!({"status": {"conditions": [condition("Granted", "True", "QuotaAvailable")]}});
    assert_eq!(
        fixture.change(&project, Role::Claims, "default", "instance-web-0", &granted),
        [first()]
    );
    assert_eq!(
        fixture.has(&project, Role::Claims, claim("lhr-1", NS, "instance-web-1")),
        []
    );
    assert_eq!(
        fixture.has(&project, Role::Claims, claim("dfw-1", NS, "web-1")),
        []
    );
    let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-other", keys::UPSTREAM_NAMESPACE: "default"});
    fixture.has(
        &Cell,
        Role::Namespaces,
        json!({"metadata": {"name": "ns-b1", "labels": labels}}),
    );
    let theirs = claim("dfw-1", "ns-b1", "instance-db-0");
    assert_eq!(
        fixture.has(&project, Role::Claims, theirs),
        [],
        "the namespace is another project's"
    );
    assert_eq!(
        fixture.lost(&project, Role::Claims, "default", "instance-web-0"),
        [first()]
    );
}

#[test]
fn the_place_concerns_every_deployment_and_whoever_waits_for_the_network() {
    let mut fixture = Fixture::new(Reading {
        networking: true,
        place: None,
        ..reading()
    });
    fixture.has(&Cell, Role::Deployments, deployment("web", 1));
    let mut gated = instance("web", 0);
    gated["spec"]["controller"]["schedulingGates"] = json!([{"name": "Network"}]);
    fixture.has(&Cell, Role::Instances, gated);
    fixture.has(&Cell, Role::Instances, instance("web", 1));
    let place = json!({"metadata": {"name": "one"}, "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
    assert_eq!(
        fixture.has(&Cell, Role::ServingLocations, place),
        [web(), first()]
    );
    assert_eq!(
        fixture.lost(&Cell, Role::ServingLocations, "", "one"),
        [web(), first()]
    );
}

#[test]
fn where_the_cell_is_follows_from_configuration_or_the_one_place() {
    let located = |reading: Reading, places: &[&str]| {
        let mut fixture = Fixture::new(reading);
        for name in places {
            let place = json!({"metadata": {"name": name}, "spec": {"topology": {keys::CITY_CODE: "LHR"}}});
            fixture.has(&Cell, Role::ServingLocations, place);
        }
        let at = fixture.context.world.lock().located();
        match at {
            Located::At { location, city } => format!("{} in {city}", location.name),
            other => format!("{other:?}"),
        }
    };
    let told = Reading {
        networking: true,
        place: None,
        ..reading()
    };
    assert_eq!(located(reading(), &[]), "us-south-1 in DFW");
    assert_eq!(
        located(
            Reading {
                place: None,
                ..reading()
            },
            &[]
        ),
        "Untold"
    );
    assert_eq!(located(told.clone(), &[]), "Nowhere");
    assert_eq!(located(told.clone(), &["eu"]), "eu in LHR");
    assert_eq!(located(told, &["eu", "uk"]), "Ambiguous(2)");
}

#[test]
fn a_namespace_names_its_project_by_both_labels() {
    let origin = |reading: Reading, labels: Value| {
        let mut fixture = Fixture::new(reading);
        fixture.has(
            &Cell,
            Role::Namespaces,
            json!({"metadata": {"name": "ns-b1", "labels": labels}}),
        );
        let origin = fixture.context.world.lock().origin("ns-b1");
        origin.map(|(project, namespace)| format!("{project} {namespace}"))
    };
    let both = |cluster: &str| json!({keys::UPSTREAM_CLUSTER: cluster, keys::UPSTREAM_NAMESPACE: "default"});
    assert_eq!(
        origin(reading(), both("cluster-shop")).as_deref(),
        Some("shop default")
    );
    assert_eq!(
        origin(reading(), both("cluster-org_shop")).as_deref(),
        Some("org/shop default")
    );
    assert_eq!(origin(reading(), both("shop")), None);
    assert_eq!(
        origin(reading(), json!({keys::UPSTREAM_CLUSTER: "cluster-shop"})),
        None
    );
    let alone = Reading {
        project: Some(shop()),
        hub: false,
        ..reading()
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
    let mut world = fixture.context.world.lock();
    let both = [Role::Deployments.key(NS, "api"), web()];
    let (one, other) = (first(), Role::Instances.key(NS, "api-0"));
    assert_eq!(world.quota_failed(&shop(), one.clone()), both);
    assert_eq!(world.quota_failed(&shop(), other.clone()), [], "no news");
    assert_eq!(world.quota_unwanted(&one), []);
    assert!(world.is_quota_away(&shop()), "the other still asks");
    assert_eq!(world.quota_unwanted(&other), both);
    assert!(!world.is_quota_away(&shop()));
    assert_eq!(world.quota_answered(&shop()), []);
    world.quota_failed(&shop(), one);
    assert_eq!(world.quota_answered(&shop()), both);
}

#[test]
fn nothing_is_decided_before_every_list_of_the_cell_is_there() {
    let mut world = World::new(reading());
    let roles = world.cell_roles();
    for role in &roles {
        assert!(!world.cell_ready(), "{role:?} is missing");
        world.event(&Cell, *role, Event::Began);
        assert!(world.event(&Cell, *role, Event::Complete).synced);
    }
    assert!(world.cell_ready() && !world.hub_ready());
}

#[test]
fn a_key_has_its_role_by_plane_and_name() {
    let world = World::new(reading());
    let role =
        |plane, of: Role, namespace: &str, name: &str| world.role_of(plane, &of.kind(), namespace, name);
    assert_eq!(role(&Cell, Role::Instances, NS, "a"), Some(Role::Instances));
    assert_eq!(role(&Hub, Role::Instances, NS, "a"), Some(Role::HubInstances));
    assert_eq!(role(&Hub, Role::Pods, NS, "a"), None);
    let own = "fedgate-system";
    assert_eq!(
        role(&Cell, Role::ConfigMaps, own, "fedgate-releases-0"),
        Some(Role::Releases)
    );
    assert_eq!(
        role(&Cell, Role::ConfigMaps, NS, "fedgate-releases-0"),
        Some(Role::ConfigMaps),
        "a tenant's own"
    );
    assert_eq!(
        role(&Project(shop()), Role::Claims, "default", "a"),
        Some(Role::Claims)
    );
}

#[test]
fn instances_whose_grant_is_not_seen_are_counted() {
    let mut fixture = whole();
    assert_eq!(
        fixture.context.world.lock().unverified(),
        0,
        "nothing was granted"
    );
    let granted = json!({"status": {"conditions": [condition("QuotaGranted", "True", "QuotaAvailable")]}});
    for name in ["web-0", "api-0"] {
        fixture.change(&Cell, Role::Instances, NS, name, &granted);
    }
    assert_eq!(fixture.context.world.lock().unverified(), 2);
    let mut claim = claim("dfw-1", NS, "instance-web-0");
    claim["status"] = json!({"conditions": [condition("Granted", "True", "QuotaAvailable")]});
    fixture.has(&Project(shop()), Role::Claims, claim);
    assert_eq!(fixture.context.world.lock().unverified(), 1);
}

#[test]
fn pods_are_looked_at_where_a_provider_that_is_off_has_left_its_finalizer() {
    let mut off = reading();
    off.provider = false;
    let mut fixture = Fixture::new(off);
    fixture.has(&Cell, Role::Instances, instance("web", 0));
    assert!(!fixture.context.world.lock().looks_at_pods());
    let left = json!({"metadata": {"finalizers": [keys::PROVIDER_FINALIZER]}});
    let woken = fixture.change(&Cell, Role::Instances, NS, "web-0", &left);
    assert!(fixture.context.world.lock().looks_at_pods());
    assert!(woken.contains(&Role::Pods.key(NS, "web-0")), "{woken:?}");
    assert!(
        fixture.context.world.lock().cell_ready(),
        "their lists hold nothing else up"
    );
}

#[test]
fn projects_are_needed_for_what_is_here_for_claims_and_for_records() {
    let mut fixture = Fixture::new(reading());
    let needed = |fixture: &Fixture, quota| {
        let needed = fixture.context.world.lock().needed_projects(quota);
        needed.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(needed(&fixture, true), Vec::<String>::new());
    fixture.has(&Cell, Role::Deployments, deployment("web", 1));
    assert_eq!(needed(&fixture, true), ["shop"]);
    assert_eq!(needed(&fixture, false), Vec::<String>::new());
    fixture.has(
        &Project(shop()),
        Role::Claims,
        claim("dfw-1", NS, "instance-web-0"),
    );
    assert_eq!(needed(&fixture, false), ["shop"]);
    let record =
        json!([{"plane": "other", "kind": "ResourceClaim", "namespace": "default", "name": "instance-a"}]);
    let map = json!({"metadata": {"namespace": "fedgate-system", "name": "fedgate-releases-1"},
        "data": {"u-1": record.to_string()}});
    fixture.has(&Cell, Role::Releases, map);
    assert_eq!(needed(&fixture, false), ["other", "shop"]);
}
