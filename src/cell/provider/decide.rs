//! What is to be done for an Instance by the provider: one step at a time, in the contract's order. Pure.

use super::{
    attached::{POLICY, SERVICE},
    lost::{self, Ending},
    network_policy,
    observe::{Known, Snapshot},
    pod,
    recovery::{self, Recovery, Sightings},
    refusal,
    report::{self, Report, Said},
    service,
    settings::Settings,
};
use crate::{
    api::{
        Condition, ConditionStatus,
        conditions::{
            find, set,
            types::{AVAILABLE, PROGRAMMED, READY},
        },
        keys,
    },
    cell::{
        effects::create,
        instance::ready::is_word,
        size::Sizes,
        world::{
            digest::{Instance, Pod},
            role::Role,
        },
    },
    engine::{
        clock::Now,
        diff,
        key::Plane,
        plan::{About, Effect, Endpoint, Next, Note, Plan, Prepared, Target, Write},
    },
};
use serde_json::{Value, json};
use std::time::Duration;

/// What the decision depends on beside the objects.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// How Pods are run.
    pub settings: &'a Settings,
    /// Sizes of the instance types.
    pub sizes: &'a Sizes,
    /// How long a successor of a Pod that ended has to wait yet.
    pub successor_in: Option<Duration>,
    /// Why there can be no Pod: an object that is not ours holds its name or its `NetworkPolicy`'s, or the server refuses
    /// one of them.
    pub held: Option<&'a str>,
    /// What was seen of the Pod, and since when.
    pub sightings: &'a Sightings,
    /// The same of the Service.
    pub service_held: Option<&'a str>,
    /// How long the Pod has been going, if it is.
    pub going: Option<Duration>,
    /// Now.
    pub now: Now,
}

/// The next step, and what to say.
pub fn decide(snapshot: &Snapshot, around: &Surroundings<'_>) -> Plan<Prepared> {
    let Some(instance) = &snapshot.instance else {
        // What is left is reclaimed with its owner.
        return Plan::default();
    };
    let of = Of {
        snapshot,
        instance,
        around,
    };
    if instance.deleting {
        return of.stop();
    }
    if !of.is_a_deployments() {
        return Plan::default();
    }
    if instance.digest.suspended {
        return of.suspend();
    }
    if !instance.digest.gates.is_empty() {
        return Plan::default();
    }
    of.run()
}

/// Whether a plan does nothing but tell of progress, more of which is about to come.
pub fn is_progress(snapshot: &Snapshot, plan: &Plan<Prepared>) -> bool {
    let (Some(instance), [effect]) = (&snapshot.instance, &plan.effects[..]) else {
        return false;
    };
    let Write::Merge { patch } = &effect.write else {
        return false;
    };
    let conditions = patch["status"]["conditions"].clone();
    let Ok(after) = serde_json::from_value::<Vec<Condition>>(conditions) else {
        return false;
    };
    let before = |type_: &str| find(&instance.digest.conditions, type_);
    !after.iter().any(|now| is_word(before(&now.type_), now))
}

/// An Instance, and what there is to decide about it.
pub(super) struct Of<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) instance: &'a Known<Instance>,
    pub(super) around: &'a Surroundings<'a>,
}

