//! Answers as a gateway sends them.

use serde_json::{Value, json};

/// An answer of the leader at ten o'clock.
pub(super) fn answer(kind: &str, body: Value) -> Value {
    let mut answer = json!({
        "apiVersion": "operations.fedgate.dev/v1", "kind": kind, "asOf": "2026-12-01T10:00:00.000Z", "complete": true,
        "replica": {"identity": "fedgate-gateway-7c9d-x2x", "role": "leader", "leader": "fedgate-gateway-7c9d-x2x",
            "version": "0.2.0", "revision": "50781e8", "startedAt": "2026-11-30T09:00:00.000Z"},
    });
    let Value::Object(body) = body else {
        panic!("{body}")
    };
    answer.as_object_mut().unwrap().extend(body);
    answer
}

pub(super) fn overview() -> Value {
    answer(
        "Overview",
        json!({
            "health": {"state": "degraded", "reasons": [{"class": "plane", "plane": "hub", "word": "unreachable",
                "count": 1, "since": "2026-12-01T09:54:00.000Z", "next": "check clusters[].cluster.server"}]},
            "hub": {"state": "backoff", "since": "2026-12-01T09:54:00.000Z", "lastEvent": "2026-12-01T09:53:00.000Z"},
            "projects": {"engaged": 9998, "refused": 2, "connected": 9990, "syncing": 0, "backoff": 8, "unauthorized": 0},
            "cells": {"ready": 40, "draining": 1, "not_ready": 1, "unlabelled": 0, "leaving": 0},
            "deployments": {"total": 100_000, "federated": {"Delivered": 99_871}},
            "instances": {"desired": 300_000, "existing": 299_990, "ready": 299_871, "updated": 299_990},
            "undelivered": {
                "project_to_hub": {"count": 3, "oldest": "2026-12-01T09:59:00.000Z"},
                "hub_to_cell": {"count": 17, "oldest": "2026-12-01T09:00:00.000Z"},
                "hub_status_to_project": {"count": 0}, "writeback_to_projection": {"count": 0}},
            "stuck": {"plane": 1, "retrying": 4, "quarantined": 2},
            "queue": {"ready": 0, "running": 1, "delayed": 9, "inBackoff": 4},
            "deletions": {"pending": 1, "oldest": "2026-12-01T09:40:00.000Z"},
            "garbage": {"orphans": 0, "brake": false}, "interpreterDrift": 0,
        }),
    )
}

pub(super) fn stuck() -> Value {
    answer(
        "Stuck",
        json!({"groups": [
            {"class": "retrying", "plane": "hub", "word": "server", "count": 412, "oldest": "2026-12-01T09:49:00.000Z",
                "next": "see the hub's API server's log", "items": [{"project": "shop-prod", "namespace": "default",
                "kind": "workloaddeployments", "name": "web-us-iad", "since": "2026-12-01T09:49:00.000Z", "attempts": 11,
                "nextTry": "2026-12-01T10:00:30.000Z", "message": "apply: \u{1b}[31metcdserver: request timed out"}]},
            {"class": "deleting", "plane": "project", "word": "dfw-1", "count": 1, "next": "fedgate stuck --cell dfw-1",
                "items": [{"project": "shop-prod", "namespace": "default", "kind": "workloads", "name": "api",
                "cell": "dfw-1", "since": "2026-12-01T09:40:00.000Z", "sinceAtLeast": true, "message": ""}]},
        ]}),
    )
}

/// A write with a number and a time.
pub(super) fn write(seq: u64, at: &str) -> Value {
    json!({"seq": seq, "at": at, "plane": "hub", "project": "shop-prod", "verb": "apply", "reason": "spec changed",
        "object": "workloaddeployments.compute.datumapis.com ns-6d1f/web-us-dfw", "result": "ok", "tookMs": 9})
}

pub(super) fn journal() -> Value {
    let failed = json!({"seq": 99_119, "at": "2026-12-01T09:59:00.000Z", "plane": "project", "project": "shop-prod",
        "object": "workloads.compute.datumapis.com default/web", "verb": "patch", "reason": "status",
        "result": "conflict", "tookMs": 4, "message": "the object has been modified"});
    answer(
        "Journal",
        json!({"items": [write(99_120, "2026-12-01T09:59:58.000Z"), failed]}),
    )
}

/// The trace of operations.md §3.2.
pub(super) fn trace() -> Value {
    let hop = |hop: &str, has: i64| json!({"hop": hop, "plane": "hub", "state": "ok", "wants": has, "has": has, "source": "hub"});
    let with = |mut hop: Value, fields: Value| {
        let Value::Object(fields) = fields else {
            panic!("{fields}")
        };
        hop.as_object_mut().unwrap().extend(fields);
        hop
    };
    answer(
        "Trace",
        json!({
            "object": {"project": "shop-prod", "namespace": "default", "kind": "workloads", "name": "web"},
            "verdict": "broken",
            "firstBroken": {"placement": "us", "city": "IAD", "hop": "cell", "detail": "pop-iad: ClusterNotReachable",
                "next": "check the cell pop-iad: fedgate stuck --cell pop-iad"},
            "branches": [
                {"placement": "us", "city": "DFW", "hops": [
                    hop("project", 4), hop("hub", 4), hop("binding", 4), with(hop("cell", 4), json!({"object": "dfw-1"})),
                    hop("instances", 2), hop("projection", 2)]},
                {"placement": "us", "city": "IAD", "hops": [
                    hop("project", 4), hop("hub", 4), hop("binding", 4),
                    with(hop("cell", 3), json!({"object": "pop-iad", "state": "broken", "wants": 4,
                        "since": "2026-12-01T09:54:00.000Z", "word": "ClusterNotReachable"})),
                    with(hop("instances", 2), json!({"state": "waiting", "since": "2026-12-01T09:54:00.000Z",
                        "detail": "still on generation 3"})),
                    hop("projection", 2)]},
            ],
            "instances": [], "journal": [],
        }),
    )
}
