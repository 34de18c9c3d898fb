//! Assigns Instances to slots and plans the steps. The steps of the fill create and replace Instances until each slot has one of the
//! current template. The steps of the scale-down delete surplus Instances, and no hold of the fill delays them.
//!
//! Only a rolling update replaces an Instance that has been ready. The rolling update continues only while every slot
//! has a ready Instance of the current template, or an Instance of a former template that has been ready. A template
//! whose Instances never become ready therefore takes down one Instance and no second, even if others lose readiness
//! meanwhile.

use super::{Deployment, Owner, Policy, RolloutHold, RolloutInstance, Step, StepAction, StepReason, ordinal};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// The Instances of a deployment by their role.
pub(super) struct SortedInstances<'a> {
    /// Number of wanted ordinals.
    wanted: u32,
    /// Instances that have the slot of their ordinal; those from `wanted` on are surplus.
    slots: BTreeMap<u32, &'a RolloutInstance>,
    /// Instances that a deployment of this name controls but that have no slot; they are deleted.
    strays: Vec<&'a RolloutInstance>,
    /// All Instances by name.
    by_name: BTreeMap<&'a str, &'a RolloutInstance>,
}

impl<'a> SortedInstances<'a> {
    /// Assigns each Instance to its role. Instances that are not being deleted come first, then the oldest, so that the
    /// order of the list does not affect the result.
    pub(super) fn of(
        deployment: &Deployment,
        instances: impl IntoIterator<Item = &'a RolloutInstance>,
    ) -> Self {
        let mut by_age: Vec<&RolloutInstance> = instances.into_iter().collect();
        by_age.sort_by_key(|i| (i.deleting, i.created, &i.name));
        let mut sorted = Self {
            // Without a valid number each Instance has the slot of its ordinal.
            wanted: deployment.replicas.unwrap_or(u32::MAX),
            slots: BTreeMap::new(),
            strays: Vec::new(),
            by_name: by_age.iter().map(|i| (&*i.name, *i)).collect(),
        };
        for instance in by_age {
            let Owner::Deployment(uid) = &instance.owner else {
                continue;
            };
            let slot = ordinal::of(&deployment.name, instance).filter(|_| *uid == deployment.uid);
            match slot.map(|slot| sorted.slots.entry(slot)) {
                Some(Entry::Vacant(slot)) => {
                    slot.insert(instance);
                }
                _ => sorted.strays.push(instance),
            }
        }
        sorted
    }

    pub(super) fn steps(&self, deployment: &Deployment, hold: Option<RolloutHold>) -> Vec<Step> {
        let mut steps = Vec::new();
        if deployment.policy != Policy::Unsupported && deployment.replicas.is_some() {
            let mut groups = self.groups(deployment, hold);
            groups.mark_due(deployment.policy, &self.by_name);
            if let Some(why) = hold.and_then(stop_reason) {
                for (n, step) in groups.fill().enumerate() {
                    (step.act, step.why, step.now) = (StepAction::Wait, why, n == 0);
                }
            }
            let groups = [groups.strays, groups.ordered, groups.roll, groups.scale_down];
            steps.extend(groups.into_iter().flatten());
        }
        steps.extend(self.labels(deployment));
        steps
    }

    fn groups(&self, deployment: &Deployment, hold: Option<RolloutHold>) -> StepGroups {
        let strays = self
            .strays
            .iter()
            .map(|i| removal_step(i, StepReason::Stray))
            .collect();
        let replace = |instance: &RolloutInstance, why| {
            if hold == Some(RolloutHold::Rolls) {
                return step(&instance.name, StepAction::Wait, StepReason::RollsHeld);
            }
            let delete = StepAction::Delete {
                uid: instance.uid.clone(),
                // The Instance may have become ready since, so the delete names the version.
                version: (!instance.ready).then(|| instance.version.clone()),
            };
            step(&instance.name, delete, why)
        };
        let (mut ordered, mut down, mut up) = (Vec::new(), Vec::new(), Vec::new());
        for slot in 0..self.wanted {
            let Some(instance) = self.slots.get(&slot) else {
                ordered.push(self.empty_slot_step(deployment, slot));
                continue;
            };
            match instance {
                i if i.deleting => ordered.push(terminating_step(i)),
                i if i.current && i.ready => {}
                i if i.current => ordered.push(step(&i.name, StepAction::Wait, StepReason::NotReady)),
                i if !i.served => ordered.push(replace(i, StepReason::FixForward)),
                i if i.ready => up.push(replace(i, StepReason::Roll)),
                // The provider recovers this Instance; a new template replaces it only by the rolling update.
                i => down.push(replace(i, StepReason::Roll)),
            }
        }
        // Instances that are not ready are replaced first.
        let roll = down.into_iter().rev().chain(up.into_iter().rev()).collect();
        let surplus = self.slots.range(self.wanted..).rev();
        StepGroups {
            strays,
            ordered,
            roll,
            scale_down: surplus
                .map(|(_, i)| removal_step(i, StepReason::Surplus))
                .collect(),
        }
    }

