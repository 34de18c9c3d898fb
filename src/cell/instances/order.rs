//! Instances in their slots, and the steps that follow: lane A makes and replaces, lane B takes surplus away.
//!
//! An Instance that has been ready is replaced only by the roll, and the roll goes on only when every slot has an Instance
//! of the present template that is ready or one of a former template that has served: so a template with which nothing
//! becomes ready takes one Instance down and no second one, even if others stop being ready meanwhile.

use super::{Act, Deployment, Hold, Instance, Owner, Policy, Step, Why, ordinal};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What the Instances of a deployment are to it.
pub(super) struct Sorted<'a> {
    /// So many ordinals are wanted.
    wanted: u32,
    /// The Instance of each wanted ordinal.
    slots: BTreeMap<u32, &'a Instance>,
    /// Ordinals that are not wanted any more.
    surplus: BTreeMap<u32, &'a Instance>,
    /// Ours, and of no use.
    strays: Vec<&'a Instance>,
    /// Wanted ordinals whose names are held by what is not ours.
    conflicts: BTreeMap<u32, &'a Instance>,
    /// All names that are taken.
    names: BTreeSet<&'a str>,
}

impl<'a> Sorted<'a> {
    /// Puts each in its place. Live ones come before those that go, then the oldest: whatever the order of the list, the
    /// same one keeps the slot.
    pub(super) fn of(deployment: &Deployment, instances: &'a [Instance]) -> Self {
        let mut by_age: Vec<&Instance> = instances.iter().collect();
        by_age.sort_by(|a, b| {
            let rank = |i: &Instance| (i.deleting, i.created);
            rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
        });
        let mut sorted = Self {
            // Where no number is known, each Instance has the slot of its ordinal.
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

    pub(super) fn steps(&self, deployment: &Deployment, hold: Option<Hold>) -> Vec<Step> {
        let mut steps = Vec::new();
        if deployment.policy != Policy::Unsupported && deployment.replicas.is_some() {
            let mut lanes = self.lanes(deployment, hold);
            lanes.perform(deployment.policy, &self.names);
            if let Some(why) = hold.and_then(stop) {
                for step in lanes.a() {
                    step.act = Act::Wait;
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

    fn lanes(&self, deployment: &Deployment, hold: Option<Hold>) -> Lanes {
        let strays = self.strays.iter().map(|i| removal(i, Why::Stray)).collect();
        let replace = |instance: &Instance, why| {
            if hold == Some(Hold::Rolls) {
                return step(&instance.name, Act::Wait, Why::RollsHeld);
            }
            let delete = Act::Delete {
                uid: instance.uid.clone(),
                // It may have become ready since.
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
                i if i.current => ordered.push(step(&i.name, Act::Wait, Why::NotReady)),
                i if !i.served => ordered.push(replace(i, Why::FixForward)),
                i if i.ready => up.push(replace(i, Why::Roll)),
                // Its provider recovers it; a new template takes its place only in its turn.
                i => down.push(replace(i, Why::Roll)),
            }
        }
        // First those that do not serve anyway.
        let roll = down.into_iter().rev().chain(up.into_iter().rev()).collect();
        let surplus = self.surplus.values().rev();
        Lanes {
            strays,
            ordered,
            roll,
            surplus: surplus.map(|i| removal(i, Why::Surplus)).collect(),
        }
    }

    fn vacant(&self, deployment: &Deployment, slot: u32) -> Step {
        if let Some(holder) = self.conflicts.get(&slot) {
            return step(&holder.name, Act::Wait, Why::NameConflict);
        }
        let name = ordinal::name(&deployment.name, slot).into();
        step(&name, Act::Create(slot), Why::Missing)
    }

    fn labels(&self, deployment: &Deployment) -> impl Iterator<Item = Step> {
        let own = self.slots.iter().chain(&self.surplus);
        own.filter(|(_, instance)| !instance.deleting)
            .filter_map(|(slot, instance)| {
                let patch = deployment.linking.repair(*slot, &instance.labels)?;
                let uid = instance.uid.clone();
                let mut step = step(&instance.name, Act::PatchLabels { uid, patch }, Why::Labels);
                step.now = true;
                Some(step)
            })
    }
}

/// Why lane A stands still altogether.
fn stop(hold: Hold) -> Option<Why> {
    match hold {
        Hold::Suspended => Some(Why::Suspended),
        Hold::Blocked(reason) => Some(Why::Blocked(reason)),
        Hold::Rolls => None,
    }
}

fn step(instance: &Arc<str>, act: Act, why: Why) -> Step {
    Step {
        instance: instance.clone(),
        act,
        why,
        now: false,
    }
}

/// The wait for an Instance's end.
fn going(instance: &Instance) -> Step {
    let why = if instance.lost {
        Why::Lost
    } else {
        Why::Terminating
    };
    step(&instance.name, Act::Wait, why)
}

/// The end of an Instance, or the wait for it.
fn removal(instance: &Instance, why: Why) -> Step {
    if instance.deleting {
        return going(instance);
    }
    let delete = Act::Delete {
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

    /// Marks what may be done now.
    fn perform(&mut self, policy: Policy, names: &BTreeSet<&str>) {
        for stray in &mut self.strays {
            stray.now = true;
        }
        if policy == Policy::Parallel {
            self.perform_all(names);
            return;
        }
        // The roll waits for all slots; what else there is does not wait for an end that nobody confirms.
        if self.strays.iter().all(|step| step.why == Why::Lost) {
            let is_free = |step: &&mut Step| {
                let held = matches!(step.act, Act::Create(_)) && names.contains(&*step.instance);
                step.why != Why::Lost && !held
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
        if let Some(first) = self.surplus.iter_mut().find(|step| step.why != Why::Lost) {
            first.now = true;
        }
    }

    fn perform_all(&mut self, names: &BTreeSet<&str>) {
        for step in &mut self.ordered {
            step.now = match step.act {
                Act::Create(_) => !names.contains(&*step.instance),
                Act::Delete { .. } => true,
                Act::PatchLabels { .. } | Act::Wait => false,
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
