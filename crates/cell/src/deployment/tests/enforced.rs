//! Rules that the cell enforces itself, regardless of the deployment's author, and the rolls that it holds.

use super::*;
use crate::testing::shop;
use fedgate_engine::plan::Write;

const STATUS_ONLY: [&str; 1] = ["cell: patch workloaddeployments/status web: deployment_status"];

/// A deployment whose Instances are all ready.
fn up(replicas: u32) -> Fixture {
    let mut fixture = with(settings(), deployment("web", replicas));
    for ordinal in 0..replicas {
        settle(&mut fixture, "web");
        ready(&mut fixture, &format!("web-{ordinal}"));
    }
    settle(&mut fixture, "web");
    fixture
}

fn edit(fixture: &mut Fixture, spec: &Value) {
    fixture.change(&Cell, TableId::Deployments, NS, "web", &json!({"spec": spec}));
}

fn roll(fixture: &mut Fixture, revision: &str) {
    edit(
        fixture,
        &json!({"template": {"metadata": {"annotations": {"revision": revision}}}}),
    );
}

/// The Instance stops being ready, as its own controller reports it.
fn unready(fixture: &mut Fixture, name: &str) {
    let instance = fixture.get(&Cell, TableId::Instances, NS, name).unwrap();
    let mut conditions = instance["status"]["conditions"].as_array().unwrap().clone();
    conditions.retain(|c| c["type"] != "Ready");
    conditions.push(condition("Ready", "False", "InstanceCrashing"));
    conditions.push(condition("Initialized", "True", "Initialized"));
    let patch = json!({"status": {"conditions": conditions}});
    fixture.change(&Cell, TableId::Instances, NS, name, &patch);
}

/// The Instances that are deleted now.
fn deleted(fixture: &Fixture) -> Vec<String> {
    let all = effects(fixture, "web");
    let deletes = all
        .iter()
        .filter(|effect| matches!(effect.write, Write::Delete { .. }));
    deletes
        .map(|effect| format!("{}: {}", effect.target.name, effect.reason.label()))
        .collect()
}

#[track_caller]
fn refused(fixture: &Fixture, message: &str) {
    assert_eq!(
        status(fixture, "web", "Available").split(": ").next(),
        Some("False InvalidTemplate"),
    );
    let said = status(fixture, "web", "ReplicasReady");
    assert!(said.contains(message), "{said}");
}

#[test]
fn more_instances_than_the_cell_allows_make_none() {
    let mut fixture = with(settings(), deployment("web", 100_000));
    assert_eq!(words(&effects(&fixture, "web")), STATUS_ONLY);
    settle(&mut fixture, "web");
    refused(
        &fixture,
        "spec.scaleSettings.minReplicas: 100000 is not from 0 to 1000",
    );
    let web = fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap();
    assert_eq!(web["status"]["desiredReplicas"], 0);
}

#[test]
fn a_count_that_makes_no_sense_takes_nothing_away() {
    for count in [-1, i32::MIN, i32::MAX] {
        let mut fixture = up(2);
        edit(&mut fixture, &json!({"scaleSettings": {"minReplicas": count}}));
        assert_eq!(deleted(&fixture), [""; 0], "{count}");
        assert_eq!(settle(&mut fixture, "web"), STATUS_ONLY);
        assert_eq!(
            status(&fixture, "web", "Available"),
            "True StableInstanceFound: 2/2 instances are ready"
        );
        let said = status(&fixture, "web", "ReplicasReady");
        assert!(
            said.contains(&format!(
                "spec.scaleSettings.minReplicas: {count} is not from 0 to 1000"
            )),
            "{said}"
        );
        let web = fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap();
        assert_eq!(
            web["status"]["desiredReplicas"], 2,
            "the last count that made sense"
        );
    }
}

#[test]
fn a_type_and_limits_that_no_quota_knows_are_refused() {
    let runtime = |resources: Value, limits: Value| {
        json!({"template": {"spec": {"runtime": {"resources": resources, "sandbox": {"containers": [
            {"name": "web", "image": "shop/web:1", "resources": {"limits": limits}}]}}}}})
    };
    let known = json!({"instanceType": "datumcloud/d1-standard-2"});
    let at = "spec.template.spec.runtime";
    for (resources, limits, message) in [
        (
            json!({"instanceType": "acme/huge"}),
            json!({}),
            format!("{at}.resources.instanceType: acme/huge is not known at this cell"),
        ),
        (
            known.clone(),
            json!({"nvidia.com/gpu": 8}),
            format!("{at}.sandbox.containers[0].resources.limits: nvidia.com/gpu is not counted by quota"),
        ),
        (
            known,
            json!({"cpu": "-1", "memory": "1Gi"}),
            format!("{at}.sandbox.containers[0].resources.limits: cpu is not more than 0"),
        ),
    ] {
        let mut of = deployment("web", 1);
        crate::testing::merge(&mut of["spec"], &runtime(resources, limits));
        let mut fixture = with(settings(), of);
        assert_eq!(settle(&mut fixture, "web"), STATUS_ONLY, "{message}");
        refused(&fixture, &message);
    }
}

