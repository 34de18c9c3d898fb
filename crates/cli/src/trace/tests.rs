//! Each link of the way that the project tells of, broken in turn.

use super::*;
use jiff::SignedDuration;
use serde_json::{Value, json};

/// Times are counted back from now, in seconds.
fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn now() -> Timestamp {
    "2030-01-01T12:00:00Z".parse().unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, generation: i64, since: i64) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": generation,
        "lastTransitionTime": ago(since)})
}

/// A whole way.
struct Way {
    workload: Object,
    deployment: Option<Object>,
    instances: Vec<Object>,
    events: Vec<Object>,
}

fn written(seconds: i64) -> Value {
    json!([{"manager": "x", "operation": "Apply", "time": ago(seconds)}])
}

fn instance(ordinal: u32, ready: &str, reason: &str) -> Object {
    Object(
        json!({"kind": "Instance", "metadata": {"name": format!("web-us-iad-{ordinal}"),
        "creationTimestamp": ago(500), "ownerReferences": [{"uid": "d1"}]},
        "status": {"conditions": [condition("Ready", ready, reason, 1, 400)]}}),
    )
}

fn both() -> Vec<Object> {
    vec![instance(0, "True", "Ready"), instance(1, "True", "Ready")]
}

fn whole() -> Way {
    let scale = json!({"minReplicas": 2});
    let template = json!({"spec": {"a": 1}});
    let deployment = json!({"metadata": {"name": "web-us-iad", "uid": "d1", "generation": 3,
            "creationTimestamp": ago(600), "managedFields": written(500)},
        "spec": {"workloadRef": {"name": "web", "uid": "w1"}, "placementName": "us", "cityCode": "IAD",
            "template": template, "scaleSettings": scale},
        "status": {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "desiredReplicas": 2, "conditions": [
            condition("Available", "True", "Ready", 3, 300), condition("ReplicasReady", "True", "Ready", 3, 300),
            condition("Federated", "True", "Delivered", 3, 450)]}});
    Way {
        workload: Object(
            json!({"metadata": {"name": "web", "namespace": "default", "uid": "w1", "generation": 1,
                "creationTimestamp": ago(600), "managedFields": written(510)},
            "spec": {"template": template, "placements": [
                {"name": "us", "cityCodes": ["IAD"], "scaleSettings": scale}]}}),
        ),
        deployment: Some(Object(deployment)),
        instances: both(),
        events: Vec::new(),
    }
}

impl Way {
    fn set(mut self, part: &str, pointer: &str, value: Value) -> Self {
        let object = match part {
            "workload" => &mut self.workload,
            "deployment" => self.deployment.as_mut().unwrap(),
            _ => panic!("{part}"),
        };
        *object.0.pointer_mut(pointer).unwrap() = value;
        self
    }

    fn links(&self) -> Chain {
        let city = City {
            placement: "us".to_owned(),
            shown: "IAD".to_owned(),
            code: "IAD".to_owned(),
            location: String::new(),
        };
        let evidence = Evidence {
            workload: &self.workload,
            city: &city,
            deployment: self.deployment.as_ref(),
            instances: &self.instances.clone().into(),
            events: &self.events,
        };
        chain(&evidence, SignedDuration::from_secs(120), now())
    }

    /// The states of the hops as words, and the last line.
    fn traced(&self) -> (Vec<&'static str>, String) {
        let chain = self.links();
        let words = chain.links.iter().map(|link| link.state.word().0).collect();
        (words, Verdict::of("shop", &self.workload, &[chain], now()).line)
    }
}

/// The Instances' conditions are of generation 3 and the deployment of 4, since a time.
fn lagging(seconds: i64) -> Way {
    whole().set("deployment", "/metadata/generation", json!(4)).set(
        "deployment",
        "/metadata/managedFields",
        written(seconds),
    )
}

#[test]
fn a_whole_way_is_whole_and_the_binding_is_inferred() {
    let way = whole();
    assert_eq!(way.traced(), (vec!["ok"; 6], "Whole.".to_owned()));
    let chain = way.links();
    let sources: Vec<_> = chain.links.iter().map(Link::source).collect();
    let project = "project";
    assert_eq!(sources, [project, project, "inferred", project, project, project]);
}

#[test]
fn a_missing_deployment_is_waited_for_and_then_broken() {
    let mut way = whole();
    way.deployment = None;
    let unseen = ["unseen"; 5];
    let words = |first| [vec![first], unseen.to_vec()].concat();
    let (seen, line) = way.traced();
    assert_eq!(seen, words("broken"));
    assert_eq!(
        line,
        "First broken link (us/IAD): workload -> project: -: no deployment for the city for 8m"
    );
    let young = way.set("workload", "/metadata/managedFields", written(20));
    assert_eq!(
        young.traced(),
        (
            words("waiting"),
            "Moving: us/IAD waits at project (20s).".to_owned()
        )
    );
}

