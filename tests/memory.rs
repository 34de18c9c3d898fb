//! What a deployment, an Instance, a Workload and a project that does nothing take in memory: no more than a tenth over the figures
//! in benches/index/memory.json. Bytes as the allocator counts them for this thread, so the machine does not matter.

#![allow(clippy::unwrap_used)]

#[path = "../benches/index/fill.rs"]
mod fill;
#[path = "../benches/index/idle.rs"]
mod idle;
#[path = "../benches/planes/objects.rs"]
#[expect(dead_code, reason = "the benches use the rest")]
mod objects;
#[path = "../benches/index/workloads.rs"]
mod workloads;

use anyhow::{Context, Result, ensure};
use fill::{Filled, Part, Size};
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn holds(what: &str, bytes: u64) -> Result<()> {
    let figures: Value = serde_json::from_str(include_str!("../benches/index/memory.json"))?;
    let committed = figures[what].as_u64().context("no figure is committed")?;
    ensure!(
        bytes * 10 <= committed * 11,
        "{what}: {bytes} bytes, and {committed} are committed in benches/index/memory.json; find what has grown \
         (cargo bench --features jemalloc --bench index), or say in the commit why it must"
    );
    ensure!(
        bytes * 10 >= committed * 9,
        "{what}: {bytes} bytes, well below the {committed} of benches/index/memory.json: commit the better figure"
    );
    Ok(())
}

#[test]
fn deployments_and_instances_take_no_more_than_they_did() -> Result<()> {
    let filled = Filled::new(Size {
        projects: 10,
        deployments: 50,
        instances: 3,
    })?;
    let each = |names: &[&str]| -> u64 {
        let parts = filled.parts.iter().filter(|part| names.contains(&part.name));
        parts.map(Part::each).sum()
    };
    holds("deployment", each(&["deployments", "copies", "bindings"]))?;
    holds("Instance", each(&["write-backs", "projections"]))
}

#[test]
fn workloads_take_no_more_than_they_did_however_large_their_specs_are() -> Result<()> {
    let usual = workloads::measure("Workloads", 1_000, 100)?;
    let large = workloads::measure("large Workloads", 400, 1_400 * 1024)?;
    holds("Workload", usual.each())?;
    holds("Workload of 1.4 MiB", large.each())
}

#[test]
fn an_idle_project_takes_no_more_than_it_did() -> Result<()> {
    let parts = idle::measure(100)?;
    let project = parts.iter().find(|part| part.name == "idle projects");
    holds("idle project", project.context("it was not measured")?.each())
}