#[test]
fn a_network_of_another_namespace_is_refused_unless_a_setting_allows_it() {
    let of = |namespace: &str| {
        let mut of = deployment("web", 1);
        of["spec"]["template"]["spec"]["networkInterfaces"][0]["network"]["namespace"] = json!(namespace);
        of
    };
    let on = || Settings {
        networking: true,
        ..settings()
    };
    let mut fixture = with(on(), of("payments"));
    assert_eq!(settle(&mut fixture, "web"), STATUS_ONLY);
    refused(
        &fixture,
        "networkInterfaces[0].network.namespace: payments is not the deployment's own",
    );
    for own in ["default", NS] {
        let written = words(&effects(&with(on(), of(own)), "web"));
        assert!(
            written.contains(&"cell: create networkbindings web-net-0: network_binding".to_owned()),
            "{own}: {written:?}"
        );
    }
}

#[test]
fn a_roll_that_is_stuck_leaves_alone_what_served_and_stops_for_a_moment() {
    let mut fixture = up(3);
    roll(&mut fixture, "bad");
    assert_eq!(deleted(&fixture), ["web-2: instance_roll"]);
    let stop = effects(&fixture, "web");
    fixture.perform(&stop);
    fixture.lost(&Cell, TableId::Instances, NS, "web-2");
    settle(&mut fixture, "web");
    assert!(fixture.get(&Cell, TableId::Instances, NS, "web-2").is_some());
    unready(&mut fixture, "web-1");
    assert_eq!(deleted(&fixture), [""; 0]);
    unready(&mut fixture, "web-0");
    assert_eq!(deleted(&fixture), [""; 0]);
    settle(&mut fixture, "web");
    let said = status(&fixture, "web", "ReplicasReady");
    assert!(said.ends_with("waiting for web-2: Pending"), "{said}");
    roll(&mut fixture, "good");
    assert_eq!(
        deleted(&fixture),
        ["web-2: instance_fix_forward"],
        "the one that never served is mended first"
    );
}

#[test]
fn rolls_wait_where_no_grant_is_possible() {
    let held = |fixture: &mut Fixture| {
        roll(fixture, "next");
        assert_eq!(deleted(fixture), [""; 0]);
        settle(fixture, "web");
        let said = status(fixture, "web", "ReplicasReady");
        assert!(said.starts_with("False QuotaBackendUnavailable: "), "{said}");
    };
    let mut nameless = up(2);
    let labels = json!({"metadata": {"labels": {keys::UPSTREAM_CLUSTER: null}}});
    nameless.change(&Cell, TableId::Namespaces, "", NS, &labels);
    held(&mut nameless);
    let mut without_a_way = up(2);
    without_a_way.context.index.lock().unreachable.insert(shop());
    held(&mut without_a_way);
    let mut unknown = up(2);
    unknown.context.index.lock().claims.clear();
    held(&mut unknown);
    let mut off = up(2);
    off.set(|settings| settings.quota = false);
    off.context.index.lock().unreachable.insert(shop());
    roll(&mut off, "next");
    assert_eq!(deleted(&off), ["web-1: instance_roll"]);
}

#[test]
fn as_many_instances_as_the_cell_allows_are_made() {
    let fixture = with(settings(), deployment("web", 1_000));
    assert_eq!(
        words(&effects(&fixture, "web"))[0],
        "cell: create instances web-0: instance_missing"
    );
}

/// The network objects are still maintained although no Instance is created.
#[test]
fn a_policy_that_is_not_known_makes_nothing_and_binds_the_network() {
    let mut of = deployment("web", 1);
    of["spec"]["scaleSettings"]["instanceManagementPolicy"] = json!("Random");
    let on = Settings {
        networking: true,
        ..settings()
    };
    let written = words(&effects(&with(on, of), "web"));
    assert_eq!(
        written[0],
        "cell: create networkbindings web-net-0: network_binding"
    );
}

#[test]
fn a_template_that_its_project_would_refuse_is_refused() {
    let mut of = deployment("web", 1);
    of["spec"]["template"]["metadata"]["labels"] = json!({"x".repeat(400): "a"});
    let mut fixture = with(settings(), of);
    assert_eq!(settle(&mut fixture, "web"), STATUS_ONLY);
    refused(&fixture, "spec.template.metadata.labels[xxx");
}

#[test]
fn a_roll_that_no_project_answers_for_is_looked_at_again() {
    let held = |fixture: &Fixture| {
        let snapshot = observe::observe(&fixture.context, &key("web")).unwrap();
        decide::decide(&snapshot, now()).held
    };
    let mut fixture = up(2);
    assert!(!held(&fixture));
    roll(&mut fixture, "2");
    assert!(!held(&fixture), "it rolls");
    let asks = TableId::Instances.key(NS, "web-0");
    fixture.context.index.lock().quota_failed(&shop(), asks);
    assert!(held(&fixture));
}
