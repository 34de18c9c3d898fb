//! Decisions of the projector: the exact effects, and no others.

mod edges;
mod index;
mod other_hub;
mod place_labels;

use super::{
    decide::{self, Reporting, Snapshot},
    memory::Memory,
};
use crate::index::rows::{HubCopy, Projection, SIZE_LIMIT, Source, Strings, WriteBackDigest};
use crate::{
    projection::Decision,
    settings::{LARGEST_SPEC, Settings},
    testing,
};
use fedgate_api::{
    keys,
    names::{HubNamespace, ProjectKey},
};
use fedgate_engine::reconcile::throttle::Rate;
use fedgate_engine::{
    clock::Now,
    plan::{Effect, Endpoint, Plan, Write},
    store::table::Row,
};
use fedgate_kinds::{CompanionKinds, FederatedKind, KindId, PerKind};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::Instant;

static KINDS: LazyLock<Arc<PerKind<FederatedKind>>> =
    LazyLock::new(|| Arc::new(FederatedKind::builtin().unwrap().into()));

const HUB: &str = "ns-6d1f0c52";
static LENIENT: LazyLock<Settings> = LazyLock::new(testing::settings);

fn write_back() -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
        "metadata": {"name": "web-0", "namespace": HUB, "uid": "u-wb", "resourceVersion": "5",
            "finalizers": ["x/y"], "annotations": {keys::INSTANCE_UID: "i"},
            "labels": {keys::UPSTREAM_CLUSTER: "cluster-prod", keys::UPSTREAM_NAMESPACE: "shop",
                keys::WORKLOAD_DEPLOYMENT_NAME: "web", keys::WORKLOAD_DEPLOYMENT_UID: "cell-uid",
                keys::INSTANCE_CITY_CODE: "DFW", keys::CELL: "dfw-1", "extra": "label"},
            "ownerReferences": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                "name": "web", "uid": "u-copy", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"runtime": {"resources": {"instanceType": "t"}}},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Pending", "message": "m",
            "observedGeneration": 9, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

fn projection(owner_uid: &str) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-p", "resourceVersion": "8",
            "labels": {keys::UPSTREAM_CLUSTER: "cluster-prod", keys::UPSTREAM_NAMESPACE: "shop",
                keys::WORKLOAD_DEPLOYMENT_NAME: "web", keys::WORKLOAD_DEPLOYMENT_UID: "cell-uid",
                keys::INSTANCE_CITY_CODE: "DFW"},
            "ownerReferences": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                "name": "web", "uid": owner_uid}]},
        "spec": {"runtime": {"resources": {"instanceType": "t"}}},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Pending", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

fn deployment(uid: &str) -> Value {
    json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {"name": "web", "namespace": "x", "uid": uid, "resourceVersion": "1",
            "labels": {keys::CITY_CODE: "DFW"}, "annotations": {keys::SOURCE_UID: "u-source"}},
        "spec": {"cityCode": "DFW", "scaleSettings": {"minReplicas": 40}}})
}

fn row<D>(value: &Value, read: impl FnOnce(&DynamicObject) -> D) -> Row<D> {
    let object: DynamicObject = serde_json::from_value(value.clone()).unwrap();
    Row {
        uid: object.metadata.uid.as_deref().unwrap().into(),
        version: object
            .metadata
            .resource_version
            .as_deref()
            .unwrap()
            .parse()
            .unwrap(),
        deleting: false,
        partial: false,
        digest: read(&object),
        body: Some(Arc::new(object)),
    }
}

fn snapshot(write_back: Option<&Value>, projection: Option<&Value>) -> Snapshot {
    let kind = &KINDS[KindId::FIRST];
    Snapshot {
        kinds: KINDS.clone(),
        kind: KindId::FIRST,
        rules: kind.write_back.clone().unwrap(),
        project: ProjectKey::parse("prod").unwrap(),
        namespace: "shop".into(),
        hub: HubNamespace::parse(HUB).unwrap(),
        name: "web-0".into(),
        is_of_project: true,
        write_back: write_back.map(|v| row(v, |o| WriteBackDigest::read(o, kind, &mut Strings::default()))),
        copy: Some(row(&deployment("u-copy"), |o| {
            HubCopy::read(o, kind, &mut Strings::default())
        })),
        cells: Box::default(),
        source: Some(row(&deployment("u-source"), |o| {
            Source::read(o, kind, &CompanionKinds::default(), &mut Strings::default())
        })),
        ended: true,
        suspended: false,
        of_other_hub: false,
        proven: true,
        reporting: Reporting::Given,
        projection: projection.map(|v| row(v, |o| Projection::read(o, kind, &mut Strings::default()))),
        rank: 0,
        most: 80,
    }
}

