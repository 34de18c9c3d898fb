//! The cell that a copy names, and moves from cell to cell (contract: serving.md §1 and §2).

use super::*;
use crate::{
    federator::observe::observe,
    index::{
        GatewayIndex, ObjectRef, TableId,
        fixture::{self, shop},
        intents::moves::PlannedMove,
        rows::MoveCause,
    },
    queries::cells::Moving,
};
use fedgate_engine::{key::Plane, plan::Target};

#[tokio::test]
async fn a_cell_is_named_by_one_patch_of_the_version_that_was_seen() {
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    s.binding = Some(binding());
    s.cells.to_name = Some("dfw-2".into());
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
    let mut source = fixture::source("web", "DFW");
    source["spec"]["scaleSettings"] = json!({"minReplicas": 1});
    index.shop_has(TableId::DEPLOYMENTS, &source);
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
    observe(index, &key, &shop()).unwrap().cells.to_name
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

/// A copy that names these cells: the one that counts, and the one to which it moves.
fn naming(counts: Option<&str>, moving_to: Option<&str>) -> Value {
    let mut copy = hub_copy();
    for (key, cell) in [(keys::CELL, counts), (keys::MOVING_TO, moving_to)] {
        if let Some(cell) = cell {
            copy["metadata"]["annotations"][key] = json!(cell);
        }
    }
    copy
}

/// A snapshot of such a copy, whose binding has two replicas.
fn at_cells(counts: Option<&str>, moving_to: Option<&str>) -> Snapshot {
    let mut s = snapshot(&deployment(), Some(&naming(counts, moving_to)));
    let mut bound = binding_value();
    bound["spec"]["replicas"] = json!(2);
    s.binding = Some(read_binding(&bound));
    let resource = crate::index::resource("work.karmada.io", "v1alpha2", "ResourceBinding");
    s.cells.binding = Some(Target::namespaced(
        Plane::Hub,
        &resource,
        HUB,
        "storefront-us-dfw-workloaddeployment",
    ));
    s
}

fn planned() -> PlannedMove {
    PlannedMove {
        from: "dfw-1".into(),
        to: "dfw-2".into(),
        cause: MoveCause::Draining,
        since: now().instant,
    }
}

/// A move that began so many seconds before [`now`], and still serves at the former cell.
fn moving(seconds: i64) -> Moving {
    Moving {
        from: "dfw-1".into(),
        to: Some("dfw-2".into()),
        cause: MoveCause::Draining,
        is_misplaced: false,
        since: now().wall - jiff::SignedDuration::from_secs(seconds),
        is_healthy: false,
        serves: true,
        is_written: false,
    }
}

#[tokio::test]
async fn a_move_begins_with_a_request_on_the_copy_and_one_patch_of_the_binding() {
    let mut s = at_cells(None, None);
    s.cells.planned = Some(planned());
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "request_move");
    assert_eq!(
        patch(&effect),
        &json!({"metadata": {"uid": "u-copy", "resourceVersion": "900", "annotations": {keys::MOVING_TO: "dfw-2"}}})
    );
    let unasked = decision(&s, &Memory::default(), &SETTINGS, Permit::Unasked, now());
    assert_eq!(unasked.action, Action::Permit(Class::Update));

    let mut s = at_cells(None, Some("dfw-2"));
    s.cells.planned = Some(planned());
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(
        (effect.reason.label(), &*effect.target.name),
        ("start_move", "storefront-us-dfw-workloaddeployment")
    );
    assert_eq!(
        patch(&effect),
        &json!({"metadata": {"uid": "u-b", "resourceVersion": "1"}, "spec": {
            "clusters": [{"name": "dfw-2", "replicas": 2}],
            "gracefulEvictionTasks": [{"fromCluster": "dfw-1", "purgeMode": "Gracefully", "suppressDeletion": true,
                "producer": "fedgate", "reason": "Draining", "creationTimestamp": "2026-05-04T10:00:00Z"}]}})
    );
    s.complete = false;
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
}

/// The cell that the copy names, the seconds since the move began, what is so of it, and the reason of the write that follows.
type Step = (Option<&'static str>, i64, fn(&mut Moving), Option<&'static str>);

