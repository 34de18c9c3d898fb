//! Tests of the platform's objects: the exact effects, and no others.

use super::{
    Platform,
    decide::{Snapshot, decide},
    observe,
};
use crate::{
    index::{
        GatewayIndex, TableId,
        fixture::{object, shop},
        rows::{PlatformObject, Unprojected},
    },
    reason::WriteReason,
    testing::{Rig, refusal},
};
use fedgate_api::keys;
use fedgate_engine::{
    error::Category,
    key::{Key, Plane},
    plan::{Effect, Endpoint, Plan, Prepared, Target, Write},
    plane::watch::WatchEvent,
    reconcile::normalized::Normalized,
    runtime::{driver, index::Index},
};
use fedgate_kinds::{KindId, Kinds, PlatformKind};
use kube::core::DynamicObject;
use serde_json::{Value, json};

const TABLE: TableId = TableId::Platform(KindId::FIRST);
const NAME: &str = "basic";

fn kinds() -> Vec<PlatformKind> {
    let named = ["clustertemplates.azimuth.stackhpc.com".to_owned()];
    Kinds::load(&named, None).unwrap().platform
}

/// A hub's object.
fn template(version: u64, label: &str) -> Value {
    let mut template = object("", NAME, "hub-1");
    template["metadata"]["resourceVersion"] = json!(version.to_string());
    template["metadata"]["labels"] = json!({"team": "hub"});
    template["spec"] = json!({"label": label});
    template["status"] = json!({"seen": true});
    template
}

/// The projection of the object in a project.
fn projection(version: u64, label: &str) -> Value {
    let mut projection = object("", NAME, "shop-1");
    projection["metadata"]["resourceVersion"] = json!(version.to_string());
    projection["metadata"]["labels"] = json!({keys::PROJECTED: "true"});
    projection["metadata"]["annotations"] = json!({keys::SOURCE_UID: "hub-1"});
    projection["spec"] = json!({"label": label});
    projection
}

/// An index whose project serves the kind, with these objects.
fn index(hub: &[Value], project: &[Value]) -> GatewayIndex {
    let mut index = GatewayIndex::fixture_with(kinds());
    serve(&mut index);
    index.list_hub(TABLE, hub);
    index.list_shop(TABLE, project);
    index
}

/// The project says that it serves the kind. Returns the tables that are watched then.
fn serve(index: &mut GatewayIndex) -> Vec<TableId> {
    let plane = Plane::Project(shop());
    let wanted = index.optional_kinds(&plane);
    let engagement = index.projects[&shop()].engagement;
    index.kinds_discovered(&plane, engagement, &wanted).watch
}

fn key(index: &GatewayIndex) -> Key {
    index.platform_key(KindId::FIRST, &shop(), NAME)
}

fn snapshot(index: &GatewayIndex) -> Option<Snapshot> {
    observe(index, &key(index))
}

fn decided(index: &GatewayIndex) -> Option<Plan<Prepared>> {
    decide(&snapshot(index).unwrap(), Normalized::default())
}

fn one(write: Write, reason: WriteReason) -> Plan<Prepared> {
    let resource = &kinds()[0].resource;
    Plan::one(Effect {
        target: Target::cluster(Plane::Project(shop()), resource, NAME),
        endpoint: Endpoint::Main,
        write,
        reason: reason.into(),
    })
}

fn body(uid: Option<&str>) -> Value {
    let mut body = json!({
        "apiVersion": "azimuth.stackhpc.com/v1alpha1", "kind": "ClusterTemplate",
        "metadata": {"name": NAME, "labels": {keys::PROJECTED: "true"}, "annotations": {keys::SOURCE_UID: "hub-1"}},
        "spec": {"label": "new"},
    });
    if let Some(uid) = uid {
        body["metadata"]["uid"] = json!(uid);
    }
    body
}

fn applied() -> Plan<Prepared> {
    let write = Write::Update {
        body: body(Some("shop-1")),
        strict: false,
    };
    one(write, WriteReason::UpdatePlatformObject)
}

#[test]
fn what_a_project_lacks_is_created_without_the_hubs_metadata_and_status() {
    let write = Write::create(body(None));
    let wanted = one(write, WriteReason::CreatePlatformObject);
    assert_eq!(decided(&index(&[template(5, "new")], &[])), Some(wanted));
}

#[test]
fn what_is_as_on_the_hub_is_left() {
    let index = index(&[template(5, "new")], &[projection(5, "new")]);
    assert_eq!(decided(&index), Some(Plan::default()));
}