#[test]
fn a_refusal_on_the_hub_is_broken_at_once() {
    let refused = condition("Federated", "False", "ApplyFailed", 3, 3);
    let way = lagging(5).set("deployment", "/status/conditions/2", refused);
    let (words, line) = way.traced();
    assert_eq!(words, ["ok", "broken", "unseen", "waiting", "waiting", "ok"]);
    assert_eq!(
        line,
        "First broken link (us/IAD): project -> binding (binding unseen, the operator sees it): condition Federated: \
         ApplyFailed for 3s"
    );
}

#[test]
fn a_cell_that_lags_is_the_broken_link_after_a_while() {
    for (seconds, state) in [(20, "waiting"), (200, "broken")] {
        let (words, line) = lagging(seconds).traced();
        assert_eq!(words, ["ok", "unseen", "unseen", state, "waiting", "ok"]);
        if state == "broken" {
            assert!(
                line.starts_with("First broken link (us/IAD): project -> cell (binding unseen, "),
                "{line}"
            );
            assert!(
                line.ends_with(": web-us-iad: still on generation 3 for 3m"),
                "{line}"
            );
        }
    }
}

#[test]
fn a_deployment_with_an_older_spec_does_not_match_the_workload() {
    let older = lagging(5).set("deployment", "/spec/template", json!({"spec": {"a": 0}}));
    assert_eq!(
        older.links().links[0].detail,
        "generation 4 does not match the workload's spec"
    );
}

#[test]
fn instances_that_are_not_ready_are_named_with_their_reason() {
    let reported = json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "desiredReplicas": 2, "conditions": [
        condition("Available", "True", "Ready", 3, 300), condition("ReplicasReady", "False", "InstancesNotReady", 3, 250),
        condition("Federated", "True", "Delivered", 3, 450)]});
    let mut way = whole().set("deployment", "/status", reported);
    way.instances[1] = instance(1, "False", "ImageUnavailable");
    let chain = way.links();
    assert_eq!(chain.links[4].state, State::Broken);
    assert_eq!(
        chain.links[4].detail,
        "InstancesNotReady; 2 updated, 2 exist; web-us-iad-1: ImageUnavailable"
    );
}

#[test]
fn projections_that_lack_are_too_many_or_have_another_owner_are_named() {
    let mut missing = whole();
    missing.instances.pop();
    let mut surplus = whole();
    surplus.instances.push(instance(2, "True", "Ready"));
    let mut foreign = whole();
    foreign.instances[1].0["metadata"]["ownerReferences"][0]["uid"] = json!("d0");
    for (way, detail) in [
        (missing, "1 not in the project yet"),
        (surplus, "more than the cell reports: web-us-iad-2"),
        (foreign, "not owned by the live deployment: web-us-iad-1"),
    ] {
        let chain = way.links();
        assert_eq!(
            (chain.links[5].state, &*chain.links[5].detail),
            (State::Broken, detail)
        );
    }
}

#[test]
fn broken_beats_moving_over_all_cities() {
    let (moving, broken) = (lagging(20), lagging(200));
    let chains = [moving.links(), broken.links()];
    let verdict = |chains: &[Chain]| Verdict::of("shop", &whole().workload, chains, now());
    assert_eq!(verdict(&chains[..1]).word, "Moving");
    let seen = verdict(&chains);
    assert_eq!(seen.word, "Broken");
    assert_eq!(
        seen.next.as_deref(),
        Some("ask the operator: fedgate trace shop default/web")
    );
}

#[test]
fn a_waiting_hop_turns_when_it_is_old_enough() {
    let stuck_after = SignedDuration::from_secs(120);
    let next_change = |way: Way| way.links().next_change(stuck_after, now());
    assert_eq!(next_change(lagging(20)), Some(SignedDuration::from_secs(100)));
    assert_eq!(next_change(lagging(200)), None);
    assert_eq!(next_change(whole()), None);
}

#[test]
fn an_instance_that_the_gateway_does_not_project_has_the_reason_of_its_event() {
    let event = |uid: &str, reason: &str, time: &str| {
        Object(
            json!({"action": "QuarantiningProjection", "regarding": {"uid": uid}, "reason": reason, "note": "70000 bytes",
            "eventTime": time}),
        )
    };
    let mut way = whole();
    way.instances.pop();
    way.events = vec![
        event("d0", "QuarantinedForeign", "2030-01-01T11:59:00.000000Z"),
        event("d1", "QuarantinedTooLarge", "2030-01-01T11:58:00.000000Z"),
        event("d1", "QuarantinedNameTaken", "2030-01-01T11:50:00.000000Z"),
    ];
    let link = way.links().links.swap_remove(5);
    assert_eq!(
        link.detail,
        "1 not in the project yet; quarantined at 2030-01-01T11:58:00Z: QuarantinedTooLarge: 70000 bytes"
    );
    let mut well = whole();
    well.events = way.events;
    assert_eq!(
        well.links().links[5].detail,
        "",
        "the Event outlives the quarantine"
    );
}
