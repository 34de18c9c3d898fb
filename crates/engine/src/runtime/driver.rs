//! The loop of every controller: observe, decide, read or execute, and decide again until nothing is left to do.

use super::{context::Context, index::RoleState};
use crate::{
    error::Failure,
    key::Key,
    plan::{Applied, Effect, Plan, Prepared, Requeue},
};

/// Maximum number of passes of one reconcile: each write may enable the next step.
pub const MAX_PASSES: usize = 8;

/// A decision.
#[derive(Debug)]
pub enum Step<B> {
    /// Nothing can or need be done now.
    End(Requeue),
    /// A write of this reconcile has failed, and nothing else is left to do.
    Fail(Failure),
    /// [`Reconciler::read`] is called, and the key is decided again.
    Read(B),
    /// The plan is executed if [`Reconciler::confirm`] agrees, and the key is decided again. An idle plan ends the
    /// reconcile with [`Reconciler::settled`].
    Apply(Plan<Prepared>, B),
}

/// How a reconcile goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// With the next step; after a read or a write, that is another decision.
    Go,
    /// With another decision.
    Again,
    /// Not at all.
    End(Requeue),
}

impl Flow {
    /// With the next step if it `is_confirmed`; otherwise a change is awaited.
    pub fn go_if(is_confirmed: bool) -> Self {
        if is_confirmed {
            Self::Go
        } else {
            Self::End(Requeue::AwaitChange)
        }
    }
}

/// One reconcile of a key by a controller.
pub struct Reconcile<'a, R: Reconciler + ?Sized> {
    /// The state that all controllers of the role share.
    pub ctx: &'a Context<'a, R::State>,
    /// The key.
    pub key: &'a Key,
    /// The state of this reconcile, e.g. an object that the controller has read.
    pub session: R::Session,
}

/// A controller. The driver calls its methods in their order; those with a default do nothing.
pub trait Reconciler: Send + Sync {
    /// State that the controllers of the role share.
    type State: RoleState;
    /// State of one reconcile.
    type Session: Default + Send;
    /// The basis of a decision, for the steps that follow it.
    type Basis: Send + Sync;

    /// Name of the controller, for logs.
    const NAME: &'static str;

    /// Begins a reconcile.
    fn begin(&self, _ctx: &Context<'_, Self::State>, _key: &Key) -> Self::Session {
        Self::Session::default()
    }

    /// Observes the index and decides. Sends no request.
    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Self::Basis>;

    /// Reads what the decision needs, or publishes its Event.
    fn read(
        &self,
        _run: &mut Reconcile<'_, Self>,
        _basis: &Self::Basis,
    ) -> impl Future<Output = Result<Flow, Failure>> + Send {
        async { Ok(Flow::Again) }
    }

    /// The plan has nothing to execute, and the reconcile ends.
    fn settled(&self, _run: &mut Reconcile<'_, Self>, _basis: &Self::Basis) {}

    /// The last check before the plan is executed, e.g. by a read from the server; [`Flow::Go`] executes it.
    fn confirm(
        &self,
        _run: &mut Reconcile<'_, Self>,
        _basis: &Self::Basis,
        _plan: &Plan<Prepared>,
    ) -> impl Future<Output = Result<Flow, Failure>> + Send {
        async { Ok(Flow::Go) }
    }

    /// A write of the plan was applied, whatever becomes of the others.
    fn applied(&self, _ctx: &Context<'_, Self::State>, _key: &Key, _effect: &Effect) {}

    /// Every write of the plan was applied.
    fn executed(&self, _run: &mut Reconcile<'_, Self>, _basis: &Self::Basis, _plan: &Plan<Applied>) -> Flow {
        Flow::Again
    }

    /// A write failed. An error is returned to the queue.
    fn failed(
        &self,
        _run: &mut Reconcile<'_, Self>,
        _basis: &Self::Basis,
        failure: Failure,
    ) -> impl Future<Output = Result<Flow, Failure>> + Send {
        async { Err(failure) }
    }

    /// The reconcile has ended, whatever its result.
    fn end(&self, _ctx: &Context<'_, Self::State>, _key: &Key, _session: Self::Session) {}

    /// The log line of an executed plan; `None` if the writes are logged elsewhere.
    fn message(&self, _basis: &Self::Basis) -> Option<&'static str> {
        None
    }
}

/// Reconciles a key with its controller.
pub async fn reconcile<R: Reconciler>(
    controller: &R,
    ctx: &Context<'_, R::State>,
    key: &Key,
) -> Result<Requeue, Failure> {
    let session = controller.begin(ctx, key);
    let mut run = Reconcile { ctx, key, session };
    let result = passes(controller, &mut run).await;
    controller.end(ctx, key, run.session);
    result
}

async fn passes<R: Reconciler>(controller: &R, run: &mut Reconcile<'_, R>) -> Result<Requeue, Failure> {
    let mut next = Requeue::AwaitChange;
    for _ in 0..MAX_PASSES {
        let flow = match controller.decide(run) {
            Step::End(requeue) => return Ok(requeue),
            Step::Fail(failure) => return Err(failure),
            Step::Read(basis) => controller.read(run, &basis).await?,
            Step::Apply(plan, basis) if plan.is_idle() => {
                controller.settled(run, &basis);
                return Ok(plan.next);
            }
            Step::Apply(plan, basis) => match controller.confirm(run, &basis, &plan).await? {
                Flow::Go => {
                    next = plan.next;
                    execute(controller, run, &basis, plan).await?
                }
                flow => flow,
            },
        };
        if let Flow::End(requeue) = flow {
            return Ok(requeue);
        }
    }
    Ok(next)
}

async fn execute<R: Reconciler>(
    controller: &R,
    run: &mut Reconcile<'_, R>,
    basis: &R::Basis,
    plan: Plan<Prepared>,
) -> Result<Flow, Failure> {
    let (ctx, key) = (run.ctx, run.key);
    let applied = |effect: &Effect| controller.applied(ctx, key, effect);
    match ctx.execute_each(plan, &applied).await {
        Ok(plan) => {
            if let Some(message) = controller.message(basis) {
                log(R::NAME, key, &plan, message);
            }
            Ok(controller.executed(run, basis, &plan))
        }
        Err(failure) => controller.failed(run, basis, failure).await,
    }
}

/// Logs one line for an executed plan.
fn log(controller: &'static str, key: &Key, plan: &Plan<Applied>, message: &str) {
    let Some(first) = plan.effects.first() else {
        return;
    };
    let change = |effect: &Effect| format!("{} {}", effect.reason, effect.target.name);
    let changes: Vec<String> = plan.effects.iter().map(change).collect();
    let (namespace, name) = (&*key.namespace, &*key.name);
    tracing::info!(plane = %first.target.plane, controller, kind = %key.kind, namespace, name, %key, changes = changes.join(", "), "{message}");
}
