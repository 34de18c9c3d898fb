//! Observes a Secret that is returned, and the object that it belongs to.

use super::decide::{Object, Snapshot};
use crate::{
    index::{GatewayIndex, derived::project_hub::NamedHub},
    projection,
};
use fedgate_api::names::return_name;
use fedgate_engine::key::{Key, Plane};
use fedgate_kinds::{CompanionKind, KindId};
use std::sync::Arc;

/// Takes the snapshot; `None` while the namespace does not own its hub namespace, or a list that the snapshot depends on is
/// incomplete.
pub fn observe(index: &GatewayIndex, key: &Key) -> Option<Snapshot> {
    let Plane::Project(project_key) = &key.plane else {
        return None;
    };
    let hub = index.owned_hub_namespace(project_key, &key.namespace)?;
    if !index.hub_ready() || !index.project_ready(project_key) || !index.returns_listed(project_key) {
        return None;
    }
    let project = index.projects.get(project_key)?;
    let own = project.returned.get(&key.namespace, &key.name).cloned();
    let (member, returned) = index.returned(hub.as_str(), &key.name, own.as_ref()).unzip();
    let of: Option<(KindId, Arc<str>)> = match (&returned, &own) {
        (Some(row), _) => index.object_of_return(&row.digest),
        (None, Some(row)) => index
            .kinds
            .position(|kind| !kind.returns.is_empty() && row.digest.is_of(kind))
            .zip(row.digest.owner.as_ref().map(|owner| owner.name.clone())),
        (None, None) => None,
    };
    let object = of.map(|(kind, name)| Object {
        kind,
        copy: index.hub.copies[kind].get(hub.as_str(), &name).cloned(),
        pin: index.pin(kind, hub.as_str(), &name).cloned(),
        source: project.sources[kind].get(&key.namespace, &name).cloned(),
        name,
    });
    let pin = object.as_ref().and_then(|object| object.pin.as_ref());
    let member = member.or_else(|| Some(pin?.member.clone()));
    let source = object.as_ref().and_then(|object| object.source.as_ref());
    let of_other_hub =
        source.is_some_and(|row| index.named_hub(project, &key.namespace, row) == NamedHub::Other);
    let other = project.referable[CompanionKind::SECRET].get(&key.namespace, &key.name);
    Some(Snapshot {
        kinds: index.kinds.clone(),
        resource: index.companions[CompanionKind::SECRET].clone(),
        project: project_key.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        on_hub: member.map(|member| return_name(&member, &key.name)),
        is_of_project: projection::is_namespace_of(index, hub.as_str(), project_key),
        returned,
        object,
        taken: project.referable[CompanionKind::SECRET]
            .synced()
            .then(|| other.is_some() && own.is_none()),
        own,
        proven: index.lacks_proof(hub.as_str()).is_none() && index.hub.returned.proves(),
        suspended: project.suspended,
        of_other_hub,
        hub,
    })
}
