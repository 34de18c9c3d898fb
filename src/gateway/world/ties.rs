//! Ties: which project namespace a hub namespace belongs to (contract: federation.md §1.2 rule 4).
//!
//! A hub namespace has one tie at most. Two planes may report one UID: a plane made from another's backup, or one that
//! lies. A hub namespace whose labels name a project is only ever that project's, whether it is engaged or not; only an
//! operator gives it to another. One that names nobody goes to the first claim. A claim that is refused writes nothing to
//! the hub.

use super::{Tie, World, digest::HubNamespaceDigest, events::Woken};
use crate::{
    api::names::{HubNamespace, ProjectKey, is_label_value},
    engine::key::Key,
};
use std::{fmt, sync::Arc};

/// Whose a hub namespace is that another project claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// This project's, whose namespace it is tied to.
    Project(ProjectKey),
    /// The one's that this label of it names: that project is not engaged, or does not have the namespace.
    Labelled(Arc<str>),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Project(key) => key.fmt(f),
            Self::Labelled(label) => label.fmt(f),
        }
    }
}

/// A claim on a hub namespace that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    tie: Tie,
    /// Whose the hub namespace was when the claim was refused; `None` before it is.
    refused: Option<Holder>,
}

/// A claim that was refused, to be said once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who claims.
    pub claimant: Tie,
    /// The hub namespace.
    pub hub: Arc<str>,
    /// Whose it is.
    pub holder: Holder,
}

/// Whom the labels of a hub namespace name.
enum Named<'a> {
    /// The project with this label value.
    Label(&'a Arc<str>),
    /// The project with this UID; the label that says its key is missing.
    Uid(&'a Arc<str>),
}

fn named(of: &HubNamespaceDigest) -> Option<Named<'_>> {
    let uid = || of.project_uid.as_ref().map(Named::Uid);
    of.cluster.as_ref().map(Named::Label).or_else(uid)
}

impl World {
    /// Whether a hub namespace is tied to this project.
    pub fn is_tied(&self, hub: &str, project: &ProjectKey) -> bool {
        self.ties.get(hub).is_some_and(|tie| tie.project == *project)
    }

    /// Whether a project's claim on a hub namespace is refused.
    pub fn is_refused(&self, hub: &str, project: &ProjectKey) -> bool {
        let rivals = self.rivals.get(hub).into_iter().flatten();
        !self.is_tied(hub, project)
            && rivals
                .filter(|r| r.tie.project == *project)
                .any(|r| r.refused.is_some())
    }

    /// The claims that are refused.
    pub fn refused_claims(&self) -> impl Iterator<Item = Refusal> {
        self.rivals.iter().flat_map(|(hub, rivals)| {
            rivals.iter().filter_map(|rival| {
                Some(Refusal {
                    claimant: rival.tie.clone(),
                    hub: hub.clone(),
                    holder: rival.refused.clone()?,
                })
            })
        })
    }

    /// A project says that it has the namespace behind a hub namespace.
    pub(super) fn claim(&mut self, hub: &Arc<str>, tie: Tie, woken: &mut Woken) {
        // The UID becomes part of names and labels, and is a plane's word.
        if !is_label_value(hub) || self.ties.get(hub) == Some(&tie) {
            return;
        }
        let rivals = self.rivals.entry(hub.clone()).or_default();
        if !rivals.iter().any(|r| r.tie == tie) {
            rivals.push(Rival { tie, refused: None });
        }
        self.elect(hub, woken);
    }

    /// A project no longer has the namespace behind a hub namespace.
    pub(super) fn withdraw(&mut self, hub: &Arc<str>, tie: &Tie, woken: &mut Woken) {
        if self.ties.get(hub) == Some(tie) {
            self.ties.remove(hub);
        }
        if let Some(rivals) = self.rivals.get_mut(hub) {
            rivals.retain(|r| r.tie != *tie);
        }
        self.elect(hub, woken);
    }

    /// Forgets a project; the hub stays as it is.
    pub fn disengage(&mut self, key: &ProjectKey) -> Woken {
        let mut woken = Woken::default();
        let uid = self.projects.remove(key).and_then(|project| project.uid);
        let left: Vec<Arc<str>> = self
            .ties
            .extract_if(|_, tie| tie.project == *key)
            .map(|(hub, _)| hub)
            .collect();
        for hub in &left {
            self.drop_bodies(hub);
        }
        for rivals in self.rivals.values_mut() {
            rivals.retain(|r| r.tie.project != *key);
        }
        self.elect_all(&mut woken);
        self.forget_untied();
        // What two projects of one UID left unproven the other alone may prove.
        let twins: Vec<_> = self
            .projects
            .iter()
            .filter(|(_, p)| uid.is_some() && p.uid == uid)
            .collect();
        for (twin, _) in twins {
            woken.keys.extend(self.hub_keys_of(twin));
        }
        woken
    }

