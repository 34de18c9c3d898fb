//! The queue of what Karmada has to look at, and the passes over policies, templates and clusters.

use super::{Interpreter, KarmadaOptions, claim::decide};
use crate::{
    meta,
    plane::Shared,
    prepare::Endpoint,
    random::Random,
    state::{NAMESPACES, State},
    write::{Patch, Target},
};
use fedgate_karmada::{
    binding,
    claim::{Claim, Decision},
    names,
    select::{selectors, selectors_match},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem::take,
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

pub(crate) type Place = (usize, Box<str>);

/// What Karmada has to look at, and how it acts.
#[derive(Debug)]
pub(crate) struct Actor {
    /// How long it takes to look at an object: between these two.
    pace: RangeInclusive<Duration>,
    random: Random,
    /// True if Karmada acts in [`Karmada::step`](super::Karmada::step) alone.
    pub(crate) waits: bool,
    pub(super) hold: bool,
    queue: VecDeque<Place>,
    queued: BTreeSet<Place>,
    /// The members that have planes.
    pub(super) members: BTreeMap<Box<str>, Arc<Shared>>,
    /// Interpreters of kinds, by the words for the kinds.
    pub(super) interpreters: BTreeMap<Box<str>, Arc<dyn Interpreter>>,
    /// Bindings that wait for the end of a Work.
    pub(super) blocked: BTreeSet<Place>,
}

impl Actor {
    pub(super) fn new(options: &KarmadaOptions, random: Random) -> Self {
        Self {
            pace: options.delay..=options.delay + options.spread,
            random,
            waits: options.on_demand,
            hold: options.hold_bindings,
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            members: BTreeMap::new(),
            interpreters: BTreeMap::new(),
            blocked: BTreeSet::new(),
        }
    }

    /// Whether it acts within the write that gives it work.
    pub(crate) fn is_immediate(&self) -> bool {
        self.pace.end().is_zero()
    }

    /// What it has to look at and has not been put off yet, each with the time that it takes to get there.
    pub(crate) fn put_off(&mut self) -> Vec<(Duration, Place)> {
        take(&mut self.queue)
            .into_iter()
            .map(|place| (self.random.duration(&self.pace), place))
            .collect()
    }

    /// Whether a write meets a conflict, because the object is newer than what was looked at: one in four, of an actor
    /// whose pace varies.
    fn meets_conflict(&mut self) -> bool {
        self.pace.start() != self.pace.end() && self.random.happens(0.25)
    }

    /// Whether a binding is scheduled before its Works are made: one in two, of an actor whose pace varies.
    pub(super) fn schedules_first(&mut self) -> bool {
        self.pace.start() != self.pace.end() && !self.members.is_empty() && self.random.happens(0.5)
    }

    /// An object was written.
    pub(crate) fn notice(&mut self, table: usize, key: &str) {
        let place: Place = (table, key.into());
        if self.queued.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
}

impl State {
    /// Looks at what was put off.
    pub(crate) fn karmada_step_at(&mut self, place: &Place) {
        let Some(actor) = &mut self.karmada else { return };
        actor.queued.remove(place);
        self.karmada_look(place.0, &place.1);
    }

    /// Whether a write of Karmada's meets a conflict; then the object has to be looked at again.
    fn karmada_conflict(&mut self, table: usize, key: &str) -> bool {
        let met = self.karmada.as_mut().is_some_and(Actor::meets_conflict);
        if met {
            self.karmada_again(table, key);
        }
        met
    }

    /// Has an object looked at again.
    pub(super) fn karmada_again(&mut self, table: usize, key: &str) {
        if let Some(actor) = &mut self.karmada {
            actor.notice(table, key);
        }
    }

    /// Looks at everything that was written since the last step.
    pub(crate) fn karmada_step(&mut self) {
        let Some(actor) = &mut self.karmada else { return };
        actor.queued.clear();
        for (table, key) in take(&mut actor.queue) {
            self.karmada_look(table, &key);
        }
    }

    fn karmada_look(&mut self, table: usize, key: &str) {
        let definition = self.tables[table].definition.clone();
        match (&*definition.group, &*definition.plural) {
            ("policy.karmada.io", plural) => {
                if let Some(claim) = Claim::of_plural(plural) {
                    self.policy_pass(claim, table, key);
                }
            }
            ("work.karmada.io", "works") => self.work_pass(table, key),
            ("work.karmada.io", _) => self.binding_pass(table, key),
            ("cluster.karmada.io", _) => self.cluster_pass(key),
            ("config.karmada.io" | "coordination.k8s.io" | "events.k8s.io", _) | ("", "events") => {}
            _ => self.template_pass(table, key),
        }
    }

    /// A Cluster may get or lose any binding, and its Works may have waited for it.
    fn cluster_pass(&mut self, cluster: &str) {
        for bindings in ["resourcebindings", "clusterresourcebindings"] {
            let Some(table) = self.table("work.karmada.io", bindings) else {
                continue;
            };
            let keys: Vec<Box<str>> = self.tables[table].objects.keys().cloned().collect();
            for key in keys {
                self.binding_pass(table, &key);
            }
        }
        let Some(works) = self.works() else { return };
        let space = names::work_namespace(cluster);
        let keys: Vec<Box<str>> = self
            .in_namespace(works, &space)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.work_pass(works, &key);
        }
    }

    /// Writes for Karmada; a write that is refused is tried again when something changes.
    pub(super) fn karmada_patch(&mut self, table: usize, object: &Value, endpoint: Endpoint, patch: &Value) {
        let definition = self.tables[table].definition.clone();
        let Some(version) = definition.storage() else {
            return;
        };
        let target = Target {
            table,
            definition: &definition,
            version,
            namespace: meta::namespace(object),
            name: meta::name(object),
            endpoint,
            manager: super::KARMADA,
            dry_run: false,
        };
        let _ = self.patch(&target, Patch::Merge, patch);
    }

    /// A policy that ends lets its templates go; a changed one lets go what it no longer selects, and takes what it does.
    fn policy_pass(&mut self, claim: Claim, table: usize, policy_key: &str) {
        let Some(policy) = self.get(table, policy_key).cloned() else {
            return;
        };
        let ending = meta::is_ending(&policy);
        let namespace = meta::namespace(&policy);
        let id = claim.id(&policy);
        let mut held = false;
        for templates in 0..self.tables.len() {
            let group = &self.tables[templates].definition.group;
            if group.ends_with("karmada.io") {
                continue;
            }
            let inside: Vec<(Box<str>, Arc<Value>)> = self
                .in_namespace(templates, namespace)
                .map(|(key, object)| (key.clone(), object.clone()))
                .collect();
            for (key, object) in inside {
                let selected = !ending && selectors_match(selectors(&policy), &object).is_some();
                if claim.id(&object) == id && !selected {
                    held = true;
                    if !self.karmada_conflict(table, policy_key) {
                        self.let_go(templates, &object, claim);
                    }
                } else if selected {
                    self.template_pass(templates, &key);
                }
            }
        }
        if ending && held {
            // The policy ends in another step, once nothing is claimed.
            self.karmada_again(table, policy_key);
        } else if ending {
            let mut left = meta::list(&policy, "finalizers").to_vec();
            left.retain(|finalizer| finalizer != claim.finalizer());
            let patch = json!({"metadata": {"finalizers": left}});
            self.karmada_patch(table, &policy, Endpoint::Main, &patch);
        }
    }

    /// Takes a claim off a template and its binding.
    fn let_go(&mut self, table: usize, template: &Value, claim: Claim) {
        let patch = claim.strip();
        if let Some((bindings, key)) = self.binding_of(template)
            && let Some(binding) = self.get(bindings, &key).cloned()
            && claim.id(&binding) == claim.id(template)
        {
            self.karmada_patch(bindings, &binding, Endpoint::Main, &patch);
        }
        self.karmada_patch(table, template, Endpoint::Main, &patch);
    }

    /// Where the binding of a template is.
    fn binding_of(&self, template: &Value) -> Option<(usize, String)> {
        let namespace = meta::namespace(template);
        let kind = template["kind"].as_str().unwrap_or_default();
        let name = names::binding(kind, meta::name(template));
        Some((self.bindings_of(namespace)?, meta::key(namespace, &name)))
    }

    pub(super) fn template_pass(&mut self, table: usize, key: &str) {
        let Some(template) = self.get(table, key).cloned() else {
            return;
        };
        let reserved = names::is_reserved(meta::namespace(&template))
            || (table == NAMESPACES && names::is_reserved(key));
        if reserved || meta::is_ending(&template) {
            return;
        }
        match decide(self, &template) {
            Decision::Nothing | Decision::PolicyTerminating(_) => {}
            Decision::Release(claim) => self.let_go(table, &template, claim),
            Decision::Apply(policy) => {
                let claim = Claim::of(&policy);
                if claim.is_held(&template, &policy) {
                    self.bind(&template, &policy);
                } else if !self.karmada_conflict(table, key) {
                    // The write brings the template here once more, and so does a conflict.
                    let patch = claim.put(&policy);
                    self.karmada_patch(table, &template, Endpoint::Main, &patch);
                }
            }
        }
    }

    /// Makes the binding of a template, or brings it up to date.
    fn bind(&mut self, template: &Value, policy: &Value) {
        let Some((table, key)) = self.binding_of(template) else {
            return;
        };
        let written = match self.get(table, &key).cloned() {
            None => Some(binding::of(template, policy, &self.random.uuid())),
            Some(existing) => {
                let desired = binding::of(template, policy, binding::id(&existing).1);
                // One of an earlier object of the name must be collected first.
                let is_own = !binding::is_of_earlier(&existing, &desired);
                is_own.then(|| binding::join(&existing, &desired)).flatten()
            }
        };
        if let Some(binding) = written {
            // Refused only in a namespace that ends, where no binding is needed.
            let _ = self.put(binding, Endpoint::Main);
        }
    }
}
