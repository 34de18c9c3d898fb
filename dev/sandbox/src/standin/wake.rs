//! Maps each watch event to the keys that it enqueues.

use super::{
    attached,
    mirror::Change,
    refs::{Key, Kind, NamespacedName, ObjectRef, Plane},
    wire::{self, annotation, label},
    works,
    world::World,
};
use fedgate_karmada::{
    claim::Claim,
    schedule::is_ready,
    select::{selectors, selectors_match},
};
use kube::api::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// Enqueues the keys that depend on a changed object.
pub(super) fn changed(world: &World, plane: &Plane, kind: &Kind, change: &Change) {
    if let Plane::Member(member) = plane {
        at_member(world, member, kind, change);
    } else if *kind == wire::policy() || *kind == wire::cluster_policy() {
        policy(world, change);
    } else if *kind == wire::binding() || *kind == wire::cluster_binding() {
        binding(world, change);
    } else if *kind == wire::work() {
        work(world, change);
    } else if *kind == wire::cluster() {
        cluster(world, change);
    } else if *kind == wire::interpreter() {
        for state in change.both() {
            interpreter(world, state);
        }
    } else {
        template(world, kind, change);
    }
}

/// The first list of a kind is complete: enqueues the keys that waited for it.
pub(super) fn synced(world: &World, plane: &Plane, kind: &Kind) {
    if let Plane::Member(member) = plane {
        let of_kind = works::at(world, member, |content| Kind::of(content).as_ref() == Some(kind));
        works::wake(world, of_kind);
    } else {
        all_bindings(world, |_| true);
        if !is_template(kind) {
            return;
        }
        for object in world.mirrors.list(plane, kind, None) {
            world.wake(Key::Template(ObjectRef::to(kind, &object)));
        }
    }
}

/// True if objects of this kind are delivered rather than control the delivery.
fn is_template(kind: &Kind) -> bool {
    let ours = [
        wire::policy(),
        wire::cluster_policy(),
        wire::binding(),
        wire::cluster_binding(),
        wire::work(),
        wire::cluster(),
        wire::interpreter(),
    ];
    !ours.contains(kind)
}

fn all_bindings(world: &World, filter: impl Fn(&DynamicObject) -> bool) {
    for kind in [wire::binding(), wire::cluster_binding()] {
        for binding in world.mirrors.list(&Plane::Hub, &kind, None) {
            if filter(&binding) {
                world.wake(Key::Binding(NamespacedName::to(&binding)));
            }
        }
    }
}

/// Enqueues a changed policy, the templates that it claims, and the templates that it selects or selected before.
fn policy(world: &World, change: &Change) {
    let Some(latest) = change.latest() else { return };
    let at = NamespacedName::to(latest);
    let id = Claim::of(latest).label();
    let namespace = Some(&*at.namespace).filter(|namespace| !namespace.is_empty());
    for state in change.both() {
        for kind in selectors(state).iter().filter_map(Kind::of) {
            world.watch_everywhere(&kind);
            for object in world.mirrors.list(&Plane::Hub, &kind, namespace) {
                let held = !label(&object, id).is_empty() && label(&object, id) == label(state, id);
                if held || selectors_match(selectors(state), &object).is_some() {
                    world.wake(Key::Template(ObjectRef::to(&kind, &object)));
                }
            }
        }
    }
    world.wake(Key::Policy(at));
}

/// Enqueues a changed binding. When it was deleted, also enqueues the bindings that need it, and its template if that
/// is a later object of the same name. Karmada does not recreate a binding that a user deletes manually.
fn binding(world: &World, change: &Change) {
    let Some(latest) = change.latest() else { return };
    world.wake(Key::Binding(NamespacedName::to(latest)));
    let resource = &latest.data["spec"]["resource"];
    let Some(at) = ObjectRef::read(resource) else {
        return;
    };
    world.watch_everywhere(&at.kind);
    if change.new.is_none() {
        if world
            .hub_object(&at)
            .is_some_and(|later| later.metadata.uid.as_deref() != resource["uid"].as_str())
        {
            world.wake(Key::Template(at));
        }
        for need in attached::required_by(latest)
            .iter()
            .filter_map(NamespacedName::read)
        {
            world.wake(Key::Binding(need));
        }
    }
}

