//! Hub and projects of one run, the kubeconfigs by which the gateway finds them, and what it asks of them.

use super::{address::Address, kinds, objects};
use anyhow::{Context, Result, ensure};
use fedgate_simulator::{Change, Entry, Plane, Simulator, Verb};
use serde_json::json;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// The namespace of each project in which its deployments are.
pub(crate) const NAMESPACE: &str = "production";
/// The plural of deployments and their copies.
pub(crate) const DEPLOYMENTS: &str = "workloaddeployments";
/// Watches of a project that does nothing: Namespaces, Workloads, deployments, Instances.
const WATCHES: u64 = 4;
/// Changes of a kind that a plane keeps: enough for a burst, as API servers do by time.
const HISTORY: usize = 50_000;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Under this name the gateway asks, unless its credential says another.
pub(crate) const GATEWAY: &str = "fedgate-gateway";

/// All planes of a run.
pub(crate) struct Planes {
    pub(crate) simulator: Simulator,
    pub(crate) hub: Plane,
    pub(crate) projects: Vec<Plane>,
    /// Where the Projects of Milo are; without it each project has a kubeconfig of its own.
    core: Option<Plane>,
    pub(crate) address: Address,
    dir: PathBuf,
}

pub(crate) fn failed(status: impl std::fmt::Debug) -> anyhow::Error {
    anyhow::anyhow!("the simulator refuses: {status:?}")
}

fn authority(dir: &Path) -> PathBuf {
    dir.join("hub/authority.pem")
}

fn namespace(plane: &Plane, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    plane.create(object).map_err(failed).map(drop)
}

/// A Project of Milo whose control plane answers.
fn ready(core: &Plane, name: &str) -> Result<()> {
    let project = json!({
        "apiVersion": "resourcemanager.miloapis.com/v1alpha1", "kind": "Project", "metadata": {"name": name},
        "spec": {"ownerRef": {"kind": "Organization", "name": "acme"}},
    });
    core.create(project).map_err(failed)?;
    let status = json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-05-04T10:00:00Z",
    }]});
    core.merge_status("projects", "", name, json!({ "status": status }))
        .map_err(failed)
        .map(drop)
}

impl Planes {
    /// A hub without projects; the folder is emptied first.
    pub(crate) async fn up(dir: PathBuf) -> Result<Self> {
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        // The gateway watches the folder of each file and the one above: its log is in neither.
        for part in ["hub", "projects", "process"] {
            std::fs::create_dir_all(dir.join(part))?;
        }
        let simulator = Simulator::new(1);
        let hub = Self::add_hub(&simulator, "hub");
        let mut policy = objects::marked_policy();
        policy["apiVersion"] = json!("policy.karmada.io/v1alpha1");
        policy["kind"] = json!("ClusterPropagationPolicy");
        hub.create(policy).map_err(failed)?;
        let mut cluster = objects::cluster();
        cluster["apiVersion"] = json!("cluster.karmada.io/v1alpha1");
        cluster["kind"] = json!("Cluster");
        hub.create(cluster).map_err(failed)?;
        // Where the gateway keeps its Lease.
        namespace(&hub, "fedgate-system")?;
        let address = Address::serve(&simulator).await?;
        std::fs::write(authority(&dir), &address.pem)?;
        let planes = Self {
            simulator,
            hub,
            projects: Vec::new(),
            core: None,
            address,
            dir,
        };
        planes.kubeconfig("hub", GATEWAY, &planes.hub_kubeconfig())?;
        Ok(planes)
    }

    fn add_hub(simulator: &Simulator, name: &str) -> Plane {
        let hub = simulator.add(name);
        hub.define_all(kinds::everywhere());
        hub.define_all(&kinds::on_the_hub());
        hub.keep_history(HISTORY);
        hub
    }

    /// A hub that the gateway does not know, with one namespace.
    pub(crate) fn other_hub(&self, name: &str) -> Result<()> {
        namespace(&Self::add_hub(&self.simulator, name), NAMESPACE)
    }

    /// A project that the gateway does not know.
    pub(crate) fn project(&self, name: &str) -> Result<Plane> {
        let plane = self.simulator.add(name);
        plane.define_all(kinds::everywhere());
        plane.keep_history(HISTORY);
        namespace(&plane, NAMESPACE)?;
        Ok(plane)
    }

    pub(crate) fn hub_kubeconfig(&self) -> PathBuf {
        self.dir.join("hub/hub.yaml")
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.dir.join("projects")
    }

    /// Where the gateway's log is.
    pub(crate) fn process(&self) -> PathBuf {
        self.dir.join("process")
    }

    fn milo_kubeconfig(&self) -> PathBuf {
        self.dir.join("hub/milo.yaml")
    }

