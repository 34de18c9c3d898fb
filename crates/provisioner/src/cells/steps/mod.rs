//! The steps of a Cell, from the first on: each proves what is there and makes what is missing, by the code of `fedgate cells`: join.rs,
//! drain.rs and leave.rs of `fedgate_operator::membership`. Each write requires the Lease. A run starts from the first step; finished steps
//! write nothing.

mod deprovision;

use super::decide::Present;
use crate::{
    cluster_api::ClusterOfCell,
    context::Context,
    hosts::{self, Machines},
    index::digest::lists_cell,
    reason::{Problem, Reason},
    report::{End, Outcome, Report, STEP_TIMEOUT, Step},
};
use fedgate_api::{
    cell::{CellCluster, CellPhase, CellSpec, CellState, KarmadaRights, Mode, Provider},
    keys::{CELLS, CORDONED},
};
use fedgate_engine::{error::Failure, key::Plane as PlaneOf, plan::Target, plane::kubeconfig::Rules};
use fedgate_kubeconfig::from_base64;
use fedgate_operator::membership::{
    agent,
    args::JoinSpec,
    change::Maker,
    drain::{self, Drain},
    executor::{Executor, Mode as Sending},
    join::{Facts, Join, Stage},
    mode::SyncMode,
    plane::{Plane, kind},
    registration::AccountRights,
    wait,
};
use fedgate_terminal::error::{Error, Kind};
use kube::ResourceExt;
use parking_lot::Mutex;
use serde_json::Value;
use std::time::Duration;

/// How long all steps may take together: a slow cluster needs some hundred requests.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);
/// Lifetime of the credentials of cells: a run renews one that has lived half of it.
const CREDENTIAL_LIFETIME: Duration = Duration::from_hours(24 * 365);

/// Runs the steps that the Cell asks for.
///
/// # Errors
/// If the Secret with the kubeconfig cannot be read.
pub(super) async fn run(ctx: &Context<'_>, present: Present<'_>) -> Result<Report, Failure> {
    let secret = read_secret(ctx, present).await?;
    let mut steps = Steps {
        ctx,
        present,
        name: &present.snapshot.name,
        report: Report::new(ctx.now().wall),
    };
    let all = steps.all(secret.as_ref());
    if tokio::time::timeout(RUN_TIMEOUT, all).await.is_err() {
        let what = format!("the steps did not end within {} s", RUN_TIMEOUT.as_secs());
        let problem = Problem::new(Reason::Unreachable, what);
        let late = steps
            .report
            .next_step(present.spec.provider.kind(), present.row.deleting);
        steps.report.add(late, Err(problem));
    }
    Ok(steps.report)
}

/// The Secret with the kubeconfig, if it lists the Cell.
async fn read_secret(ctx: &Context<'_>, present: Present<'_>) -> Result<Option<Value>, Failure> {
    let snapshot = present.snapshot;
    if !snapshot
        .secret
        .as_ref()
        .is_some_and(|secret| secret.lists_cell(&snapshot.name))
    {
        return Ok(None);
    }
    let name = present.row.digest.secret();
    let target = Target::namespaced(PlaneOf::Home, &kind("v1", "Secret"), &ctx.namespace, name);
    let found = ctx.executor.get(&target).await?;
    Ok(found.map(|secret| secret.data))
}

/// The way to the cluster of a Cell.
enum Access<'a> {
    /// The cluster, as its administrator.
    Member(Plane),
    /// Its Cluster of Cluster API.
    ClusterApi(ClusterOfCell<'a>),
    /// Its machines.
    Machines(Machines<'a>),
}

/// The steps of one Cell.
struct Steps<'a> {
    ctx: &'a Context<'a>,
    present: Present<'a>,
    name: &'a str,
    report: Report,
}

impl<'a> Steps<'a> {
    async fn all(&mut self, secret: Option<&Value>) {
        let access = self.access(secret).await;
        if self.present.row.deleting {
            self.deprovision(access).await;
        } else {
            self.provision(access).await;
        }
    }

