//! Policies of city sets that no hub Namespace uses.

use super::{
    Garbage, NAME,
    decide::{self, Decision},
    observe,
};
use crate::{
    confirm,
    context::{Context, State},
    index::{GatewayIndex, TableId},
    settings::Settings,
};
use fedgate_api::{keys, names::city_set_of};
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::{Key, Plane},
    plan::{Applied, Plan, Prepared, Requeue, Target},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};

/// The reconciler of city sets' policies.
#[derive(Debug)]
pub struct CitySets<'a>(pub &'a Garbage);

impl Garbage {
    pub(super) fn decide_city_set(
        &self,
        index: &GatewayIndex,
        key: &Key,
        settings: &Settings,
        now: Now,
    ) -> Plan<Prepared> {
        let mut memory = self.memory.lock();
        let snapshot = observe::city_set(index, &memory, key);
        let Decision { plan, since } = decide::city_set(&snapshot, settings, now);
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        plan
    }
}

/// True unless a list from the hub, not the index, shows a Namespace with the set's label.
async fn is_unused(ctx: &Context<'_>, key: &Key) -> Result<bool, Failure> {
    let namespaces = Target::cluster(Plane::Hub, ctx.index.lock().resource(TableId::Namespaces), "");
    let set = city_set_of(&key.name).unwrap_or_default();
    let unused = confirm::is_unused(ctx, &namespaces, keys::CITIES, set).await?;
    if !unused {
        tracing::warn!(
            plane = "hub",
            controller = NAME,
            kind = %key.kind,
            name = &*key.name,
            %key,
            "a Namespace that the watch had not shown uses this city set; its policy is kept"
        );
    }
    Ok(unused)
}

/// The deletion of a city set's policy has ended: Namespaces may rely on the policy again, if it still exists.
fn ended(ctx: &Context<'_>, key: &Key) {
    let mut index = ctx.index.lock();
    if !index.intents.ending_sets.remove(&key.name) {
        return;
    }
    // If the policy is deleted, its delete event enqueues the keys that wait for it.
    let waiting = match index.hub.city_sets.get("", &key.name) {
        Some(_) => index.namespace_keys_of_set(city_set_of(&key.name).unwrap_or_default()),
        None => Vec::new(),
    };
    drop(index);
    ctx.queue.extend(waiting, Priority::Fresh);
}

impl Reconciler for CitySets<'_> {
    type State = State;
    type Session = ();
    type Basis = ();

    const NAME: &'static str = NAME;

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<()> {
        let mut index = run.ctx.index.lock();
        if !index.hub_proves() {
            index.await_proof(Plane::Hub, run.key);
        }
        let plan = self
            .0
            .decide_city_set(&index, run.key, &run.ctx.settings, run.ctx.now());
        if !plan.is_idle() {
            index.intents.ending_sets.insert(run.key.name.clone());
        }
        Step::Apply(plan, ())
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        (): &(),
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        if is_unused(run.ctx, run.key).await? {
            return Ok(Flow::Go);
        }
        self.0.forget(run.key);
        Ok(Flow::End(Requeue::After(run.ctx.settings.sweep_interval)))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, (): &(), _: &Plan<Applied>) -> Flow {
        self.0.done(run.key)
    }

    fn end(&self, ctx: &Context<'_>, key: &Key, (): ()) {
        ended(ctx, key);
    }

    fn message(&self, (): &()) -> Option<&'static str> {
        Some("unused city set deleted")
    }
}
