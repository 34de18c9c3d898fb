//! A hub and a cell, those who act on them, and the commands of an administrator.

use crate::{
    players::Players,
    server::{Authority, Server},
};
use clap::Parser;
use fedgate::commands::Command;
use fedgate_api::crd;
use fedgate_operator::membership;
use fedgate_simulator::{Entry, Plane, Simulator, Verb};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinHandle, time::timeout};

pub(crate) const NAME: &str = "iad-1";
const ADMIN: &str = "admin";
/// So long something may take that comes at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// Group, version, name, plural, whether namespaced, and whether its status is apart.
type Kind = (&'static str, &'static str, &'static str, &'static str, bool, bool);

const KINDS: [Kind; 22] = [
    ("", "v1", "ServiceAccount", "serviceaccounts", true, false),
    ("apps", "v1", "Deployment", "deployments", true, true),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true, false),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        true,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        false,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
        false,
    ),
    (
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        true,
        false,
    ),
    (
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        true,
        true,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        false,
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        false,
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
        true,
    ),
    (
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        false,
        true,
    ),
    (
        "cluster.karmada.io",
        "v1alpha1",
        "Cluster",
        "clusters",
        false,
        true,
    ),
    ("work.karmada.io", "v1alpha1", "Work", "works", true, true),
    (
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
        "resourcebindings",
        true,
        true,
    ),
    (
        "work.karmada.io",
        "v1alpha2",
        "ClusterResourceBinding",
        "clusterresourcebindings",
        false,
        true,
    ),
    // The built-in ones.
    ("", "v1", "Namespace", "", false, false),
    ("", "v1", "Secret", "", true, false),
    ("", "v1", "ConfigMap", "", true, false),
    ("coordination.k8s.io", "v1", "Lease", "", true, false),
    ("compute.datumapis.com", "v1alpha", "Instance", "", true, false),
    (
        "compute.datumapis.com",
        "v1alpha",
        "WorkloadDeployment",
        "",
        true,
        false,
    ),
];

pub(crate) fn base64(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

pub(crate) fn decoded(value: &Value) -> Option<String> {
    let ByteString(bytes) = serde_json::from_value(value.clone()).ok()?;
    String::from_utf8(bytes).ok()
}

/// See the module.
pub(crate) struct World {
    pub(crate) simulator: Simulator,
    pub(crate) hub: Plane,
    pub(crate) member: Plane,
    /// A hub that the cell is not joined to.
    pub(crate) other_hub: Plane,
    /// Of hub, member and the other hub.
    kubeconfigs: [PathBuf; 3],
    address: String,
    _server: Server,
    players: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.players.abort();
    }
}

