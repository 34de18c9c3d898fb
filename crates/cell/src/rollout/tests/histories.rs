//! Property tests: invariants over random histories of a deployment, with failures, template changes, scaling and
//! manual edits.

use super::*;
use crate::rollout::{Step, StepAction, StepReason};
use fedgate_api::Reason;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Event {
    /// Plans, and executes the steps that are due.
    Pass,
    /// The n-th Instance becomes ready, unless its template is broken. With a strategy it becomes available the next time.
    Ready(usize),
    Unready(usize),
    /// The n-th Instance never becomes ready again.
    Dies(usize),
    /// The n-th Instance disappears, if it is being deleted.
    Gone(usize),
    /// A new template; Instances of a broken template never become ready.
    Template {
        broken: bool,
    },
    Scale(u32),
    Policy(Policy),
    /// Another strategy: surge and unavailable Instances.
    Strategy(Option<(u32, u32)>),
    /// The n-th Instance is refused quota, unless it has been ready.
    Denied(usize),
    Hold(Option<RolloutHold>),
    /// A label of the n-th Instance is removed or changed manually.
    Meddle(usize, Option<u8>),
    /// An object with an Instance's name is created manually.
    ByHand(u32),
    /// The deployment is deleted and created again under the same name.
    Anew,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Pass),
        4 => (0..8usize).prop_map(Event::Ready),
        2 => (0..8usize).prop_map(Event::Unready),
        1 => (0..8usize).prop_map(Event::Dies),
        4 => (0..8usize).prop_map(Event::Gone),
        1 => any::<bool>().prop_map(|broken| Event::Template { broken }),
        1 => (0..5u32).prop_map(Event::Scale),
        1 => prop_oneof![
            Just(Policy::OrderedReady), Just(Policy::Parallel), Just(Policy::Unsupported)
        ].prop_map(Event::Policy),
        1 => proptest::option::of((0..4u32, 0..3u32)).prop_map(Event::Strategy),
        1 => (0..8usize).prop_map(Event::Denied),
        1 => prop_oneof![
            Just(None), Just(Some(RolloutHold::Blocked(Reason::Suspended))), Just(Some(RolloutHold::Rolls)),
            Just(Some(RolloutHold::Paused))
        ].prop_map(Event::Hold),
        1 => (0..8usize, proptest::option::of(0..6u8)).prop_map(|(n, to)| Event::Meddle(n, to)),
        1 => (0..5u32).prop_map(Event::ByHand),
        1 => Just(Event::Anew),
    ]
}

struct Cell {
    deployment: Deployment,
    instances: Vec<RolloutInstance>,
    /// True if the template of the Instance at the same index is broken.
    broken: Vec<bool>,
    template_broken: bool,
    hold: Option<RolloutHold>,
    made: u32,
}

impl Cell {
    fn new() -> Self {
        Self {
            deployment: deployment(2),
            instances: Vec::new(),
            broken: Vec::new(),
            template_broken: false,
            hold: None,
            made: 0,
        }
    }

    fn plan(&self) -> Vec<Step> {
        plan(&self.deployment, &self.instances, self.hold)
    }

    fn insert(&mut self, name: &str, owner: Owner, labels: Labels) {
        assert!(
            self.instances.iter().all(|i| *i.name != *name),
            "{name} is made while an object has the name"
        );
        self.made += 1;
        self.instances.push(RolloutInstance {
            name: name.into(),
            uid: format!("uid-{}", self.made).into(),
            version: "1".into(),
            created: i64::from(self.made),
            owner,
            deleting: false,
            ready: false,
            available: false,
            served: false,
            quota_denied: false,
            lost: false,
            current: true,
            labels,
        });
        self.broken.push(self.template_broken);
    }

    fn remove(&mut self, n: usize) {
        self.instances.remove(n);
        self.broken.remove(n);
    }

    fn own(&self) -> Owner {
        Owner::Deployment(self.deployment.uid.clone())
    }

