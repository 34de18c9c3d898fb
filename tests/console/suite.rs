//! The console in headless Chromium (contract: operations.md §4), beside a gateway whose planes a simulator plays.
//!
//! `FEDGATE_CHROMEDRIVER` names the driver, else it is looked for on `PATH`; `FEDGATE_BIN` names the gateway's executable.
//! Screenshots and figures go to target/console.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accessibility;
#[path = "../../benches/scale/acts.rs"]
#[allow(dead_code, reason = "the bench uses the rest")]
mod acts;
#[path = "../../benches/scale/address.rs"]
#[allow(dead_code, reason = "the bench uses the rest")]
mod address;
mod browser;
mod city_move;
mod fleet;
mod keyboard;
#[path = "../../benches/scale/kinds.rs"]
#[allow(dead_code, reason = "the bench uses the rest")]
mod kinds;
mod large;
#[path = "../../benches/planes/objects.rs"]
#[allow(dead_code, reason = "the bench uses the rest")]
mod objects;
#[path = "../../benches/scale/planes.rs"]
#[allow(dead_code, reason = "the bench uses the rest")]
mod planes;
mod policy;
mod shots;
mod stale;
mod way_in;

use std::path::PathBuf;

/// The project's folder `target`.
fn target() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap().join("target")
}

/// The folder of screenshots and figures.
fn results() -> PathBuf {
    let folder = target().join("console");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
