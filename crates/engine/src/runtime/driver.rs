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

/// A controller. The driver calls its methods in their order; those with a default do nothing.
pub trait Reconciler: Send + Sync {
    /// State that the controllers of the role share.
    type State: RoleState;
    /// State of one reconcile, e.g. what it has read.
    type Session: Send;
    /// The basis of a decision, for the steps that follow it.
    type Basis: Send + Sync;

    /// Name of the controller, for logs.
    const NAME: &'static str;

    /// Begins a reconcile.
    fn begin(&self, cx: &Context<'_, Self::State>, key: &Key) -> Self::Session;

    /// Observes the index and decides. Sends no request.
    fn decide(
        &self,
        cx: &Context<'_, Self::State>,
        key: &Key,
        session: &mut Self::Session,
    ) -> Step<Self::Basis>;

    /// Reads what the decision needs, or publishes its Event.
    fn read(
        &self,
        _cx: &Context<'_, Self::State>,
        _key: &Key,
        _session: &mut Self::Session,
        _basis: &Self::Basis,
    ) -> impl Future<Output = Result<Flow, Failure>> + Send {
        async { Ok(Flow::Again) }
    }

    /// The plan has nothing to execute, and the reconcile ends.
    fn settled(
        &self,
        _cx: &Context<'_, Self::State>,
        _key: &Key,
        _session: &mut Self::Session,
        _basis: &Self::Basis,
    ) {
    }

    /// The last check before the plan is executed, e.g. by a read from the server; [`Flow::Go`] executes it.
    fn confirm(
        &self,
        _cx: &Context<'_, Self::State>,
        _key: &Key,
        _session: &mut Self::Session,
        _basis: &Self::Basis,
        _plan: &Plan<Prepared>,
    ) -> impl Future<Output = Result<Flow, Failure>> + Send {
        async { Ok(Flow::Go) }
    }

    /// Every write of the plan was applied.
    fn executed(
        &self,
        _cx: &Context<'_, Self::State>,
        _key: &Key,
        _session: &mut Self::Session,
        _basis: &Self::Basis,
        _plan: &Plan<Applied>,
    ) -> Flow {
        Flow::Go
    }

    /// A write failed. An error is returned to the queue.
    fn failed(
        &self,
        _cx: &Context<'_, Self::State>,
        _key: &Key,
        _session: &mut Self::Session,
        _basis: &Self::Basis,
        failure: Failure,
    ) -> impl Future<Output = Result<Flow, Failure>> + Send {
        async { Err(failure) }
    }

    /// The reconcile has ended, whatever its result.
    fn end(&self, _cx: &Context<'_, Self::State>, _key: &Key, _session: Self::Session) {}

    /// The log line of an executed plan; `None` if the writes are logged elsewhere.
    fn message(&self, basis: &Self::Basis) -> Option<&'static str>;
}

/// Reconciles a key with its controller.
pub async fn reconcile<R: Reconciler>(
    controller: &R,
    cx: &Context<'_, R::State>,
    key: &Key,
) -> Result<Requeue, Failure> {
    let mut session = controller.begin(cx, key);
    let result = passes(controller, cx, key, &mut session).await;
    controller.end(cx, key, session);
    result
}

async fn passes<R: Reconciler>(
    controller: &R,
    cx: &Context<'_, R::State>,
    key: &Key,
    session: &mut R::Session,
) -> Result<Requeue, Failure> {
    for _ in 0..MAX_PASSES {
        let flow = match controller.decide(cx, key, session) {
            Step::End(requeue) => return Ok(requeue),
            Step::Fail(failure) => return Err(failure),
            Step::Read(basis) => controller.read(cx, key, session, &basis).await?,
            Step::Apply(plan, basis) if plan.is_idle() => {
                controller.settled(cx, key, session, &basis);
                return Ok(plan.next);
            }
            Step::Apply(plan, basis) => match controller.confirm(cx, key, session, &basis, &plan).await? {
                Flow::Go => execute(controller, cx, key, session, &basis, plan).await?,
                flow => flow,
            },
        };
        if let Flow::End(requeue) = flow {
            return Ok(requeue);
        }
    }
    Ok(Requeue::AwaitChange)
}

async fn execute<R: Reconciler>(
    controller: &R,
    cx: &Context<'_, R::State>,
    key: &Key,
    session: &mut R::Session,
    basis: &R::Basis,
    plan: Plan<Prepared>,
) -> Result<Flow, Failure> {
    match cx.execute(plan).await {
        Ok(plan) => {
            if let Some(message) = controller.message(basis) {
                log(R::NAME, key, &plan, message);
            }
            Ok(controller.executed(cx, key, session, basis, &plan))
        }
        Err(failure) => controller.failed(cx, key, session, basis, failure).await,
    }
}

/// Logs one line for an executed plan.
fn log(controller: &'static str, key: &Key, plan: &Plan<Applied>, message: &str) {
    let Some(first) = plan.effects.first() else {
        return;
    };
    let change = |effect: &Effect| format!("{} {}", effect.reason, effect.target.name);
    let changes: Vec<String> = plan.effects.iter().map(change).collect();
    tracing::info!(plane = %first.target.plane, controller, %key, changes = changes.join(", "), "{message}");
}
