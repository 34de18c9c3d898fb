//! The steps by which machines become a cluster (contract: machines.md §2).

use super::{
    Machines,
    answer::Next,
    claimed::ClaimedMachine,
    kubeadm::{Configuration, Token, node_address},
    nodes::{self, cluster_problem},
    run_concurrently,
    ssh::{File, Job},
    summary::combine,
};
use crate::{
    reason::{Problem, Reason},
    report::{Report, Step},
};
use fedgate_api::cell::{EndpointType, Machine, MachineRole};
use fedgate_operator::membership::{
    change::{MADE_BY, Verb as ChangeVerb},
    executor::Executor,
    kubeconfig,
    plane::{Plane, kind},
};
use ring::rand::SystemRandom;
use serde_json::{Value, json};
use std::{fmt::Write, time::Duration};
use tokio::sync::{Mutex, OnceCell};

/// Lifetime of the token by which a machine joins.
const TOKEN_TTL: Duration = Duration::from_mins(30);
/// Path of [`File::Discovery`] at a machine.
const DISCOVERY: &str = "/etc/fedgate/discovery.conf";

/// Prepared machines, and the problems of the others.
type Prepared<'a> = (Vec<ClaimedMachine<'a>>, Vec<Problem>);

impl Machines<'_> {
    /// Runs the steps from Bootstrapped to `WorkersJoined`, and reports each. Returns a client of the cluster with the rights of an
    /// administrator once `WorkersJoined` is reached. If the Cell was Ready before, a step that fails does not stop the later ones.
    /// `manifest` reads the objects of the network plugin.
    pub(crate) async fn provision(
        &self,
        report: &mut Report,
        executor: &mut Executor,
        manifest: impl AsyncFnOnce() -> Result<Option<String>, Problem>,
    ) -> Option<Plane> {
        let first = match self.prepare_leader().await {
            // The Nodes are unknown without the first control plane, so that no other machine is connected to.
            Err(problem) if self.cell.is_registered => {
                report.add(Step::Bootstrapped, Err(problem));
                return None;
            }
            first => first,
        };
        let (mut found, mut known) = (None, Vec::new());
        if let Ok(first) = &first
            && first.state.is_done(Job::Init)
        {
            match self.connect(first).await {
                Ok((plane, ready)) => (found, known) = (Some(plane), ready),
                Err(problem) => {
                    report.add(Step::ControlPlaneInitialized, Err(problem));
                    return None;
                }
            }
        }
        let (own, mut problems) = self.prepare_others(&known).await;
        let first = first.map_err(|problem| problems.insert(0, problem)).ok();
        let bootstrapped = combine(&problems, self.all().len(), "are prepared");
        if !self.report_step(report, Step::Bootstrapped, bootstrapped) {
            return None;
        }
        let mut leader = first?;
        let initialized = self.initialize(&mut leader, &mut found, manifest).await;
        if !self.report_step(report, Step::ControlPlaneInitialized, initialized) {
            return None;
        }
        let plane = found?;
        let (control_planes, workers): (Vec<_>, Vec<_>) = own
            .into_iter()
            .partition(|own| own.machine.role == MachineRole::ControlPlane);
        let joined = self
            .join_control_planes(&plane, &mut leader, control_planes, executor)
            .await;
        if !self.report_step(report, Step::ControlPlaneJoined, joined) {
            return None;
        }
        let joined = self.join_workers(&plane, workers, executor).await;
        self.report_step(report, Step::WorkersJoined, joined)
            .then_some(plane)
    }

    /// Reports a step; true if the next one may follow.
    fn report_step(&self, report: &mut Report, step: Step, result: Result<(), Problem>) -> bool {
        report.add(step, result) || self.cell.was_ready
    }

    /// Prepares the first control plane. If status.cluster is set, the machine must have a finished job `init`, because a further
    /// `kubeadm init` would make a second cluster.
    async fn prepare_leader(&self) -> Result<ClaimedMachine<'_>, Problem> {
        if !self.cell.is_registered {
            return self.bootstrap(self.leader()?).await;
        }
        let own = self.own(self.leader()?).await?;
        if own.state.is_done(Job::Init) {
            return Ok(own);
        }
        let what = format!(
            "machine {}: its job init has not ended, so that it has another cluster than the Cell",
            own.machine.name
        );
        Err(Problem::new(Reason::MemberReplaced, what))
    }

    /// Connects to the cluster. Also returns the machines whose Nodes are Ready, because these need no SSH connection.
    async fn connect(&self, leader: &ClaimedMachine<'_>) -> Result<(Plane, Vec<&Machine>), Problem> {
        let plane = self.administrator(leader).await?;
        let known = if self.cell.was_ready {
            nodes::ready(&plane, self.all()).await?
        } else {
            // A Node can be Ready before its job join has ended.
            Vec::new()
        };
        Ok((plane, known))
    }

    /// Prepares all machines but the first one and the known ones.
    async fn prepare_others(&self, known: &[&Machine]) -> Prepared<'_> {
        let is_known = |machine: &Machine| known.iter().any(|known| known.name == machine.name);
        let others = self.all().iter().skip(1).filter(|machine| !is_known(machine));
        let all = run_concurrently(others.map(|machine| self.bootstrap(machine)).collect()).await;
        let (mut own, mut problems) = (Vec::new(), Vec::new());
        for one in all {
            match one {
                Ok(one) => own.push(one),
                Err(problem) => problems.push(problem),
            }
        }
        (own, problems)
    }

    /// Claims a machine, and prepares it.
    async fn bootstrap<'s>(&'s self, machine: &'s Machine) -> Result<ClaimedMachine<'s>, Problem> {
        if self.cell.is_registered && machine.role == MachineRole::ControlPlane {
            return self.own(machine).await;
        }
        let kubernetes = self.cell.kubernetes;
        let mut programs = vec!["containerd"];
        if self.leader().is_ok_and(|leader| leader.name == machine.name) {
            let needed = [
                (!kubernetes.cni_manifest.is_empty(), "kubectl"),
                (kubernetes.endpoint.type_ == EndpointType::HaProxy, "haproxy"),
            ];
            programs.extend(
                needed
                    .into_iter()
                    .filter_map(|(is_needed, name)| is_needed.then_some(name)),
            );
        }
        let (cell, version) = (self.cell.name, &kubernetes.version);
        let mut own = ClaimedMachine::claim(self.ssh(), machine, cell, version, &programs).await?;
        let none = async || Ok(Vec::new());
        own.run_once(Job::Prepare, Reason::SetupBootstrapFailed, none)
            .await?;
        Ok(own)
    }

    /// The first control plane with the network of its Pods.
    async fn initialize(
        &self,
        leader: &mut ClaimedMachine<'_>,
        found: &mut Option<Plane>,
        manifest: impl AsyncFnOnce() -> Result<Option<String>, Problem>,
    ) -> Result<(), Problem> {
        let configuration = self.configuration();
        let machine = leader.machine;
        if let Some(balancer) = configuration.haproxy_config() {
            let files = async || Ok(vec![(File::Balancer, balancer)]);
            let failed = Reason::SetupHaproxyFailed;
            leader.run_once(Job::Balancer, failed, files).await?;
        }
        let files = async || Ok(vec![(File::Init, configuration.init_config(machine, &token()?))]);
        let failed = Reason::InitControlPlaneFailed;
        leader.run_once(Job::Init, failed, files).await?;
        if found.is_none() {
            *found = Some(self.administrator(leader).await?);
        }
        if leader.next(Job::Cni) != Next::Done
            && let Some(manifest) = manifest().await?
        {
            let files = async || Ok(vec![(File::Cni, manifest)]);
            let failed = Reason::SetupNetworkCniFailed;
            leader.run_once(Job::Cni, failed, files).await?;
        }
        match found {
            Some(plane) => nodes::wait_ready(plane, &[machine]).await,
            None => Ok(()),
        }
    }

    /// Joins control planes one after another. Each join gets newly uploaded certificates and a new key, because kubeadm deletes
    /// uploaded certificates after two hours, and because the key is known to one run alone.
    async fn join_control_planes(
        &self,
        plane: &Plane,
        leader: &mut ClaimedMachine<'_>,
        all: Vec<ClaimedMachine<'_>>,
        executor: &mut Executor,
    ) -> Result<(), Problem> {
        let failed = Reason::JoinControlPlaneFailed;
        for own in all {
            let mut key = None;
            if let Next::Start(_) = own.next(Job::Join) {
                let new = random_digits()?;
                let content = self.configuration().upload_certs_config(leader.machine, &new);
                let files = vec![(File::Certificates, content)];
                leader.run_again(Job::Certificates, failed, files).await?;
                key = Some(new);
            }
            let token = async || self.new_token(plane, executor).await;
            let machine = own.machine;
            self.join(plane, own, failed, key.as_deref(), token).await?;
            nodes::wait_ready(plane, &[machine]).await?;
        }
        self.wait_ready(plane, MachineRole::ControlPlane).await
    }

    async fn join_workers(
        &self,
        plane: &Plane,
        workers: Vec<ClaimedMachine<'_>>,
        executor: &mut Executor,
    ) -> Result<(), Problem> {
        let (token, lock) = (&OnceCell::new(), &Mutex::new(&mut *executor));
        let joined = workers.into_iter().map(|own| {
            let machine = own.machine;
            let is_repeated = matches!(own.next(Job::Join), Next::Start(number) if number > 1);
            let token = async move || {
                let new = async || self.new_token(plane, *lock.lock().await).await;
                let token = token.get_or_try_init(new).await.cloned()?;
                if is_repeated {
                    delete_node(plane, *lock.lock().await, machine).await?;
                }
                Ok(token)
            };
            self.join(plane, own, Reason::JoinWorkerFailed, None, token)
        });
        let joined = run_concurrently(joined.collect()).await;
        let problems: Vec<Problem> = joined.into_iter().filter_map(Result::err).collect();
        let all = self.all().iter();
        let count = all.filter(|machine| machine.role == MachineRole::Worker).count();
        combine(&problems, count, "joined")?;
        self.wait_ready(plane, MachineRole::Worker).await?;
        self.delete_tokens(plane, executor).await
    }

    /// Waits until every machine of the role is a Node that is Ready.
    async fn wait_ready(&self, plane: &Plane, role: MachineRole) -> Result<(), Problem> {
        let machines = self.all().iter().filter(|machine| machine.role == role);
        nodes::wait_ready(plane, &machines.collect::<Vec<_>>()).await
    }

    async fn join(
        &self,
        plane: &Plane,
        mut own: ClaimedMachine<'_>,
        failed: Reason,
        key: Option<&str>,
        token: impl AsyncFnOnce() -> Result<Token, Problem>,
    ) -> Result<(), Problem> {
        let machine = own.machine;
        let files = async || {
            let token = token().await?;
            let endpoint = format!("https://{}", self.configuration().endpoint());
            let server = kubeconfig::Server {
                url: &endpoint,
                authority: &plane.authority,
            };
            let discovery = kubeconfig::document("cell", server, "none", &json!({}));
            let discovery = discovery.map_err(|error| cluster_problem(&error))?;
            let join = Configuration::join_config(machine, DISCOVERY, &token, key);
            Ok(vec![(File::Discovery, discovery), (File::Join, join)])
        };
        own.run_once(Job::Join, failed, files).await
    }

    async fn new_token(&self, plane: &Plane, executor: &mut Executor) -> Result<Token, Problem> {
        let token = token()?;
        let secret = token.secret(self.cell.now + TOKEN_TTL);
        let made = executor.ensure(plane, secret, Some(&self.mark())).await;
        made.map_err(|error| cluster_problem(&error))?;
        Ok(token)
    }

    fn mark(&self) -> String {
        format!("cell-{}", self.cell.uid)
    }

    /// Deletes the tokens of machines that have joined.
    async fn delete_tokens(&self, plane: &Plane, executor: &mut Executor) -> Result<(), Problem> {
        let labels = format!("{MADE_BY}={}", executor.maker.as_str());
        let secrets = plane.list_in(&kind("v1", "Secret"), "kube-system", &labels).await;
        let secrets = secrets.map_err(|error| cluster_problem(&error))?;
        let deleted = executor.delete_own(plane, secrets, &self.mark()).await;
        deleted.map_err(|error| cluster_problem(&error))
    }
}

/// 64 random hexadecimal digits.
fn random_digits() -> Result<String, Problem> {
    let random = ring::rand::generate::<[u8; 32]>(&SystemRandom::new());
    let random = random.map_err(|_| no_random())?;
    let mut digits = String::new();
    for byte in random.expose() {
        // Writing to a String does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

/// Deletes the Node of a worker that joins again. Its kubelet may have made the Node before the earlier join ended, and kubeadm
/// refuses to join while a Node of the name is Ready. The Node of a machine with another address stays.
async fn delete_node(plane: &Plane, executor: &mut Executor, machine: &Machine) -> Result<(), Problem> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.name}});
    let live = plane.live(&node).await.map_err(|error| cluster_problem(&error))?;
    let is_own = |node: &Value| nodes::is_worker_at(node, node_address(machine));
    if let Some(live) = live.filter(is_own) {
        let deleted = executor.run(plane, ChangeVerb::Delete, live).await;
        deleted.map_err(|error| cluster_problem(&error))?;
    }
    Ok(())
}

fn token() -> Result<Token, Problem> {
    Token::of(&random_digits()?).ok_or_else(no_random)
}

fn no_random() -> Problem {
    Problem::new(Reason::Waiting, "the system gives no random numbers")
}
