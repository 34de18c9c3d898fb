//! Reconciles one object at one member: applies it, reflects its status, or deletes it.

use super::{
    interpret, manifest,
    refs::{Key, NamespacedName, ObjectRef, Plane},
    status::Applied,
    wire::{self, annotation},
    works::Work,
    world::{StepError, World, delete_in_background, limited},
};
use fedgate_karmada::schedule::is_ready;
use kube::api::{DynamicObject, PostParams};
use std::sync::Arc;

/// Reconciles the object `at` at `member`.
pub(super) async fn pass(world: &World, member: &Arc<str>, at: &ObjectRef) -> Result<(), StepError> {
    let plane = Plane::Member(member.clone());
    world.watch(&plane, &at.kind);
    let Some(work) = world.works.get(member, at) else {
        return withdraw(world, member, at).await;
    };
    ready(world, member)?;
    if !world.mirrors.synced(&plane, &at.kind) {
        return Err(StepError::Wait(format!(
            "the first list of {} at {member}",
            at.kind.kind
        )));
    }
    let observed = world.mirrors.object(&plane, at);
    let outcome = apply(world, member, at, &work, observed.as_deref()).await;
    let mut news = None;
    if let Some(observed) = observed.filter(|observed| outcome.is_ok() && manifest::is_managed(observed)) {
        news = reflect(world, member, at, &observed).await?;
    }
    let applied = match &outcome {
        Ok(()) => Applied::Done,
        // A lost race does not count as a failed delivery.
        Err(error) if error.lost_race() => return outcome,
        Err(error) => Applied::Failed(format!("Failed to apply all manifests (0/1): {}", error.reason())),
    };
    if let Some(binding) = world.works.applied(member, at, applied).or(news) {
        world.wake(Key::Report(binding));
    }
    outcome
}

/// Fails unless the Cluster object of the member is ready: any other member gets nothing, not even deletions.
fn ready(world: &World, member: &Arc<str>) -> Result<(), StepError> {
    let clusters = world.mirrors.get(&Plane::Hub, &wire::cluster());
    match clusters.and_then(|clusters| clusters.get("", member)) {
        Some(cluster) if is_ready(&cluster) => Ok(()),
        _ => Err(StepError::Wait(format!("cluster({member}) not ready"))),
    }
}

async fn apply(
    world: &World,
    member: &Arc<str>,
    at: &ObjectRef,
    work: &Work,
    observed: Option<&DynamicObject>,
) -> Result<(), StepError> {
    let api = world.api(&Plane::Member(member.clone()), &at.kind, &at.namespace)?;
    let Some(observed) = observed else {
        limited(at, "create", api.create(&PostParams::default(), &work.manifest)).await?;
        return Ok(());
    };
    if let Some(refusal) = manifest::refusal(&work.manifest, observed, member) {
        return Err(StepError::Refused(refusal));
    }
    let wanted = interpret::retain(
        world,
        &at.kind,
        manifest::retain(&work.manifest, observed),
        observed,
    )?;
    let compared = (manifest::substance(&wanted), manifest::substance(observed));
    if compared.0 == compared.1 || work.settled.as_ref() == Some(&compared) {
        return Ok(());
    }
    let answer = limited(
        at,
        "replace",
        api.replace(&at.name, &PostParams::default(), &wanted),
    )
    .await?;
    if answer.metadata.resource_version == observed.metadata.resource_version {
        world.works.settle(member, at, compared);
    } else {
        // The object as the member's API server returned it counts as equal to the requested object.
        world
            .works
            .settle(member, at, (compared.0, manifest::substance(&answer)));
    }
    Ok(())
}

/// Records status and health of the member's object. Returns the binding if either changed.
async fn reflect(
    world: &World,
    member: &Arc<str>,
    at: &ObjectRef,
    observed: &DynamicObject,
) -> Result<Option<NamespacedName>, StepError> {
    match interpret::reflect(world, &at.kind, observed) {
        Ok(status) => {
            let health = interpret::health(world, &at.kind, observed);
            Ok(world.works.reflected(member, at, status, health))
        }
        Err(error) => {
            if let Some(template) = world.hub_object(at) {
                let note = format!("Reflect status for object({at}) of {member} failed, err: {error}.");
                world.warn(&template, "ReflectStatusFailed", &note).await;
            }
            Err(error)
        }
    }
}

/// Deletes an object at the member that no binding wants any more.
async fn withdraw(world: &World, member: &Arc<str>, at: &ObjectRef) -> Result<(), StepError> {
    let plane = Plane::Member(member.clone());
    let Some(observed) = world.mirrors.object(&plane, at) else {
        return Ok(());
    };
    if !manifest::is_managed(&observed)
        || observed.metadata.deletion_timestamp.is_some()
        || is_wanted(world, at, &observed)?
    {
        return Ok(());
    }
    ready(world, member)?;
    let api = world.api(&plane, &at.kind, &at.namespace)?;
    delete_in_background(&api, at, &observed).await
}

/// True if a managed object without a work is wanted all the same: its binding has not been reconciled since the start,
/// or the object is a Namespace that was synced to every member.
fn is_wanted(world: &World, at: &ObjectRef, observed: &DynamicObject) -> Result<bool, StepError> {
    let in_cluster = annotation(observed, wire::CLUSTER_BINDING_NAME);
    let (namespace, name) = match annotation(observed, wire::BINDING_NAME) {
        "" => ("", in_cluster),
        name => (annotation(observed, wire::BINDING_NAMESPACE), name),
    };
    if name.is_empty() {
        if !world.mirrors.synced(&Plane::Hub, &at.kind) {
            return Err(StepError::Wait(format!("the first list of {}", at.kind.kind)));
        }
        return Ok(world.hub_object(at).is_some());
    }
    let binding = NamespacedName {
        namespace: namespace.into(),
        name: name.into(),
    };
    if !world.mirrors.synced(&Plane::Hub, &binding.binding_kind()) {
        return Err(StepError::Wait("the first list of bindings".to_owned()));
    }
    let lives = world
        .binding(&binding)
        .is_some_and(|binding| binding.metadata.deletion_timestamp.is_none());
    Ok(lives && !world.made.lock().contains_key(&binding))
}
