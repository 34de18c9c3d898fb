//! Deleted Projects of the platform, whose hub namespaces are torn down by their labels alone (contract: federation.md
//! §3.2, teardown).
//!
//! The platform is asked for each UID on a hub Namespace that no engaged project has. A UID whose deletion was observed
//! is torn down. A UID that is merely absent is kept until an operator confirms that its Project is deleted: the platform may
//! be another one, or may have been restored to a state from before the Project was made.

use crate::index::{
    GatewayIndex,
    change::{Change, NamespaceNews},
    rows::HubNamespaceDigest,
};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::{
    plane::discovery::{Answer, Beginning, Inquiry},
    random::{HashMap, HashSet},
};
use jiff::Timestamp;
use std::{collections::BTreeSet, sync::Arc};

/// A Project that does not exist, for no reason that was observed.
#[derive(Debug, Clone, Copy)]
struct Absent {
    /// When the platform said so.
    since: Timestamp,
    /// True if another Project has its name: it may be the same project under another identity.
    replaced: bool,
}

/// State of a Project that is not absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The platform has been asked for it, without an answer yet.
    Requested,
    /// The Project exists, engaged here or not.
    Living,
    /// The deletion of the Project was observed.
    Deleted,
}

/// Deleted Projects, all by their UIDs; see the module.
#[derive(Debug, Default)]
pub struct Teardown {
    /// Where the platform is asked; `None` if projects come from elsewhere, or have not been listed.
    inquiry: Option<Inquiry>,
    known: HashMap<Arc<str>, Known>,
    absent: HashMap<Arc<str>, Absent>,
    /// Projects whose teardown has been logged.
    begun: HashSet<Arc<str>>,
    held: bool,
}

impl Teardown {
    /// True if a Project is absent, nobody observed its deletion, and no operator has confirmed it.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Records that a Project exists.
    fn lives(&mut self, uid: Arc<str>) {
        self.absent.remove(&uid);
        self.begun.remove(&uid);
        self.known.insert(uid, Known::Living);
    }

    fn is(&self, uid: &str, state: Known) -> bool {
        self.known.get(uid) == Some(&state)
    }
}

/// The UID and the digest of a hub Namespace that names a Project by its UID.
fn labelled<'a>(hub: &str, of: &'a HubNamespaceDigest) -> Option<&'a Arc<str>> {
    HubNamespace::parse(hub)?;
    of.project_uid.as_ref()
}

/// The change of a hub Namespace whose Project is known to be deleted, or to be absent.
fn proven(hub: &Arc<str>) -> Change {
    Change::of_namespace(hub, NamespaceNews::Proof)
}

impl GatewayIndex {
    /// The Projects of the platform are listed, for the first time, by another server or after a restore.
    pub fn platform_listed(&mut self, inquiry: Inquiry, begins: Beginning) {
        let teardown = &mut self.teardown;
        // Deletions were observed, unless the restore undoes them; what was absent elsewhere may be here.
        let is_restored = begins == Beginning::Restored;
        teardown
            .known
            .retain(|_, known| *known == Known::Deleted && !is_restored);
        if is_restored {
            teardown.begun.clear();
        }
        for uid in self.projects.values().filter_map(|project| project.uid.clone()) {
            teardown.known.entry(uid).or_insert(Known::Living);
        }
        teardown.absent.clear();
        teardown.inquiry = Some(inquiry);
        self.ask_for_all();
    }

    /// A Project may be deleted: the platform is asked if the hub has something of it.
    pub fn project_gone(&mut self, uid: &Arc<str>) {
        if !self.teardown.is(uid, Known::Deleted) {
            self.teardown.known.remove(uid);
        }
        if self.hub.namespaces.synced() {
            let hubs: Vec<Arc<str>> = self.hubs_of_uid(uid).cloned().collect();
            self.ask_for(&hubs);
        }
    }

    /// A project is engaged: it exists, and those that had its name may be replaced by it.
    pub fn project_engaged(&mut self, key: &ProjectKey) -> Vec<Change> {
        let uid = self.projects.get(key).and_then(|project| project.uid.clone());
        if self.teardown.inquiry.is_none() {
            return Vec::new();
        }
        if let Some(uid) = uid {
            self.teardown.lives(uid);
        }
        if self.teardown.absent.is_empty() && !self.teardown.held {
            return Vec::new();
        }
        self.recount();
        self.proven(|teardown, uid| {
            let absent = teardown.absent.get(uid);
            absent.is_some_and(|absent| absent.replaced)
        })
    }