    /// This replica leads from now on. Labels that another one wrote meanwhile are no edits: they say whose a hub
    /// namespace is, as after a start.
    pub fn lead(&mut self) -> Woken {
        let mut woken = Woken::default();
        self.left_at.clear();
        let names_another = |hub: &Arc<str>, tie: &Tie| {
            let row = self.hub.namespaces.get("", hub);
            row.and_then(|row| row.digest.cluster.as_deref())
                .is_some_and(|label| *label != *tie.project.label())
        };
        let doubtful: Vec<(Arc<str>, Tie)> = self
            .ties
            .iter()
            .filter(|(hub, tie)| names_another(hub, tie))
            .map(|(hub, tie)| (hub.clone(), tie.clone()))
            .collect();
        for (hub, tie) in doubtful {
            self.ties.remove(&hub);
            self.claim(&hub, tie, &mut woken);
        }
        woken
    }

    /// Looks at every contested hub namespace again.
    pub(super) fn elect_all(&mut self, woken: &mut Woken) {
        let contested: Vec<Arc<str>> = self.rivals.keys().cloned().collect();
        for hub in contested {
            self.elect(&hub, woken);
        }
    }

    /// Decides whose a hub namespace is, after a change of who claims it or of what it says itself.
    pub(super) fn elect(&mut self, hub: &Arc<str>, woken: &mut Woken) {
        let holder = self.ties.remove(hub);
        let mut claims: Vec<Rival> = holder
            .iter()
            .map(|tie| Rival {
                tie: tie.clone(),
                refused: None,
            })
            .chain(self.rivals.remove(hub).unwrap_or_default())
            .collect();
        let winner = self.winner(hub, &claims, holder.is_some());
        let winner = winner.map(|winner| claims.remove(winner).tie);
        let of = match &winner {
            Some(tie) => Some(Holder::Project(tie.project.clone())),
            None => self.labelled(hub),
        };
        if of.is_some() {
            for lost in claims.iter_mut().filter(|c| c.refused != of) {
                lost.refused.clone_from(&of);
                woken.refused.extend(of.clone().map(|holder| Refusal {
                    claimant: lost.tie.clone(),
                    hub: hub.clone(),
                    holder,
                }));
                self.sources_in(&lost.tie.project, &lost.tie.namespace, &mut woken.keys);
            }
        }
        if let Some(winner) = winner {
            self.ties.insert(hub.clone(), winner);
        }
        if !claims.is_empty() {
            self.rivals.insert(hub.clone(), claims);
        }
        if !self.ties.contains_key(hub) {
            // Nobody can be woken to whom its objects matter.
            self.drop_bodies(hub);
        }
        if self.ties.get(hub) != holder.as_ref() {
            self.namespace_keys(hub, &mut woken.keys);
            woken.keys.extend(self.source_keys(hub));
        }
    }

    /// Whom the labels of a hub namespace name, as far as it is known.
    fn labelled(&self, hub: &str) -> Option<Holder> {
        let row = self.hub.namespaces.get("", hub);
        let row = row.filter(|_| self.hub.namespaces.synced())?;
        named(&row.digest).map(|(Named::Label(name) | Named::Uid(name))| Holder::Labelled(name.clone()))
    }

    /// Which claim holds; none before it is known what the hub namespace says itself.
    fn winner(&self, hub: &str, claims: &[Rival], held: bool) -> Option<usize> {
        if claims.is_empty() || !self.hub.namespaces.synced() {
            return None;
        }
        let Some(row) = self.hub.namespaces.get("", hub) else {
            return Some(0);
        };
        let by = |test: &dyn Fn(&ProjectKey) -> bool| claims.iter().position(|c| test(&c.tie.project));
        let reassigned = row.digest.reassign_to.as_deref();
        let reassigned = reassigned.and_then(|to| by(&|key| key.as_str() == to));
        if reassigned.is_some() || held {
            // Labels that change under the one that holds it are someone's edit, which is put back.
            return reassigned.or(Some(0));
        }
        match named(&row.digest) {
            Some(Named::Label(label)) => by(&|key| *key.label() == **label),
            Some(Named::Uid(uid)) => {
                let has = |key: &ProjectKey| {
                    self.projects
                        .get(key)
                        .is_some_and(|p| p.uid.as_ref() == Some(uid))
                };
                let alone = claims.iter().filter(|c| has(&c.tie.project)).count() == 1;
                by(&has).filter(|_| alone)
            }
            None => Some(0),
        }
    }

    /// The keys of the deployments in a project namespace.
    pub(super) fn sources_in(&self, project: &ProjectKey, namespace: &str, keys: &mut Vec<Key>) {
        let Some(p) = self.projects.get(project) else {
            return;
        };
        for (i, table) in p.sources.iter().enumerate() {
            keys.extend(
                table
                    .in_namespace(namespace)
                    .map(|(n, _)| self.source_key(i, project, namespace, n)),
            );
        }
    }

    /// The hub namespace of a project namespace with this UID.
    pub(super) fn hub_of(uid: &str) -> Arc<str> {
        HubNamespace::of(uid).as_str().into()
    }
}

#[cfg(test)]
mod tests;