    fn apply(&mut self, event: &Event) {
        let count = self.instances.len();
        match event {
            Event::Pass => self.pass(),
            Event::Ready(n) if *n < count => {
                let instance = &mut self.instances[*n];
                let had = instance.ready || self.deployment.strategy.is_none();
                instance.ready = !self.broken[*n] && !instance.deleting && !instance.quota_denied;
                instance.available = instance.ready && had;
                instance.served |= instance.ready;
            }
            Event::Unready(n) if *n < count => self.stops(*n),
            Event::Dies(n) if *n < count => {
                self.stops(*n);
                self.broken[*n] = true;
            }
            Event::Denied(n) if *n < count => {
                self.instances[*n].quota_denied =
                    !self.instances[*n].served && !self.instances[*n].quota_denied;
            }
            Event::Gone(n) if *n < count && self.instances[*n].deleting => self.remove(*n),
            Event::Template { broken } => {
                self.template_broken = *broken;
                self.instances.iter_mut().for_each(|i| i.current = false);
            }
            Event::Scale(replicas) => self.deployment.replicas = Some(*replicas),
            Event::Policy(policy) => self.deployment.policy = *policy,
            Event::Strategy(limits) => {
                self.deployment.strategy = limits.map(|(surge, unavailable)| strategy(surge, unavailable));
                if limits.is_none() {
                    self.instances.iter_mut().for_each(|i| i.available = i.ready);
                }
            }
            Event::Hold(hold) => self.hold = *hold,
            Event::Meddle(n, to) if *n < count => {
                let labels = &mut self.instances[*n].labels;
                let index = to.map(|index| index.to_string());
                *labels = labels.with(keys::INSTANCE_INDEX, index.as_deref());
            }
            Event::ByHand(n) => {
                let name = ordinal::name(NAME, *n);
                if self.instances.iter().all(|i| *i.name != *name) {
                    self.insert(&name, Owner::Foreign, Labels::default());
                }
            }
            Event::Anew => {
                let uid: Arc<str> = format!("{UID}-{}", self.made).into();
                self.made += 1;
                self.deployment.uid = uid;
            }
            Event::Ready(_)
            | Event::Unready(_)
            | Event::Dies(_)
            | Event::Denied(_)
            | Event::Gone(_)
            | Event::Meddle(..) => {}
        }
    }

    fn stops(&mut self, n: usize) {
        self.instances[n].ready = false;
        self.instances[n].available = false;
    }

    /// Executes the steps that are due, and checks each step against the state that it was planned from.
    fn pass(&mut self) {
        let steps = self.plan();
        self.check(&steps);
        for step in steps.into_iter().filter(|step| step.now) {
            match step.act {
                StepAction::Create(ordinal) => {
                    let labels = self.deployment.labels(ordinal);
                    self.insert(&step.instance, self.own(), labels.into_iter().collect());
                }
                StepAction::Delete { uid, .. } => {
                    let instance = self.by_uid(&uid);
                    (instance.deleting, instance.ready, instance.available) = (true, false, false);
                }
                StepAction::PatchLabels { uid, patch } => {
                    let labels = &mut self.by_uid(&uid).labels;
                    for (key, value) in patch.as_object().unwrap() {
                        *labels = labels.with(key, value.as_str());
                    }
                }
                StepAction::Wait => {}
            }
        }
    }

    fn by_uid(&mut self, uid: &str) -> &mut RolloutInstance {
        let found = self.instances.iter_mut().find(|i| *i.uid == *uid);
        found.expect("a step names an Instance that there is")
    }

    fn wanted(&self) -> u32 {
        self.deployment.replicas.unwrap_or_default()
    }

    fn check(&self, steps: &[Step]) {
        let own = self.own();
        let wanted =
            |i: &RolloutInstance| ordinal::of(NAME, i).is_some_and(|n| i.owner == own && n < self.wanted());
        let alone = |i: &RolloutInstance| {
            let others = self.instances.iter().filter(|o| wanted(o) && o.uid != i.uid);
            others
                .into_iter()
                .all(|o| ordinal::of(NAME, o) != ordinal::of(NAME, i))
        };
        let now: Vec<&Step> = steps.iter().filter(|step| step.now).collect();
        for step in &now {
            let (StepAction::Delete { uid, .. } | StepAction::PatchLabels { uid, .. }) = &step.act else {
                continue;
            };
            let instance = self.instances.iter().find(|i| i.uid == *uid).unwrap();
            assert_ne!(
                instance.owner,
                Owner::Foreign,
                "what is not ours is touched: {step:?}"
            );
            let deletes = matches!(step.act, StepAction::Delete { .. });
            assert!(
                !(deletes && wanted(instance) && alone(instance) && instance.ready && instance.current),
                "one that is wanted, ready and current is deleted: {step:?}"
            );
            assert!(!instance.deleting, "one that goes is asked to go: {step:?}");
        }
        let replaced: Vec<&RolloutInstance> = now
            .iter()
            .filter(|step| matches!(step.why, StepReason::Roll | StepReason::FixForward))
            .filter_map(|step| self.instances.iter().find(|i| i.name == step.instance))
            .collect();
        assert!(
            replaced.is_empty() || self.hold.is_none(),
            "a hold holds every replacement"
        );
        let served: Vec<&&RolloutInstance> = replaced.iter().filter(|i| i.served).collect();
        let limits = self.limits();
        assert!(
            served.len() <= limits.map_or(1, |(at_once, _)| at_once),
            "no more Instances that have served are replaced at a time than the strategy says"
        );
        if let Some((at_once, unavailable)) = limits {
            self.check_available(&now, at_once, unavailable);
        } else if !served.is_empty() {
            assert_eq!(replaced.len(), 1, "and nothing else meanwhile");
            let fine: std::collections::BTreeSet<u32> = self
                .instances
                .iter()
                .filter(|i| wanted(i) && !i.deleting && (i.ready || i.served && !i.current))
                .filter_map(|i| ordinal::of(NAME, i))
                .collect();
            assert_eq!(
                fine.len(),
                self.wanted() as usize,
                "nothing that was made of the present template is on its way"
            );
        }
        if limits.is_none() && served.iter().any(|i| i.ready) {
            assert!(
                self.instances.iter().all(|i| !wanted(i) || i.ready || !alone(i)),
                "one that is ready goes when all are"
            );
        }
        for step in &now {
            if let StepAction::Create(n) = step.act {
                let live = self.instances.iter().filter(|i| wanted(i) && !i.deleting);
                assert!(
                    live.into_iter().all(|i| ordinal::of(NAME, i) != Some(n)),
                    "a second one is made: {step:?}"
                );
            }
        }
    }

