//! Provider `hosts`: existing machines become a cluster, with kubeadm over SSH (contract: machines.md).
//!
//! * [`provision`]: the steps; [`nodes`]: the proof that machines have joined.
//! * [`claimed`]: a machine with the claim of the Cell; [`answer`]: the answers of a machine, and the next action for its jobs.
//! * [`ssh`]: the connection; `machine.sh`: the program that runs at a machine.
//! * [`kubeadm`]: the configuration files; [`mask`], [`summary`]: messages of problems.

mod answer;
mod claimed;
mod kubeadm;
mod mask;
mod nodes;
mod provision;
mod ssh;
mod summary;
#[cfg(test)]
mod tests;

use crate::reason::{Problem, Reason};
use claimed::ClaimedMachine;
use fedgate_api::cell::{Hosts, Kubernetes, Machine, MachineRole};
use fedgate_engine::plane::{kubeconfig::Rules, lease::LeaseHandle};
use fedgate_kubeconfig::document;
use fedgate_operator::membership::plane::Plane;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kubeadm::Configuration;
use serde_json::json;
use ssh::{Ssh, SshFiles};
use std::{path::Path, sync::Arc};
use summary::combine;

pub(crate) use ssh::delete_ssh_files;

/// Machines at work at the same time.
const CONCURRENCY: usize = 8;

/// The Cell, its machines, and what a run of its steps needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellContext<'a> {
    /// Name of the Cell.
    pub(crate) name: &'a str,
    /// UID of the Cell.
    pub(crate) uid: &'a Arc<str>,
    /// The machines.
    pub(crate) hosts: &'a Hosts,
    /// The settings of the cluster.
    pub(crate) kubernetes: &'a Kubernetes,
    /// Address at which the hub reaches the cluster; may be empty.
    pub(crate) api_endpoint: &'a str,
    /// True if status.cluster is set. The machines may then become no other cluster.
    pub(crate) is_registered: bool,
    /// True if the Cell has been Ready (status.provenAt). A step that fails then does not stop the later steps.
    pub(crate) was_ready: bool,
    /// The Lease without which no command is sent.
    pub(crate) lease: &'a LeaseHandle,
    /// The time.
    pub(crate) now: Timestamp,
}

/// The machines of a Cell, while its steps run.
#[derive(Debug)]
pub(crate) struct Machines<'a> {
    cell: CellContext<'a>,
    files: SshFiles,
}

