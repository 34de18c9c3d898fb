//! Decisions on Cells. An index filled by watch events takes the place of the planes, and reports that of the steps.

use super::{
    decide::{Decision, LastRun, decide},
    observe,
};
use crate::{
    index::{CellsIndex, TableId},
    reason::{Problem, Reason},
    report::{End, Report, Step},
};
use fedgate_api::cell::CellCluster;
use fedgate_engine::{
    clock::Now,
    key::{Key, Plane},
    plan::{Effect, Endpoint, Event, Plan, Prepared, Requeue, Write},
    plane::watch::WatchEvent,
};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const CELL: &str = "dfw-2";

/// A hub with a Cell and a Secret beside the role, and the last report.
struct World {
    index: CellsIndex,
    last: Option<LastRun>,
    now: Now,
    version: u64,
    cell: Value,
}

impl World {
    fn new() -> Self {
        let mut index = CellsIndex::new("secrets".into(), Vec::new());
        for table in [TableId::Cells, TableId::Clusters, TableId::Secrets] {
            index.event(table, WatchEvent::Init);
            index.event(table, WatchEvent::InitDone);
        }
        let mut world = Self {
            index,
            last: None,
            now: Now {
                wall: "2026-01-01T00:00:00Z".parse().unwrap(),
                instant: Instant::now(),
            },
            version: 10,
            cell: json!({"apiVersion": "fedgate.dev/v1alpha1", "kind": "Cell",
                "metadata": {"name": CELL, "uid": "u-1", "generation": 1},
                "spec": {"city": "DFW", "provider": {"existing": {"kubeconfigSecret": "dfw-2-admin"}}}}),
        };
        world.change(|_| {});
        world
    }

