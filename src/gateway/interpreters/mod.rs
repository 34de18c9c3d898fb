//! Interpreter emitter: the hub's `ResourceInterpreterCustomizations` are those of the federated kinds' folders
//! (contract: federation.md §3.7).
//!
//! Woken by the start and by any `ResourceInterpreterCustomization`.

pub mod decide;
mod observe;

#[cfg(test)]
mod tests;

use super::context::{PASSES, Turn};
use crate::engine::chance::HashMap;
use crate::engine::{error::Failure, plan::Next};
use decide::{Decision, decide};
use observe::observe;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

/// See the module.
#[derive(Debug, Default)]
pub struct Interpreters {
    restored: Mutex<HashMap<Arc<str>, Instant>>,
    drift: Mutex<BTreeSet<Arc<str>>>,
    rivals: Mutex<BTreeMap<Arc<str>, String>>,
}

impl Interpreters {
    /// How many interpreters differ from ours or stand beside them.
    pub fn drift(&self) -> usize {
        self.drift.lock().len() + self.rivals.lock().len()
    }

    /// One turn of an interpreter's key.
    pub async fn reconcile(&self, ctx: &Turn<'_>, name: &Arc<str>) -> Result<Next, Failure> {
        for _ in 0..PASSES {
            let plan = {
                // Reported under the same lock, so that no older view of the rivals replaces a newer one.
                let world = ctx.world.lock();
                let restored = self.restored.lock().get(name).copied();
                let Some(snapshot) = observe(&world, name, restored) else {
                    return Ok(Next::OnEvent);
                };
                let decision = decide(&snapshot, ctx.settings.manage_interpreters, ctx.now());
                self.report(name, &decision);
                decision.plan
            };
            if plan.is_idle() {
                return Ok(plan.next);
            }
            let restores = plan.effects.iter().any(|e| e.reason == decide::RESTORE);
            ctx.perform(plan).await?;
            if restores {
                self.restored.lock().insert(name.clone(), ctx.now().instant);
            }
            tracing::info!(
                plane = "hub",
                controller = "interpreters",
                name = &**name,
                "interpreter written"
            );
        }
        Ok(Next::OnEvent)
    }

    /// Says what is new, and remembers what there is.
    fn report(&self, name: &Arc<str>, decision: &Decision) {
        let mut drift = self.drift.lock();
        if !decision.drift {
            drift.remove(name);
        } else if drift.insert(name.clone()) {
            tracing::warn!(
                plane = "hub",
                controller = "interpreters",
                name = &**name,
                "interpreter differs from its kind's folder"
            );
        }
        let mut rivals = self.rivals.lock();
        for (name, kind) in decision
            .rivals
            .iter()
            .filter(|(name, _)| !rivals.contains_key(*name))
        {
            tracing::warn!(
                plane = "hub",
                controller = "interpreters",
                name = &**name,
                kind,
                "a second interpreter for the kind: remove it, or Karmada may use it instead of ours"
            );
        }
        rivals.clone_from(&decision.rivals);
    }
}
