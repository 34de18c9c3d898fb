//! Decides the provider's next step for an Instance, in the contract's order. Pure functions.

use super::{
    attached::{POLICY, SERVICE, relabel},
    lost, network_policy,
    observe::PodSnapshot,
    pod,
    recovery::{self, Observations, Recovery},
    report::{self, Obstacle, Report},
    retire, service,
};
use crate::{
    conditions::{has_same_cause, is_final_state, written},
    index::{
        digest::{InstanceDigest, Pod},
        tables::TableId,
    },
    reason::WriteReason,
    settings::Settings,
    writes::{create, delete, patch, warning},
};
use fedgate_api::{
    conditions::{
        find,
        types::{AVAILABLE, PROGRAMMED, READY},
    },
    keys,
};
use fedgate_engine::{
    clock::Now,
    diff,
    key::Plane,
    plan::{Effect, Event, Plan, Prepared, Requeue, Target, Write},
    store::table::Row,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Inputs of the decision besides the objects.
#[derive(Debug, Clone, Copy)]
pub struct PodContext<'a> {
    /// Settings of the cell.
    pub settings: &'a Settings,
    /// Remaining time before the successor of an ended Pod may be created.
    pub successor_in: Option<Duration>,
    /// Reason why the Pod or its `NetworkPolicy` cannot be written.
    pub held: Option<&'a Obstacle>,
    /// Events of the Pod, each with the time of its first observation.
    pub observations: &'a Observations,
    /// Reason why the Service cannot be written.
    pub service_held: Option<&'a Obstacle>,
    /// The current time.
    pub now: Now,
}

/// The next step, with its Events.
pub fn decide(snapshot: &PodSnapshot, around: &PodContext<'_>) -> Plan<Prepared> {
    let Some(instance) = &snapshot.instance else {
        // Garbage collection deletes the rest together with its owner.
        return Plan::default();
    };
    let planner = Planner {
        snapshot,
        instance,
        around,
    };
    if instance.deleting {
        return planner.stop();
    }
    if !around.settings.provider {
        return retire::decide(&planner);
    }
    if !planner.is_a_deployments() {
        return Plan::default();
    }
    if instance.digest.suspended {
        return planner.suspend();
    }
    if !instance.digest.gates.is_empty() {
        return Plan::default();
    }
    planner.run()
}

/// True if a plan only reports progress, more of which follows soon.
pub fn is_progress(snapshot: &PodSnapshot, plan: &Plan<Prepared>) -> bool {
    let (Some(instance), Some(after)) = (&snapshot.instance, written(plan)) else {
        return false;
    };
    let before = |type_: &str| instance.digest.condition(type_);
    !after.iter().any(|now| is_final_state(before(&now.type_), now))
}

/// An Instance and the inputs of its decision.
pub(super) struct Planner<'a> {
    pub(super) snapshot: &'a PodSnapshot,
    pub(super) instance: &'a Row<InstanceDigest>,
    pub(super) around: &'a PodContext<'a>,
}

