//! Hub and projects of one run, what is in them, and the kubeconfigs by which the gateway finds them.

use super::{
    objects,
    serve::{Address, serve},
};
use anyhow::{Context, Result, ensure};
use fedgate::api::{keys, names::ProjectKey};
use fedgate_simulator::{Entry, Plane, Simulator, Verb};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// The namespace of each project in which its deployments are.
pub(crate) const NAMESPACE: &str = "production";

/// A kind of the planes.
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    name: &'static str,
    pub(crate) plural: &'static str,
    namespaced: bool,
    hub: bool,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
    namespaced: bool,
    hub: bool,
) -> Kind {
    Kind {
        group,
        version,
        name,
        plural,
        namespaced,
        hub,
    }
}

const COMPUTE: &str = "compute.datumapis.com";
const POLICY: &str = "policy.karmada.io";

/// The kinds that are not built in; those of the hub alone are marked.
pub(crate) const KINDS: [Kind; 8] = [
    kind(COMPUTE, "v1alpha", "Workload", "workloads", true, false),
    kind(
        COMPUTE,
        "v1alpha",
        "WorkloadDeployment",
        "workloaddeployments",
        true,
        false,
    ),
    kind(COMPUTE, "v1alpha", "Instance", "instances", true, false),
    kind(
        POLICY,
        "v1alpha1",
        "ClusterPropagationPolicy",
        "clusterpropagationpolicies",
        false,
        true,
    ),
    kind(
        POLICY,
        "v1alpha1",
        "PropagationPolicy",
        "propagationpolicies",
        true,
        true,
    ),
    kind(
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
        "resourcebindings",
        true,
        true,
    ),
    kind(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
        false,
        true,
    ),
    kind(
        "cluster.karmada.io",
        "v1alpha1",
        "Cluster",
        "clusters",
        false,
        true,
    ),
];

/// Watches of a project that does nothing: Namespaces, Workloads, deployments, Instances.
pub(crate) const WATCHES: usize = 4;

/// All planes of a run.
pub(crate) struct Planes {
    simulator: Simulator,
    pub(crate) hub: Plane,
    pub(crate) projects: Vec<Plane>,
    address: Address,
    dir: PathBuf,
}

fn add(simulator: &Simulator, name: &str, hub: bool) -> Plane {
    let plane = simulator.add(name);
    for kind in KINDS.iter().filter(|kind| hub || !kind.hub) {
        plane.define_plain(
            kind.group,
            kind.version,
            kind.name,
            kind.plural,
            kind.namespaced,
            true,
        );
    }
    plane
}

fn failed(status: impl std::fmt::Debug) -> anyhow::Error {
    anyhow::anyhow!("the simulator refuses: {status:?}")
}

impl Planes {
    /// A hub without projects.
    pub(crate) async fn up(dir: &Path) -> Result<Self> {
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        std::fs::create_dir_all(dir.join("projects"))?;
        let simulator = Simulator::new(1);
        let hub = add(&simulator, "hub", true);
        let mut policy = objects::marked_policy();
        policy["apiVersion"] = json!("policy.karmada.io/v1alpha1");
        policy["kind"] = json!("ClusterPropagationPolicy");
        hub.create(policy).map_err(failed)?;
        // Where the gateway keeps its Lease.
        let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fedgate-system"}});
        hub.create(own).map_err(failed)?;
        let address = serve(&simulator).await?;
        let planes = Self {
            simulator,
            hub,
            projects: Vec::new(),
            address,
            dir: dir.to_owned(),
        };
        planes.kubeconfig("hub", &planes.hub_kubeconfig())?;
        Ok(planes)
    }

    pub(crate) fn hub_kubeconfig(&self) -> PathBuf {
        self.dir.join("hub.yaml")
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.dir.join("projects")
    }

