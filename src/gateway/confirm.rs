//! Before something goes because that from which it came is not seen, its origin is asked for at its own plane. A plane
//! that cannot be asked keeps everything, and an origin that answers is known from then on.

use super::{context::Turn, world::World};
use crate::{
    api::keys,
    engine::{error::Failure, executor::Which, plan::Target},
};
use kube::core::DynamicObject;
use std::sync::Arc;

/// Where an origin is, and its UID; `None` if that is not known: then nothing can be asked, and nothing goes.
pub type Origin = Option<(Target, Arc<str>)>;

/// Whether the deployment that a copy was made from is gone, or has let go of the hub.
pub async fn deployment_gone(ctx: &Turn<'_>, origin: Origin) -> Result<bool, Failure> {
    let let_go = |found: &DynamicObject| {
        let mut finalizers = found.metadata.finalizers.iter().flatten();
        found.metadata.deletion_timestamp.is_some() && !finalizers.any(|f| f == keys::FEDERATOR_FINALIZER)
    };
    is_gone(ctx, origin, let_go).await
}

/// Whether the namespace that a hub namespace was made for is gone.
pub async fn namespace_gone(ctx: &Turn<'_>, origin: Origin) -> Result<bool, Failure> {
    is_gone(ctx, origin, |_| false).await
}

async fn is_gone(
    ctx: &Turn<'_>,
    origin: Origin,
    let_go: impl Fn(&DynamicObject) -> bool,
) -> Result<bool, Failure> {
    let Some((target, uid)) = origin else {
        return Ok(false);
    };
    let found = ctx.executor.reread(&target).await?;
    let there = found.filter(|found| found.metadata.uid.as_deref() == Some(&*uid) && !let_go(found));
    if there.is_some() {
        tracing::warn!(
            plane = %target.plane,
            kind = %target.kind(),
            namespace = target.namespace,
            name = target.name,
            "it was not seen and is there: what came of it stays"
        );
    }
    Ok(there.is_none())
}

/// Whether there is no object of a name.
pub async fn is_absent(ctx: &Turn<'_>, target: &Target) -> Result<bool, Failure> {
    Ok(ctx.executor.reread(target).await?.is_none())
}

/// Whether no object of a kind that is here to stay has a label, whatever its watch shows.
pub async fn is_unused(ctx: &Turn<'_>, kind: &Target, key: &str, value: &str) -> Result<bool, Failure> {
    Ok(!ctx.executor.any(kind, Which::Labelled(key, value)).await?)
}

/// Notes that a key of a hub namespace waits for its planes to show enough for absence to count; whether it does.
pub fn awaits_proof(world: &mut World, key: &crate::engine::key::Key, hub: &str) -> bool {
    let Some(plane) = world.lacks_proof(hub) else {
        return false;
    };
    world.await_proof(plane, key);
    true
}
