//! Writes to the hub for an Instance, over an index filled from API objects.

use crate::instance::writeback::{
    Memory, WriteBack,
    decide::{self, WriteBackDecision, Written},
    observe,
};
use crate::{
    context::Context,
    index::{digest, tables::TableId},
    instance::observe as local,
    testing::{Fixture, NS, body, condition, deployment, instance, settings, words},
    writes::read,
};
use fedgate_api::keys;
use fedgate_engine::{
    key::{
        Key,
        Plane::{Cell, Hub},
    },
    plan::{Effect, Write},
};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;

fn key() -> Key {
    TableId::Instances.key(NS, "web-0")
}

fn decided(fixture: &Fixture) -> WriteBackDecision {
    let snapshot = local::observe(&fixture.context, &key()).unwrap();
    let seen = observe::observe(&fixture.context, &key()).unwrap();
    decide::decide(&snapshot, &seen, &Memory::default())
}

fn effect(fixture: &Fixture) -> Effect {
    match decided(fixture) {
        WriteBackDecision::Write(effect, _) => *effect,
        other => panic!("{other:?}"),
    }
}

fn settle(fixture: &mut Fixture) -> Vec<String> {
    let mut all = Vec::new();
    while let WriteBackDecision::Write(effect, _) = decided(fixture) {
        all.extend(words(&[(*effect).clone()]));
        fixture.perform(&[*effect]);
        assert!(all.len() < 10, "it never rests: {all:#?}");
    }
    all
}

fn on_hub(name: &str) -> Value {
    let mut of = deployment(name, 1);
    of["metadata"]["uid"] = json!(format!("h-{name}"));
    of["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW"});
    of
}

fn whole() -> Fixture {
    let mut fixture = Fixture::new(settings());
    fixture.has(&Hub, TableId::HubDeployments, on_hub("web"));
    let mut source = instance("web", 0);
    source["metadata"]["annotations"] = json!({keys::RECOVERY: "{}"});
    fixture.has(&Cell, TableId::Instances, source);
    fixture
}

fn write_back(fixture: &Fixture) -> &Value {
    fixture.get(&Hub, TableId::HubInstances, NS, "web-0").unwrap()
}