    /// The platform has answered.
    pub fn platform_answered(&mut self, answer: Answer) -> Vec<Change> {
        let since = self.clock.now().wall;
        let teardown = &mut self.teardown;
        let mut news = HashSet::default();
        for uid in answer.living {
            teardown.lives(uid);
        }
        // A Project may have been found meanwhile.
        for uid in answer.deleted {
            if teardown.is(&uid, Known::Living) {
                continue;
            }
            teardown.absent.remove(&uid);
            teardown.known.insert(uid.clone(), Known::Deleted);
            news.insert(uid);
        }
        let absent = answer.absent.into_iter().map(|uid| (uid, false));
        for (uid, replaced) in absent.chain(answer.replaced.into_iter().map(|uid| (uid, true))) {
            if !matches!(teardown.known.get(&uid), Some(Known::Living | Known::Deleted)) {
                teardown.known.remove(&uid);
                let known = teardown.absent.entry(uid.clone());
                known.or_insert(Absent { since, replaced }).replaced = replaced;
                news.insert(uid);
            }
        }
        self.recount();
        self.proven(|_, uid| news.contains(uid))
    }

    /// Counts the absent Projects that no operator has confirmed again.
    fn recount(&mut self) {
        let absent = self.unknown_projects().len();
        let held = absent > 0;
        if held && !self.teardown.held {
            tracing::error!(
                absent,
                "projects on the hub do not exist on the platform, and nobody saw them being deleted; they are kept until an operator confirms that they are deleted: is it the right platform, and is its state the latest?"
            );
        } else if !held && self.teardown.held {
            tracing::info!("no project is left whose deletion was not observed");
        }
        self.teardown.held = held;
        self.announce();
    }

    /// Counts again, and returns the changes of all hub Namespaces whose absent Projects are confirmed: a confirmation is a
    /// time, which may have been to come.
    pub fn confirmed(&mut self) -> Vec<Change> {
        self.recount();
        let confirmed = self.labelled_hubs().filter(|(hub, uid, _)| {
            self.teardown.absent.contains_key(*uid) && self.is_of_deleted_project(hub)
        });
        confirmed.map(|(hub, ..)| proven(hub)).collect()
    }

    /// The hub Namespaces that name a Project by its UID, each with that UID.
    fn labelled_hubs(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &HubNamespaceDigest)> {
        let rows = self.hub.namespaces.iter();
        rows.filter_map(|((_, hub), row)| Some((hub, labelled(hub, &row.digest)?, &row.digest)))
    }

    /// Hub Namespaces changed; each with the Project's UID that it had before.
    pub(crate) fn follow_teardown(
        &mut self,
        first: bool,
        changed: &[(Arc<str>, Option<Arc<str>>)],
    ) -> Vec<Change> {
        if self.teardown.inquiry.is_none() || !self.hub.namespaces.synced() {
            return Vec::new();
        }
        if first {
            self.ask_for_all();
        } else {
            let hubs: Vec<Arc<str>> = changed.iter().map(|(hub, _)| hub.clone()).collect();
            self.ask_for(&hubs);
        }
        let mut found = Vec::new();
        let mut affects_brake = false;
        for (hub, had) in changed {
            let has = self.hub_uid(hub).cloned();
            let absent = |uid: &Option<Arc<str>>| {
                let uid = uid.as_ref();
                uid.is_some_and(|uid| self.teardown.absent.contains_key(uid))
            };
            affects_brake |= absent(had) || absent(&has);
            if absent(&has) && self.is_of_deleted_project(hub) {
                found.push(proven(hub));
            }
            if let Some(had) = had.as_ref().filter(|_| *had != has) {
                self.end(had);
            }
        }
        if affects_brake {
            self.recount();
        }
        found
    }

    /// True if the Project that a hub Namespace was made for is deleted: that was observed, or an operator says so. Another
    /// project may own the Namespace by now.
    pub fn is_of_deleted_project(&self, hub: &str) -> bool {
        let Some(row) = self.hub.namespaces.get("", hub) else {
            return false;
        };
        let Some(uid) = labelled(hub, &row.digest) else {
            return false;
        };
        let absent = |absent: &Absent| self.is_confirmed(&row.digest, *absent);
        self.teardown.is(uid, Known::Deleted) || self.teardown.absent.get(uid).is_some_and(absent)
    }

    /// True if a hub Namespace and all in it is to be deleted, since its Project is.
    pub fn is_torn_down(&self, hub: &str) -> bool {
        !self.owners.contains_key(hub) && self.is_of_deleted_project(hub) && {
            let absent = self.hub_uid(hub).and_then(|uid| self.teardown.absent.get(uid));
            let replaced = absent.is_some_and(|absent| absent.replaced);
            !replaced || self.replacement(hub).is_some()
        }
    }

    /// The engaged project that has the name of an absent one, whose lists say which namespaces it carries on.
    pub(crate) fn replacement(&self, hub: &str) -> Option<&ProjectKey> {
        let digest = &self.hub.namespaces.get("", hub)?.digest;
        let absent = self.teardown.absent.get(digest.project_uid.as_ref()?)?;
        let label = digest.cluster.as_deref().filter(|_| absent.replaced)?;
        self.projects.keys().find(|key| *key.label() == *label)
    }

