//! Hub garbage: copies, Namespaces and city sets that have lost their origin, bindings that have lost their template
//! (contract: federation.md §3.11).
//!
//! Woken by the events that can orphan something, by the sweep, and by the patience of what is remembered here.

mod bindings;
mod brake;
pub mod decide;
mod observe;

#[cfg(test)]
mod tests;

pub use observe::{origin_namespace, proven_gone};

use super::{
    confirm,
    context::{Settings, Turn},
    world::World,
};
use crate::{
    api::keys,
    engine::{
        clock::Now,
        error::Failure,
        key::{Key, Plane},
        plan::{Next, Plan, Prepared, Target},
        queue::Urgency,
    },
};
use decide::Decision;
use observe::Memory;
use parking_lot::Mutex;

/// See the module.
///
/// Its memory is only changed while the index is locked, so that no older view of a key outlives a newer one.
#[derive(Debug, Default)]
pub struct Garbage {
    memory: Mutex<Memory>,
}

impl From<&Settings> for decide::Settings {
    fn from(settings: &Settings) -> Self {
        Self {
            orphan_after: settings.orphan_after,
            hub_namespace_retention: settings.hub_namespace_retention,
            unused_city_set_after: settings.unused_city_set_after,
            sweep_interval: settings.sweep_interval,
        }
    }
}

impl Garbage {
    /// Whether a brake holds: too many copies look like orphans at once.
    pub fn brake(&self) -> bool {
        self.memory.lock().brakes.hold()
    }

    /// The projects whose brake holds, and `hub` for that of all.
    pub fn brakes(&self) -> Vec<String> {
        let memory = self.memory.lock();
        memory.brakes.names().into_iter().map(str::to_owned).collect()
    }

    /// Lets go of brakes for which nothing is left; called every few seconds.
    pub fn prune(&self, world: &World, now: Now) {
        let mut memory = self.memory.lock();
        if memory.brakes.hold() {
            recount(&mut memory, world, now);
        }
    }

    /// How many copies are held to be orphans now, whether their patience is over or not.
    pub fn waiting(&self) -> usize {
        self.memory.lock().copies.len()
    }

    /// How many objects on the hub are held to have no origin: copies, and bindings without their template.
    pub fn orphans(&self, world: &World) -> usize {
        self.waiting() + observe::orphaned_bindings(world)
    }

    /// The keys of all that is held to have no origin or no use, for the sweep.
    pub fn suspects(&self) -> Vec<Key> {
        let memory = self.memory.lock();
        memory.copies.keys().chain(memory.rest.keys()).cloned().collect()
    }

    /// Suspects nothing any more: what a standby believed to see is no ground for what a leader does.
    pub fn begin_anew(&self) {
        *self.memory.lock() = Memory::default();
    }

    /// Told of a hub Namespace that its project namespace lives; should it go, its retention begins anew.
    pub fn lives(&self, key: &Key) {
        self.memory.lock().rest.forget(key);
    }

    /// One turn of a copy's key on the hub.
    pub async fn copy(&self, ctx: &Turn<'_>, key: &Key, kind: usize) -> Result<Next, Failure> {
        let (plan, origin) = {
            let mut world = ctx.world.lock();
            if let Some(plane) = observe::unproven_copy(&world, key, kind) {
                world.await_proof(plane, key);
            }
            let plan = self.judge_copy(&world, key, kind, (&ctx.settings).into(), ctx.now());
            (plan, observe::origin(&world, key, kind))
        };
        if !plan.is_idle() && !confirm::deployment_gone(ctx, origin).await? {
            self.forget(key);
            return Ok(Next::OnEvent);
        }
        self.carry_out(ctx, key, plan, "orphaned copy deleted").await
    }

    /// One turn of a hub Namespace that is tied to no live project namespace.
    pub async fn namespace(&self, ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        let (plan, wake, origin) = {
            let mut world = ctx.world.lock();
            if let Some(plane) = observe::unproven_namespace(&world, key) {
                world.await_proof(plane, key);
            }
            let (plan, wake) = self.judge_namespace(&world, key, (&ctx.settings).into(), ctx.now());
            (plan, wake, observe::origin_namespace(&world, &key.name))
        };
        ctx.queue.extend(wake, Urgency::Fresh);
        if !plan.is_idle() && !confirm::namespace_gone(ctx, origin).await? {
            self.forget(key);
            return Ok(Next::OnEvent);
        }
        self.carry_out(ctx, key, plan, "hub Namespace collected").await
    }

