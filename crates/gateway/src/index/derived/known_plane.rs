//! Projects whose plane the gateway has already: as the hub, as a cell, or as another project (contract: federation.md §1.2
//! rule 12). A plane is known by the UID of its namespace `kube-system`. Projects that a platform identifies are not
//! compared, because planes of a platform may show one such namespace for all, or none.

use crate::index::{GatewayIndex, apply::Applied, change::Change, rows::Cell, watches::Command};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{random::HashMap, runtime::index::Defect, store::table::Table};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// The next step of an operator.
pub const NEXT: &str =
    "delete the project's Secret or file, or write the kubeconfig of the project's own API server into it";

/// A project whose plane is the hub.
pub const PLANE_IS_HUB: Defect = Defect {
    word: "plane_is_hub",
    text: "its API server is the hub, by the UID of namespace kube-system; the gateway changes nothing for it",
    next: NEXT,
};

/// A project whose plane is a cell.
pub const PLANE_IS_CELL: Defect = Defect {
    word: "plane_is_cell",
    text: "its API server is a cell of the hub, by the UID of namespace kube-system; the gateway changes nothing for it",
    next: NEXT,
};

/// A project whose plane is another project's.
pub const PLANE_IS_TAKEN: Defect = Defect {
    word: "plane_is_taken",
    text: "its API server is another project's, or was restored from its backup, by the UID of namespace kube-system; the gateway changes nothing for it",
    next: NEXT,
};

/// The role in which the gateway has the plane of a project already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownPlane {
    /// The hub.
    Hub,
    /// The cell with this name.
    Cell(Arc<str>),
    /// The other project with this key.
    Project(ProjectKey),
}

impl KnownPlane {
    /// The defect of the project.
    pub const fn defect(&self) -> Defect {
        match self {
            Self::Hub => PLANE_IS_HUB,
            Self::Cell(_) => PLANE_IS_CELL,
            Self::Project(_) => PLANE_IS_TAKEN,
        }
    }
}

impl fmt::Display for KnownPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub => f.write_str("hub"),
            Self::Cell(name) => write!(f, "cell {name}"),
            Self::Project(key) => write!(f, "project {key}"),
        }
    }
}

/// The planes by the UIDs of their namespaces `kube-system`.
#[derive(Debug, Default)]
pub struct PlaneUids {
    projects: HashMap<Arc<str>, BTreeSet<ProjectKey>>,
    /// Names of cells.
    cells: BTreeMap<Arc<str>, Arc<str>>,
}

impl PlaneUids {
    /// Takes the UID of a project in, or none; returns the other projects that had or have the same.
    fn place(&mut self, key: &ProjectKey, old: Option<&Arc<str>>, new: Option<&Arc<str>>) -> Vec<ProjectKey> {
        let mut others = Vec::new();
        if let Some(old) = old.filter(|old| Some(*old) != new)
            && let Some(had) = self.projects.get_mut(old)
        {
            had.remove(key);
            others.extend(had.iter().cloned());
            if had.is_empty() {
                self.projects.remove(old);
            }
        }
        if let Some(new) = new {
            let has = self.projects.entry(new.clone()).or_default();
            others.extend(has.iter().filter(|other| *other != key).cloned());
            has.insert(key.clone());
        }
        others
    }

    /// Takes the cells in; true if they have other UIDs than before.
    fn read(&mut self, clusters: &Table<Cell>) -> bool {
        let rows = clusters.iter();
        let cells = rows.filter_map(|((_, name), row)| Some((row.digest.member_id()?.clone(), name.clone())));
        let before = std::mem::replace(&mut self.cells, cells.collect());
        before != self.cells
    }

    /// The projects that share a UID with another one.
    fn shared(&self) -> Vec<ProjectKey> {
        let shared = self.projects.values().filter(|keys| keys.len() > 1);
        shared.flatten().cloned().collect()
    }
}

impl GatewayIndex {
    /// True if nothing is changed for a project on any plane, because the gateway has its plane as another one.
    pub fn has_known_plane(&self, key: &ProjectKey) -> bool {
        self.projects
            .get(key)
            .is_some_and(|project| project.known_plane.is_some())
    }

    /// True if the cells are listed, or cannot be: their API server is another one of Karmada, and all goes on without it.
    pub(crate) fn cells_known(&self) -> bool {
        self.hub.clusters.synced() || self.hub.clusters.is_failing()
    }

    /// True if a project need not wait for the list of cells, because they are known or because it was federated before.
    pub(crate) fn is_compared(&self, key: &ProjectKey) -> bool {
        self.cells_known() || self.is_holder(key)
    }