impl<'a> Machines<'a> {
    /// Writes the files of `ssh` below the runtime directory.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn open(cell: CellContext<'a>, runtime: &Path, private_key: &[u8]) -> Result<Self, Problem> {
        let files = SshFiles::write(runtime, cell.uid, private_key).map_err(|error| {
            let what = format!("cannot write {}: {error}", runtime.display());
            Problem::new(Reason::RuntimeDirectory, what)
        })?;
        Ok(Self { cell, files })
    }

    fn ssh(&self) -> Ssh<'_> {
        Ssh {
            uid: self.cell.uid,
            files: &self.files,
            lease: self.cell.lease,
        }
    }

    fn all(&self) -> &'a [Machine] {
        &self.cell.hosts.machines
    }

    fn configuration(&self) -> Configuration<'a> {
        Configuration {
            kubernetes: self.cell.kubernetes,
            machines: self.all(),
            api_endpoint: self.cell.api_endpoint,
        }
    }

    fn leader(&self) -> Result<&'a Machine, Problem> {
        let what = "spec.provider.hosts has no machine of role controlPlane";
        let missing = || Problem::new(Reason::InvalidSpec, what);
        self.configuration().leader().ok_or_else(missing)
    }

    /// A control plane of a cluster that is there. It is not claimed again, because a further `kubeadm init` would make a second cluster, and
    /// a further join a second member of etcd.
    ///
    /// # Errors
    /// If it does not answer, or has no claim of the Cell.
    async fn own<'s>(&'s self, machine: &'s Machine) -> Result<ClaimedMachine<'s>, Problem> {
        let what = format!("machine {}: it has no claim of the Cell", machine.name);
        let replaced = || Problem::new(Reason::MemberReplaced, what);
        match ClaimedMachine::find(self.ssh(), machine).await {
            Err(problem) if problem.reason == Reason::HostClaimed => Err(replaced()),
            own => own?.ok_or_else(replaced),
        }
    }

    /// Connects to the cluster with the kubeconfig of the first control plane.
    async fn administrator(&self, leader: &ClaimedMachine<'_>) -> Result<Plane, Problem> {
        let unusable = |what: String| {
            let what = format!("the kubeconfig of machine {}: {what}", leader.machine.name);
            Problem::new(Reason::BadKubeconfig, what)
        };
        let text = leader.admin_kubeconfig().await?;
        let mut document = document(&text).map_err(|error| unusable(error.to_string()))?;
        let clusters = document["clusters"].as_array_mut().into_iter().flatten();
        for cluster in clusters {
            cluster["cluster"]["server"] = json!(self.configuration().server());
        }
        let text = document.to_string();
        let title = format!("cell {}", self.cell.name);
        let plane = Plane::of_text(&title, text.as_bytes(), Rules::default()).await;
        plane.map_err(|error| unusable(error.message()))
    }

    /// Connects to the cluster, to delete the objects that the provisioner has made there.
    ///
    /// # Errors
    /// If the first control plane does not answer, or has no claim of the Cell.
    pub(crate) async fn cluster(&self) -> Result<Plane, Problem> {
        self.administrator(&self.own(self.leader()?).await?).await
    }

    /// Releases each machine of the Cell: workers first, then control planes one by one, the first control plane last. If
    /// `is_abandoned`, says which machines could not be released.
    ///
    /// # Errors
    /// If a machine does not answer, or its reset runs or failed.
    pub(crate) async fn release(&self, is_abandoned: bool) -> Result<Option<String>, Problem> {
        let of_role = |role| self.all().iter().filter(move |machine| machine.role == role);
        let workers = of_role(MachineRole::Worker).map(|machine| self.release_one(machine));
        let mut released = run_concurrently(workers.collect()).await;
        let goes_on = |released: &Result<(), Problem>| match released {
            Ok(()) => true,
            Err(problem) => is_abandoned && is_out_of_reach(problem.reason),
        };
        if released.iter().all(|(_, released)| goes_on(released)) {
            for machine in of_role(MachineRole::ControlPlane).rev() {
                let one = self.release_one(machine).await;
                let is_last = !goes_on(&one.1);
                released.push(one);
                if is_last {
                    break;
                }
            }
        }
        let (mut left, mut problems) = (Vec::new(), Vec::new());
        for (machine, released) in released {
            match released {
                Ok(()) => {}
                Err(problem) if is_abandoned && is_out_of_reach(problem.reason) => {
                    left.push(machine.name.clone());
                }
                Err(problem) => problems.push(problem),
            }
        }
        combine(
            &problems,
            self.all().len(),
            "are released, or wait until the others are",
        )
        .map(|()| (!left.is_empty()).then(|| not_reset(&left.join(", "))))
    }

    async fn release_one(&self, machine: &'a Machine) -> (&'a Machine, Result<(), Problem>) {
        let released = match ClaimedMachine::find(self.ssh(), machine).await {
            Ok(Some(own)) => own.release().await,
            // The machine was released before, or never claimed.
            Ok(None) => Ok(()),
            Err(problem) if problem.reason == Reason::HostClaimed => Ok(()),
            Err(problem) => Err(problem),
        };
        (machine, released)
    }
}

/// The text for machines that were not released.
pub(crate) fn not_reset(machines: &str) -> String {
    format!("kubeadm reset was not run at {machines}")
}

/// True if a machine with this problem cannot be released.
fn is_out_of_reach(reason: Reason) -> bool {
    use Reason::{
        AuthenticationFailed, CommandFailed, HostKeyMismatch, HostUnreachable, InvalidSpec, NeedsRoot,
        ResetFailed,
    };
    matches!(
        reason,
        AuthenticationFailed
            | CommandFailed
            | HostKeyMismatch
            | HostUnreachable
            | InvalidSpec
            | NeedsRoot
            | ResetFailed
    )
}

/// Runs at most [`CONCURRENCY`] futures at a time. Returns their results in order.
async fn run_concurrently<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    stream::iter(all).buffered(CONCURRENCY).collect().await
}