impl Planner<'_> {
    pub(super) fn target(&self, table: TableId) -> Target {
        table.target(&self.snapshot.namespace, &self.snapshot.name)
    }

    pub(super) fn has_finalizer(&self) -> bool {
        self.instance.digest.has_finalizer(keys::PROVIDER_FINALIZER)
    }

    /// True if a deployment controls the Instance or the provider has started it already. Manually created Instances
    /// are not run.
    fn is_a_deployments(&self) -> bool {
        self.instance.digest.is_deployments() || self.has_finalizer()
    }

    pub(super) fn own_pod(&self) -> Option<&Row<Pod>> {
        let pod = self.snapshot.pod.as_ref();
        pod.filter(|pod| pod.digest.owner.as_ref() == Some(&self.instance.uid))
    }

    pub(super) fn delete_pod(&self, pod: &Row<Pod>, reason: WriteReason) -> Effect {
        delete(self.target(TableId::Pods), &pod.uid, None, reason)
    }

    /// A patch of the Instance itself.
    fn patch_instance(&self, change: Value, reason: WriteReason) -> Effect {
        patch(self.instance, self.target(TableId::Instances), change, reason)
    }

    pub(super) fn finalizers(&self, add: bool) -> Effect {
        let all = self.instance.digest.finalizers.iter().map(|name| &**name);
        let others = all.filter(|name| *name != keys::PROVIDER_FINALIZER);
        let all: Vec<&str> = others.chain(add.then_some(keys::PROVIDER_FINALIZER)).collect();
        let reason = if add {
            WriteReason::ProviderFinalizer
        } else {
            WriteReason::ProviderDone
        };
        self.patch_instance(json!({"metadata": {"finalizers": all}}), reason)
    }

    /// Deletes the Service of an Instance that is being deleted, then the Pod, then the `NetworkPolicy`, then removes the
    /// finalizer.
    pub(super) fn stop(&self) -> Plan<Prepared> {
        // Clients must see Ready turn False before the Pod is deleted: the Instance controller sets it.
        if !self.has_finalizer() || self.is_true(READY) {
            return Plan::default();
        }
        let (report, next) = match self.ends_in() {
            Some(Duration::ZERO) => (Report::lost(), Requeue::AwaitChange),
            Some(left) => (Report::stopping(), Requeue::After(left)),
            None => (Report::stopping(), Requeue::AwaitChange),
        };
        if let Some(said) = self.write_report(&report, None) {
            return Plan::one(said).by(next);
        }
        let pod = self.own_pod();
        let mut plan = Plan::default().by(next);
        plan.effects.extend(self.detach(&SERVICE));
        // The Pod is deleted in a later pass than the Service, so that clients leave before the process gets SIGTERM.
        let deletes_service = !plan.effects.is_empty();
        if let Some(pod) = pod.filter(|pod| !pod.deleting && !deletes_service) {
            plan.effects.push(self.delete_pod(pod, WriteReason::PodStopped));
        }
        let left = [&SERVICE, &POLICY].map(|kind| self.own_attached(kind).is_some());
        if pod.is_none() {
            // The policy protects the Pod until the Pod is deleted.
            plan.effects.extend(self.detach(&POLICY));
            if left == [false, false] {
                plan.effects.push(self.finalizers(false));
            }
        }
        plan
    }

    /// Time that the Pod may still take to end, zero if its node counts as lost; `None` if it is not being deleted.
    fn ends_in(&self) -> Option<Duration> {
        let PodContext {
            observations, now, ..
        } = self.around;
        lost::ends_in(self.own_pod()?, observations, now.instant)
    }

    /// Whether a condition is True.
    pub(super) fn is_true(&self, type_: &str) -> bool {
        self.instance.digest.is(type_)
    }

    pub(super) fn suspend(&self) -> Plan<Prepared> {
        if self.is_true(READY) {
            return Plan::default();
        }
        if self.instance.digest.recovery.is_some() {
            return Plan::one(self.write_recovery(None));
        }
        if let Some(pod) = self.own_pod().filter(|pod| !pod.deleting) {
            return Plan::one(self.delete_pod(pod, WriteReason::PodSuspended));
        }
        self.report_only(&Report::suspended())
    }

    /// Patch of the recovery annotation, which records crashes.
    fn write_recovery(&self, state: Option<&recovery::RecoveryState>) -> Effect {
        let text = state.map(|state| json!(state).to_string());
        let patch = json!({"metadata": {"annotations": {keys::RECOVERY: text}}});
        self.patch_instance(patch, WriteReason::Recovery)
    }

    fn run(&self) -> Plan<Prepared> {
        if !self.has_finalizer() {
            return Plan::one(self.finalizers(true));
        }
        let spec = self.instance.digest.whole_spec();
        let instance = pod::ProvidedInstance {
            namespace: &self.snapshot.namespace,
            name: &self.snapshot.name,
            uid: &self.instance.uid,
            labels: &self.instance.digest.labels,
            spec: &spec,
        };
        let remembered = recovery::RecoveryState::parse(self.instance.digest.recovery.as_deref());
        let mut next = Requeue::AwaitChange;
        if let Some(known) = self.own_pod() {
            let seen = known.digest.seen();
            match recovery::decide(&seen, &remembered, self.around.observations, self.around.now) {
                Recovery::None => {}
                Recovery::Wait(left) => next = Requeue::After(left),
                Recovery::Forget => return Plan::one(self.write_recovery(None)),
                Recovery::Replace(state) => {
                    // The conditions report the ended Pod before it is deleted.
                    let report = report::report(Some(&seen), state.attempts);
                    if let Some(said) = self.write_report(&report, None) {
                        return Plan::one(said);
                    }
                    let mut plan = Plan::one(self.write_recovery(Some(&state)));
                    plan.effects
                        .push(self.delete_pod(known, WriteReason::PodReplaced));
                    return plan;
                }
            }
        }
        self.sync_objects(&instance, &remembered).by(next)
    }

    /// Reports that no Pod can be created.
    fn report_unfit(&self, why: &impl ToString) -> Plan<Prepared> {
        self.report_only(&Report::unfit(why))
    }

    /// Creates or patches the `NetworkPolicy`; deletes it if policies are off.
    fn sync_policy(
        &self,
        instance: &pod::ProvidedInstance<'_>,
    ) -> Result<Option<Effect>, pod::UnsupportedSpec> {
        let rendered = network_policy::render(instance)?;
        if self.around.settings.pods.network_policies {
            return Ok(self.attach(&POLICY, Some(&rendered)));
        }
        // No Pod runs if its template has limits that the cell cannot enforce.
        if network_policy::limits(instance) {
            return Err(pod::UnsupportedSpec::Unlimited);
        }
        Ok(self.attach(&POLICY, None))
    }

    /// Labels the namespace with the configured Pod Security profile if no profile is set; checked before each Pod is
    /// created. A profile set by an operator stays, and Karmada keeps labels that it has not written.
    fn enforce_pod_security(&self) -> Option<Effect> {
        if !self.snapshot.unenforced {
            return None;
        }
        let security = self.around.settings.pods.pod_security.as_str();
        let resource = TableId::Namespaces.resource();
        let target = Target::cluster(Plane::Cell, &resource, &self.snapshot.namespace);
        let patch = json!({"metadata": {"labels": {keys::POD_SECURITY: security}}});
        let reason = WriteReason::NamespacePodSecurity;
        Some(Effect::main(target, Write::Merge { patch }, reason))
    }

    /// Brings `NetworkPolicy`, Pod and Service to their rendered state, then writes the report.
    fn sync_objects(
        &self,
        instance: &pod::ProvidedInstance<'_>,
        remembered: &recovery::RecoveryState,
    ) -> Plan<Prepared> {
        let PodContext { settings, held, .. } = self.around;
        let known = self.own_pod();
        let labelled = json!({"metadata": {"labels": instance.owned_labels()}});
        let mut plan = Plan::default();
        match (known, &self.snapshot.pod) {
            (None, None) => {
                if let Some(Obstacle::Refused(why)) = held {
                    return self.report_unfit(why);
                }
                let pod = match pod::render(instance, &settings.pods, &settings.sizes) {
                    Ok(pod) => pod,
                    Err(unfit) => return self.report_unfit(&unfit),
                };
                if let Some(effect) = self.enforce_pod_security() {
                    return Plan::one(effect);
                }
                // The policy precedes the Pod, so that the Pod never accepts traffic that the policy forbids.
                match self.sync_policy(instance) {
                    Ok(Some(effect)) => return Plan::one(effect),
                    Ok(None) => {}
                    Err(unfit) => return self.report_unfit(&unfit),
                }
                if let Some(left) = self.around.successor_in {
                    plan.next = Requeue::After(left);
                } else {
                    plan.effects
                        .push(create(self.target(TableId::Pods), pod, WriteReason::Pod));
                    plan.notes.extend(self.skipped_disks(instance));
                }
            }
            (Some(known), _) if !known.deleting => {
                let target = self.target(TableId::Pods);
                let labels = &known.digest.labels;
                plan.effects
                    .extend(relabel(target, &known.uid, &labelled, |key| labels.get(key)));
            }
            // Garbage collection deletes the Pod of a former Instance together with its owner.
            (None | Some(_), _) => {}
        }
        // A rejected policy is reported; a Pod that runs does not wait for it.
        if held.is_none()
            && let Ok(policy) = self.sync_policy(instance)
        {
            plan.effects.extend(policy);
        }
        // A Pod is rendered once: an unsupported spec of a later template does not affect a Pod that runs.
        if self.around.service_held.is_none()
            && let Ok(service) = service::render(instance, settings.pods.service_single_port_443)
        {
            plan.effects.extend(self.attach(&SERVICE, service.as_ref()));
        }
        if !plan.effects.is_empty() {
            return plan;
        }
        match self.ends_in() {
            Some(Duration::ZERO) => {
                plan.effects.extend(self.write_report(&Report::lost(), None));
                return plan;
            }
            Some(left) => plan.next = Requeue::After(left),
            None => {}
        }
        plan.effects.extend(self.report_pod(remembered.attempts));
        plan
    }

    /// Reports the state of the Pod. A Pod that is being deleted does not count: it serves no client, and its state
    /// does not apply to its successor.
    pub(super) fn report_pod(&self, attempts: u32) -> Option<Effect> {
        let known = self.own_pod().filter(|pod| !pod.deleting);
        let seen = known.map(|pod| pod.digest.seen());
        // Between two Pods of a crashing Instance the crash stays the reported state, but Available=True does not.
        let attempts = if seen.is_none() && self.is_true(AVAILABLE) {
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
        let Settings { provider, pods, .. } = self.around.settings;
        if let Some(why) = self.around.held
            && *provider
            && pods.network_policies
            && self.own_attached(&POLICY).is_none()
        {
            report = report.without(why);
        }
        self.write_report(&report, known.zip(seen.as_ref()))
    }

    fn skipped_disks(&self, instance: &pod::ProvidedInstance<'_>) -> Option<Event> {
        let skipped: Vec<&str> = pod::skipped(instance).collect();
        (!skipped.is_empty()).then(|| {
            let message = format!("this provider attaches no disks; skipped: {}", skipped.join(", "));
            let target = self.target(TableId::Instances);
            warning(target, &self.instance.uid, "DisksSkipped", "Rendering", message)
        })
    }

    /// Patch of the status, if the report changes anything.
    pub(super) fn write_report(&self, report: &Report, pod: Option<(&Row<Pod>, &Value)>) -> Option<Effect> {
        let patch = self.status_patch(report, pod)?;
        Some(self.patch_instance(json!({"status": patch}), WriteReason::InstanceReport))
    }

    /// A plan that only reports, if the report changes anything.
    pub(super) fn report_only(&self, report: &Report) -> Plan<Prepared> {
        self.write_report(report, None).map(Plan::one).unwrap_or_default()
    }

    fn status_patch(&self, report: &Report, pod: Option<(&Row<Pod>, &Value)>) -> Option<Value> {
        let instance = &self.instance.digest;
        let before = instance.whole_status().unwrap_or_else(|| json!({}));
        let mut conditions = instance.conditions.to_vec();
        let said = [(AVAILABLE, &report.available), (PROGRAMMED, &report.programmed)];
        for (type_, said) in said {
            let Some(mut said) = said.clone() else { continue };
            let old = find(&conditions, type_).filter(|old| old.reason == said.reason);
            if let Some(old) = old.filter(|old| has_same_cause(&old.message, &said.message)) {
                said.message.clone_from(&old.message);
            }
            said.set(&mut conditions, type_, instance.generation, self.around.now.wall);
        }
        let mut after = before.clone();
        after["conditions"] = json!(conditions);
        if let Some(hash) = instance.hash.as_ref().filter(|_| report.is_applied()) {
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

/// Addresses of an Instance's interfaces, in the order of its spec. The first interface gets the Pod's addresses.
fn interfaces(instance: &InstanceDigest, pod: Option<(&Row<Pod>, &Value)>) -> Value {
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
