//! The snapshot of a companion: the objects that reference it, their members, and the policy and payload that follow.

use super::decide::Snapshot;
use crate::{
    index::{
        GatewayIndex, NamespaceOwner, ObjectRef, Project,
        derived::secondary,
        rows::{Companion, Payload, Source},
    },
    queries::{self, lifecycle},
    references::{self, References},
    single_member::referrers::{CompanionRef, Leaving, Referrers, Stopping, is_current},
};
use fedgate_engine::store::table::Row;
use fedgate_kinds::{CompanionKind, KindId};
use std::{collections::BTreeSet, sync::Arc};

/// Takes the snapshot; `None` while the lists it depends on are incomplete or absence is not proven. An object of the entries
/// `expired` holds the companion only if it expects the companion.
pub fn observe(index: &GatewayIndex, of: CompanionRef<'_>, expired: &BTreeSet<String>) -> Option<Snapshot> {
    let CompanionRef { kind, hub, name } = of;
    if !index.hub_ready() {
        return None;
    }
    let row = index.hub.companions[kind].get(hub, name);
    let held = || {
        let outlived = entries(row)
            .filter(|entry| named(entry).is_some_and(|(_, name)| outlives(index, hub, name, |_| true)));
        let mut referrers = Referrers::default();
        count_held(&mut referrers, index, of, outlived.collect(), |_, _| true);
        referrers.leave_replaced(index, row);
        referrers
    };
    let Some(owner) = index.owners.get(hub) else {
        return lifecycle::proven_gone(index, hub).then(|| snapshot(index, of, None, held(), None));
    };
    if !index.project_ready(&owner.project) {
        return None;
    }
    let project = index.projects.get(&owner.project)?;
    if lifecycle::earlier_life(index, &owner.project, hub) {
        // Delete the companion once copy and binding of every deployment that it was created for are gone.
        let referrers = held();
        let proven = !referrers.entries.is_empty() || index.lacks_proof(hub).is_none();
        return proven.then(|| snapshot(index, of, Some(owner), referrers, None));
    }
    let users = referrers(index, project, owner, of, (row, expired))?;
    let sources = &project.referable[kind];
    if !users.entries.is_empty() && !sources.synced() && !project.forbidden.contains(kind) {
        return None;
    }
    let payload = sources.get(&owner.namespace, name).map(|r| r.digest.clone());
    let limit = users.size_limit.unwrap_or(references::SIZE_LIMIT);
    let payload = payload.filter(|p| p.size <= limit);
    Some(snapshot(index, of, Some(owner), users, payload))
}

fn snapshot(
    index: &GatewayIndex,
    of: CompanionRef<'_>,
    owner: Option<&NamespaceOwner>,
    users: Referrers,
    payload: Option<Payload>,
) -> Snapshot {
    let CompanionRef { kind, hub, name } = of;
    let row = index.hub.companions[kind].get(hub, name);
    let given = users.given(index, row);
    let policy = users.policy(row, given.as_ref());
    let policy_name = policy.as_ref().map(|policy| policy.name(&index.kinds));
    let binding = row.and_then(|row| index.own_companion_binding(kind, hub, name, row));
    let takes_data = users.takes_data(row, binding, policy_name.as_deref());
    let is_ready = policy
        .as_ref()
        .is_some_and(|policy| index.is_policy_ready(hub, policy));
    Snapshot {
        resource: index.companions[kind].clone(),
        kind,
        project: owner.map(|owner| owner.project.clone()),
        namespace: owner.map_or_else(|| "".into(), |owner| owner.namespace.clone()),
        hub: hub.into(),
        name: name.into(),
        open: delivered(index, kind, hub, name) && (policy.is_some() || users.has_others),
        given,
        ready_policy: policy_name.filter(|_| is_ready),
        policy,
        stopping: row.and_then(|row| Stopping::read(index, of, row)),
        wanted_by: users.entries,
        leaving: users.leaving,
        payload: payload.filter(|_| takes_data),
        row: row.cloned(),
        accepted: None,
        observation: None,
    }
}

