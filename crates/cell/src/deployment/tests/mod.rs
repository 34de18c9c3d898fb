//! Writes for a deployment, decided from an index that is filled with servers' objects.

mod enforced;
mod executed;
mod places;
mod progress;

use super::{decide, observe};
use crate::{
    index::tables::TableId,
    settings::Settings,
    testing::{Fixture, NS, body, condition, deployment, instance, now, settings, words},
};
use fedgate_api::keys;
use fedgate_engine::{
    key::{Key, Plane::Cell},
    plan::Effect,
    reconcile::throttle::WriteKind,
};
use serde_json::{Value, json};

fn key(name: &str) -> Key {
    TableId::Deployments.key(NS, name)
}

/// All writes that are due now, the status last.
fn effects(fixture: &Fixture, name: &str) -> Vec<Effect> {
    let snapshot = observe::observe(&fixture.context, &key(name)).unwrap();
    let decide::DeploymentDecision { writes, status, .. } = decide::decide(&snapshot, now());
    writes.into_iter().chain(status).collect()
}

/// Decides and executes until no write is left; returns the writes.
fn settle(fixture: &mut Fixture, name: &str) -> Vec<String> {
    let mut written = Vec::new();
    for _ in 0..10 {
        let effects = effects(fixture, name);
        if effects.is_empty() {
            return written;
        }
        written.extend(words(&effects));
        fixture.perform(&effects);
    }
    panic!("it never rests: {written:#?}");
}

fn with(settings: Settings, deployment: Value) -> Fixture {
    let mut fixture = Fixture::new(settings);
    fixture.has(&Cell, TableId::Deployments, deployment);
    fixture
}

