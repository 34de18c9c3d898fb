//! How fast one plane is, and how much memory many quiet ones take.
//!
//! `cargo bench -p fedgate-simulator` prints a line for each.

// A failing bench says where.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use fedgate_simulator::{Definition, Service, Simulator};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::{fs, sync::Arc, time::Instant};
use tower_service::Service as _;

const WRITES: usize = 20_000;
const PLANES: usize = 10_000;
const WATCHES: usize = 5;
const GADGETS: &str = "/apis/g.dev/v1/namespaces/default/gadgets";

fn gadget() -> Value {
    json!({"spec": {
        "group": "g.dev", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [{"name": "v1", "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
    }})
}

fn object(n: usize) -> Value {
    let container = json!({"name": "main", "image": "registry.example.com/app:1.2.3", "env": [
        {"name": "A", "value": "one"}, {"name": "B", "value": "two"}, {"name": "C", "value": "three"}]});
    json!({"apiVersion": "g.dev/v1", "kind": "Gadget",
        "metadata": {"name": format!("g-{n}"), "labels": {"app": "web", "city": "DFW"}, "finalizers": ["x.dev/one"]},
        "spec": {"cityCode": "DFW", "replicas": n, "template": {"spec": {"containers": [container]}}}})
}

async fn send(service: &Service, method: &str, path: &str, kind: &str, body: &Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Full::<Bytes>::from(body.to_string()))
        .unwrap();
    let answer = service.clone().call(request).await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    answer.into_body().collect().await.unwrap();
}

async fn speed() {
    let simulator = Simulator::new(1);
    let plane = simulator.add("p");
    plane.define(&gadget());
    simulator.log().disable();
    let service = simulator.service("p", "bench");
    let rate = |what: &str, begun: Instant| {
        let seconds = begun.elapsed().as_secs_f64();
        let count = u32::try_from(WRITES).unwrap();
        println!("{what:<24} {:>8.0} per second", f64::from(count) / seconds);
    };
    let begun = Instant::now();
    for n in 0..WRITES {
        send(&service, "POST", GADGETS, "application/json", &object(n)).await;
    }
    rate("creates", begun);
    let begun = Instant::now();
    for n in 0..WRITES {
        let path = format!("{GADGETS}/g-{n}/status");
        let status = json!({"status": {"replicas": n, "conditions": [{"type": "Ready", "status": "True"}]}});
        send(&service, "PATCH", &path, "application/merge-patch+json", &status).await;
    }
    rate("status merge patches", begun);
    let begun = Instant::now();
    for n in 0..WRITES {
        let path = format!("{GADGETS}/g-{n}?fieldManager=bench&force=true");
        let mut config = object(n);
        config["spec"]["replicas"] = json!(n + 1);
        send(&service, "PATCH", &path, "application/apply-patch+yaml", &config).await;
    }
    rate("applies", begun);
}

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or(0)
}

async fn memory() {
    let before = resident();
    let simulator = Simulator::new(1);
    let definition = [Arc::new(Definition::parse(&gadget()))];
    let mut watches = Vec::new();
    for n in 0..PLANES {
        let name = format!("p-{n}");
        simulator.add(&name).define_all(&definition);
        let mut service = simulator.service(&name, "bench");
        for _ in 0..WATCHES {
            let uri = format!("{GADGETS}?watch=true&timeoutSeconds=290");
            let request = Request::builder()
                .uri(uri)
                .body(Full::<Bytes>::default())
                .unwrap();
            let mut body = service.call(request).await.unwrap().into_body();
            assert!(futures::FutureExt::now_or_never(body.frame()).is_none());
            watches.push(body);
        }
    }
    let taken = resident() - before;
    println!("{PLANES} planes, {WATCHES} watches each: {} MiB", taken / 1024);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(speed());
    runtime.block_on(memory());
}
