//! Companions: the hub copies of `ConfigMaps` and Secrets that deployments reference, with their reference counts
//! (contract: federation.md §3.9). Bodies are read just before they are written, and never kept.

pub mod decide;
pub mod triggers;

#[cfg(test)]
mod tests;

use super::{
    confirm,
    context::{Context, State, record_refusal},
    hub_permit::HubPermit,
    index::{
        GatewayIndex, Project, TableId,
        digest::{self, Companion, Source},
        secondary,
    },
    lane::Lane,
    queries::{self, lifecycle},
    rate_limit::Permit,
    reason::Verdict,
    references,
};
use decide::{Decision, Snapshot};
use fedgate_api::keys;
use fedgate_engine::{
    error::{Category, Failure},
    key::{Key, Plane},
    plan::{Applied, Plan, Prepared, Requeue, Target},
    reconcile::quarantine::RETRY_AFTER,
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
    store::table::Row,
};
use fedgate_kinds::{CompanionKind, KindId};
use kube::core::DynamicObject;
use std::{collections::BTreeSet, sync::Arc};

/// Takes the snapshot; `None` while the lists it depends on are incomplete or absence is not proven.
pub fn observe(index: &GatewayIndex, kind: CompanionKind, hub: &str, name: &str) -> Option<Snapshot> {
    if !index.hub_ready() {
        return None;
    }
    let table = match kind {
        CompanionKind::ConfigMap => &index.hub.config_maps,
        CompanionKind::Secret => &index.hub.secrets,
    };
    let row = table.get(hub, name).cloned();
    let snapshot = |project, namespace, users: Users, payload| {
        let lane = users.lane(row.as_ref());
        Snapshot {
            resource: index.resources.companion(kind).clone(),
            kind,
            project,
            namespace,
            hub: hub.into(),
            name: name.into(),
            open: delivered(index, kind, hub, name) && (lane.is_some() || users.others),
            open_lane: lane
                .as_ref()
                .filter(|lane| index.is_lane_open(hub, lane))
                .map(|lane| lane.name(&index.kinds)),
            lane,
            wanted_by: users.entries,
            payload,
            row: row.clone(),
        }
    };
    let held = || Users::held(held_entries(index, hub, row.as_ref()));
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
    let listed: BTreeSet<String> = entries(row.as_ref()).collect();
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
    let mut users = Users::held(outlived.collect());
    for (i, source) in concerned(project, &owner.namespace, kind, name, &listed) {
        let Some(s) = project.sources[i].get(&owner.namespace, &source) else {
            continue;
        };
        let entry = format!("{}/{source}", owner.namespace);
        let lives = !s.deleting && !index.is_foreign(s.digest.hub.as_ref());
        let pin = index.pin(i, hub, &source);
        let stays = lives || pin.is_some() || outlives(index, hub, &source, |kind| kind == i);
        let wants = expects(index, owner, i, s, kind, name).unwrap_or_else(|| listed.contains(&entry));
        if stays && wants {
            users.entries.insert(entry);
            users.members.extend(pin.map(|pin| pin.member.clone()));
            users.others |= !index.kinds[i].is_exactly_one();
        }
    }
    if row.is_some() && index.lacks_proof(hub).is_some() {
        // A deployment that is not visible may still exist: release none.
        users.entries.extend(listed);
        if users.entries.is_empty() {
            return None;
        }
    }
    let sources = match kind {
        CompanionKind::ConfigMap => &project.config_maps,
        CompanionKind::Secret => &project.secrets,
    };
    if !users.entries.is_empty() && !sources.synced() && !project.forbidden.contains(&kind) {
        return None;
    }
    let payload = sources.get(&owner.namespace, name).map(|r| r.digest.clone());
    let payload = payload.filter(|p| p.size <= 256 * 1024);
    Some(snapshot(
        Some(owner.project.clone()),
        owner.namespace.clone(),
        users,
        payload,
    ))
}

/// The objects that want a companion.
struct Users {
    /// `<project namespace>/<name>` of each.
    entries: BTreeSet<String>,
    /// Members of those that live at one.
    members: BTreeSet<Arc<str>>,
    /// True if there are others.
    others: bool,
}

impl Users {
    /// Objects of which nothing but a copy or binding is left.
    fn held(entries: BTreeSet<String>) -> Self {
        let others = !entries.is_empty();
        Self {
            entries,
            members: BTreeSet::new(),
            others,
        }
    }

    /// The lane of the companion. One that others still need stays where they are, by their dependency.
    fn lane(&self, row: Option<&Row<Companion>>) -> Option<Lane> {
        if !self.members.is_empty() {
            return Some(Lane::With(self.members.clone()));
        }
        let had_one = row.is_some_and(|row| row.digest.lane.is_some());
        (had_one && self.others).then_some(Lane::WithNone)
    }
}

