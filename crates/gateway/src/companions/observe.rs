//! The snapshot of a companion: who wants it, at which members, and what it is to have.

use super::{
    decide::{Snapshot, Stopping},
    users::{Adopter, Leaving, Users},
};
use crate::{
    index::{
        GatewayIndex, NamespaceOwner, Project,
        derived::secondary,
        rows::{Companion, Payload, Source},
    },
    lane::{CompanionLane, CopyLane},
    queries::{self, lifecycle},
    references::{self, References},
};
use fedgate_engine::store::table::Row;
use fedgate_kinds::{CompanionKind, KindId};
use std::{collections::BTreeSet, sync::Arc};

/// Takes the snapshot; `None` while the lists it depends on are incomplete or absence is not proven. The objects of the
/// entries `expired` no longer hold it unless they expect it.
pub fn observe(
    index: &GatewayIndex,
    kind: CompanionKind,
    (hub, name): (&str, &str),
    expired: &BTreeSet<String>,
) -> Option<Snapshot> {
    if !index.hub_ready() {
        return None;
    }
    let row = index.hub.companions[kind].get(hub, name).cloned();
    let snapshot = |project, namespace, users: Users, payload: Option<Payload>| {
        let given = users.given(index, row.as_ref());
        let lane = users.lane(row.as_ref(), given.as_ref());
        let lane_name = lane.as_ref().map(|lane| lane.name(&index.kinds));
        let of_row = |row| index.own_companion_binding(kind, hub, name, row);
        let binding = row.as_ref().and_then(of_row);
        let takes_data = users.takes_data(row.as_ref(), binding, lane_name.as_deref());
        let is_open = lane.as_ref().is_some_and(|lane| index.is_lane_open(hub, lane));
        Snapshot {
            resource: index.companions[kind].clone(),
            kind,
            project,
            namespace,
            hub: hub.into(),
            name: name.into(),
            open: delivered(index, kind, hub, name) && (lane.is_some() || users.others),
            given,
            open_lane: lane_name.filter(|_| is_open),
            lane,
            stopping: row.as_ref().and_then(|row| stopping(index, kind, hub, name, row)),
            wanted_by: users.entries,
            leaving: users.leaving,
            payload: payload.filter(|_| takes_data),
            row: row.clone(),
            accepted: None,
            seen: None,
        }
    };
    let held = || {
        let entries = held_entries(index, hub, row.as_ref());
        Users::held(index, kind, (hub, name), entries, |_, _| true)
    };
    let Some(owner) = index.owners.get(hub) else {
        return lifecycle::proven_gone(index, hub).then(|| snapshot(None, "".into(), held(), None));
    };
    if !index.project_ready(&owner.project) {
        return None;
    }
    let project = index.projects.get(&owner.project)?;
    if lifecycle::earlier_life(index, &owner.project, hub) {
        // Delete the companion once copy and binding of every deployment that it was created for are gone.
        let users = held();
        let project = Some(owner.project.clone());
        let proven = !users.entries.is_empty() || index.lacks_proof(hub).is_none();
        return proven.then(|| snapshot(project, owner.namespace.clone(), users, None));
    }
    let of = (kind, hub, name);
    let users = users(index, project, owner, of, (row.as_ref(), expired))?;
    let sources = &project.referable[kind];
    if !users.entries.is_empty() && !sources.synced() && !project.forbidden.contains(kind) {
        return None;
    }
    let payload = sources.get(&owner.namespace, name).map(|r| r.digest.clone());
    let limit = users.size_limit.unwrap_or(references::SIZE_LIMIT);
    let payload = payload.filter(|p| p.size <= limit);
    Some(snapshot(
        Some(owner.project.clone()),
        owner.namespace.clone(),
        users,
        payload,
    ))
}

