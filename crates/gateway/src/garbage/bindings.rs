//! Orphaned bindings: Karmada leaves a `ResourceBinding` whose template is deleted to the hub's garbage collector. If
//! the collector misses the delete event, it never retries: the Work stays, and the cell keeps running the workload
//! (contract: federation.md §3.11).

use super::{
    Garbage, NAME,
    decide::{Decision, left},
};
use crate::{
    context::State,
    index::{GatewayIndex, TableId, rows::Template},
    reason::WriteReason,
};
use fedgate_api::names::HubNamespace;
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::{Key, Plane},
    plan::{Applied, Plan, Prepared, Requeue, Target, Write},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use kube::core::DynamicObject;
use std::{sync::Arc, time::Duration};

/// Time for the hub's garbage collector to delete the binding itself; after its own restart it needs seconds.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// A binding whose template is missing from the index.
#[derive(Debug, Clone, PartialEq)]
pub struct OrphanedBinding {
    target: Target,
    uid: Arc<str>,
    /// The object that it binds.
    template: Target,
    /// UID of the template from the owner reference; `None` if the binding names no owner.
    owner: Option<Arc<str>>,
}

impl OrphanedBinding {
    /// True if an object of the template's name is the template.
    fn is_of(&self, found: &DynamicObject) -> bool {
        let uid = found.metadata.uid.as_deref();
        self.owner.as_ref().is_none_or(|owner| uid == Some(&**owner))
    }
}

impl Garbage {
    /// Decides on a binding, and remembers since when it is an orphan.
    pub(super) fn decide_binding(
        &self,
        index: &GatewayIndex,
        key: &Key,
        now: Now,
    ) -> (Plan<Prepared>, Option<OrphanedBinding>) {
        let mut memory = self.memory.lock();
        let orphan = observe(index, key);
        let decision = orphan.as_ref().map_or_else(Decision::none, |orphan| {
            let since = memory.rest.get(key, &orphan.uid).unwrap_or(now.instant);
            match left(since, GRACE_PERIOD, now) {
                Some(left) => Decision::after(since, left),
                None => Decision::delete(
                    since,
                    &orphan.target,
                    Write::delete(&orphan.uid),
                    WriteReason::DeleteOrphanedBinding,
                ),
            }
        });
        let uid = orphan.as_ref().map(|orphan| orphan.uid.clone());
        memory.rest.set(key, uid.zip(decision.since));
        (decision.plan, orphan)
    }
}

/// The binding of a key, if the index has no template for it.
fn observe(index: &GatewayIndex, key: &Key) -> Option<OrphanedBinding> {
    let (hub, name) = (&*key.namespace, &*key.name);
    let place = (key.namespace.clone(), key.name.clone());
    if !index.hub_ready() || !index.hub.outlived.contains(&place) || HubNamespace::parse(hub).is_none() {
        return None;
    }
    let row = index.hub.bindings.get(hub, name).filter(|row| !row.deleting)?;
    let template = match row.digest.template {
        Template::Copy(kind) => TableId::Federated(kind),
        Template::Companion(kind) => TableId::Companions(kind),
        Template::Other => return None,
    };
    Some(OrphanedBinding {
        target: Target::namespaced(Plane::Hub, index.resource(TableId::Bindings), hub, name),
        uid: row.uid.clone(),
        template: Target::namespaced(Plane::Hub, index.resource(template), hub, &row.digest.name),
        owner: row.digest.owner.clone(),
    })
}

/// The reconciler of bindings.
#[derive(Debug)]
pub struct Bindings<'a>(pub &'a Garbage);

impl Reconciler for Bindings<'_> {
    type State = State;
    type Session = ();
    type Basis = Option<OrphanedBinding>;

    const NAME: &'static str = NAME;

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Option<OrphanedBinding>> {
        let index = run.ctx.index.lock();
        let (plan, orphan) = self.0.decide_binding(&index, run.key, run.ctx.now());
        Step::Apply(plan, orphan)
    }

    /// Reads the template for this decision only. The index holds labelled `ConfigMaps` and Secrets alone; an unlabelled
    /// object stored there would count as a companion without references.
    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        orphan: &Option<OrphanedBinding>,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let Some(orphan) = orphan else {
            return Ok(Flow::End(Requeue::AwaitChange));
        };
        let found = run.ctx.executor.get(&orphan.template).await?;
        let is_gone = found.is_none_or(|found| !orphan.is_of(&found));
        Ok(self.0.go_if(run.key, is_gone))
    }

    fn executed(
        &self,
        run: &mut Reconcile<'_, Self>,
        _: &Option<OrphanedBinding>,
        _: &Plan<Applied>,
    ) -> Flow {
        self.0.done(run.key)
    }

    fn message(&self, _: &Option<OrphanedBinding>) -> Option<&'static str> {
        Some("orphaned binding deleted")
    }
}
