//! Orphaned bindings: Karmada leaves a `ResourceBinding` whose template is deleted to the hub's garbage collector. If
//! the collector misses the delete event, it never retries: the Work stays, and the cell keeps running the workload
//! (contract: federation.md §3.11).

use super::{Garbage, NAME, decide::left};
use crate::{
    context::State,
    effects::delete,
    index::{GatewayIndex, TableId, rows::Template},
    reason::WriteReason,
};
use fedgate_api::names::HubNamespace;
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::{Key, Plane},
    plan::{Applied, Effect, Plan, Prepared, Requeue, Target},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time for the hub's garbage collector to delete the binding itself; after its own restart it needs seconds.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// A binding whose template is missing from the index.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OrphanedBinding {
    target: Target,
    uid: Arc<str>,
    /// The object that it binds.
    template: Target,
    /// UID of the template from the owner reference; `None` if the binding names no owner.
    owner: Option<Arc<str>>,
    /// Time since when the binding is known to be an orphan.
    since: Option<Instant>,
}

/// Result of a read of the template from the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Lookup {
    /// The template has not been read in this reconcile.
    #[default]
    Unknown,
    /// No object of this name exists.
    Absent,
    /// The object of this name has this UID.
    Found(String),
}

/// A decision on a binding.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    /// The binding is no orphan: forget it.
    Keep,
    /// The binding has been an orphan since this instant; wait this long for the collector.
    Wait(Instant, Duration),
    /// Read the template from the hub: absence in the index proves nothing.
    Read(Target),
    /// Delete the binding.
    Delete(Plan<Prepared>),
}

/// Decides on a binding that may be an orphan.
pub(super) fn decide(orphan: Option<&OrphanedBinding>, template: &Lookup, now: Now) -> Decision {
    let Some(orphan) = orphan else {
        return Decision::Keep;
    };
    let since = orphan.since.unwrap_or(now.instant);
    if let Some(left) = left(since, GRACE_PERIOD, now) {
        return Decision::Wait(since, left);
    }
    match (template, &orphan.owner) {
        (Lookup::Unknown, _) => return Decision::Read(orphan.template.clone()),
        (Lookup::Found(_), None) => return Decision::Keep,
        (Lookup::Found(uid), Some(owner)) if *uid == **owner => return Decision::Keep,
        (Lookup::Found(_), Some(_)) | (Lookup::Absent, _) => {}
    }
    let reason = WriteReason::DeleteOrphanedBinding;
    Decision::Delete(Plan::one(Effect::main(
        orphan.target.clone(),
        delete(&orphan.uid),
        reason,
    )))
}

impl Garbage {
    /// Decides on a binding, and remembers since when it is an orphan.
    pub(super) fn decide_binding(
        &self,
        index: &GatewayIndex,
        key: &Key,
        template: &Lookup,
        now: Now,
    ) -> Decision {
        let mut memory = self.memory.lock();
        let mut orphan = observe(index, key);
        if let Some(orphan) = &mut orphan {
            orphan.since = memory.rest.get(key, &orphan.uid);
        }
        let decision = decide(orphan.as_ref(), template, now);
        match (&decision, orphan) {
            (Decision::Wait(since, _), Some(orphan)) => memory.rest.set(key, Some((orphan.uid, *since))),
            (Decision::Keep, _) | (_, None) => memory.rest.forget(key),
            (Decision::Read(_) | Decision::Delete(_), Some(_)) => {}
        }
        decision
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
        target: Target::namespaced(Plane::Hub, &index.resource(TableId::Bindings), hub, name),
        uid: row.uid.clone(),
        template: Target::namespaced(Plane::Hub, &index.resource(template), hub, &row.digest.name),
        owner: row.digest.owner.clone(),
        since: None,
    })
}

/// The reconciler of bindings.
#[derive(Debug)]
pub struct Bindings<'a>(pub &'a Garbage);

impl Reconciler for Bindings<'_> {
    type State = State;
    type Session = Lookup;
    /// The template to read; `None` once it was read.
    type Basis = Option<Target>;

    const NAME: &'static str = NAME;

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Option<Target>> {
        let index = run.ctx.index.lock();
        match self
            .0
            .decide_binding(&index, run.key, &run.session, run.ctx.now())
        {
            Decision::Keep => Step::End(Requeue::AwaitChange),
            Decision::Wait(_, left) => Step::End(Requeue::After(left)),
            Decision::Read(template) => Step::Read(Some(template)),
            Decision::Delete(plan) => Step::Apply(plan, None),
        }
    }

    /// Reads the template for this decision only. The index holds labelled `ConfigMaps` and Secrets alone; an unlabelled
    /// object stored there would count as a companion without references.
    async fn read(&self, run: &mut Reconcile<'_, Self>, template: &Option<Target>) -> Result<Flow, Failure> {
        if let Some(template) = template {
            let found = run.ctx.executor.get(template).await?;
            run.session = found.map_or(Lookup::Absent, |object| {
                Lookup::Found(object.metadata.uid.unwrap_or_default())
            });
        }
        Ok(Flow::Again)
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, _: &Option<Target>, _: &Plan<Applied>) -> Flow {
        self.0.forget(run.key);
        Flow::End(Requeue::AwaitChange)
    }

    fn message(&self, _: &Option<Target>) -> Option<&'static str> {
        Some("orphaned binding deleted")
    }
}