    /// How many Instances may be replaced at once and be unavailable; `None` without a strategy.
    fn limits(&self) -> Option<(usize, usize)> {
        let strategy = self.deployment.strategy?;
        let own = self.own();
        let beyond = |i: &&RolloutInstance| {
            i.owner == own && !i.deleting && ordinal::of(NAME, i).is_some_and(|n| n >= self.wanted())
        };
        let is_denied = self
            .instances
            .iter()
            .filter(beyond)
            .any(|i| i.quota_denied && i.current);
        let unavailable = strategy.max_unavailable.max(u32::from(is_denied)) as usize;
        let at_once = match self.deployment.policy {
            Policy::Parallel => unavailable.max(strategy.max_surge as usize),
            _ => 1,
        };
        Some((at_once, unavailable))
    }

    /// Checks that a pass leaves as many available Instances as the strategy asks for, and makes no more of them than it allows.
    fn check_available(&self, now: &[&Step], at_once: usize, unavailable: usize) {
        let own = self.own();
        let by_ordinal = |i: &&RolloutInstance| i.owner == own && ordinal::of(NAME, i).is_some();
        let slots: std::collections::BTreeSet<Option<u32>> = self
            .instances
            .iter()
            .filter(by_ordinal)
            .filter(|i| i.available)
            .map(|i| ordinal::of(NAME, i))
            .collect();
        let ends = |step: &&&Step| {
            let ended = self
                .instances
                .iter()
                .filter(by_ordinal)
                .find(|i| i.name == step.instance);
            step.why != StepReason::Stray
                && matches!(step.act, StepAction::Delete { .. })
                && ended.is_some_and(|i| i.available)
        };
        let ended = now.iter().filter(ends).count();
        let needed = (self.wanted() as usize).saturating_sub(unavailable);
        assert!(
            ended == 0 || slots.len() >= needed + ended,
            "{ended} of {} available Instances end, {needed} are needed",
            slots.len()
        );
        let surge = self.deployment.strategy.map_or(0, |strategy| strategy.max_surge);
        for step in now {
            if let StepAction::Create(n) = step.act {
                assert!(n < self.wanted() + surge, "{step:?} is beyond the surge");
            }
        }
        let rolled = now.iter().filter(|step| step.why == StepReason::Roll).count();
        assert!(rolled <= at_once, "{rolled} are rolled at once");
    }

    /// Removes holds, an unsupported policy and foreign objects, applies a good template and runs until the plan is
    /// empty. Returns the number of passes.
    fn settle(&mut self) -> usize {
        self.hold = None;
        if self.deployment.policy == Policy::Unsupported {
            self.deployment.policy = Policy::OrderedReady;
        }
        while let Some(n) = self.instances.iter().position(|i| i.owner == Owner::Foreign) {
            self.remove(n);
        }
        self.apply(&Event::Template { broken: false });
        for passes in 1..200 {
            self.pass();
            while let Some(n) = self.instances.iter().position(|i| i.deleting) {
                self.remove(n);
            }
            for n in 0..self.instances.len() {
                self.instances[n].quota_denied = false;
                self.apply(&Event::Ready(n));
                self.apply(&Event::Ready(n));
            }
            if self.plan().is_empty() {
                return passes;
            }
        }
        panic!(
            "it does not come to rest: {:?}",
            steps(&self.deployment, &self.instances, None)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_is_made_twice_or_lost_and_it_always_ends(events in prop::collection::vec(event(), 1..80)) {
        let mut cell = Cell::new();
        for event in &events {
            cell.apply(event);
        }
        let before = cell.instances.len();
        let passes = cell.settle();
        let wanted = cell.wanted() as usize;
        let surge = cell.deployment.strategy.map_or(0, |strategy| 2 * (strategy.max_surge as usize + wanted));
        prop_assert!(passes <= 2 * before + 2 * wanted + 2 + surge, "{passes} passes from {before} to {wanted} Instances");
        let mut ordinals: Vec<_> = cell.instances.iter().map(|i| ordinal::of(NAME, i)).collect();
        ordinals.sort_unstable();
        prop_assert_eq!(ordinals, (0..cell.wanted()).map(Some).collect::<Vec<_>>());
        let own = cell.own();
        prop_assert!(cell.instances.iter().all(|i| i.owner == own && i.ready && i.current && !i.deleting));
        prop_assert!(cell.plan().is_empty());
    }
}
