//! Retires the Pod provider at a cell that leaves Instances to another provider. Running Pods continue and are reported
//! until they end; no Pod is started.
//!
//! An Instance without a Pod is handed over: its Service and `NetworkPolicy` are deleted, then the finalizer is
//! removed, which signals the next provider that it may start (contract: cell.md §9). Pure functions.

use super::{
    attached::{POLICY, SERVICE},
    decide::Planner,
    recovery::{self, RecoveryState},
    report,
};
use crate::reason::WriteReason;
use fedgate_api::conditions::types::{AVAILABLE, PROGRAMMED};
use fedgate_engine::plan::{Plan, Prepared};

/// Decides the next step for an Instance that is not being deleted.
pub(super) fn decide(planner: &Planner<'_>) -> Plan<Prepared> {
    if !planner.has_finalizer() {
        return Plan::default();
    }
    let Some(pod) = planner.own_pod() else {
        return hand_over(planner);
    };
    if planner.instance.digest.suspended {
        return planner.suspend();
    }
    let attempts = RecoveryState::parse(planner.instance.digest.recovery.as_deref()).attempts;
    if let Some(said) = planner.report_pod(attempts) {
        return Plan::one(said);
    }
    if recovery::is_over(&pod.digest.seen()) && !pod.deleting {
        return Plan::one(planner.delete_pod(pod, WriteReason::PodStopped));
    }
    Plan::default()
}

/// Hands over an Instance without a Pod: resets the conditions of the former Pod, then deletes the provider's other
/// objects.
fn hand_over(planner: &Planner<'_>) -> Plan<Prepared> {
    if planner.is_true(AVAILABLE) || planner.is_true(PROGRAMMED) {
        return planner.report_only(&report::report(None, 0));
    }
    // The policy is deleted last, so that no remaining object accepts more traffic than before.
    for kind in [&SERVICE, &POLICY] {
        if planner.own_attached(kind).is_some() {
            return planner.detach(kind).map(Plan::one).unwrap_or_default();
        }
    }
    Plan::one(planner.finalizers(false))
}
