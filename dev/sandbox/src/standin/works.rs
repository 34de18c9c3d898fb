//! The Works on the hub: what each member must have.

use super::{
    refs::{Key, NamespacedName, ObjectRef, Plane},
    wire::{self, as_value, label},
    world::{StepError, World, limited},
};
use fedgate_karmada::{names, work};
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// A Work, from the watch cache.
pub(super) fn get(world: &World, at: &NamespacedName) -> Option<Arc<DynamicObject>> {
    world
        .mirrors
        .get(&Plane::Hub, &wire::work())?
        .get(&at.namespace, &at.name)
}

/// The Works of a binding, those that end included.
pub(super) fn of(world: &World, binding: &DynamicObject) -> Vec<Arc<DynamicObject>> {
    let key = match binding.metadata.namespace {
        Some(_) => names::BINDING_ID,
        None => names::CLUSTER_BINDING_ID,
    };
    let id = label(binding, key);
    let mut works = world.mirrors.list(&Plane::Hub, &wire::work(), None);
    works.retain(|work| !id.is_empty() && label(work, key) == id);
    works
}

/// The Works of a member whose content `filter` accepts.
pub(super) fn at(world: &World, member: &str, filter: impl Fn(&Value) -> bool) -> Vec<NamespacedName> {
    let space = names::work_namespace(member);
    let works = world.mirrors.list(&Plane::Hub, &wire::work(), Some(&space));
    works
        .iter()
        .filter(|work| filter(work::content(*work)))
        .map(|work| NamespacedName::to(work))
        .collect()
}

/// The Work of an object at a member, whether or not it exists.
pub(super) fn name(member: &str, object: &ObjectRef) -> NamespacedName {
    NamespacedName {
        namespace: names::work_namespace(member).into(),
        name: names::work(&object.kind.kind, &object.namespace, &object.name).into(),
    }
}

/// The binding of a Work.
pub(super) fn binding(work: &DynamicObject) -> Option<NamespacedName> {
    let (namespace, name) = work::binding(work)?;
    Some(NamespacedName {
        namespace: namespace.into(),
        name: name.into(),
    })
}

/// Enqueues Works.
pub(super) fn wake(world: &World, works: Vec<NamespacedName>) {
    for at in works {
        world.wake(Key::Work(at));
    }
}

/// Creates the Work of a binding for each of its targets, or brings it up to date, and deletes those of other members.
pub(super) async fn keep(
    world: &World,
    template: &DynamicObject,
    binding: &DynamicObject,
    targets: &BTreeSet<String>,
) -> Result<(), StepError> {
    if !world.mirrors.synced(&Plane::Hub, &wire::work()) {
        return Err(StepError::Wait("the first list of Works".to_owned()));
    }
    for work in of(world, binding) {
        let member = work.metadata.namespace.as_deref().and_then(names::member_of);
        if member.is_none_or(|member| !targets.contains(member)) {
            delete(world, &work).await?;
        }
    }
    let (template, binding) = (as_value(template), as_value(binding));
    let known = |target: &&String| world.members.contains_key(target.as_str());
    for member in targets.iter().filter(known) {
        write(world, member, &template, |id| {
            work::desired(&template, &binding, member, id)
        })
        .await?;
    }
    Ok(())
}

/// Keeps the Work of a Namespace that is synced to every member. The Work of a binding is left alone.
pub(super) async fn keep_namespace(
    world: &World,
    namespace: &DynamicObject,
    member: &str,
) -> Result<(), StepError> {
    let at = name(member, &ObjectRef::to(&wire::namespace(), namespace));
    if get(world, &at).is_some_and(|work| binding(&work).is_some()) {
        return Ok(());
    }
    let namespace = as_value(namespace);
    write(world, member, &namespace, |id| {
        work::of_namespace(&namespace, member, id)
    })
    .await
}

async fn write(
    world: &World,
    member: &str,
    template: &Value,
    desired: impl Fn(&str) -> Value,
) -> Result<(), StepError> {
    let Some(object) = ObjectRef::of(template) else {
        return Ok(());
    };
    let at = name(member, &object);
    let Some(existing) = get(world, &at) else {
        let uid = template["metadata"]["uid"].as_str().unwrap_or_default();
        let id = wire::permanent_id(&format!("{member}/{uid}"));
        let new = wire::read(desired(&id))?;
        return world.create(&wire::work(), &new).await.map(drop);
    };
    if existing.metadata.deletion_timestamp.is_some() {
        return Err(StepError::Refused(format!(
            "work {}/{} is being deleted",
            at.namespace, at.name
        )));
    }
    match work::join(&as_value(&existing), &desired(work::id(&existing))) {
        Some(joined) => world.replace(&wire::work(), &wire::read(joined)?).await.map(drop),
        None => Ok(()),
    }
}

/// Deletes the Works of a binding. Karmada does not wait until they are gone.
pub(super) async fn delete_all(world: &World, binding: &DynamicObject) -> Result<(), StepError> {
    for work in of(world, binding) {
        delete(world, &work).await?;
    }
    Ok(())
}

async fn delete(world: &World, work: &DynamicObject) -> Result<(), StepError> {
    if work.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let at = ObjectRef::to(&wire::work(), work);
    let api = world.api(&Plane::Hub, &wire::work(), &at.namespace)?;
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: work.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match limited(&at, "delete", api.delete(&at.name, &params)).await {
        Err(StepError::Api(kube::Error::Api(status))) if status.is_not_found() => Ok(()),
        answer => answer.map(drop),
    }
}

/// Takes the finalizer off a Work that has ended.
pub(super) async fn release(world: &World, work: &DynamicObject) -> Result<(), StepError> {
    let mut left = work.metadata.finalizers.clone().unwrap_or_default();
    left.retain(|finalizer| finalizer != names::WORK_FINALIZER);
    let patch = json!({"metadata": {"finalizers": left}});
    world.merge(&wire::work(), work, patch).await.map(drop)
}