#[test]
fn an_edit_on_either_plane_is_applied_to_the_object_that_is_there() {
    let hub = [template(5, "new")];
    assert_eq!(decided(&index(&hub, &[projection(5, "old")])), Some(applied()));
    let mut replaced = projection(5, "new");
    replaced["metadata"]["annotations"] = json!({keys::SOURCE_UID: "hub-0"});
    assert_eq!(decided(&index(&hub, &[replaced])), Some(applied()));
    let mut unlabelled = projection(5, "new");
    unlabelled["metadata"]["labels"] = Value::Null;
    assert_eq!(decided(&index(&hub, &[unlabelled])), Some(applied()));
}

#[test]
fn an_object_of_the_project_itself_is_left_alone() {
    let mut own = projection(5, "old");
    own["metadata"]["labels"] = Value::Null;
    own["metadata"]["annotations"] = Value::Null;
    let hub = [template(5, "new")];
    assert_eq!(decided(&index(&hub, &[own.clone()])), None);
    own["metadata"]["annotations"] = json!({keys::SOURCE_UID: "elsewhere"});
    assert_eq!(decided(&index(&hub, &[own.clone()])), None);
    assert_eq!(decided(&index(&[], &[own])), Some(Plan::default()));
}

#[test]
fn what_is_gone_on_the_hub_is_deleted_by_its_uid() {
    let index = index(&[], &[projection(5, "new")]);
    let write = Write::Delete {
        uid: "shop-1".to_owned(),
        resource_version: None,
    };
    assert_eq!(
        decided(&index),
        Some(one(write, WriteReason::DeletePlatformObject))
    );
}

