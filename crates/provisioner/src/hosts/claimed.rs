//! A machine with a claim of the Cell. The provisioner changes nothing at a machine without one.

use super::{
    answer::{Claim, JobState, MachineState, Next},
    ssh::{File, Job, Ssh, Verb},
};
use crate::reason::{Problem, Reason};
use fedgate_api::cell::Machine;
use serde_json::json;

/// How often a run asks for the end of a job that it cannot leave to the next run. Each time the machine waits for eight seconds.
const WAITS: usize = 5;

/// A machine whose claim was read, and names the Cell and this machine.
#[derive(Debug)]
pub(super) struct ClaimedMachine<'a> {
    ssh: Ssh<'a>,
    /// The entry of the machine in the Cell.
    pub(super) machine: &'a Machine,
    /// The last answer of the machine.
    pub(super) state: MachineState,
}

impl<'a> ClaimedMachine<'a> {
    /// Writes the claim of the Cell `cell`, if the machine has none, is unused, and has `programs`, and kubeadm and kubelet of `version`.
    ///
    /// # Errors
    /// If the machine cannot be reached, has another claim, or lacks a program.
    pub(super) async fn claim(
        ssh: Ssh<'a>,
        machine: &'a Machine,
        cell: &str,
        version: &str,
        programs: &[&str],
    ) -> Result<Self, Problem> {
        let mut state = ssh.run(machine, Verb::Look, b"").await?;
        if state.claim.is_none() {
            check_free(machine, &state)?;
            check_programs(machine, &state, version, programs)?;
            let claim = Claim {
                cell: cell.to_owned(),
                machine: machine.name.clone(),
                uid: ssh.uid.to_owned(),
            };
            state = ssh
                .run(machine, Verb::Claim, json!(claim).to_string().as_bytes())
                .await?;
        }
        let own = Self::check_claim(ssh, machine, state)?;
        let missing = || {
            problem(
                machine,
                Reason::CommandFailed,
                "its claim cannot be written to /etc/fedgate",
            )
        };
        own.ok_or_else(missing)
    }

    /// The machine, if it has the claim of the Cell; `None` if it has no claim.
    ///
    /// # Errors
    /// If the machine cannot be reached, or has another claim.
    pub(super) async fn find(ssh: Ssh<'a>, machine: &'a Machine) -> Result<Option<Self>, Problem> {
        let state = ssh.run(machine, Verb::Look, b"").await?;
        Self::check_claim(ssh, machine, state)
    }

    fn check_claim(ssh: Ssh<'a>, machine: &'a Machine, state: MachineState) -> Result<Option<Self>, Problem> {
        let Some(claim) = &state.claim else {
            return Ok(None);
        };
        if claim.uid.is_empty() {
            let what = "its claim /etc/fedgate/claim.json cannot be read";
            return Err(problem(machine, Reason::CommandFailed, what));
        }
        if claim.uid != ssh.uid {
            let what = format!("it belongs to Cell {}", claim.cell);
            return Err(problem(machine, Reason::HostClaimed, &what));
        }
        if claim.machine != machine.name {
            let what = format!(
                "it is machine {} of this Cell; correct its address",
                claim.machine
            );
            return Err(problem(machine, Reason::InvalidSpec, &what));
        }
        Ok(Some(Self { ssh, machine, state }))
    }

    /// The next action for a job.
    pub(super) fn next(&self, job: Job) -> Next {
        self.state.next(job, self.machine.role)
    }

    /// Starts a job unless it is done, and waits some seconds for its end. `files` are written before the start.
    ///
    /// # Errors
    /// If the job still runs, or failed; `failed` is the reason of a failure.
    pub(super) async fn run_once(
        &mut self,
        job: Job,
        failed: Reason,
        files: impl AsyncFnOnce() -> Result<Vec<(File, String)>, Problem>,
    ) -> Result<(), Problem> {
        self.run_job(job, self.next(job), failed, files).await
    }

