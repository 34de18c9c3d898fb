//! The built-in provider: an Instance runs as a Pod, and its ports are a Service's (contract: cell.md §9).
//!
//! Another provider can own Instances instead (`--provider=none`); all that both know of each other is in the Instance: a
//! provider starts nothing while it has gates, keeps a finalizer of its own on it while something of it runs, and writes
//! the conditions Programmed and Available, the applied template hash and the interfaces' addresses. It never writes
//! Ready, quota or spec.

pub mod decide;
pub mod lost;
pub mod observe;
pub mod pod;
pub mod recovery;
pub mod refusal;
pub mod report;
pub mod service;
pub mod settings;
#[cfg(test)]
mod tests;

use super::{
    context::{PASSES, Turn},
    pace::Pace,
    world::role::Role,
};
use crate::engine::{
    chance::HashMap,
    error::{Category, Failure},
    key::Key,
    plan::{Effect, Next, Target, Write},
};
use decide::Surroundings;
use parking_lot::Mutex;
use settings::Settings;
use tokio::time::Instant;

/// See the module.
#[derive(Debug, Default)]
pub struct Provider {
    /// When Pods that ended were deleted, until their successors are made.
    replaced: Mutex<HashMap<Key, Instant>>,
    /// Since when Pods are going.
    going: lost::Going,
    /// When an Instance was last told of its Pod.
    pub(super) told: Pace,
}

impl Provider {
    /// One turn of a Pod's key, which is its Instance's name.
    pub async fn reconcile(&self, ctx: &Turn<'_>, key: &Key, settings: &Settings) -> Result<Next, Failure> {
        let mut held: Option<String> = None;
        let mut service_held: Option<String> = None;
        let mut refused: Option<Failure> = None;
        let mut next = Next::OnEvent;
        for _ in 0..PASSES {
            let Some(snapshot) = observe::observe(ctx, key) else {
                return Ok(Next::OnEvent);
            };
            if snapshot.instance.is_none() {
                self.replaced.lock().remove(key);
                self.told.forget(key);
            }
            let now = ctx.now();
            let successor_in = self.replaced.lock().get(key).and_then(|at| {
                let left = recovery::SUCCESSOR_AFTER.saturating_sub(now.since(*at));
                (!left.is_zero()).then_some(left)
            });
            let around = Surroundings {
                settings,
                sizes: &ctx.settings.sizes,
                successor_in,
                held: held.as_deref(),
                service_held: service_held.as_deref(),
                going: self.going.see(key, &snapshot, now.instant),
                now: now.wall,
            };
            let plan = decide::decide(&snapshot, &around);
            next = plan.next;
            if plan.is_idle() {
                break;
            }
            let progress = decide::is_progress(&snapshot, &plan);
            if progress {
                let interval = ctx.settings.progress_interval();
                if let Some(left) = self.told.left_of_new(key, interval, now.instant) {
                    next = next.sooner(Next::After(left));
                    break;
                }
            }
            let (replaces, makes) = (
                plan.effects.iter().any(is_replacement),
                plan.effects.iter().any(is_pod),
            );
            let made = plan.effects.iter().filter(|effect| is_creation(effect));
            let made: Vec<Target> = made.map(|effect| effect.target.clone()).collect();
            let result = ctx.perform(plan).await;
            if progress && result.is_ok() {
                self.told.told(key, now.instant);
            }
            match result {
                Ok(_) if replaces => drop(self.replaced.lock().insert(key.clone(), now.instant)),
                Ok(_) if makes => drop(self.replaced.lock().remove(key)),
                Ok(_) => {}
                // Those of ours are watched, so this one is not.
                Err(failure) => {
                    let slot = if refusal::is_of(&failure, Role::Services) {
                        &mut service_held
                    } else {
                        &mut held
                    };
                    let why = match failure.category {
                        _ if slot.is_some() => None,
                        Category::AlreadyExists if is_anothers(ctx, key, &made).await? => Some(format!(
                            "{} exists and is not this Instance's; delete or rename it",
                            failure.object
                        )),
                        _ => refusal::of(&failure),
                    };
                    if why.is_none() {
                        return Err(failure);
                    }
                    *slot = why;
                    // It is said first, and the rest goes on.
                    if failure.category != Category::AlreadyExists {
                        refused = Some(failure);
                    }
                }
            }
        }
        // What the Pod is to be looked at for comes sooner than the next try.
        if let Some(failure) = refused.filter(|_| next == Next::OnEvent) {
            return Err(failure);
        }
        // Nothing tells when the name is free again.
        let held = held.or(service_held);
        Ok(held.map_or(next, |_| next.sooner(Next::After(recovery::LOOK_AGAIN))))
    }
}

/// Whether one of these objects is there and not the Instance's. One of ours of which the watch has not told yet is none.
async fn is_anothers(ctx: &Turn<'_>, key: &Key, made: &[Target]) -> Result<bool, Failure> {
    for target in made {
        let Some(found) = ctx.executor.get(target).await? else {
            continue;
        };
        let world = ctx.world.lock();
        let instance = world.instances.get(&key.namespace, &key.name);
        let uid = instance.map(|row| &*row.uid);
        let owners = found.metadata.owner_references.iter().flatten();
        let mut controllers = owners.filter(|owner| owner.controller == Some(true));
        if !controllers.any(|owner| uid == Some(owner.uid.as_str())) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_replacement(effect: &Effect) -> bool {
    effect.reason == "pod_replaced"
}

fn is_pod(effect: &Effect) -> bool {
    effect.reason == "pod" && is_creation(effect)
}

fn is_creation(effect: &Effect) -> bool {
    matches!(effect.write, Write::Create { .. })
}
