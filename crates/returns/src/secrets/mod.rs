//! Sends the Secrets that an object names to the hub. Values are read just before they are sent, and never kept.

pub mod decide;
#[cfg(test)]
mod tests;

use super::{
    context::{Context, State},
    index::{ReturnsIndex, TableId},
};
use decide::{Body, Decision, Knowledge, Known, Snapshot, Version};
use fedgate_engine::{
    error::Failure,
    key::{Key, Plane},
    plan::{Applied, Plan, Requeue, Target},
    reconcile::{
        memory::Memories,
        throttle::{RETRY_AFTER, Rate, TokenBucket, WriteKind},
    },
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Limits the writes of an object whose Secrets change all the time: each costs the hub, which all members share.
const RATE: Rate = Rate::new(Duration::from_secs(1));

/// State of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    known: Knowledge,
    writes: TokenBucket,
}

/// The controller, and what it has sent.
#[derive(Debug, Default)]
pub struct Secrets {
    memory: Memories<Memory>,
}

impl Secrets {
    /// Forgets what was sent.
    pub fn forget(&self) {
        self.memory.retain(|_, _| false);
    }

    /// Drops full token buckets.
    pub fn prune(&self, now: Instant) {
        self.memory.retain(|_, memory| {
            if memory.writes.is_full(now) {
                memory.writes = TokenBucket::default();
            }
            true
        });
    }
}

/// State of one reconcile.
#[derive(Debug, Default)]
pub struct Session {
    memory: Memory,
    body: Option<Body>,
}

/// The basis of a decision, for the steps that follow it.
#[derive(Debug)]
pub struct Basis {
    snapshot: Snapshot,
    /// The Secret that is read or written, and what is known of it afterwards.
    name: Arc<str>,
    after: Option<Known>,
}

impl Reconciler for Secrets {
    type State = State;
    type Session = Session;
    type Basis = Basis;

    const NAME: &'static str = "secrets";

    fn begin(&self, _: &Context<'_>, key: &Key) -> Session {
        Session {
            memory: self.memory.take(key),
            body: None,
        }
    }

    fn end(&self, _: &Context<'_>, key: &Key, session: Session) {
        self.memory.put(key, session.memory);
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let snapshot = observe(&run.ctx.index.lock(), &run.ctx.member, run.key);
        let Some(snapshot) = snapshot else {
            return Step::End(Requeue::AwaitChange);
        };
        loop {
            let Session { memory, body } = &mut run.session;
            match decide::decide(&snapshot, &memory.known, body.as_ref()) {
                Decision::Note(name, known) => {
                    memory.known.insert(name, known);
                }
                Decision::Wait => {
                    run.ctx.quarantine.release(run.key);
                    // Absence on the hub matters as long as the object names the Secret.
                    if snapshot.object.is_none() {
                        memory.known.clear();
                    }
                    return Step::End(Requeue::AwaitChange);
                }
                Decision::Refuse(verdict, message) => {
                    if run.ctx.quarantine.insert(run.key, verdict) {
                        let (namespace, name) = (&*run.key.namespace, &*run.key.name);
                        tracing::warn!(plane = "cell", controller = Self::NAME, kind = %run.key.kind, namespace, name, key = %run.key, reason = verdict.label(), detail = message, "Secret not returned");
                    }
                    return Step::End(Requeue::After(RETRY_AFTER));
                }
                Decision::Read(name) => {
                    return Step::Read(Basis {
                        snapshot,
                        name,
                        after: None,
                    });
                }
                Decision::Do(effect, name, after) => {
                    let now = run.ctx.now().instant;
                    if let Some(wait) = memory.writes.wait(RATE, WriteKind::Progress, now) {
                        return Step::End(Requeue::After(wait));
                    }
                    let basis = Basis {
                        snapshot,
                        name,
                        after,
                    };
                    return Step::Apply(Plan::one(*effect), basis);
                }
            }
        }
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) -> Result<Flow, Failure> {
        let Basis {
            snapshot: s, name, ..
        } = basis;
        let target = Target::namespaced(Plane::Cell, &s.resource, &s.namespace, name);
        let found = run.ctx.executor.get(&target).await?;
        let body = found.and_then(|object| {
            Some(Body {
                name: name.clone(),
                version: Version::read(&object)?,
                object,
            })
        });
        // Its end, or an earlier version that another server answers with, is followed by an event.
        let row = s.secrets.get(name);
        let body = body.filter(|body| row.is_some_and(|row| body.is_as_new_as(row)));
        run.session.body = body;
        Ok(match run.session.body {
            Some(_) => Flow::Again,
            None => Flow::End(Requeue::AwaitChange),
        })
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, _: &Plan<Applied>) -> Flow {
        let Session { memory, body } = &mut run.session;
        match &basis.after {
            Some(known) => memory.known.insert(basis.name.clone(), known.clone()),
            None => memory.known.remove(&basis.name),
        };
        memory.writes.take(RATE, run.ctx.now().instant);
        if matches!(basis.after, Some(Known::Sent(_))) {
            *body = None;
        }
        run.ctx.quarantine.release(run.key);
        Flow::Again
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        Some("returns written")
    }
}

/// Takes the snapshot; `None` while a list of the member is not complete.
pub fn observe(index: &ReturnsIndex, member: &Arc<str>, key: &Key) -> Option<Snapshot> {
    if index.missing().is_some() {
        return None;
    }
    let kind = index.kind_of_key(key)?;
    let object = index.object(key).map(|row| row.digest.clone());
    let names = object.iter().flat_map(|object| object.names.iter());
    let secrets = names.filter_map(|(name, _)| {
        let row = index.secrets.get(&key.namespace, name)?;
        (!row.deleting).then(|| (name.clone(), row.clone()))
    });
    Some(Snapshot {
        kinds: index.kinds.clone(),
        kind,
        resource: index.resource(TableId::Secrets),
        member: member.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        secrets: secrets.collect(),
        home: index.homes.get("", &key.namespace).map(|row| row.digest.clone()),
        object,
    })
}
