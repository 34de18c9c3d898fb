//! Hub garbage: copies, Namespaces and city sets that have lost their origin (contract: federation.md §3.11).
//!
//! Proof is a complete list of a live plane; an unreachable or disengaged project proves nothing.

use super::{
    context::Turn,
    world::{Role, World},
};
use crate::{
    api::names::HubNamespace,
    engine::{
        error::Failure,
        key::{Key, Plane},
        plan::{Effect, Endpoint, Next, Plan, Target, Write},
    },
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// See the module.
#[derive(Debug, Default)]
pub struct Garbage {
    since: Mutex<HashMap<Key, Instant>>,
    brake: AtomicBool,
}

/// Whether the project namespace behind a hub namespace is proven gone: the project that the Namespace is labelled
/// with is engaged, its lists are complete, and no namespace of it has the UID.
pub fn proven_gone(world: &World, hub: &str) -> bool {
    if world.ties.contains_key(hub) || HubNamespace::parse(hub).is_none() {
        return false;
    }
    let Some(uid) = world
        .hub
        .namespaces
        .get("", hub)
        .and_then(|n| n.digest.project_uid.clone())
    else {
        return false;
    };
    let project = world.projects.iter().find(|(_, p)| p.uid.as_ref() == Some(&uid));
    project.is_some_and(|(key, _)| world.project_ready(key))
}

fn orphan(world: &World, kind: usize, hub: &str, name: &str) -> Option<Arc<str>> {
    let copy = world.hub.copies[kind].get(hub, name)?;
    copy.digest.source_uid.as_ref()?;
    if copy.deleting || !world.hub_ready() {
        return None;
    }
    let gone = match world.ties.get(hub) {
        None => proven_gone(world, hub),
        Some(tie) => {
            let project = world.projects.get(&tie.project)?;
            let source = project.sources[kind].get(&tie.namespace, name);
            let let_go = source.is_some_and(|s| {
                s.deleting
                    && !s
                        .digest
                        .finalizers
                        .iter()
                        .any(|f| &**f == crate::api::keys::FEDERATOR_FINALIZER)
            });
            world.project_ready(&tie.project) && (source.is_none() || let_go)
        }
    };
    gone.then(|| copy.uid.clone())
}

impl Garbage {
    /// Whether the brake holds: too many copies look like orphans at once.
    pub fn brake(&self) -> bool {
        self.brake.load(Ordering::Relaxed)
    }

    /// How long the key still has to wait; `None` once it has waited `patience`.
    fn patience(&self, ctx: &Turn<'_>, key: &Key, patience: Duration) -> Option<Duration> {
        let now = ctx.now();
        let since = *self.since.lock().entry(key.clone()).or_insert(now.instant);
        let wait = patience.saturating_sub(now.since(since));
        (!wait.is_zero()).then_some(wait)
    }

    fn forget(&self, key: &Key) {
        self.since.lock().remove(key);
    }

    /// One turn of a copy's key on the hub.
    pub async fn copy(&self, ctx: &Turn<'_>, key: &Key, kind: usize) -> Result<Next, Failure> {
        let (uid, resource, total) = {
            let world = ctx.world.lock();
            let Some(uid) = orphan(&world, kind, &key.namespace, &key.name) else {
                self.forget(key);
                return Ok(Next::OnEvent);
            };
            let total: usize = world.hub.copies.iter().map(crate::plane::table::Table::len).sum();
            (uid, world.resource(Role::Federated(kind)), total)
        };
        if let Some(wait) = self.patience(ctx, key, ctx.settings.orphan_after) {
            return Ok(Next::After(wait));
        }
        let orphans = self.since.lock().keys().filter(|k| k.kind == key.kind).count();
        let braked = orphans > 10.max(total / 10);
        if self.brake.swap(braked, Ordering::Relaxed) != braked && braked {
            tracing::error!(
                orphans,
                total,
                "too many copies look like orphans; nothing is deleted until their number falls or an operator deletes them"
            );
        }
        if braked {
            return Ok(Next::After(ctx.settings.sweep_interval));
        }
        let effect = Effect {
            target: Target::namespaced(Plane::Hub, &resource, &key.namespace, &key.name),
            endpoint: Endpoint::Main,
            write: Write::Delete {
                uid: uid.to_string(),
                resource_version: None,
            },
            reason: "delete_orphan",
        };
        ctx.perform(Plan::one(effect)).await?;
        self.forget(key);
        tracing::info!(plane = "hub", controller = "garbage", %key, "orphaned copy deleted");
        Ok(Next::OnEvent)
    }

    /// One turn of a hub Namespace that is tied to no live project namespace.
    pub async fn namespace(&self, ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        let hub = &*key.name;
        let (effect, wake) = {
            let world = ctx.world.lock();
            let Some(row) = world.hub.namespaces.get("", hub).filter(|r| !r.deleting) else {
                self.forget(key);
                return Ok(Next::OnEvent);
            };
            if !world.hub_ready() || !proven_gone(&world, hub) {
                self.forget(key);
                return Ok(Next::OnEvent);
            }
            let target = Target::cluster(Plane::Hub, &world.resources.namespaces, hub);
            let write = Write::Delete {
                uid: row.uid.to_string(),
                resource_version: Some(row.resource_version()),
            };
            let effect = Effect {
                target,
                endpoint: Endpoint::Main,
                write,
                reason: "collect_namespace",
            };
            (empty(&world, hub).then_some(effect), leftovers(&world, hub))
        };
        ctx.queue.extend(wake, crate::engine::queue::Urgency::Fresh);
        let Some(effect) = effect else {
            return Ok(Next::OnEvent);
        };
        if let Some(wait) = self.patience(ctx, key, ctx.settings.hub_namespace_retention) {
            return Ok(Next::After(wait));
        }
        ctx.perform(Plan::one(effect)).await?;
        self.forget(key);
        tracing::info!(
            plane = "hub",
            controller = "garbage",
            namespace = hub,
            "hub Namespace collected"
        );
        Ok(Next::OnEvent)
    }

    /// One turn of a city set's policy: without a Namespace that carries the set it goes.
    pub async fn city_set(&self, ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        let effect = {
            let world = ctx.world.lock();
            let row = world.hub.city_sets.get("", &key.name).filter(|r| !r.deleting);
            let set = key.name.strip_prefix("cities-");
            let (Some(row), Some(set)) = (row, set) else {
                self.forget(key);
                return Ok(Next::OnEvent);
            };
            // Only policies of our shape are ever deleted.
            let used = world
                .hub
                .namespaces
                .iter()
                .any(|(_, n)| n.digest.cities.as_deref() == Some(set));
            if used || !world.hub_ready() || row.digest.cities.is_none() {
                self.forget(key);
                return Ok(Next::OnEvent);
            }
            let target = Target::cluster(Plane::Hub, &world.resources.city_sets, &key.name);
            let write = Write::Delete {
                uid: row.uid.to_string(),
                resource_version: Some(row.resource_version()),
            };
            Effect {
                target,
                endpoint: Endpoint::Main,
                write,
                reason: "delete_city_set",
            }
        };
        if let Some(wait) = self.patience(ctx, key, ctx.settings.unused_city_set_after) {
            return Ok(Next::After(wait));
        }
        ctx.perform(Plan::one(effect)).await?;
        self.forget(key);
        tracing::info!(
            plane = "hub",
            controller = "garbage",
            policy = &*key.name,
            "unused city set deleted"
        );
        Ok(Next::OnEvent)
    }
}

fn empty(world: &World, hub: &str) -> bool {
    let hub_tables = &world.hub;
    hub_tables
        .copies
        .iter()
        .all(|t| t.in_namespace(hub).next().is_none())
        && hub_tables
            .write_backs
            .iter()
            .all(|t| t.in_namespace(hub).next().is_none())
        && hub_tables.bindings.in_namespace(hub).next().is_none()
        && hub_tables.config_maps.in_namespace(hub).next().is_none()
        && hub_tables.secrets.in_namespace(hub).next().is_none()
}

/// The keys of what is still in a Namespace whose origin is gone.
fn leftovers(world: &World, hub: &str) -> Vec<Key> {
    let mut keys = vec![world.hub_key(Role::CityPolicies, hub, "")];
    for (i, table) in world.hub.copies.iter().enumerate() {
        keys.extend(
            table
                .in_namespace(hub)
                .map(|(n, _)| world.hub_key(Role::Federated(i), hub, n)),
        );
    }
    keys.extend(
        world
            .hub
            .config_maps
            .in_namespace(hub)
            .map(|(n, _)| world.hub_key(Role::ConfigMaps, hub, n)),
    );
    keys.extend(
        world
            .hub
            .secrets
            .in_namespace(hub)
            .map(|(n, _)| world.hub_key(Role::Secrets, hub, n)),
    );
    keys
}
