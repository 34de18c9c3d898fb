//! Confirms with the origin's own plane that an origin is missing before an object is deleted for its absence in the
//! index. If the plane does not answer, the object is kept; an origin that is read updates the index.

use super::{context::Context, index::GatewayIndex};
use fedgate_api::keys;
use fedgate_engine::{error::Failure, executor::Selector, plan::Target};
use kube::core::DynamicObject;
use std::sync::Arc;

/// Address and UID of an origin; `None` if they are unknown: then no plane can be asked, and the object is kept.
pub type Origin = Option<(Target, Arc<str>)>;

/// True if the deployment that a copy in a hub namespace was made from is deleted, or being deleted without the federator's finalizer.
pub async fn deployment_gone(ctx: &Context<'_>, hub: &str, origin: &Origin) -> Result<bool, Failure> {
    let released = |found: &DynamicObject| {
        let mut finalizers = found.metadata.finalizers.iter().flatten();
        found.metadata.deletion_timestamp.is_some() && !finalizers.any(|f| f == keys::FEDERATOR_FINALIZER)
    };
    is_gone(ctx, hub, origin, released).await
}

/// True if the namespace that a hub namespace was made for is deleted.
pub async fn namespace_gone(ctx: &Context<'_>, hub: &str, origin: &Origin) -> Result<bool, Failure> {
    is_gone(ctx, hub, origin, |_| false).await
}

/// No plane is asked about a hub namespace whose whole Project is deleted.
async fn is_gone(
    ctx: &Context<'_>,
    hub: &str,
    origin: &Origin,
    released: impl Fn(&DynamicObject) -> bool,
) -> Result<bool, Failure> {
    if ctx.index.lock().is_torn_down(hub) {
        return Ok(true);
    }
    let Some((target, uid)) = origin else {
        return Ok(false);
    };
    let is_there = |found: &DynamicObject| found.metadata.uid.as_deref() == Some(&**uid) && !released(found);
    let is_there = ctx.executor.refresh(target, is_there).await? == Some(true);
    if is_there {
        tracing::warn!(
            plane = %target.plane,
            kind = %target.kind(),
            namespace = target.namespace,
            name = target.name,
            "the origin exists although the watch had not shown it; its objects are kept"
        );
    }
    Ok(!is_there)
}

/// True if no object of this name exists.
pub async fn is_absent(ctx: &Context<'_>, target: &Target) -> Result<bool, Failure> {
    Ok(ctx.executor.refresh(target, |_| ()).await?.is_none())
}

/// True if no object of a kind has this label, by a list from the server instead of the index; objects being deleted do
/// not count.
pub async fn is_unused(ctx: &Context<'_>, kind: &Target, key: &str, value: &str) -> Result<bool, Failure> {
    Ok(!ctx.executor.any(kind, Selector::Label(key, value)).await?)
}

/// True if the planes of a hub namespace cannot prove absence now; the key is enqueued once they can.
pub fn awaits_proof(index: &mut GatewayIndex, key: &fedgate_engine::key::Key, hub: &str) -> bool {
    let Some(plane) = index.lacks_proof(hub) else {
        return false;
    };
    index.await_proof(plane, key);
    true
}