#[tokio::test]
async fn the_former_cell_is_released_after_the_new_one_serves_and_has_written() {
    let healthy = |m: &mut Moving| m.is_healthy = true;
    let written = |m: &mut Moving| (m.is_healthy, m.is_written) = (true, true);
    let dead = |m: &mut Moving| m.serves = false;
    let table: [Step; 10] = [
        (None, 0, |_| {}, None),
        (None, 0, written, Some("name_cell")),
        (Some("dfw-1"), 0, healthy, Some("name_cell")),
        (Some("dfw-2"), 0, healthy, None),
        (Some("dfw-2"), 0, written, Some("end_move")),
        // Overdue: what serves stays, and what serves nowhere goes on at the new cell.
        (None, 600, |_| {}, Some("cancel_move")),
        (None, 600, dead, Some("name_cell")),
        (Some("dfw-2"), 600, dead, Some("end_move")),
        (Some("dfw-2"), 600, healthy, Some("cancel_move")),
        (None, 599, dead, None),
    ];
    for (named, seconds, how, expected) in table {
        let mut s = at_cells(named, Some("dfw-2"));
        let mut under_way = moving(seconds);
        how(&mut under_way);
        s.cells.moving = Some(under_way);
        let (effects, _) = plan(decide(&s, &mut Memory::default(), &SETTINGS, now()));
        // A status may be returned where the move has nothing to write.
        let moves = [
            "name_cell",
            "end_move",
            "cancel_move",
            "start_move",
            "request_move",
        ];
        let wrote: Vec<_> = effects
            .iter()
            .map(|effect| effect.reason.label())
            .filter(|reason| moves.contains(reason))
            .collect();
        assert_eq!(
            wrote.first().copied(),
            expected,
            "{named:?} {seconds} {:?}",
            s.cells.moving
        );
    }
}

#[tokio::test]
async fn the_writes_of_a_move_are_exact() {
    let mut s = at_cells(Some("dfw-1"), Some("dfw-2"));
    s.cells.moving = Some(Moving {
        is_healthy: true,
        ..moving(1)
    });
    let named = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(
        patch(&named)["metadata"]["annotations"],
        json!({keys::CELL: "dfw-2", keys::MOVING_TO: null})
    );
    let mut s = at_cells(Some("dfw-2"), None);
    s.cells.moving = Some(Moving {
        is_healthy: true,
        is_written: true,
        ..moving(1)
    });
    let action = decide(&s, &mut Memory::default(), &SETTINGS, now());
    let Action::Apply(ended) = &action else {
        panic!("{action:?}")
    };
    assert_eq!(ended.notes[0].reason, "CellMoved");
    assert_eq!(
        ended.notes[0].message,
        "moved from cell dfw-1 to cell dfw-2 because an operator drains cell dfw-1"
    );
    assert_eq!(
        patch(&one(action))["spec"],
        json!({"gracefulEvictionTasks": null})
    );

    let mut s = at_cells(None, Some("dfw-2"));
    s.cells.moving = Some(moving(600));
    let action = decide(&s, &mut Memory::default(), &SETTINGS, now());
    let Action::Apply(cancelled) = &action else {
        panic!("{action:?}")
    };
    assert_eq!(cancelled.notes[0].reason, "MoveStalled");
    assert_eq!(
        patch(&one(action))["spec"],
        json!({"clusters": [{"name": "dfw-1", "replicas": 2}], "gracefulEvictionTasks": null})
    );
    // The request of an operator goes with the move.
    let mut there = naming(None, Some("dfw-2"));
    there["metadata"]["annotations"][keys::MOVE_TO] = json!("dfw-2");
    let mut s = at_cells(None, None);
    s.copy = Some(copy(&there));
    s.cells.cancelled = Some("dfw-2".into());
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(
        (effect.reason.label(), &patch(&effect)["metadata"]["annotations"]),
        (
            "request_move",
            &json!({keys::MOVING_TO: null, keys::MOVE_TO: null})
        )
    );
}

#[tokio::test]
async fn a_move_without_a_new_cell_is_cancelled_and_a_move_from_another_city_ends() {
    let write = |change: fn(&mut Moving)| {
        let mut s = at_cells(None, Some("dfw-2"));
        let mut under_way = moving(1);
        change(&mut under_way);
        s.cells.moving = Some(under_way);
        let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
        (effect.reason.label(), patch(&effect)["spec"].clone())
    };
    assert_eq!(
        write(|m| m.to = None),
        (
            "cancel_move",
            json!({"clusters": [{"name": "dfw-1", "replicas": 2}], "gracefulEvictionTasks": null})
        )
    );
    assert_eq!(
        write(|m| m.is_misplaced = true),
        ("end_move", json!({"gracefulEvictionTasks": null}))
    );
}

#[tokio::test]
async fn a_move_does_not_keep_back_a_spec_and_goes_on_while_the_project_is_suspended() {
    let mut s = at_cells(None, None);
    s.cells.planned = Some(planned());
    let mut edited = deployment();
    edited["metadata"]["generation"] = json!(4);
    edited["spec"]["template"]["spec"]["runtime"]["x"] = json!(1);
    s.source = Some(source(&edited));
    assert_eq!(
        one(decide(&s, &mut Memory::default(), &SETTINGS, now()))
            .reason
            .label(),
        "update_copy"
    );
    let mut s = at_cells(Some("dfw-2"), None);
    s.cells.moving = Some(Moving {
        is_healthy: true,
        is_written: true,
        ..moving(1)
    });
    s.suspended = true;
    assert_eq!(
        one(decide(&s, &mut Memory::default(), &SETTINGS, now()))
            .reason
            .label(),
        "end_move"
    );
}

