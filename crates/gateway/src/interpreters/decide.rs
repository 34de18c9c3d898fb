//! Compares an interpreter with its kind's folder, and finds competing interpreters. Pure.

use crate::index::rows::InterpreterDigest;
use crate::reason::WriteReason;
use fedgate_engine::{
    clock::Now,
    diff::Digest,
    key::Plane,
    plan::{Effect, ExactFields, Plan, Prepared, Target, Write},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, PerKind};
use kube::core::ApiResource;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Shortest time between two restores of an interpreter that a client keeps changing.
pub const RESTORE_EVERY: Duration = Duration::from_mins(1);

/// The interpreters of the hub, and the name of the reconciled one.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The federated kinds.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// The API resource of interpreters.
    pub resource: ApiResource,
    /// Name of the reconciled interpreter.
    pub name: Arc<str>,
    /// All interpreters of the hub.
    pub rows: Vec<(Arc<str>, Row<InterpreterDigest>)>,
    /// Time of its last restore.
    pub restored: Option<Instant>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Writes, and the time of the next reconcile.
    pub plan: Plan<Prepared>,
    /// True if the interpreter exists, is not being deleted, and differs from its kind's folder.
    pub drift: bool,
    /// Other interpreters that define an operation of ours for a kind of ours, each with the kind.
    pub duplicates: BTreeMap<Arc<str>, String>,
}

/// Decides; if `manage` is false, nothing is written.
pub fn decide(s: &Snapshot, manage: bool, now: Now) -> Decision {
    let mut decision = Decision {
        plan: Plan::default(),
        drift: false,
        duplicates: duplicates(s),
    };
    let Some(kind) = s.kinds.iter().find(|k| *k.interpreter.name == *s.name) else {
        return decision;
    };
    let body = kind.interpreter_object();
    let wanted = Digest::of(body.get("spec").unwrap_or(&Value::Null));
    let row = s
        .rows
        .iter()
        .find(|(name, _)| *name == s.name)
        .map(|(_, row)| row);
    // An interpreter that is being deleted is created again by its delete event.
    if row.is_some_and(|row| row.deleting || row.digest.content == wanted) {
        return decision;
    }
    decision.drift = row.is_some();
    if !manage {
        return decision;
    }
    let wait = s
        .restored
        .filter(|_| decision.drift)
        .map(|last| RESTORE_EVERY.saturating_sub(now.since(last)))
        .filter(|wait| !wait.is_zero());
    decision.plan = if let Some(wait) = wait {
        Plan::after(wait)
    } else {
        let exact = ExactFields::roots(["spec"]);
        let reason = if decision.drift {
            WriteReason::RestoreInterpreter
        } else {
            WriteReason::CreateInterpreter
        };
        let target = Target::cluster(Plane::Hub, &s.resource, &s.name);
        Plan::one(Effect::main(target, Write::Apply { body, exact }, reason))
    };
    decision
}

/// Competing interpreters: Karmada may use one of them, and its webhook rejects ours while one exists.
fn duplicates(s: &Snapshot) -> BTreeMap<Arc<str>, String> {
    s.rows
        .iter()
        .filter(|(name, _)| !s.kinds.iter().any(|k| *k.interpreter.name == **name))
        .filter_map(|(name, row)| {
            let kind = &s.kinds[row.digest.kind?];
            let scripts = &kind.interpreter.scripts;
            let operations = &row.digest.operations;
            scripts
                .iter()
                .any(|(ours, _)| operations.iter().any(|theirs| **theirs == **ours))
                .then(|| (name.clone(), kind.resource.kind.clone()))
        })
        .collect()
}
