//! Kinds of the platform: each object of the hub is projected into every project that serves the kind, and restored there
//! (contract: clusters.md §8).
//!
//! The key is that of the project's object, so that one project never delays another. A key on the hub only reports an object
//! that cannot be projected, once for all projects.

pub mod decide;

#[cfg(test)]
mod tests;

use super::{
    context::{Context, State, publish},
    effects,
    index::{
        GatewayIndex, TableId,
        rows::{PlatformProjection, Unprojected},
    },
    reason::Verdict,
};
use decide::{Snapshot, decide};
use fedgate_engine::{
    error::Failure,
    key::{Key, Plane},
    plan::{Applied, Plan, Requeue},
    reconcile::{memory::Memories, normalized::Normalized},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
    store::table::Row,
};

/// The controller, and the payloads that the projects' API servers changed when they were written.
#[derive(Debug, Default)]
pub struct Platform {
    memory: Memories<Normalized>,
}

impl Platform {
    /// Reports an object of the hub that cannot be projected: a log line, and the quarantine.
    pub fn examine(&self, ctx: &Context<'_>, key: &Key) -> Requeue {
        let unprojected = unprojected(&ctx.index.lock(), key);
        let Some(unprojected) = unprojected else {
            ctx.quarantine.release(key);
            return Requeue::AwaitChange;
        };
        let (verdict, detail) = match unprojected {
            Unprojected::Broken => (Verdict::Undecodable, "it cannot be decoded".to_owned()),
            Unprojected::TooLarge(u32::MAX) => (
                Verdict::TooLarge,
                "it has too many levels of lists and maps".to_owned(),
            ),
            Unprojected::TooLarge(size) => {
                let largest = ctx.index.lock().largest_spec;
                let detail =
                    format!("it has {size} bytes, at most {largest} are projected (--max-spec-size)");
                (Verdict::TooLarge, detail)
            }
        };
        if ctx.quarantine.insert(key, verdict) {
            let (name, reason) = (&*key.name, verdict.label());
            tracing::warn!(
                plane = "hub", controller = Self::NAME, kind = %key.kind, name, %key, reason, detail,
                "object of the platform is not projected, what the projects have of it stays; correct it on the hub"
            );
        }
        Requeue::AwaitChange
    }

    /// Drops what is remembered of projects that are not engaged.
    pub fn prune(&self, index: &GatewayIndex) {
        self.memory.retain(
            |key, _| matches!(&key.plane, Plane::Project(project) if index.projects.contains_key(project)),
        );
    }
}

/// Why the hub's object of a key cannot be projected.
fn unprojected(index: &GatewayIndex, key: &Key) -> Option<Unprojected> {
    let Some(TableId::Platform(kind)) = index.table_of_kind(&key.kind) else {
        return None;
    };
    let row = index.hub.platform[kind].get("", &key.name)?;
    row.digest.payload.as_ref().err().copied()
}

/// Takes the snapshot; `None` while a list that it depends on is incomplete.
fn observe(index: &GatewayIndex, key: &Key) -> Option<Snapshot> {
    let (Plane::Project(project), Some(TableId::Platform(kind))) =
        (&key.plane, index.table_of_kind(&key.kind))
    else {
        return None;
    };
    if !index.compares_platform(kind, project) {
        return None;
    }
    let of = index.projects.get(project)?;
    Some(Snapshot {
        project: project.clone(),
        resource: index.platform[kind].resource.clone(),
        name: key.name.clone(),
        object: index.hub.platform[kind].get("", &key.name).cloned(),
        projection: of.platform[kind].rows.get("", &key.name).cloned(),
        unproven: index.unproven_platform(kind, project),
    })
}

impl Reconciler for Platform {
    type State = State;
    type Session = Normalized;
    type Basis = Snapshot;

    const NAME: &'static str = "platform";

    fn begin(&self, _: &Context<'_>, key: &Key) -> Normalized {
        self.memory.take(key)
    }

    fn end(&self, _: &Context<'_>, key: &Key, memory: Normalized) {
        self.memory.put(key, memory);
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Snapshot> {
        let mut index = run.ctx.index.lock();
        let Some(snapshot) = observe(&index, run.key) else {
            return Step::End(Requeue::AwaitChange);
        };
        if let Some(plane) = &snapshot.unproven {
            index.await_proof(plane.clone(), run.key);
        }
        drop(index);
        let plan = decide(&snapshot, run.session);
        let Some(plan) = plan else {
            return Step::Read(snapshot);
        };
        run.ctx.quarantine.lift(run.key, Verdict::NameTaken);
        Step::Apply(plan, snapshot)
    }

    /// The name belongs to another object of the project.
    async fn read(&self, run: &mut Reconcile<'_, Self>, s: &Snapshot) -> Result<Flow, Failure> {
        if let Some(row) = &s.projection
            && run.ctx.quarantine.insert(run.key, Verdict::NameTaken)
        {
            report_taken(run.ctx, run.key, s, row).await;
        }
        Ok(Flow::End(Requeue::AwaitChange))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, s: &Snapshot, plan: &Plan<Applied>) -> Flow {
        let stored = observe(&run.ctx.index.lock(), run.key).and_then(|s| s.projection);
        if let (Some(asked), Some(got)) = (&s.object, stored)
            && plan.produced_version(&got.resource_version())
        {
            run.session.record(asked.digest.content, got.digest.content);
        }
        Flow::Again
    }

    fn message(&self, _: &Snapshot) -> Option<&'static str> {
        Some("object of the platform written")
    }
}

/// Reports to a project, once, that an object of its own has the name of one of the platform.
async fn report_taken(ctx: &Context<'_>, key: &Key, s: &Snapshot, row: &Row<PlatformProjection>) {
    let (plane, name) = (&key.plane, &*key.name);
    tracing::warn!(%plane, controller = Platform::NAME, kind = %key.kind, name, %key, reason = Verdict::NameTaken.label(), "object of the platform is not projected, the project has one of its own by this name");
    let message = format!(
        "the platform has a {} {name}, which this project does not get while this object has the name; rename or \
         delete it",
        s.resource.kind
    );
    let about = effects::about(&s.resource, "", name, &row.uid);
    let words = ["PlatformNameTaken", "ProjectingPlatformObject"];
    publish(
        ctx,
        effects::event(key.plane.clone(), about, true, words, message),
    )
    .await;
}
