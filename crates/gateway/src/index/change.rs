//! Changes of the index that decisions may depend on. `crate::triggers` returns the keys that a change concerns.

use super::{
    GatewayIndex, ObjectRef, TableId,
    apply::Applied,
    derived::secondary::{entries, places::PlacesChanged},
    rows::{Binding, Cell, Companion, HubCopy, Source, Template, WriteBackDigest},
};
use crate::references::Reference;
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::{
    key::Key,
    store::{apply::RowChange, table::Row},
};
use fedgate_kinds::{CompanionKind, FederatedKind, KindId};
use std::{collections::BTreeSet, sync::Arc};

/// A change of the index. Names are those of objects on the hub, unless a project is given.
#[derive(Debug)]
pub enum Change {
    /// Keys that a change concerns whatever else is known: those of the changed object itself, or of the objects that
    /// have waited for it.
    Keys(Vec<Key>),
    /// Something changed that all objects of a hub namespace may depend on.
    HubNamespace {
        /// The hub namespace.
        hub: Arc<str>,
        /// The part that has changed.
        news: NamespaceNews,
    },
    /// A city policy changed.
    CityPolicy {
        /// Hub namespace of the policy.
        hub: Arc<str>,
    },
    /// A Cluster changed, and with it the map of cities and locations, or a member that objects depend on.
    Cluster {
        /// Keys of the deployments that may depend on it.
        sources: Vec<Key>,
        /// Hub namespaces of the deployments whose place the map has anew.
        hubs: BTreeSet<HubNamespace>,
        /// The objects that have a member of its name, if it is another one or its readiness has changed.
        pinned: Vec<ObjectRef>,
    },
    /// A change on which moves of deployments from cell to cell may depend.
    Moves,
    /// A binding changed.
    Binding(BindingChange),
    /// A copy changed, or what the hub records of it.
    Copy {
        /// The copy.
        copy: ObjectRef,
        /// The part that has changed.
        news: CopyNews,
    },
    /// A companion changed, or is at other members than before, by its binding.
    Companion {
        /// Kind of the companion.
        kind: CompanionKind,
        /// Hub namespace of the companion.
        hub: Arc<str>,
        /// Name of the companion.
        name: Arc<str>,
        /// Entries `<namespace>/<deployment>` that it had before; `None` if its binding alone has changed.
        released: Option<BTreeSet<String>>,
    },
    /// A write-back or its projection changed.
    Instance {
        /// The write-back.
        instance: ObjectRef,
        /// True if the write-back belongs to another deployment or city than before.
        moved: bool,
        /// True if the write-back changed, false if its projection did.
        is_write_back: bool,
    },
    /// A namespace of a project appeared, disappeared or was created again.
    ProjectNamespace {
        /// The project.
        project: ProjectKey,
        /// The namespace.
        namespace: Arc<str>,
        /// Former hub namespace, if the namespace has another one or none now.
        left: Option<Arc<str>>,
        /// Present hub namespace, if the namespace exists.
        hub: Option<Arc<str>>,
    },
    /// The platform suspends a project, or ends that; or its plane is no longer another plane of the gateway.
    Suspension {
        /// The project.
        project: ProjectKey,
    },
    /// A deployment of a project changed.
    Source(SourceChange),
    /// A `ConfigMap` or Secret of a project changed.
    Payload {
        /// The project.
        project: ProjectKey,
        /// Kind of the object.
        kind: CompanionKind,
        /// Namespace of the object.
        namespace: Arc<str>,
        /// Name of the object.
        name: Arc<str>,
    },
}

impl Change {
    /// A change that all objects of a hub namespace may depend on.
    pub(super) fn of_namespace(hub: &Arc<str>, news: NamespaceNews) -> Self {
        Self::HubNamespace {
            hub: hub.clone(),
            news,
        }
    }
}

/// A change that all objects of a hub namespace may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceNews {
    /// The Namespace changed, or the policy of its city set.
    Object,
    /// The hub namespace has another owner, or none.
    Owner,
    /// Absence in the project that it belongs to may be proven now.
    Proof,
}

