//! `kubectl compute` beside `kubectl` over a corpus of kubeconfigs: which server is reached, with which credential, and what is
//! refused. The differences are the table of docs/kubeconfigs.md.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod corpus;
mod servers;

use corpus::{Case, World};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Output, Stdio},
};
use tokio::{io::AsyncWriteExt, process::Command};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The outcome of a command: what it has reached, and whether it has succeeded.
async fn outcome(world: &World, case: &Case, program: &Path, words: &[&str]) -> (String, Output) {
    let folder = world.folder.display().to_string();
    let _ = fs::remove_dir_all(&world.folder);
    for (name, text) in &case.files {
        let path = world.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    world.log.lock().unwrap().clear();
    let mut command = Command::new(program);
    command
        .args(words)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", &world.folder)
        .env("KUBECONFIG", world.folder.join(case.files[0].0))
        .envs(
            case.variables
                .iter()
                .map(|(name, value)| (name, value.replace("{}", &folder))),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that reads nothing closes its end.
    let _ = stdin.write_all(b"word\n").await;
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    let reached = std::mem::take(&mut *world.log.lock().unwrap());
    let parts = reached
        .iter()
        .map(|entry| entry.trim().replace(corpus::FRESH, "FRESH"));
    let mut parts: Vec<String> = parts.collect();
    if !output.status.success() {
        parts.push("refused".to_owned());
    }
    (parts.join(", "), output)
}

/// The rows of the table of differences: the case, and the outcomes of kubectl and of us.
fn differences() -> BTreeMap<String, (String, String)> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/kubeconfigs.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = rows.map(|row| {
        row.split(" | ")
            .map(|cell| cell.trim_matches('`').to_owned())
            .collect::<Vec<_>>()
    });
    let rows = rows.filter(|cells| cells.len() == 4 && cells[0] != "kubeconfig");
    rows.map(|cells| (cells[0].clone(), (cells[1].clone(), cells[2].clone())))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: kubectl reads the same kubeconfigs"]
async fn kubeconfigs_are_read_as_kubectl_reads_them() {
    let built = Command::new("dev/sandbox/modules/build.sh")
        .arg("kubectl")
        .current_dir(ROOT)
        .output()
        .await
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let kubectl = String::from_utf8(built.stdout).unwrap();
    let compute = Path::new(env!("CARGO_BIN_EXE_kubectl-compute"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubeconfigs");
    let world = World::start(folder).await;
    let mut found = BTreeMap::new();
    let mut names = BTreeSet::new();
    for case in corpus::cases(&world) {
        assert!(names.insert(case.name), "{}", case.name);
        let words = ["get", "--raw", "/version", "--request-timeout=20s"];
        let (theirs, they) = outcome(&world, &case, Path::new(kubectl.trim()), &words).await;
        let words = ["workloads", "-o", "name", "--request-timeout=20s"];
        let (ours, we) = outcome(&world, &case, compute, &words).await;
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        if theirs != ours {
            let (they, we) = (said(&they), said(&we));
            eprintln!(
                "{}\n  kubectl: {theirs}\n{they}\n  kubectl compute: {ours}\n{we}",
                case.name
            );
            found.insert(case.name.to_owned(), (theirs, ours));
        }
    }
    assert_eq!(found, differences());
}
