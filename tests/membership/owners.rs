//! Objects of a plane that another tool owns.

use crate::world::{NAME, World};
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::process::ExitCode;

const JOIN: &[&str] = &["join", NAME, "--city", "IAD"];
const ADD: &[&str] = &["add", "alpha"];
const CRD: &str = "CustomResourceDefinition";
const INSTANCES: &str = "instances.compute.datumapis.com";

/// Another tool's definition of Instances, in another version.
fn foreign_crd(plane: &Plane) -> Value {
    let spec = json!({"group": "compute.datumapis.com", "scope": "Namespaced", "names": {"plural": "instances"},
        "versions": [{"name": "v1alpha", "served": true, "storage": true}]});
    let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD, "metadata": {"name": INSTANCES},
        "spec": spec});
    plane.create(object).unwrap()
}

#[tokio::test]
async fn a_dry_run_ends_with_the_conflict_that_the_run_would_meet() {
    let world = World::new().await;
    foreign_crd(&world.member);
    let before = world.state();
    let dry = |words: &[&'static str]| [words, &["--dry-run"]].concat();
    let conflict = ExitCode::from(5);
    assert_eq!(world.run_for_project(&dry(ADD)).await, conflict);
    assert_eq!(world.run(&dry(JOIN)).await, conflict);
    assert_eq!(world.state(), before);
    assert_eq!(world.run_for_project(ADD).await, conflict);
    assert_eq!(world.run(JOIN).await, conflict);
}

#[tokio::test]
async fn definitions_of_another_tool_are_left_alone() {
    // A cell is no project.
    for words in [JOIN, ADD] {
        let world = World::new().await;
        let foreign = foreign_crd(&world.member);
        // The Secrets of projects are in it.
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fedgate-system"}});
        world.hub.create(namespace).unwrap();
        let skipping = [words, &["--skip-crds"]].concat();
        let ended = if words == JOIN {
            world.run(&skipping).await
        } else {
            world.run_for_project(&skipping).await
        };
        assert_eq!(ended, ExitCode::SUCCESS);
        let crds = world.member.list(CRD);
        assert_eq!(crds.len(), 1, "{crds:?}");
        assert_eq!(*crds[0], foreign);
        let roles = world.member.list("ClusterRole");
        assert!(!roles.is_empty(), "the rest is there");
    }
}