    /// Like [`ClaimedMachine::run_once`], but starts the job again if it has ended with status 0.
    ///
    /// # Errors
    /// As [`ClaimedMachine::run_once`].
    pub(super) async fn run_again(
        &mut self,
        job: Job,
        failed: Reason,
        files: Vec<(File, String)>,
    ) -> Result<(), Problem> {
        let next = match (self.next(job), self.state.job(job)) {
            (Next::Done, Some(last)) => Next::Start(last.number.saturating_add(1)),
            (next, _) => next,
        };
        let mut result = self.run_job(job, next, failed, async || Ok(files)).await;
        for _ in 0..WAITS {
            match (&result, next, self.state.job(job)) {
                // The key of the start is known to this run alone, so that this run waits for the end.
                (Err(problem), Next::Start(number), Some(_)) if problem.reason == Reason::Waiting => {
                    let none = async || Ok(Vec::new());
                    result = self.run_job(job, Next::Start(number), failed, none).await;
                }
                _ => break,
            }
        }
        result
    }

    async fn run_job(
        &mut self,
        job: Job,
        mut next: Next,
        failed: Reason,
        files: impl AsyncFnOnce() -> Result<Vec<(File, String)>, Problem>,
    ) -> Result<(), Problem> {
        if let Next::Start(number) = next {
            for (file, content) in files().await? {
                let put = Verb::Put(file);
                self.ssh.run(self.machine, put, content.as_bytes()).await?;
            }
            let start = Verb::Start(job, number);
            let later = self.ssh.run(self.machine, start, b"").await?;
            self.state.replace_job(job, &later);
            next = self.next(job);
        }
        let missing = || format!("job {} did not start", job.as_str());
        let end = self.state.job(job).map_or_else(missing, JobState::describe);
        let problem = |reason| Err(problem(self.machine, reason, &end));
        match next {
            Next::Done => Ok(()),
            Next::Wait => problem(Reason::Waiting),
            Next::NeedsReset => problem(Reason::NeedsReset),
            Next::Failed | Next::Start(_) => problem(failed),
        }
    }

    /// The kubeconfig of the cluster's administrator.
    ///
    /// # Errors
    /// If the machine has none.
    pub(super) async fn admin_kubeconfig(&self) -> Result<Vec<u8>, Problem> {
        let answer = self.ssh.run(self.machine, Verb::Admin, b"").await?;
        let what = "it gives no /etc/kubernetes/admin.conf";
        let missing = || problem(self.machine, Reason::CommandFailed, what);
        answer.admin.filter(|text| !text.is_empty()).ok_or_else(missing)
    }

    /// Ends the jobs of the machine, runs `kubeadm reset`, and deletes the claim.
    ///
    /// # Errors
    /// If a job runs, or the reset failed.
    pub(super) async fn release(mut self) -> Result<(), Problem> {
        if self.state.is_busy() {
            self.state = self.ssh.run(self.machine, Verb::Stop, b"").await?;
        }
        if self.state.is_busy() {
            return Err(problem(
                self.machine,
                Reason::Waiting,
                "its jobs are being stopped",
            ));
        }
        let none = async || Ok(Vec::new());
        self.run_once(Job::Reset, Reason::ResetFailed, none).await?;
        self.ssh.run(self.machine, Verb::Forget, b"").await.map(drop)
    }
}

/// Fails if a machine without a claim has files of a cluster.
fn check_free(machine: &Machine, state: &MachineState) -> Result<(), Problem> {
    if state.has_kubelet || state.has_admin || state.has_begun {
        let what = "it has files of a cluster in /etc/kubernetes or /var/lib/etcd, and no claim of a Cell";
        return Err(problem(machine, Reason::HostInUse, what));
    }
    Ok(())
}

fn check_programs(
    machine: &Machine,
    state: &MachineState,
    version: &str,
    programs: &[&str],
) -> Result<(), Problem> {
    let lacks = |what: String| Err(problem(machine, Reason::VersionMismatch, &what));
    for (program, found) in [("kubeadm", &state.kubeadm), ("kubelet", &state.kubelet)] {
        if found != version {
            let found = if found.is_empty() { "none" } else { found };
            return lacks(format!(
                "it has {program} {found}, and spec.kubernetes.version is {version}"
            ));
        }
    }
    match programs.iter().find(|program| !state.has_program(program)) {
        Some(program) => lacks(format!("it has no {program}")),
        None => Ok(()),
    }
}

fn problem(machine: &Machine, reason: Reason, what: &str) -> Problem {
    Problem::new(reason, format!("machine {}: {what}", machine.name))
}
