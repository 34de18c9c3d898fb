//! Retires the Pod provider at a cell that leaves Instances to another provider. Running Pods continue and are reported
//! until they end; no Pod is started.
//!
//! An Instance without a Pod is handed over: its Service and `NetworkPolicy` are deleted, then the finalizer is
//! removed, which signals the next provider that it may start (contract: cell.md §9). Pure functions.

use super::{
    attached::{POLICY, SERVICE},
    decide::{Of, PodContext},
    observe::PodSnapshot,
    recovery::{self, RecoveryState},
    report,
};
use crate::reason::WriteReason;
use fedgate_api::conditions::types::{AVAILABLE, PROGRAMMED};
use fedgate_engine::plan::{Plan, Prepared};
use serde_json::Value;

/// Decides the next step.
pub fn decide(snapshot: &PodSnapshot, around: &PodContext<'_>) -> Plan<Prepared> {
    let Some(instance) = &snapshot.instance else {
        return Plan::default();
    };
    let of = Of {
        snapshot,
        instance,
        around,
    };
    if !of.has_finalizer() {
        return Plan::default();
    }
    if instance.deleting {
        return of.stop();
    }
    let Some(pod) = of.own_pod() else {
        return hand_over(&of);
    };
    if instance.digest.suspended {
        return of.suspend();
    }
    let attempts = RecoveryState::parse(instance.digest.recovery.as_deref()).attempts;
    if let Some(said) = of.report(attempts) {
        return Plan::one(said);
    }
    let seen: Value = serde_json::from_str(&pod.digest.seen).unwrap_or_default();
    if recovery::is_over(&seen) && !pod.deleting {
        return Plan::one(of.delete_pod(pod, WriteReason::PodStopped));
    }
    Plan::default()
}

/// Hands over an Instance without a Pod: resets the conditions of the former Pod, then deletes the provider's other
/// objects.
fn hand_over(of: &Of<'_>) -> Plan<Prepared> {
    if of.is(AVAILABLE) || of.is(PROGRAMMED) {
        let nothing_runs = of.say(&report::report(None, 0), None);
        return nothing_runs.map(Plan::one).unwrap_or_default();
    }
    // The policy is deleted last, so that no remaining object accepts more traffic than before.
    for kind in [&SERVICE, &POLICY] {
        if of.own_attached(kind).is_some() {
            return of.detach(kind).map(Plan::one).unwrap_or_default();
        }
    }
    Plan::one(of.finalizers(false))
}