#[test]
fn a_copy_is_the_instance_with_its_origin_and_the_hubs_deployment_as_owner() {
    let mut fixture = whole();
    let made = body(&effect(&fixture));
    let source = fixture
        .get(&Cell, TableId::Instances, NS, "web-0")
        .unwrap()
        .clone();
    assert_eq!(made["spec"], source["spec"]);
    let labels = &made["metadata"]["labels"];
    for key in keys::LINKING {
        assert_eq!(labels[key], source["metadata"]["labels"][key], "{key}");
    }
    assert_eq!(labels[keys::CELL], "dfw-1");
    assert_eq!(labels[keys::INSTANCE_LOCATION], "us-south-1");
    assert_eq!(labels[keys::UPSTREAM_CLUSTER], "cluster-shop");
    assert_eq!(labels[keys::UPSTREAM_NAMESPACE], "default");
    assert_eq!(
        labels.as_object().unwrap().len(),
        11,
        "no label of the template: {labels}"
    );
    assert_eq!(
        made["metadata"]["annotations"],
        json!({keys::INSTANCE_UID: "u-web-0"})
    );
    assert_eq!(made["metadata"]["finalizers"], Value::Null);
    assert_eq!(
        made["metadata"]["ownerReferences"],
        json!([{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "web", "uid": "h-web",
            "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        settle(&mut fixture),
        [
            "hub: create instances web-0: write_back",
            "hub: apply instances/status web-0: write_back_status"
        ]
    );
    assert_eq!(write_back(&fixture)["status"], source["status"]);
}

#[test]
fn what_is_changed_on_the_hub_is_changed_back_and_foreign_labels_stay() {
    let mut fixture = whole();
    settle(&mut fixture);
    let edits = json!({"metadata": {"labels": {"mine": "yes", keys::CELL: "dfw-1", keys::PLACEMENT_NAME: "other"}},
        "spec": {"location": {"name": "elsewhere"}}, "status": {"conditions": []}});
    let enqueued = fixture.change(&Hub, TableId::HubInstances, NS, "web-0", &edits);
    assert_eq!(enqueued, [key()]);
    let first = effect(&fixture);
    assert!(matches!(&first.write, Write::Update { strict: false, .. }));
    assert_eq!(
        settle(&mut fixture),
        [
            "hub: patch instances web-0: write_back",
            "hub: apply instances/status web-0: write_back_status"
        ]
    );
    assert_eq!(write_back(&fixture)["metadata"]["labels"]["mine"], "yes");
    assert_eq!(write_back(&fixture)["spec"]["location"]["name"], "us-south-1");
    let ready = json!({"status": {"conditions": [condition("Ready", "True", "Available")]}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &ready);
    assert_eq!(
        settle(&mut fixture),
        ["hub: apply instances/status web-0: write_back_status"]
    );
}

#[test]
fn a_hub_that_leaves_out_what_it_does_not_know_is_told_once() {
    let mut fixture = whole();
    settle(&mut fixture);
    fixture.change(
        &Hub,
        TableId::HubInstances,
        NS,
        "web-0",
        &json!({"spec": {"networkInterfaces": null}}),
    );
    let snapshot = local::observe(&fixture.context, &key()).unwrap();
    let seen = observe::observe(&fixture.context, &key()).unwrap();
    let mut memory = Memory::default();
    let WriteBackDecision::Write(_, Written::Object(written)) = decide::decide(&snapshot, &seen, &memory)
    else {
        panic!()
    };
    memory
        .written
        .record(written, seen.write_back.as_ref().unwrap().digest.owned);
    assert_eq!(
        decide::decide(&snapshot, &seen, &memory),
        WriteBackDecision::Nothing
    );
}

#[test]
fn whose_instance_it_is_has_to_be_clear() {
    let unclear = |change: &dyn Fn(&mut Fixture)| {
        let mut fixture = whole();
        change(&mut fixture);
        match decided(&fixture) {
            WriteBackDecision::Unclear(what) => what,
            other => panic!("{other:?}"),
        }
    };
    let unlabelled = json!({"metadata": {"labels": {keys::UPSTREAM_CLUSTER: null}}});
    let other = json!({"metadata": {"labels": {keys::UPSTREAM_CLUSTER: "cluster-other"}}});
    let gone = unclear(&|f| drop(f.lost(&Hub, TableId::HubNamespaces, "", NS)));
    assert_eq!(gone, "the hub has no Namespace ns-a1");
    let lacks = unclear(&|f| drop(f.change(&Hub, TableId::HubNamespaces, "", NS, &unlabelled)));
    assert!(lacks.starts_with("Namespace ns-a1 of the hub lacks"), "{lacks}");
    let differs = unclear(&|f| drop(f.change(&Cell, TableId::Namespaces, "", NS, &other)));
    assert!(differs.contains("belongs to another project"), "{differs}");
    for key in keys::LINKING {
        let stripped = json!({"metadata": {"labels": {key: null}}});
        let what = unclear(&|f| drop(f.change(&Cell, TableId::Instances, NS, "web-0", &stripped)));
        assert_eq!(what, format!("its label {key} is missing"));
    }
}

#[test]
fn a_cell_that_is_drained_writes_nothing() {
    let nothing = |change: &dyn Fn(&mut Fixture)| {
        let mut fixture = whole();
        change(&mut fixture);
        assert_eq!(decided(&fixture), WriteBackDecision::Nothing);
    };
    nothing(&|f| assert_eq!(f.lost(&Hub, TableId::HubDeployments, NS, "web"), [key()]));
    let going = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}});
    nothing(&|f| drop(f.change(&Hub, TableId::HubDeployments, NS, "web", &going)));
    let moved = json!({"metadata": {"labels": {keys::CITY_CODE: "LHR"}}});
    nothing(&|f| drop(f.change(&Hub, TableId::HubDeployments, NS, "web", &moved)));
}

/// A cell whose deployment is delivered to its location, and its Instance.
fn located() -> Fixture {
    let mut fixture = Fixture::new(settings());
    let mut of = on_hub("web");
    of["metadata"]["labels"] = json!({keys::LOCATION: "us-south-1"});
    fixture.has(&Hub, TableId::HubDeploymentsHere, of);
    fixture.has(&Cell, TableId::Instances, instance("web", 0));
    fixture
}

/// locations.md §2.5: a deployment that is delivered to the location has its write-backs, and one on its way to another, or
/// to two places, has none.
#[test]
fn a_deployment_of_the_location_is_written_back() {
    let mut fixture = located();
    assert_eq!(
        settle(&mut fixture),
        [
            "hub: create instances web-0: write_back",
            "hub: apply instances/status web-0: write_back_status"
        ]
    );
    let nothing = |change: &Value| {
        let mut fixture = located();
        fixture.change(&Hub, TableId::HubDeploymentsHere, NS, "web", change);
        assert_eq!(decided(&fixture), WriteBackDecision::Nothing);
    };
    nothing(&json!({"metadata": {"labels": {keys::LOCATION: "us-south-2"}}}));
    nothing(&json!({"metadata": {"labels": {keys::CITY_CODE: "DFW"}}}));
    let mut fixture = located();
    assert_eq!(
        fixture.lost(&Hub, TableId::HubDeploymentsHere, NS, "web"),
        [key()]
    );
    assert_eq!(decided(&fixture), WriteBackDecision::Nothing);
}

/// A route that changes between the city and the location is two events of two watches, in any order.
#[test]
fn a_deployment_that_changes_its_route_goes_on() {
    let mut fixture = located();
    settle(&mut fixture);
    fixture.has(&Hub, TableId::HubDeployments, on_hub("web"));
    assert_eq!(decided(&fixture), WriteBackDecision::Nothing);
    fixture.lost(&Hub, TableId::HubDeploymentsHere, NS, "web");
    assert_eq!(decided(&fixture), WriteBackDecision::Nothing);
    let edit = json!({"metadata": {"labels": {keys::PLACEMENT_NAME: "other"}}});
    fixture.change(&Hub, TableId::HubInstances, NS, "web-0", &edit);
    assert_eq!(settle(&mut fixture), ["hub: patch instances web-0: write_back"]);
}

/// The write-backs of another location of the city are left behind when the deployment has moved from there to here; those
/// of a cell that writes no location are another's.
#[test]
fn a_write_back_of_another_location_is_a_leftover() {
    for (labels, leftover) in [
        (
            json!({keys::CELL: "dfw-2", keys::INSTANCE_LOCATION: "us-south-2"}),
            true,
        ),
        (
            json!({keys::CELL: "dfw-2", keys::INSTANCE_LOCATION: "us-south-1"}),
            false,
        ),
        (json!({keys::CELL: "dfw-2", keys::INSTANCE_LOCATION: null}), false),
        (
            json!({keys::CELL: "lhr-1", keys::INSTANCE_LOCATION: null, keys::INSTANCE_CITY_CODE: "LHR"}),
            true,
        ),
    ] {
        let decision = over_in(located(), &json!({"metadata": {"labels": labels}}));
        assert_eq!(is_deletion(&decision), leftover, "{labels} {decision:?}");
    }
    // By its city, the deployment is at both locations.
    let other = json!({keys::CELL: "dfw-2", keys::INSTANCE_LOCATION: "us-south-2"});
    let decision = over(&json!({"metadata": {"labels": other}}));
    assert!(matches!(decision, WriteBackDecision::Held(_)), "{decision:?}");
}

/// The decision if the hub has this write-back, which need not be watched.
fn over(change: &Value) -> WriteBackDecision {
    over_in(whole(), change)
}

fn over_in(mut fixture: Fixture, change: &Value) -> WriteBackDecision {
    settle(&mut fixture);
    let mut object = write_back(&fixture).clone();
    crate::testing::merge(&mut object, change);
    let snapshot = local::observe(&fixture.context, &key()).unwrap();
    let mut seen = observe::observe(&fixture.context, &key()).unwrap();
    let object = serde_json::from_value(object).unwrap();
    seen.write_back = Some(read(
        &object,
        digest::write_back(&object, &mut digest::Strings::default()),
    ));
    decide::decide(&snapshot, &seen, &Memory::default())
}

fn is_deletion(decision: &WriteBackDecision) -> bool {
    matches!(decision, WriteBackDecision::Write(effect, _)
        if matches!(&effect.write, Write::Delete { uid, resource_version: Some(_) } if uid == "u-web-0"))
}

#[test]
fn a_name_that_another_holds_is_left_alone_or_freed_by_whose_it_is() {
    let owner = |uid: &str| {
        json!([{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "web", "uid": uid,
            "controller": true}])
    };
    let former = json!({"metadata": {"annotations": {keys::INSTANCE_UID: "u-old"}}});
    assert!(is_deletion(&over(&former)));
    let anew = json!({"metadata": {"ownerReferences": owner("h-former")}});
    assert!(is_deletion(&over(&anew)), "an owner cannot be replaced in place");
    let elsewhere = json!({"metadata": {"labels": {keys::CELL: "lhr-1", keys::INSTANCE_CITY_CODE: "LHR"}}});
    assert!(is_deletion(&over(&elsewhere)), "its cell is being drained");
    let sister = json!({"metadata": {"labels": {keys::CELL: "dfw-2"}}});
    let held = |by: &str| WriteBackDecision::Held(by.to_owned());
    assert_eq!(over(&sister), held("cell dfw-2"));
    let foreign = json!({"metadata": {"labels": {keys::CELL: null}, "ownerReferences": owner("x")}});
    assert_eq!(over(&foreign), held("an object with another controller"));
    let nobodys = json!({"metadata": {"labels": {keys::CELL: null}, "ownerReferences": null}});
    let WriteBackDecision::Write(effect, Written::Object(_)) = over(&nobodys) else {
        panic!()
    };
    assert_eq!(
        words(&[*effect]),
        ["hub: patch instances web-0: write_back"],
        "it is taken over"
    );
    let going = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}});
    assert_eq!(over(&going), WriteBackDecision::Nothing);
}

