//! The hub of a project (contract: federation.md §1.2 rule 11). Several gateways may share the projects of a platform,
//! each with a hub of its own. A deployment names the hub whose gateway federates it. A gateway leaves a project alone in which
//! no deployment names its hub and one names another; where both are named, which only a race leads to, each has those that
//! name it, and the hub that most of them name has the rest.

use crate::index::{
    GatewayIndex, Project,
    apply::Applied,
    rows::{HubNamespaceDigest, Source},
    watches::Command,
};
use fedgate_api::{
    keys::{HUB_IDENTITY, SYSTEM_NAMESPACE},
    names::{ProjectKey, is_label_value},
};
use fedgate_engine::{
    runtime::index::Defect,
    store::{
        apply::RowChange,
        table::{Row, Table},
    },
};
use fedgate_kinds::KindId;
use jiff::Timestamp;
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

/// A project of which deployments name another hub.
pub const OTHER_HUB: Defect = Defect {
    word: "other_hub",
    text: "its deployments name another hub in their annotation fedgate.dev/hub: the gateway of that hub federates them, and this one changes nothing for them",
    next: "let one gateway alone have the project: correct --project-selector or the kubeconfigs of the other; if this hub takes the place of that one, annotate it with fedgate.dev/replaces-hub",
};

/// Identity of the hub, with which the annotations of deployments are compared.
#[derive(Debug, Default)]
pub struct HubIdentity {
    /// UID of the hub: that of its namespace `kube-system`. `None` before its Namespaces are listed, or without that namespace.
    uid: Option<Arc<str>>,
    /// When this process found this UID.
    found: Option<Timestamp>,
    /// Earlier hubs of this process, which the present hub replaces: it was made after the process had found them.
    former: BTreeSet<Arc<str>>,
    /// Hubs that it replaces by an operator's word, annotation `fedgate.dev/replaces-hub`.
    replaced: BTreeSet<Arc<str>>,
}

impl HubIdentity {
    /// UID of the hub, once that is known.
    pub fn uid(&self) -> Option<&Arc<str>> {
        self.uid.as_ref()
    }

    /// True if this hub has the place of the hub with this UID, which has no gateway.
    fn replaces(&self, uid: &str) -> bool {
        self.former.contains(uid) || self.replaced.contains(uid)
    }

    /// Takes in the Namespaces of the hub; true if other names count now.
    fn read(&mut self, namespaces: &Table<HubNamespaceDigest>, now: Timestamp) -> bool {
        if !namespaces.synced() {
            return false;
        }
        let identity = namespaces.get("", HUB_IDENTITY);
        let uid = identity.map(|row| &row.uid).filter(|uid| is_label_value(uid));
        let is_new = uid != self.uid.as_ref();
        if is_new {
            let created = identity.and_then(|row| row.digest.of_hub.as_ref()?.created);
            if let (Some(former), Some(found), Some(created)) = (self.uid.take(), self.found, created)
                && created > found
            {
                self.former.insert(former);
            }
            self.uid = uid.cloned();
            self.found = self.uid.as_ref().map(|_| now);
            if let Some(uid) = &self.uid {
                self.former.remove(uid);
            }
        }
        let system = namespaces.get("", SYSTEM_NAMESPACE);
        let text = system.and_then(|row| row.digest.of_hub.as_ref()?.replaces.as_deref());
        let replaced = text.map(uids).unwrap_or_default();
        let differs = replaced != self.replaced;
        self.replaced = replaced;
        is_new || differs
    }
}

/// The UIDs of a list in an annotation.
fn uids(text: &str) -> BTreeSet<Arc<str>> {
    let all = text.split(',').map(str::trim);
    all.filter(|uid| is_label_value(uid)).map(Arc::from).collect()
}

/// The hub that a deployment names, compared with ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedHub {
    /// The deployment names no hub, or the UID of ours is not known.
    None,
    /// The deployment names ours.
    Ours,
    /// The deployment names a hub that ours replaces.
    Replaced,
    /// The deployment names another hub.
    Other,
}

/// Another hub that deployments of a project name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherHub {
    /// UID of the other hub.
    pub uid: Arc<str>,
    /// Share of the project that names the other hub.
    pub share: Share,
}

/// The share of a project that another hub has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// The deployments that name it.
    Part,
    /// The deployments that name it or none, and the Workloads: more deployments name it than ours.
    Most,
    /// All: no deployment names ours.
    Whole,
}

impl Share {
    /// The share as answers name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Part => "part",
            Self::Most => "most",
            Self::Whole => "whole",
        }
    }
}

/// The hub that a deployment names. A name counts together with `federation-namespace` of the same patch: one that was
/// copied from another project or namespace is none.
fn named<'a>(live: Option<&str>, row: &'a Row<Source>) -> Option<&'a Arc<str>> {
    let of = row.digest.federation_namespace.as_deref()?.strip_prefix("ns-")?;
    row.digest
        .hub
        .as_ref()
        .filter(|_| live.is_none_or(|uid| uid == of))
}

impl Project {
    fn live(&self, namespace: &str) -> Option<&str> {
        self.namespaces.get("", namespace).map(|row| &*row.uid)
    }

    /// The share of another hub; `None` if no deployment names one.
    pub fn share_of_other(&self) -> Option<Share> {
        self.other_hub.as_ref().map(|other| other.share)
    }