fn now() -> Now {
    Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    }
}

/// The decision with an empty memory.
fn decide(s: &Snapshot, settings: &Settings) -> Decision {
    decide::decide(s, &mut Memory::default(), settings, now())
}

fn effects(d: Decision) -> Vec<Effect> {
    match d {
        Decision::Do(plan) => plan
            .effects
            .into_iter()
            .chain(plan.status.map(|status| *status))
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn quarantined(d: &Decision) -> &'static str {
    match d {
        Decision::Quarantine(rejection) => rejection.verdict.label(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_write_back_becomes_an_instance_owned_by_the_live_deployment_and_carries_nothing_else() {
    let made = effects(decide(&snapshot(Some(&write_back()), None), &LENIENT));
    assert_eq!(made.len(), 1);
    assert_eq!(
        made[0].write,
        Write::create(
            json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
                "metadata": {"name": "web-0", "namespace": "shop",
                    "labels": {keys::UPSTREAM_CLUSTER: "cluster-prod", keys::UPSTREAM_NAMESPACE: "shop",
                        keys::WORKLOAD_DEPLOYMENT_NAME: "web", keys::WORKLOAD_DEPLOYMENT_UID: "cell-uid",
                        keys::INSTANCE_CITY_CODE: "DFW"},
                    "ownerReferences": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                        "name": "web", "uid": "u-source"}]},
                "spec": {"runtime": {"resources": {"instanceType": "t"}}}})
        )
    );
}

#[test]
fn the_status_follows_without_the_cells_generations() {
    let mut fresh = projection("u-source");
    fresh["status"] = json!({"conditions": []});
    let made = effects(decide(&snapshot(Some(&write_back()), Some(&fresh)), &LENIENT));
    let Write::Apply { body, .. } = &made[0].write else {
        panic!("{made:?}")
    };
    assert_eq!(
        (made.len(), made[0].endpoint, &body["status"]),
        (1, Endpoint::Status, &projection("")["status"])
    );
}

#[test]
fn the_status_is_written_whatever_becomes_of_labels_and_spec() {
    let mut older = projection("u-source");
    older["spec"] = json!({});
    older["status"] = json!({});
    let Decision::Do(plan) = decide(&snapshot(Some(&write_back()), Some(&older)), &LENIENT) else {
        panic!("labels, spec and status differ");
    };
    assert_eq!(plan.effects.len(), 1);
    // A definition that is older than the cell's has fewer fields.
    let write = &plan.effects[0].write;
    assert!(matches!(write, Write::Update { strict: false, .. }), "{write:?}");
    assert_eq!(plan.status.map(|status| status.endpoint), Some(Endpoint::Status));
}

#[test]
fn at_rest_nothing_is_written() {
    assert_eq!(
        effects(decide(
            &snapshot(Some(&write_back()), Some(&projection("u-source"))),
            &LENIENT
        )),
        []
    );
}

#[test]
fn a_status_alone_is_one_status_write() {
    let mut w = write_back();
    w["status"]["conditions"][0]["status"] = json!("True");
    let made = effects(decide(
        &snapshot(Some(&w), Some(&projection("u-source"))),
        &LENIENT,
    ));
    assert_eq!((made.len(), made[0].endpoint), (1, Endpoint::Status));
}