/// serving.md §1: the cell that the deployment names replaces what another one has written, and the other writes nothing.
#[test]
fn the_named_cell_replaces_what_another_has_written_in_place() {
    let named = |cell: &str| {
        let mut fixture = whole();
        let name = json!({"metadata": {"annotations": {keys::CELL: cell}}});
        assert_eq!(
            fixture.change(&Hub, TableId::HubDeployments, NS, "web", &name),
            [key()]
        );
        fixture
    };
    let mut elsewhere = named("dfw-2");
    assert_eq!(settle(&mut elsewhere), [""; 0]);
    let sister = json!({"metadata": {"labels": {keys::CELL: "dfw-2"}, "annotations": {keys::INSTANCE_UID: "u-there"}}});
    let WriteBackDecision::Write(effect, Written::Object(_)) = over_in(named("dfw-1"), &sister) else {
        panic!()
    };
    let Write::Update { body: made, .. } = &effect.write else {
        panic!("{effect:?}")
    };
    let of = &made["metadata"];
    assert_eq!(
        (&of["uid"], &of["labels"][keys::CELL]),
        (&json!("u-web-0"), &json!("dfw-1"))
    );
    assert_eq!(of["annotations"], json!({keys::INSTANCE_UID: "u-web-0"}));
    let of_former = json!({"metadata": {"labels": {keys::CELL: "dfw-2"}, "ownerReferences": [
        {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "web", "uid": "h-former",
            "controller": true}]}});
    assert!(is_deletion(&over_in(named("dfw-1"), &of_former)));
}

