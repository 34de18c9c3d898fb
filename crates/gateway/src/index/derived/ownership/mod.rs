//! Owners: the project namespace that owns a hub namespace, the contract's "tie" (contract: federation.md §1.2 rule 4).
//!
//! A hub namespace has at most one owner. Two planes may report the same UID: a plane restored from another's backup,
//! or a plane that reports a false UID. A hub namespace whose labels name a project belongs to that project alone,
//! engaged or not; only an operator reassigns it. A hub namespace that names no project goes to the first claim. A
//! project whose claim is rejected writes nothing to the hub. A project whose plane the gateway has as another one owns
//! nothing, unless an operator says so.

use crate::index::{
    GatewayIndex, NamespaceOwner,
    apply::Applied,
    change::{Change, NamespaceNews},
    watches::Command,
};
use fedgate_api::names::{HubNamespace, ProjectKey, is_label_value};
use fedgate_engine::store::apply::RowChange;
use std::sync::Arc;

/// An ownership claim on a hub namespace that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipClaim {
    pub(in crate::index) owner: NamespaceOwner,
    /// Holder of the hub namespace when the claim was rejected; `None` before the rejection.
    refused: Option<Arc<str>>,
}

/// A rejected ownership claim, to be reported once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedClaim {
    /// Project namespace that claims the hub namespace.
    pub claimant: NamespaceOwner,
    /// The hub namespace.
    pub hub: Arc<str>,
    /// Holder of the hub namespace: the project whose namespace owns it, or the label of one that is not engaged or lacks the
    /// namespace.
    pub holder: Arc<str>,
}

impl GatewayIndex {
    /// True if this project owns the hub namespace.
    pub fn is_owned_by(&self, hub: &str, project: &ProjectKey) -> bool {
        self.owners
            .get(hub)
            .is_some_and(|owner| owner.project == *project)
    }

    /// The hub namespace of a live project namespace, if it belongs to this project namespace. Another project's plane may
    /// report the same UID; what the hub namespace has is not for that project.
    pub fn owned_hub_namespace(&self, project: &ProjectKey, namespace: &str) -> Option<HubNamespace> {
        let hub = self.hub_namespace(project, namespace)?;
        let owner = self.owners.get(hub.as_str())?;
        (owner.project == *project && *owner.namespace == *namespace).then_some(hub)
    }

    /// True if the project's claim on a hub namespace is rejected.
    pub fn is_refused(&self, hub: &str, project: &ProjectKey) -> bool {
        let claims = self.claims.get(hub).into_iter().flatten();
        !self.is_owned_by(hub, project)
            && claims
                .filter(|r| r.owner.project == *project)
                .any(|r| r.refused.is_some())
    }

    /// The rejected claims.
    pub fn refused_claims(&self) -> impl Iterator<Item = RejectedClaim> {
        self.claims.iter().flat_map(|(hub, claims)| {
            claims.iter().filter_map(|claim| {
                Some(RejectedClaim {
                    claimant: claim.owner.clone(),
                    hub: hub.clone(),
                    holder: claim.refused.clone()?,
                })
            })
        })
    }

    /// Claims the hub namespace of a project namespace, or withdraws the claim.
    pub(crate) fn claim_hub_namespace(
        &mut self,
        project: &ProjectKey,
        delta: &RowChange<()>,
        applied: &mut Applied,
    ) {
        let namespace = &delta.name.1;
        let owner = NamespaceOwner {
            project: project.clone(),
            namespace: namespace.clone(),
        };
        let of = self.projects.get(project);
        let live = of
            .and_then(|p| p.namespaces.get("", namespace))
            .map(|row| row.uid.clone());
        let had = delta.old.as_ref().map(|old| &old.uid);
        let left = had
            .filter(|uid| live.as_ref() != Some(uid))
            .map(|uid| Self::hub_of(uid));
        let hub = live.map(|uid| Self::hub_of(&uid));
        if let Some(hub) = &left {
            self.remove_claim(hub, &owner, applied);
        }
        if let Some(hub) = &hub {
            self.claim(hub, owner, applied);
        }
        applied.changes.push(Change::ProjectNamespace {
            project: project.clone(),
            namespace: namespace.clone(),
            left,
            hub,
        });
    }

    /// Adds the claim of a project that has the namespace behind a hub namespace, and resolves the owner.
    pub(crate) fn claim(&mut self, hub: &Arc<str>, owner: NamespaceOwner, applied: &mut Applied) {
        // The UID becomes part of names and labels, and comes from a plane, which is not trusted.
        if !is_label_value(hub) || self.owners.get(hub) == Some(&owner) {
            return;
        }
        let claims = self.claims.entry(hub.clone()).or_default();
        if !claims.iter().any(|r| r.owner == owner) {
            claims.push(OwnershipClaim { owner, refused: None });
        }
        self.resolve_owner(hub, applied);
    }

    /// Removes the claim of a project that no longer has the namespace behind a hub namespace.
    pub(crate) fn remove_claim(&mut self, hub: &Arc<str>, owner: &NamespaceOwner, applied: &mut Applied) {
        if self.owners.get(hub) == Some(owner) {
            self.owners.remove(hub);
        }
        if let Some(claims) = self.claims.get_mut(hub) {
            claims.retain(|r| r.owner != *owner);
        }
        self.resolve_owner(hub, applied);
    }

