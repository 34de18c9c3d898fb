//! Tests of the conditions `Ready` and `Stalled`, with the rules by which kstatus reads them.

use super::*;
use fedgate_api::{PlacementStatus, conditions::types};

const DONE: ReplicaCounts = counts(1, 1, 1);

const fn counts(replicas: i32, updated: i32, ready: i32) -> ReplicaCounts {
    ReplicaCounts {
        replicas,
        current_replicas: updated,
        desired_replicas: 1,
        ready_replicas: ready,
        updated_replicas: updated,
    }
}

/// The result of kstatus for an object of a kind that it does not know.
fn kstatus(workload: &Workload) -> &'static str {
    let status = workload.status.clone().unwrap_or_default();
    let is = |type_: &str| find(&status.conditions, type_).map(|c| c.status);
    let observed = status.observed_generation;
    if workload.metadata.deletion_timestamp.is_some() {
        "Terminating"
    } else if observed.is_some() && observed != workload.metadata.generation {
        "InProgress"
    } else if is(types::STALLED) == Some(ConditionStatus::True) {
        "Failed"
    } else if is(types::READY).is_none_or(|ready| ready == ConditionStatus::True) {
        "Current"
    } else {
        "InProgress"
    }
}

/// Status and reason of a condition of the Workload, if it has that.
fn says(s: &WorkloadSnapshot, type_: &str) -> Option<(ConditionStatus, String)> {
    let status = s.workload.status.as_ref()?;
    find(&status.conditions, type_).map(|c| (c.status, c.reason.clone()))
}

fn ready(s: &WorkloadSnapshot) -> (ConditionStatus, String) {
    says(s, types::READY).unwrap()
}

fn no(reason: &str) -> (ConditionStatus, String) {
    (ConditionStatus::False, reason.to_owned())
}

fn serves(d: &mut WorkloadDeployment, counts: ReplicaCounts) {
    let all = [
        ("Available", ConditionStatus::True, "StableInstanceFound"),
        ("Federated", ConditionStatus::True, "Delivered"),
    ];
    report(d, &all, counts);
}

/// A Workload whose deployments are all done.
fn done(placements: &[(&str, &[&str])]) -> WorkloadSnapshot {
    let mut s = normalized(placements);
    for d in &mut s.deployments {
        serves(d, DONE);
    }
    assert_eq!(words(&step(&mut s, 2)), ["status"]);
    assert_eq!(step(&mut s, 3), []);
    assert_eq!(ready(&s), (ConditionStatus::True, "ReplicasAvailable".to_owned()));
    s
}

/// An edit of the template, as a server takes it.
fn edit(s: &mut WorkloadSnapshot, instance_type: &str) {
    s.workload.metadata.generation = s.workload.metadata.generation.map(|n| n + 1);
    instance_type.clone_into(&mut s.workload.spec.template.spec.runtime.resources.instance_type);
    // The snapshot of a deployment whose template is another one has no labels: observe.rs, `rebuild`.
    for deployment in &mut s.deployments {
        deployment.metadata.labels = None;
    }
}

#[test]
fn kstatus_tells_progress_success_and_failure_apart() {
    // As the API server shows it before the gateway has seen it.
    let mut s = snapshot(&[("us", &["DFW"])]);
    let definition = fedgate_api::crd::workload().unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let first = schema["properties"]["status"]["default"].clone();
    s.workload.status = serde_json::from_value(first).unwrap();
    assert_eq!(kstatus(&s.workload), "InProgress", "fresh");
    step(&mut s, 0);
    assert_eq!(kstatus(&s.workload), "InProgress", "its deployment is made");
    serves(&mut s.deployments[0], DONE);
    step(&mut s, 1);
    assert_eq!(kstatus(&s.workload), "Current", "ready");

    edit(&mut s, "datumcloud-d1-standard-2");
    assert_eq!(kstatus(&s.workload), "InProgress", "edited");
    assert_eq!(words(&step(&mut s, 2)), ["update shop-us-dfw us/DFW", "status"]);
    assert_eq!(
        (kstatus(&s.workload), ready(&s)),
        ("InProgress", no("NoCellReporting")),
        "the counts are those of the former template"
    );
    serves(&mut s.deployments[0], counts(1, 0, 1));
    step(&mut s, 3);
    assert_eq!(
        (kstatus(&s.workload), ready(&s)),
        ("InProgress", no("InstancesUpdating")),
        "rolling"
    );
    serves(&mut s.deployments[0], counts(2, 1, 2));
    step(&mut s, 4);
    assert_eq!(
        (kstatus(&s.workload), ready(&s)),
        ("InProgress", no("SurplusInstances")),
        "surplus"
    );
    serves(&mut s.deployments[0], DONE);
    step(&mut s, 5);
    assert_eq!(kstatus(&s.workload), "Current");

    edit(&mut s, "unknown");
    step(&mut s, 6);
    assert_eq!(kstatus(&s.workload), "Failed", "InvalidTemplate");
    assert_eq!(ready(&s), no("InvalidTemplate"));
    let stalled = says(&s, types::STALLED).unwrap();
    assert_eq!(stalled, (ConditionStatus::True, "InvalidTemplate".to_owned()));

    edit(&mut s, "datumcloud/d1-standard-2");
    step(&mut s, 7);
    assert_eq!(
        (kstatus(&s.workload), says(&s, types::STALLED)),
        ("InProgress", None)
    );
    s.workload.metadata.deletion_timestamp = Some(Time(at(8)));
    step(&mut s, 8);
    assert_eq!(kstatus(&s.workload), "Terminating", "deleting");
}