#[test]
fn the_answer_about_anothers_copy_does_not_stay_in_the_index() {
    let mut fixture = whole();
    settle(&mut fixture);
    let other = json!({"metadata": {"labels": {keys::CELL: "dfw-2"}}});
    fixture.change(&Hub, TableId::HubInstances, NS, "web-0", &other);
    assert!(fixture.context.index.lock().write_backs.is_empty());
}

#[tokio::test]
async fn a_name_that_is_held_is_tried_after_pauses_that_double() {
    let mut memory = Memory::default();
    let now = tokio::time::Instant::now();
    let mut pauses = Vec::new();
    for _ in 0..11 {
        let fedgate_engine::plan::Requeue::After(pause) = memory.pause(now) else {
            panic!()
        };
        pauses.push(pause.as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
}

#[tokio::test]
async fn a_write_that_failed_is_no_write_of_the_interval() {
    let fixture = whole();
    let local = local::observe(&fixture.context, &key()).unwrap();
    let (write_back, wrote) = (WriteBack::default(), AtomicBool::new(false));
    let ctx = Context::new(&fixture.context, fixture.context.now().instant, &wrote);
    let result = write_back.reconcile(&ctx, &key(), &local, false).await;
    assert!(result.is_err(), "the fixture's planes take no write");
    assert!(write_back.memory.is_empty(), "the interval has its token");
}
