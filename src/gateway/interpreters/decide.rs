//! What an interpreter should be, and what stands in its way. Pure.

use crate::{
    engine::{
        clock::Now,
        diff::Digest,
        key::Plane,
        plan::{Effect, Endpoint, Exact, Plan, Prepared, Target, Write},
    },
    gateway::world::digest::InterpreterDigest,
    kinds::FederatedKind,
    plane::table::Row,
};
use kube::core::ApiResource;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Someone who keeps changing an interpreter is answered at most this often.
pub const RESTORE_EVERY: Duration = Duration::from_mins(1);

/// The reason of the write that answers a change; it counts against [`RESTORE_EVERY`].
pub const RESTORE: &str = "restore_interpreter";

/// The interpreters of the hub, and the one that is looked at.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The federated kinds.
    pub kinds: Arc<Vec<FederatedKind>>,
    /// The resource of interpreters.
    pub resource: ApiResource,
    /// Name of the one that is looked at.
    pub name: Arc<str>,
    /// All interpreters there are.
    pub rows: Vec<(Arc<str>, Row<InterpreterDigest>)>,
    /// When it was last restored.
    pub restored: Option<Instant>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to do, and when to look again.
    pub plan: Plan<Prepared>,
    /// Whether it is there, to stay, and says something else than its kind's folder.
    pub drift: bool,
    /// Interpreters with an operation of ours for a kind of ours, each with the kind.
    pub rivals: BTreeMap<Arc<str>, String>,
}

/// Decides; without `manage` nothing is written.
pub fn decide(s: &Snapshot, manage: bool, now: Now) -> Decision {
    let mut decision = Decision {
        plan: Plan::default(),
        drift: false,
        rivals: rivals(s),
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
    // One that is being deleted is made anew by the event of its end.
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
    decision.plan = match wait {
        Some(wait) => Plan::after(wait),
        None => Plan::one(Effect {
            target: Target::cluster(Plane::Hub, &s.resource, &s.name),
            endpoint: Endpoint::Main,
            write: Write::Apply {
                body,
                exact: Exact::roots(["spec"]),
            },
            reason: if decision.drift {
                RESTORE
            } else {
                "create_interpreter"
            },
        }),
    };
    decision
}

/// Karmada may use a rival instead of ours, and its webhook refuses ours while there is one.
fn rivals(s: &Snapshot) -> BTreeMap<Arc<str>, String> {
    s.rows
        .iter()
        .filter(|(name, _)| !s.kinds.iter().any(|k| *k.interpreter.name == **name))
        .filter_map(|(name, row)| {
            let kind = s.kinds.get(row.digest.kind?)?;
            let scripts = &kind.interpreter.scripts;
            let operations = &row.digest.operations;
            scripts
                .iter()
                .any(|(ours, _)| operations.iter().any(|theirs| **theirs == **ours))
                .then(|| (name.clone(), kind.resource.kind.clone()))
        })
        .collect()
}