impl Of<'_> {
    pub(super) fn target(&self, role: Role) -> Target {
        let Snapshot { namespace, name, .. } = self.snapshot;
        Target::namespaced(Plane::Cell, &role.resource(), namespace, name)
    }

    pub(super) fn has_finalizer(&self) -> bool {
        let finalizers = &self.instance.digest.finalizers;
        finalizers.iter().any(|name| **name == *keys::PROVIDER_FINALIZER)
    }

    /// What others make by hand is not run, unless it has been.
    fn is_a_deployments(&self) -> bool {
        let owner = self.instance.digest.owner.as_ref();
        owner.is_some_and(|owner| owner.is_deployment) || self.has_finalizer()
    }

    fn is_own(&self, owner: Option<&std::sync::Arc<str>>) -> bool {
        owner == Some(&self.instance.version.uid)
    }

    pub(super) fn own_pod(&self) -> Option<&Known<Pod>> {
        let pod = self.snapshot.pod.as_ref();
        pod.filter(|pod| self.is_own(pod.digest.owner.as_ref()))
    }

    /// A change of the Instance itself.
    fn change(&self, endpoint: Endpoint, patch: Value, reason: &'static str) -> Effect {
        let target = self.target(Role::Instances);
        self.instance.version.patch(target, endpoint, patch, reason)
    }

    pub(super) fn finalizers(&self, add: bool) -> Effect {
        let all = self.instance.digest.finalizers.iter().map(|name| &**name);
        let others = all.filter(|name| *name != keys::PROVIDER_FINALIZER);
        let all: Vec<&str> = others.chain(add.then_some(keys::PROVIDER_FINALIZER)).collect();
        let reason = if add {
            "provider_finalizer"
        } else {
            "provider_done"
        };
        self.change(Endpoint::Main, json!({"metadata": {"finalizers": all}}), reason)
    }

    /// The Instance is being deleted: Pod and Service go, then the `NetworkPolicy`, then the finalizer.
    pub(super) fn stop(&self) -> Plan<Prepared> {
        // Whoever looks sees it stop before it is gone.
        if !self.has_finalizer() || self.is_ready() {
            return Plan::default();
        }
        let (report, next) = match self.ending() {
            Some(Ending::Lost) => (Report::lost(), Next::OnEvent),
            Some(Ending::Within(left)) => (Report::stopping(), Next::After(left)),
            None => (Report::stopping(), Next::OnEvent),
        };
        if let Some(said) = self.say(&report, None) {
            return Plan::one(said).by(next);
        }
        let pod = self.own_pod();
        let mut plan = Plan::default().by(next);
        if let Some(pod) = pod.filter(|pod| !pod.deleting) {
            plan.effects
                .push(pod.version.delete(self.target(Role::Pods), "pod_stopped"));
        }
        plan.effects.extend(self.detach(&SERVICE));
        let left = [&SERVICE, &POLICY].map(|kind| self.own_attached(kind).is_some());
        if pod.is_none() {
            // Until the Pod is gone it holds.
            plan.effects.extend(self.detach(&POLICY));
            if left == [false, false] {
                plan.effects.push(self.finalizers(false));
            }
        }
        plan
    }

    /// How the Pod ends, if it is going.
    fn ending(&self) -> Option<Ending> {
        let pod = self.own_pod().filter(|pod| pod.deleting)?;
        let seen: Value = serde_json::from_str(&pod.digest.seen).unwrap_or_default();
        Some(lost::ending(&seen, self.around.going.unwrap_or_default()))
    }

    /// Whether it still says of itself that it serves; that ends with the next turn of the Instance's own controller.
    fn is_ready(&self) -> bool {
        self.is(READY)
    }

    /// Whether a condition is True.
    pub(super) fn is(&self, type_: &str) -> bool {
        let condition = find(&self.instance.digest.conditions, type_);
        condition.is_some_and(|c| c.status == ConditionStatus::True)
    }

    pub(super) fn suspend(&self) -> Plan<Prepared> {
        if self.is_ready() {
            return Plan::default();
        }
        if self.instance.digest.recovery.is_some() {
            return Plan::one(self.remember(None));
        }
        if let Some(pod) = self.own_pod().filter(|pod| !pod.deleting) {
            let effect = pod.version.delete(self.target(Role::Pods), "pod_suspended");
            return Plan::one(effect);
        }
        self.say(&Report::suspended(), None)
            .map(Plan::one)
            .unwrap_or_default()
    }

    /// What is to be remembered of crashes.
    fn remember(&self, state: Option<&recovery::State>) -> Effect {
        let text = state.map(|state| json!(state).to_string());
        let patch = json!({"metadata": {"annotations": {keys::RECOVERY: text}}});
        self.change(Endpoint::Main, patch, "recovery")
    }

    fn run(&self) -> Plan<Prepared> {
        if !self.has_finalizer() {
            return Plan::one(self.finalizers(true));
        }
        let spec = self.instance.digest.whole_spec();
        let instance = pod::Instance {
            namespace: &self.snapshot.namespace,
            name: &self.snapshot.name,
            uid: &self.instance.version.uid,
            labels: &self.instance.digest.labels,
            spec: &spec,
        };
        let remembered = recovery::State::parse(self.instance.digest.recovery.as_deref());
        let mut next = Next::OnEvent;
        if let Some(known) = self.own_pod() {
            let seen: Value = serde_json::from_str(&known.digest.seen).unwrap_or_default();
            match recovery::decide(&seen, &remembered, self.around.sightings, self.around.now) {
                Recovery::None => {}
                Recovery::Wait(left) => next = Next::After(left),
                Recovery::Forget => return Plan::one(self.remember(None)),
                Recovery::Replace(state) => {
                    // What is to be said of the Pod that ended is said before it is gone.
                    let report = report::report(Some(&seen), state.attempts);
                    if let Some(said) = self.say(&report, None) {
                        return Plan::one(said);
                    }
                    let mut plan = Plan::one(self.remember(Some(&state)));
                    plan.effects
                        .push(known.version.delete(self.target(Role::Pods), "pod_replaced"));
                    return plan;
                }
            }
        }
        self.objects(&instance, &remembered).by(next)
    }

    /// There can be no Pod.
    fn unfit(&self, why: &impl ToString) -> Plan<Prepared> {
        let said = self.say(&Report::unfit(why), None);
        said.map(Plan::one).unwrap_or_default()
    }

    /// The `NetworkPolicy` as it has to be.
    fn policy(&self, instance: &pod::Instance<'_>) -> Result<Option<Effect>, pod::Unfit> {
        let rendered = network_policy::render(instance)?;
        if self.around.settings.network_policies {
            return Ok(self.attach(&POLICY, Some(&rendered)));
        }
        // What a template limits, and nobody would, is not run.
        if network_policy::limits(instance) {
            return Err(pod::Unfit::Unlimited);
        }
        Ok(self.attach(&POLICY, None))
    }

    /// What the namespace is to enforce on Pods, if it enforces nothing. It is looked at before each Pod is made; a profile
    /// that an operator has set stays, and Karmada leaves labels alone that it has not written.
    fn namespace(&self) -> Option<Effect> {
        if !self.snapshot.unenforced {
            return None;
        }
        let security = self.around.settings.pod.security.as_str();
        let resource = Role::Namespaces.resource();
        Some(Effect {
            target: Target::cluster(Plane::Cell, &resource, &self.snapshot.namespace),
            endpoint: Endpoint::Main,
            write: Write::Merge {
                patch: json!({"metadata": {"labels": {keys::POD_SECURITY: security}}}),
            },
            reason: "namespace_pod_security",
        })
    }

    /// `NetworkPolicy`, Pod and Service as they have to be, and the report.
    fn objects(&self, instance: &pod::Instance<'_>, remembered: &recovery::State) -> Plan<Prepared> {
        let Surroundings {
            settings,
            held,
            sizes,
            ..
        } = self.around;
        let known = self.own_pod();
        let labelled = json!({"metadata": {"labels": instance.owned_labels()}});
        let mut plan = Plan::default();
        match (known, &self.snapshot.pod) {
            (None, None) => {
                if let Some(held) = held {
                    return self.unfit(held);
                }
                let pod = match pod::render(instance, &settings.pod, sizes) {
                    Ok(pod) => pod,
                    Err(unfit) => return self.unfit(&unfit),
                };
                if let Some(effect) = self.namespace() {
                    return Plan::one(effect);
                }
                // Before the Pod, which so is never reached by more than it lets in.
                match self.policy(instance) {
                    Ok(Some(effect)) => return Plan::one(effect),
                    Ok(None) => {}
                    Err(unfit) => return self.unfit(&unfit),
                }
                if let Some(left) = self.around.successor_in {
                    plan.next = Next::After(left);
                } else {
                    plan.effects.push(create(self.target(Role::Pods), pod, "pod"));
                    plan.notes.extend(self.skipped(instance));
                }
            }
            (Some(known), _) if !known.deleting => {
                plan.effects
                    .extend(self.relabel(Role::Pods, &known.version.uid, &labelled, |key| {
                        known.digest.labels.get(key)
                    }));
            }
            // A former Instance's Pod goes with its owner.
            (None | Some(_), _) => {}
        }
        // What its server refuses is said, and no Pod that runs waits for it.
        if held.is_none()
            && let Ok(policy) = self.policy(instance)
        {
            plan.effects.extend(policy);
        }
        // A Pod is built once: what its template could not be any more touches nothing that runs.
        if self.around.service_held.is_none()
            && let Ok(service) = service::render(instance, settings.single_port)
        {
            plan.effects.extend(self.attach(&SERVICE, service.as_ref()));
        }
        if !plan.effects.is_empty() {
            return plan;
        }
        match self.ending() {
            Some(Ending::Lost) => {
                plan.effects.extend(self.say(&Report::lost(), None));
                return plan;
            }
            Some(Ending::Within(left)) => plan.next = Next::After(left),
            None => {}
        }
        plan.effects.extend(self.report(remembered.attempts));
        plan
    }

    /// What the Pod that runs says. One that is going serves nobody, and says nothing of its successor.
    pub(super) fn report(&self, attempts: u32) -> Option<Effect> {
        let known = self.own_pod().filter(|pod| !pod.deleting);
        let seen = known.map(|pod| serde_json::from_str(&pod.digest.seen).unwrap_or_default());
        // Between two Pods of a crashing Instance its crash is still the news; that it serves is none any more.
        let attempts = if seen.is_none() && self.is(AVAILABLE) {
            0
        } else {
            attempts
        };
        let mut report = report::report(seen.as_ref(), attempts);
        if let Some(why) = self.around.service_held
            && self.own_attached(&SERVICE).is_none()
        {
            report = report.without(why);
        }
        if let Some(why) = self.around.held
            && self.around.settings.network_policies
            && self.own_attached(&POLICY).is_none()
        {
            report = report.without(why);
        }
        self.say(&report, known.zip(seen.as_ref()))
    }

    fn skipped(&self, instance: &pod::Instance<'_>) -> Option<Note> {
        let skipped: Vec<&str> = pod::skipped(instance).collect();
        (!skipped.is_empty()).then(|| Note {
            plane: Plane::Cell,
            about: About {
                api_version: crate::api::API_VERSION.to_owned(),
                kind: "Instance".to_owned(),
                namespace: self.snapshot.namespace.to_string(),
                name: self.snapshot.name.to_string(),
                uid: self.instance.version.uid.to_string(),
            },
            warning: true,
            reason: "DisksSkipped".to_owned(),
            action: "Rendering".to_owned(),
            message: format!("this provider attaches no disks; skipped: {}", skipped.join(", ")),
        })
    }

    /// The report, if it says anything new.
    pub(super) fn say(&self, report: &Report, pod: Option<(&Known<Pod>, &Value)>) -> Option<Effect> {
        let patch = self.status(report, pod)?;
        Some(self.change(Endpoint::Status, json!({"status": patch}), "instance_report"))
    }

    fn status(&self, report: &Report, pod: Option<(&Known<Pod>, &Value)>) -> Option<Value> {
        let instance = &self.instance.digest;
        let before = instance.whole_status().unwrap_or_else(|| json!({}));
        let mut conditions = instance.conditions.to_vec();
        let mut said = |type_, said: Option<&Said>| {
            if let Some(Said {
                status,
                reason,
                message,
            }) = said
            {
                let old = find(&conditions, type_).filter(|old| old.reason == reason.as_str());
                let old = old.filter(|old| refusal::is_alike(&old.message, message));
                let message = old.map_or_else(|| message.clone(), |old| old.message.clone());
                let new = Condition::new(type_, *status, reason.as_str(), &message, self.around.now.wall);
                set(&mut conditions, new.observed(Some(instance.generation)));
            }
        };
        said(AVAILABLE, report.available.as_ref());
        said(PROGRAMMED, report.programmed.as_ref());
        let mut after = before.clone();
        after["conditions"] = json!(conditions);
        if let Some(hash) = instance.hash.as_ref().filter(|_| report.applied) {
            after["controller"]["observedTemplateHash"] = json!(**hash);
        }
        let interfaces = interfaces(instance, pod);
        if interfaces.is_null() {
            after.as_object_mut()?.remove("networkInterfaces");
        } else {
            after["networkInterfaces"] = interfaces;
        }
        diff::merge_patch(&before, &after)
    }
}

/// The addresses of an Instance's interfaces, in the order of its spec; the Pod has those of the first.
fn interfaces(instance: &Instance, pod: Option<(&Known<Pod>, &Value)>) -> Value {
    let Some((pod, seen)) = pod.filter(|(pod, _)| !pod.deleting) else {
        return Value::Null;
    };
    let status = &seen["status"];
    let address = [&status["podIPs"][0], &status["podIP"]]
        .into_iter()
        .find_map(Value::as_str);
    let Some(address) = address else {
        return Value::Null;
    };
    let mut assigned = json!({"networkIP": address});
    if let Some(external) = &pod.digest.external {
        assigned["externalIP"] = json!(**external);
    }
    let spec: Value = serde_json::from_str(&instance.spec).unwrap_or_default();
    let count = spec["networkInterfaces"].as_array().map_or(1, Vec::len).max(1);
    let mut all = vec![json!({}); count];
    all[0] = json!({"assignments": assigned});
    Value::Array(all)
}