impl World {
    /// Empty planes; all worlds are alike.
    pub(crate) async fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let simulator = Simulator::new(1);
        let names = ["hub", "member", "other-hub"];
        let [hub, member, other_hub] = names.map(|name| {
            let plane = simulator.add(name);
            for (group, version, kind, plural, namespaced, status) in KINDS {
                if !plural.is_empty() {
                    plane.define_plain(group, version, kind, plural, namespaced, status);
                }
            }
            crd::all().unwrap().iter().for_each(|crd| plane.define(crd));
            plane
        });
        let authority = Arc::new(Authority::new());
        let server = Server::start(&simulator, &authority).await;
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!(
            "membership-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&dir).unwrap();
        let kubeconfigs = names.map(|plane| {
            let path = dir.join(format!("{plane}.yaml"));
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": plane,
                "contexts": [{"name": plane, "context": {"cluster": plane, "user": ADMIN}}],
                "clusters": [{"name": plane, "cluster": {
                    "server": format!("https://{}/planes/{plane}", server.address),
                    "certificate-authority-data": base64(&authority.pem())}}],
                "users": [{"name": ADMIN, "user": {"token": ADMIN}}],
            });
            std::fs::write(&path, config.to_string()).unwrap();
            path
        });
        let players = Players {
            hub: hub.clone(),
            member: member.clone(),
            authority,
        };
        Self {
            players: tokio::spawn(players.play()),
            simulator,
            hub,
            member,
            other_hub,
            kubeconfigs,
            address: server.address.to_string(),
            _server: server,
        }
    }

    /// Runs `fedgate cells` with these words and both kubeconfigs.
    pub(crate) async fn run(&self, words: &[&str]) -> ExitCode {
        let cell = ["--cell-kubeconfig", self.kubeconfigs[1].to_str().unwrap()];
        self.run_on_hub(&[words, &cell].concat()).await
    }

    /// The same with the other hub.
    pub(crate) async fn run_on_other_hub(&self, words: &[&str]) -> ExitCode {
        let cell = ["--cell-kubeconfig", self.kubeconfigs[1].to_str().unwrap()];
        self.run_at(2, &[words, &cell].concat()).await
    }

    /// The same without the cell's.
    pub(crate) async fn run_on_hub(&self, words: &[&str]) -> ExitCode {
        self.run_at(0, words).await
    }

    /// Runs `fedgate projects` with these words, and the member as the project.
    pub(crate) async fn run_for_project(&self, words: &[&str]) -> ExitCode {
        let project = ["--project-kubeconfig", self.kubeconfigs[1].to_str().unwrap()];
        let hub = ["--hub-kubeconfig", self.kubeconfigs[0].to_str().unwrap()];
        let line = [&["fedgate", "projects"], words, &project, &hub].concat();
        let Command::Projects(command) = Command::try_parse_from(line).unwrap() else {
            panic!("it is a command about projects");
        };
        Box::pin(membership::projects(&command)).await
    }

    async fn run_at(&self, hub: usize, words: &[&str]) -> ExitCode {
        let hub = ["--hub-kubeconfig", self.kubeconfigs[hub].to_str().unwrap()];
        let line = [&["fedgate", "cells"], words, &hub].concat();
        let Command::Cells(command) = Command::try_parse_from(line).unwrap() else {
            panic!("it is a command about cells");
        };
        Box::pin(membership::cells(&command)).await
    }

    /// Runs a command that ends well.
    pub(crate) async fn done(&self, words: &[&str], with_cell: bool) {
        let exit = if with_cell {
            self.run(words).await
        } else {
            self.run_on_hub(words).await
        };
        assert_eq!(exit, ExitCode::SUCCESS, "{words:?}");
    }

    /// Runs a command until its n-th request is applied. Its answer is not heard, and nothing follows it.
    pub(crate) async fn killed_at(&self, words: &[&str], with_cell: bool, n: u64) {
        let faults = self.simulator.faults();
        faults.stop_at(ADMIN, n, true);
        tokio::select! {
            biased;
            () = faults.stopped() => {}
            () = self.done(words, with_cell) => panic!("{words:?} ends before request {n}"),
        }
        faults.clear();
    }

    /// The administrator's requests since an entry of the log.
    fn asked(&self, since: u64) -> impl Iterator<Item = Entry> {
        let entries = self.simulator.log().since(since).into_iter();
        entries.filter(|entry| &*entry.user == ADMIN && entry.verb != Verb::Watch)
    }

    /// The numbers, counted from 1, of those requests since an entry that changed something.
    pub(crate) fn writes(&self, since: u64) -> Vec<u64> {
        let numbered = (1..).zip(self.asked(since));
        let writes = numbered.filter(|(_, entry)| entry.changed);
        writes.map(|(number, _)| number).collect()
    }

    /// The same, for people.
    pub(crate) fn written(&self, since: u64) -> Vec<String> {
        let writes = self.asked(since).filter(|entry| entry.changed);
        writes.map(|entry| entry.to_string()).collect()
    }

    /// Everything that is there, but for what each run draws anew.
    pub(crate) fn state(&self) -> BTreeMap<String, Value> {
        let mut state = BTreeMap::new();
        for plane in [&self.hub, &self.member] {
            for (_, _, kind, ..) in KINDS {
                for object in plane.list(kind) {
                    let text = object.to_string().replace(&self.address, "127.0.0.1:6443");
                    let object = settled(kind, serde_json::from_str(&text).unwrap());
                    let metadata = &object["metadata"];
                    let (namespace, name) = (&metadata["namespace"], &metadata["name"]);
                    let mut key = format!("{} {kind} {namespace} {name}", plane.name());
                    // Two requests for certificates have one name here.
                    while state.contains_key(&key) {
                        key.push('+');
                    }
                    state.insert(key, object);
                }
            }
        }
        state
    }

    /// Waits until the state is this: others go on when a command has ended.
    pub(crate) async fn becomes(&self, wanted: &BTreeMap<String, Value>, what: &str) {
        let (mut hub, mut member) = (self.hub.changed(), self.member.changed());
        let reached = timeout(PATIENCE, async {
            while self.state() != *wanted {
                tokio::select! {
                    changed = hub.changed() => changed.unwrap(),
                    changed = member.changed() => changed.unwrap(),
                }
            }
        });
        if reached.await.is_err() {
            let state = self.state();
            let only = |a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>| {
                let differs = a.iter().filter(|(key, value)| b.get(*key) != Some(value));
                differs
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect::<Vec<_>>()
            };
            panic!(
                "{what}: too much {:#?}, missing {:#?}",
                only(&state, wanted),
                only(wanted, &state)
            );
        }
    }

    /// Waits until an object passes a test, which gets its absence, too.
    pub(crate) async fn sees(
        &self,
        plane: &Plane,
        kind: &str,
        namespace: &str,
        name: &str,
        test: impl Fn(Option<&Value>) -> bool,
    ) {
        let mut changed = plane.changed();
        let seen = timeout(PATIENCE, async {
            while !test(plane.get(kind, namespace, name).as_deref()) {
                changed.changed().await.unwrap();
            }
        });
        assert!(
            seen.await.is_ok(),
            "{kind} {namespace}/{name}: {:?}",
            plane.get(kind, namespace, name)
        );
    }
}

/// An object without what each run draws anew: versions, times, keys and what they sign.
fn settled(kind: &str, mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
    ] {
        metadata.remove(key);
    }
    for owner in metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        owner["uid"] = Value::Null;
    }
    if kind == "Secret"
        && let Some(data) = object["data"].as_object_mut()
    {
        data.values_mut().for_each(|value| *value = Value::Null);
    }
    if kind == "CertificateSigningRequest" {
        object["metadata"]["name"] = json!("of the agent");
        object["spec"]["request"] = Value::Null;
        object["status"]["certificate"] = Value::Null;
    }
    object
}