    /// The way to the cluster, as the Secret gives it. No request is sent.
    async fn access(&self, secret: Option<&Value>) -> Result<Access<'a>, Problem> {
        let (ctx, present, name) = (self.ctx, self.present, self.name);
        let provider = present.spec.provider.kind();
        if !ctx.providers.contains(&provider) {
            let what = format!("--providers does not have {}", provider.as_str());
            return Err(Problem::new(Reason::ProviderOff, what));
        }
        let title = format!("Secret {}/{}", ctx.namespace, present.row.digest.secret());
        let value = |key: &str, bad: Reason| {
            let Some(secret) = secret else {
                let (reason, what) = match &present.snapshot.secret {
                    None => (Reason::SecretMissing, format!("{title} does not exist")),
                    Some(_) => (
                        Reason::NotForThisCell,
                        format!("annotation fedgate.dev/cells of {title} does not list Cell {name}"),
                    ),
                };
                return Err(Problem::new(reason, what));
            };
            let text = secret["data"][key].as_str().and_then(from_base64);
            text.ok_or_else(|| Problem::new(bad, format!("{title} has no key {key}")))
        };
        let is_registered = present.status.cluster.is_some();
        let was_ready = present.status.proven_at.is_some();
        match (&present.spec.provider, &present.spec.kubernetes) {
            (Provider::Existing(_), _) => {
                let text = value("kubeconfig", Reason::BadKubeconfig)?;
                let plane = Plane::of_text(&format!("cell {name}"), &text, Rules::default()).await;
                let bad = |error: Error| {
                    Problem::new(Reason::BadKubeconfig, format!("{title}: {}", error.message()))
                };
                plane.map(Access::Member).map_err(bad)
            }
            (Provider::ClusterApi(spec), _) if !ctx.cluster_api_namespaces.contains(&spec.namespace) => {
                // A request without a right would hold back those for other Cells.
                let what = format!("--cluster-api-namespaces does not have {}", spec.namespace);
                Err(Problem::new(Reason::ProviderOff, what))
            }
            (Provider::ClusterApi(spec), _) => Ok(Access::ClusterApi(ClusterOfCell {
                cell: name,
                uid: &present.row.uid,
                spec,
                is_registered,
                was_ready: was_ready || present.status.phase == CellPhase::Provisioned,
            })),
            (Provider::Hosts(hosts), Some(kubernetes)) => {
                let key = value("ssh-privatekey", Reason::BadSshKey)?;
                let cell = hosts::CellContext {
                    name,
                    uid: &present.row.uid,
                    hosts,
                    kubernetes,
                    api_endpoint: &present.spec.register.api_endpoint,
                    is_registered,
                    was_ready,
                    lease: &ctx.lease,
                    now: ctx.now().wall,
                };
                Machines::open(cell, &ctx.runtime_directory, &key).map(Access::Machines)
            }
            (Provider::Hosts(_), None) => {
                Err(Problem::new(Reason::InvalidSpec, "spec.kubernetes is missing"))
            }
        }
    }

    async fn hub(&self) -> Result<Plane, Problem> {
        let opened = Plane::open("hub", &self.ctx.hub_kubeconfig, None).await;
        // The file may just be replaced: it says nothing about the Cell.
        opened.map_err(|error| Problem::new(Reason::Unreachable, error.message()))
    }

    fn executor(&self) -> Executor {
        Executor {
            maker: Maker::Provisioner,
            lease: self.ctx.lease.clone(),
            patience: STEP_TIMEOUT,
            ..Executor::new(Sending::Write)
        }
    }

    /// True if the Cluster is the one that the Cell has registered.
    fn has_cluster(&self) -> bool {
        let registered = self.present.status.cluster.as_ref();
        let cluster = self.present.snapshot.cluster.as_ref();
        registered
            .is_some_and(|own| cluster.is_some_and(|cluster| cluster.is_usable() && cluster.id == own.id))
    }

    /// Registers the cluster and opens it, or empties it, as the Cell says.
    async fn provision(&mut self, access: Result<Access<'_>, Problem>) {
        let taken = self
            .present
            .snapshot
            .cluster
            .as_ref()
            .filter(|cluster| !cluster.is_usable());
        let taken = taken.map(|_| {
            let what = format!("another program has made Cluster {}", self.name);
            Problem::new(Reason::NameTaken, what)
        });
        let access = taken.map_or(access, Err);
        let validated = access.as_ref().map(drop).map_err(Clone::clone);
        let is_valid = self.report.add(Step::Validated, validated);
        if !self.present.row.digest.has_finalizer() {
            if is_valid {
                self.report.end = End::NeedsFinalizer;
            }
            return;
        }
        // A cell is closed by the hub alone: its cluster may not answer.
        let closed = self.close().await;
        let member = match access {
            Err(_) => None,
            Ok(Access::Member(member)) => Some(member),
            Ok(Access::ClusterApi(cluster)) => cluster.provision(self.ctx, &mut self.report).await,
            Ok(Access::Machines(machines)) => {
                let (ctx, present) = (self.ctx, self.present);
                let manifest = async || cni_manifest(ctx, present).await;
                let mut executor = self.executor();
                machines
                    .provision(&mut self.report, &mut executor, manifest)
                    .await
            }
        };
        if let Some(member) = member {
            self.register(member).await;
        }
        if let Some(closed) = closed {
            // A step that failed is to be tried again.
            let is_missing =
                |(step, outcome): &(Step, Outcome)| *step == Step::Ready && outcome.problem().is_some();
            if !self.report.outcomes.iter().any(is_missing) {
                self.report.outcomes.retain(|(step, _)| *step != Step::Ready);
                self.report.add(Step::Ready, Err(closed));
            }
        }
    }

    /// Cordons or drains a cell that is not to be Active; the problem of step Ready then.
    async fn close(&mut self) -> Option<Problem> {
        let is_there = self.has_cluster();
        match self.present.spec.state {
            CellState::Active => None,
            CellState::Cordoned => {
                let cordoned = if is_there { self.cordon().await } else { Ok(()) };
                let asked = Problem::new(Reason::Cordoned, "spec.state of the Cell is Cordoned");
                Some(cordoned.err().unwrap_or(asked))
            }
            CellState::Drained => {
                if is_there {
                    let drained = self.drain(None, self.present.allows_outage()).await;
                    self.report.add(Step::Drained, drained);
                }
                Some(Problem::new(Reason::Drained, "spec.state of the Cell is Drained"))
            }
        }
    }

    async fn cordon(&self) -> Result<(), Problem> {
        let hub = self.hub().await?;
        let cordoned = drain::cordon(&hub, self.name, &mut self.executor()).await;
        cordoned.map_err(|error| Problem::of(&error, Reason::Waiting))
    }

    async fn register(&mut self, member: Plane) {
        let spec = join_spec(self.present.spec);
        let endpoint = spec.cell_endpoint.as_ref().unwrap_or(&member.server).clone();
        let facts = match self.facts(member).await {
            Ok(facts) => facts,
            Err(problem) => {
                self.report.add(Step::Registered, Err(problem));
                return;
            }
        };
        if let Err(problem) = self.same_member(&facts.id) {
            self.report.add(Step::Registered, Err(problem));
            return;
        }
        let waiting = |error: Error| Problem::of(&error, Reason::Waiting);
        let join = Join::begin(self.name, &spec, &facts, self.ctx.kinds.clone(), self.executor());
        let mut join = match join.await {
            Ok(join) => join,
            Err(error) => {
                self.report.add(Step::Registered, Err(waiting(error)));
                return;
            }
        };
        let found = CellCluster {
            id: facts.id.clone(),
            endpoint,
        };
        let registered = self.present.status.cluster.as_ref();
        if registered.is_none() {
            self.report.end = End::ClusterFound;
            self.report.cluster = Some(found);
            return;
        }
        self.report.cluster = Some(found);
        let registered = join.reach(Stage::Registered).await.map_err(waiting);
        if !self.report.add(Step::Registered, registered) {
            return;
        }
        let agent = match join.reach(Stage::Program).await {
            Ok(()) if self.present.spec.agent.image.is_empty() => Outcome::NotNeeded,
            Ok(()) => match renews_lease(&facts.member).await {
                Ok(()) => Outcome::Reached,
                Err(error) => Outcome::Missing(Problem::of(&error, Reason::AgentNotAvailable)),
            },
            Err(error) => Outcome::Missing(Problem::of(&error, Reason::AgentNotAvailable)),
        };
        let runs = agent.problem().is_none();
        self.report.outcomes.push((Step::AgentReady, agent));
        let taint = match self.present.spec.state {
            CellState::Active => None,
            CellState::Cordoned => Some(CORDONED),
            CellState::Drained => return,
        };
        // An open cell stays open while its program does not renew the Lease.
        let is_open = self
            .present
            .snapshot
            .cluster
            .as_ref()
            .is_some_and(|cluster| cluster.city.is_some());
        if runs || is_open {
            let opened = join.open(taint).await;
            let opened = opened.map_err(|error| Problem::of(&error, Reason::ClusterNotReady));
            self.report.add(Step::Ready, opened);
        }
    }

    /// Fails if the kubeconfig leads to another cluster than the one that was found for the Cell before.
    fn same_member(&self, found: &str) -> Result<(), Problem> {
        match &self.present.status.cluster {
            Some(own) if own.id != found => {
                let what = format!(
                    "the kubeconfig leads to the cluster with id {found}; that of the Cell is {}",
                    own.id
                );
                Err(Problem::new(Reason::MemberReplaced, what))
            }
            _ => Ok(()),
        }
    }

    /// Reads hub and cluster.
    async fn facts(&self, member: Plane) -> Result<Facts, Problem> {
        let hub = self.hub().await?;
        member.id().await.map_err(|error| of_member(&error))?;
        let read = Facts::read(hub, member).await;
        read.map_err(|error| Problem::of(&error, Reason::Waiting))
    }

    /// Empties the cell. Without `member` its Namespaces are not checked.
    async fn drain(&self, member: Option<&Plane>, allow_outage: bool) -> Result<(), Problem> {
        let hub = self.hub().await?;
        let drain = Drain {
            name: self.name,
            hub: &hub,
            member,
            allow_outage,
            timeout: Duration::ZERO,
            kinds: &self.ctx.kinds,
        };
        let drained = drain.run(&mut self.executor()).await;
        drained
            .map(drop)
            .map_err(|error| Problem::of(&error, Reason::Emptying))
    }
}