/// A change of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyNews {
    /// The copy is another object, in another place, at another cell, gone, or of another spec if it lives at one member.
    Moved,
    /// Another part of the copy changed.
    Content,
    /// The hub records another member of it, or none.
    Pinned,
    /// The cells have reported the copy, and its projections may have waited for that.
    Reported,
}

/// A change of a binding.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an aspect of its own")]
pub struct BindingChange {
    /// Hub namespace of the binding.
    pub hub: Arc<str>,
    /// Template of the binding; `None` if its kind is not federated.
    pub template: Option<ObjectRef>,
    /// True if its owner or its clusters changed.
    pub placed: bool,
    /// True if it is gone, or has another policy.
    pub released: bool,
    /// True if it is gone.
    pub gone: bool,
    /// True if its members have applied it now, and had not before, or the other way round.
    pub applied: bool,
}

/// A change of a deployment in a project.
#[derive(Debug)]
// Each flag is an aspect of its own.
#[allow(clippy::struct_excessive_bools)]
pub struct SourceChange {
    /// The project.
    pub project: ProjectKey,
    /// Kind of the deployment.
    pub kind: KindId,
    /// The deployment's namespace.
    pub namespace: Arc<str>,
    /// Name of the deployment.
    pub name: Arc<str>,
    /// The hub namespace of its namespace, if that exists.
    pub hub: Option<Arc<str>>,
    /// True if it is gone, needs another city, or names another hub.
    pub announced: bool,
    /// True if it got or lost the federator's finalizer.
    pub held: bool,
    /// True if it is another object, is being deleted, or has another scale.
    pub replaced: bool,
    /// True if it expects other companions than before.
    pub companions: bool,
    /// References that it had before.
    pub references: Vec<Reference>,
    /// UIDs of the Workloads that control it, and that did before, if their status may depend on the change.
    pub controllers: BTreeSet<Arc<str>>,
    /// True if it is gone, and a Workload may want a deployment of its name.
    pub frees_name: bool,
}

impl GatewayIndex {
    pub(super) fn places_change(&self, changed: &PlacesChanged) -> Change {
        let (sources, hubs) = self.sources_at(changed, |_| true);
        Change::Cluster {
            sources,
            hubs,
            pinned: Vec::new(),
        }
    }

    /// The deployments that a change of places concerns, of the kinds that a filter accepts, and their hub namespaces.
    fn sources_at(
        &self,
        changed: &PlacesChanged,
        accepts: impl Fn(&FederatedKind) -> bool,
    ) -> (Vec<Key>, BTreeSet<HubNamespace>) {
        let (mut sources, mut hubs) = (Vec::new(), BTreeSet::new());
        for (project, namespace) in self.by_place.concerned(changed) {
            let Some(of) = self.projects.get(project) else {
                continue;
            };
            let before = sources.len();
            for (kind, table) in of
                .sources
                .enumerate()
                .filter(|(kind, _)| accepts(&self.kinds[*kind]))
            {
                let all = table.in_namespace(namespace);
                let concerned = all.filter(|(_, row)| changed.concerns(&row.digest.place));
                sources.extend(concerned.map(|(name, _)| self.source_key(kind, project, namespace, name)));
            }
            if sources.len() > before {
                hubs.extend(self.hub_namespace(project, namespace));
            }
        }
        (sources, hubs)
    }

    pub(super) fn binding_changes(&self, delta: &RowChange<Binding>) -> impl Iterator<Item = Change> {
        self.companion_delivered(delta)
            .into_iter()
            .chain(self.binding_change(delta))
    }

