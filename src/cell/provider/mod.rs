//! The built-in provider: an Instance runs as a Pod, and its ports are a Service's (contract: cell.md §9).
//!
//! Another provider can own Instances instead (`--provider=none`); all that both know of each other is in the Instance: a
//! provider starts nothing while it has gates, keeps a finalizer of its own on it while something of it runs, and writes
//! the conditions Programmed and Available, the applied template hash and the interfaces' addresses. It never writes
//! Ready, quota or spec.

mod attached;
pub mod decide;
pub mod lost;
pub mod network_policy;
pub mod observe;
pub mod pod;
pub mod recovery;
pub mod refusal;
pub mod report;
pub mod retire;
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
    plan::{Effect, Endpoint, Next, Plan, Write},
};
use decide::Surroundings;
use observe::Snapshot;
use parking_lot::Mutex;
use recovery::Sightings;
use serde_json::{Map, Value, json};
use settings::Settings;
use tokio::time::Instant;

/// See the module.
#[derive(Debug, Default)]
pub struct Provider {
    /// When Pods that ended were deleted, until their successors are made.
    replaced: Mutex<HashMap<Key, Instant>>,
    /// Ends of Pods and their readiness, as long as something depends on since when they are seen.
    sightings: Mutex<HashMap<Key, Sightings>>,
    /// Since when Pods are going.
    going: lost::Going,
    /// When an Instance was last told of its Pod.
    pub(super) told: Pace,
}

impl Provider {
    /// One turn of a Pod's key, which is its Instance's name. Without settings no Pod is started.
    pub async fn reconcile(
        &self,
        ctx: &Turn<'_>,
        key: &Key,
        settings: Option<&Settings>,
    ) -> Result<Next, Failure> {
        let none = Settings::default();
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
            let sightings = self.see(key, &snapshot, now.instant);
            let around = Surroundings {
                settings: settings.unwrap_or(&none),
                sizes: &ctx.settings.sizes,
                successor_in,
                held: held.as_deref(),
                sightings: &sightings,
                service_held: service_held.as_deref(),
                going: self.going.see(key, &snapshot, now.instant),
                now,
            };
            let plan = match settings {
                Some(_) => decide::decide(&snapshot, &around),
                None => retire::decide(&snapshot, &around),
            };
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
            let made: Vec<Effect> = made.cloned().collect();
            let reports = plan
                .effects
                .iter()
                .any(|effect| effect.reason == "instance_report");
            let result = ctx.perform(plan).await;
            if progress && result.is_ok() {
                self.told.told(key, now.instant);
            }
            if reports && result.is_ok() {
                log_runtime(&snapshot);
            }
            match result {
                Ok(_) if replaces => drop(self.replaced.lock().insert(key.clone(), now.instant)),
                Ok(_) if makes => drop(self.replaced.lock().remove(key)),
                Ok(_) => {}
                Err(failure) => {
                    let slot = if refusal::is_of(&failure, Role::Services) {
                        &mut service_held
                    } else {
                        &mut held
                    };
                    match obstacle(ctx, key, &made, &failure).await? {
                        Some(Obstacle::Removed) => {}
                        Some(Obstacle::Stays(why)) if slot.is_none() => {
                            *slot = Some(why);
                            // It is said first, and the rest goes on.
                            if failure.category != Category::AlreadyExists {
                                refused = Some(failure);
                            }
                        }
                        Some(Obstacle::Stays(_)) | None => return Err(failure),
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

impl Provider {
    /// Looks at the Pod, if it has ended or the Instance has a past that is to be forgotten.
    fn see(&self, key: &Key, snapshot: &Snapshot, now: Instant) -> Sightings {
        let has_past = snapshot
            .instance
            .as_ref()
            .is_some_and(|known| known.digest.recovery.is_some());
        let pod = snapshot
            .pod
            .as_ref()
            .filter(|pod| has_past || pod.digest.has_ended);
        let pod: Option<Value> = pod.and_then(|pod| serde_json::from_str(&pod.digest.seen).ok());
        let mut all = self.sightings.lock();
        let mut sightings = all.remove(key).unwrap_or_default();
        sightings.see(pod.as_ref(), now);
        if !sightings.is_empty() {
            all.insert(key.clone(), sightings.clone());
        }
        sightings
    }
}

/// What stood in the way of a write.
enum Obstacle {
    /// Nothing does any more.
    Removed,
    /// It stays there, for this reason.
    Stays(String),
}

/// What follows from a write that failed; `None` if it is only to be tried again.
async fn obstacle(
    ctx: &Turn<'_>,
    key: &Key,
    made: &[Effect],
    failure: &Failure,
) -> Result<Option<Obstacle>, Failure> {
    if failure.category != Category::AlreadyExists {
        return Ok(refusal::of(failure).map(Obstacle::Stays));
    }
    Ok(match holder(ctx, key, made).await? {
        Some(Holder::Ours(labels)) => {
            ctx.perform(Plan::one(*labels)).await?;
            Some(Obstacle::Removed)
        }
        Some(Holder::Another) => Some(Obstacle::Stays(format!(
            "{} exists and is not this Instance's; delete or rename it",
            failure.object
        ))),
        // The watch tells of it, late.
        None => None,
    })
}

/// Who holds a name that was thought free: those of ours are watched by a label.
enum Holder {
    /// The Instance's own, with the labels that it lacks.
    Ours(Box<Effect>),
    /// Something else.
    Another,
}

/// What there is under the names of objects that were to be made; `None` if it is the Instance's and has its labels.
async fn holder(ctx: &Turn<'_>, key: &Key, made: &[Effect]) -> Result<Option<Holder>, Failure> {
    for effect in made {
        let Some(found) = ctx.executor.get(&effect.target).await? else {
            continue;
        };
        let world = ctx.world.lock();
        let instance = world.instances.get(&key.namespace, &key.name);
        let uid = instance.map(|row| &*row.uid);
        let owners = found.metadata.owner_references.iter().flatten();
        let mut controllers = owners.filter(|owner| owner.controller == Some(true));
        if !controllers.any(|owner| uid == Some(owner.uid.as_str())) {
            return Ok(Some(Holder::Another));
        }
        let Write::Create { body } = &effect.write else {
            continue;
        };
        let has = found.metadata.labels.unwrap_or_default();
        let wanted = body["metadata"]["labels"].as_object().into_iter().flatten();
        let lacking = wanted.filter(|(key, value)| has.get(*key).map(String::as_str) != value.as_str());
        let lacking: Map<String, Value> = lacking.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !lacking.is_empty() {
            let patch = json!({"metadata": {"uid": found.metadata.uid, "labels": lacking}});
            return Ok(Some(Holder::Ours(Box::new(Effect {
                target: effect.target.clone(),
                endpoint: Endpoint::Main,
                write: Write::Merge { patch },
                reason: "provider_labels",
            }))));
        }
    }
    Ok(None)
}

/// What the runtime says of containers that do not start. It names nodes and registries, so no tenant gets to see it.
fn log_runtime(snapshot: &Snapshot) {
    let Some(pod) = &snapshot.pod else { return };
    let seen: Value = serde_json::from_str(&pod.digest.seen).unwrap_or_default();
    for (container, reason, message) in report::raw(&seen) {
        let Snapshot { namespace, name, .. } = snapshot;
        tracing::info!(%namespace, %name, container, reason, ?message, "the container does not start");
    }
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