/// Entries of the deployments that a companion lists as referencing it.
fn entries(row: Option<&Row<Companion>>) -> impl Iterator<Item = String> {
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
fn named(entry: &str) -> Option<(&str, &str)> {
    entry.split_once('/')
}

/// True if a copy or binding of a deployment exists in one of these kinds.
fn outlives(index: &GatewayIndex, hub: &str, name: &str, of_kind: impl Fn(KindId) -> bool) -> bool {
    index.kinds.ids().filter(|i| of_kind(*i)).any(|i| {
        match index.hub.copies[i].get(hub, name).map(|copy| &copy.digest) {
            // The copy names no source: fedgate does not manage it.
            Some(copy) if copy.source_uid.is_none() && copy.upstream_namespace.is_none() => false,
            Some(_) => true,
            None => index.binding(i, hub, name).is_some(),
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
                && GatewayIndex::announced(deployment, source)
                    .and_then(|place| index.city_route(place).ok())
                    .is_some_and(|destination| index.is_ready(i, hub, &destination))
        })
    })
}

/// True if a deployment expects this companion; `None` while that is unknown: then nothing changes.
fn expects(
    index: &GatewayIndex,
    owner: &super::index::NamespaceOwner,
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
        return Some(tokens.contains(&references::token(kind, name)));
    }
    let found = references::resolve(&s.digest.references, |k, n| {
        queries::references::source_state(index, &owner.project, k, &owner.namespace, n)
    });
    Some(found.expected?.iter().any(|(k, n)| *k == kind && **n == *name))
}

/// The companion controller.
#[derive(Debug, Default)]
pub struct Companions;

/// State of a companion's reconcile.
#[derive(Debug, Default)]
pub struct Session {
    /// The source, read for the next write only.
    body: Option<DynamicObject>,
    permit: Option<HubPermit>,
}

impl Reconciler for Companions {
    type State = State;
    type Session = Session;
    type Basis = Snapshot;

    const NAME: &'static str = "companions";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Snapshot> {
        let snapshot = {
            let mut index = run.ctx.index.lock();
            confirm::awaits_proof(&mut index, run.key, &run.key.namespace);
            let kind = index.table_of_kind(&run.key.kind).and_then(TableId::companion);
            let snapshot = kind.and_then(|kind| observe(&index, kind, &run.key.namespace, &run.key.name));
            let policies = snapshot
                .as_ref()
                .and_then(|snapshot| note_wanted(&mut index, run.key, snapshot));
            run.ctx.queue.extend(policies, Priority::Fresh);
            snapshot
        };
        let Some(snapshot) = snapshot else {
            return Step::End(Requeue::AwaitChange);
        };
        let decision = decide::decide(&snapshot, run.session.body.as_ref());
        if let (Some(class), Some(project)) = (decide::class(&snapshot, &decision), &snapshot.project) {
            let permit = run
                .session
                .permit
                .get_or_insert_with(|| HubPermit::new(run.ctx, project, run.key));
            if let Permit::Wait(wait) = permit.ask(class) {
                return Step::End(Requeue::After(wait));
            }
        }
        match decision {
            Decision::Read => Step::Read(snapshot),
            Decision::Do(plan) => Step::Apply(plan, snapshot),
        }
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, snapshot: &Snapshot) -> Result<Flow, Failure> {
        if let Some(project) = &snapshot.project {
            let plane = Plane::Project(project.clone());
            let target = Target::namespaced(plane, &snapshot.resource, &snapshot.namespace, &snapshot.name);
            run.session.body = run.ctx.executor.get(&target).await?;
        }
        Ok(match run.session.body {
            Some(_) => Flow::Again,
            None => Flow::End(Requeue::AwaitChange),
        })
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, snapshot: &Snapshot) {
        accepted(run.ctx, run.key, snapshot);
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        snapshot: &Snapshot,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        if snapshot.wanted_by.is_empty() && !nobody_wants(run.ctx, run.key, snapshot).await? {
            return Ok(Flow::End(Requeue::AwaitChange));
        }
        Ok(Flow::Go)
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, snapshot: &Snapshot, _: &Plan<Applied>) -> Flow {
        accepted(run.ctx, run.key, snapshot);
        run.session.body = None;
        if let Some(permit) = &mut run.session.permit {
            permit.used();
        }
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        snapshot: &Snapshot,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        if failure.category == Category::AlreadyExists {
            return name_held(run.ctx, run.key, snapshot, failure)
                .await
                .map(Flow::End);
        }
        record_refusal(run.ctx, run.key, &run.key.namespace, Some(&failure));
        Err(failure)
    }

    fn message(&self, _: &Snapshot) -> Option<&'static str> {
        Some("companion changed")
    }
}