    fn binding_change(&self, delta: &RowChange<Binding>) -> Option<Change> {
        let (hub, name) = &delta.name;
        let new = self.hub.bindings.get(hub, name);
        let digest = &new.or(delta.old.as_ref())?.digest;
        let kind = match digest.template {
            Template::Copy(kind) => Some(kind),
            Template::Companion(_) | Template::Other => None,
        };
        let policy = |row: Option<&Row<Binding>>| row.and_then(|r| r.digest.policy.clone());
        let left = |r: &Binding| r.eviction.as_ref().map(|eviction| eviction.from.clone());
        let cells = |row: Option<&Row<Binding>>| {
            let cells = |r: &Binding| (r.owner.clone(), r.clusters.clone(), left(r));
            row.map(|row| cells(&row.digest))
        };
        let old = delta.old.as_ref();
        Some(Change::Binding(BindingChange {
            hub: hub.clone(),
            template: kind.map(|kind| ObjectRef::new(kind, hub, &digest.name)),
            placed: cells(new) != cells(old),
            released: new.is_none() || policy(new) != policy(old),
            gone: new.is_none(),
            applied: new.is_some_and(|row| row.digest.applied) != old.is_some_and(|row| row.digest.applied),
        }))
    }

    pub(super) fn copy_change(&self, kind: KindId, delta: &RowChange<HubCopy>) -> Change {
        let (hub, name) = &delta.name;
        let new = self.hub.copies[kind].get(hub, name);
        let is_exactly_one = self.kinds[kind].is_exactly_one();
        let place = |row: Option<&Row<HubCopy>>| {
            row.map(|row| {
                let of = &row.digest;
                (
                    row.uid.clone(),
                    of.city.clone(),
                    of.location.clone(),
                    of.route(),
                    of.delivery_policy.clone(),
                    of.cell().cloned(),
                    of.source_generation.filter(|_| is_exactly_one),
                )
            })
        };
        let moved = place(new) != place(delta.old.as_ref());
        Change::Copy {
            news: if moved { CopyNews::Moved } else { CopyNews::Content },
            copy: ObjectRef::new(kind, hub, name),
        }
    }

    /// The change of a companion whose binding tells of other members, or of another refusal, than before.
    fn companion_delivered(&self, delta: &RowChange<Binding>) -> Option<Change> {
        let (hub, name) = &delta.name;
        let new = self.hub.bindings.get(hub, name);
        // It is true of the delivery policy that it names, and of its owner.
        let told = |row: Option<&Row<Binding>>| {
            let of = &row?.digest;
            let claimed = (of.policy.clone(), of.owner.clone());
            Some((
                of.delivery.clone(),
                of.clusters.clone(),
                of.failed.clone(),
                claimed,
            ))
        };
        let digest = &new.or(delta.old.as_ref())?.digest;
        let Template::Companion(kind) = digest.template else {
            return None;
        };
        (told(new) != told(delta.old.as_ref())).then(|| Change::Companion {
            kind,
            hub: hub.clone(),
            name: digest.name.clone(),
            released: None,
        })
    }

    /// The objects of the cities of a Cluster, or at this member, to whose kinds the members matter.
    pub(super) fn member_change(&self, delta: &RowChange<Cell>) -> Option<Change> {
        if !self.kinds.iter().any(FederatedKind::looks_at_members) {
            return None;
        }
        let name = &delta.name.1;
        let new = self.hub.clusters.get("", name);
        let rows = [new, delta.old.as_ref()].into_iter().flatten();
        let here = PlacesChanged {
            cities: rows.filter_map(|row| row.digest.city.clone()).collect(),
            locations: BTreeSet::new(),
        };
        let (mut sources, _) = self.sources_at(&here, FederatedKind::looks_at_members);
        let pinned = self.pinned_to(name);
        let elsewhere = pinned.iter().filter(|ObjectRef { kind, hub, name }| {
            let source = self.owned_source(*kind, hub, name);
            source.is_some_and(|row| !here.concerns(&row.digest.place))
        });
        sources.extend(elsewhere.filter_map(|object| self.source_key_of(object)));
        let identity = |row: Option<&Row<Cell>>| {
            row.map(|row| (row.uid.clone(), row.digest.same_as.clone(), row.digest.is_ready()))
        };
        let is_same = identity(new) == identity(delta.old.as_ref());
        let pinned = if is_same { Vec::new() } else { pinned };
        Some(Change::Cluster {
            sources,
            hubs: BTreeSet::new(),
            pinned,
        })
    }