/// The objects of the network plugin; `None` if somebody else installs it.
async fn cni_manifest(ctx: &Context<'_>, present: Present<'_>) -> Result<Option<String>, Problem> {
    let name = present.spec.kubernetes.as_ref().map_or("", |of| &of.cni_manifest);
    if name.is_empty() {
        return Ok(None);
    }
    let title = format!("ConfigMap {}/{name}", ctx.namespace);
    let missing = |what: &str| Problem::new(Reason::CniManifestMissing, format!("{title} {what}"));
    let target = Target::namespaced(PlaneOf::Home, &kind("v1", "ConfigMap"), &ctx.namespace, name);
    let found = ctx.executor.get(&target).await;
    let found = found.map_err(|error| Problem::new(Reason::Unreachable, format!("get {title}: {error}")))?;
    let found = found.ok_or_else(|| missing("does not exist"))?;
    let names = found.annotations().get(CELLS);
    if !names.is_some_and(|names| lists_cell(names, &present.snapshot.name)) {
        return Err(missing("does not list the Cell in annotation fedgate.dev/cells"));
    }
    let manifest = found.data["data"]["manifest.yaml"].as_str();
    let manifest = manifest.ok_or_else(|| missing("has no key manifest.yaml"))?;
    Ok(Some(manifest.to_owned()))
}

