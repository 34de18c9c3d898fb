//! Alerts, runbooks and dashboard: each alert fires when it has to and never when all is well, each has its runbook, and
//! each metric that they name is served.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

mod cases;
mod dashboard;
mod data;
mod live;
mod promql;
mod promtool;
mod rules;
mod runbooks;
mod series;

#[path = "../../benches/scale/address.rs"]
#[allow(dead_code, reason = "the benches use the rest")]
mod address;
#[path = "../../benches/planes/gateway.rs"]
#[allow(dead_code, reason = "the benches use the rest")]
mod gateway;
#[path = "../../benches/scale/kinds.rs"]
#[allow(dead_code, reason = "the benches use the rest")]
mod kinds;
#[path = "../../benches/planes/objects.rs"]
#[allow(dead_code, reason = "the benches use the rest")]
mod objects;
#[path = "../../benches/scale/planes.rs"]
#[allow(dead_code, reason = "the benches use the rest")]
mod planes;

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of `manifests/monitoring`.
fn monitoring(name: &str) -> PathBuf {
    root().join("manifests/monitoring").join(name)
}