/// The objects of a live project namespace that want a companion; `None` while nobody is known and some may exist unseen.
fn users(
    index: &GatewayIndex,
    project: &Project,
    owner: &NamespaceOwner,
    (kind, hub, name): (CompanionKind, &str, &str),
    (row, expired): (Option<&Row<Companion>>, &BTreeSet<String>),
) -> Option<Users> {
    let listed: BTreeSet<String> = entries(row).collect();
    // A deployment that disappeared without a deletion event is known only by its copy and binding, until the garbage
    // controller has handled them.
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
    let mut users = Users::held(index, kind, (hub, name), outlived.collect(), is_absent);
    let is_adopted = index.companions.is_adopted(kind);
    let adopter = is_adopted.then(|| queries::references::adopter(index, owner, hub, (kind, name)));
    for (i, source) in concerned(project, &owner.namespace, kind, name, &listed) {
        let Some(s) = project.sources[i].get(&owner.namespace, &source) else {
            continue;
        };
        if adopter
            .as_ref()
            .is_some_and(|one| one.as_ref() != Some(&(i, source.clone())))
        {
            continue;
        }
        let entry = format!("{}/{source}", owner.namespace);
        let lives = !s.deleting && !index.is_foreign(s.digest.hub.as_ref());
        let pin = index.pin(i, hub, &source);
        let stays = lives || pin.is_some() || outlives(index, hub, &source, |kind| kind == i);
        // An object whose place is refused keeps its companions and gets no others.
        let refused = index.refused_place(i, hub, &source, s);
        let expects = match refused {
            Some(_) => None,
            None => expects(index, owner, i, s, kind, name),
        };
        let is_listed = listed.contains(&entry);
        let wants = expects.unwrap_or(is_listed);
        // A new spec that names it no longer is not yet at work at the member.
        let is_left = stays && !wants && is_listed && pin.is_some();
        let is_applied = is_left && is_current(index, i, hub, &source, s);
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
            if let Some(pin) = pin {
                users.count(index, (kind, hub, name), pin);
            }
            users.others |= !index.kinds[i].is_exactly_one();
            if pin.is_none() && index.kinds[i].is_exactly_one() {
                let is_lost = has_lost_its_pin(index, i, hub, &source);
                users.lost |= is_lost;
                users.unplaced |= !is_lost;
            }
            users.size_limit = users.size_limit.max(limit(index, i, s, (kind, name)));
            if let Some(pin) = pin.filter(|_| is_adopted) {
                users.adopter = Some(Adopter::read(index, (i, hub, &source), pin, (kind, name)));
            }
        }
    }
    users.settle(index, row);
    if row.is_some() && index.lacks_proof(hub).is_some() {
        // A deployment that is not visible may still exist: release none.
        users.entries.extend(listed);
        if users.entries.is_empty() {
            return None;
        }
    }
    Some(users)
}

/// True if an object without a pin has a member nevertheless: its copy is given to one, or its record cannot be read.
fn has_lost_its_pin(index: &GatewayIndex, kind: KindId, hub: &str, name: &str) -> bool {
    let copy = index.hub.copies[kind].get(hub, name);
    let lane = copy.map(|copy| CopyLane::read(&index.kinds[kind], copy.digest.lane.as_deref()));
    matches!(lane, Some(CopyLane::At(..))) || index.has_unreadable_pin(kind, hub, name)
}

/// True if the member has applied the object as it is. Of one that is not reachable Karmada still says what was true before.
fn is_current(index: &GatewayIndex, kind: KindId, hub: &str, name: &str, source: &Row<Source>) -> bool {
    let pin = index.pin(kind, hub, name);
    if !pin.is_some_and(|pin| index.is_member_ready(pin)) {
        return false;
    }
    let copy = index.hub.copies[kind].get(hub, name);
    let is_written = copy.is_some_and(|copy| copy.digest.source_generation == Some(source.digest.generation));
    let binding = index.binding(kind, hub, name);
    is_written && binding.is_some_and(|row| !row.deleting && row.digest.applied)
}

/// The largest source that an object's reference to this companion admits; `None` if it does not name it any more.
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

/// State of a companion that leaves its member, as its binding shows it.
fn stopping(
    index: &GatewayIndex,
    kind: CompanionKind,
    hub: &str,
    name: &str,
    row: &Row<Companion>,
) -> Option<Stopping> {
    let CompanionLane::Park(member) = CompanionLane::read(row.digest.lane.as_deref()) else {
        return None;
    };
    index.companion_binding(kind, hub, name)?;
    let delivery = index.companion_delivery(kind, hub, name, row);
    Some(Stopping {
        member: member.into(),
        id: delivery.filter(|of| of.suspended).and_then(|of| of.id.clone()),
    })
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

/// The listed deployments whose copy or binding still exists.
fn held_entries(index: &GatewayIndex, hub: &str, row: Option<&Row<Companion>>) -> BTreeSet<String> {
    entries(row)
        .filter(|entry| named(entry).is_some_and(|(_, name)| outlives(index, hub, name, |_| true)))
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
            None => index.binding(i, hub, name).is_some() || index.pin(i, hub, name).is_some(),
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
