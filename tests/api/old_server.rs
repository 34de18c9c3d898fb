//! The definitions before an old API server: the validation of the oldest Kubernetes that they are for.

use anyhow::Result;
use fedgate_sandbox::{Progress, program};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The definitions of tests: each in a file of its own, as the check reads them.
fn of_tests() -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "yaml") {
            for definition in serde_saphyr::from_multiple::<Value>(&std::fs::read_to_string(file)?)? {
                let name = definition["metadata"]["name"].as_str().unwrap_or_default();
                let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.yaml"));
                std::fs::write(&file, definition.to_string())?;
                files.push(file);
            }
        }
    }
    Ok(files)
}

const WORKLOADS: &str = "workloads.compute.datumapis.com.yaml";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[tokio::test]
#[ignore = "verify: the library of the oldest Kubernetes judges"]
async fn the_oldest_kubernetes_accepts_the_definitions_and_would_refuse_a_dear_rule() -> Result<()> {
    let progress = Progress::new(|line| eprintln!("api: {line}"));
    let check = program("definitions-check", &progress).await?;
    let judge = |files: &[PathBuf]| Command::new(&check).args(files).output();

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/crds");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "yaml") {
            files.push(file);
        }
    }
    assert!(files.contains(&folder.join(WORKLOADS)), "{files:?}");
    files.extend(of_tests()?);
    let judged = judge(&files)?;
    assert!(judged.status.success(), "{}", said(&judged));

    let text = std::fs::read_to_string(folder.join(WORKLOADS))?;
    let cheap =
        "[has(self.value), has(self.averageValue), has(self.averageUtilization)].filter(x, x).size() == 1";
    let dear = text.replace(cheap, "quantity(string(self.value)).isGreaterThan(quantity('0'))");
    assert_ne!(dear, text);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dear.yaml");
    std::fs::write(&file, dear)?;
    let judged = judge(&[file])?;
    let reason = said(&judged);
    assert!(!judged.status.success());
    assert!(reason.contains("estimated rule cost exceeds budget"), "{reason}");
    Ok(())
}
