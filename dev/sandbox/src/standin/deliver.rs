//! Reconciles one Work: applies its object at the member, reflects that object's status, or ends it.

use super::{
    interpret,
    refs::{Kind, NamespacedName, ObjectRef, Plane},
    wire::{self, as_value},
    works,
    world::{StepError, World, delete_in_background, limited, now},
};
use fedgate_karmada::{Object, manifest, names, schedule::is_ready, work};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;

/// A Work that is being reconciled.
struct Delivery<'a> {
    world: &'a World,
    member: Arc<str>,
    plane: Plane,
    /// The object.
    at: ObjectRef,
    work: Arc<DynamicObject>,
    observed: Option<Arc<DynamicObject>>,
}

/// Reconciles the Work `name`.
pub(super) async fn pass(world: &World, name: &NamespacedName) -> Result<(), StepError> {
    let Some(work) = works::get(world, name) else {
        world.settled.lock().remove(name);
        return Ok(());
    };
    let member = names::member_of(&name.namespace).unwrap_or_default();
    let Some((member, _)) = world.members.get_key_value(member) else {
        return Ok(());
    };
    let content = work::content(&work);
    let (Some(kind), Some(at)) = (Kind::of(content), ObjectRef::of(content)) else {
        return Ok(());
    };
    let plane = Plane::Member(member.clone());
    world.watch(&plane, &kind);
    let delivery = Delivery {
        world,
        member: member.clone(),
        observed: world.mirrors.object(&plane, &at),
        plane,
        at,
        work,
    };
    if delivery.work.metadata.deletion_timestamp.is_some() {
        delivery.end().await?;
        return works::release(world, &delivery.work).await;
    }
    delivery.deliver(name).await
}

impl Delivery<'_> {
    /// Fails unless the Cluster object of the member is ready: any other member gets nothing, not even deletions.
    fn ready(&self) -> Result<(), StepError> {
        let clusters = self.world.mirrors.get(&Plane::Hub, &wire::cluster());
        match clusters.and_then(|clusters| clusters.get("", &self.member)) {
            Some(cluster) if is_ready(&cluster) => Ok(()),
            _ => Err(StepError::Wait(format!("cluster({}) not ready", self.member))),
        }
    }

    fn synced(&self) -> Result<(), StepError> {
        if self.world.mirrors.synced(&self.plane, &self.at.kind) {
            return Ok(());
        }
        Err(StepError::Wait(format!(
            "the first list of {} at {}",
            self.at.kind.kind, self.member
        )))
    }

    /// Delivers the object unless the Work is suspended, and records the outcome and the object's status.
    async fn deliver(&self, name: &NamespacedName) -> Result<(), StepError> {
        let status = &self.work.data["status"];
        let mut conditions = work::dispatching(&self.work).set_in(&status["conditions"], &now());
        let mut outcome = Ok(());
        if !work::is_suspended(&self.work) {
            self.ready()?;
            self.synced()?;
            outcome = self.apply(name).await;
            let applied = match &outcome {
                Ok(()) => work::applied(Ok(())),
                // A lost race does not count as a failed delivery.
                Err(error) if error.lost_race() => return outcome,
                Err(error) => work::applied(Err(&error.reason())),
            };
            conditions = applied.set_in(&conditions, &now());
        }
        let reflected = match self.observed.as_deref().filter(|_| outcome.is_ok()) {
            Some(observed) if observed.annotation(names::WORK_NAME) == Some(&*name.name) => {
                self.reflect(observed).await?
            }
            _ => status["manifestStatuses"].clone(),
        };
        if status["conditions"] != conditions || status["manifestStatuses"] != reflected {
            let patch = json!({"conditions": conditions, "manifestStatuses": reflected});
            self.world.merge_status(&wire::work(), &self.work, patch).await?;
        }
        outcome
    }

    async fn apply(&self, name: &NamespacedName) -> Result<(), StepError> {
        let content = work::content(&self.work);
        let Some(observed) = &self.observed else {
            let api = self.world.api(&self.plane, &self.at.kind, &self.at.namespace)?;
            let new = wire::read(content.clone())?;
            return limited(&self.at, "create", api.create(&PostParams::default(), &new))
                .await
                .map(drop);
        };
        if let Some(refusal) = manifest::refusal(content, observed, &self.member) {
            return Err(StepError::Refused(refusal));
        }
        let observed = as_value(observed);
        let wanted = manifest::retain(content, &observed);
        let wanted = interpret::retain(self.world, &self.at.kind, wanted, &observed)?;
        let compared = (manifest::substance(&wanted), manifest::substance(&observed));
        if compared.0 == compared.1 || self.world.settled.lock().get(name) == Some(&compared) {
            return Ok(());
        }
        // The object as the member's API server returned it counts as equal to the requested object: the server fills in
        // defaults.
        let answer = self.replace(wanted).await?;
        let settled = (compared.0, manifest::substance(&as_value(&answer)));
        self.world.settled.lock().insert(name.clone(), settled);
        Ok(())
    }

    async fn replace(&self, object: Value) -> Result<DynamicObject, StepError> {
        let object = wire::read(object)?;
        let api = self.world.api(&self.plane, &self.at.kind, &self.at.namespace)?;
        let params = PostParams::default();
        let call = api.replace(&self.at.name, &params, &object);
        limited(&self.at, "replace", call).await
    }

    /// Status and health of the member's object, for the status of the Work.
    async fn reflect(&self, observed: &DynamicObject) -> Result<Value, StepError> {
        let (world, kind) = (self.world, &self.at.kind);
        match interpret::reflect(world, kind, observed) {
            Ok(status) => {
                let health = interpret::health(world, kind, observed);
                Ok(work::reflected(&self.work, status.as_ref(), health))
            }
            Err(error) => {
                if let Some(template) = world.hub_object(&self.at) {
                    let (at, member) = (&self.at, &self.member);
                    let note = format!("Reflect status for object({at}) of {member} failed, err: {error}.");
                    world.warn(&template, "ReflectStatusFailed", &note).await;
                }
                Err(error)
            }
        }
    }

    /// Does at the member what the end of the Work asks for: the object goes, or stays without Karmada's keys. At a
    /// member that has left, everything stays as it is.
    async fn end(&self) -> Result<(), StepError> {
        let clusters = self.world.mirrors.get(&Plane::Hub, &wire::cluster());
        let left = clusters.is_some_and(|clusters| clusters.get("", &self.member).is_none());
        if left && self.world.mirrors.synced(&Plane::Hub, &wire::cluster()) {
            return Ok(());
        }
        if work::preserves(&self.work) {
            return self.leave().await;
        }
        self.ready()?;
        self.synced()?;
        let Some(observed) = &self.observed else {
            return Ok(());
        };
        if !manifest::is_managed(observed) || observed.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let api = self.world.api(&self.plane, &self.at.kind, &self.at.namespace)?;
        delete_in_background(&api, &self.at, observed).await
    }

    /// Leaves the object at the member. Karmada fails for ever if it is not there.
    async fn leave(&self) -> Result<(), StepError> {
        self.synced()?;
        let Some(observed) = &self.observed else {
            return Err(StepError::Refused(format!("{} not found", self.at)));
        };
        let left = manifest::leave(work::content(&self.work));
        if let Some(refusal) = manifest::refusal(&left, observed, &self.member) {
            return Err(StepError::Refused(refusal));
        }
        let observed = as_value(observed);
        let left = manifest::retain(&left, &observed);
        if manifest::substance(&left) != manifest::substance(&observed) {
            self.replace(left).await?;
        }
        Ok(())
    }
}
