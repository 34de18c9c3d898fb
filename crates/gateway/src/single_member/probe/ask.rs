//! Sends probes to Karmada and to members.

use super::{Answered, Observation, Probe, works};
use crate::{
    context::Context,
    index::{rows::guard_holds, single_member::Pin},
};
use fedgate_api::keys;
use fedgate_engine::{
    error::Failure,
    executor::{Answer, at_member},
    key::Plane,
    plan::Target,
};
use fedgate_kinds::Guard;
use kube::core::{ApiResource, ObjectMeta, Status};

/// The object of a probe, as the hub and its members know it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Resource of the object.
    pub resource: &'a ApiResource,
    /// Namespace of the object on the hub and at its members.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Name of the binding of its copy.
    pub binding: &'a str,
    /// The guards of its kind; none where nobody asks which spec a member has.
    pub guards: &'a [Guard],
}

/// Sends a probe.
pub async fn probe(ctx: &Context<'_>, s: Subject<'_>, probe: &Probe) -> Result<Answered, Failure> {
    match probe {
        Probe::HubUser => {
            let user = ctx.executor.own_user(&Plane::Hub).await?;
            ctx.index.lock().hub.user = Some(user.into());
            Ok(Observation::HubUser.into())
        }
        Probe::Works { member, ids } => works::stopped(ctx, member, ids).await,
        Probe::StuckWork { member } => works::stuck(ctx, s, member).await,
        Probe::Member { pin, id } => {
            // A Work can outlive its binding, and Karmada deletes the object at the member with the Work.
            if let Some(answered) = works::left_over(ctx, s, &pin.member, id.as_deref()).await? {
                return Ok(answered);
            }
            ask(ctx, s, pin).await
        }
        Probe::Object { pin } => ask(ctx, s, pin).await,
    }
}

/// Asks a member for the object, by the hub's proxy. An object that is there is watched.
async fn ask(ctx: &Context<'_>, s: Subject<'_>, pin: &Pin) -> Result<Answered, Failure> {
    let proxied = at_member(&pin.member, s.resource, s.namespace);
    let target = Target::cluster(Plane::Hub, &proxied, s.name);
    let answer = match ctx.executor.ask(&target).await {
        Ok(answer) => answer,
        Err(failure) if failure.plane == Plane::Hub && !failure.message.is_empty() => {
            return Ok(Observation::Unknown(failure.message).into());
        }
        Err(failure) => return Err(failure),
    };
    let observation = observe(s, pin, &answer);
    let version = match (&observation, answer) {
        (Observation::There { .. }, Answer::Found(object)) => object.metadata.resource_version,
        _ => None,
    };
    Ok(Answered {
        observation,
        watched: version.map(|version| (target, version)),
    })
}

/// Draws a conclusion from an answer. The object is absent only if the member itself says so of this very object, or if its object was not
/// made from a copy of the pin.
pub(super) fn observe(s: Subject<'_>, pin: &Pin, answer: &Answer) -> Observation {
    match answer {
        Answer::Refused(status) if proves_absence(s.resource, s.name, status) => Observation::Absent,
        Answer::Refused(status) => Observation::Unknown(format!("{} ({})", status.message, status.code)),
        Answer::Found(object) => {
            let annotations = object.metadata.annotations.as_ref();
            let template = annotations.and_then(|all| all.get(keys::TEMPLATE_UID));
            match pin.owns(template.map(String::as_str)) {
                Some(true) => Observation::There {
                    deleting: object.metadata.deletion_timestamp.is_some(),
                    finalizers: object.metadata.finalizers.clone().unwrap_or_default(),
                    generation: generation(pin, &object.metadata),
                    guarded: guard_holds(s.guards, object),
                },
                Some(false) => Observation::Absent,
                None => Observation::Unknown(format!(
                    "it has one of copy {}, which may be an earlier one of ours or of another hub; its operator deletes it \
                     if it is nobody's",
                    template.map_or("", String::as_str)
                )),
            }
        }
    }
}

/// The generation of the project's object whose spec a member's object has: both come in one write of the copy.
fn generation(pin: &Pin, metadata: &ObjectMeta) -> Option<i64> {
    let annotations = metadata.annotations.as_ref()?;
    let is_of_source = annotations.get(keys::SOURCE_UID).map(String::as_str) == Some(&*pin.source_uid);
    let generation = annotations.get(keys::SOURCE_GENERATION)?.parse().ok();
    generation.filter(|_| is_of_source)
}

/// True if a refusal is the member's own word that it has no object of this kind and name: a hub's proxy refuses for reasons of
/// its own, too.
pub fn proves_absence(resource: &ApiResource, name: &str, status: &Status) -> bool {
    let details = status.details.as_ref();
    status.code == 404
        && status.reason == "NotFound"
        && details
            .is_some_and(|of| of.group == resource.group && of.kind == resource.plural && of.name == name)
}
