//! The objects of a project that others reference.

use crate::{
    index::{GatewayIndex, NamespaceOwner, derived::secondary},
    references::SourceState,
};
use fedgate_api::names::ProjectKey;
use fedgate_kinds::{CompanionKind, KindId};
use std::{collections::BTreeSet, sync::Arc};

/// State of the source of a reference.
pub fn source_state(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: CompanionKind,
    namespace: &str,
    name: &str,
) -> SourceState {
    let Some(p) = index.projects.get(project) else {
        return SourceState::Unknown;
    };
    let table = &p.referable[kind];
    match table.get(namespace, name) {
        _ if p.forbidden.contains(kind) => SourceState::Forbidden,
        _ if !table.synced() => SourceState::Unknown,
        None => SourceState::Missing,
        Some(row) => SourceState::Present(row.digest.size),
    }
}

/// The object with which a companion goes at its member: of several that name it one that has a member, else one that is
/// on the hub.
pub fn adopter(
    index: &GatewayIndex,
    owner: &NamespaceOwner,
    hub: &str,
    (kind, name): (CompanionKind, &str),
) -> Option<(KindId, Arc<str>)> {
    let project = index.projects.get(&owner.project)?;
    let listed = index.hub.companions[kind].get(hub, name);
    let listed: BTreeSet<String> = listed
        .iter()
        .flat_map(|row| secondary::entries(&row.digest))
        .collect();
    let naming = project.secondary.naming(&owner.namespace, kind, name);
    let former = listed.iter().filter_map(|entry| entry.split_once('/'));
    let former = former.flat_map(|(_, object)| index.kinds.ids().map(move |i| (i, Arc::from(object))));
    let is_there = |(i, object): &(KindId, Arc<str>)| {
        let sections = index.kinds[*i].companions.iter();
        let mut rules = sections.flat_map(|section| &section.references);
        rules.any(|rule| index.companions.id(&rule.resource) == Some(kind))
            && project.sources[*i].get(&owner.namespace, object).is_some()
            && index.pin(*i, hub, object).is_none_or(|pin| !pin.is_over())
    };
    let all = naming.map(|(i, object)| (i, object.clone())).chain(former);
    all.filter(is_there).min_by_key(|(i, object)| {
        let is_listed = listed.contains(&format!("{}/{object}", owner.namespace));
        let pinned = index.pin(*i, hub, object);
        let copied = index.hub.copies[*i].get(hub, object);
        (
            !(is_listed && pinned.is_some()),
            pinned.is_none(),
            copied.is_none(),
            *i,
            object.clone(),
        )
    })
}
