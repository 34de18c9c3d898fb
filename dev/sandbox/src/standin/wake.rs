//! Maps each watch event to the objects that it enqueues.

use super::{
    refs::{
        BINDING, CLUSTER, CLUSTER_BINDING, CLUSTER_POLICY, INTERPRETER, KARMADA, NAMESPACE, ObjectRef,
        POLICY, WORK, kind_of,
    },
    works,
    world::{Plane, World},
};
use crate::cache::Change;
use fedgate_karmada::{
    Object, binding,
    claim::Claim,
    schedule::is_ready,
    select::{selectors, selectors_match},
    work,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// Enqueues the objects that depend on a changed object.
pub(super) fn changed(world: &World, plane: &Plane, kind: &str, change: &Change) {
    let Some(latest) = change.both().next() else {
        return;
    };
    if !plane.name.is_empty() {
        return at_member(world, &plane.name, change, latest);
    }
    match kind {
        POLICY | CLUSTER_POLICY => policy(world, change, latest),
        BINDING | CLUSTER_BINDING => binding(world, change, latest),
        WORK => work(world, latest),
        CLUSTER => cluster(world, change, latest),
        INTERPRETER => change.both().for_each(|state| interpreter(world, state)),
        _ => template(world, change, latest),
    }
}

/// The first list of a kind is complete: enqueues the objects that waited for it.
pub(super) fn synced(world: &World, plane: &Plane, kind: &str) {
    if !plane.name.is_empty() {
        return works::wake(world, &plane.name, |content| kind_of(content) == kind);
    }
    all_bindings(world, |_| true);
    if !KARMADA.contains(&kind) {
        world
            .hub
            .list(kind, None)
            .iter()
            .for_each(|object| world.wake(object));
    }
}

fn all_bindings(world: &World, filter: impl Fn(&Value) -> bool) {
    for kind in [BINDING, CLUSTER_BINDING] {
        let all = world.hub.list(kind, None);
        all.iter()
            .filter(|binding| filter(binding))
            .for_each(|binding| world.wake(binding));
    }
}

/// Enqueues a changed policy, the templates that it claims, and the templates that it selects or selected before.
fn policy(world: &World, change: &Change, latest: &Value) {
    let claim = Claim::of(latest);
    let namespace = Some(latest.namespace()).filter(|namespace| !namespace.is_empty());
    for state in change.both() {
        for kind in selectors(state).iter().map(kind_of) {
            world.watch_everywhere(&kind);
            for object in world.hub.list(&kind, namespace) {
                let is_held = !claim.id(&object).is_empty() && claim.id(&object) == claim.id(state);
                if is_held || selectors_match(selectors(state), &object).is_some() {
                    world.wake(&object);
                }
            }
        }
    }
    world.wake(latest);
}

/// Enqueues a changed binding. When it was deleted, also enqueues the bindings that need it, and its template if that
/// is a later object of the same name. Karmada does not recreate a binding that a user deletes manually.
fn binding(world: &World, change: &Change, latest: &Value) {
    world.wake(latest);
    let resource = &latest["spec"]["resource"];
    let at = ObjectRef::read(resource);
    world.watch_everywhere(&at.kind);
    if change.new.is_none() {
        if world
            .hub
            .get(&at)
            .is_some_and(|later| later.uid() != resource["uid"])
        {
            world.enqueue(at, Duration::ZERO);
        }
        for need in binding::required_by(latest) {
            let text = |key: &str| need[key].as_str().unwrap_or_default();
            world.enqueue(
                ObjectRef::to_binding(text("namespace"), text("name")),
                Duration::ZERO,
            );
        }
    }
}

/// A Cluster whose labels, taints, kinds or readiness changed enqueues all scheduled bindings and the Works of its
/// member.
fn cluster(world: &World, change: &Change, latest: &Value) {
    let facts = |cluster: &Arc<Value>| {
        (
            cluster["metadata"]["labels"].clone(),
            is_ready(cluster),
            cluster["spec"]["taints"].clone(),
            cluster["status"]["apiEnablements"].clone(),
            cluster.is_deleting(),
        )
    };
    if change.old.as_ref().map(facts) == change.new.as_ref().map(facts) {
        return;
    }
    all_bindings(world, |binding| !binding["spec"]["placement"].is_null());
    works::wake(world, latest.name(), |_| true);
    if change.old.is_none() {
        world
            .hub
            .list(NAMESPACE, None)
            .iter()
            .for_each(|namespace| world.wake(namespace));
    }
}

/// Enqueues a changed Work and its binding: the status of the binding has an item of each Work, and the binding may wait for
/// the name of a deleted one.
fn work(world: &World, latest: &Value) {
    world.wake(latest);
    if let Some((namespace, name)) = work::binding(latest) {
        world.enqueue(ObjectRef::to_binding(namespace, name), Duration::ZERO);
    }
}

/// A changed script enqueues all bindings and Works of its kind.
fn interpreter(world: &World, latest: &Value) {
    let kind = kind_of(&latest["spec"]["target"]);
    world.watch_everywhere(&kind);
    all_bindings(world, |binding| kind_of(&binding["spec"]["resource"]) == kind);
    for member in world.members.keys() {
        works::wake(world, member, |content| kind_of(content) == kind);
    }
}

/// Enqueues a changed template, its binding, and the bindings that depend on it. A status change enqueues nothing.
fn template(world: &World, change: &Change, latest: &Value) {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && specification(old) == specification(new)
    {
        return;
    }
    let at = ObjectRef::of(latest);
    for binding in world.hub.list(BINDING, Some(&at.namespace)) {
        if binding::recorded(&binding)
            .iter()
            .any(|dependency| ObjectRef::read(dependency) == at)
        {
            world.wake(&binding);
        }
    }
    world.enqueue(at.binding(), Duration::ZERO);
    world.enqueue(at, Duration::ZERO);
}

fn specification(object: &Value) -> Value {
    let mut bare = object.clone();
    bare["metadata"]["resourceVersion"] = Value::Null;
    bare["status"] = Value::Null;
    bare
}

/// A changed object at a member enqueues its Work; a Namespace enqueues the Works that wait for it.
fn at_member(world: &World, member: &str, change: &Change, latest: &Value) {
    let at = ObjectRef::of(latest);
    if at.kind == NAMESPACE && (change.old.is_none() || change.new.is_none()) {
        works::wake(world, member, |content| content.namespace() == at.name);
    }
    if let Some(work) = world.hub.get(&at.work(member)) {
        world.wake(&work);
    }
}