    /// Starts the leadership of this replica. Labels that another replica wrote in the meantime are no edits: they name
    /// the owner of a hub namespace, as after a start.
    pub fn lead(&mut self) -> Applied {
        let mut applied = Applied::default();
        self.intents.deliveries.clear();
        let names_another = |hub: &Arc<str>, owner: &NamespaceOwner| {
            let row = self.hub.namespaces.get("", hub);
            row.and_then(|row| row.digest.cluster.as_deref())
                .is_some_and(|label| *label != *owner.project.label())
        };
        let doubtful: Vec<(Arc<str>, NamespaceOwner)> = self
            .owners
            .iter()
            .filter(|(hub, owner)| names_another(hub, owner))
            .map(|(hub, owner)| (hub.clone(), owner.clone()))
            .collect();
        for (hub, owner) in doubtful {
            self.owners.remove(&hub);
            self.claim(&hub, owner, &mut applied);
        }
        self.follow_hub_namespaces(false, &mut applied);
        applied
    }

    /// Resolves the owner of every contested hub namespace again.
    pub(crate) fn resolve_all_owners(&mut self, applied: &mut Applied) {
        let contested: Vec<Arc<str>> = self.claims.keys().cloned().collect();
        for hub in contested {
            self.resolve_owner(&hub, applied);
        }
    }

    /// Resolves the owner of a hub namespace after a change of its claims, its labels or its annotations.
    pub(crate) fn resolve_owner(&mut self, hub: &Arc<str>, applied: &mut Applied) {
        let holder = self.owners.remove(hub);
        let mut claims: Vec<OwnershipClaim> = holder
            .iter()
            .map(|owner| OwnershipClaim {
                owner: owner.clone(),
                refused: None,
            })
            .chain(self.claims.remove(hub).unwrap_or_default())
            .collect();
        let winner = self.winner(hub, &claims, holder.is_some());
        let winner = winner.map(|winner| claims.remove(winner).owner);
        let of = match &winner {
            Some(owner) => Some(owner.project.as_str().into()),
            None => self.labelled(hub),
        };
        if of.is_some() {
            for lost in claims.iter_mut().filter(|c| c.refused != of) {
                lost.refused.clone_from(&of);
                let claim = |holder| {
                    Command::ReportRejected(RejectedClaim {
                        claimant: lost.owner.clone(),
                        hub: hub.clone(),
                        holder,
                    })
                };
                applied.commands.extend(of.clone().map(claim));
                let mut keys = Vec::new();
                self.source_keys_in(&lost.owner.project, &lost.owner.namespace, &mut keys);
                applied.enqueue(keys);
            }
        }
        if let Some(winner) = winner {
            self.owners.insert(hub.clone(), winner);
        }
        if !claims.is_empty() {
            self.claims.insert(hub.clone(), claims);
        }
        if !self.owners.contains_key(hub) {
            // Without an owner, no reconcile that needs the bodies can be enqueued.
            self.drop_bodies(hub);
        }
        if self.owners.get(hub) != holder.as_ref() {
            applied
                .changes
                .push(Change::of_namespace(hub, NamespaceNews::Owner));
        }
    }

    /// Project that the labels of a hub namespace name; `None` before the hub's Namespaces are listed.
    fn labelled(&self, hub: &str) -> Option<Arc<str>> {
        let row = self.hub.namespaces.get("", hub);
        let row = row.filter(|_| self.hub.namespaces.synced())?;
        let named = row.digest.cluster.as_ref().or(row.digest.project_uid.as_ref());
        named.cloned()
    }

    /// Index of the winning claim; `None` before the hub's Namespaces are listed, or if the labels name no claimant.
    fn winner(&self, hub: &str, claims: &[OwnershipClaim], held: bool) -> Option<usize> {
        if claims.is_empty() || !self.hub.namespaces.synced() {
            return None;
        }
        let usable = |claim: &OwnershipClaim| !self.has_known_plane(&claim.owner.project);
        let first = claims.iter().position(usable);
        let Some(row) = self.hub.namespaces.get("", hub) else {
            return first;
        };
        let by = |test: &dyn Fn(&ProjectKey) -> bool| {
            claims.iter().position(|c| usable(c) && test(&c.owner.project))
        };
        let reassigned = row.digest.reassign_to.as_deref();
        let reassigned = reassigned.and_then(|to| claims.iter().position(|c| c.owner.project.as_str() == to));
        if reassigned.is_some() || held && first == Some(0) {
            // Labels that change while a project owns the namespace are an edit, which the gateway reverts.
            return reassigned.or(first);
        }
        match (&row.digest.cluster, &row.digest.project_uid) {
            (Some(label), _) => by(&|key| *key.label() == **label),
            (None, Some(uid)) => {
                let has = |key: &ProjectKey| {
                    self.projects
                        .get(key)
                        .is_some_and(|p| p.uid.as_ref() == Some(uid))
                };
                let alone = claims.iter().filter(|c| has(&c.owner.project)).count() == 1;
                by(&has).filter(|_| alone)
            }
            (None, None) => first,
        }
    }

    /// The hub namespace of a project namespace with this UID.
    pub(crate) fn hub_of(uid: &str) -> Arc<str> {
        HubNamespace::of(uid).as_str().into()
    }
}

#[cfg(test)]
mod tests;
