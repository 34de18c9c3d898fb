//! `fedgate-sandbox demo`: everything that it shows comes about, and nothing is left.

use anyhow::{Result, ensure};
use std::{path::Path, process::Command};

#[test]
fn the_demonstration_comes_about() -> Result<()> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("demo");
    let output = Command::new(env!("CARGO_BIN_EXE_fedgate-sandbox"))
        .args(["demo", "--dir"])
        .arg(&dir)
        .output()?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "{}\n{out}\n{err}", output.status);
    for said in [
        "project  Instance is Ready",
        "Instance storefront-us-dfw-1: Ready=False (ImageUnavailable)",
        "Instance storefront-us-dfw-0: Ready=False (Suspended)",
        "$ fedgate status",
        "$ fedgate trace alpha shop/storefront --watch",
        "All of it has happened as it should",
    ] {
        ensure!(out.contains(said), "{said:?} is missing in\n{out}");
    }
    ensure!(!dir.join("kubeconfig").exists(), "credentials are left");
    Ok(())
}
