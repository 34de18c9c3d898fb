//! The network provider's part: a binding gets a context, a claim gets a subnet, and each says that it is ready.

use super::{Clock, holds, is_going, text};
use crate::cell::planes::NS;
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::time::Duration;

/// A step takes this long.
const DELAY: Duration = Duration::from_millis(50);
const GROUP: &str = "networking.datumapis.com/v1alpha";

pub(super) async fn act(cell: Plane, clock: Clock) {
    let mut changed = cell.changed();
    loop {
        tokio::time::sleep(DELAY).await;
        step(&cell, clock);
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn step(cell: &Plane, clock: Clock) {
    let ready = clock.condition("Ready", true, "Ready", "");
    let say = |kind: &str, object: &Value, mut status: Value| {
        status["conditions"] = json!([ready]);
        cell.merge_status(kind, NS, text(object, "name"), json!({"status": status}))
            .unwrap();
    };
    let make = |kind: &str, name: &str, spec: Value| {
        let object = json!({
            "apiVersion": GROUP, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec,
        });
        cell.create(object).unwrap();
    };
    let waiting = |kind: &str| {
        let all = cell.list(kind).into_iter();
        all.filter(|o| !is_going(o) && !holds(o, "Ready"))
            .collect::<Vec<_>>()
    };
    for binding in waiting("NetworkBinding") {
        let spec = &binding["spec"];
        let name = format!(
            "{}-{}",
            spec["network"]["name"].as_str().unwrap_or_default(),
            spec["location"]["name"].as_str().unwrap_or_default()
        );
        match cell.get("NetworkContext", NS, &name) {
            None => make(
                "NetworkContext",
                &name,
                json!({"network": {"name": spec["network"]["name"]}, "location": spec["location"]}),
            ),
            Some(context) if holds(&context, "Ready") => {
                let status = json!({"networkContextRef": {"namespace": NS, "name": name}});
                say("NetworkBinding", &binding, status);
            }
            Some(_) => {}
        }
    }
    for context in waiting("NetworkContext") {
        say("NetworkContext", &context, json!({}));
    }
    for claim in waiting("SubnetClaim") {
        let name = text(&claim, "name");
        match cell.get("Subnet", NS, name) {
            None => {
                let mut spec = claim["spec"].clone();
                (spec["startAddress"], spec["prefixLength"]) = (json!("10.128.0.0"), json!(20));
                make("Subnet", name, spec);
            }
            Some(subnet) if holds(&subnet, "Ready") => {
                say("SubnetClaim", &claim, json!({"subnetRef": {"name": name}}));
            }
            Some(_) => {}
        }
    }
    for subnet in waiting("Subnet") {
        say("Subnet", &subnet, json!({}));
    }
}
