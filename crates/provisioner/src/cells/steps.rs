//! The steps of a Cell, from the first on: each proves what is there and makes what is missing, by the code of `fedgate cells`: join.rs,
//! drain.rs and leave.rs of `fedgate_operator::membership`. Each write requires the Lease. A run starts from the first step; finished steps
//! write nothing.

use super::{
    decide::Present,
    report::{End, Outcome, Report, Step},
};
use crate::{
    context::Context,
    reason::{Problem, Reason},
};
use fedgate_api::{
    cell::{CellCluster, CellSpec, CellState, KarmadaRights, Mode},
    keys::CORDONED,
};
use fedgate_engine::{error::Failure, key::Plane as PlaneOf, plan::Target, plane::kubeconfig::Rules};
use fedgate_kubeconfig::from_base64;
use fedgate_operator::membership::{
    agent,
    args::JoinSpec,
    change::{Maker, mark},
    cluster::Cluster,
    drain::{self, Drain},
    executor::{Executor, Mode as Sending},
    join::{Facts, Join, Stage},
    leave::{ForeignCluster, Leave},
    mode::SyncMode,
    plane::{Plane, kind},
    registration::AccountRights,
    wait,
};
use fedgate_terminal::error::{Error, Kind};
use parking_lot::Mutex;
use serde_json::Value;
use std::time::Duration;

/// How long one step waits for other programs, before others get the worker.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
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
        let late = steps.report.next_step(present.row.deleting);
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

/// The steps of one Cell.
struct Steps<'a> {
    ctx: &'a Context<'a>,
    present: Present<'a>,
    name: &'a str,
    report: Report,
}

impl Steps<'_> {
    async fn all(&mut self, secret: Option<&Value>) {
        let member = self.open_member(secret).await;
        if self.present.row.deleting {
            self.deprovision(member).await;
        } else {
            self.provision(member).await;
        }
    }

    /// The cluster, as its administrator.
    async fn open_member(&self, secret: Option<&Value>) -> Result<Plane, Problem> {
        let name = self.present.row.digest.secret();
        let title = format!("Secret {}/{name}", self.ctx.namespace);
        let Some(secret) = secret else {
            if self.present.snapshot.secret.is_none() {
                return Err(Problem::new(
                    Reason::SecretMissing,
                    format!("{title} does not exist"),
                ));
            }
            let what = format!(
                "annotation fedgate.dev/cells of {title} does not list Cell {}",
                self.name
            );
            return Err(Problem::new(Reason::NotForThisCell, what));
        };
        let bad = |what: String| Problem::new(Reason::BadKubeconfig, what);
        let text = secret["data"]["kubeconfig"].as_str().and_then(from_base64);
        let text = text.ok_or_else(|| bad(format!("{title} has no key kubeconfig")))?;
        let plane = Plane::of_text(&format!("cell {}", self.name), &text, Rules::default()).await;
        plane.map_err(|error| bad(format!("{title}: {}", error.message())))
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
    async fn provision(&mut self, member: Result<Plane, Problem>) {
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
        let member = taken.map_or(member, Err);
        let validated = member.as_ref().map(drop).map_err(Clone::clone);
        let is_valid = self.report.add(Step::Validated, validated);
        if !self.present.row.digest.has_finalizer() {
            if is_valid {
                self.report.end = End::NeedsFinalizer;
            }
            return;
        }
        // A cell is closed by the hub alone: its cluster may not answer.
        let closed = self.close().await;
        if let Ok(member) = member {
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

    /// Drains the cell and deletes what the provisioner has made for it.
    async fn deprovision(&mut self, member: Result<Plane, Problem>) {
        let leaving = Problem::new(Reason::Leaving, "the Cell is being deleted");
        self.report.add(Step::Ready, Err(leaving));
        let is_abandoned = self.present.is_abandoned();
        let ended = match (&self.present.status.cluster, member) {
            // Nothing was written for the Cell.
            (None, _) => Ok(()),
            (Some(_), Err(problem)) if !is_abandoned => Err(problem),
            (Some(found), member) => self.leave(found, member.ok().filter(|_| !is_abandoned)).await,
        };
        let left = "the Cell was deleted with fedgate.dev/abandon: its objects at the cluster stay, each with annotation \
                    fedgate.dev/cell-uid";
        if self.report.add(Step::Drained, ended) {
            self.report.end = End::CleanedUp(is_abandoned.then(|| left.to_owned()));
        }
    }

    async fn leave(&self, found: &CellCluster, member: Option<Plane>) -> Result<(), Problem> {
        let is_abandoned = self.present.is_abandoned();
        if let Some(member) = &member {
            self.same_member(&member.id().await.map_err(|error| of_member(&error))?)?;
        }
        let hub = self.hub().await?;
        let clusters = hub.clusters().await;
        let clusters = clusters.map_err(|error| Problem::of(&error, Reason::Leaving))?;
        let is_own = |cluster: &Cluster<'_>| {
            let is_usable = mark(cluster.0).is_some() || cluster.is_adopted();
            cluster.name() == self.name && cluster.id() == found.id && is_usable
        };
        let own = clusters.iter().map(Cluster).find(is_own);
        if own.is_some() {
            let drained = self.drain(member.as_ref(), is_abandoned || self.present.allows_outage());
            match drained.await {
                // The program of a cluster that is gone takes nothing back.
                Err(problem) if is_abandoned && problem.reason == Reason::Emptying => {}
                drained => drained?,
            }
        }
        let leave = Leave {
            name: self.name,
            hub,
            member,
            foreign: match own {
                Some(own) if mark(own.0).is_none() => ForeignCluster::Release,
                Some(_) => ForeignCluster::Refuse,
                None => ForeignCluster::Ignore,
            },
            force: is_abandoned,
            wait: STEP_TIMEOUT,
            kinds: &self.ctx.kinds,
            id: Some(&found.id),
        };
        let left = leave.run(self.executor()).await;
        left.map(drop).map_err(|error| match (error.kind, error.reason) {
            (Kind::Refused, None) => Problem::new(Reason::Emptying, error.message()),
            _ => Problem::of(&error, Reason::Leaving),
        })
    }
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