    /// From now on projects are those of Milo: Projects, which one kubeconfig leads to.
    pub(crate) fn as_milo(&mut self) -> Result<()> {
        let core = self.simulator.add("milo");
        core.define_all(&kinds::at_milo());
        core.keep_history(HISTORY);
        self.kubeconfig("milo", GATEWAY, &self.milo_kubeconfig())?;
        self.core = Some(core);
        Ok(())
    }

    /// The gateway's flags that say where projects are.
    pub(crate) fn project_flags(&self) -> Vec<OsString> {
        if self.core.is_none() {
            return vec![
                "--project-mode=directory".into(),
                "--project-directory".into(),
                self.directory().into(),
            ];
        }
        vec![
            "--project-mode=milo".into(),
            "--discovery-kubeconfig".into(),
            self.milo_kubeconfig().into(),
            "--project-kubeconfig".into(),
            self.milo_kubeconfig().into(),
        ]
    }

    fn project_kubeconfig(&self, name: &str) -> PathBuf {
        self.directory().join(format!("{name}.yaml"))
    }

    /// A kubeconfig is JSON as well as YAML. It comes whole, so that nobody reads half of it.
    pub(crate) fn kubeconfig(&self, plane: &str, user: &str, path: &Path) -> Result<()> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": self.address.url(plane),
                "certificate-authority": authority(&self.dir),
            }}],
            "users": [{"name": "u", "user": {"token": user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let draft = self.process().join("draft");
        std::fs::write(&draft, config.to_string()).with_context(|| format!("write {}", draft.display()))?;
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&draft, own).with_context(|| format!("protect {}", draft.display()))?;
        std::fs::rename(&draft, path).with_context(|| format!("write {}", path.display()))
    }

    /// More projects, up to this many; the gateway sees their files or Projects.
    pub(crate) fn grow(&mut self, count: usize) -> Result<()> {
        while self.projects.len() < count {
            let name = format!("p-{:05}", self.projects.len());
            self.projects.push(self.project(&name)?);
            match &self.core {
                Some(core) => ready(core, &name)?,
                None => self.join(&name, GATEWAY)?,
            }
        }
        Ok(())
    }

    /// A project's kubeconfig comes, or changes.
    pub(crate) fn join(&self, name: &str, user: &str) -> Result<()> {
        self.kubeconfig(name, user, &self.project_kubeconfig(name))
    }

    /// A project's kubeconfig goes.
    pub(crate) fn leave(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.project_kubeconfig(name)).with_context(|| format!("take {name} away"))
    }

    /// Until every project is watched.
    pub(crate) async fn watched(&self) -> Result<()> {
        let watched = |plane: &Plane| plane.requests(Verb::Watch) >= WATCHES;
        until("every project is watched", || self.projects.iter().all(watched)).await
    }

    /// How many copies the hub has.
    pub(crate) fn copies(&self) -> usize {
        self.hub.count(DEPLOYMENTS)
    }

    /// How many projections there are.
    pub(crate) fn projections(&self) -> usize {
        self.projects.iter().map(|p| p.count("instances")).sum()
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

    /// The requests of these verbs since then, Leases and Events left out.
    pub(crate) fn requests(&self, chosen: impl Fn(Verb) -> bool) -> Vec<Entry> {
        let mut entries = self.simulator.log().entries();
        entries.retain(|entry| counts(entry) && chosen(entry.verb));
        entries
    }

    /// What has changed since the last call, from [`Simulator::keep_changes`] on.
    pub(crate) fn changes(&self) -> Vec<Change> {
        self.simulator.take_changes()
    }

    /// Until nothing has been written for three seconds.
    pub(crate) async fn quiet(&self) -> Result<()> {
        let log = self.simulator.log();
        let (end, mut next, mut last) = (Instant::now() + PATIENCE, log.next(), Instant::now());
        while last.elapsed() < Duration::from_secs(3) {
            ensure!(Instant::now() < end, "the gateway does not come to rest");
            sleep(Duration::from_millis(200)).await;
            for entry in log.since(next) {
                next = entry.n + 1;
                if counts(&entry) && entry.verb.writes() {
                    last = entry.at;
                }
            }
        }
        Ok(())
    }
}

/// Whether a request is the gateway's work.
fn counts(entry: &Entry) -> bool {
    !matches!(&*entry.resource, "leases" | "events")
}

/// Waits for something that many planes show.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        ensure!(Instant::now() < end, "it did not come about that {what}");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Waits for something that one plane shows; looked at after each of its changes.
pub(crate) async fn shown(plane: &Plane, what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let mut changed = plane.changed();
    let wait = async {
        loop {
            changed.borrow_and_update();
            if holds() {
                return Ok(());
            }
            changed.changed().await?;
        }
    };
    timeout(PATIENCE, wait)
        .await
        .with_context(|| format!("it did not come about that {what}"))?
}