#[test]
fn what_is_being_deleted_is_neither_written_nor_made_again() {
    let leaving = |mut object: Value| {
        object["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
        object
    };
    for (hub, project) in [
        (vec![template(5, "new")], vec![leaving(projection(5, "old"))]),
        (vec![leaving(template(5, "new"))], vec![]),
        (vec![], vec![leaving(projection(5, "new"))]),
    ] {
        assert_eq!(decided(&index(&hub, &project)), Some(Plan::default()));
    }
}

#[test]
fn absence_counts_while_the_watches_work_alone() {
    let mut index = index(&[], &[projection(5, "new")]);
    index.hub_event(TABLE, WatchEvent::Failed);
    let awaits = |index: &GatewayIndex| {
        assert_eq!(decided(index), Some(Plan::default()));
        snapshot(index).unwrap().unproven
    };
    assert_eq!(awaits(&index), Some(Plane::Hub));
    index.hub_event(TABLE, WatchEvent::Resumed);
    assert_ne!(decided(&index), Some(Plan::default()));
    index.list_hub(TABLE, &[template(5, "new")]);
    index.list_shop(TABLE, &[]);
    index.project_event(&shop(), TABLE, WatchEvent::Failed);
    let project = Plane::Project(shop());
    assert_eq!(awaits(&index), Some(project));
}

#[test]
fn nothing_is_compared_before_both_lists_are_complete() {
    let mut index = GatewayIndex::fixture_with(kinds());
    let hub = index.hub_has(TABLE, &template(6, "new"));
    assert_eq!(
        hub,
        [index.hub_key(TABLE, "", NAME)],
        "the project serves no such kind"
    );
    assert_eq!(serve(&mut index), [TABLE]);
    assert_eq!(serve(&mut index), [], "what is served is looked for no longer");
    assert!(snapshot(&index).is_none());
    let keys = index.project_event(&shop(), TABLE, WatchEvent::Init).keys(&index);
    assert_eq!(keys, []);
    let keys = index
        .project_event(&shop(), TABLE, WatchEvent::InitDone)
        .keys(&index);
    assert_eq!(keys, [key(&index)], "with the first list all is compared");
    assert!(snapshot(&index).is_some());
}

#[test]
fn each_change_wakes_its_object_and_no_other() {
    let mut index = index(&[template(5, "new")], &[projection(5, "new")]);
    let (ours, hub) = ([key(&index)], index.hub_key(TABLE, "", NAME));
    assert_eq!(index.shop_has(TABLE, &projection(6, "edited")), ours);
    assert_eq!(index.shop_lost(TABLE, &projection(7, "edited")), ours);
    let of_hub = index.hub_has(TABLE, &template(6, "newer"));
    assert_eq!(of_hub, [hub.clone(), key(&index)]);
    assert_eq!(index.hub_lost(TABLE, &template(7, "newer")), [hub, key(&index)]);
    let mut own = object("", NAME, "own");
    assert_eq!(index.shop_has(TABLE, &own), ours);
    own["metadata"]["resourceVersion"] = json!("9");
    own["spec"] = json!({"label": "mine"});
    assert_eq!(index.shop_has(TABLE, &own), [], "a tenant edits its own object");
}

#[test]
fn all_objects_are_compared_once_the_project_is_ready() {
    let mut stale = projection(5, "new");
    stale["metadata"]["name"] = json!("stale");
    let index = index(&[template(5, "new")], &[stale, object("", "own", "own")]);
    let mut keys = Vec::new();
    index.platform_keys_of(&shop(), &mut keys);
    let names: Vec<&str> = keys.iter().map(|key| &*key.name).collect();
    assert_eq!(names, [NAME, "stale"]);
    assert!(index.project_keys(&shop()).contains(&key(&index)));
    assert!(index.ready_keys().contains(&index.hub_key(TABLE, "", NAME)));
}

#[test]
fn an_object_that_is_too_large_or_broken_has_no_payload_and_leaves_what_is_there() {
    let read = |object: Value, largest| {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        PlatformObject::read(&object, largest).payload
    };
    assert!(read(template(5, "new"), 100).is_ok());
    assert_eq!(
        read(template(5, &"x".repeat(100)), 100),
        Err(Unprojected::TooLarge(121))
    );
    let mut index = index(&[], &[projection(5, "old")]);
    index.largest_spec = 8;
    index.list_hub(TABLE, &[template(5, "new")]);
    assert_eq!(decided(&index), Some(Plan::default()));
}

#[tokio::test]
async fn an_object_that_is_not_projected_is_told_once_for_all_projects() {
    let mut index = index(&[], &[]);
    index.largest_spec = 16;
    index.list_hub(TABLE, &[template(5, "new")]);
    let hub = index.hub_key(TABLE, "", NAME);
    let rig = Rig::new(index, |_, _| (500, json!({})));
    let platform = Platform::default();
    platform.examine(&rig.reconcile_once(), &hub);
    let verdicts = rig.context.quarantine.all();
    assert_eq!(
        verdicts
            .iter()
            .map(|(key, word, _)| (key, *word))
            .collect::<Vec<_>>(),
        [(&hub, "too_large")]
    );
    let mut small = template(6, "new");
    small["spec"] = json!({});
    rig.context.index.lock().hub_has(TABLE, &small);
    platform.examine(&rig.reconcile_once(), &hub);
    assert_eq!(rig.context.quarantine.all().len(), 0);
    assert_eq!(rig.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_server_makes_of_the_payload_is_written_once() {
    let index = index(&[template(5, "new")], &[]);
    let key = key(&index);
    let rig = Rig::new(index, |method, _| {
        let mut stored = projection(if method == "POST" { 6 } else { 7 }, "new");
        stored["spec"]["deprecated"] = json!(false);
        (200, stored)
    });
    let platform = Platform::default();
    driver::reconcile(&platform, &rig.reconcile_once(), &key)
        .await
        .unwrap();
    assert_eq!(rig.asked(), ["POST clustertemplates"]);
    driver::reconcile(&platform, &rig.reconcile_once(), &key)
        .await
        .unwrap();
    assert_eq!(rig.asked(), Vec::<String>::new());
    rig.context.index.lock().shop_has(TABLE, &projection(9, "edited"));
    driver::reconcile(&platform, &rig.reconcile_once(), &key)
        .await
        .unwrap();
    assert!(rig.asked().contains(&"PATCH basic".to_owned()));
}

#[tokio::test]
async fn a_name_that_is_taken_is_told_once_and_nothing_is_written() {
    let index = index(&[template(5, "new")], &[object("", NAME, "own")]);
    let key = key(&index);
    let rig = Rig::new(index, |_, _| (201, json!({})));
    let platform = Platform::default();
    driver::reconcile(&platform, &rig.reconcile_once(), &key)
        .await
        .unwrap();
    assert_eq!(rig.asked(), ["POST events"]);
    driver::reconcile(&platform, &rig.reconcile_once(), &key)
        .await
        .unwrap();
    assert_eq!(rig.asked(), Vec::<String>::new());
    assert_eq!(rig.context.quarantine.all()[0].1, "name_taken");
    rig.context
        .index
        .lock()
        .shop_lost(TABLE, &object("", NAME, "own"));
    rig.context.index.lock().hub_lost(TABLE, &template(5, "new"));
    driver::reconcile(&platform, &rig.reconcile_once(), &key)
        .await
        .unwrap();
    assert_eq!(rig.context.quarantine.all().len(), 0);
}

#[tokio::test]
async fn a_projects_refusal_is_its_own() {
    let index = index(&[template(5, "new")], &[]);
    let key = key(&index);
    let rig = Rig::new(index, |_, _| refusal(422, "Invalid", &json!({})));
    let failure = driver::reconcile(&Platform::default(), &rig.reconcile_once(), &key)
        .await
        .unwrap_err();
    assert_eq!(failure.category, Category::Refused);
    assert_eq!(failure.plane, Plane::Project(shop()));
}
