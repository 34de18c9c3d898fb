//! What a federation gateway relies on in Karmada, held against everything that plays Karmada in this project.
//!
//! `scenarios/` holds requests and what must follow from them. Each scenario runs in a namespace of its own on the
//! simulator, and on a sandbox's hub and members: the stand-in's, or real Karmada's with `KARMADA_BIN_DIR` and
//! `KARMADA_MANIFESTS_DIR`. Where one differs, Karmada is right. The simulator has no members, so that scenarios that need them
//! are not run there; what the stand-in does not play runs on Karmada alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

mod run;
mod scenario;

use anyhow::Result;
use fedgate_api::keys;
use fedgate_kinds::FederatedKind;
use fedgate_sandbox::{HubControllers, Manifest, Options, Progress, Sandbox, User};
use fedgate_simulator::{
    Definition, Simulator,
    karmada::{Cluster, Karmada, KarmadaOptions},
};
use http::{Method, Request};
use kube::Client;
use run::{Side, run};
use scenario::Scenario;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// The members, and their cities.
const CELLS: [(&str, &str); 2] = [("dfw-1", "DFW"), ("lhr-1", "LHR")];

/// The definitions of the kinds that the scenarios use beside Kubernetes' and Karmada's.
const COMPUTE: &str = include_str!("../../manifests/crds/workloaddeployments.compute.datumapis.com.yaml");

/// Runs the scenarios one beside the other; answers what was not as they say.
async fn wrong(side: &Side, scenarios: &[Scenario]) -> Vec<String> {
    let runs = scenarios
        .iter()
        .enumerate()
        .map(|(at, scenario)| run(side, scenario, format!("scenario-{at}")));
    futures::future::join_all(runs)
        .await
        .into_iter()
        .flatten()
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simulator_acts_as_the_scenarios_say() {
    let simulator = Simulator::new(1);
    let hub = simulator.add("hub");
    let definition: Value = serde_saphyr::from_str(COMPUTE).unwrap();
    hub.define_all(&[Arc::new(Definition::parse(&definition))]);
    let clusters = CELLS.map(|(name, city)| Cluster::new(name, keys::CITY_CODE, city));
    let options = KarmadaOptions {
        clusters: clusters.into(),
        ..KarmadaOptions::default()
    };
    let _karmada = Karmada::attach(&hub, options);
    let client = Client::new(simulator.service("hub", "scenario"), "default");
    let side = Side::new(BTreeMap::from([("hub", client)]));
    let mut scenarios = Scenario::all();
    scenarios.retain(|scenario| !scenario.members);
    assert_eq!(wrong(&side, &scenarios).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hubs_controllers_act_as_the_scenarios_say() -> Result<()> {
    let hub_controllers = HubControllers::from_env()?;
    let real = matches!(hub_controllers, HubControllers::Karmada { .. });
    eprintln!("hub controllers: {hub_controllers}");
    let sandbox = Sandbox::up(Options {
        hub_controllers,
        manifests: Manifest::builtin()?,
        progress: Progress::new(|line| eprintln!("sandbox: {line}")),
        ..Options::new(
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("karmada"),
            env!("CARGO_BIN_EXE_fedgate-sandbox"),
        )
    })
    .await?;
    let mut clients = BTreeMap::from([("hub", sandbox.client("hub", User::Admin)?)]);
    for (cell, _) in CELLS {
        clients.insert(cell, sandbox.client(cell, User::Admin)?);
    }
    for kind in FederatedKind::builtin()? {
        let body = kind.interpreter_object();
        let path = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations";
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("content-type", "application/json");
        clients["hub"]
            .request::<Value>(request.body(body.to_string().into_bytes())?)
            .await?;
    }
    let mut scenarios = Scenario::all();
    scenarios.retain(|scenario| real || !scenario.karmada);
    let wrong = wrong(&Side::new(clients), &scenarios).await;
    sandbox.down().await?;
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}
