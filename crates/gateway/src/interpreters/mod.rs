//! Interpreter controller: keeps the hub's `ResourceInterpreterCustomizations` equal to the federated kinds' folders
//! (contract: federation.md §3.7).
//!
//! Keys are enqueued at the start and by any event of a `ResourceInterpreterCustomization`.

pub mod decide;

#[cfg(test)]
mod tests;

use super::{
    context::State,
    index::{GatewayIndex, TableId},
    reason::WriteReason,
};
use decide::{Decision, Snapshot, decide};
use fedgate_engine::random::HashMap;
use fedgate_engine::{
    plan::{Applied, Plan, Requeue},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

/// The interpreter controller; see the module.
#[derive(Debug, Default)]
pub struct Interpreters {
    restored: Mutex<HashMap<Arc<str>, Instant>>,
    drift: Mutex<BTreeSet<Arc<str>>>,
    duplicates: Mutex<BTreeMap<Arc<str>, String>>,
}

impl Interpreters {
    /// Number of interpreters that differ from ours or compete with them.
    pub fn drift(&self) -> usize {
        self.drift.lock().len() + self.duplicates.lock().len()
    }

    /// Logs new findings, and remembers all current ones.
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
        let mut duplicates = self.duplicates.lock();
        for (name, kind) in decision
            .duplicates
            .iter()
            .filter(|(name, _)| !duplicates.contains_key(*name))
        {
            tracing::warn!(
                plane = "hub",
                controller = "interpreters",
                name = &**name,
                kind,
                "the kind has a second interpreter; remove it, or Karmada may use it instead of fedgate's"
            );
        }
        duplicates.clone_from(&decision.duplicates);
    }
}

/// Takes the snapshot; `None` while the list of interpreters is incomplete.
fn observe(index: &GatewayIndex, name: &Arc<str>, restored: Option<Instant>) -> Option<Snapshot> {
    let interpreters = &index.hub.interpreters;
    interpreters.synced().then(|| Snapshot {
        kinds: index.kinds.clone(),
        resource: index.resource(TableId::Interpreters).clone(),
        name: name.clone(),
        rows: interpreters
            .iter()
            .map(|((_, name), row)| (name.clone(), row.clone()))
            .collect(),
        restored,
    })
}

impl Reconciler for Interpreters {
    type State = State;
    type Session = ();
    /// True if the plan restores the interpreter.
    type Basis = bool;

    const NAME: &'static str = "interpreters";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<bool> {
        let name = &run.key.name;
        // Reported under the same lock, so that an older list of competing interpreters never replaces a newer one.
        let index = run.ctx.index.lock();
        let last = self.restored.lock().get(name).copied();
        let Some(snapshot) = observe(&index, name, last) else {
            return Step::End(Requeue::AwaitChange);
        };
        let decision = decide(&snapshot, run.ctx.settings.manage_interpreters, run.ctx.now());
        self.report(name, &decision);
        let restores = decision
            .plan
            .effects
            .iter()
            .any(|e| e.reason == WriteReason::RestoreInterpreter);
        Step::Apply(decision.plan, restores)
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, restores: &bool, _: &Plan<Applied>) -> Flow {
        if *restores {
            self.restored
                .lock()
                .insert(run.key.name.clone(), run.ctx.now().instant);
        }
        Flow::Again
    }

    fn message(&self, _: &bool) -> Option<&'static str> {
        Some("interpreter written")
    }
}
