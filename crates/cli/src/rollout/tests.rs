use super::{
    progress::{End, Progress},
    *,
};
use crate::{
    output::Output,
    plane::{Plane, tests::in_process},
    view::{Counts, Instances, Joined, Object, join},
};
use fedgate_api::API_VERSION;
use fedgate_simulator::{Down, Simulator};
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
    let row = rows(&joined, &Instances::default()).remove(0);
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

/// A deployment whose condition Progressing has this status and reason.
fn progressing(counts: [i64; 4], status: &str, reason: &str) -> Value {
    let mut deployment = deployment(counts);
    let conditions = deployment["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Progressing", "status": status, "reason": reason, "message": "m"}));
    deployment
}

#[test]
fn a_surge_is_an_update_until_the_rollout_is_complete_and_a_pause_is_said() {
    let phase = |counts, status, reason| phase_of(Some(progressing(counts, status, reason)));
    assert_eq!(
        phase([3, 2, 3, 2], "True", "RolloutProgressing").0,
        Phase::Updating
    );
    assert_eq!(
        phase([2, 2, 2, 2], "True", "RolloutProgressing").0,
        Phase::Updating
    );
    assert_eq!(phase([2, 2, 2, 2], "True", "RolloutComplete").0, Phase::Done);
    let paused = "1/2 updated; to resume: kubectl compute rollout resume web".to_owned();
    assert_eq!(
        phase([3, 1, 3, 2], "Unknown", "RolloutPaused"),
        (Phase::Paused, paused)
    );
    assert_eq!(phase([2, 2, 2, 2], "Unknown", "RolloutPaused").0, Phase::Done);
}

#[test]
fn a_surge_that_cannot_start_refuses_the_row_although_the_deployment_lacks_nothing() {
    let joined = join(
        vec![workload()],
        vec![Object(progressing([3, 1, 2, 2], "True", "RolloutProgressing"))],
    )
    .remove(0);
    let refusal = |reason: &str| {
        let instance = Object(json!({
            "metadata": {"name": "web-us-dfw-2", "labels": {"compute.datumapis.com/workload-deployment-name": "web-us-dfw"}},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "m"}]},
        }));
        rows(&joined, &Instances::from(vec![instance])).remove(0).refusal
    };
    assert_eq!(
        refusal("ImageUnavailable").as_deref(),
        Some("ImageUnavailable: m")
    );
    assert_eq!(refusal("Starting"), None);
}

#[test]
fn a_wait_for_a_paused_rollout_ends_at_once_and_one_that_failed_is_blocked() {
    let row = |deployment: Value| {
        let joined = join(vec![workload()], vec![Object(deployment)]).remove(0);
        rows(&joined, &Instances::default()).remove(0)
    };
    let mut progress = Progress::new(TWO_MINUTES);
    let now = Instant::now();
    progress.observe(
        vec![row(progressing([3, 1, 3, 2], "Unknown", "RolloutPaused"))],
        now,
    );
    assert_eq!(progress.end(now), Some(End::Paused));
    let mut failed = row(progressing([3, 1, 2, 2], "False", "ProgressDeadlineExceeded"));
    assert_eq!(failed.refusal.as_deref(), Some("ProgressDeadlineExceeded: m"));
    failed.block();
    assert_eq!(failed.phase, Phase::Blocked);
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
fn a_city_without_a_deployment_has_the_cause_that_the_workload_knows() {
    let mut stalled = workload();
    let generation = stalled.generation();
    stalled.0["status"] = json!({
        "conditions": [{"type": "Stalled", "status": "True", "reason": "NetworkNotFound",
            "message": "there is no network \"lan\"", "observedGeneration": generation}],
        "placements": [{"name": "us", "conditions": [{"type": "Available", "status": "False",
            "reason": "NoAvailableDeployments", "message": "no deployment is available yet"}]}],
    });
    let row = |workload: &Object| {
        rows(
            &join(vec![workload.clone()], vec![]).remove(0),
            &Instances::default(),
        )
        .remove(0)
    };
    let cause = "NetworkNotFound: there is no network \"lan\"";
    let found = row(&stalled);
    assert_eq!(found.detail, format!("no deployment yet; {cause}"));
    assert_eq!(found.refusal.as_deref(), Some(cause));
    let mut own = stalled.clone();
    own.0["status"]["placements"][0]["conditions"][0]["reason"] = json!("NoMatchingLocations");
    assert!(row(&own).refusal.unwrap().starts_with("NoMatchingLocations"));
    let mut earlier = stalled;
    earlier.0["status"]["conditions"][0]["observedGeneration"] = json!(generation - 1);
    assert_eq!(row(&earlier).detail, "no deployment yet");
}

#[test]
fn two_placements_in_one_city_are_two_rows() {
    let mut two = workload();
    two.0["spec"]["placements"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "edge", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}));
    let joined = join(vec![two], vec![Object(deployment([2, 2, 2, 2]))]).remove(0);
    let rows: Vec<String> = rows(&joined, &Instances::default())
        .iter()
        .map(ToString::to_string)
        .collect();
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
    rows(&joined, &Instances::from(vec![instance]))
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
fn a_short_stall_timeout_shortens_the_time_until_a_row_is_blocked() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let mut progress = Progress::new(second * 3);
    progress.observe(refused(), start);
    assert_eq!(progress.next(start), Some(second * 3));
    assert_eq!(progress.again(start + second * 2), []);
    assert_eq!(progress.again(start + second * 3)[0].phase, Phase::Blocked);
    assert_eq!(progress.end(start + second * 5), None);
    assert_eq!(progress.end(start + second * 6), Some(End::Stalled));
    let mut endless = Progress::new(Duration::ZERO);
    endless.observe(refused(), start);
    assert_eq!(endless.next(start), Some(BLOCKED_AFTER));
    assert_eq!(endless.again(start + second), []);
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
fn a_rollout_without_rows_is_complete_once_it_was_observed() {
    let start = Instant::now();
    let mut progress = Progress::new(TWO_MINUTES);
    assert_eq!(progress.end(start), None, "nothing was observed yet");
    progress.observe(Vec::new(), start);
    assert_eq!(progress.end(start), Some(End::Complete));
}