#[test]
fn ready_is_false_for_each_part_that_is_missing_although_something_serves() {
    let mut s = done(&[("us", &["DFW", "IAD"])]);
    for (counts, reason) in [
        (counts(1, 1, 0), "InstancesProvisioning"),
        (counts(1, 0, 1), "InstancesUpdating"),
        (counts(2, 1, 1), "SurplusInstances"),
        (ReplicaCounts::default(), "InstancesProvisioning"),
    ] {
        serves(&mut s.deployments[1], counts);
        assert_eq!(words(&step(&mut s, 9)), ["status"]);
        assert_eq!(ready(&s), no(reason), "{counts:?}");
        assert_eq!(says(&s, types::STALLED), None);
    }
    serves(&mut s.deployments[1], DONE);
    step(&mut s, 10);
    s.workload.spec.placements[0].city_codes.push("LHR".to_owned());
    step(&mut s, 11);
    assert_eq!(ready(&s), no("NoAvailableDeployments"), "a city was added");
    s.workload.spec.placements[0].city_codes.truncate(2);
    s.workload.metadata.generation = Some(4);
    step(&mut s, 12);
    assert_eq!(ready(&s), no("SurplusInstances"), "and removed again");
    let message = &find(&s.workload.status.as_ref().unwrap().conditions, types::READY)
        .unwrap()
        .message;
    assert!(message.contains("shop-us-lhr"), "{message}");
    s.deployments.pop();
    step(&mut s, 13);
    assert_eq!(ready(&s).0, ConditionStatus::True);
}

#[test]
fn stalled_is_there_for_what_does_not_mend_itself_and_as_long_as_it_holds() {
    for reason in Reason::ALL.iter().filter(|reason| reason.priority().is_some()) {
        let mut s = done(&[("us", &["DFW", "IAD"])]);
        let refusal = [("Available", ConditionStatus::False, reason.as_str())];
        report(&mut s.deployments[1], &refusal, ReplicaCounts::default());
        step(&mut s, 9);
        assert_eq!(ready(&s), no(reason.as_str()));
        let lasts = matches!(reason.priority(), Some(6 | 8));
        let stalled = lasts.then(|| (ConditionStatus::True, reason.to_string()));
        assert_eq!(says(&s, types::STALLED), stalled, "{reason}");
        serves(&mut s.deployments[1], DONE);
        step(&mut s, 10);
        assert_eq!(says(&s, types::STALLED), None, "{reason}");
    }
}