#[tokio::test]
async fn a_tenant_reads_that_its_deployment_moves_stays_or_is_lost() {
    let federated = |change: fn(&mut Snapshot)| {
        let mut s = at_cells(Some("dfw-1"), None);
        change(&mut s);
        let mut memory = Memory::default();
        // A True condition alone waits for the usual report, so that a quick move is not told.
        let (mut effects, _) = plan(decide(&s, &mut memory, &SETTINGS, now()));
        assert_eq!(effects.is_empty(), s.cells.stranded.is_none(), "{effects:?}");
        if effects.is_empty() {
            (effects, _) = plan(decide(&s, &mut memory, &SETTINGS, later(now(), GRACE_PERIOD)));
        }
        let status = effects
            .iter()
            .find(|effect| effect.reason.label() == "return_status")
            .unwrap();
        let all = patch(status)["status"]["conditions"].as_array().unwrap().clone();
        let federated = all
            .into_iter()
            .find(|condition| condition["type"] == "Federated")
            .unwrap();
        ["status", "reason", "message"].map(|field| federated[field].as_str().unwrap().to_owned())
    };
    assert_eq!(
        federated(|s| s.cells.moving = Some(moving(0))),
        [
            "True",
            "Moving",
            "moving from cell dfw-1 to cell dfw-2 since 2026-05-04T10:00:00Z"
        ]
    );
    assert_eq!(
        federated(|s| s.cells.cancelled = Some("dfw-2".into()))[..2],
        ["True", "MoveStalled"]
    );
    assert_eq!(
        federated(|s| s.cells.stranded = Some(("dfw-1".into(), 1_777_888_800)))[..2],
        ["False", "CellLost"]
    );
}

#[test]
fn a_move_is_read_from_its_binding_and_only_the_gateways_own() {
    for replicas in [json!(1), json!(null)] {
        a_move_is_read_from_a_binding_with(&replicas);
    }
}

fn a_move_is_read_from_a_binding_with(replicas: &Value) {
    let read = |producer: &str, reason: &str, health: &str| {
        let mut index = index(Some("dfw-1"), &["dfw-2"], &[]);
        let mut bound = fixture::binding("web");
        bound["metadata"]["resourceVersion"] = json!("6");
        bound["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "x", "kind": "WorkloadDeployment", "name": "web", "uid": "c-web"}]);
        bound["spec"]["replicas"] = replicas.clone();
        bound["spec"]["clusters"] = json!([{"name": "dfw-2"}]);
        bound["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "dfw-1", "producer": producer, "reason": reason,
            "creationTimestamp": "2026-05-04T10:00:00Z"}]);
        bound["status"]["aggregatedStatus"] = json!([
            {"clusterName": "dfw-1", "applied": true, "health": "Healthy"},
            {"clusterName": "dfw-2", "applied": true, "health": health}]);
        index.hub_has(TableId::Bindings, &bound);
        let mut other = fixture::cluster("DFW");
        other["metadata"]["name"] = json!("dfw-2");
        other["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        index.hub_has(TableId::Clusters, &other);
        index.hub_has(
            TableId::WrittenBack(KindId::FIRST),
            &write_back("dfw-1", "DFW", "5"),
        );
        let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
        let moving = observe(&index, &key, &shop()).unwrap().cells.moving;
        (moving, index)
    };
    assert_eq!(read("someone", "Draining", "Healthy").0, None);
    assert_eq!(read("fedgate", "Other", "Healthy").0, None);
    let (moving, mut index) = read("fedgate", "CellLost", "Unhealthy");
    let moving = moving.unwrap();
    assert_eq!(
        (&*moving.from, moving.to.as_deref(), moving.cause),
        ("dfw-1", Some("dfw-2"), MoveCause::CellLost)
    );
    // The Cluster of the fixture has no condition, so that nothing serves there.
    assert!(!moving.is_healthy && !moving.serves && !moving.is_written);
    let moving = read("fedgate", "CellLost", "Healthy").0.unwrap();
    assert!(moving.is_healthy && !moving.is_written);
    index.hub_has(
        TableId::WrittenBack(KindId::FIRST),
        &write_back("dfw-2", "DFW", "6"),
    );
    let of = ObjectRef::new(KindId::FIRST, &fixture::HUB.into(), &"web".into());
    assert!(crate::queries::cells::of(&index, &of).moving.unwrap().is_written);
}
