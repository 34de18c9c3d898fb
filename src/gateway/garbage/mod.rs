//! Hub garbage collector: copies, Namespaces and city sets that have lost their origin, and bindings that have lost
//! their template (contract: federation.md §3.11).
//!
//! Keys are enqueued by events that can orphan an object, by the sweep, and by the grace periods of remembered objects.

mod bindings;
mod brake;
pub mod decide;
mod observe;
pub mod triggers;

#[cfg(test)]
mod tests;

use super::{confirm, context::Context, index::GatewayIndex, queries::lifecycle, settings::Settings};
use decide::Decision;
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::{Key, Plane},
    plan::{Plan, Prepared, Requeue, Target},
    runtime::queue::Priority,
};
use observe::Memory;
use parking_lot::Mutex;

/// The hub garbage collector; see the module.
///
/// Its memory changes only while the index is locked, so that an older view of a key never replaces a newer one.
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
    /// True if a brake holds because too many copies appear orphaned at once.
    pub fn brake(&self) -> bool {
        self.memory.lock().brakes.hold()
    }

    /// The projects whose brake holds, and `hub` if the hub's brake holds.
    pub fn brakes(&self) -> Vec<String> {
        let memory = self.memory.lock();
        memory.brakes.names().into_iter().map(str::to_owned).collect()
    }

    /// Releases brakes whose orphans no longer exist; called every few seconds.
    pub fn prune(&self, index: &GatewayIndex, now: Now) {
        let mut memory = self.memory.lock();
        if memory.brakes.hold() {
            recount(&mut memory, index, now);
        }
    }

    /// Number of copies that are orphans now, within or after their grace period.
    pub fn waiting(&self) -> usize {
        self.memory.lock().copies.len()
    }

    /// Number of hub objects without origin: copies, and bindings without their template.
    pub fn orphans(&self, index: &GatewayIndex) -> usize {
        self.waiting() + observe::orphaned_bindings(index)
    }

    /// Keys of all objects that appear to have no origin or no users, for the sweep.
    pub fn suspects(&self) -> Vec<Key> {
        let memory = self.memory.lock();
        memory.copies.keys().chain(memory.rest.keys()).cloned().collect()
    }

    /// Forgets all suspected objects: observations of a standby do not justify writes of a leader.
    pub fn reset(&self) {
        *self.memory.lock() = Memory::default();
    }

    /// Records that a hub Namespace has a project namespace; its retention starts again if that is deleted later.
    pub fn lives(&self, key: &Key) {
        self.memory.lock().rest.forget(key);
    }

    /// Reconciles a copy on the hub.
    pub async fn copy(&self, ctx: &Context<'_>, key: &Key, kind: usize) -> Result<Requeue, Failure> {
        let (plan, origin) = {
            let mut index = ctx.index.lock();
            if let Some(plane) = observe::unproven_copy(&index, key, kind) {
                index.await_proof(plane, key);
            }
            let plan = self.decide_copy(&index, key, kind, (&ctx.settings).into(), ctx.now());
            (plan, observe::origin(&index, key, kind))
        };
        if !plan.is_idle() && !confirm::deployment_gone(ctx, origin).await? {
            self.forget(key);
            return Ok(Requeue::AwaitChange);
        }
        self.execute_decision(ctx, key, plan, "orphaned copy deleted")
            .await
    }

    /// Reconciles a hub Namespace that no project namespace owns.
    pub async fn namespace(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let (plan, wake, origin) = {
            let mut index = ctx.index.lock();
            if let Some(plane) = observe::unproven_namespace(&index, key) {
                index.await_proof(plane, key);
            }
            let (plan, wake) = self.decide_namespace(&index, key, (&ctx.settings).into(), ctx.now());
            (plan, wake, lifecycle::origin_namespace(&index, &key.name))
        };
        ctx.queue.extend(wake, Priority::Fresh);
        if !plan.is_idle() && !confirm::namespace_gone(ctx, origin).await? {
            self.forget(key);
            return Ok(Requeue::AwaitChange);
        }
        self.execute_decision(ctx, key, plan, "hub Namespace collected")
            .await
    }

    /// Reconciles a city set's policy.
    pub async fn city_set(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let plan = {
            let mut index = ctx.index.lock();
            if !index.hub_proves() {
                index.await_proof(Plane::Hub, key);
            }
            let plan = self.decide_city_set(&index, key, (&ctx.settings).into(), ctx.now());
            if !plan.is_idle() {
                index.ending_sets.insert(key.name.clone());
            }
            plan
        };
        if plan.is_idle() {
            return Ok(plan.next);
        }
        let ended = self.end_city_set(ctx, key, plan).await;
        let waiting = {
            let mut index = ctx.index.lock();
            index.ending_sets.remove(&key.name);
            // If the policy is deleted, its delete event enqueues the keys that wait for it.
            let stays = index.hub.city_sets.get("", &key.name).is_some();
            if stays {
                let set = key.name.strip_prefix("cities-").unwrap_or_default();
                index.namespace_keys_of_set(set)
            } else {
                Vec::new()
            }
        };
        ctx.queue.extend(waiting, Priority::Fresh);
        ended
    }

    /// Deletes the policy of a city set unless a list from the hub, not the index, shows a Namespace with the set's
    /// label.
    async fn end_city_set(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        plan: Plan<Prepared>,
    ) -> Result<Requeue, Failure> {
        let namespaces = Target::cluster(Plane::Hub, &ctx.index.lock().resources.namespaces, "");
        let set = key.name.strip_prefix("cities-").unwrap_or_default();
        if confirm::is_unused(ctx, &namespaces, keys::CITIES, set).await? {
            return self
                .execute_decision(ctx, key, plan, "unused city set deleted")
                .await;
        }
        tracing::warn!(
            plane = "hub",
            controller = "garbage",
            %key,
            "a Namespace that the watch had not shown uses this city set; its policy is kept"
        );
        self.forget(key);
        Ok(Requeue::After(ctx.settings.sweep_interval))
    }

    fn decide_copy(
        &self,
        index: &GatewayIndex,
        key: &Key,
        kind: usize,
        settings: decide::Settings,
        now: Now,
    ) -> Plan<Prepared> {
        let mut memory = self.memory.lock();
        let project = observe::project(index, &key.namespace);
        let mut snapshot = observe::copy(index, &memory, key, kind);
        if snapshot.is_due(settings, now) {
            if memory.brakes.is_outdated(now) {
                recount(&mut memory, index, now);
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
                    "too many copies look like orphans; none is deleted until their number falls or an operator confirms them"
                ),
                None => log_released(project),
            }
        }
        plan
    }

    fn decide_namespace(
        &self,
        index: &GatewayIndex,
        key: &Key,
        settings: decide::Settings,
        now: Now,
    ) -> (Plan<Prepared>, Vec<Key>) {
        let mut memory = self.memory.lock();
        let snapshot = observe::namespace(index, &memory, key);
        let Decision { plan, since } = decide::namespace(&snapshot, settings, now);
        let wake = if snapshot.orphaned() {
            observe::leftovers(index, &key.name)
        } else {
            Vec::new()
        };
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        (plan, wake)
    }

    fn decide_city_set(
        &self,
        index: &GatewayIndex,
        key: &Key,
        settings: decide::Settings,
        now: Now,
    ) -> Plan<Prepared> {
        let mut memory = self.memory.lock();
        let snapshot = observe::city_set(index, &memory, key);
        let Decision { plan, since } = decide::city_set(&snapshot, settings, now);
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        plan
    }

    async fn execute_decision(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        plan: Plan<Prepared>,
        done: &'static str,
    ) -> Result<Requeue, Failure> {
        if plan.is_idle() {
            return Ok(plan.next);
        }
        ctx.execute(plan).await?;
        self.forget(key);
        tracing::info!(plane = "hub", controller = "garbage", %key, "{done}");
        Ok(Requeue::AwaitChange)
    }

    fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock();
        memory.copies.forget(key);
        memory.brakes.forget(key);
        memory.rest.forget(key);
    }
}

/// Counts all copies again.
fn recount(memory: &mut Memory, index: &GatewayIndex, now: Now) {
    for project in memory.brakes.take(observe::census(index), now) {
        log_released(&project);
    }
}

fn log_released(project: &str) {
    tracing::info!(
        project,
        "the number of orphans fell below the limit; deletion resumes"
    );
}
