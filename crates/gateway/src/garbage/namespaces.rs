//! Hub Namespaces whose project namespace is gone.

use super::{
    Garbage, NAME,
    decide::{self, Decision},
    observe,
};
use crate::{
    confirm::{self, Origin},
    context::State,
    index::GatewayIndex,
    queries::lifecycle,
    settings::Settings,
};
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::Key,
    plan::{Applied, Plan, Prepared},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};

/// The reconciler of hub Namespaces that no project namespace owns.
#[derive(Debug)]
pub struct Namespaces<'a>(pub &'a Garbage);

impl Garbage {
    pub(super) fn decide_namespace(
        &self,
        index: &GatewayIndex,
        key: &Key,
        settings: &Settings,
        now: Now,
    ) -> (Plan<Prepared>, Vec<Key>) {
        let mut memory = self.memory.lock();
        let snapshot = observe::namespace(index, &memory, key);
        let Decision { plan, since } = decide::namespace(&snapshot, settings, now);
        let wake = if snapshot.orphaned() {
            observe::leftovers(index, &key.name)
        } else {
            Vec::new()
        };
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        (plan, wake)
    }
}

impl Reconciler for Namespaces<'_> {
    type State = State;
    type Session = ();
    /// The project namespace that it was made for.
    type Basis = Origin;

    const NAME: &'static str = NAME;

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Origin> {
        let mut index = run.ctx.index.lock();
        if let Some(plane) = observe::unproven_namespace(&index, run.key) {
            index.await_proof(plane, run.key);
        }
        let (plan, leftovers) = self
            .0
            .decide_namespace(&index, run.key, &run.ctx.settings, run.ctx.now());
        let origin = lifecycle::origin_namespace(&index, &run.key.name);
        drop(index);
        run.ctx.queue.extend(leftovers, Priority::Fresh);
        Step::Apply(plan, origin)
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        origin: &Origin,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let is_gone = confirm::namespace_gone(run.ctx, &run.key.name, origin).await?;
        Ok(self.0.go_if(run.key, is_gone))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, _: &Origin, _: &Plan<Applied>) -> Flow {
        self.0.done(run.key)
    }

    fn message(&self, _: &Origin) -> Option<&'static str> {
        Some("hub Namespace collected")
    }
}
