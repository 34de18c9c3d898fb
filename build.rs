//! Tells `fedgate` and `kubectl-compute` what they were built from: the revision of the sources, and the compiler.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=FEDGATE_REVISION");
    let given = env::var("FEDGATE_REVISION")
        .ok()
        .filter(|revision| !revision.is_empty());
    let revision = given.or_else(of_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=FEDGATE_BUILD_REVISION={revision}");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = output(&rustc, &["--version"]).unwrap_or_default();
    // `rustc 1.95.0 (hash date)`
    let version = version.split(' ').nth(1).unwrap_or("unknown");
    println!("cargo:rustc-env=FEDGATE_BUILD_RUSTC={version}");
}

/// The revision of the working tree. Of release builds alone: otherwise each commit would build all tests anew.
fn of_git() -> Option<String> {
    if env::var("PROFILE").ok()? != "release" {
        return None;
    }
    for path in ["HEAD", "logs/HEAD"] {
        let file = output("git", &["rev-parse", "--git-path", path])?;
        println!("cargo:rerun-if-changed={file}");
    }
    output("git", &["rev-parse", "--short=12", "HEAD"])
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout)
        .ok()
        .filter(|_| output.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
