//! Reads what the index does not show of an object that is being deleted: its Works, and its object at the member.

use super::deletion::Look;
use crate::gateway::{
    context::Context,
    federator::{memory::Seen, observe::Snapshot},
    index::resource,
    pin::Pin,
};
use fedgate_api::keys;
use fedgate_engine::{
    error::Failure,
    executor::{Answer, at_member},
    key::Plane,
    plan::Target,
};
use kube::core::{DynamicObject, Status};

/// Before the name of a member in the Namespace of its Works.
const WORKS_PREFIX: &str = "karmada-es-";

/// Looks.
pub async fn look(ctx: &Context<'_>, s: &Snapshot, look: &Look) -> Result<Seen, Failure> {
    match look {
        Look::Works { member, id } => {
            let works = resource("work.karmada.io", "v1alpha1", "Work", "works");
            let target = Target::namespaced(Plane::Hub, &works, &format!("{WORKS_PREFIX}{member}"), "");
            let found = ctx.executor.labelled(&target, (keys::BINDING_ID, id)).await?;
            let stopped = found.iter().all(is_stopped);
            Ok(if stopped {
                Seen::WorksStopped
            } else {
                Seen::WorksGoOn
            })
        }
        Look::Member { pin } => {
            let (Some(hub), resource) = (&s.hub, &s.profile().resource) else {
                return Ok(Seen::Unknown("its namespace on the hub is not known".to_owned()));
            };
            let proxied = at_member(&pin.member, resource, hub.as_str());
            let target = Target::cluster(Plane::Hub, &proxied, &s.name);
            match ctx.executor.ask(&target).await {
                Ok(answer) => Ok(seen(s, pin, &answer)),
                Err(failure) if failure.plane == Plane::Hub && !failure.message.is_empty() => {
                    Ok(Seen::Unknown(failure.message))
                }
                Err(failure) => Err(failure),
            }
        }
    }
}

/// True if Karmada dispatches nothing of a Work, and deletes its object with it.
fn is_stopped(work: &DynamicObject) -> bool {
    let spec = &work.data["spec"];
    spec["suspendDispatching"] == true && spec["preserveResourcesOnDeletion"] != true
}

/// What an answer proves: absence only if the member itself says so of this very object, or has one that is not ours.
fn seen(s: &Snapshot, pin: &Pin, answer: &Answer) -> Seen {
    match answer {
        Answer::Refused(status) if is_absence(s, status) => Seen::Absent,
        Answer::Refused(status) => Seen::Unknown(format!("{} ({})", status.message, status.code)),
        Answer::Found(object) => {
            let annotations = object.metadata.annotations.as_ref();
            let template = annotations.and_then(|all| all.get(keys::TEMPLATE_UID));
            if template.is_some_and(|uid| !pin.copy_uids.iter().any(|own| **own == **uid)) {
                return Seen::Absent;
            }
            Seen::There {
                deleting: object.metadata.deletion_timestamp.is_some(),
                finalizers: object.metadata.finalizers.clone().unwrap_or_default(),
            }
        }
    }
}

fn is_absence(s: &Snapshot, status: &Status) -> bool {
    let resource = &s.profile().resource;
    let details = status.details.as_ref();
    status.code == 404
        && status.reason == "NotFound"
        && details
            .is_some_and(|of| of.group == resource.group && of.kind == resource.plural && of.name == *s.name)
}