    /// True if an operator confirmed that the Project of a hub Namespace is deleted, after its absence became known.
    fn is_confirmed(&self, of: &HubNamespaceDigest, absent: Absent) -> bool {
        let now = self.clock.now().wall;
        of.garbage_confirmed
            .is_some_and(|at| absent.since <= at && at <= now)
    }

    /// The Projects that hub Namespaces name, the platform does not have, and no operator has confirmed as deleted: the
    /// labels that name them, and their UIDs.
    pub fn unknown_projects(&self) -> BTreeSet<(Option<Arc<str>>, Arc<str>)> {
        let unknown = self.labelled_hubs().filter_map(|(_, uid, digest)| {
            let absent = self.teardown.absent.get(uid)?;
            (!self.is_confirmed(digest, *absent)).then(|| (digest.cluster.clone(), uid.clone()))
        });
        unknown.collect()
    }

    fn hub_uid(&self, hub: &str) -> Option<&Arc<str>> {
        labelled(hub, &self.hub.namespaces.get("", hub)?.digest)
    }

    fn hubs_of_uid<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let of_uid = self.labelled_hubs().filter(move |(_, of, _)| ***of == *uid);
        of_uid.map(|(hub, ..)| hub)
    }

    /// The changes of all hub Namespaces whose UIDs these are.
    fn proven(&self, concerns: impl Fn(&Teardown, &Arc<str>) -> bool) -> Vec<Change> {
        let of_uid = self
            .labelled_hubs()
            .filter(|(_, uid, _)| concerns(&self.teardown, uid));
        of_uid.map(|(hub, ..)| proven(hub)).collect()
    }

    /// The changes of the hub Namespaces of a project that was disengaged after its Project was proven deleted.
    pub(crate) fn torn_down_with(&self, uid: &Arc<str>) -> Vec<Change> {
        self.proven(|teardown, of| of == uid && teardown.is(of, Known::Deleted))
    }

    fn ask_for_all(&mut self) {
        if self.hub.namespaces.synced() {
            let all: Vec<Arc<str>> = self.labelled_hubs().map(|(hub, ..)| hub.clone()).collect();
            self.ask_for(&all);
        }
    }

    /// Asks the platform for the Projects of these hub Namespaces of which nothing is known, each once.
    fn ask_for(&mut self, hubs: &[Arc<str>]) {
        let Some(inquiry) = self.teardown.inquiry.clone() else {
            return;
        };
        let asked = hubs.iter().filter_map(|hub| {
            let digest = &self.hub.namespaces.get("", hub)?.digest;
            let uid = labelled(hub, digest)?;
            // Without the name, nobody could say whether another Project has it.
            let name = digest.cluster.as_deref()?.strip_prefix("cluster-")?;
            let teardown = &self.teardown;
            let is_unknown = !teardown.known.contains_key(uid) && !teardown.absent.contains_key(uid);
            is_unknown.then(|| (uid.clone(), Arc::from(name)))
        });
        let asked: Vec<(Arc<str>, Arc<str>)> = asked.collect();
        let uids = asked.iter().map(|(uid, _)| (uid.clone(), Known::Requested));
        self.teardown.known.extend(uids);
        inquiry.ask(asked);
    }

    /// Logs each teardown that begins.
    fn announce(&mut self) {
        let teardown = &self.teardown;
        if teardown.absent.is_empty() && !teardown.known.values().any(|known| *known == Known::Deleted) {
            return;
        }
        let torn = self
            .labelled_hubs()
            .filter(|(hub, ..)| self.is_of_deleted_project(hub));
        let torn: BTreeSet<(Arc<str>, Option<Arc<str>>)> = torn
            .map(|(_, uid, digest)| (uid.clone(), digest.cluster.clone()))
            .collect();
        for (uid, label) in torn {
            if self.teardown.begun.insert(uid.clone()) {
                tracing::info!(
                    uid = &*uid,
                    project = label.as_deref(),
                    hub_namespaces = self.hubs_of_uid(&uid).count(),
                    "project deleted; what it has on the hub is torn down"
                );
            }
        }
    }

    /// Forgets a deleted Project once its last hub Namespace is gone.
    fn end(&mut self, uid: &Arc<str>) {
        let teardown = &self.teardown;
        let known = teardown.is(uid, Known::Deleted) || teardown.absent.contains_key(uid);
        if !known || self.hubs_of_uid(uid).next().is_some() {
            return;
        }
        self.teardown.known.remove(uid);
        self.teardown.absent.remove(uid);
        if self.teardown.begun.remove(uid) {
            tracing::info!(
                uid = &**uid,
                "teardown of the project ended; the hub has nothing of it"
            );
        }
    }
}
