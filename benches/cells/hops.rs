//! From a Workload in the project to its first Instance, Ready in the project, and to its end: one life at a time.

use super::{
    limited,
    report::{Figure, percentile, round},
    rig::Rig,
    told,
};
use anyhow::Result;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The hops of all lives.
#[derive(Default)]
pub(crate) struct Hops(Vec<(&'static str, Vec<Duration>)>);

/// The hop that has a bar.
const WHOLE: &str = "Workload created → Instance Ready in the project";

const HOPS: [&str; 7] = [
    "Workload created → deployment on the hub",
    "hub → cell (Karmada's part)",
    "at the cell → Instance Ready there",
    "Ready at the cell → on the hub",
    "Ready on the hub → in the project",
    WHOLE,
    "Workload deleted → Instance gone from the project",
];

pub(crate) fn ready(object: Option<&DynamicObject>) -> bool {
    let conditions = object.and_then(|object| object.data["status"]["conditions"].as_array());
    conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// Measures so many lives.
pub(crate) async fn measure(rig: &Rig, samples: usize) -> Result<Hops> {
    let mut hops = Hops(HOPS.map(|name| (name, Vec::new())).into());
    let there = rig.namespace("hops").await?;
    for n in 0..=samples {
        let life = one(rig, &there, &format!("w{n}")).await?;
        // The first has the namespace's own beginning in it.
        if n > 0 {
            for ((_, all), hop) in hops.0.iter_mut().zip(life) {
                all.push(hop);
            }
        }
    }
    Ok(hops)
}

async fn one(rig: &Rig, there: &str, name: &str) -> Result<[Duration; 7]> {
    let (deployment, instance) = (format!("{name}-us-dfw"), format!("{name}-us-dfw-0"));
    let sights = &rig.sights;
    let exists = |object: Option<&DynamicObject>| object.is_some();
    let on_hub = sights.hub_deployments.expect(there, &deployment, exists);
    let at_cell = sights.cell_deployments.expect(there, &deployment, exists);
    let ready_at_cell = sights.cell_instances.expect(there, &instance, ready);
    let ready_on_hub = sights.hub_instances.expect(there, &instance, ready);
    let ready_in_project = sights.project_instances.expect("hops", &instance, ready);
    let begun = Instant::now();
    rig.create("hops", name, "OrderedReady", 1).await?;
    let (hub, cell) = (on_hub.seen().await?, at_cell.seen().await?);
    let (up, copied, shown) = (
        ready_at_cell.seen().await?,
        ready_on_hub.seen().await?,
        ready_in_project.seen().await?,
    );
    let gone = |object: Option<&DynamicObject>| object.is_none();
    let left = sights.project_instances.expect("hops", &instance, gone);
    let left_cell = sights.cell_instances.expect(there, &instance, gone);
    let ending = Instant::now();
    rig.delete("hops", name).await?;
    let ended = left.after(ending).await?;
    left_cell.seen().await?;
    Ok([
        hub.saturating_duration_since(begun),
        cell.saturating_duration_since(hub),
        up.saturating_duration_since(cell),
        copied.saturating_duration_since(up),
        shown.saturating_duration_since(copied),
        shown.saturating_duration_since(begun),
        ended,
    ])
}

impl Hops {
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let of = |(name, samples): &(&'static str, Vec<Duration>)| {
            [("p50", 0.5, 380.0), ("p99", 0.99, 600.0)].map(|(label, share, limit)| {
                let (full, value) = (format!("{name}, {label}"), percentile(samples, share));
                if *name == WHOLE {
                    limited(full, value, "ms", limit)
                } else {
                    told(full, value, "ms")
                }
            })
        };
        self.0.iter().flat_map(of).collect()
    }

    pub(crate) fn raw(&self) -> Value {
        let list = |samples: &[Duration]| -> Vec<f64> {
            samples.iter().map(|s| round(s.as_secs_f64() * 1e3)).collect()
        };
        let hops = self
            .0
            .iter()
            .map(|(name, samples)| ((*name).to_owned(), json!(list(samples))));
        Value::Object(hops.collect())
    }
}