    pub(super) fn companion_change(kind: CompanionKind, delta: &RowChange<Companion>) -> Change {
        let (hub, name) = &delta.name;
        let before = delta.old.iter();
        Change::Companion {
            kind,
            hub: hub.clone(),
            name: name.clone(),
            released: Some(before.flat_map(|row| entries(&row.digest)).collect()),
        }
    }

    fn source_change(&self, project: &ProjectKey, kind: KindId, delta: &RowChange<Source>) -> Option<Change> {
        fn rollup(row: Option<&Row<Source>>) -> impl PartialEq + use<'_> {
            row.map(|r| (&r.uid, r.deleting, &r.digest.rollup))
        }
        /// Fields of a deployment that determine its companions.
        fn wanted(row: Option<&Row<Source>>) -> impl PartialEq + use<'_> {
            row.map(|r| (r.digest.expected(), &r.digest.references))
        }
        let (namespace, name) = &delta.name;
        let new = self.projects.get(project)?.sources[kind].get(namespace, name);
        let old = delta.old.as_ref();
        let announced = |row: Option<&Row<Source>>| row.and_then(|row| Self::announced(name, row)).cloned();
        let life = |row: Option<&Row<Source>>| row.map(|r| (r.uid.clone(), r.deleting, r.digest.scale));
        let companions = wanted(new) != wanted(old);
        let rollup = Some(kind) == self.workload_kind() && rollup(new) != rollup(old);
        let controllers = [new, old].into_iter().flatten().filter(|_| rollup);
        Some(Change::Source(SourceChange {
            project: project.clone(),
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
            hub: self
                .hub_namespace(project, namespace)
                .map(|hub| hub.as_str().into()),
            announced: new.is_none()
                || announced(new) != announced(old)
                || new.map(|row| &row.digest.hub) != old.map(|row| &row.digest.hub),
            held: new.map(Self::holds) != old.map(Self::holds),
            replaced: life(new) != life(old),
            companions,
            references: old
                .iter()
                .filter(|_| companions)
                .flat_map(|row| row.digest.references.iter().cloned())
                .collect(),
            controllers: controllers
                .filter_map(|row| row.digest.controller.clone())
                .collect(),
            frees_name: rollup && new.is_none(),
        }))
    }

    /// Groups a write-back by its deployment and cell, and adds its changes.
    pub(super) fn write_back_changed(
        &mut self,
        kind: KindId,
        delta: &RowChange<WriteBackDigest>,
        applied: &mut Applied,
    ) {
        let (hub, name) = &delta.name;
        let home = |row: Option<&Row<WriteBackDigest>>| {
            row.map(|r| (r.digest.deployment.clone(), r.digest.city.clone()))
        };
        let moved = home(self.hub.write_backs[kind].get(hub, name)) != home(delta.old.as_ref());
        // A cell has one write-back of a deployment less: another one may have its place among the projected ones.
        if let Some(group) = self.move_group(kind, &delta.name, delta.old.as_ref()) {
            let next = self.next_projected(&group).into_iter();
            applied.enqueue(next.map(|name| self.hub_key(TableId::WrittenBack(kind), hub, name)));
        }
        applied.changes.push(Change::Instance {
            instance: ObjectRef::new(kind, hub, name),
            moved,
            is_write_back: true,
        });
    }

    /// Notes that a project references data, and returns the change of a deployment.
    pub(super) fn source_changed(
        &mut self,
        project: &ProjectKey,
        kind: KindId,
        delta: &RowChange<Source>,
    ) -> Option<Change> {
        let (namespace, name) = &delta.name;
        let of = self.projects.get_mut(project)?;
        let new = of.sources[kind].get(namespace, name);
        for reference in new.iter().flat_map(|row| row.digest.references.iter()) {
            of.references.insert(reference.kind);
            if reference.kind.is_core() {
                of.references.insert(CompanionKind::CONFIG_MAP);
                of.references.insert(CompanionKind::SECRET);
            }
        }
        self.source_change(project, kind, delta)
    }
}
