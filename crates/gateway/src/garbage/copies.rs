//! Copies whose deployment is gone, and objects of one member that have lost theirs.

use super::{
    Garbage, NAME,
    decide::{self, CopyDecision, Decision},
    observe::{self, Memory},
};
use crate::{
    confirm::{self, Origin},
    context::State,
    index::{GatewayIndex, TableId},
    settings::Settings,
    single_member::{
        self, Observation, Probe,
        decide::MemberStep,
        orphan::{self, Orphan},
        probe::{Probing, Subject, probe},
    },
};
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::Key,
    plan::{Applied, Plan, Prepared, Requeue},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};
use fedgate_kinds::KindId;

/// The reconciler of copies.
#[derive(Debug)]
pub struct Copies<'a>(pub &'a Garbage);

/// The basis of a deletion, for the steps that follow it.
#[derive(Debug)]
pub enum Basis {
    /// A copy without the deployment that it was made from.
    Copy(Origin),
    /// The end of an object that lived at one member.
    Member(Origin),
    /// A probe of such an object.
    Probe(Probe),
}

impl Garbage {
    pub(super) fn decide_copy(
        &self,
        index: &GatewayIndex,
        key: &Key,
        kind: KindId,
        settings: &Settings,
        now: Now,
    ) -> Plan<Prepared> {
        let mut memory = self.memory.lock();
        let project = observe::project(index, &key.namespace);
        let mut snapshot = observe::copy(index, &memory, key, kind);
        if snapshot.is_due(settings, now) {
            if memory.brakes.is_outdated(now) {
                recount(&mut memory, index, now);
            }
            snapshot.project = memory.brakes.load(&project);
            snapshot.hub = memory.brakes.hub();
        }
        let CopyDecision {
            decision: Decision { plan, since },
            counted,
            held,
        } = decide::copy(&snapshot, settings, now);
        memory.copies.set(key, snapshot.copy.map(|c| c.uid).zip(since));
        if counted {
            memory.brakes.count(key, &project);
        } else {
            memory.brakes.forget(key);
        }
        if memory.brakes.note(&project, held) {
            let (load, project) = (memory.brakes.load(&project), &*project);
            match held {
                Some(brake) => tracing::error!(
                    project,
                    ?brake,
                    orphans = load.orphans,
                    total = load.total,
                    "too many copies look like orphans; none is deleted until their number falls or an operator confirms them"
                ),
                None => log_released(project),
            }
        }
        plan
    }
}

impl Copies<'_> {
    /// Decides the end of an object that lives at one member: that of its copy, once it is due, or of its pin.
    fn decide_member(
        &self,
        run: &Reconcile<'_, Self>,
        index: &mut GatewayIndex,
        kind: KindId,
        plan: Plan<Prepared>,
    ) -> Step<Basis> {
        let copies = &index.hub.copies[kind];
        let is_due = match copies.get(&run.key.namespace, &run.key.name) {
            Some(_) => !plan.effects.is_empty(),
            None => observe::is_pin_orphaned(index, run.key, kind),
        };
        if !is_due {
            return Step::Apply(plan, Basis::Member(None));
        }
        let mut probing = {
            let memory = self.0.memory.lock();
            let count = memory.probes.get(run.key).copied().unwrap_or_default();
            Probing {
                observation: run.session.clone(),
                count,
            }
        };
        let step = orphan::next(&Orphan::read(index, run.key, kind), &mut probing);
        if probing.count > 0 {
            self.0.memory.lock().probes.insert(run.key.clone(), probing.count);
        }
        match step {
            MemberStep::Wait(requeue) => Step::End(requeue),
            MemberStep::Probe(probe) => Step::Read(Basis::Probe(probe)),
            MemberStep::Apply(effect) => {
                let origin = observe::origin(index, run.key, kind);
                Step::Apply(Plan::one(*effect), Basis::Member(origin))
            }
            MemberStep::Write { policy, .. } => {
                let hub = &run.key.namespace;
                single_member::request_policy(index, hub, run.key, Some(&policy));
                let policies = index.policies_key(hub);
                run.ctx.queue.extend([policies], Priority::Fresh);
                // The event of its policy does not enqueue an orphan.
                Step::End(Requeue::After(run.ctx.settings.sweep_interval))
            }
            _ => Step::End(Requeue::AwaitChange),
        }
    }
}

impl Reconciler for Copies<'_> {
    type State = State;
    /// The last observation of an object that lived at one member.
    type Session = Option<Observation>;
    type Basis = Basis;

    const NAME: &'static str = NAME;

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let mut index = run.ctx.index.lock();
        let Some(TableId::Federated(kind)) = index.table_of_kind(&run.key.kind) else {
            return Step::End(Requeue::AwaitChange);
        };
        if let Some(plane) = observe::unproven_copy(&index, run.key, kind) {
            index.await_proof(plane, run.key);
        }
        let plan = self
            .0
            .decide_copy(&index, run.key, kind, &run.ctx.settings, run.ctx.now());
        if !index.kinds[kind].is_exactly_one() {
            return Step::Apply(plan, Basis::Copy(observe::origin(&index, run.key, kind)));
        }
        if index.pin(kind, &run.key.namespace, &run.key.name).is_some() {
            confirm::awaits_proof(&mut index, run.key, &run.key.namespace);
        }
        self.decide_member(run, &mut index, kind, plan)
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) -> Result<Flow, Failure> {
        let Basis::Probe(question) = basis else {
            return Ok(Flow::Again);
        };
        let (resource, binding) = {
            let index = run.ctx.index.lock();
            let Some(table @ TableId::Federated(kind)) = index.table_of_kind(&run.key.kind) else {
                return Ok(Flow::End(Requeue::AwaitChange));
            };
            (
                index.resource(table).clone(),
                index.binding_name(kind, &run.key.name),
            )
        };
        let subject = Subject {
            resource: &resource,
            namespace: &run.key.namespace,
            name: &run.key.name,
            binding: &binding,
            guards: &[],
        };
        run.session = Some(probe(run.ctx, subject, question).await?.observation);
        Ok(Flow::Again)
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let (Basis::Copy(origin) | Basis::Member(origin)) = basis else {
            return Ok(Flow::Go);
        };
        let is_gone = confirm::deployment_gone(run.ctx, &run.key.namespace, origin).await?;
        Ok(self.0.go_if(run.key, is_gone))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, _: &Plan<Applied>) -> Flow {
        if let Basis::Member(_) = basis {
            run.session = None;
            self.0.memory.lock().probes.remove(run.key);
            return Flow::Again;
        }
        self.0.done(run.key)
    }

    fn message(&self, basis: &Basis) -> Option<&'static str> {
        Some(match basis {
            Basis::Copy(_) => "orphaned copy deleted",
            Basis::Member(_) | Basis::Probe(_) => "orphaned object of one member stopped",
        })
    }
}

/// Counts all copies again.
pub(super) fn recount(memory: &mut Memory, index: &GatewayIndex, now: Now) {
    for project in memory.brakes.take(observe::census(index), now) {
        log_released(&project);
    }
}

fn log_released(project: &str) {
    tracing::info!(
        project,
        "the number of orphans fell below the limit; deletion resumes"
    );
}