    /// Applies the change of a deployment.
    pub(crate) fn count_hub(&mut self, kind: KindId, change: &RowChange<Source>) {
        let (namespace, name) = &change.name;
        let live = self.namespaces.get("", namespace).map(|row| &*row.uid);
        let old = change.old.as_ref().and_then(|row| named(live, row));
        let new = self.sources[kind].get(namespace, name);
        let new = new.and_then(|row| named(live, row));
        if old != new {
            if let Some(uid) = old {
                self.hubs.take(uid);
            }
            if let Some(uid) = new {
                self.hubs.add(uid.clone());
            }
        }
    }

    /// Applies the change of a namespace's UID.
    pub(crate) fn recount_hubs(&mut self, namespace: &str, old: Option<&str>) {
        let live = self.namespaces.get("", namespace).map(|row| &*row.uid);
        if live == old {
            return;
        }
        let tables = self.sources.iter();
        for (_, row) in tables.flat_map(|table| table.in_namespace(namespace)) {
            if let Some(uid) = named(old, row) {
                self.hubs.take(uid);
            }
            if let Some(uid) = named(live, row) {
                self.hubs.add(uid.clone());
            }
        }
    }
}

impl GatewayIndex {
    /// True for the name of a hub that is not ours, and whose place ours does not take.
    pub fn is_foreign(&self, named: Option<&Arc<str>>) -> bool {
        let (Some(named), Some(own)) = (named, self.hub.identity.uid()) else {
            return false;
        };
        named != own && !self.hub.identity.replaces(named)
    }

    /// The hub that a deployment of a project names. One that names none is left to the hub that has most of the project.
    pub fn named_hub(&self, project: &Project, namespace: &str, row: &Row<Source>) -> NamedHub {
        let named = named(project.live(namespace), row);
        match (named, self.hub.identity.uid()) {
            (Some(uid), Some(own)) if uid == own => NamedHub::Ours,
            (Some(uid), Some(_)) if !self.hub.identity.replaces(uid) => NamedHub::Other,
            _ if project.share_of_other() >= Some(Share::Most) => NamedHub::Other,
            (Some(_), Some(_)) => NamedHub::Replaced,
            (None, _) | (_, None) => NamedHub::None,
        }
    }

    /// True if another hub has the whole project: nothing is changed for it on any plane. While the project is suspended, the
    /// copies that are on this hub all the same are marked.
    pub fn is_of_other_hub(&self, key: &ProjectKey) -> bool {
        let project = self.projects.get(key).filter(|project| !project.suspended);
        project.and_then(Project::share_of_other) == Some(Share::Whole)
    }

    /// The other hub that most deployments of a project name, once the lists that show it are complete.
    fn find_other_hub(&self, project: &Project) -> Option<OtherHub> {
        let own = self
            .hub
            .identity
            .uid()
            .filter(|_| project.first_lists_complete())?;
        let all = || {
            project
                .hubs
                .counts()
                .filter(|(uid, _)| !self.hub.identity.replaces(uid))
        };
        let rank = |uid: &Arc<str>, count: usize| (count, Reverse(uid.clone()));
        let others = all().filter(|(uid, _)| *uid != own);
        let (uid, count) = others.max_by_key(|(uid, count)| rank(uid, *count))?;
        let ours = all().find(|(uid, _)| *uid == own);
        let share = match ours {
            None => Share::Whole,
            Some((own, ours)) if rank(uid, count) > rank(own, ours) => Share::Most,
            Some(_) => Share::Part,
        };
        Some(OtherHub {
            uid: uid.clone(),
            share,
        })
    }

    /// Follows an event that may have changed which hub has a project.
    pub(crate) fn follow_hub(&mut self, key: &ProjectKey, applied: &mut Applied) {
        let Some(project) = self.projects.get(key) else {
            return;
        };
        let found = self.find_other_hub(project);
        if found == project.other_hub {
            return;
        }
        let (had, has) = (project.share_of_other(), found.as_ref().map(|other| other.share));
        // The keys that have waited go on as after a list.
        applied.synced |= had > has && had >= Some(Share::Most);
        if has == Some(Share::Whole) {
            let owned = self.owners.iter().filter(|(_, owner)| owner.project == *key);
            let hubs: Vec<Arc<str>> = owned.map(|(hub, _)| hub.clone()).collect();
            for hub in hubs {
                self.drop_bodies(&hub);
                self.undelivered.forget(&hub);
            }
        }
        let command = Command::ReportOtherHub(key.clone(), found.clone());
        applied.commands.push(command);
        if let Some(project) = self.projects.get_mut(key) {
            project.other_hub = found;
        }
    }

    /// Takes in the hub's Namespaces after an event of theirs; true if other names count now.
    pub(crate) fn follow_identity(&mut self, applied: &mut Applied) -> bool {
        let now = self.clock.now().wall;
        let is_other = self.hub.identity.read(&self.hub.namespaces, now);
        if is_other {
            // Deployments that named no hub may name ours from now on.
            applied.synced = true;
            let keys: Vec<ProjectKey> = self.projects.keys().cloned().collect();
            for key in keys {
                self.follow_hub(&key, applied);
            }
        }
        is_other
    }
}
