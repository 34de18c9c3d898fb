//! What a federation gateway relies on in Karmada, held against everything that plays Karmada in this project.
//!
//! `scenarios/` holds requests and what must follow from them. Each scenario runs in a namespace of its own on the
//! simulator, and on a sandbox's hub and members: the stand-in's, or real Karmada's with `KARMADA_BIN_DIR` and
//! `KARMADA_MANIFESTS_DIR`. Where one differs, Karmada is right. The simulator has no interpreters, so that scenarios that need
//! them are not run there.

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
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// The members, and their cities.
const CELLS: [(&str, &str); 2] = [("dfw-1", "DFW"), ("lhr-1", "LHR")];

/// The definitions of the kinds that the scenarios use beside Kubernetes' and Karmada's.
const COMPUTE: &str = include_str!("../../manifests/crds/workloaddeployments.compute.datumapis.com.yaml");

/// Groups of two kinds with one name, and the members that serve each.
const GADGETS: [(&str, &[&str]); 2] = [("one", &["dfw-1", "lhr-1"]), ("two", &["lhr-1"])];

/// The definition of a Gadget.
fn gadget(group: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}.example.dev")},
        "spec": {
            "group": format!("{group}.example.dev"), "scope": "Namespaced",
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    })
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<()> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("content-type", "application/json");
    client
        .request::<Value>(request.body(body.to_string().into_bytes())?)
        .await?;
    Ok(())
}

/// Defines the Gadgets on the hub and at members, and waits until the Clusters report them: before that Karmada schedules
/// none there.
async fn define_gadgets(clients: &BTreeMap<&'static str, Client>) -> Result<()> {
    for (group, cells) in GADGETS {
        for plane in cells.iter().chain(&["hub"]) {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            post(&clients[plane], path, &gadget(group)).await?;
        }
        for cell in cells {
            let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cell}");
            let word = format!("\"{group}.example.dev/v1\"");
            loop {
                let request = Request::get(&path).body(Vec::new())?;
                let cluster: Value = clients["hub"].request(request).await?;
                if cluster["status"]["apiEnablements"].to_string().contains(&word) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
    }
    Ok(())
}

/// Lets the administrator use the proxy of Clusters. His group may do so anyway, but Karmada lets nobody act at members whom no
/// role of that names.
async fn grant_proxy(hub: &Client) -> Result<()> {
    let api = "rbac.authorization.k8s.io";
    let path = format!("/apis/{api}/v1");
    let metadata = json!({"name": "scenarios-proxy"});
    let rule =
        json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["get"]});
    let rights = json!({"metadata": metadata, "rules": [rule]});
    post(hub, &format!("{path}/clusterroles"), &rights).await?;
    let named = |kind: &str, name: &str| json!({"apiGroup": api, "kind": kind, "name": name});
    let binding = json!({"metadata": metadata, "roleRef": named("ClusterRole", "scenarios-proxy"),
        "subjects": [named("User", "admin"), named("Group", "system:masters")]});
    post(hub, &format!("{path}/clusterrolebindings"), &binding).await
}

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
    let karmada = Karmada::attach(&hub, options);
    hub.define(&gadget("one"));
    hub.define(&gadget("two"));
    for (cell, _) in CELLS {
        let member = simulator.add(cell);
        for group in GADGETS.iter().filter(|(_, cells)| cells.contains(&cell)) {
            member.define(&gadget(group.0));
        }
        karmada.member(cell, &member);
    }
    let planes = ["hub", "dfw-1", "lhr-1"];
    let clients = planes.map(|plane| {
        (
            plane,
            Client::new(simulator.service(plane, "scenario"), "default"),
        )
    });
    let side = Side::new(BTreeMap::from(clients));
    let mut scenarios = Scenario::all();
    scenarios.retain(|scenario| !scenario.interpreters);
    assert_eq!(wrong(&side, &scenarios).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: all scenarios on real planes"]
async fn the_hubs_controllers_act_as_the_scenarios_say() -> Result<()> {
    let hub_controllers = HubControllers::from_env()?;
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
        let path = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations";
        post(&clients["hub"], path, &kind.interpreter_object()).await?;
    }
    grant_proxy(&clients["hub"]).await?;
    define_gadgets(&clients).await?;
    let wrong = wrong(&Side::new(clients), &Scenario::all()).await;
    sandbox.down().await?;
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}
