//! Words that a shell completes.

use crate::project::Project;
use fedgate_simulator::Down;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// The candidates, and the line that ends them.
fn candidates(stdout: &str) -> (Vec<&str>, &str) {
    let mut lines: Vec<&str> = stdout.lines().collect();
    let end = lines.pop().unwrap();
    (lines, end)
}

async fn shop() -> Project {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&["deploy", "web", "--image", "ghcr.io/acme/web:1", "--city", "DFW"])
        .await
        .ok();
    shop
}

#[tokio::test(flavor = "multi_thread")]
async fn live_names_are_listed_with_their_meaning() {
    let shop = shop().await;
    for (words, expected) in [
        (&["destroy", ""][..], "web\tacme/web:1, Unknown"),
        (&["instances", "describe", "web-"], "web-default-dfw-0\tAvailable"),
        (&["deploy", "web", "--city", "IAD,"], "IAD,DFW"),
        (&["scale", "web", "--placement", ""], "default"),
        (&["status", "--context", "sh"], "shop"),
    ] {
        let seen = shop.run(&[&["__complete"], words].concat()).await.ok();
        assert_eq!(candidates(&seen.stdout), (vec![expected], ":4"), "{words:?}");
        assert_eq!(seen.stderr, "");
    }
    let seen = shop
        .run(&["__complete", "rollout", "undo", "web", "--to-revision", ""])
        .await;
    assert!(seen.stdout.starts_with("1\tacme/web:1, "), "{}", seen.stdout);
    let seen = shop.run(&["__complete", "deploy", "-f", ""]).await;
    assert_eq!(seen.stdout, ":0\n", "files");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_does_not_answer_gives_an_empty_list_in_time() {
    let shop = shop().await;
    let seen = shop.elsewhere(&["version"]).await;
    assert_ne!(seen.code, 0);
    let seen = shop
        .run(&["__complete", "--context", "elsewhere", "destroy", ""])
        .await
        .ok();
    assert_eq!((&*seen.stdout, &*seen.stderr), (":4\n", ""));
    shop.plane.set_down(Some(Down::BlackHole));
    let begun = Instant::now();
    let seen = shop.run(&["__complete", "destroy", ""]).await.ok();
    assert_eq!((&*seen.stdout, &*seen.stderr), (":4\n", ""));
    // The limit is two seconds; this only tells an answer from a wait for the time of a request.
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_asks_by_another_name_and_bash_by_its_script() {
    let shop = shop().await;
    let folder = shop.folder();
    let exe = env!("CARGO_BIN_EXE_kubectl-compute");
    for name in ["kubectl_complete-compute", "kubectl-compute"] {
        std::os::unix::fs::symlink(exe, folder.join(name)).unwrap();
    }
    let mut kubectl = Command::new(folder.join("kubectl_complete-compute"));
    kubectl
        .args(["destroy", "w"])
        .env("KUBECONFIG", shop.kubeconfig());
    let answer = kubectl.output().await.unwrap();
    assert_eq!(
        String::from_utf8(answer.stdout).unwrap(),
        "web\tacme/web:1, Unknown\n:4\n"
    );
    let script = "PATH=\"$FOLDER:$PATH\"
        source <(kubectl-compute completion bash)
        COMP_LINE='kubectl-compute scale web --placement=d' COMP_POINT=39
        _kubectl_compute && printf '%s|' \"${COMPREPLY[@]}\"
        COMP_LINE='kubectl-compute rollout ' COMP_POINT=24
        _kubectl_compute && printf '%s|' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .env("KUBECONFIG", shop.kubeconfig())
        .env("FOLDER", folder);
    let seen = bash.output().await.unwrap();
    assert_eq!(
        String::from_utf8(seen.stdout).unwrap(),
        "default|status|history|undo|restart|pause|resume|web|",
        "{}",
        String::from_utf8_lossy(&seen.stderr)
    );
}