/// A Cluster whose labels, taints, kinds or readiness changed enqueues all scheduled bindings and the Works of its
/// member.
fn cluster(world: &World, change: &Change) {
    let facts = |cluster: &Arc<DynamicObject>| {
        (
            cluster.metadata.labels.clone(),
            is_ready(cluster),
            cluster.data["spec"]["taints"].clone(),
            cluster.data["status"]["apiEnablements"].clone(),
            cluster.metadata.deletion_timestamp.is_some(),
        )
    };
    if change.old.as_ref().map(facts) == change.new.as_ref().map(facts) {
        return;
    }
    all_bindings(world, |binding| !binding.data["spec"]["placement"].is_null());
    let name = change
        .latest()
        .and_then(|cluster| cluster.metadata.name.as_deref())
        .unwrap_or_default();
    works::wake(world, works::at(world, name, |_| true));
    if change.old.is_none() {
        for namespace in world.mirrors.list(&Plane::Hub, &wire::namespace(), None) {
            world.wake(Key::Template(ObjectRef::to(&wire::namespace(), &namespace)));
        }
    }
}

/// Enqueues a changed Work and the report of its binding. When it was deleted, its binding may wait for its name.
fn work(world: &World, change: &Change) {
    let Some(latest) = change.latest() else { return };
    world.wake(Key::Work(NamespacedName::to(latest)));
    if let Some(binding) = works::binding(latest) {
        if change.new.is_none() {
            world.wake(Key::Binding(binding.clone()));
        }
        world.wake(Key::Report(binding));
    }
}

/// A changed script enqueues all bindings and Works of its kind.
fn interpreter(world: &World, latest: &DynamicObject) {
    let Some(kind) = Kind::of(&latest.data["spec"]["target"]) else {
        return;
    };
    world.watch_everywhere(&kind);
    all_bindings(world, |binding| {
        Kind::of(&binding.data["spec"]["resource"]).as_ref() == Some(&kind)
    });
    for member in world.members.keys() {
        let of_kind = works::at(world, member, |content| Kind::of(content).as_ref() == Some(&kind));
        works::wake(world, of_kind);
    }
}

/// Enqueues a changed template, its binding, and the bindings that depend on it. A status change enqueues nothing.
fn template(world: &World, kind: &Kind, change: &Change) {
    let Some(latest) = change.latest() else { return };
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && specification(old) == specification(new)
    {
        return;
    }
    let at = ObjectRef::to(kind, latest);
    for binding in world
        .mirrors
        .list(&Plane::Hub, &wire::binding(), Some(&at.namespace))
    {
        if !annotation(&binding, wire::DEPENDENCIES).is_empty() && attached::recorded(&binding).contains(&at)
        {
            world.wake(Key::Binding(NamespacedName::to(&binding)));
        }
    }
    world.wake(Key::Binding(at.binding()));
    world.wake(Key::Template(at));
}

fn specification(object: &DynamicObject) -> DynamicObject {
    let mut bare = object.clone();
    bare.metadata.resource_version = None;
    if let Some(fields) = bare.data.as_object_mut() {
        fields.remove("status");
    }
    bare
}

/// A changed object at a member enqueues its Work; a Namespace enqueues the Works that wait for it.
fn at_member(world: &World, member: &Arc<str>, kind: &Kind, change: &Change) {
    let Some(latest) = change.latest() else { return };
    let at = ObjectRef::to(kind, latest);
    if *kind == wire::namespace() && (change.old.is_none() || change.new.is_none()) {
        let inside = |content: &Value| content["metadata"]["namespace"] == *at.name;
        works::wake(world, works::at(world, member, inside));
    }
    let work = works::name(member, &at);
    if works::get(world, &work).is_some() {
        world.wake(Key::Work(work));
    }
}
