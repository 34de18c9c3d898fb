//! A command that is killed after any of its writes: the same command, run again, ends in the state of one that nobody has
//! disturbed. A kill elsewhere leaves the state that one after the write before it leaves.

use crate::world::{NAME, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PUSH: &[&str] = &[
    "join",
    NAME,
    "--city",
    "IAD",
    "--agent-image-cell",
    "registry.example.com/fedgate:1",
];
const PULL: &[&str] = &[
    "join",
    NAME,
    "--city",
    "IAD",
    "--mode",
    "pull",
    "--agent-image",
    "registry.example.com/karmada-agent:1",
    "--agent-image-cell",
    "registry.example.com/fedgate:1",
];
const LEAVE: &[&str] = &["leave", NAME];

/// The writes after which a command is killed: each in a whole run, as `make verify` asks for, else every sixth.
fn kills<T>(writes: Vec<T>) -> impl Iterator<Item = T> {
    let is_whole = std::env::var_os("FEDGATE_PROVE_WHOLE").is_some();
    writes.into_iter().step_by(if is_whole { 1 } else { 6 })
}

async fn killed_joins(join: &[&str]) {
    let calm = World::new().await;
    calm.done(join, true).await;
    let writes = calm.writes(0);
    // What others do of themselves after the last write of the command.
    let joined = rested(&calm).await;
    assert!(writes.len() > 20, "{:#?}", calm.written(0));
    let again = calm.simulator.log().next();
    calm.done(join, true).await;
    assert_eq!(calm.written(again), [""; 0]);
    for n in kills(writes) {
        let world = World::new().await;
        world.killed_at(join, true, n).await;
        world.done(join, true).await;
        world.becomes(&joined, &format!("killed after request {n}")).await;
    }
}

/// The state when the agent, if there is to be one, has its Lease.
async fn rested(world: &World) -> BTreeMap<String, Value> {
    let lease = format!("karmada-agent-{NAME}");
    if world
        .member
        .get("Deployment", "karmada-system", "karmada-agent")
        .is_some()
    {
        world
            .sees(&world.hub, "Lease", "karmada-system", &lease, |lease| {
                lease.is_some()
            })
            .await;
    }
    world.state()
}

/// A cell that has joined and to which something is delivered.
async fn joined(join: &[&str]) -> World {
    let world = World::new().await;
    world.done(join, true).await;
    if join == PULL {
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": "web", "namespace": format!("karmada-es-{NAME}"),
                "finalizers": ["karmada.io/execution-controller"]}});
        world.hub.create(work).unwrap();
        rested(&world).await;
    }
    world
}

async fn killed_leaves(join: &[&str], with_cell: bool) {
    let calm = joined(join).await;
    let begin = calm.simulator.log().next();
    calm.done(LEAVE, with_cell).await;
    let writes = calm.writes(begin);
    let left = calm.state();
    assert!(writes.len() > 1, "{:#?}", calm.written(begin));
    if with_cell {
        let of_cell = left.iter().filter(|(key, object)| {
            key.contains(NAME) || object["metadata"]["labels"]["fedgate.dev/made-by"].is_string()
        });
        let rest: Vec<&String> = of_cell.map(|(key, _)| key).collect();
        assert_eq!(rest, [""; 0]);
    }
    let again = calm.simulator.log().next();
    calm.done(LEAVE, with_cell).await;
    assert_eq!(calm.written(again), [""; 0]);
    for n in kills(writes) {
        let world = joined(join).await;
        world.killed_at(LEAVE, with_cell, n).await;
        world.done(LEAVE, with_cell).await;
        world.becomes(&left, &format!("killed after request {n}")).await;
    }
}

#[tokio::test]
async fn a_join_by_push_is_killed_after_each_write() {
    killed_joins(PUSH).await;
}

#[tokio::test]
async fn a_join_by_pull_is_killed_after_each_write() {
    killed_joins(PULL).await;
}

#[tokio::test]
async fn a_leave_of_a_pushed_cell_is_killed_after_each_write() {
    killed_leaves(PUSH, true).await;
}

#[tokio::test]
async fn a_leave_of_a_pulling_cell_is_killed_after_each_write() {
    killed_leaves(PULL, true).await;
}

#[tokio::test]
async fn a_leave_without_the_cells_kubeconfig_is_killed_after_each_write() {
    killed_leaves(PUSH, false).await;
    killed_leaves(PULL, false).await;
}