/// The problem of the first request to the cluster.
fn of_member(error: &Error) -> Problem {
    let reason = match error.kind {
        Kind::Forbidden => Reason::MemberForbidden,
        _ => Reason::MemberUnreachable,
    };
    Problem::new(reason, error.message())
}

/// Waits until the program in the cell renews its Lease. No clock is read, because that of the cell may be wrong.
async fn renews_lease(member: &Plane) -> Result<(), Error> {
    let seen: Mutex<Option<Value>> = Mutex::default();
    let lease = agent::lease_identity();
    let [namespace, name] =
        ["namespace", "name"].map(|field| lease["metadata"][field].as_str().unwrap_or_default());
    let test = |objects: &[Value]| {
        let renewed = objects.first().map(|lease| lease["spec"]["renewTime"].clone());
        let mut seen = seen.lock();
        match (&*seen, renewed) {
            (Some(before), Some(renewed)) if *before != renewed => return Ok(()),
            (_, renewed) => *seen = renewed,
        }
        let what = format!("the program of the cell does not renew Lease {namespace}/{name}");
        Err(Error::timed_out(what).reason("AgentNotAvailable"))
    };
    let leases = kind("coordination.k8s.io/v1", "Lease");
    wait::until(
        member,
        (leases, namespace, wait::named_object(name)),
        STEP_TIMEOUT,
        test,
    )
    .await
}

/// The settings of the join of a Cell.
fn join_spec(cell: &CellSpec) -> JoinSpec {
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let CellSpec {
        city,
        state: _,
        register,
        agent,
        provider: _,
        kubernetes: _,
    } = cell;
    JoinSpec {
        city: city.clone(),
        mode: match register.mode {
            Mode::Push => SyncMode::Push,
            Mode::Pull => SyncMode::Pull,
        },
        agent_image: given(&register.agent_image),
        cell_endpoint: given(&register.api_endpoint),
        hub_endpoint: given(&register.hub_endpoint),
        rights: match register.rights {
            KarmadaRights::Narrow => AccountRights::Narrow,
            KarmadaRights::Full => AccountRights::Full,
        },
        proxy: register.proxy,
        adopt: false,
        credential_lifetime: CREDENTIAL_LIFETIME,
        agent_image_cell: given(&agent.image),
        location: given(&agent.location),
        skip_crds: false,
        wait: STEP_TIMEOUT,
    }
}