/// Counts objects of which nothing but a copy, a binding or a pin is left.
fn count_held(
    referrers: &mut Referrers,
    index: &GatewayIndex,
    companion: CompanionRef<'_>,
    entries: BTreeSet<String>,
    is_absent: impl Fn(KindId, &str) -> bool,
) {
    let hub: Arc<str> = companion.hub.into();
    for (_, object) in entries.iter().filter_map(|entry| named(entry)) {
        for kind in index.kinds.ids().filter(|kind| is_absent(*kind, object)) {
            let is_on_hub = || {
                index.hub.copies[kind].get(&hub, object).is_some()
                    || index.binding(kind, &hub, object).is_some()
            };
            let is_left = if index.kinds[kind].is_exactly_one() {
                index.pin(kind, &hub, object).is_some()
            } else {
                is_on_hub()
            };
            if is_left {
                referrers.count(index, &ObjectRef::new(kind, &hub, &object.into()), companion);
            }
        }
    }
    referrers.entries = entries;
}

/// The objects of a live project namespace that refer to a companion; `None` while nobody is known and some may exist unseen.
fn referrers(
    index: &GatewayIndex,
    project: &Project,
    owner: &NamespaceOwner,
    companion: CompanionRef<'_>,
    (row, expired): (Option<&Row<Companion>>, &BTreeSet<String>),
) -> Option<Referrers> {
    let CompanionRef { kind, hub, name } = companion;
    let listed: BTreeSet<String> = entries(row).collect();
    // A deployment that was deleted without an event is known by its copy and binding alone, until the garbage collector has
    // deleted them.
    let outlived = listed
        .iter()
        .filter(|entry| {
            named(entry).is_some_and(|(namespace, name)| {
                let absent = |i: KindId| project.sources[i].get(namespace, name).is_none();
                *namespace == *owner.namespace && outlives(index, hub, name, absent)
            })
        })
        .cloned();
    let is_absent = |i: KindId, object: &str| project.sources[i].get(&owner.namespace, object).is_none();
    let mut users = Referrers::default();
    count_held(&mut users, index, companion, outlived.collect(), is_absent);
    let is_adopted = index.companions.is_adopted(kind);
    let adopter = is_adopted.then(|| queries::references::adopter(index, owner, hub, (kind, name)));
    let is_adopters = |i: KindId, source: &Arc<str>| {
        let adopter = adopter.as_ref();
        adopter.is_none_or(|one| one.as_ref() == Some(&(i, source.clone())))
    };
    for (i, source) in concerned(project, &owner.namespace, kind, name, &listed) {
        let Some(s) = project.sources[i].get(&owner.namespace, &source) else {
            continue;
        };
        if !is_adopters(i, &source) {
            continue;
        }
        let entry = format!("{}/{source}", owner.namespace);
        let of = ObjectRef::new(i, &hub.into(), &source);
        let pin = index.pin(i, hub, &source);
        let is_over = pin.is_some_and(|pin| pin.is_over());
        let has_pin = pin.is_some() && !is_over;
        let lives = !s.deleting && !is_over && !index.is_foreign(s.digest.hub.as_ref());
        let stays = lives || has_pin || outlives(index, hub, &source, |kind| kind == i);
        // While the place of an object is refused, its companions stay and no others follow.
        let refused = index.refused_place(i, hub, &source, s);
        let expects = match refused {
            Some(_) => None,
            None => expects(index, owner, i, s, kind, name),
        };
        let is_listed = listed.contains(&entry);
        let wants = expects.unwrap_or(is_listed);
        // The member has not applied the new spec yet, which does not reference the companion.
        let is_left = stays && !wants && is_listed && has_pin;
        let is_applied = is_left && is_current(index, &of, s);
        let is_over = is_applied && expired.contains(&entry);
        let leaves = is_left && !is_over;
        if leaves {
            users.leaving.push(Leaving {
                entry: entry.clone(),
                is_applied,
            });
        }
        if stays && wants || leaves {
            users.entries.insert(entry);
            users.count(index, &of, companion);
            users.size_limit = users.size_limit.max(limit(index, i, s, (kind, name)));
        }
    }
    users.leave_replaced(index, row);
    if row.is_some() && index.lacks_proof(hub).is_some() {
        // A deployment that the index does not have may exist, so that no companion is released.
        users.entries.extend(listed);
        if users.entries.is_empty() {
            return None;
        }
    }
    Some(users)
}

