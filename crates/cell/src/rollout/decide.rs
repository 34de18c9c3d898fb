//! Assigns Instances to slots and plans the steps. The steps of the fill create and replace Instances until each slot has one of the
//! current template. The steps of the scale-down delete surplus Instances, and no hold of the fill delays them.
//!
//! Only a rolling update replaces an Instance that has been ready. Without a strategy, the rolling update continues only
//! while every slot has a ready Instance of the current template, or an Instance of a former template that has been ready.
//! A template whose Instances never become ready therefore takes down one Instance and no second, even if others lose
//! readiness meanwhile.
//!
//! With a strategy, the rolling update first creates Instances beyond the wanted number; these Instances are the surge. No
//! replacement or scale-down deletes an available Instance if fewer than `wanted - max_unavailable` available Instances would
//! be left. When no Instance of a former template is left in a slot, the Instances of the surge are surplus.

use super::{Deployment, Owner, Policy, RolloutHold, RolloutInstance, Step, StepAction, StepReason, ordinal};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
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
            if let Some(why) = hold.and_then(fill_wait_reason) {
                for (n, step) in groups.fill().enumerate() {
                    (step.act, step.why, step.now) = (StepAction::Wait, why, n == 0);
                }
            }
            let groups = [
                groups.strays,
                groups.ordered,
                groups.roll,
                groups.scale_down,
                groups.denied,
            ];
            steps.extend(groups.into_iter().flatten());
        }
        steps.extend(self.labels(deployment));
        steps
    }

    fn groups(&self, deployment: &Deployment, hold: Option<RolloutHold>) -> StepGroups {
        let waits = hold.and_then(replacement_wait_reason);
        let replace = |instance: &RolloutInstance, why| {
            if let Some(why) = waits {
                return step(&instance.name, StepAction::Wait, why);
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
                i if i.current && i.available => {}
                i if i.current => ordered.push(step(&i.name, StepAction::Wait, StepReason::NotReady)),
                i if !i.served => ordered.push(replace(i, StepReason::FixForward)),
                i if i.ready => up.push(replace(i, StepReason::Roll)),
                // The provider recovers this Instance; a new template replaces it only by the rolling update.
                i => down.push(replace(i, StepReason::Roll)),
            }
        }
        let is_rolling = !down.is_empty() || !up.is_empty();
        let strategy = deployment.strategy.as_ref().filter(|_| is_rolling);
        // A slot comes before the surge, which then gives its quota back.
        let is_slot_denied = self.slots.range(..self.wanted).any(|(_, i)| is_denied(i));
        let surge = strategy.map_or(0, |of| of.max_surge);
        let surge = self.wanted..self.wanted.saturating_add(surge);
        if deployment.strategy.is_none() {
            down.reverse();
            up.reverse();
        }
        // Instances that are not ready are replaced first.
        down.extend(up);
        let mut groups = StepGroups {
            ordered,
            roll: down,
            ..StepGroups::default()
        };
        groups.strays = self
            .strays
            .iter()
            .map(|i| removal_step(i, StepReason::Stray))
            .collect();
        let slots_waiting = groups.ordered.len();
        let creates_surge = waits.is_none() && !is_slot_denied;
        self.add_surge(deployment, surge.clone(), creates_surge, &mut groups);
        groups.limits = self.limits(deployment, &groups, slots_waiting, is_slot_denied);
        let surplus = self.slots.range(self.wanted..).rev();
        let surplus = surplus.filter(|(slot, i)| {
            let is_kept = i.deleting || i.current && !is_slot_denied;
            !(surge.contains(slot) && is_kept)
        });
        groups.scale_down = surplus
            .map(|(_, i)| removal_step(i, StepReason::Surplus))
            .collect();
        groups
    }

    /// Adds the steps of the surge.
    fn add_surge(&self, deployment: &Deployment, surge: Range<u32>, creates: bool, groups: &mut StepGroups) {
        for slot in surge {
            match self.slots.get(&slot) {
                None if creates => groups.ordered.push(self.empty_slot_step(deployment, slot)),
                Some(i) if i.deleting => groups.ordered.push(terminating_step(i)),
                Some(i) if is_denied(i) => {
                    let wait = step(&i.name, StepAction::Wait, StepReason::SurgeWithoutQuota);
                    groups.denied.push(wait);
                }
                Some(i) if i.current && !i.available => {
                    let wait = step(&i.name, StepAction::Wait, StepReason::NotReady);
                    groups.ordered.push(wait);
                }
                // An empty slot stays empty while replacements wait. An available Instance needs no step, and one of a former
                // template is surplus.
                None | Some(_) => {}
            }
        }
    }

    /// The limits of one pass: those of the strategy, or one replacement at a time without a strategy. `slots_waiting` is the
    /// number of slots without the surge that wait.
    fn limits(
        &self,
        deployment: &Deployment,
        groups: &StepGroups,
        slots_waiting: usize,
        is_slot_denied: bool,
    ) -> Limits {
        let Some(strategy) = &deployment.strategy else {
            return Limits {
                replaced: 1_usize.saturating_sub(slots_waiting),
                deletable: usize::MAX,
            };
        };
        let without_quota = is_slot_denied && !groups.roll.is_empty() || !groups.denied.is_empty();
        let max_unavailable = strategy.max_unavailable.max(u32::from(without_quota));
        let available = self.slots.values().filter(|i| i.available).count();
        let needed = self.wanted.saturating_sub(max_unavailable);
        let at_once = match deployment.policy {
            Policy::Parallel => {
                let surge = count(strategy.max_surge).saturating_sub(groups.denied.len());
                surge.max(count(max_unavailable))
            }
            Policy::OrderedReady | Policy::Unsupported => 1,
        };
        // Without an unavailable Instance, the roll needs the surge.
        let waiting = if max_unavailable == 0 {
            groups.ordered.len()
        } else {
            slots_waiting
        };
        Limits {
            replaced: at_once.saturating_sub(waiting),
            deletable: available.saturating_sub(count(needed)),
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
fn fill_wait_reason(hold: RolloutHold) -> Option<StepReason> {
    match hold {
        RolloutHold::Blocked(reason) => Some(StepReason::Blocked(reason)),
        RolloutHold::Rolls | RolloutHold::Paused => None,
    }
}

/// Reason for which replacements and the surge wait; `None` if the hold stops the whole fill.
fn replacement_wait_reason(hold: RolloutHold) -> Option<StepReason> {
    match hold {
        RolloutHold::Blocked(_) => None,
        RolloutHold::Rolls => Some(StepReason::RollsHeld),
        RolloutHold::Paused => Some(StepReason::Paused),
    }
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// True if an Instance of the current template waits for quota that another one may release.
fn is_denied(instance: &RolloutInstance) -> bool {
    instance.current && instance.quota_denied && !instance.deleting
}

/// Limits of the deletions in one pass.
#[derive(Clone, Copy, Default)]
struct Limits {
    /// Number of Instances that the rolling update may replace.
    replaced: usize,
    /// Number of available Instances that may be deleted in this pass.
    deletable: usize,
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
#[derive(Default)]
struct StepGroups {
    /// Deletions of Instances without slot.
    strays: Vec<Step>,
    /// Slots that wait for an available Instance of the current template, except those of `roll`: creations, replacements and
    /// waits, by ordinal, the surge last.
    ordered: Vec<Step>,
    /// Replacements of Instances that are or were ready, by a new template.
    roll: Vec<Step>,
    /// Deletions of Instances whose ordinals exceed the wanted number.
    scale_down: Vec<Step>,
    /// Instances of the surge that are not granted quota.
    denied: Vec<Step>,
    limits: Limits,
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
        let mut limits = self.limits;
        // Counts the deletion of a ready Instance against those that may be deleted; false if none is left.
        let mut spend_availability = |step: &Step| {
            let deletes = matches!(step.act, StepAction::Delete { .. });
            let costs = deletes && taken.get(&*step.instance).is_some_and(|i| i.ready);
            if costs && limits.deletable == 0 {
                return false;
            }
            limits.deletable -= usize::from(costs);
            true
        };
        let Self {
            strays,
            ordered,
            roll,
            scale_down,
            denied: _,
            limits: _,
        } = self;
        for stray in &mut *strays {
            stray.now = true;
        }
        let mut removals = scale_down
            .iter_mut()
            .filter(|step| policy == Policy::Parallel || step.why != StepReason::Lost);
        if policy == Policy::Parallel {
            removals.for_each(|step| step.now = spend_availability(step));
        } else if let Some(first) = removals.find(|step| spend_availability(step)) {
            first.now = true;
        }
        let is_free = |step: &Step| {
            let creates = matches!(step.act, StepAction::Create(_));
            !(creates && taken.contains_key(&*step.instance))
        };
        if policy == Policy::Parallel {
            for step in &mut *ordered {
                step.now = step.act != StepAction::Wait && is_free(step);
            }
        } else if strays.iter().any(|step| step.why != StepReason::Lost) {
            return;
        } else if let Some(first) = ordered
            .iter_mut()
            .find(|step| step.why != StepReason::Lost && is_free(step))
        {
            first.now = true;
        }
        for step in roll.iter_mut().take(limits.replaced) {
            step.now = spend_availability(step);
        }
    }
}
