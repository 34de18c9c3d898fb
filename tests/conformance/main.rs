//! The simulator against a real kube-apiserver: the same requests, the same outcomes.
//!
//! `scenarios/` holds lists of requests. Each scenario runs in a namespace of its own, on both planes; what comes back
//! is compared once versions, UIDs and times are replaced by marks. Where the two differ, the real one is right.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

mod normal;
mod run;
mod scenario;

use anyhow::Result;
use fedgate_sandbox::{HubControllers, Manifest, Options, PlaneRole, Progress, Sandbox, User};
use fedgate_simulator::{Definition, Simulator};
use run::Side;
use scenario::Scenario;
use serde_json::Value;
use std::{fmt::Write as _, path::Path, sync::Arc};

/// The definition of the kind that the scenarios use beside built-in ones.
const GADGET: &str = include_str!("gadget.yaml");

/// A real plane with its controllers, and the kind.
async fn real() -> Result<Sandbox> {
    let options = Options {
        projects: vec!["alpha".to_owned()],
        cells: Vec::new(),
        hub_controllers: HubControllers::Nobody,
        manifests: vec![Manifest {
            plane: PlaneRole::Project,
            yaml: GADGET.to_owned(),
        }],
        progress: Progress::new(|line| eprintln!("sandbox: {line}")),
        ..Options::new(
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance"),
            env!("CARGO_BIN_EXE_fedgate-sandbox"),
        )
    };
    Sandbox::up(options).await
}

/// The same, simulated.
fn simulated() -> Result<Side> {
    let simulator = Simulator::new(1);
    let plane = simulator.add("p");
    let crd: Value = serde_saphyr::from_str(GADGET)?;
    plane.define_all(&[Arc::new(Definition::parse(&crd))]);
    let client = kube::Client::new(simulator.service("p", "conformance"), "default");
    Ok(Side {
        client,
        plane: Some(plane),
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: all scenarios on a real plane"]
async fn the_simulator_answers_as_a_real_api_server() -> Result<()> {
    let only = std::env::var("FEDGATE_CONFORMANCE_ONLY").unwrap_or_default();
    let mut scenarios = Scenario::all();
    scenarios.retain(|scenario| scenario.name.contains(&only));
    let sandbox = real().await?;
    let real = Side {
        client: sandbox.client("alpha", User::Admin)?,
        plane: None,
    };
    let simulated = simulated()?;
    let mut wrong = String::new();
    for (at, scenario) in scenarios.iter().enumerate() {
        let namespace = format!("c-{at}");
        let (expected, found) = tokio::join!(
            run::run(&real, scenario, &namespace),
            run::run(&simulated, scenario, &namespace)
        );
        for (step, (expected, found)) in scenario.steps.iter().zip(expected.iter().zip(&found)) {
            if expected != found {
                writeln!(
                    wrong,
                    "\n{}: {}\n  real      {expected}\n  simulated {found}",
                    scenario.name,
                    step.words()
                )?;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    sandbox.down().await?;
    Ok(())
}