/// Records the lane that a companion is to have; returns the key of its policy if that is not there.
fn note_wanted(index: &mut GatewayIndex, key: &Key, s: &Snapshot) -> Option<Key> {
    if !index.has_pins() {
        return None;
    }
    let is_new = index.lanes.want(&s.hub, key, s.lane.as_ref());
    let is_missing = s.lane.is_some() && s.open_lane.is_none();
    (is_new || is_missing).then(|| index.hub_key(TableId::CityPolicies, &s.hub, ""))
}

/// The hub has the companion as it is wanted: no rejection and no foreign object stands against it.
fn accepted(ctx: &Context<'_>, key: &Key, snapshot: &Snapshot) {
    ctx.quarantine.release(key);
    record_name_taken(ctx, key, snapshot.kind, false);
    record_refusal(ctx, key, &key.namespace, None);
}

/// True if the plane confirms that every listed deployment that is not visible is gone, or the whole project namespace
/// if no owner is known.
async fn nobody_wants(ctx: &Context<'_>, key: &Key, s: &Snapshot) -> Result<bool, Failure> {
    let (origin, unseen) = {
        let index = ctx.index.lock();
        let owned = index.owners.contains_key(&key.namespace);
        let origin = (!owned).then(|| lifecycle::origin_namespace(&index, &key.namespace));
        (origin, unseen(&index, s))
    };
    if confirm::is_torn_down(ctx, &key.namespace) {
        return Ok(true);
    }
    if let Some(origin) = origin {
        return confirm::namespace_gone(ctx, origin).await;
    }
    for target in unseen {
        if !confirm::is_absent(ctx, &target).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The deployments that a companion lists and that are not visible in its project namespace.
fn unseen(index: &GatewayIndex, s: &Snapshot) -> Vec<Target> {
    let Some((key, project)) = s
        .project
        .as_ref()
        .and_then(|key| Some((key, index.projects.get(key)?)))
    else {
        return Vec::new();
    };
    let listed: BTreeSet<String> = entries(s.row.as_ref()).collect();
    let named = listed.iter().filter_map(|entry| named(entry));
    let unseen = named.filter(|(namespace, name)| {
        let mut sources = project.sources.iter();
        **namespace == *s.namespace && sources.all(|sources| sources.get(namespace, name).is_none())
    });
    let targets = unseen.flat_map(|(namespace, name)| {
        let kinds = index.kinds.iter().filter(|kind| kind.companions.is_some());
        kinds
            .map(move |kind| Target::namespaced(Plane::Project(key.clone()), &kind.resource, namespace, name))
    });
    targets.collect()
}

/// Handles a companion's name that is taken: by the companion itself, if the response to its creation was lost, or by
/// an object that fedgate does not manage.
async fn name_held(ctx: &Context<'_>, key: &Key, s: &Snapshot, failure: Failure) -> Result<Requeue, Failure> {
    let target = Target::namespaced(Plane::Hub, &s.resource, &s.hub, &s.name);
    let Some(found) = ctx.executor.get(&target).await? else {
        return Err(failure);
    };
    if digest::label(&found, keys::REFERENCED_DATA) == Some("true") {
        // The watch delivers the companion's event.
        return Ok(Requeue::AwaitChange);
    }
    if ctx.quarantine.insert(key, Verdict::NameTaken) {
        let (namespace, name) = (&*key.namespace, &*key.name);
        tracing::warn!(plane = "hub", controller = "companions", kind = %key.kind, namespace, name, %key, "the name is held by an object without fedgate's label; delete or rename it");
    }
    record_name_taken(ctx, key, s.kind, true);
    Ok(Requeue::After(RETRY_AFTER))
}

/// Records whether another object holds the companion's name, and enqueues the deployments, which report it.
fn record_name_taken(ctx: &Context<'_>, key: &Key, kind: CompanionKind, taken: bool) {
    let mut index = ctx.index.lock();
    let entry = (kind, key.namespace.clone(), key.name.clone());
    let changed = if taken {
        index.name_taken.insert(entry)
    } else {
        index.name_taken.remove(&entry)
    };
    let keys = if changed {
        index.source_keys(&key.namespace)
    } else {
        Vec::new()
    };
    drop(index);
    ctx.queue.extend(keys, Priority::Fresh);
}

/// Value of the annotation that lists the deployments that reference a companion.
pub(super) fn referenced_by(entries: &BTreeSet<String>) -> Arc<str> {
    serde_json::json!(entries).to_string().into()
}
