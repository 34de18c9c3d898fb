//! Each link of the way, broken in turn: with project access alone, and with hub and cell.

mod hub;

use super::*;
use fedgate_api::keys;
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

/// A whole way, on all planes.
struct Way {
    workload: Object,
    deployment: Option<Object>,
    instances: Vec<Object>,
    hub: HubView,
    /// Instances on the hub.
    written: Vec<Object>,
    cell: CellView,
    /// Instances in the cell.
    local: Vec<Object>,
    events: Vec<Object>,
}

/// The planes that are read beside the project.
#[derive(Clone, Copy)]
enum Access {
    Project,
    All,
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
    let copy = json!({"metadata": {"name": "web-us-iad", "namespace": "ns-1", "generation": 7,
        "creationTimestamp": ago(600), "managedFields": written(480), "labels": {keys::CITY_CODE: "IAD"},
        "annotations": {keys::SOURCE_UID: "d1", keys::SOURCE_GENERATION: "3", keys::CLAIM_NAME: "city-iad"}}});
    let policy = |name: &str, code: &str| {
        Object(json!({"metadata": {"name": name}, "spec": {"resourceSelectors": [
            {"labelSelector": {"matchLabels": {keys::CITY_CODE: code}}}]}}))
    };
    Way {
        workload: Object(json!({"metadata": {"name": "web", "uid": "w1", "generation": 1,
                "creationTimestamp": ago(600), "managedFields": written(510)},
            "spec": {"template": template, "placements": [
                {"name": "us", "cityCodes": ["IAD"], "scaleSettings": scale}]}})),
        deployment: Some(Object(deployment)),
        instances: both(),
        hub: HubView {
            namespace: Some(Object(
                json!({"metadata": {"name": "ns-1", "labels": {keys::CITIES: "dfw-iad"}}}),
            )),
            city_set: Some(Object(
                json!({"spec": {"placement": {"clusterAffinity": {"labelSelector": {
                "matchExpressions": [{"key": keys::CITY_CODE, "operator": "In", "values": ["DFW", "IAD"]}]}}}}}),
            )),
            copies: vec![Object(copy)],
            bindings: vec![Object(
                json!({"metadata": {"name": "web-us-iad-workloaddeployment"},
                "spec": {"clusters": [{"name": "pop-iad"}]},
                "status": {"conditions": [condition("Scheduled", "True", "Success", 1, 470),
                    condition("FullyApplied", "True", "Applied", 1, 460)],
                    "aggregatedStatus": [{"clusterName": "pop-iad", "applied": true, "status": {"replicas": 2}}]}}),
            )],
            policies: vec![policy("city-dfw", "DFW"), policy("city-iad", "IAD")],
            instances: Instances::default(),
            clusters: vec![Object(json!({"metadata": {"name": "pop-iad"},
                "status": {"conditions": [condition("Ready", "True", "ClusterReady", 1, 9_000)]}}))],
        },
        cell: CellView {
            name: "pop-iad".to_owned(),
            deployments: vec![Object(json!({"metadata": {"name": "web-us-iad",
                "annotations": {"resourcetemplate.karmada.io/generation": "7"}}}))],
            instances: Instances::default(),
        },
        written: both(),
        local: both(),
        events: Vec::new(),
    }
}

impl Way {
    fn set(mut self, part: &str, pointer: &str, value: Value) -> Self {
        let object = match part {
            "workload" => &mut self.workload,
            "deployment" => self.deployment.as_mut().unwrap(),
            "copy" => &mut self.hub.copies[0],
            "binding" => &mut self.hub.bindings[0],
            "cluster" => &mut self.hub.clusters[0],
            _ => panic!("{part}"),
        };
        *object.0.pointer_mut(pointer).unwrap() = value;
        self
    }

    fn links(&self, access: Access) -> Chain {
        let city = City {
            placement: "us".to_owned(),
            shown: "IAD".to_owned(),
            code: "IAD".to_owned(),
            location: String::new(),
        };
        let (hub, cell) = match access {
            Access::Project => (
                Beside::NotNamed("see --hub-context"),
                Beside::NotNamed("see --cell"),
            ),
            Access::All => {
                let hub = HubView {
                    instances: self.written.clone().into(),
                    ..self.hub.clone()
                };
                let cell = CellView {
                    instances: self.local.clone().into(),
                    ..self.cell.clone()
                };
                (Beside::Read(hub), Beside::Read(cell))
            }
        };
        let evidence = Evidence {
            workload: &self.workload,
            city: &city,
            deployment: self.deployment.as_ref(),
            instances: &self.instances.clone().into(),
            events: &self.events,
            hub: &hub,
            cell: &cell,
        };
        chain(&evidence, SignedDuration::from_secs(120), now())
    }

