use super::{
    progress::{BLOCKED_AFTER, End},
    *,
};
use crate::view::join;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TWO_MINUTES: Duration = Duration::from_secs(120);

fn workload() -> Object {
    Object(
        json!({"metadata": {"name": "web", "uid": "u", "generation": 2}, "spec": {"template": {"v": 2},
        "placements": [{"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 2}}]}}),
    )
}

/// A deployment with the latest spec on which the cell has acted; counts are replicas, updated, ready and desired.
fn deployment(counts: [i64; 4]) -> Value {
    let [replicas, updated, ready, desired] = counts;
    json!({"metadata": {"name": "web-us-dfw", "generation": 5},
        "spec": {"workloadRef": {"uid": "u"}, "placementName": "us", "cityCode": "DFW", "template": {"v": 2},
            "scaleSettings": {"minReplicas": 2}},
        "status": {"replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready, "desiredReplicas": desired,
            "conditions": [{"type": "Available", "status": "True", "reason": "X", "observedGeneration": 5}]}})
}

fn phase_of(deployment: Option<Value>) -> (Phase, String) {
    let joined = join(vec![workload()], deployment.map(Object).into_iter().collect()).remove(0);
    let row = rows(&joined, &[]).remove(0);
    (row.phase, row.detail)
}

#[test]
fn each_phase() {
    let phase = |counts| phase_of(Some(deployment(counts))).0;
    assert_eq!(phase([2, 2, 2, 2]), Phase::Done);
    assert_eq!(phase([3, 2, 2, 2]), Phase::Draining);
    assert_eq!(phase([2, 0, 2, 2]), Phase::Pending);
    assert_eq!(phase([2, 1, 2, 2]), Phase::Updating);
    assert_eq!(phase([2, 2, 1, 2]), Phase::Updating);
    assert_eq!(
        phase_of(Some(deployment([3, 1, 2, 2]))).1,
        "1/2 updated, 2/2 ready, 2 old"
    );
}

#[test]
fn a_row_is_not_done_before_its_cell_has_acted_on_the_latest_spec() {
    assert_eq!(phase_of(None), (Phase::Waiting, "no deployment yet".to_owned()));
    assert_ne!(
        phase_of(Some(deployment([0, 0, 0, 0]))).0,
        Phase::Done,
        "fresh counters"
    );
    let mut previous = deployment([2, 2, 2, 2]);
    previous["metadata"]["generation"] = json!(6);
    assert_eq!(phase_of(Some(previous)).0, Phase::Waiting);
    let mut template = deployment([2, 2, 2, 2]);
    template["spec"]["template"] = json!({"v": 1});
    assert_eq!(phase_of(Some(template)).0, Phase::Waiting);
    let mut scale = deployment([1, 1, 1, 1]);
    scale["spec"]["scaleSettings"] = json!({"minReplicas": 1});
    assert_eq!(phase_of(Some(scale)).0, Phase::Waiting);
    assert_ne!(
        phase_of(Some(deployment([1, 1, 1, 1]))).0,
        Phase::Done,
        "below the minimum"
    );
}

#[test]
fn two_placements_in_one_city_are_two_rows() {
    let mut two = workload();
    two.0["spec"]["placements"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "edge", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}));
    let joined = join(vec![two], vec![Object(deployment([2, 2, 2, 2]))]).remove(0);
    let rows: Vec<String> = rows(&joined, &[]).iter().map(ToString::to_string).collect();
    assert_eq!(
        rows,
        [
            "us/DFW Done 2/2 updated, 2/2 ready, 0 old",
            "edge/DFW Waiting no deployment yet"
        ]
    );
}

fn refused() -> Vec<Row> {
    let mut refused = deployment([1, 1, 1, 2]);
    refused["status"]["conditions"] = json!([
        {"type": "Available", "status": "False", "reason": "Crashing", "message": "it crashes", "observedGeneration": 5}]);
    let joined = join(vec![workload()], vec![Object(refused)]).remove(0);
    let instance = Object(
        json!({"metadata": {"name": "web-us-dfw-1"}, "status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "InstanceCrashing"}]}}),
    );
    rows(&joined, &[instance])
}

#[test]
fn a_refused_row_is_blocked_after_a_while_told_once_and_stalls() {
    let start = Instant::now();
    let mut progress = Progress::new(TWO_MINUTES);
    assert_eq!(progress.observe(refused(), start)[0].phase, Phase::Updating);
    assert_eq!(progress.next(start), Some(BLOCKED_AFTER));
    assert_eq!(progress.observe(refused(), start + Duration::from_secs(29)), []);
    let blocked = progress.again(start + BLOCKED_AFTER);
    assert_eq!(
        blocked[0].to_string(),
        "us/DFW Blocked Crashing: it crashes; instance web-us-dfw-1 in the cell of DFW: InstanceCrashing"
    );
    assert_eq!(progress.again(start + BLOCKED_AFTER * 2), [], "once");
    let second = Duration::from_secs(1);
    let before = start + BLOCKED_AFTER + TWO_MINUTES.saturating_sub(second);
    let end = before + second;
    assert_eq!(progress.next(before), Some(second));
    assert_eq!(progress.end(before), None);
    assert_eq!(progress.end(end), Some(End::Stalled));
    assert_eq!(Progress::new(Duration::ZERO).end(end), None);
}

#[test]
fn a_change_in_a_row_begins_its_time_anew_and_another_reason_of_an_instance_does_not() {
    let start = Instant::now();
    let mut progress = Progress::new(TWO_MINUTES);
    progress.observe(refused(), start);
    let mut flapping = refused();
    flapping[0].instance = Some("instance web-us-dfw-1: Starting".to_owned());
    assert_eq!(progress.observe(flapping, start + Duration::from_secs(20)), []);
    assert_eq!(progress.again(start + BLOCKED_AFTER).len(), 1);
    let mut moved = refused();
    moved[0].counts.ready = 2;
    let changed = progress.observe(moved, start + Duration::from_secs(40));
    assert_eq!(changed[0].phase, Phase::Updating);
    assert_eq!(progress.end(start + BLOCKED_AFTER + TWO_MINUTES), None);
}

#[test]
fn a_rollout_without_a_reason_never_stalls_and_one_without_rows_never_ends() {
    let start = Instant::now();
    let mut progress = Progress::new(TWO_MINUTES);
    assert_eq!(progress.end(start), None, "nothing was seen yet");
    let joined = join(vec![workload()], vec![Object(deployment([1, 1, 1, 2]))]).remove(0);
    progress.observe(rows(&joined, &[]), start);
    assert_eq!(
        (progress.next(start), progress.end(start + TWO_MINUTES * 10)),
        (None, None)
    );
    let joined = join(vec![workload()], vec![Object(deployment([2, 2, 2, 2]))]).remove(0);
    progress.observe(rows(&joined, &[]), start);
    assert_eq!(progress.end(start), Some(End::Complete));
}
