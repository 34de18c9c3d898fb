//! Orphaned bindings: Karmada leaves a `ResourceBinding` whose template is gone to the hub's garbage collector. A collector
//! that lost the event never looks again, the Work stays, and the cell runs on (contract: federation.md §3.11).

use super::{Garbage, decide::left};
use crate::{
    api::names::HubNamespace,
    engine::{
        clock::Now,
        error::Failure,
        key::{Key, Plane},
        plan::{Effect, Endpoint, Next, Plan, Prepared, Target, Write},
    },
    gateway::{
        context::{PASSES, Turn},
        world::{Role, World},
    },
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long the hub's garbage collector has for itself, which takes seconds after its own restart.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// A binding that the index shows without the template it was made for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OrphanedBinding {
    target: Target,
    uid: Arc<str>,
    /// The object that it binds.
    template: Target,
    /// UID of the template that it was made for; `None` if it names no owner.
    owner: Option<Arc<str>>,
    /// Since when it is known to be an orphan.
    since: Option<Instant>,
}

/// The hub's own answer about the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Nobody has asked in this reconcile.
    Unknown,
    /// There is no object of the name.
    Absent,
    /// The object of the name has this UID.
    Found(String),
}

/// A decision on a binding.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    /// It is no orphan: forget it.
    Keep,
    /// It has been an orphan since then, and waits for the collector.
    Wait(Instant, Duration),
    /// Read the template from the hub: absence in the index proves nothing.
    Read(Target),
    /// Delete it.
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
    Decision::Delete(Plan::one(Effect {
        target: orphan.target.clone(),
        endpoint: Endpoint::Main,
        write: Write::Delete {
            uid: orphan.uid.to_string(),
            resource_version: None,
        },
        reason: "delete_orphaned_binding",
    }))
}

impl Garbage {
    /// Reconciles a binding on the hub.
    pub async fn binding(&self, ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        let mut template = Lookup::Unknown;
        for _ in 0..PASSES {
            let decision = self.judge_binding(&ctx.world.lock(), key, &template, ctx.now());
            match decision {
                Decision::Keep => return Ok(Next::OnEvent),
                Decision::Wait(_, left) => return Ok(Next::After(left)),
                Decision::Read(target) => {
                    // Read for this decision only: the index has labelled ConfigMaps and Secrets alone, and one without the
                    // label would count there as a companion that nobody references.
                    let found = ctx.executor.get(&target).await?;
                    template = found.map_or(Lookup::Absent, |object| {
                        Lookup::Found(object.metadata.uid.unwrap_or_default())
                    });
                }
                Decision::Delete(plan) => {
                    return self.carry_out(ctx, key, plan, "orphaned binding deleted").await;
                }
            }
        }
        Ok(Next::OnEvent)
    }

    pub(super) fn judge_binding(&self, world: &World, key: &Key, template: &Lookup, now: Now) -> Decision {
        let mut memory = self.memory.lock();
        let mut orphan = observe(world, key);
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

/// The binding of a key, if the index shows it without its template.
fn observe(world: &World, key: &Key) -> Option<OrphanedBinding> {
    let (hub, name) = (&*key.namespace, &*key.name);
    let place = (key.namespace.clone(), key.name.clone());
    if !world.hub_ready() || !world.hub.outlived.contains(&place) || HubNamespace::parse(hub).is_none() {
        return None;
    }
    let row = world.hub.bindings.get(hub, name).filter(|row| !row.deleting)?;
    let template = world.template_role(&row.digest.kind)?;
    Some(OrphanedBinding {
        target: Target::namespaced(Plane::Hub, &world.resource(Role::Bindings), hub, name),
        uid: row.uid.clone(),
        template: Target::namespaced(Plane::Hub, &world.resource(template), hub, &row.digest.name),
        owner: row.digest.owner.clone(),
        since: None,
    })
}