#[test]
fn a_dead_owner_is_replaced_by_the_live_one() {
    let made = effects(decide(
        &snapshot(Some(&write_back()), Some(&projection("u-dead"))),
        &LENIENT,
    ));
    let Write::Update { body: patch, .. } = &made[0].write else {
        panic!("{made:?}")
    };
    assert_eq!(made.len(), 1);
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u-source");
    assert_eq!(
        (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
        (&json!("u-p"), &json!("8"))
    );
}

#[test]
fn a_projection_without_an_owner_gets_the_live_one_if_it_has_every_label_of_ours() {
    let mut left = projection("u-source");
    left["metadata"]["ownerReferences"] = json!([]);
    for key in &KINDS[KindId::FIRST].write_back.as_ref().unwrap().linking_labels {
        left["metadata"]["labels"][key] = json!("x");
    }
    let made = effects(decide(&snapshot(Some(&write_back()), Some(&left)), &LENIENT));
    let Write::Update { body: patch, .. } = &made[0].write else {
        panic!("{made:?}")
    };
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u-source");
    assert_eq!(patch["metadata"]["uid"], "u-p");
    let mut theirs = left;
    theirs["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!("cluster-else");
    assert_eq!(
        quarantined(&decide(&snapshot(Some(&write_back()), Some(&theirs)), &LENIENT)),
        "name_taken"
    );
}

#[test]
fn a_write_back_that_is_gone_takes_its_projection_along_and_no_other() {
    let gone = effects(decide(&snapshot(None, Some(&projection("u-source"))), &LENIENT));
    assert_eq!(
        gone[0].write,
        Write::Delete {
            uid: "u-p".into(),
            resource_version: None
        }
    );
    let mut foreign = projection("u-source");
    foreign["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!("cluster-else");
    assert_eq!(
        decide(&snapshot(None, Some(&foreign)), &LENIENT),
        Decision::Do(Plan::default())
    );
}

#[test]
fn a_projection_that_its_deployment_has_left_behind_goes_and_a_tenants_instance_stays() {
    let mut left = projection("u-source");
    left["metadata"]["ownerReferences"] = json!([]);
    for key in &KINDS[KindId::FIRST].write_back.as_ref().unwrap().linking_labels {
        left["metadata"]["labels"][key] = json!("x");
    }
    let gone = effects(decide(&snapshot(None, Some(&left)), &LENIENT));
    assert_eq!(gone[0].reason.label(), "delete_projection");
    for (path, value) in [
        (
            "/metadata/labels",
            json!({keys::UPSTREAM_CLUSTER: "cluster-prod"}),
        ),
        (
            "/metadata/ownerReferences",
            json!([{"apiVersion": "x/v1", "kind": "X", "name": "mine", "uid": "u"}]),
        ),
    ] {
        let mut theirs = left.clone();
        *theirs.pointer_mut(path).unwrap() = value;
        assert_eq!(
            decide(&snapshot(None, Some(&theirs)), &LENIENT),
            Decision::Do(Plan::default())
        );
    }
}

#[test]
fn what_is_forged_oversized_or_taken_is_quarantined() {
    for key in [keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE] {
        let mut w = write_back();
        w["metadata"]["labels"][key] = json!("forged");
        assert_eq!(
            quarantined(&decide(&snapshot(Some(&w), None), &LENIENT)),
            "identity_mismatch"
        );
    }
    let mut w = write_back();
    w["metadata"]["ownerReferences"][0]["uid"] = json!("other");
    assert_eq!(
        quarantined(&decide(&snapshot(Some(&w), None), &LENIENT)),
        "owner_mismatch"
    );
    let mut w = write_back();
    w["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(
        quarantined(&decide(
            &snapshot(Some(&w), None),
            &Settings {
                require_owner: true,
                ..testing::settings()
            }
        )),
        "owner_mismatch"
    );
    let mut w = write_back();
    w["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME] = json!("");
    w["metadata"]["name"] = json!("web");
    assert_eq!(
        quarantined(&decide(&snapshot(Some(&w), None), &LENIENT)),
        "missing_deployment_name"
    );
    let mut w = write_back();
    w["spec"]["big"] = json!("x".repeat(SIZE_LIMIT as usize));
    assert_eq!(
        quarantined(&decide(&snapshot(Some(&w), None), &LENIENT)),
        "too_large"
    );
    let of_size = |size: u32| {
        let mut w = write_back();
        w["spec"]["big"] = json!("");
        let base = snapshot(Some(&w), None).write_back.unwrap().digest.size;
        w["spec"]["big"] = json!("x".repeat((size - base) as usize));
        w
    };
    assert_eq!(
        quarantined(&decide(&snapshot(Some(&of_size(SIZE_LIMIT + 1)), None), &LENIENT)),
        "too_large"
    );
    let fits = decide(&snapshot(Some(&of_size(SIZE_LIMIT)), None), &LENIENT);
    assert_eq!(effects(fits).len(), 1, "the last byte that fits");
    let of_largest_spec = decide(
        &snapshot(Some(&of_size(LARGEST_SPEC + 32 * 1024)), None),
        &LENIENT,
    );
    assert_eq!(
        effects(of_largest_spec).len(),
        1,
        "a spec that a Workload may have, and a status"
    );
    let mut theirs = projection("u-source");
    theirs["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(
        quarantined(&decide(&snapshot(Some(&write_back()), Some(&theirs)), &LENIENT)),
        "name_taken"
    );
    let mut s = snapshot(Some(&write_back()), None);
    s.rank = 80;
    assert_eq!(quarantined(&decide(&s, &LENIENT)), "too_many");
    s.rank = 79;
    assert_eq!(effects(decide(&s, &LENIENT)).len(), 1);
}

#[test]
fn what_an_earlier_copy_left_is_awaited_for_a_minute_before_it_counts_as_forged() {
    let mut w = write_back();
    w["metadata"]["ownerReferences"][0]["uid"] = json!("u-earlier");
    w["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut copy = deployment("u-copy");
    copy["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:05Z");
    let mut s = snapshot(Some(&w), None);
    s.copy = Some(row(&copy, |o| {
        HubCopy::read(o, &KINDS[KindId::FIRST], &mut Strings::default())
    }));
    let (mut memory, start) = (Memory::default(), now());
    let minute = Duration::from_mins(1);
    let first = decide::decide(&s, &mut memory, &LENIENT, start);
    assert_eq!(first, Decision::WaitFor(minute));
    let later = Now {
        instant: start.instant + minute,
        ..start
    };
    let last = decide::decide(&s, &mut memory, &LENIENT, later);
    assert_eq!(quarantined(&last), "owner_mismatch");
    // A write-back that is newer than the copy does not belong to an earlier copy, even while the garbage collector
    // runs.
    w["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:09Z");
    s.write_back = snapshot(Some(&w), None).write_back;
    assert_eq!(quarantined(&decide(&s, &LENIENT)), "owner_mismatch");
    s.write_back.as_mut().unwrap().deleting = true;
    assert_eq!(quarantined(&decide(&s, &LENIENT)), "owner_mismatch");
}

#[test]
fn what_is_missing_is_awaited() {
    for take in [
        |s: &mut Snapshot| s.copy = None,
        |s: &mut Snapshot| s.source = None,
        |s: &mut Snapshot| s.source.as_mut().unwrap().deleting = true,
        |s: &mut Snapshot| s.is_of_project = false,
        |s: &mut Snapshot| s.copy.as_mut().unwrap().digest.source_uid = Some("u-another-life".into()),
    ] {
        let mut s = snapshot(Some(&write_back()), None);
        take(&mut s);
        assert_eq!(decide(&s, &LENIENT), Decision::Wait);
    }
    let mut w = write_back();
    w["metadata"]["labels"][keys::INSTANCE_CITY_CODE] = json!("LHR");
    assert_eq!(
        decide(&snapshot(Some(&w), None), &LENIENT),
        Decision::Wait,
        "a move is under way"
    );
}

#[test]
fn a_cell_that_the_copy_is_not_given_to_has_nothing_to_say() {
    let mut s = snapshot(Some(&write_back()), None);
    s.cells = ["dfw-2".into()].into();
    assert_eq!(decide(&s, &LENIENT), Decision::Wait);
    s.projection = snapshot(None, Some(&projection("u-dead"))).projection;
    assert_eq!(
        decide(&s, &LENIENT),
        Decision::Wait,
        "what is projected stays as it is"
    );
    s.cells = ["dfw-2".into(), "dfw-1".into()].into();
    assert_eq!(effects(decide(&s, &LENIENT)).len(), 1);
    // A write-back of the peer's cells has no controller.
    let mut peer = write_back();
    peer["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove(keys::CELL);
    let mut s = snapshot(Some(&peer), None);
    s.cells = ["dfw-2".into()].into();
    assert_eq!(effects(decide(&s, &LENIENT)).len(), 1);
}

#[test]
fn what_the_projects_api_does_not_keep_is_written_once() {
    // The project's schema is older and drops a field of spec and status.
    let mut w = write_back();
    w["spec"]["new"] = json!(1);
    w["status"]["new"] = json!(1);
    let s = snapshot(Some(&w), Some(&projection("u-source")));
    let mut memory = Memory::default();
    let made = effects(decide::decide(&s, &mut memory, &LENIENT, now()));
    assert_eq!(made.len(), 2);
    let (asked, got) = (s.write_back.as_ref().unwrap(), s.projection.as_ref().unwrap());
    memory.record_stored(false, &asked.digest, &got.digest);
    let made = effects(decide::decide(&s, &mut memory, &LENIENT, now()));
    assert_eq!(
        made.iter().map(|e| e.endpoint).collect::<Vec<_>>(),
        [Endpoint::Status],
        "the one says nothing of the other"
    );
    memory.record_stored(true, &asked.digest, &got.digest);
    assert_eq!(effects(decide::decide(&s, &mut memory, &LENIENT, now())), []);
    // A change on either side, and a wrong owner, count as before.
    w["spec"]["new"] = json!(2);
    let changed = snapshot(Some(&w), Some(&projection("u-source")));
    assert_eq!(
        effects(decide::decide(&changed, &mut memory, &LENIENT, now())).len(),
        1
    );
    let mut edited = projection("u-source");
    edited["spec"]["runtime"] = json!({});
    w["spec"]["new"] = json!(1);
    let edited = snapshot(Some(&w), Some(&edited));
    assert_eq!(
        effects(decide::decide(&edited, &mut memory, &LENIENT, now())).len(),
        1
    );
    let dead = snapshot(Some(&w), Some(&projection("u-dead")));
    assert_eq!(
        effects(decide::decide(&dead, &mut memory, &LENIENT, now())).len(),
        1
    );
    decide::decide(&snapshot(None, None), &mut memory, &LENIENT, now());
    assert_eq!(memory, Memory::default());
}

#[test]
fn updates_of_a_projection_are_limited_by_a_token_bucket_and_ready_does_not_wait_behind_progress() {
    let mut w = write_back();
    w["status"]["conditions"][0]["message"] = json!("pulling");
    let progress = snapshot(Some(&w), Some(&projection("u-source")));
    w["status"]["conditions"][0]["status"] = json!("True");
    let ready = snapshot(Some(&w), Some(&projection("u-source")));
    let (mut memory, start) = (Memory::default(), now());
    let rate = Rate::new(LENIENT.status_interval);
    let at = |millis| Now {
        instant: start.instant + Duration::from_millis(millis),
        ..start
    };
    let decide = |s: &Snapshot, memory: &mut Memory, millis| decide::decide(s, memory, &LENIENT, at(millis));
    for millis in 0..3 {
        assert_eq!(
            effects(decide(&progress, &mut memory, millis)).len(),
            1,
            "{millis}"
        );
        memory.updates.take(rate, at(millis).instant);
    }
    assert_eq!(
        decide(&progress, &mut memory, 100),
        Decision::Throttled(Duration::from_millis(150))
    );
    assert_eq!(effects(decide(&ready, &mut memory, 100)).len(), 1);
    assert_eq!(effects(decide(&progress, &mut memory, 250)).len(), 1);
    // An unchanged projection waits for nothing, and neither does a creation or a deletion.
    let idle = snapshot(Some(&write_back()), Some(&projection("u-source")));
    assert_eq!(decide(&idle, &mut memory, 3), Decision::Do(Plan::default()));
    let first = snapshot(Some(&write_back()), None);
    assert_eq!(effects(decide(&first, &mut memory, 3)).len(), 1);
    let gone = snapshot(None, Some(&projection("u-source")));
    assert_eq!(effects(decide(&gone, &mut memory, 3)).len(), 1);
    assert_eq!(memory, Memory::default());
}

#[tokio::test]
async fn a_projection_whose_write_back_was_not_seen_to_go_waits_for_the_hub_and_the_cells() {
    let mut s = snapshot(None, Some(&projection("u-source")));
    let (mut memory, start) = (Memory::default(), now());
    let confirms =
        |decision: Decision| matches!(decision, Decision::Confirm(plan) if plan.effects.len() == 1);
    (s.ended, s.proven) = (false, false);
    assert_eq!(decide::decide(&s, &mut memory, &LENIENT, start), Decision::Wait);
    s.proven = true;
    assert!(confirms(decide::decide(&s, &mut memory, &LENIENT, start)));
    let hour = Duration::from_secs(3_600);
    let late = Now {
        instant: start.instant + hour,
        ..start
    };
    for since in [None, Some(start.instant)] {
        s.reporting = Reporting::Awaited(since);
        let first = decide::decide(&s, &mut memory, &LENIENT, start);
        assert_eq!(first, Decision::WaitFor(hour), "{since:?}");
        assert!(
            confirms(decide::decide(&s, &mut memory, &LENIENT, late)),
            "{since:?}"
        );
        memory = Memory::default();
    }
    s.ended = true;
    assert!(matches!(
        decide::decide(&s, &mut memory, &LENIENT, start),
        Decision::Do(_)
    ));
}
