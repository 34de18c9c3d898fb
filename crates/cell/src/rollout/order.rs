//! Assigns Instances to slots and plans the steps: lane A creates and replaces, lane B deletes surplus Instances.
//!
//! Only a rolling update replaces an Instance that has been ready. The rolling update continues only while every slot
//! has a ready Instance of the current template, or an Instance of a former template that has been ready. A template
//! whose Instances never become ready therefore takes down one Instance and no second, even if others lose readiness
//! meanwhile.

use super::{Deployment, Instance, Owner, Policy, RolloutHold, Step, StepAction, StepReason, ordinal};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The Instances of a deployment by their role.
pub(super) struct Sorted<'a> {
    /// Number of wanted ordinals.
    wanted: u32,
    /// Instances of wanted ordinals.
    slots: BTreeMap<u32, &'a Instance>,
    /// Instances of ordinals that are no longer wanted.
    surplus: BTreeMap<u32, &'a Instance>,
    /// Instances that a deployment of this name controls but that have no slot; they are deleted.
    strays: Vec<&'a Instance>,
    /// Instances of other owners that hold the name of a wanted ordinal.
    conflicts: BTreeMap<u32, &'a Instance>,
    /// All names in use.
    names: BTreeSet<&'a str>,
}

impl<'a> Sorted<'a> {
    /// Assigns each Instance to its role. Instances that are not being deleted come first, then the oldest, so that the
    /// order of the list does not affect the result.
    pub(super) fn of(deployment: &Deployment, instances: &'a [Instance]) -> Self {
        let mut by_age: Vec<&Instance> = instances.iter().collect();
        by_age.sort_by(|a, b| {
            let rank = |i: &Instance| (i.deleting, i.created);
            rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
        });
        let mut sorted = Self {
            // Without a valid number each Instance has the slot of its ordinal.
            wanted: deployment.replicas.unwrap_or(u32::MAX),
            slots: BTreeMap::new(),
            surplus: BTreeMap::new(),
            strays: Vec::new(),
            conflicts: BTreeMap::new(),
            names: instances.iter().map(|i| &*i.name).collect(),
        };
        for instance in by_age {
            sorted.place(deployment, instance);
        }
        sorted
    }

    fn place(&mut self, deployment: &Deployment, instance: &'a Instance) {
        let uid = match &instance.owner {
            Owner::Foreign => {
                if let Some(slot) = ordinal::of_name(&deployment.name, &instance.name)
                    && slot < self.wanted
                {
                    self.conflicts.insert(slot, instance);
                }
                return;
            }
            Owner::Deployment(uid) => uid,
        };
        let slot = ordinal::of(&deployment.name, instance).filter(|_| *uid == deployment.uid);
        let place = match slot {
            Some(slot) if slot >= self.wanted => Some((&mut self.surplus, slot)),
            Some(slot) => Some((&mut self.slots, slot)),
            None => None,
        };
        match place {
            Some((place, slot)) if !place.contains_key(&slot) => {
                place.insert(slot, instance);
            }
            _ => self.strays.push(instance),
        }
    }

    pub(super) fn steps(&self, deployment: &Deployment, hold: Option<RolloutHold>) -> Vec<Step> {
        let mut steps = Vec::new();
        if deployment.policy != Policy::Unsupported && deployment.replicas.is_some() {
            let mut lanes = self.lanes(deployment, hold);
            lanes.perform(deployment.policy, &self.names);
            if let Some(why) = hold.and_then(stop) {
                for step in lanes.a() {
                    step.act = StepAction::Wait;
                    step.why = why;
                    step.now = false;
                }
                if let Some(first) = lanes.a().next() {
                    first.now = true;
                }
            }
            let Lanes {
                strays,
                ordered,
                roll,
                surplus,
            } = lanes;
            steps.extend(strays.into_iter().chain(ordered).chain(roll).chain(surplus));
        }
        steps.extend(self.labels(deployment));
        steps
    }

    fn lanes(&self, deployment: &Deployment, hold: Option<RolloutHold>) -> Lanes {
        let strays = self
            .strays
            .iter()
            .map(|i| removal(i, StepReason::Stray))
            .collect();
        let replace = |instance: &Instance, why| {
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
                ordered.push(self.vacant(deployment, slot));
                continue;
            };
            match instance {
                i if i.deleting => ordered.push(going(i)),
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
        let surplus = self.surplus.values().rev();
        Lanes {
            strays,
            ordered,
            roll,
            surplus: surplus.map(|i| removal(i, StepReason::Surplus)).collect(),
        }
    }

    fn vacant(&self, deployment: &Deployment, slot: u32) -> Step {
        if let Some(holder) = self.conflicts.get(&slot) {
            return step(&holder.name, StepAction::Wait, StepReason::NameConflict);
        }
        let name = ordinal::name(&deployment.name, slot).into();
        step(&name, StepAction::Create(slot), StepReason::Missing)
    }

    fn labels(&self, deployment: &Deployment) -> impl Iterator<Item = Step> {
        let own = self.slots.iter().chain(&self.surplus);
        own.filter(|(_, instance)| !instance.deleting)
            .filter_map(|(slot, instance)| {
                let patch = deployment.linking.repair(*slot, &instance.labels)?;
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

/// The reason why lane A stops; `None` for a hold of rolling updates only.
fn stop(hold: RolloutHold) -> Option<StepReason> {
    match hold {
        RolloutHold::Suspended => Some(StepReason::Suspended),
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
fn going(instance: &Instance) -> Step {
    let why = if instance.lost {
        StepReason::Lost
    } else {
        StepReason::Terminating
    };
    step(&instance.name, StepAction::Wait, why)
}

/// The deletion of an Instance, or the wait for it.
fn removal(instance: &Instance, why: StepReason) -> Step {
    if instance.deleting {
        return going(instance);
    }
    let delete = StepAction::Delete {
        uid: instance.uid.clone(),
        version: None,
    };
    step(&instance.name, delete, why)
}

#[derive(Default)]
struct Lanes {
    strays: Vec<Step>,
    ordered: Vec<Step>,
    roll: Vec<Step>,
    surplus: Vec<Step>,
}

impl Lanes {
    fn a(&mut self) -> impl Iterator<Item = &mut Step> {
        self.strays
            .iter_mut()
            .chain(&mut self.ordered)
            .chain(&mut self.roll)
    }

    /// Sets `now` on the steps that may be executed now.
    fn perform(&mut self, policy: Policy, names: &BTreeSet<&str>) {
        for stray in &mut self.strays {
            stray.now = true;
        }
        if policy == Policy::Parallel {
            self.perform_all(names);
            return;
        }
        // The rolling update waits for all slots; other steps do not wait for the end of an Instance on a lost node.
        if self.strays.iter().all(|step| step.why == StepReason::Lost) {
            let is_free = |step: &&mut Step| {
                let held = matches!(step.act, StepAction::Create(_)) && names.contains(&*step.instance);
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
        if let Some(first) = self.surplus.iter_mut().find(|step| step.why != StepReason::Lost) {
            first.now = true;
        }
    }

    fn perform_all(&mut self, names: &BTreeSet<&str>) {
        for step in &mut self.ordered {
            step.now = match step.act {
                StepAction::Create(_) => !names.contains(&*step.instance),
                StepAction::Delete { .. } => true,
                StepAction::PatchLabels { .. } | StepAction::Wait => false,
            };
        }
        if self.ordered.is_empty()
            && let Some(first) = self.roll.first_mut()
        {
            first.now = true;
        }
        for step in &mut self.surplus {
            step.now = true;
        }
    }
}
