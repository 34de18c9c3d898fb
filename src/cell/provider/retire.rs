//! The end of the Pod provider at a cell that leaves Instances to another one. Pods that run go on, and are reported on,
//! until they end; none is started. An Instance of which nothing runs any more is handed over: its Service and its
//! `NetworkPolicy` go, and then the finalizer, by which the next provider knows that it may begin (contract: cell.md §9). Pure.

use super::{
    attached::{POLICY, SERVICE},
    decide::{Of, Surroundings},
    observe::Snapshot,
    recovery::{self, State},
    report,
};
use crate::{
    api::conditions::types::{AVAILABLE, PROGRAMMED},
    cell::world::role::Role,
    engine::plan::{Plan, Prepared},
};
use serde_json::Value;

/// The next step.
pub fn decide(snapshot: &Snapshot, around: &Surroundings<'_>) -> Plan<Prepared> {
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
    let attempts = State::parse(instance.digest.recovery.as_deref()).attempts;
    if let Some(said) = of.report(attempts) {
        return Plan::one(said);
    }
    let seen: Value = serde_json::from_str(&pod.digest.seen).unwrap_or_default();
    if recovery::is_over(&seen) && !pod.deleting {
        return Plan::one(pod.version.delete(of.target(Role::Pods), "pod_stopped"));
    }
    Plan::default()
}

/// Nothing runs: what was said of a Pod does not stand, and the rest of what is ours goes.
fn hand_over(of: &Of<'_>) -> Plan<Prepared> {
    if of.is(AVAILABLE) || of.is(PROGRAMMED) {
        let nothing_runs = of.say(&report::report(None, 0), None);
        return nothing_runs.map(Plan::one).unwrap_or_default();
    }
    // The policy last: whatever is left until then is reached by no more than before.
    for kind in [&SERVICE, &POLICY] {
        if of.own_attached(kind).is_some() {
            return of.detach(kind).map(Plan::one).unwrap_or_default();
        }
    }
    Plan::one(of.finalizers(false))
}