#[test]
fn a_refusal_of_a_former_generation_stalls_nothing() {
    let mut s = done(&[("us", &["DFW", "IAD"])]);
    let refusal = [("Available", ConditionStatus::False, "InvalidTemplate")];
    report(&mut s.deployments[1], &refusal, ReplicaCounts::default());
    step(&mut s, 9);
    assert_eq!(kstatus(&s.workload), "Failed");
    edit(&mut s, "datumcloud-d1-standard-2");
    assert_eq!(step(&mut s, 10).len(), 3, "both deployments and the status");
    assert_eq!(
        (kstatus(&s.workload), ready(&s)),
        ("InProgress", no("NoCellReporting"))
    );
    assert_eq!(step(&mut s, 11), [], "the cells have not acted yet");
    report(&mut s.deployments[1], &refusal, counts(1, 0, 0));
    step(&mut s, 12);
    assert_eq!(kstatus(&s.workload), "Failed", "refused again");
    let federated = [("Federated", ConditionStatus::False, "SpecTooLarge")];
    report(&mut s.deployments[1], &federated, counts(2, 0, 0));
    s.deployments[1].status.as_mut().unwrap().observed_generation = Some(1);
    step(&mut s, 13);
    assert_eq!(
        ready(&s),
        no("SpecTooLarge"),
        "the gateway's own verdict needs no cell that has acted"
    );
}

#[test]
fn a_change_of_the_reason_alone_rides_with_the_next_write() {
    let mut s = done(&[("us", &["DFW", "IAD"])]);
    let says = |d: &mut WorkloadDeployment, reason| {
        report(
            d,
            &[("Available", ConditionStatus::False, reason)],
            counts(1, 1, 0),
        );
    };
    says(&mut s.deployments[1], "InstancesProvisioning");
    assert_eq!(words(&step(&mut s, 9)), ["status"]);
    says(&mut s.deployments[1], "ImageUnavailable");
    assert_eq!(
        step(&mut s, 10),
        [],
        "something serves, and the counts are the same"
    );
    s.deployments[1].status.as_mut().unwrap().counts.replicas = 2;
    assert_eq!(words(&step(&mut s, 11)), ["status"]);
    assert_eq!(ready(&s), no("ImageUnavailable"));
    says(&mut s.deployments[1], "InvalidTemplate");
    s.deployments[1].status.as_mut().unwrap().counts.replicas = 2;
    assert_eq!(
        words(&step(&mut s, 12)),
        ["status"],
        "a Workload that has stalled is no longer in progress"
    );
}

#[test]
fn a_status_of_an_older_version_gets_the_condition_with_its_next_change() {
    let mut s = done(&[("us", &["DFW"])]);
    let status = s.workload.status.as_mut().unwrap();
    status.conditions.retain(|c| c.type_ == types::AVAILABLE);
    assert_eq!(step(&mut s, 9), [], "a restart writes nothing");
    serves(&mut s.deployments[0], counts(2, 1, 1));
    assert_eq!(words(&step(&mut s, 10)), ["status"]);
    assert_eq!(ready(&s), no("SurplusInstances"));
    let placements: &[PlacementStatus] = &s.workload.status.as_ref().unwrap().placements;
    let types: Vec<_> = placements[0].conditions.iter().map(|c| &c.type_).collect();
    assert_eq!(types, [types::AVAILABLE], "of the Workload alone");
}

/// The deployment has all its Instances, and its condition Progressing has this status and reason.
fn progresses(d: &mut WorkloadDeployment, status: ConditionStatus, reason: &str) {
    let all = [
        ("Available", ConditionStatus::True, "StableInstanceFound"),
        ("Progressing", status, reason),
        ("Federated", ConditionStatus::True, "Delivered"),
    ];
    report(d, &all, DONE);
}

#[test]
fn a_workload_is_ready_once_its_rollouts_are_complete_and_stalled_if_one_has_failed() {
    let mut s = done(&[("us", &["DFW"])]);
    let (yes, no_status, unknown) = (
        ConditionStatus::True,
        ConditionStatus::False,
        ConditionStatus::Unknown,
    );
    let current = || ("Current", (yes, "ReplicasAvailable".to_owned()));
    let updating = || ("InProgress", no("InstancesUpdating"));
    for (n, (status, reason, expected)) in [
        (yes, "RolloutProgressing", updating()),
        (unknown, "RolloutPaused", current()),
        (yes, "SurgeWithoutQuota", updating()),
        (
            no_status,
            "ProgressDeadlineExceeded",
            ("Failed", no("ProgressDeadlineExceeded")),
        ),
        (yes, "RolloutComplete", current()),
        (no_status, "RolloutUndone", ("Failed", no("RolloutUndone"))),
        (yes, "RolloutComplete", current()),
    ]
    .into_iter()
    .enumerate()
    {
        progresses(&mut s.deployments[0], status, reason);
        step(&mut s, 10 + i64::try_from(n).unwrap());
        assert_eq!((kstatus(&s.workload), ready(&s)), expected, "{reason}");
    }
}
