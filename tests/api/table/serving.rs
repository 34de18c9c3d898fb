//! Probes, the end of a container, and rollouts: objects at and beyond their bounds, and those that break V30 to V33.

use super::{EU, SPEC, Table, WEB};
use serde_json::{Value, json};

fn rollout() -> String {
    format!("{EU}/rollout")
}

fn probe(kind: &str) -> String {
    format!("{WEB}/{kind}Probe")
}

pub(super) fn good(t: &mut Table) {
    let http = json!({"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTPS",
        "httpHeaders": [{"name": "Host", "value": "shop.example.com"}]}, "periodSeconds": 1, "successThreshold": 3});
    let grpc = json!({"grpc": {"port": 9000, "service": "shop"}, "initialDelaySeconds": 0, "timeoutSeconds": 5,
        "failureThreshold": 1000});
    for (name, kind, value) in [
        ("a probe by HTTP", "readiness", http),
        ("a probe by gRPC", "liveness", grpc),
        (
            "a probe of a port",
            "startup",
            json!({"tcpSocket": {"port": 65535}, "successThreshold": 1}),
        ),
        (
            "a probe by a command",
            "liveness",
            json!({"exec": {"command": ["true"]}}),
        ),
    ] {
        t.web(None, name, &probe(kind), value);
    }
    let sleep = json!({"preStop": {"sleep": {"seconds": 30}}});
    t.web(
        None,
        "a sleep of the whole grace period",
        &format!("{WEB}/lifecycle"),
        sleep,
    );
    t.web(None, "an empty lifecycle", &format!("{WEB}/lifecycle"), json!({}));
    t.web(
        None,
        "the shortest grace period",
        &format!("{SPEC}/runtime/sandbox/terminationGracePeriodSeconds"),
        json!(1),
    );
    for (name, value) in [
        ("an empty rollout", json!({})),
        (
            "a whole rollout",
            json!({"maxSurge": "100%", "maxUnavailable": 0, "minReadySeconds": 599, "paused": true, "onFailure": "Undo"}),
        ),
        (
            "a rollout without surge",
            json!({"maxSurge": 0, "maxUnavailable": "25%", "onFailure": "Hold"}),
        ),
        ("a surge of a thousand", json!({"maxSurge": 1000})),
    ] {
        t.web(None, name, &rollout(), value);
    }
}

pub(super) fn bad(t: &mut Table) {
    bad_probes(t);
    bad_ends_and_rollouts(t);
}

fn bad_probes(t: &mut Table) {
    let two = json!({"tcpSocket": {"port": 80}, "exec": {"command": ["true"]}});
    for (rule, name, kind, value) in [
        ("V30", "a probe that asks nothing", "readiness", json!({})),
        ("V30", "a probe that asks twice", "startup", two),
        (
            "schema",
            "a probe of port 0",
            "liveness",
            json!({"tcpSocket": {"port": 0}}),
        ),
        (
            "schema",
            "a probe of port 65536",
            "readiness",
            json!({"httpGet": {"port": 65536}}),
        ),
        (
            "schema",
            "a probe of no port",
            "readiness",
            json!({"httpGet": {"path": "/"}}),
        ),
        (
            "schema",
            "a probe of a port of 16 characters",
            "readiness",
            json!({"tcpSocket": {"port": "x".repeat(16)}}),
        ),
        (
            "schema",
            "a probe of a port in capitals",
            "readiness",
            json!({"tcpSocket": {"port": "HTTP"}}),
        ),
        (
            "schema",
            "a gRPC probe of a named port",
            "readiness",
            json!({"grpc": {"port": "grpc"}}),
        ),
        (
            "schema",
            "an unknown scheme",
            "readiness",
            json!({"httpGet": {"port": 80, "scheme": "FTP"}}),
        ),
        (
            "schema",
            "no command",
            "readiness",
            json!({"exec": {"command": []}}),
        ),
        (
            "schema",
            "two successes to be alive",
            "liveness",
            json!({"tcpSocket": {"port": 80}, "successThreshold": 2}),
        ),
        (
            "schema",
            "no failure",
            "readiness",
            json!({"tcpSocket": {"port": 80}, "failureThreshold": 0}),
        ),
        (
            "schema",
            "a negative delay",
            "readiness",
            json!({"tcpSocket": {"port": 80}, "initialDelaySeconds": -1}),
        ),
    ] {
        t.web(Some(rule), name, &probe(kind), value);
    }
}

fn bad_ends_and_rollouts(t: &mut Table) {
    let sleep = |seconds: i64| json!({"preStop": {"sleep": {"seconds": seconds}}});
    let lifecycle = format!("{WEB}/lifecycle");
    t.web(
        Some("V31"),
        "a sleep beyond the grace period",
        &lifecycle,
        sleep(31),
    );
    t.web(Some("schema"), "a sleep of nothing", &lifecycle, sleep(0));
    t.web(
        Some("schema"),
        "a grace period of more than an hour",
        &format!("{SPEC}/runtime/sandbox/terminationGracePeriodSeconds"),
        json!(3601),
    );
    t.web(
        Some("schema"),
        "no grace period",
        &format!("{SPEC}/runtime/sandbox/terminationGracePeriodSeconds"),
        json!(0),
    );
    let cases: [(&str, &str, Value); 9] = [
        (
            "V32",
            "neither surge nor gap",
            json!({"maxSurge": 0, "maxUnavailable": "0%"}),
        ),
        ("V33", "ready after the deadline", json!({"minReadySeconds": 600})),
        (
            "V33",
            "a deadline of nothing left",
            json!({"minReadySeconds": 5, "progressDeadlineSeconds": 5}),
        ),
        ("schema", "a negative surge", json!({"maxSurge": -1})),
        ("schema", "a surge of 1001", json!({"maxSurge": 1001})),
        ("schema", "a surge of more than all", json!({"maxSurge": "101%"})),
        ("schema", "a surge without a sign", json!({"maxSurge": "1"})),
        ("schema", "an unknown end", json!({"onFailure": "undo"})),
        ("schema", "no deadline", json!({"progressDeadlineSeconds": 0})),
    ];
    for (rule, name, value) in cases {
        t.web(Some(rule), name, &rollout(), value);
    }
}