    /// A kubeconfig is JSON as well as YAML.
    fn kubeconfig(&self, plane: &str, path: &Path) -> Result<()> {
        let authority = path.with_extension("pem");
        let authority = self.dir.join(authority.file_name().unwrap_or_default());
        if !authority.exists() {
            std::fs::write(&authority, &self.address.authority)?;
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}/planes/{plane}", self.address.at),
                "certificate-authority": authority,
            }}],
            "users": [{"name": "u", "user": {"token": "fedgate-gateway"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(path, config.to_string()).with_context(|| format!("write {}", path.display()))?;
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, own).with_context(|| format!("protect {}", path.display()))
    }

    /// More projects, up to this many; the gateway sees their files.
    pub(crate) fn grow(&mut self, count: usize) -> Result<()> {
        while self.projects.len() < count {
            let name = format!("p-{:05}", self.projects.len());
            let plane = add(&self.simulator, &name, false);
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
            plane.create(namespace).map_err(failed)?;
            self.kubeconfig(&name, &self.directory().join(format!("{name}.yaml")))?;
            self.projects.push(plane);
        }
        Ok(())
    }

    /// Until every project is watched.
    pub(crate) async fn watched(&self) -> Result<()> {
        let watched = |plane: &Plane| plane.requests(Verb::Watch) >= WATCHES as u64;
        until("every project is watched", || self.projects.iter().all(watched)).await
    }

    /// A tenant creates a deployment.
    pub(crate) fn deploy(&self, project: usize, name: &str) -> Result<()> {
        let mut object = objects::deployment(name, "DFW", None);
        object["apiVersion"] = json!("compute.datumapis.com/v1alpha");
        object["kind"] = json!("WorkloadDeployment");
        object["metadata"]["namespace"] = json!(NAMESPACE);
        self.projects[project].create(object).map_err(failed)?;
        Ok(())
    }

    /// How many copies the hub has.
    pub(crate) fn copies(&self) -> usize {
        self.hub.list("workloaddeployments").len()
    }

    /// Karmada binds and reports every copy that it has not bound yet.
    pub(crate) fn bind(&self) -> Result<()> {
        for copy in self.hub.list("workloaddeployments") {
            let meta = &copy["metadata"];
            let text = |field: &str| meta[field].as_str().unwrap_or_default();
            let (namespace, name) = (text("namespace"), text("name"));
            let bound = objects::binding_name(name);
            if self.hub.get("resourcebindings", namespace, &bound).is_some() {
                continue;
            }
            let (mut binding, status) = objects::binding(namespace, name, text("uid"));
            binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
            binding["kind"] = json!("ResourceBinding");
            binding["metadata"]["namespace"] = json!(namespace);
            self.hub.create(binding).map_err(failed)?;
            let patch = |kind, name: &str, status: Value| {
                self.hub
                    .merge_status(kind, namespace, name, json!({"status": status}))
            };
            patch("resourcebindings", &bound, status).map_err(failed)?;
            patch("workloaddeployments", name, objects::report(1)).map_err(failed)?;
        }
        Ok(())
    }

    /// The cell writes back so many Instances for every copy.
    pub(crate) fn write_back(&self, each: usize) -> Result<usize> {
        let mut count = 0;
        for copy in self.hub.list("workloaddeployments") {
            let meta = &copy["metadata"];
            let text = |field: &str| meta[field].as_str().unwrap_or_default();
            let namespace = text("namespace");
            let owner = self
                .hub
                .get("namespaces", "", namespace)
                .context("a copy has no Namespace")?;
            let cluster = owner["metadata"]["labels"][keys::UPSTREAM_CLUSTER]
                .as_str()
                .unwrap_or_default();
            let key = ProjectKey::parse(cluster.strip_prefix("cluster-").unwrap_or_default())?;
            for number in 0..each {
                let name = format!("{}-{number}", text("name"));
                let mut object = objects::write_back(&key, NAMESPACE, text("name"), text("uid"), &name);
                object["apiVersion"] = json!("compute.datumapis.com/v1alpha");
                object["kind"] = json!("Instance");
                object["metadata"]["namespace"] = json!(namespace);
                self.hub.create(object).map_err(failed)?;
                let status = json!({"status": objects::instance_status(true)});
                self.hub
                    .merge_status("instances", namespace, &name, status)
                    .map_err(failed)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// How many projections there are.
    pub(crate) fn projections(&self) -> usize {
        self.projects.iter().map(|p| p.list("instances").len()).sum()
    }

    /// Every watch ends, and what it would go on from is gone: all is listed anew.
    pub(crate) fn force_lists(&self) {
        for plane in self.projects.iter().chain([&self.hub]) {
            plane.compact();
            plane.close_watches(None);
        }
    }

    /// Forgets what was asked so far.
    pub(crate) fn forget_requests(&self) {
        self.simulator.log().clear();
    }

    /// The gateway's requests of these verbs since then, its Lease and its Events left out.
    pub(crate) fn requests(&self, chosen: impl Fn(Verb) -> bool) -> Vec<Entry> {
        let mut entries = self.simulator.log().entries();
        entries.retain(|e| chosen(e.verb) && !matches!(&*e.resource, "leases" | "events"));
        entries
    }

    /// Until nothing has been written for three seconds.
    pub(crate) async fn quiet(&self) -> Result<()> {
        let writes = || -> u64 {
            let planes = self.projects.iter().chain([&self.hub]);
            planes.map(Plane::writes).sum()
        };
        let lease = || self.requests(Verb::writes).len();
        let end = Instant::now() + Duration::from_secs(300);
        let mut before = (lease(), Instant::now());
        while before.1.elapsed() < Duration::from_secs(3) {
            ensure!(
                Instant::now() < end,
                "the gateway does not come to rest; {} writes",
                writes()
            );
            sleep(Duration::from_millis(200)).await;
            let now = lease();
            if now != before.0 {
                before = (now, Instant::now());
            }
        }
        Ok(())
    }
}

/// Waits for something that the planes show.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(300);
    while !holds() {
        ensure!(Instant::now() < end, "it did not come about that {what}");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
