//! Hub garbage collector: copies, Namespaces and city sets that have lost their origin, and bindings that have lost
//! their template (contract: federation.md §3.11).
//!
//! Keys are enqueued by events that can orphan an object, by the sweep, and by the grace periods of remembered objects.

mod bindings;
mod brake;
pub mod decide;
mod members;
mod observe;
pub mod triggers;

#[cfg(test)]
mod tests;

use super::{
    confirm,
    context::{Context, State},
    index::{GatewayIndex, TableId},
    member::{self, Look, Seen, Subject},
    queries::lifecycle,
    settings::Settings,
};
use bindings::Lookup;
use decide::Decision;
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::{Key, Plane},
    plan::{Applied, Plan, Prepared, Requeue, Target},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};
use fedgate_kinds::KindId;
use observe::Memory;
use parking_lot::Mutex;

/// The hub garbage collector; see the module.
///
/// Its memory changes only while the index is locked, so that an older view of a key never replaces a newer one.
#[derive(Debug, Default)]
pub struct Garbage {
    memory: Mutex<Memory>,
}

impl From<&Settings> for decide::Settings {
    fn from(settings: &Settings) -> Self {
        Self {
            orphan_after: settings.orphan_after,
            hub_namespace_retention: settings.hub_namespace_retention,
            unused_city_set_after: settings.unused_city_set_after,
            sweep_interval: settings.sweep_interval,
        }
    }
}

impl Garbage {
    /// True if a brake holds because too many copies appear orphaned at once.
    pub fn brake(&self) -> bool {
        self.memory.lock().brakes.hold()
    }

    /// The projects whose brake holds, and `hub` if the hub's brake holds.
    pub fn brakes(&self) -> Vec<String> {
        let memory = self.memory.lock();
        memory.brakes.names().into_iter().map(str::to_owned).collect()
    }

    /// Releases brakes whose orphans no longer exist; called every few seconds.
    pub fn prune(&self, index: &GatewayIndex, now: Now) {
        let mut memory = self.memory.lock();
        if memory.brakes.hold() {
            recount(&mut memory, index, now);
        }
    }

    /// Number of copies that are orphans now, within or after their grace period.
    pub fn waiting(&self) -> usize {
        self.memory.lock().copies.len()
    }

    /// Keys of the copies that are orphans now, within or after their grace period.
    pub fn orphaned_copies(&self) -> Vec<Key> {
        self.memory.lock().copies.keys().cloned().collect()
    }

    /// Number of hub objects without origin: copies, and bindings without their template.
    pub fn orphans(&self, index: &GatewayIndex) -> usize {
        self.waiting() + observe::orphaned_bindings(index)
    }

    /// Keys of all objects that appear to have no origin or no users, for the sweep.
    pub fn suspects(&self) -> Vec<Key> {
        let memory = self.memory.lock();
        memory.copies.keys().chain(memory.rest.keys()).cloned().collect()
    }

    /// Forgets all suspected objects: observations of a standby do not justify writes of a leader.
    pub fn reset(&self) {
        *self.memory.lock() = Memory::default();
    }

    /// Records that a hub Namespace has a project namespace; its retention starts again if that is deleted later.
    pub fn lives(&self, key: &Key) {
        self.memory.lock().rest.forget(key);
    }