    fn has(&mut self, table: TableId, mut object: Value) -> Vec<Key> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let (changes, _) = self.index.event(table, WatchEvent::Apply(Box::new(object)));
        let mut keys = Vec::new();
        for change in &changes {
            self.index.keys_of(change, &mut keys);
        }
        keys
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.cell);
        self.has(TableId::Cells, self.cell.clone());
    }

    fn secret(&mut self, cells: &str) -> Vec<Key> {
        self.has(
            TableId::Secrets,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "secrets", "name": "dfw-2-admin",
                "uid": "s", "annotations": {"fedgate.dev/cells": cells}}}),
        )
    }

    fn cluster(&mut self, city: Option<&str>, ready: &str) -> Vec<Key> {
        let labels = city.map(|city| json!({"topology.datum.net/city-code": city}));
        self.has(
            TableId::Clusters,
            json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": CELL, "uid": "c",
                "labels": labels, "annotations": {"fedgate.dev/cell-uid": "member-1"}}, "spec": {"id": "1"},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
        )
    }

    fn decide(&mut self) -> Decision {
        let s = observe(&self.index, &CellsIndex::key(CELL)).unwrap();
        if self.last.is_none() {
            self.last = LastRun::of_status(&s, self.now);
        }
        decide(&s, self.last.as_ref(), self.now)
    }

    /// The steps run, and find this.
    fn finds(&mut self, outcomes: &[(Step, Option<Reason>)], end: End) {
        assert_eq!(self.decide(), Decision::RunSteps);
        let mut report = Report::new(self.now.wall);
        report.cluster = Some(CellCluster {
            id: "1".to_owned(),
            endpoint: "https://dfw-2".to_owned(),
        });
        for (step, missing) in outcomes {
            let result = missing.map_or(Ok(()), |reason| Err(Problem::new(reason, "why")));
            report.add(*step, result);
        }
        report.end = end;
        let s = observe(&self.index, &CellsIndex::key(CELL)).unwrap();
        self.last = Some(LastRun::of(
            s.present().unwrap(),
            report,
            self.last.as_ref(),
            self.now,
        ));
    }

    fn plan(&mut self) -> Plan<Prepared> {
        let Decision::Write(plan) = self.decide() else {
            panic!("nothing is written: {:?}", self.decide());
        };
        assert_eq!((plan.effects.len(), plan.status.is_none()), (1, true));
        *plan
    }

    /// The patch of the only write, which the hub then has, and the reasons of its Events.
    fn written(&mut self) -> (Endpoint, Value, Vec<(bool, String)>) {
        let Plan { effects, notes, .. } = self.plan();
        let Effect {
            target,
            endpoint,
            write: Write::Merge { patch },
            ..
        } = effects.into_iter().next().unwrap()
        else {
            panic!("it is no merge patch");
        };
        assert_eq!((target.plane, &*target.name), (Plane::Hub, CELL));
        assert_eq!(patch["metadata"]["uid"], "u-1");
        let merged = patch.clone();
        self.change(|cell| merge(cell, &merged));
        let told = |note: Event| (note.warning, note.reason);
        (endpoint, patch, notes.into_iter().map(told).collect())
    }

    fn condition(&self, of: &str) -> (String, String) {
        let conditions = self.cell["status"]["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == of)
            .unwrap();
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    fn hold(&mut self) {
        self.secret(CELL);
        self.finds(&[(Step::Validated, None)], End::NeedsFinalizer);
        let (endpoint, patch, notes) = self.written();
        assert_eq!(
            (endpoint, &patch["metadata"]["finalizers"], notes),
            (Endpoint::Main, &json!(["fedgate.dev/cell"]), Vec::new())
        );
    }

    /// A cell that takes deployments.
    fn open(&mut self) {
        self.hold();
        self.cluster(Some("DFW"), "True");
        self.finds(&OPEN, End::Reported);
        self.written();
    }
}

const OPEN: [(Step, Option<Reason>); 4] = [
    (Step::Validated, None),
    (Step::Registered, None),
    (Step::AgentReady, None),
    (Step::Ready, None),
];

fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    for (key, value) in fields {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

fn after(seconds: u64) -> Decision {
    Decision::Wait(Requeue::After(Duration::from_secs(seconds)))
}

#[test]
fn a_cell_whose_secret_is_missing_is_written_once_and_goes_on_by_the_secrets_event() {
    let mut w = World::new();
    w.finds(&[(Step::Validated, Some(Reason::SecretMissing))], End::Reported);
    let (endpoint, patch, notes) = w.written();
    assert_eq!(endpoint, Endpoint::Status);
    assert_eq!(notes, [(true, "SecretMissing".to_owned())]);
    assert_eq!(
        (&patch["status"]["phase"], &patch["status"]["provider"]),
        (&json!("Failed"), &json!("existing"))
    );
    assert_eq!(
        w.condition("Ready"),
        ("False".to_owned(), "SecretMissing".to_owned())
    );
    assert_eq!(w.decide(), Decision::Wait(Requeue::AwaitChange));
    assert_eq!(w.secret("dfw-3"), [CellsIndex::key(CELL)]);
    assert_eq!(w.decide(), Decision::RunSteps, "an event of the Secret");
}

#[test]
fn nothing_is_written_for_a_cell_before_it_has_the_finalizer() {
    let mut w = World::new();
    w.hold();
    assert_eq!(w.decide(), Decision::RunSteps);
}

#[test]
fn the_id_of_the_cluster_is_told_before_anything_is_written_for_the_cell() {
    let mut w = World::new();
    w.hold();
    w.finds(&[(Step::Validated, None)], End::ClusterFound);
    let (endpoint, patch, _) = w.written();
    assert_eq!(endpoint, Endpoint::Status);
    assert_eq!(patch["status"]["cluster"]["id"], "1");
    assert!(
        patch["status"]["provenAt"].is_null(),
        "no step but the first was reached"
    );
    assert_eq!(w.decide(), Decision::RunSteps);
}

#[test]
fn an_open_cell_is_at_rest_for_a_day_also_after_a_restart() {
    let mut w = World::new();
    w.open();
    assert_eq!(w.cell["status"]["phase"], "Provisioned");
    assert_eq!(w.cell["status"]["cluster"]["id"], "1");
    assert_eq!(w.decide(), after(3_600));
    w.now.instant += Duration::from_mins(10);
    w.now.wall += jiff::SignedDuration::from_mins(10);
    assert_eq!(w.decide(), after(3_000));
    w.last = None;
    assert_eq!(w.decide(), after(3_000), "its status proves it");
    w.change(|cell| cell["metadata"]["annotations"] = json!({"fedgate.dev/retry": "1"}));
    assert_eq!(w.decide(), Decision::RunSteps, "an operator asks for it");
    w.last = None;
    w.decide();
    // Each of these changes lets the steps run.
    w.cluster(None, "True");
    assert_eq!(w.decide(), Decision::RunSteps, "its city is gone");
    w.cluster(Some("DFW"), "False");
    assert_eq!(w.decide(), Decision::RunSteps, "Karmada cannot deliver");
    w.cluster(Some("DFW"), "True");
    w.change(|cell| cell["metadata"]["generation"] = json!(2));
    assert_eq!(w.decide(), Decision::RunSteps, "it has changed");
}

#[test]
fn a_member_that_goes_away_closes_no_cell_and_is_asked_more_and_more_slowly() {
    let mut w = World::new();
    w.open();
    w.cluster(Some("DFW"), "False");
    let away = [
        (Step::Validated, None),
        (Step::Registered, Some(Reason::Unreachable)),
    ];
    w.finds(&away, End::Reported);
    let (_, _, notes) = w.written();
    assert_eq!(notes, [(true, "Unreachable".to_owned())]);
    assert_eq!(
        w.condition("Registered"),
        ("False".to_owned(), "Unreachable".to_owned())
    );
    assert_eq!(
        w.condition("Ready"),
        ("False".to_owned(), "ClusterNotReady".to_owned())
    );
    assert_eq!(w.condition("AgentReady").0, "True", "nobody knows better");
    for delay in [1, 2, 4] {
        assert_eq!(w.decide(), after(delay));
        w.now.instant += Duration::from_secs(delay);
        w.finds(&away, End::Reported);
    }
    // Karmada reaches it, though the role does not.
    w.cluster(Some("DFW"), "True");
    w.finds(&away, End::Reported);
    w.written();
    assert_eq!(w.condition("Ready").0, "True");
    assert_eq!(w.cell["status"]["phase"], "Provisioned");
}

#[test]
fn a_drained_cell_shows_its_drain_and_is_looked_at_every_30_s_until_it_is_empty() {
    let mut w = World::new();
    w.open();
    w.change(|cell| {
        cell["spec"]["state"] = json!("Drained");
        cell["metadata"]["generation"] = json!(2);
    });
    let found = |drained| {
        [
            (Step::Validated, None),
            (Step::Registered, None),
            (Step::AgentReady, None),
            (Step::Drained, drained),
            (Step::Ready, Some(Reason::Drained)),
        ]
    };
    w.finds(&found(Some(Reason::LastCellOfCity)), End::Reported);
    let (_, patch, notes) = w.written();
    assert_eq!(
        (&patch["status"]["phase"], notes),
        (&json!("Draining"), Vec::new())
    );
    assert_eq!(w.decide(), after(30));
    w.now.instant += Duration::from_secs(30);
    w.finds(&found(None), End::Reported);
    w.written();
    assert_eq!(w.cell["status"]["phase"], "Drained");
    assert_eq!(w.condition("Ready"), ("False".to_owned(), "Drained".to_owned()));
    assert_eq!(w.decide(), after(3_600));
    w.change(|cell| {
        cell["spec"]["state"] = json!("Active");
        cell["metadata"]["generation"] = json!(3);
    });
    w.finds(&OPEN, End::Reported);
    let (_, _, notes) = w.written();
    assert_eq!(notes, [(false, "Ready".to_owned())]);
    let conditions = w.cell["status"]["conditions"].to_string();
    assert!(!conditions.contains("Drained"), "{conditions}");
}

#[test]
fn a_deleted_cell_keeps_its_finalizer_until_nothing_is_left() {
    deleted(json!({"fedgate.dev/abandon": "dfw-2"}), "Abandoned");
    deleted(json!({}), "ClusterStays");
}

/// Deletes a Cell with these annotations; the Event that names what stays has this reason.
fn deleted(annotations: Value, told: &str) {
    let mut w = World::new();
    w.open();
    w.change(|cell| {
        cell["metadata"]["annotations"] = annotations;
        cell["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        cell["metadata"]["finalizers"] = json!(["fedgate.dev/cell", "another.dev/x"]);
    });
    let leaving = [
        (Step::Ready, Some(Reason::Leaving)),
        (Step::Drained, Some(Reason::Emptying)),
    ];
    w.finds(&leaving, End::Reported);
    w.written();
    assert_eq!(w.cell["status"]["phase"], "Deleting");
    assert_eq!(w.decide(), after(30));
    w.now.instant += Duration::from_secs(30);
    w.finds(
        &[(Step::Drained, None)],
        End::CleanedUp(Some("what stays".to_owned())),
    );
    let (_, patch, notes) = w.written();
    assert_eq!(patch["metadata"]["finalizers"], json!(["another.dev/x"]));
    assert_eq!(notes, [(true, told.to_owned())]);
    assert_eq!(
        w.decide(),
        Decision::Wait(Requeue::AwaitChange),
        "another's finalizer is none of ours"
    );
}

/// The hub alone empties a cell.
#[test]
fn a_drain_goes_on_though_the_cluster_cannot_be_used() {
    for (generation, failed) in [
        (2, Reason::SecretMissing),
        (3, Reason::HostClaimed),
        (4, Reason::Waiting),
    ] {
        let mut w = World::new();
        w.open();
        w.change(|cell| {
            cell["spec"]["state"] = json!("Drained");
            cell["metadata"]["generation"] = json!(generation);
        });
        let found = [
            (Step::Validated, Some(failed)),
            (Step::Drained, Some(Reason::LastCellOfCity)),
            (Step::Ready, Some(Reason::Drained)),
        ];
        w.finds(&found, End::Reported);
        w.written();
        let delay = if failed == Reason::Waiting { 10 } else { 30 };
        assert_eq!(w.decide(), after(delay), "{failed:?}");
    }
}

#[test]
fn that_a_cell_is_withdrawn_is_written_before_its_machines_go() {
    let mut w = World::new();
    w.open();
    w.change(|cell| cell["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let withdrawn = [
        (Step::Ready, Some(Reason::Leaving)),
        (Step::Registered, Some(Reason::Leaving)),
        (Step::Drained, Some(Reason::Leaving)),
    ];
    w.finds(&withdrawn, End::Withdrawn);
    let (endpoint, patch, _) = w.written();
    assert_eq!(
        (endpoint, &patch["status"]["phase"]),
        (Endpoint::Status, &json!("Deleting"))
    );
    assert_eq!(
        w.condition("Registered"),
        ("False".to_owned(), "Leaving".to_owned())
    );
    w.last = None;
    assert_eq!(w.decide(), Decision::RunSteps, "also after a restart");
    w.finds(&[(Step::Drained, None)], End::CleanedUp(None));
    let (endpoint, _, notes) = w.written();
    assert_eq!((endpoint, notes), (Endpoint::Main, Vec::new()));
}

#[test]
fn a_step_that_waits_behind_one_that_failed_lets_the_steps_run_no_sooner() {
    let mut w = World::new();
    w.open();
    let machine = |failed: Reason| {
        [
            (Step::Validated, None),
            (Step::Bootstrapped, Some(failed)),
            (Step::WorkersJoined, Some(Reason::Waiting)),
        ]
    };
    for (generation, failed, delay) in [
        (2, Reason::HostClaimed, 300),
        (3, Reason::Waiting, 10),
        (4, Reason::HostUnreachable, 1),
    ] {
        w.change(|cell| cell["metadata"]["generation"] = json!(generation));
        w.finds(&machine(failed), End::Reported);
        w.written();
        assert_eq!(w.condition("Ready").0, "True", "an open cell stays open");
        assert_eq!(w.decide(), after(delay), "{failed:?}");
    }
}

#[test]
fn no_step_waits_behind_a_condition_of_cluster_api() {
    let mut w = World::new();
    w.open();
    w.change(|cell| cell["metadata"]["generation"] = json!(2));
    let found = [
        (Step::WorkersJoined, Some(Reason::ClusterApiNotReady)),
        (Step::AgentReady, Some(Reason::AgentNotAvailable)),
    ];
    w.finds(&found, End::Reported);
    w.written();
    // The delay after a failed condition grows, that of the step that waits does not.
    for delay in [1, 2, 4, 8, 10, 10] {
        assert_eq!(w.decide(), after(delay));
        w.now.instant += Duration::from_secs(delay);
        w.finds(&found, End::Reported);
    }
}

#[test]
fn a_new_reason_is_told_beside_one_that_lasts_and_so_is_a_cell_that_becomes_ready() {
    let mut w = World::new();
    w.open();
    w.change(|cell| cell["metadata"]["generation"] = json!(2));
    let lasting = (Step::WorkersJoined, Some(Reason::ClusterApiNotReady));
    w.finds(&[lasting], End::Reported);
    assert_eq!(w.written().2, [(true, "ClusterApiNotReady".to_owned())]);
    w.change(|cell| cell["metadata"]["generation"] = json!(3));
    w.finds(
        &[lasting, (Step::Registered, Some(Reason::MemberUnreachable))],
        End::Reported,
    );
    assert_eq!(w.written().2, [(true, "MemberUnreachable".to_owned())]);
    w.cluster(None, "True");
    w.finds(
        &[lasting, (Step::Registered, Some(Reason::MemberUnreachable))],
        End::Reported,
    );
    assert_eq!(w.condition("Ready").1, "Ready");
    w.written();
    assert_eq!(w.condition("Ready").1, "MemberUnreachable");
    w.cluster(Some("DFW"), "True");
    w.finds(
        &[lasting, (Step::Registered, None), (Step::Ready, None)],
        End::Reported,
    );
    assert_eq!(w.written().2, [(false, "Ready".to_owned())]);
}

#[test]
fn what_another_has_is_looked_at_every_five_minutes() {
    let mut w = World::new();
    w.hold();
    let taken = [
        (Step::Validated, None),
        (Step::Registered, Some(Reason::DuplicateMember)),
    ];
    w.finds(&taken, End::Reported);
    w.written();
    assert_eq!(w.cell["status"]["phase"], "Failed");
    assert_eq!(w.decide(), after(300));
}