/// The largest source that an object's reference to this companion admits; `None` if the object does not reference the companion.
fn limit(
    index: &GatewayIndex,
    i: KindId,
    s: &Row<Source>,
    (kind, name): (CompanionKind, &str),
) -> Option<usize> {
    let of = References::of(&index.kinds[i], &index.companions, s.digest.referenced());
    let mut found = of.found.iter();
    let reference = found.find(|r| r.kind == kind && *r.name == *name);
    reference.map(|reference| of.size_limit(reference))
}

/// Entries of the deployments that a companion lists as referencing it.
pub(super) fn entries(row: Option<&Row<Companion>>) -> impl Iterator<Item = String> {
    row.into_iter().flat_map(|row| secondary::entries(&row.digest))
}

/// The deployments that may want a companion: those that reference it, and those that it lists.
fn concerned(
    project: &Project,
    namespace: &str,
    kind: CompanionKind,
    name: &str,
    listed: &BTreeSet<String>,
) -> BTreeSet<(KindId, Arc<str>)> {
    let naming = project.secondary.naming(namespace, kind, name);
    let naming = naming.map(|(i, source)| (i, source.clone()));
    let listed = listed
        .iter()
        .filter_map(|entry| named(entry))
        .filter(|(of, _)| *of == namespace);
    let kinds = project.sources.ids();
    naming
        .chain(listed.flat_map(|(_, source)| kinds.clone().map(move |i| (i, source.into()))))
        .collect()
}

/// Namespace and name of a deployment in an entry.
pub(super) fn named(entry: &str) -> Option<(&str, &str)> {
    entry.split_once('/')
}

/// True if a copy or binding of a deployment exists in one of these kinds.
fn outlives(index: &GatewayIndex, hub: &str, name: &str, of_kind: impl Fn(KindId) -> bool) -> bool {
    index.kinds.ids().filter(|i| of_kind(*i)).any(|i| {
        match index.hub.copies[i].get(hub, name).map(|copy| &copy.digest) {
            // The copy names no source: fedgate does not manage it.
            Some(copy) if copy.source_uid.is_none() && copy.upstream_namespace.is_none() => false,
            Some(_) => true,
            None => {
                index.binding(i, hub, name).is_some()
                    || index.pin(i, hub, name).is_some_and(|pin| !pin.is_over())
            }
        }
    })
}

/// True if the hub accepts the companion: the policy of a route must exist before the companions of its deployments.
fn delivered(index: &GatewayIndex, kind: CompanionKind, hub: &str, name: &str) -> bool {
    let found = index.owners.get(hub);
    let Some((project, owner)) = found.and_then(|owner| Some((index.projects.get(&owner.project)?, owner)))
    else {
        return false;
    };
    let mut naming = project.secondary.naming(&owner.namespace, kind, name);
    naming.any(|(i, deployment)| {
        let source = project.sources[i].get(&owner.namespace, deployment);
        source.is_some_and(|source| {
            let mut references = source.digest.references.iter();
            references.any(|r| r.kind == kind && *r.name == *name)
                && index
                    .announced_route(i, hub, deployment, source)
                    .is_some_and(|destination| index.is_ready(i, hub, &destination))
        })
    })
}

/// True if a deployment expects this companion; `None` while that is unknown: then nothing changes.
fn expects(
    index: &GatewayIndex,
    owner: &NamespaceOwner,
    i: KindId,
    s: &Row<Source>,
    kind: CompanionKind,
    name: &str,
) -> Option<bool> {
    let rules = index.kinds[i].companions.as_ref()?;
    if rules.expected_annotation.is_some() {
        let Some(text) = s.digest.expected() else {
            // Without references, the list was removed with the last of them; otherwise it is not written yet.
            return s.digest.references.is_empty().then_some(false);
        };
        let tokens: Vec<String> = serde_json::from_str(text).ok()?;
        return Some(tokens.contains(&references::token(&index.companions, kind, name)));
    }
    let of = References::of(&index.kinds[i], &index.companions, s.digest.referenced());
    let found = references::resolve(of, |k, n| {
        queries::references::source_state(index, &owner.project, k, &owner.namespace, n)
    });
    Some(found.expected?.iter().any(|(k, n)| *k == kind && **n == *name))
}