    fn decide_copy(
        &self,
        index: &GatewayIndex,
        key: &Key,
        kind: KindId,
        settings: decide::Settings,
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
        let decide::CopyDecision {
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

    fn decide_namespace(
        &self,
        index: &GatewayIndex,
        key: &Key,
        settings: decide::Settings,
        now: Now,
    ) -> (Plan<Prepared>, Vec<Key>) {
        let mut memory = self.memory.lock();
        let snapshot = observe::namespace(index, &memory, key);
        let Decision { plan, since } = decide::namespace(&snapshot, settings, now);
        let wake = if snapshot.orphaned() {
            observe::leftovers(index, &key.name)
        } else {
            Vec::new()
        };
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        (plan, wake)
    }

    fn decide_city_set(
        &self,
        index: &GatewayIndex,
        key: &Key,
        settings: decide::Settings,
        now: Now,
    ) -> Plan<Prepared> {
        let mut memory = self.memory.lock();
        let snapshot = observe::city_set(index, &memory, key);
        let Decision { plan, since } = decide::city_set(&snapshot, settings, now);
        memory.rest.set(key, snapshot.row.map(|row| row.uid).zip(since));
        plan
    }

    fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock();
        memory.copies.forget(key);
        memory.brakes.forget(key);
        memory.rest.forget(key);
    }
}

/// The basis of a deletion, for the steps that follow it.
#[derive(Debug)]
pub enum Basis {
    /// A copy without the deployment that it was made from.
    Copy(confirm::Origin),
    /// A Namespace without the project namespace that it was made for.
    Namespace(confirm::Origin),
    /// The end of an object that lived at one member, whose origin has this address.
    Member(confirm::Origin),
    /// A look at such an object.
    Look(Look),
    /// The policy of a city set without users.
    CitySet,
    /// A binding without its template, which has this address.
    Binding(Option<Target>),
}

/// The reads of a reconcile.
#[derive(Debug, Default)]
pub struct Session {
    /// The template of a binding.
    template: Lookup,
    /// An object that lived at one member.
    seen: Option<Seen>,
}

impl Garbage {
    /// Decides the end of an object that lives at one member: that of its copy, once it is due, or of its pin.
    fn decide_member(
        &self,
        run: &Reconcile<'_, Self>,
        index: &mut GatewayIndex,
        kind: KindId,
        plan: Plan<Prepared>,
    ) -> Step<Basis> {
        let has_copy = index.hub.copies[kind]
            .get(&run.key.namespace, &run.key.name)
            .is_some();
        let is_due = if has_copy {
            !plan.effects.is_empty()
        } else {
            observe::is_pin_orphaned(index, run.key, kind)
        };
        if !is_due {
            return Step::Apply(plan, Basis::Member(None));
        }
        let looks = self.memory.lock().looks.get(run.key).copied().unwrap_or_default();
        let snapshot = observe::member(index, run.key, kind, (run.session.seen.clone(), looks));
        let next = members::next(&snapshot);
        let origin = observe::origin_of_member(index, run.key, kind);
        match next {
            members::Next::Wait(requeue) => Step::End(requeue),
            members::Next::Look(look) => Step::Read(Basis::Look(look)),
            members::Next::LookAgain(requeue) => {
                *self.memory.lock().looks.entry(run.key.clone()).or_default() += 1;
                Step::End(requeue)
            }
            members::Next::Write(plan) => Step::Apply(plan, Basis::Member(origin)),
            members::Next::Want(lane) => {
                index.intents.lanes.want(&run.key.namespace, run.key, Some(&lane));
                let policies = index.hub_key(TableId::CityPolicies, &run.key.namespace, "");
                run.ctx.queue.extend([policies], Priority::Fresh);
                // The event of its policy does not enqueue an orphan.
                Step::End(Requeue::After(run.ctx.settings.sweep_interval))
            }
        }
    }

    /// True unless a list from the hub, not the index, shows a Namespace with the set's label.
    async fn is_unused(&self, ctx: &Context<'_>, key: &Key) -> Result<bool, Failure> {
        let namespaces = Target::cluster(Plane::Hub, &ctx.index.lock().resources.namespaces, "");
        let set = key.name.strip_prefix("cities-").unwrap_or_default();
        let unused = confirm::is_unused(ctx, &namespaces, keys::CITIES, set).await?;
        if !unused {
            tracing::warn!(
                plane = "hub",
                controller = Self::NAME,
                kind = %key.kind,
                name = &*key.name,
                %key,
                "a Namespace that the watch had not shown uses this city set; its policy is kept"
            );
        }
        Ok(unused)
    }
}

/// The deletion of a city set's policy has ended: Namespaces may rely on the policy again, if it still exists.
fn city_set_ended(ctx: &Context<'_>, key: &Key) {
    let mut index = ctx.index.lock();
    index.intents.ending_sets.remove(&key.name);
    // If the policy is deleted, its delete event enqueues the keys that wait for it.
    let stays = index.hub.city_sets.get("", &key.name).is_some();
    let set = key.name.strip_prefix("cities-").unwrap_or_default();
    let waiting = if stays {
        index.namespace_keys_of_set(set)
    } else {
        Vec::new()
    };
    drop(index);
    ctx.queue.extend(waiting, Priority::Fresh);
}

impl Reconciler for Garbage {
    type State = State;
    type Session = Session;
    type Basis = Basis;

