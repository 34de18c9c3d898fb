//! Reconciles one Work: applies its object at the member, reflects that object's status, or ends it.

use super::{
    interpret,
    refs::{CLUSTER, Kind, ObjectRef},
    world::{Call, Plane, StepError, World, now},
};
use fedgate_karmada::{Object, manifest, names, schedule::is_ready, work};
use fedgate_kinds::lua::Operation;
use serde_json::{Value, json};
use std::sync::Arc;

/// A Work that is being reconciled.
struct Delivery<'a> {
    world: &'a World,
    member: &'a Plane,
    work: &'a Value,
    /// The object at the member, and whether it is there.
    at: ObjectRef,
    observed: Option<Arc<Value>>,
}

/// Reconciles the Work `key`.
pub(super) async fn pass(world: &World, key: &ObjectRef) -> Result<(), StepError> {
    let Some(work) = world.hub.get(key) else {
        world.settled.lock().remove(key);
        return Ok(());
    };
    let member = names::member_of(&key.namespace).unwrap_or_default();
    let at = ObjectRef::of(work::content(&work));
    let Some(member) = world.members.get(member).filter(|_| !at.name.is_empty()) else {
        return Ok(());
    };
    world.watch(member, &at.kind);
    let delivery = Delivery {
        world,
        member,
        work: &work,
        observed: member.get(&at),
        at,
    };
    if work.is_deleting() {
        delivery.end().await?;
        return world.hub.remove_finalizers(&work, &[names::WORK_FINALIZER]).await;
    }
    delivery.deliver(key).await
}

impl Delivery<'_> {
    /// Fails unless the Cluster object of the member is ready, because any other member gets nothing, not even deletions,
    /// and unless the objects of the member are known.
    fn ready(&self) -> Result<(), StepError> {
        match self.world.cluster(&self.member.name) {
            Some(cluster) if is_ready(&cluster) => self.member.synced(&[&self.at.kind]),
            _ => Err(StepError::Wait(format!(
                "cluster({}) not ready",
                self.member.name
            ))),
        }
    }

    /// Delivers the object unless the Work is suspended, and records the outcome and the object's status.
    async fn deliver(&self, key: &ObjectRef) -> Result<(), StepError> {
        let status = &self.work["status"];
        let mut conditions = work::dispatching(self.work).set_in(&status["conditions"], &now());
        let mut outcome = Ok(());
        if !work::is_suspended(self.work) {
            self.ready()?;
            outcome = self.apply(key).await;
            let applied = match &outcome {
                Ok(()) => work::applied(Ok(())),
                // A lost race does not count as a failed delivery.
                Err(error) if error.lost_race() => return outcome,
                Err(error) => work::applied(Err(&error.reason())),
            };
            conditions = applied.set_in(&conditions, &now());
        }
        let reflected = match self.observed.as_deref().filter(|_| outcome.is_ok()) {
            Some(observed) if observed.annotation(names::WORK_NAME) == Some(&*key.name) => {
                self.reflect(observed)?
            }
            _ => status["manifestStatuses"].clone(),
        };
        if status["conditions"] != conditions || status["manifestStatuses"] != reflected {
            let patch = json!({"conditions": conditions, "manifestStatuses": reflected});
            self.world.hub.merge_status(self.work, patch).await?;
        }
        outcome
    }

    fn kind(&self) -> &Kind {
        &self.at.kind
    }

    async fn apply(&self, key: &ObjectRef) -> Result<(), StepError> {
        let content = work::content(self.work);
        let Some(observed) = &self.observed else {
            return self.member.send(&self.at, Call::Create(content)).await.map(drop);
        };
        if let Some(refusal) = manifest::refusal(content, observed, &self.member.name) {
            return Err(StepError::Refused(refusal));
        }
        let mut wanted = manifest::retain(content, observed);
        if let Some(script) = interpret::script(self.world, self.kind(), Operation::Retention) {
            let retained = self.world.lua.retain(&script, &wanted, observed);
            wanted = retained.map_err(|error| StepError::Refused(format!("Retain: {error}")))?;
        }
        let compared = (manifest::substance(&wanted), manifest::substance(observed));
        if compared.0 == compared.1 || self.world.settled.lock().get(key) == Some(&compared) {
            return Ok(());
        }
        // The object as the member's API server returned it counts as equal to the requested object: the server fills in
        // defaults.
        let answer = self.member.send(&self.at, Call::Replace(&wanted)).await?;
        let settled = (compared.0, manifest::substance(&answer));
        self.world.settled.lock().insert(key.clone(), settled);
        Ok(())
    }

    /// Status and health of the member's object, for the status of the Work.
    fn reflect(&self, observed: &Value) -> Result<Value, StepError> {
        let status = interpret::reflect(self.world, self.kind(), observed);
        let status = status.map_err(|error| StepError::Refused(format!("ReflectStatus: {error}")))?;
        let health = interpret::health(self.world, self.kind(), observed);
        Ok(work::reflected(self.work, status.as_ref(), health))
    }

    /// Does at the member what the end of the Work asks for: the object goes, or stays without Karmada's keys. At a
    /// member that has left, everything stays as it is.
    async fn end(&self) -> Result<(), StepError> {
        if self.world.hub.synced(&[CLUSTER]).is_ok() && self.world.cluster(&self.member.name).is_none() {
            return Ok(());
        }
        if work::preserves(self.work) {
            return self.leave().await;
        }
        self.ready()?;
        match &self.observed {
            Some(observed) if manifest::is_managed(observed) => self.member.delete(observed).await,
            _ => Ok(()),
        }
    }

    /// Leaves the object at the member. Karmada fails for ever if it is not there.
    async fn leave(&self) -> Result<(), StepError> {
        self.member.synced(&[self.kind()])?;
        let Some(observed) = &self.observed else {
            return Err(StepError::Refused(format!("{} not found", self.at)));
        };
        let left = manifest::leave(work::content(self.work));
        if let Some(refusal) = manifest::refusal(&left, observed, &self.member.name) {
            return Err(StepError::Refused(refusal));
        }
        let left = manifest::retain(&left, observed);
        if manifest::substance(&left) != manifest::substance(observed) {
            self.member.send(&self.at, Call::Replace(&left)).await?;
        }
        Ok(())
    }
}
