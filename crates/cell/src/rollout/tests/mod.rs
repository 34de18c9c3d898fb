//! Tests of the plan: each scenario of the contract, and invariants over random histories.

mod histories;
mod making;
mod scenarios;
mod surge;

use super::{
    Deployment, Owner, Policy, RolloutHold, RolloutInstance, Step, StepAction, labels::Labels, ordinal, plan,
    strategy::RolloutStrategy,
};
use fedgate_api::keys;
use jiff::SignedDuration;
use std::sync::Arc;

const NAME: &str = "web-us-dfw";
const UID: &str = "uid-deployment";

fn deployment(replicas: u32) -> Deployment {
    Deployment {
        name: NAME.into(),
        uid: UID.into(),
        replicas: Some(replicas),
        policy: Policy::OrderedReady,
        strategy: None,
        workload_uid: "uid-workload".into(),
        workload_name: "web".into(),
        placement_name: "us".into(),
        city_code: Some("DFW".into()),
        location: Some("us-south-1".into()),
    }
}

fn labels(ordinal: u32) -> Labels {
    deployment(0).labels(ordinal).collect()
}

/// A ready Instance of the current template.
fn ready(n: u32) -> RolloutInstance {
    RolloutInstance {
        name: ordinal::name(NAME, n).into(),
        uid: format!("uid-{n}").into(),
        version: "7".into(),
        created: 1000,
        owner: Owner::Deployment(UID.into()),
        deleting: false,
        ready: true,
        available: true,
        served: true,
        quota_denied: false,
        lost: false,
        current: true,
        labels: labels(n),
    }
}

/// An Instance that has never been ready.
fn unready(n: u32) -> RolloutInstance {
    RolloutInstance {
        ready: false,
        available: false,
        served: false,
        ..ready(n)
    }
}

/// An Instance that has been ready and is not ready.
fn down(n: u32) -> RolloutInstance {
    RolloutInstance {
        ready: false,
        available: false,
        ..ready(n)
    }
}

fn stale(mut instance: RolloutInstance) -> RolloutInstance {
    instance.current = false;
    instance
}

fn deleting(mut instance: RolloutInstance) -> RolloutInstance {
    instance.deleting = true;
    instance
}

fn lost(instance: RolloutInstance) -> RolloutInstance {
    RolloutInstance {
        lost: true,
        ..deleting(instance)
    }
}

fn named(mut instance: RolloutInstance, name: &str) -> RolloutInstance {
    instance.name = name.into();
    instance.uid = format!("uid-{name}").into();
    instance
}

fn labelled(mut instance: RolloutInstance, key: &str, value: Option<&str>) -> RolloutInstance {
    instance.labels = instance.labels.with(key, value);
    instance
}

/// The steps as text, without the deployment's name: `Create 0* (Missing)`.
fn steps(deployment: &Deployment, instances: &[RolloutInstance], hold: Option<RolloutHold>) -> Vec<String> {
    let plan = plan(deployment, instances, hold);
    plan.iter()
        .map(|step| text(step).replace(&format!("{NAME}-"), ""))
        .collect()
}

/// E.g. `Create web-us-dfw-1* (Missing)`, with `*` after the name if the step may be executed now.
fn text(step: &Step) -> String {
    let act = match step.act {
        StepAction::Create(_) => "Create",
        StepAction::Delete { .. } => "Delete",
        StepAction::PatchLabels { .. } => "PatchLabels",
        StepAction::Wait => "Wait",
    };
    let mark = if step.now { "*" } else { "" };
    format!("{act} {}{mark} ({:?})", step.instance, step.why)
}

/// A strategy with these numbers of surge and unavailable Instances.
fn strategy(max_surge: u32, max_unavailable: u32) -> RolloutStrategy {
    RolloutStrategy {
        max_surge,
        max_unavailable: max_unavailable.max(u32::from(max_surge == 0)),
        min_ready: SignedDuration::ZERO,
        deadline: SignedDuration::from_mins(10),
        paused: false,
        undo_on_failure: false,
    }
}