    const NAME: &'static str = "garbage";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let settings = (&run.ctx.settings).into();
        let mut index = run.ctx.index.lock();
        match index.table_of_kind(&run.key.kind) {
            Some(TableId::Federated(kind)) => {
                if let Some(plane) = observe::unproven_copy(&index, run.key, kind) {
                    index.await_proof(plane, run.key);
                }
                let plan = self.decide_copy(&index, run.key, kind, settings, run.ctx.now());
                if index.kinds[kind].is_exactly_one() {
                    if index.pin(kind, &run.key.namespace, &run.key.name).is_some() {
                        confirm::awaits_proof(&mut index, run.key, &run.key.namespace);
                    }
                    return self.decide_member(run, &mut index, kind, plan);
                }
                Step::Apply(plan, Basis::Copy(observe::origin(&index, run.key, kind)))
            }
            Some(TableId::Namespaces) => {
                if let Some(plane) = observe::unproven_namespace(&index, run.key) {
                    index.await_proof(plane, run.key);
                }
                let (plan, leftovers) = self.decide_namespace(&index, run.key, settings, run.ctx.now());
                let origin = lifecycle::origin_namespace(&index, &run.key.name);
                drop(index);
                run.ctx.queue.extend(leftovers, Priority::Fresh);
                Step::Apply(plan, Basis::Namespace(origin))
            }
            Some(TableId::CitySets) => {
                if !index.hub_proves() {
                    index.await_proof(Plane::Hub, run.key);
                }
                let plan = self.decide_city_set(&index, run.key, settings, run.ctx.now());
                if !plan.is_idle() {
                    index.intents.ending_sets.insert(run.key.name.clone());
                }
                Step::Apply(plan, Basis::CitySet)
            }
            Some(TableId::Bindings) => {
                match self.decide_binding(&index, run.key, &run.session.template, run.ctx.now()) {
                    bindings::Decision::Keep => Step::End(Requeue::AwaitChange),
                    bindings::Decision::Wait(_, left) => Step::End(Requeue::After(left)),
                    bindings::Decision::Read(target) => Step::Read(Basis::Binding(Some(target))),
                    bindings::Decision::Delete(plan) => Step::Apply(plan, Basis::Binding(None)),
                }
            }
            _ => Step::End(Requeue::AwaitChange),
        }
    }

    /// Reads the template of a binding for this decision only. The index holds labelled `ConfigMaps` and Secrets alone;
    /// an unlabelled object stored there would count as a companion without references.
    async fn read(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) -> Result<Flow, Failure> {
        if let Basis::Binding(Some(target)) = basis {
            let found = run.ctx.executor.get(target).await?;
            run.session.template = found.map_or(Lookup::Absent, |object| {
                Lookup::Found(object.metadata.uid.unwrap_or_default())
            });
        }
        if let Basis::Look(look) = basis {
            let resource = {
                let index = run.ctx.index.lock();
                let table = index.table_of_kind(&run.key.kind);
                table.and_then(|table| match table {
                    TableId::Federated(kind) => {
                        Some((index.resource(table), index.binding_name(kind, &run.key.name)))
                    }
                    _ => None,
                })
            };
            let Some((resource, binding)) = resource else {
                return Ok(Flow::End(Requeue::AwaitChange));
            };
            let subject = Subject {
                resource: &resource,
                namespace: &run.key.namespace,
                name: &run.key.name,
                binding: &binding,
                guards: &[],
            };
            run.session.seen = Some(member::look(run.ctx, subject, look).await?.seen);
        }
        Ok(Flow::Again)
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let gone = match basis {
            Basis::Copy(_) | Basis::Member(_) if confirm::is_torn_down(run.ctx, &run.key.namespace) => true,
            Basis::Namespace(_) if confirm::is_torn_down(run.ctx, &run.key.name) => true,
            Basis::Copy(origin) | Basis::Member(origin) => {
                confirm::deployment_gone(run.ctx, origin.clone()).await?
            }
            Basis::Namespace(origin) => confirm::namespace_gone(run.ctx, origin.clone()).await?,
            Basis::CitySet => match self.is_unused(run.ctx, run.key).await {
                Ok(unused) => unused,
                Err(failure) => {
                    city_set_ended(run.ctx, run.key);
                    return Err(failure);
                }
            },
            Basis::Binding(_) | Basis::Look(_) => true,
        };
        if gone {
            return Ok(Flow::Go);
        }
        self.forget(run.key);
        Ok(Flow::End(match basis {
            Basis::CitySet => {
                city_set_ended(run.ctx, run.key);
                Requeue::After(run.ctx.settings.sweep_interval)
            }
            Basis::Copy(_) | Basis::Member(_) | Basis::Look(_) | Basis::Namespace(_) | Basis::Binding(_) => {
                Requeue::AwaitChange
            }
        }))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, _: &Plan<Applied>) -> Flow {
        if matches!(basis, Basis::Member(_)) {
            run.session.seen = None;
            self.memory.lock().looks.remove(run.key);
            return Flow::Again;
        }
        self.forget(run.key);
        if matches!(basis, Basis::CitySet) {
            city_set_ended(run.ctx, run.key);
        }
        Flow::End(Requeue::AwaitChange)
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        if matches!(basis, Basis::CitySet) {
            city_set_ended(run.ctx, run.key);
        }
        Err(failure)
    }

    fn message(&self, basis: &Basis) -> Option<&'static str> {
        Some(match basis {
            Basis::Copy(_) => "orphaned copy deleted",
            Basis::Member(_) | Basis::Look(_) => "orphaned object of one member stopped",
            Basis::Namespace(_) => "hub Namespace collected",
            Basis::CitySet => "unused city set deleted",
            Basis::Binding(_) => "orphaned binding deleted",
        })
    }
}

/// Counts all copies again.
fn recount(memory: &mut Memory, index: &GatewayIndex, now: Now) {
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
