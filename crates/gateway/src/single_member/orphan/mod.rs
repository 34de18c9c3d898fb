//! The end of an object that lives at one member and has lost its origin. It goes as a deletion by its tenant, from copy, pin and
//! labels alone, but no copy is made again and nothing is taken over (contract: clusters.md §3.4). Pure but for [`Orphan::read`].

use super::{
    Observation, Probe,
    decide::{CopyWrite, MemberStep, delete_stopped},
    observe::Record,
    probe::Probing,
};
use crate::{
    index::{
        GatewayIndex,
        rows::{Binding, HubCopy},
        single_member::{AdoptedState, CopyPolicy, DeliveryPolicy, Pin, PinnedCluster, Stage, policy},
    },
    reason::WriteReason,
};
use fedgate_engine::{
    key::{Key, Plane},
    plan::{Effect, Requeue, Target, Write},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, FinishedWhen, KindId};
use std::sync::Arc;

/// The hub's objects of an object without origin.
#[derive(Debug, Clone)]
pub struct Orphan<'a> {
    /// Kind of the object.
    pub kind: (KindId, &'a FederatedKind),
    /// Address of the copy.
    pub target: Target,
    /// The copy.
    pub copy: Option<&'a Row<HubCopy>>,
    /// The binding of the copy's name.
    pub binding: Option<&'a Row<Binding>>,
    /// The pin.
    pub pin: Option<&'a Arc<Pin>>,
    /// The companions that went with the object to its member.
    pub adopted: AdoptedState,
    /// The `ConfigMap` with the pin.
    pub record: Record,
    /// Name of the policy by which the copy is withdrawn, if that policy is there.
    pub withdrawing: Option<String>,
    /// The Cluster that has the name of the pin's member.
    pub cluster: Option<PinnedCluster>,
}

impl<'a> Orphan<'a> {
    /// Reads it from the index.
    pub fn read(index: &'a GatewayIndex, key: &Key, kind: KindId) -> Self {
        let (hub, name) = (&key.namespace, &key.name);
        let profile = &index.kinds[kind];
        let pin = index.pin(kind, hub, name);
        let policy = pin.map(|pin| DeliveryPolicy::At(kind, Stage::Withdraw, pin.member.clone()));
        let policy = policy.filter(|policy| index.is_policy_ready(hub, policy));
        Self {
            kind: (kind, profile),
            target: Target::namespaced(Plane::Hub, &profile.resource, hub, name),
            copy: index.hub.copies[kind].get(hub, name),
            binding: index.binding(kind, hub, name),
            pin,
            adopted: pin.map_or_else(AdoptedState::default, |pin| index.adopted_state(hub, name, pin)),
            record: Record::read(index, kind, hub, name),
            withdrawing: policy.map(|policy| policy.name(&index.kinds)),
            cluster: pin.map(|pin| index.pinned_cluster(pin)),
        }
    }
}

const WAIT: MemberStep = MemberStep::Wait(Requeue::AwaitChange);

/// The next step. [`MemberStep::Write`] asks for its policy.
pub fn next(o: &Orphan<'_>, probing: &mut Probing) -> MemberStep {
    let step = match (o.copy, o.pin) {
        (Some(copy), None) if !copy.deleting && is_nowhere(o, copy) => {
            MemberStep::Delete(WriteReason::DeleteOrphan)
        }
        (Some(copy), Some(pin)) if !copy.deleting => stop(o, copy, pin, probing),
        (None, Some(pin)) if o.binding.is_none() => confirm_absent(o, pin, probing),
        // A copy that was delivered stays without its pin: an operator has to write the pin again.
        (Some(_) | None, Some(_) | None) => WAIT,
    };
    match (step, o.copy) {
        (MemberStep::Delete(reason), Some(copy)) => {
            let effect = Effect::main(o.target.clone(), Write::delete(&copy.uid), reason);
            MemberStep::Apply(Box::new(effect))
        }
        (step, _) => step,
    }
}

/// True if a copy was delivered to no member.
fn is_nowhere(o: &Orphan<'_>, copy: &Row<HubCopy>) -> bool {
    let policy = CopyPolicy::read(o.kind.1, copy.digest.delivery_policy.as_deref());
    !matches!(policy, CopyPolicy::At(stage, _) if stage != Stage::Withdraw)
}

fn stop(o: &Orphan<'_>, copy: &Row<HubCopy>, pin: &Arc<Pin>, probing: &mut Probing) -> MemberStep {
    let label = copy.digest.delivery_policy.as_deref();
    if CopyPolicy::read(o.kind.1, label) != CopyPolicy::At(Stage::Withdraw, &pin.member) {
        let Some(name) = &o.withdrawing else {
            return MemberStep::Write {
                write: CopyWrite::ChangePolicy { with_spec: false },
                policy: DeliveryPolicy::At(o.kind.0, Stage::Withdraw, pin.member.clone()),
                is_takeover: false,
            };
        };
        let patch = policy::patch(&copy.uid, &copy.resource_version(), name);
        let effect = Effect::main(o.target.clone(), Write::Merge { patch }, WriteReason::ChangeLane);
        return MemberStep::Apply(Box::new(effect));
    }
    let own = o.binding.map(|row| &row.digest).filter(|binding| {
        binding.owner.as_ref() == Some(&copy.uid) && binding.policy == copy.digest.delivery_policy
    });
    let delivery = own.and_then(|binding| binding.delivery.as_deref());
    match delivery.filter(|delivery| delivery.suspended) {
        Some(delivery) => delete_stopped(
            pin,
            delivery.id.as_ref(),
            &o.adopted,
            probing,
            WriteReason::DeleteOrphan,
        ),
        None => WAIT,
    }
}

fn confirm_absent(o: &Orphan<'_>, pin: &Arc<Pin>, probing: &mut Probing) -> MemberStep {
    let is_there = o.cluster == Some(PinnedCluster::Same);
    let asks = o.kind.1.deletion.finished_when == FinishedWhen::MemberAbsent;
    match &probing.observation {
        Some(Observation::Absent) if is_there => release(o),
        None if !asks || pin.is_over() => release(o),
        None if is_there => MemberStep::Probe(Probe::Member {
            pin: pin.clone(),
            id: None,
        }),
        // Another Cluster under the member's name proves nothing.
        _ => MemberStep::Wait(probing.again()),
    }
}

fn release(o: &Orphan<'_>) -> MemberStep {
    let removal = o.record.write(None);
    removal.map_or(WAIT, |effect| MemberStep::Apply(Box::new(effect)))
}

#[cfg(test)]
mod tests;