    /// The states of the hops as words, and the last line.
    fn traced(&self, access: Access) -> (Vec<&'static str>, String) {
        let chain = self.links(access);
        let words = chain.links.iter().map(|link| link.state.word()).collect();
        let line = match Verdict::of("web", &[chain], now()) {
            Verdict::Whole => "Whole.".to_owned(),
            Verdict::Moving(line) | Verdict::Broken { line, .. } => line,
        };
        (words, line)
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
fn a_whole_way_is_whole_and_the_binding_is_inferred_without_the_hub() {
    let way = whole();
    assert_eq!(way.traced(Access::All), (vec!["ok"; 6], "Whole.".to_owned()));
    assert_eq!(way.traced(Access::Project), (vec!["ok"; 6], "Whole.".to_owned()));
    let sources = |access| {
        let chain = way.links(access);
        chain
            .links
            .iter()
            .map(|link| link.source.word())
            .collect::<Vec<_>>()
    };
    let project = "project";
    assert_eq!(
        sources(Access::Project),
        [project, project, "inferred", project, project, project]
    );
    assert_eq!(
        sources(Access::All),
        [project, "hub", "hub", project, project, project]
    );
}

#[test]
fn a_missing_deployment_is_waited_for_and_then_broken() {
    let mut way = whole();
    way.deployment = None;
    let unseen = ["unseen"; 5];
    let words = |first| [vec![first], unseen.to_vec()].concat();
    let (seen, line) = way.traced(Access::All);
    assert_eq!(seen, words("broken"));
    assert_eq!(
        line,
        "First broken link (us/IAD): workload -> project: -: no deployment for the city for 8m"
    );
    let young = way.set("workload", "/metadata/managedFields", written(20));
    assert_eq!(
        young.traced(Access::All),
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
    let (words, line) = way.traced(Access::Project);
    assert_eq!(words, ["ok", "broken", "unseen", "waiting", "waiting", "ok"]);
    assert_eq!(
        line,
        "First broken link (us/IAD): project -> binding (binding unseen, see --hub-context): condition Federated: \
         ApplyFailed for 3s"
    );
}

#[test]
fn the_copy_that_lags_is_the_broken_link_after_a_while() {
    for (seconds, state) in [(20, "waiting"), (200, "broken")] {
        let (words, line) = lagging(seconds).traced(Access::All);
        assert_eq!(words[..2], ["ok", state]);
        assert!(words[2..].iter().all(|word| *word != "broken"), "{words:?}");
        if state == "broken" {
            assert!(
                line.contains("project -> hub: ns-1/web-us-iad: still on generation 3 for 3m"),
                "{line}"
            );
        }
    }
}

#[test]
fn a_deployment_with_an_older_spec_does_not_match_the_workload() {
    let older = lagging(5).set("deployment", "/spec/template", json!({"spec": {"a": 0}}));
    assert_eq!(
        older.links(Access::Project).links[0].detail,
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
    let chain = way.links(Access::Project);
    assert_eq!(chain.links[4].state, State::Broken);
    assert_eq!(
        chain.links[4].detail,
        "InstancesNotReady; 2 updated, 2 exist; web-us-iad-1: ImageUnavailable"
    );
    way.local[1].0["spec"]["controller"]["schedulingGates"] = json!([{"name": "Quota"}]);
    let chain = way.links(Access::All);
    assert_eq!(
        (&*chain.links[4].detail, chain.links[4].source),
        ("web-us-iad-1: gates Quota", Source::Cell)
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
        for access in [Access::Project, Access::All] {
            let chain = way.links(access);
            assert_eq!(
                (chain.links[5].state, &*chain.links[5].detail),
                (State::Broken, detail)
            );
        }
    }
    let mut unwritten = whole();
    unwritten.written.pop();
    let chain = unwritten.links(Access::All);
    assert_eq!(
        (chain.links[5].state, &*chain.links[5].detail),
        (State::Broken, "web-us-iad-1 is in the project and not on the hub")
    );
    let mut stale = whole();
    stale.written[0] = instance(0, "False", "Restarting");
    let chain = stale.links(Access::All);
    assert_eq!(chain.links[5].detail, "web-us-iad-0 has another Ready on the hub");
}

#[test]
fn a_plane_that_cannot_be_read_is_unseen_and_the_rest_is_shown() {
    let way = lagging(20);
    let city = City {
        placement: "us".to_owned(),
        shown: "IAD".to_owned(),
        code: "IAD".to_owned(),
        location: String::new(),
    };
    let evidence = Evidence {
        workload: &way.workload,
        city: &city,
        deployment: way.deployment.as_ref(),
        instances: &way.instances.clone().into(),
        events: &[],
        hub: &Beside::Unreadable("hub cannot be read: refused".to_owned()),
        cell: &Beside::NotNamed("see --cell"),
    };
    let chain = chain(&evidence, SignedDuration::from_secs(120), now());
    let states: Vec<_> = chain.links.iter().map(|link| link.state.word()).collect();
    assert_eq!(states, ["ok", "unseen", "unseen", "waiting", "waiting", "ok"]);
    assert_eq!(chain.links[2].detail, "hub cannot be read: refused");
}

#[test]
fn broken_beats_moving_over_all_cities() {
    let (moving, broken) = (lagging(20), lagging(200));
    let chains = [moving.links(Access::Project), broken.links(Access::Project)];
    assert!(matches!(
        Verdict::of("web", &chains, now()),
        Verdict::Broken { .. }
    ));
    assert!(matches!(
        Verdict::of("web", &chains[..1], now()),
        Verdict::Moving(_)
    ));
}

#[test]
fn a_waiting_hop_turns_when_it_is_old_enough() {
    let stuck_after = SignedDuration::from_secs(120);
    let next_change = |way: Way| way.links(Access::Project).next_change(stuck_after, now());
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
    let link = way.links(Access::Project).links.swap_remove(5);
    assert_eq!(
        link.detail,
        "1 not in the project yet; quarantined at 2030-01-01T11:58:00Z: QuarantinedTooLarge: 70000 bytes"
    );
    let mut well = whole();
    well.events = way.events;
    assert_eq!(
        well.links(Access::Project).links[5].detail,
        "",
        "the Event outlives the quarantine"
    );
}