fn status(fixture: &Fixture, name: &str, type_: &str) -> String {
    let deployment = fixture.get(&Cell, TableId::Deployments, NS, name).unwrap();
    let conditions = deployment["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|c| c["type"] == type_).unwrap();
    let text = |key: &str| condition[key].as_str().unwrap().to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

/// Marks all Instances as ready.
fn ready(fixture: &mut Fixture, name: &str) {
    let hash =
        fixture.get(&Cell, TableId::Instances, NS, name).unwrap()["spec"]["controller"]["templateHash"]
            .clone();
    let conditions = ["Ready", "Programmed", "Available"].map(|type_| condition(type_, "True", type_));
    let status = json!({"conditions": conditions, "controller": {"observedTemplateHash": hash}});
    let patch = json!({"status": status, "spec": {"controller": {"schedulingGates": []}}});
    fixture.change(&Cell, TableId::Instances, NS, name, &patch);
}

#[test]
fn a_status_that_changes_available_is_a_transition_and_any_other_is_progress() {
    let mut fixture = with(settings(), deployment("web", 2));
    settle(&mut fixture, "web");
    let kind = |fixture: &Fixture| {
        let snapshot = observe::observe(&fixture.context, &key("web")).unwrap();
        let status = decide::decide(&snapshot, now()).status.unwrap();
        decide::write_kind(&snapshot, &status)
    };
    ready(&mut fixture, "web-0");
    assert_eq!(kind(&fixture), WriteKind::Transition, "Available becomes True");
    settle(&mut fixture, "web");
    ready(&mut fixture, "web-1");
    assert_eq!(kind(&fixture), WriteKind::Progress, "2/2, Available stays True");
}

#[test]
fn instances_come_one_after_the_other_each_whole_from_the_start() {
    let mut fixture = with(settings(), deployment("web", 2));
    let first = effects(&fixture, "web");
    assert_eq!(
        words(&first),
        [
            "cell: create instances web-0: instance_missing",
            "cell: patch workloaddeployments/status web: deployment_status"
        ]
    );
    let made = body(&first[0]);
    assert_eq!(
        made["metadata"]["finalizers"],
        json!([
            keys::CLAIM_FINALIZER,
            keys::INSTANCE_FINALIZER,
            keys::PROVIDER_FINALIZER
        ])
    );
    assert_eq!(made["metadata"]["annotations"], Value::Null);
    assert_eq!(
        made["spec"]["location"],
        json!({"name": "us-south-1", "namespace": "default"})
    );
    assert_eq!(
        made["spec"]["controller"]["schedulingGates"],
        json!([{"name": "Quota"}])
    );
    assert_eq!(
        settle(&mut fixture, "web").len(),
        3,
        "the Instance, the status before and after it"
    );
    assert_eq!(
        status(&fixture, "web", "ReplicasReady"),
        "False InstancesProvisioning: 0/2 replicas available; waiting for web-0: Pending"
    );
    ready(&mut fixture, "web-0");
    assert_eq!(
        settle(&mut fixture, "web")[0],
        "cell: create instances web-1: instance_missing"
    );
    ready(&mut fixture, "web-1");
    settle(&mut fixture, "web");
    assert_eq!(
        status(&fixture, "web", "ReplicasReady"),
        "True ReplicasAvailable: 2/2 replicas available"
    );
    assert_eq!(
        status(&fixture, "web", "Available"),
        "True StableInstanceFound: 2/2 instances are ready"
    );
    let web = fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap();
    for counter in [
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "currentReplicas",
        "desiredReplicas",
    ] {
        assert_eq!(web["status"][counter], 2, "{counter}");
    }
    assert_eq!(web["status"]["observedGeneration"], 1);
}

#[test]
fn the_switches_of_the_cell_decide_gates_and_finalizers() {
    let mut references = deployment("web", 1);
    references["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
        json!([{"secretRef": {"name": "s"}}]);
    let gates = |settings: Settings| {
        let made = body(&effects(&with(settings, references.clone()), "web")[0]);
        let annotations = &made["metadata"]["annotations"];
        assert_eq!(
            annotations.is_null(),
            made["spec"]["controller"]["schedulingGates"] == json!([{"name": "Quota"}])
        );
        (
            made["spec"]["controller"]["schedulingGates"].clone(),
            made["metadata"]["finalizers"].clone(),
        )
    };
    let all = json!([
        keys::CLAIM_FINALIZER,
        keys::INSTANCE_FINALIZER,
        keys::PROVIDER_FINALIZER
    ]);
    let quota = json!({"name": "Quota"});
    let data = json!({"name": "ReferencedData"});
    assert_eq!(gates(settings()), (json!([quota, data]), all.clone()));
    let off = Settings {
        data: false,
        ..settings()
    };
    assert_eq!(gates(off), (json!([quota]), all));
    let alone = Settings {
        hub: false,
        provider: false,
        ..settings()
    };
    assert_eq!(
        gates(alone),
        (json!([quota, data]), json!([keys::CLAIM_FINALIZER]))
    );
}

#[test]
fn a_deployment_of_another_city_makes_nothing_and_keeps_and_shrinks_what_it_has() {
    let mut wrong = deployment("web", 1);
    wrong["spec"]["cityCode"] = json!("LHR");
    let mut fixture = with(settings(), wrong);
    assert_eq!(
        settle(&mut fixture, "web"),
        ["cell: patch workloaddeployments/status web: deployment_status"]
    );
    let said = status(&fixture, "web", "Available");
    assert_eq!(
        said,
        "False CityCodeMismatch: spec.cityCode is LHR, but this cell is in DFW"
    );
    for ordinal in 0..2 {
        let mut old = instance("web", ordinal);
        old["metadata"]["labels"][keys::INSTANCE_CITY_CODE] = json!("LHR");
        fixture.has(&Cell, TableId::Instances, old);
    }
    let all = words(&effects(&fixture, "web"));
    assert_eq!(all[0], "cell: delete instances web-1: instance_surplus");
    assert!(
        all.iter()
            .all(|one| !one.contains("create") && !one.contains("delete instances web-0")),
        "{all:?}"
    );
}

#[test]
fn a_suspension_is_carried_to_each_instance_and_back() {
    let mut fixture = with(settings(), deployment("web", 2));
    settle(&mut fixture, "web");
    ready(&mut fixture, "web-0");
    settle(&mut fixture, "web");
    let suspend = |value: Value| json!({"metadata": {"annotations": {keys::SUSPENDED: value}}});
    fixture.change(&Cell, TableId::Deployments, NS, "web", &suspend(json!("true")));
    let all = effects(&fixture, "web");
    assert_eq!(
        words(&all),
        [
            "cell: patch instances/status web-0: instance_suspension",
            "cell: patch instances/status web-1: instance_suspension",
            "cell: patch workloaddeployments/status web: deployment_status"
        ]
    );
    assert_eq!(body(&all[0]), json!({"status": {"suspended": true}}));
    fixture.perform(&all);
    settle(&mut fixture, "web");
    assert_eq!(
        status(&fixture, "web", "Available"),
        "False Suspended: the deployment is suspended"
    );
    fixture.change(&Cell, TableId::Deployments, NS, "web", &suspend(Value::Null));
    settle(&mut fixture, "web");
    let web = fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap();
    assert_eq!(web["status"]["suspended"], Value::Null);
    let first = fixture.get(&Cell, TableId::Instances, NS, "web-0").unwrap();
    assert_eq!(first["status"]["suspended"], Value::Null);
}

#[test]
fn labels_and_place_are_mended_one_write_after_the_other() {
    let mut fixture = with(settings(), deployment("web", 1));
    settle(&mut fixture, "web");
    let broken = json!({"metadata": {"labels": {keys::INSTANCE_CITY_CODE: null, "mine": "yes"}}, "spec": {"location": null}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &broken);
    let all = effects(&fixture, "web");
    assert_eq!(words(&all), ["cell: patch instances web-0: instance_labels"]);
    assert_eq!(
        body(&all[0]),
        json!({"metadata": {"labels": {keys::INSTANCE_CITY_CODE: "DFW"}}})
    );
    fixture.perform(&all);
    let all = effects(&fixture, "web");
    assert_eq!(words(&all), ["cell: patch instances web-0: instance_network"]);
    let place = json!({"name": "us-south-1", "namespace": "default"});
    assert_eq!(body(&all[0]), json!({"spec": {"location": place}}));
    fixture.perform(&all);
    assert_eq!(settle(&mut fixture, "web"), [""; 0]);
    let kept = fixture.get(&Cell, TableId::Instances, NS, "web-0").unwrap();
    assert_eq!(kept["metadata"]["labels"]["mine"], "yes");
}

/// A deployment of two ready Instances.
fn two_ready(settings: Settings) -> Fixture {
    let mut fixture = Fixture::new(settings);
    let place = json!({"metadata": {"name": "us-south-1"}, "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
    fixture.has(&Cell, TableId::ServingLocations, place);
    fixture.has(&Cell, TableId::Deployments, deployment("web", 2));
    for name in ["web-0", "web-1"] {
        settle(&mut fixture, "web");
        ready(&mut fixture, name);
    }
    settle(&mut fixture, "web");
    fixture
}

fn instances(fixture: &Fixture) -> [Value; 2] {
    ["web-0", "web-1"].map(|name| fixture.get(&Cell, TableId::Instances, NS, name).unwrap().clone())
}

/// Case W14.
#[test]
fn a_renamed_placement_and_a_place_that_goes_replace_nothing() {
    let networked = Settings {
        networking: true,
        place: None,
        ..settings()
    };
    let mut fixture = two_ready(networked);
    let before = instances(&fixture);
    let renamed = json!({"spec": {"placementName": "america"}});
    fixture.change(&Cell, TableId::Deployments, NS, "web", &renamed);
    let patched = ["web-0", "web-1"].map(|name| format!("cell: patch instances {name}: instance_labels"));
    assert_eq!(settle(&mut fixture, "web"), patched);
    for (now, mut before) in instances(&fixture).into_iter().zip(before) {
        before["metadata"]["labels"][keys::PLACEMENT_NAME] = json!("america");
        before["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
        assert_eq!(now, before);
    }
    let before = instances(&fixture);
    fixture.lost(&Cell, TableId::ServingLocations, "", "us-south-1");
    assert_eq!(settle(&mut fixture, "web"), [""; 0]);
    let three = json!({"spec": {"scaleSettings": {"minReplicas": 3}}});
    fixture.change(&Cell, TableId::Deployments, NS, "web", &three);
    let said = ["cell: patch workloaddeployments/status web: deployment_status"];
    assert_eq!(settle(&mut fixture, "web"), said, "without a place none is made");
    assert_eq!(instances(&fixture), before);
}

/// Case W29.
#[test]
fn an_edited_template_changes_no_instance_that_was_made_from_it() {
    let mut fixture = two_ready(settings());
    let before = instances(&fixture);
    let template = json!({"metadata": {"labels": {"app": "other"}, "annotations": {"note": "new"}}});
    fixture.change(
        &Cell,
        TableId::Deployments,
        NS,
        "web",
        &json!({"spec": {"template": template}}),
    );
    let all = effects(&fixture, "web");
    assert_eq!(
        words(&all)[0],
        "cell: delete instances web-1: instance_roll",
        "it is replaced, not edited"
    );
    fixture.perform(&all);
    let of = |name| fixture.get(&Cell, TableId::Instances, NS, name);
    assert_eq!(of("web-0"), Some(&before[0]));
    fixture.lost(&Cell, TableId::Instances, NS, "web-1");
    settle(&mut fixture, "web");
    let made = fixture.get(&Cell, TableId::Instances, NS, "web-1").unwrap();
    assert_eq!(made["metadata"]["labels"]["app"], "other");
    assert_eq!(
        fixture.get(&Cell, TableId::Instances, NS, "web-0"),
        Some(&before[0])
    );
}

#[test]
fn the_network_is_bound_and_claimed_and_then_its_gate_goes() {
    let mut fixture = with(
        Settings {
            networking: true,
            ..settings()
        },
        deployment("web", 1),
    );
    let first = effects(&fixture, "web");
    assert_eq!(
        words(&first)[..2],
        [
            "cell: create instances web-0: instance_missing",
            "cell: create networkbindings web-net-0: network_binding"
        ]
    );
    let place = json!({"name": "us-south-1", "namespace": "default"});
    assert_eq!(
        body(&first[1])["spec"],
        json!({"network": {"name": "default"}, "location": place})
    );
    settle(&mut fixture, "web");
    assert_eq!(
        status(&fixture, "web", "Available"),
        "False NetworkProvisioning: the network is not ready yet"
    );
    let up = json!([condition("Ready", "True", "Ready")]);
    let context = json!({"metadata": {"namespace": "net", "name": "ctx"}, "spec": {"location": place}, "status": {"conditions": up}});
    fixture.has(&Cell, TableId::Contexts, context);
    let bound =
        json!({"status": {"conditions": up, "networkContextRef": {"namespace": "net", "name": "ctx"}}});
    let enqueued = fixture.change(&Cell, TableId::Bindings, NS, "web-net-0", &bound);
    assert_eq!(enqueued, [key("web"), TableId::Instances.key(NS, "web-0")]);
    assert_eq!(
        settle(&mut fixture, "web"),
        ["cell: create subnetclaims ctx-0: subnet_claim"]
    );
    fixture.has(
        &Cell,
        TableId::Subnets,
        json!({"metadata": {"namespace": "net", "name": "sub"}, "status": {"conditions": up}}),
    );
    let allotted = json!({"status": {"conditions": up, "subnetRef": {"name": "sub"}}});
    let enqueued = fixture.change(&Cell, TableId::SubnetClaims, "net", "ctx-0", &allotted);
    assert_eq!(enqueued[0], key("web"));
    let all = effects(&fixture, "web");
    assert_eq!(words(&all), ["cell: patch instances web-0: instance_network"]);
    assert_eq!(
        body(&all[0]),
        json!({"spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}})
    );
    fixture.perform(&all);
    settle(&mut fixture, "web");
}

#[test]
fn without_a_place_nothing_is_made_and_two_are_one_too_many() {
    let nowhere = Settings {
        networking: true,
        place: None,
        ..settings()
    };
    let mut fixture = with(nowhere, deployment("web", 1));
    let status_only = ["cell: patch workloaddeployments/status web: deployment_status"];
    assert_eq!(settle(&mut fixture, "web"), status_only);
    assert!(status(&fixture, "web", "Available").starts_with("False NoMatchingLocation: "));
    let place =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
    assert_eq!(
        fixture.has(&Cell, TableId::ServingLocations, place("one")),
        [key("web")]
    );
    assert_eq!(
        words(&effects(&fixture, "web"))[0],
        "cell: create instances web-0: instance_missing"
    );
    fixture.has(&Cell, TableId::ServingLocations, place("two"));
    assert_eq!(settle(&mut fixture, "web"), status_only);
    assert!(status(&fixture, "web", "Available").starts_with("False AmbiguousServingLocation: "));
}

#[test]
fn a_spec_that_cannot_be_read_is_said_and_nothing_is_touched() {
    let mut odd = deployment("web", 1);
    odd["spec"]["workloadRef"] = json!("storefront");
    let mut fixture = with(settings(), odd);
    fixture.has(&Cell, TableId::Instances, instance("web", 0));
    assert_eq!(
        settle(&mut fixture, "web"),
        ["cell: patch workloaddeployments/status web: deployment_status"]
    );
    assert!(status(&fixture, "web", "Available").starts_with("False InvalidTemplate: spec: "));
}