    /// Projects of one UID to whose namespaces Namespaces of the hub belong are not refused: a plane says its UID
    /// itself, and may say another tenant's. Without any, the first by name has the plane.
    fn find_known_plane(&self, key: &ProjectKey) -> Option<KnownPlane> {
        let project = self.projects.get(key).filter(|project| !project.is_identified)?;
        let uid = project.uid.as_ref()?;
        if self.hub.identity.uid() == Some(uid) {
            return Some(KnownPlane::Hub);
        }
        if let Some(name) = self.plane_uids.cells.get(uid) {
            return Some(KnownPlane::Cell(name.clone()));
        }
        let same = self.plane_uids.projects.get(uid).filter(|same| same.len() > 1)?;
        if self.is_holder(key) {
            return None;
        }
        let first = same.iter().min_by_key(|key| (!self.is_holder(key), *key))?;
        (first != key).then(|| KnownPlane::Project(first.clone()))
    }

    /// True if a Namespace of the hub belongs to a namespace of a project, or is labelled for it while it is nobody's.
    fn is_holder(&self, key: &ProjectKey) -> bool {
        let label = key.label();
        let is_held = |hub: &Arc<str>| {
            let row = self.hub.namespaces.get("", hub);
            row.is_some_and(|row| match self.owners.get(hub) {
                Some(owner) => owner.project == *key,
                None => row.digest.cluster.as_deref() == Some(&*label),
            })
        };
        let project = self.projects.get(key).into_iter();
        let mut namespaces = project.flat_map(|of| of.namespaces.iter());
        namespaces.any(|(_, row)| is_held(&Self::hub_of(&row.uid)))
    }

    /// Follows an event that may have changed the UID of a project's plane, or which of its namespaces are on the hub.
    pub(crate) fn follow_plane(&mut self, key: &ProjectKey, old: Option<&Arc<str>>, applied: &mut Applied) {
        let project = self
            .projects
            .get(key)
            .filter(|of| !of.is_identified && of.namespaces.synced());
        let Some(project) = project else { return };
        let uid = project.uid.clone();
        let others = self.plane_uids.place(key, old, uid.as_ref());
        self.judge_planes(std::iter::once(key.clone()).chain(others), applied);
    }

    /// Forgets the plane of a project that was disengaged or is engaged anew.
    pub(crate) fn forget_plane(&mut self, key: &ProjectKey, uid: Option<&Arc<str>>, applied: &mut Applied) {
        let others = self.plane_uids.place(key, uid, None);
        self.judge_planes(others, applied);
    }

    /// Follows an event of the hub's Namespaces.
    pub(crate) fn follow_hub_namespaces(&mut self, is_other: bool, applied: &mut Applied) {
        let concerned = if is_other {
            self.projects.keys().cloned().collect()
        } else {
            self.plane_uids.shared()
        };
        self.judge_planes(concerned, applied);
    }

    /// Follows an event of the Clusters.
    pub(crate) fn follow_clusters(&mut self, applied: &mut Applied) {
        if self.plane_uids.read(&self.hub.clusters) {
            let all: Vec<ProjectKey> = self.projects.keys().cloned().collect();
            self.judge_planes(all, applied);
        }
    }

    fn judge_planes(&mut self, keys: impl IntoIterator<Item = ProjectKey>, applied: &mut Applied) {
        for key in keys {
            let found = self.find_known_plane(&key);
            let Some(project) = self.projects.get_mut(&key) else {
                continue;
            };
            if project.known_plane == found {
                continue;
            }
            project.known_plane.clone_from(&found);
            let uids = project.namespaces.iter().map(|(_, row)| Self::hub_of(&row.uid));
            let hubs: Vec<Arc<str>> = uids.collect();
            for hub in &hubs {
                self.resolve_owner(hub, applied);
                if found.is_some() {
                    self.undelivered.forget(hub);
                }
            }
            if found.is_none() {
                // The keys that have waited go on as after a suspension.
                applied.changes.push(Change::Suspension { project: key.clone() });
                let mut platform = Vec::new();
                self.platform_keys_of(&key, &mut platform);
                applied.enqueue(platform);
            }
            applied.commands.push(Command::ReportKnownPlane(key, found));
        }
    }
}

impl Cell {
    /// The UID of the namespace `kube-system` of its member, if policies of the gateway can select it.
    fn member_id(&self) -> Option<&Arc<str>> {
        self.id
            .as_ref()
            .filter(|_| self.city.is_some() || self.location.is_some())
    }
}
