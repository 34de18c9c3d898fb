//! The Works on the hub: what each member must have.

use super::{
    refs::{ObjectRef, WORK},
    world::{StepError, World, permanent_id},
};
use fedgate_karmada::{Object, binding, names, schedule, work};
use serde_json::Value;
use std::sync::Arc;

/// The Works of a binding, those that end included.
pub(super) fn of(world: &World, binding: &Value) -> Vec<Arc<Value>> {
    let (label, id) = binding::id(binding);
    let mut works = world.hub.list(WORK, None);
    works.retain(|work| !id.is_empty() && work.label(label) == Some(id));
    works
}

/// Enqueues the Works of a member whose content `filter` accepts.
pub(super) fn wake(world: &World, member: &str, filter: impl Fn(&Value) -> bool) {
    let works = world.hub.list(WORK, Some(&names::work_namespace(member)));
    for work in works.iter().filter(|work| filter(work::content(work))) {
        world.wake(work);
    }
}

/// Creates the Work of a binding for each of its targets, or brings it up to date, and deletes those of members that it does not
/// reach.
pub(super) async fn keep(world: &World, template: &Value, binding: &Value) -> Result<(), StepError> {
    let (reached, targets) = (schedule::reached(binding), schedule::targets_of(binding));
    for work in of(world, binding) {
        let member = names::member_of(work.namespace());
        if member.is_none_or(|member| !reached.contains(member)) {
            world.hub.delete(&work).await?;
        }
    }
    let known = |target: &&String| world.members.contains_key(target.as_str());
    for member in targets.iter().filter(known) {
        write(world, member, template, |id| {
            work::desired(template, binding, member, id)
        })
        .await?;
    }
    Ok(())
}

/// Keeps the Work of a Namespace that is synced to every member. The Work of a binding is left alone.
pub(super) async fn keep_namespace(world: &World, namespace: &Value, member: &str) -> Result<(), StepError> {
    let at = ObjectRef::of(namespace).work(member);
    if world
        .hub
        .get(&at)
        .is_some_and(|work| work::binding(&work).is_some())
    {
        return Ok(());
    }
    write(world, member, namespace, |id| {
        work::of_namespace(namespace, member, id)
    })
    .await
}

async fn write(
    world: &World,
    member: &str,
    template: &Value,
    desired: impl Fn(&str) -> Value,
) -> Result<(), StepError> {
    let new = desired(&permanent_id(&format!("{member}/{}", template.uid())));
    let join = |existing: &Value| {
        if existing.is_deleting() {
            let (namespace, name) = (existing.namespace(), existing.name());
            return Err(StepError::Refused(format!(
                "work {namespace}/{name} is being deleted"
            )));
        }
        Ok(work::join(existing, &desired(work::id(existing))))
    };
    world.keep(&new, join).await
}
