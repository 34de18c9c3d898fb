//! The Works by which Karmada delivers an object to its member.

use super::{Answered, Observation, Subject};
use crate::{context::Context, index::resource};
use fedgate_api::{
    karmada::{member_of, work, work_namespace},
    keys,
};
use fedgate_engine::{
    error::Failure,
    executor::{Listed, Selector},
    key::Plane,
    plan::Target,
};
use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject, ObjectMeta};
use std::{sync::Arc, time::Duration};

/// The Works of a binding at a member.
async fn works(ctx: &Context<'_>, member: &str, id: &str) -> Result<Listed, Failure> {
    let of = Selector::Label(keys::BINDING_ID, id);
    ctx.executor.list(&target(member, ""), of).await
}

/// Karmada's Work.
pub fn works_resource() -> ApiResource {
    resource("work.karmada.io", "v1alpha1", "Work")
}

fn target(member: &str, name: &str) -> Target {
    Target::namespaced(Plane::Hub, &works_resource(), &work_namespace(member), name)
}

/// Observes whether all Works of the bindings with these ids are stopped. A Work that goes on is watched.
pub(super) async fn stopped(ctx: &Context<'_>, member: &str, ids: &[Arc<str>]) -> Result<Answered, Failure> {
    for id in ids {
        let found = works(ctx, member, id).await?;
        if let Some(work) = found.objects.iter().find(|work| !is_stopped(work)) {
            return Ok(answered(Observation::WorksGoOn, work, &found));
        }
    }
    Ok(Observation::WorksStopped.into())
}

/// Observes the Works of the object's bindings; `None` if there are none. The Work of an earlier binding has another binding id,
/// but the same name.
pub(super) async fn left_over(
    ctx: &Context<'_>,
    s: Subject<'_>,
    member: &str,
    id: Option<&str>,
) -> Result<Option<Answered>, Failure> {
    let of_binding = match id {
        Some(id) => Some(works(ctx, member, id).await?),
        None => None,
    };
    let found = match of_binding.filter(|found| found.objects.iter().any(|work| is_of(work, s))) {
        Some(found) => found,
        None => named_after(ctx, s, member).await?,
    };
    let own = found.objects.iter().filter(|work| is_of(work, s));
    let first = own.min_by_key(|work| !is_stuck(&work.metadata, ctx.now().wall));
    Ok(first.map(|work| judged(ctx, work, &found)))
}

/// The Work that Karmada makes, or has made, of the object.
async fn named_after(ctx: &Context<'_>, s: Subject<'_>, member: &str) -> Result<Listed, Failure> {
    let name = work(&s.resource.kind, s.namespace, s.name);
    ctx.executor.list(&target(member, &name), Selector::Name).await
}

/// Observes whether the Work of an earlier binding does not end. As long as it is there, Karmada can make no other.
pub(super) async fn stuck(ctx: &Context<'_>, s: Subject<'_>, member: &str) -> Result<Answered, Failure> {
    let found = named_after(ctx, s, member).await?;
    let ends = |work: &&DynamicObject| is_of(work, s) && work.metadata.deletion_timestamp.is_some();
    let own = found.objects.iter().find(ends);
    Ok(own.map_or(Observation::WorksGoOn.into(), |work| judged(ctx, work, &found)))
}

fn judged(ctx: &Context<'_>, work: &DynamicObject, found: &Listed) -> Answered {
    let observation = if is_stuck(&work.metadata, ctx.now().wall) {
        Observation::WorkStuck(named(&work.metadata))
    } else {
        Observation::WorksGoOn
    };
    answered(observation, work, found)
}

fn answered(observation: Observation, work: &DynamicObject, found: &Listed) -> Answered {
    let meta = &work.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let member = member_of(namespace).unwrap_or_default();
    let watched = target(member, meta.name.as_deref().unwrap_or_default());
    Answered {
        observation,
        watched: Some((watched, found.version.clone())),
    }
}

/// True if a Work is of the binding of the object's copy.
fn is_of(work: &DynamicObject, s: Subject<'_>) -> bool {
    let annotations = work.metadata.annotations.as_ref();
    let says =
        |key: &str, value: &str| annotations.is_some_and(|all| all.get(key).is_some_and(|v| v == value));
    says(keys::BINDING_NAMESPACE, s.namespace) && says(keys::BINDING_NAME, s.binding)
}

/// True if Karmada dispatches nothing of a Work, and deletes its object with it.
fn is_stopped(work: &DynamicObject) -> bool {
    let spec = &work.data["spec"];
    spec["suspendDispatching"] == true && spec["preserveResourcesOnDeletion"] != true
}

/// Time after which a Work that is being deleted counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// True if a Work is being deleted for longer than that takes.
pub fn is_stuck(work: &ObjectMeta, now: Timestamp) -> bool {
    let since = work.deletion_timestamp.as_ref().map(|time| time.0);
    since.is_some_and(|since| now.duration_since(since).unsigned_abs() >= STUCK_AFTER && now >= since)
}

/// Namespace and name of a Work.
pub fn named(work: &ObjectMeta) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", text(&work.namespace), text(&work.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_work_is_stuck_when_its_deletion_takes_too_long() {
        let work = |deleted: Value| {
            let work = json!({"metadata": {"namespace": "karmada-es-dfw-1", "name": "lab-1", "deletionTimestamp": deleted}});
            serde_json::from_value::<DynamicObject>(work).unwrap()
        };
        let now = "2026-05-04T10:00:10Z".parse().unwrap();
        for (deleted, stuck) in [
            (json!("2026-05-04T10:00:05Z"), true),
            (json!("2026-05-04T10:00:06Z"), false),
            (json!("2026-05-04T10:00:59Z"), false),
            (Value::Null, false),
        ] {
            assert_eq!(is_stuck(&work(deleted.clone()).metadata, now), stuck, "{deleted}");
        }
        assert_eq!(named(&work(Value::Null).metadata), "karmada-es-dfw-1/lab-1");
    }
}