    fn empty_slot_step(&self, deployment: &Deployment, slot: u32) -> Step {
        let name: Arc<str> = ordinal::name(&deployment.name, slot).into();
        match self.by_name.get(&*name) {
            Some(holder) if holder.owner == Owner::Foreign => {
                step(&name, StepAction::Wait, StepReason::NameConflict)
            }
            _ => step(&name, StepAction::Create(slot), StepReason::Missing),
        }
    }

    fn labels(&self, deployment: &Deployment) -> impl Iterator<Item = Step> {
        self.slots
            .iter()
            .filter(|(_, instance)| !instance.deleting)
            .filter_map(|(slot, instance)| {
                let patch = deployment.repair(*slot, &instance.labels)?;
                let uid = instance.uid.clone();
                let mut step = step(
                    &instance.name,
                    StepAction::PatchLabels { uid, patch },
                    StepReason::Labels,
                );
                step.now = true;
                Some(step)
            })
    }
}

/// The reason why the fill waits; `None` for a hold of rolling updates only.
fn stop_reason(hold: RolloutHold) -> Option<StepReason> {
    match hold {
        RolloutHold::Blocked(reason) => Some(StepReason::Blocked(reason)),
        RolloutHold::Rolls => None,
    }
}

fn step(instance: &Arc<str>, act: StepAction, why: StepReason) -> Step {
    Step {
        instance: instance.clone(),
        act,
        why,
        now: false,
    }
}

/// A wait for an Instance that is being deleted.
fn terminating_step(instance: &RolloutInstance) -> Step {
    let why = if instance.lost {
        StepReason::Lost
    } else {
        StepReason::Terminating
    };
    step(&instance.name, StepAction::Wait, why)
}

/// The deletion of an Instance, or the wait for it.
fn removal_step(instance: &RolloutInstance, why: StepReason) -> Step {
    if instance.deleting {
        return terminating_step(instance);
    }
    let delete = StepAction::Delete {
        uid: instance.uid.clone(),
        version: None,
    };
    step(&instance.name, delete, why)
}

/// The steps in their order. Strays, ordered and roll are the fill.
struct StepGroups {
    /// Deletions of Instances without slot.
    strays: Vec<Step>,
    /// Slots without an Instance that is or was ready, by ordinal: creations, replacements and waits.
    ordered: Vec<Step>,
    /// Replacements of Instances that are or were ready, by a new template.
    roll: Vec<Step>,
    /// Deletions of Instances whose ordinals exceed the wanted number.
    scale_down: Vec<Step>,
}

impl StepGroups {
    fn fill(&mut self) -> impl Iterator<Item = &mut Step> {
        self.strays
            .iter_mut()
            .chain(&mut self.ordered)
            .chain(&mut self.roll)
    }

    /// Sets `now` on the steps that may be executed now.
    fn mark_due(&mut self, policy: Policy, taken: &BTreeMap<&str, &RolloutInstance>) {
        for stray in &mut self.strays {
            stray.now = true;
        }
        if policy == Policy::Parallel {
            self.mark_due_in_parallel(taken);
            return;
        }
        // The rolling update waits for all slots; other steps do not wait for the end of an Instance on a lost node.
        if self.strays.iter().all(|step| step.why == StepReason::Lost) {
            let is_free = |step: &&mut Step| {
                let held = matches!(step.act, StepAction::Create(_)) && taken.contains_key(&*step.instance);
                step.why != StepReason::Lost && !held
            };
            let first = if self.ordered.is_empty() {
                self.roll.first_mut()
            } else {
                self.ordered.iter_mut().find(is_free)
            };
            if let Some(first) = first {
                first.now = true;
            }
        }
        if let Some(first) = self
            .scale_down
            .iter_mut()
            .find(|step| step.why != StepReason::Lost)
        {
            first.now = true;
        }
    }

    fn mark_due_in_parallel(&mut self, taken: &BTreeMap<&str, &RolloutInstance>) {
        for step in &mut self.ordered {
            step.now = match step.act {
                StepAction::Create(_) => !taken.contains_key(&*step.instance),
                StepAction::Delete { .. } => true,
                StepAction::PatchLabels { .. } | StepAction::Wait => false,
            };
        }
        if self.ordered.is_empty()
            && let Some(first) = self.roll.first_mut()
        {
            first.now = true;
        }
        for step in &mut self.scale_down {
            step.now = true;
        }
    }
}
