//! `examples/demo.sh`: everything that it shows comes about, and nothing is left.

use anyhow::{Context, Result, ensure};
use std::{
    path::Path,
    process::{Command, Stdio},
};

#[test]
fn the_demonstration_comes_about() -> Result<()> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("demo");
    let programs = Path::new(env!("CARGO_BIN_EXE_fedgate-sandbox")).parent();
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/demo.sh"))
        .env("BIN", programs.context("the executables have no folder")?)
        .env("FEDGATE_SANDBOX_DIR", &dir)
        .env_remove("KEEP")
        .stdin(Stdio::null())
        .output()?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    // The last lines name the reason and the logs. The whole output is too long for a report of a test.
    let last = |text: &str, lines: usize| {
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    };
    ensure!(
        output.status.success(),
        "{}: {}\nthe end of its output:\n{}",
        output.status,
        last(&err, 20),
        last(&out, 80)
    );
    for said in [
        "project  Instance is Ready",
        "times for Pods of us eu, and has found ready ones each time",
        "Instance storefront-us-dfw-2: Ready=False (ImageUnavailable)",
        "us/DFW Blocked ImageUnavailable",
        "Instance storefront-us-dfw-0: Ready=False (Suspended)",
        "storefront-us-dfw-0 runs at cell dfw-",
        "$ fedgate status",
        "$ fedgate trace alpha shop/storefront --watch",
        "All of it has happened as it should",
    ] {
        ensure!(out.contains(said), "{said:?} is missing in\n{out}");
    }
    ensure!(!dir.join("kubeconfig").exists(), "credentials are left");
    Ok(())
}