    /// One turn of a city set's policy.
    pub async fn city_set(&self, ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        let plan = {
            let mut world = ctx.world.lock();
            if !world.hub_proves() {
                world.await_proof(Plane::Hub, key);
            }
            let plan = self.judge_city_set(&world, key, (&ctx.settings).into(), ctx.now());
            if !plan.is_idle() {
                world.ending_sets.insert(key.name.clone());
            }
            plan
        };
        if plan.is_idle() {
            return Ok(plan.next);
        }
        let ended = self.end_city_set(ctx, key, plan).await;
        let waiting = {
            let mut world = ctx.world.lock();
            world.ending_sets.remove(&key.name);
            // Its end is an event, which wakes those who wait for it.
            let stays = world.hub.city_sets.get("", &key.name).is_some();
            if stays {
                let set = key.name.strip_prefix("cities-").unwrap_or_default();
                world.namespace_keys_of_set(set)
            } else {
                Vec::new()
            }
        };
        ctx.queue.extend(waiting, Urgency::Fresh);
        ended
    }

    /// Deletes the policy of a city set unless a Namespace carries the set, whatever is seen of Namespaces.
    async fn end_city_set(&self, ctx: &Turn<'_>, key: &Key, plan: Plan<Prepared>) -> Result<Next, Failure> {
        let namespaces = Target::cluster(Plane::Hub, &ctx.world.lock().resources.namespaces, "");
        let set = key.name.strip_prefix("cities-").unwrap_or_default();
        if confirm::is_unused(ctx, &namespaces, keys::CITIES, set).await? {
            return self.carry_out(ctx, key, plan, "unused city set deleted").await;
        }
        tracing::warn!(
            plane = "hub",
            controller = "garbage",
            %key,
            "a Namespace that was not seen to carry this city set does: its policy stays"
        );
        self.forget(key);
        Ok(Next::After(ctx.settings.sweep_interval))
    }

    fn judge_copy(
        &self,
        world: &World,
        key: &Key,
        kind: usize,
        settings: decide::Settings,
        now: Now,
    ) -> Plan<Prepared> {
        let mut memory = self.memory.lock();
        let project = observe::project(world, &key.namespace);
        let mut snapshot = observe::copy(world, &memory, key, kind);
        if snapshot.is_due(settings, now) {
            if memory.brakes.is_outdated(now) {
                recount(&mut memory, world, now);
            }
            snapshot.project = memory.brakes.load(&project);
            snapshot.hub = memory.brakes.hub();
        }
        let decide::CopyDecision {
            decision: Decision { plan, since },
            counted,
            held,
        } = decide::copy(&snapshot, settings, now);
        memory.copies.set(key, snapshot.copy.map(|c| c.uid).zip(since));
        if counted {
            memory.brakes.count(key, &project);
        } else {
            memory.brakes.forget(key);
        }
        if memory.brakes.note(&project, held) {
            let (load, project) = (memory.brakes.load(&project), &*project);
            match held {
                Some(brake) => tracing::error!(
                    project,
                    ?brake,
                    orphans = load.orphans,
                    total = load.total,
                    "too many copies look like orphans; they stay until their number falls or an operator confirms them"
                ),
                None => told_released(project),
            }
        }
        plan
    }

    fn judge_namespace(
        &self,
        world: &World,
        key: &Key,
        settings: decide::Settings,
        now: Now,
    ) -> (Plan<Prepared>, Vec<Key>) {
        let mut memory = self.memory.lock();
        let snapshot = observe::namespace(world, &memory, key);
        let Decision { plan, since } = decide::namespace(&snapshot, settings, now);
        let wake = if snapshot.orphaned() {
            observe::leftovers(world, &key.name)
        } else {
            Vec::new()
        };
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        (plan, wake)
    }

    fn judge_city_set(
        &self,
        world: &World,
        key: &Key,
        settings: decide::Settings,
        now: Now,
    ) -> Plan<Prepared> {
        let mut memory = self.memory.lock();
        let snapshot = observe::city_set(world, &memory, key);
        let Decision { plan, since } = decide::city_set(&snapshot, settings, now);
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        plan
    }

    async fn carry_out(
        &self,
        ctx: &Turn<'_>,
        key: &Key,
        plan: Plan<Prepared>,
        done: &'static str,
    ) -> Result<Next, Failure> {
        if plan.is_idle() {
            return Ok(plan.next);
        }
        ctx.perform(plan).await?;
        self.forget(key);
        tracing::info!(plane = "hub", controller = "garbage", %key, "{done}");
        Ok(Next::OnEvent)
    }

    fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock();
        memory.copies.forget(key);
        memory.brakes.forget(key);
        memory.rest.forget(key);
    }
}

/// Counts all copies.
fn recount(memory: &mut Memory, world: &World, now: Now) {
    for project in memory.brakes.take(observe::census(world), now) {
        told_released(&project);
    }
}

fn told_released(project: &str) {
    tracing::info!(
        project,
        "few enough copies look like orphans; they are deleted again"
    );
}
