//! Descriptions, word for word.

use super::*;
use crate::view::Home;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2030-01-01T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": ago(90)})
}

fn runtime() -> Value {
    json!({"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": {"containers": [
        {"name": "app", "image": "ghcr.io/acme/web:1", "ports": [{"name": "http", "port": 80}],
            "env": [{"name": "A", "value": "1"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "web-db", "key": "t"}}}],
            "envFrom": [{"configMapRef": {"name": "settings"}}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}}}]}})
}

#[test]
fn a_workload_is_described_with_its_blocked_city() {
    let template = json!({"spec": {"runtime": runtime()}});
    let workload = Object(
        json!({"metadata": {"name": "web", "uid": "u", "creationTimestamp": ago(300)},
        "spec": {"template": template, "placements": [
            {"name": "us", "cityCodes": ["DFW", "IAD"], "scaleSettings": {"minReplicas": 1, "maxReplicas": 6}}]},
        "status": {"conditions": [condition("Available", "False", "NoHealthyInstances", "")]}}),
    );
    let deployment = json!({"metadata": {"name": "web-us-dfw", "generation": 1, "creationTimestamp": ago(300)},
        "spec": {"workloadRef": {"uid": "u"}, "placementName": "us", "cityCode": "DFW", "template": template,
            "scaleSettings": {"minReplicas": 1, "maxReplicas": 6}},
        "status": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 0, "desiredReplicas": 1,
            "conditions": [condition("Available", "False", "ImageUnavailable", "no such image")]}});
    let joined = Joined::of(workload, vec![Object(deployment)]);
    let revision = crate::history::Active {
        number: Some(4),
        by: "ann".to_owned(),
        time: Some(ago(300)),
    };
    assert_eq!(
        workload_text(&joined, Some(&revision), now()),
        "\
Workload:   web
Type:       sandbox/datumcloud/d1-standard-2
Revision:   #4
Updated:    5m ago by ann
Health:     Unavailable - NoHealthyInstances
Placements:
  us  scale: 1..6
    DFW  0/1  Blocked - ImageUnavailable: no such image
    IAD  0/1  Blocked - NoHealthyInstances
Containers:
  app
    Image:     ghcr.io/acme/web:1
    Ports:     http 80/TCP
    Env:       A=1, TOKEN (from secret web-db), all of config map settings
    Resources: cpu 500m, memory 256Mi
Next steps:
  kubectl compute trace web
  kubectl compute instances --workload web
"
    );
}

fn home() -> Home {
    Home {
        workload: "web".to_owned(),
        position: 0,
        placement: "us".to_owned(),
        city: "DFW".to_owned(),
        location: String::new(),
        ordinal: Some(0),
    }
}

fn instance(status: &Value) -> Object {
    Object(
        json!({"kind": "Instance", "metadata": {"name": "web-us-dfw-0", "creationTimestamp": ago(7_200)},
        "spec": {"runtime": runtime(), "controller": {"schedulingGates": []}}, "status": status}),
    )
}

#[test]
fn an_instance_that_cannot_start_is_described_with_its_message() {
    let status = json!({"conditions": [condition("Programmed", "False", "ImageUnavailable", "no \u{1b}[31msuch image")]});
    assert_eq!(
        instance_text(&instance(&status), &home(), now()),
        "\
Instance:   web-us-dfw-0
Workload:   web
Placement:  us
City:       DFW
Age:        2h
Status:     Not available - image unavailable
Message:    no \\u{1b}[31msuch image
Type:       sandbox/datumcloud/d1-standard-2
Network:    Waiting for addresses
Containers:
  app
    Image:     ghcr.io/acme/web:1
    Ports:     http 80/TCP
    Env:       A=1, TOKEN (from secret web-db), all of config map settings
    Resources: cpu 500m, memory 256Mi
Conditions:
  Programmed  False    ImageUnavailable  1m
Next steps:
  kubectl compute rollout history web
  kubectl compute rollout undo web
"
    );
}

#[test]
fn next_steps_are_those_that_would_do_something() {
    let steps = |conditions: Vec<Value>| {
        let text = instance_text(&instance(&json!({"conditions": conditions})), &home(), now());
        let (_, steps) = text.split_once("Next steps:\n").unwrap_or_default();
        steps.trim().to_owned()
    };
    assert_eq!(steps(vec![condition("Ready", "True", "Ready", "")]), "");
    assert_eq!(
        steps(vec![condition("QuotaGranted", "False", "QuotaExceeded", "")]),
        "kubectl compute quota"
    );
    assert_eq!(
        steps(vec![condition("Ready", "False", "Something", "")]),
        "kubectl compute trace web --city DFW"
    );
}
