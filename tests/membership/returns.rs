//! A cluster that joins while Kubernetes still ends what its leave has deleted.

use crate::world::{NAME, World};
use fedgate_simulator::Controllers;
use std::{process::ExitCode, time::Duration};

const PUSH: &[&str] = &["join", NAME, "--city", "IAD"];
const PULL: &[&str] = &[
    "join",
    NAME,
    "--city",
    "IAD",
    "--mode",
    "pull",
    "--agent-image",
    "registry.example.com/agent:1",
];

async fn comes_back(join: &[&str], namespaces: &[&str]) {
    let world = World::new().await;
    world.done(join, true).await;
    let joined = world.state();
    // Long enough that a join that does not wait runs into it.
    for plane in [&world.hub, &world.member] {
        plane.controllers(Controllers::After(Duration::from_millis(700)));
    }
    world.done(&["leave", NAME], true).await;
    for namespace in namespaces {
        let ending = world.member.get("Namespace", "", namespace).unwrap();
        assert!(ending["metadata"]["deletionTimestamp"].is_string(), "{ending}");
    }
    world.done(join, true).await;
    world.becomes(&joined, "joined again").await;
    // Nothing that the join has made goes with what was there before.
    for plane in [&world.hub, &world.member] {
        plane.controllers(Controllers::AtOnce);
    }
    world.becomes(&joined, "it stays so").await;
}

#[tokio::test]
async fn a_join_by_push_waits_for_the_end_of_the_last_one() {
    comes_back(PUSH, &["fedgate-system", "karmada-cluster"]).await;
}

#[tokio::test]
async fn a_join_by_pull_waits_for_the_end_of_the_last_one() {
    comes_back(PULL, &["fedgate-system", "karmada-cluster", "karmada-system"]).await;
}

#[tokio::test]
async fn a_join_says_what_does_not_end() {
    let world = World::new().await;
    world.done(PUSH, true).await;
    world.member.controllers(Controllers::Off);
    world.done(&["leave", NAME], true).await;
    let hasty = [PUSH, &["--wait", "100ms"]].concat();
    assert_eq!(world.run(&hasty).await, ExitCode::from(8));
    // A preview does not wait.
    let preview = [PUSH, &["--dry-run"]].concat();
    world.done(&preview, true).await;
}