#[test]
fn a_city_without_a_deployment_wants_the_minimum_of_the_spec() {
    let joined = join(vec![workload()], Vec::new()).remove(0);
    assert_eq!(rows(&joined, &Instances::default())[0].counts.desired, 2);
}

#[test]
fn a_refusal_without_a_reason_is_its_message() {
    let mut refused = deployment([1, 1, 1, 2]);
    refused["status"]["conditions"] = json!([
        {"type": "Available", "status": "False", "message": "it crashes", "observedGeneration": 5}]);
    let joined = join(vec![workload()], vec![Object(refused)]).remove(0);
    assert_eq!(
        rows(&joined, &Instances::default())[0].refusal.as_deref(),
        Some("it crashes")
    );
}

#[test]
fn a_city_without_a_deployment_has_the_refusal_of_its_placement() {
    let mut refused = workload();
    refused.0["status"] = json!({"placements": [{"name": "us", "conditions": [
        {"type": "Available", "status": "False", "reason": "NoMatchingLocations", "message": "none for DFW"}]}]});
    let joined = join(vec![refused], Vec::new()).remove(0);
    assert_eq!(
        rows(&joined, &Instances::default())[0].refusal.as_deref(),
        Some("NoMatchingLocations: none for DFW")
    );
}

#[test]
fn an_instance_belongs_to_the_deployment_of_its_label() {
    let labelled = Object(json!({"metadata": {"name": "other", "labels": {
        fedgate_api::keys::WORKLOAD_DEPLOYMENT_NAME: "web-us-dfw"}},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Crashing"}]}}));
    let joined = join(vec![workload()], vec![Object(deployment([1, 1, 1, 2]))]).remove(0);
    assert_eq!(
        rows(&joined, &Instances::from(vec![labelled]))[0]
            .instance
            .as_deref(),
        Some("instance other in the cell of DFW: Crashing")
    );
}

#[test]
fn counts_of_a_server_never_overflow() {
    let joined = join(
        vec![workload()],
        vec![Object(deployment([i64::MAX, i64::MIN, 0, i64::MAX]))],
    )
    .remove(0);
    assert_eq!(rows(&joined, &Instances::default())[0].counts.old(), i64::MAX);
    let sum: Counts = [joined.cities[0].1.as_ref().map(Counts::of).unwrap(); 2]
        .into_iter()
        .sum();
    assert_eq!((sum.replicas, sum.updated), (i64::MAX, i64::MIN));
}

#[test]
fn a_rollout_without_a_reason_never_stalls() {
    let start = Instant::now();
    let mut progress = Progress::new(TWO_MINUTES);
    let joined = join(vec![workload()], vec![Object(deployment([1, 1, 1, 2]))]).remove(0);
    progress.observe(rows(&joined, &Instances::default()), start);
    assert_eq!(
        (progress.next(start), progress.end(start + TWO_MINUTES * 10)),
        (None, None)
    );
    let joined = join(vec![workload()], vec![Object(deployment([2, 2, 2, 2]))]).remove(0);
    progress.observe(rows(&joined, &Instances::default()), start);
    assert_eq!(progress.end(start), Some(End::Complete));
}

/// A Workload without deployments that is refused, whose city no Location serves.
fn unserved() -> Joined {
    let mut joined = join(vec![workload()], Vec::new()).remove(0);
    joined.unserved.insert(joined.cities[0].0.clone());
    joined
}

#[test]
fn a_city_that_no_location_serves_is_named_and_blocks() {
    let now = Timestamp::now();
    let rows = once(&unserved(), &Instances::default(), now);
    let text = "no deployment for city DFW; no location serves it";
    assert_eq!((rows[0].phase, &*rows[0].detail), (Phase::Blocked, text));
    let error = unfinished("web", &rows, Kind::Blocked, None);
    assert_eq!(
        (&*error.what, error.next.as_deref()),
        (text, Some("kubectl compute trace web --city DFW"))
    );
    let two = [rows[0].clone(), rows[0].clone()];
    let error = unfinished("web", &two, Kind::TimedOut, Some(Duration::from_secs(600)));
    assert_eq!(
        error.what,
        format!("rollout not finished after 10m: us/DFW Blocked: {text}, us/DFW Blocked: {text}")
    );
}

#[test]
fn a_row_is_blocked_by_its_age_and_a_row_without_a_refusal_never() {
    let now: Timestamp = "2030-01-01T12:00:00Z".parse().unwrap();
    let mut row = refused().remove(0);
    row.since = Some(now - SignedDuration::from_secs(12));
    assert_eq!(row.blocked_in(now), Some(SignedDuration::from_secs(18)));
    row.since = None;
    assert_eq!(row.blocked_in(now), Some(SignedDuration::ZERO));
    row.refusal = None;
    assert_eq!(row.blocked_in(now), None);
}

#[test]
fn the_header_has_the_revisions_as_far_as_they_are_known() {
    let text = |from, to| header("web", from, to);
    assert_eq!(
        text(Some(3), Some(4)),
        "Rolling out workload \"web\"  rev #3 -> #4"
    );
    assert_eq!(text(None, Some(1)), "Rolling out workload \"web\"  rev #1");
    assert_eq!(text(None, None), "Rolling out workload \"web\"");
}

/// A Workload on a simulator whose only deployment its cell refuses.
struct Scene {
    server: fedgate_simulator::Plane,
    plane: Plane,
    target: Target,
}

const KIND: &str = "WorkloadDeployment";
const NAME: &str = "web-us-dfw";

impl Scene {
    fn start() -> Self {
        let simulator = Simulator::new(1);
        let server = simulator.add("shop");
        for definition in fedgate_api::crd::all().unwrap() {
            server.define(&definition);
        }
        let runtime = json!({"resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{"name": "app", "image": "nginx"}]}});
        let template =
            json!({"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}});
        let metadata = |name: &str| json!({"name": name, "namespace": "default"});
        let workload = server
            .create(
                json!({"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata("web"), "spec": {
                "template": template, "placements": [
                    {"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 2}}]}}),
            )
            .unwrap();
        let spec = &workload["spec"];
        let spec = json!({"workloadRef": {"name": "web", "uid": workload["metadata"]["uid"]}, "placementName": "us",
            "cityCode": "DFW", "template": spec["template"], "scaleSettings": spec["placements"][0]["scaleSettings"]});
        server
            .create(
                json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata(NAME), "spec": spec}),
            )
            .unwrap();
        let scene = Self {
            plane: in_process(&simulator, "shop"),
            target: Target {
                name: "web".to_owned(),
                uid: workload["metadata"]["uid"].as_str().unwrap().to_owned(),
                generation: None,
                timeout: Duration::ZERO,
                stall_timeout: TWO_MINUTES,
            },
            server,
        };
        scene.report(1, "False");
        scene
    }

    fn report(&self, ready: i64, available: &str) {
        let live = self.server.get(KIND, "default", NAME).unwrap();
        let condition = json!({"type": "Available", "status": available, "reason": "Crashing", "message": "",
            "observedGeneration": live["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"replicas": 2, "currentReplicas": ready, "updatedReplicas": ready, "readyReplicas": ready,
            "desiredReplicas": 2, "conditions": [condition]});
        let status = json!({"status": status});
        self.server.merge_status(KIND, "default", NAME, status).unwrap();
    }

    async fn wait(&self) -> (Result<(), Error>, Duration) {
        let output = Output {
            quiet: true,
            ..Output::default()
        };
        let begun = tokio::time::Instant::now();
        let end = wait(&self.plane, &output, &self.target, false).await;
        (end, begun.elapsed())
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_in_which_nothing_changes_stalls_by_the_clock_alone() {
    let scene = Scene::start();
    let (end, took) = scene.wait().await;
    let error = end.unwrap_err();
    assert_eq!(
        (error.kind, &*error.what),
        (
            Kind::Blocked,
            "rollout not finished after 2m 30s: us/DFW Blocked: Crashing"
        )
    );
    assert_eq!(took.as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_no_stall() {
    let scene = Scene::start();
    let outage = async {
        for _ in 0..2 {
            // Blips add up.
            tokio::time::sleep(Duration::from_secs(20)).await;
            scene.server.set_down(Some(Down::Refused));
            tokio::time::sleep(Duration::from_secs(300)).await;
            scene.server.set_down(None);
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        scene.report(2, "True");
    };
    let ((end, took), ()) = tokio::join!(scene.wait(), outage);
    assert_eq!(end, Ok(()));
    assert_eq!(took.as_secs(), 700);
}
