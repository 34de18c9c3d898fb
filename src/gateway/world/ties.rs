//! Ties: which project namespace a hub namespace belongs to (contract: federation.md §1.2 rule 4).
//!
//! A hub namespace has one tie at most. Two planes may report one UID: a plane made from another's backup, or one that
//! lies. The namespace's own label decides between them, else the one that came first; the other waits and writes
//! nothing to the hub.

use super::{Tie, World, events::Woken};
use crate::{
    api::names::{HubNamespace, ProjectKey, is_label_value},
    engine::key::Key,
};
use std::sync::Arc;

/// A claim on a hub namespace that someone else has, or may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    tie: Tie,
    /// Whether its refusal has been said.
    said: bool,
}

/// A claim that was refused, to be said once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who claims.
    pub claimant: Tie,
    /// The hub namespace.
    pub hub: Arc<str>,
    /// Who has it.
    pub holder: Tie,
}

impl World {
    /// Whether a hub namespace is tied to this project.
    pub fn is_tied(&self, hub: &str, project: &ProjectKey) -> bool {
        self.ties.get(hub).is_some_and(|tie| tie.project == *project)
    }

    /// Whether someone claims a hub namespace, with success or not.
    pub fn is_claimed(&self, hub: &str) -> bool {
        self.ties.contains_key(hub) || self.rivals.contains_key(hub)
    }

    /// Whether a hub namespace is claimed, and it is not known yet by whom rightly.
    pub fn is_undecided(&self, hub: &str) -> bool {
        !self.ties.contains_key(hub) && self.rivals.contains_key(hub)
    }

    /// A project says that it has the namespace behind a hub namespace.
    pub(super) fn claim(&mut self, hub: &Arc<str>, tie: Tie, woken: &mut Woken) {
        // The UID becomes part of names and labels, and is a plane's word.
        if !is_label_value(hub) || self.ties.get(hub) == Some(&tie) {
            return;
        }
        let rivals = self.rivals.entry(hub.clone()).or_default();
        if !rivals.iter().any(|r| r.tie == tie) {
            rivals.push(Rival { tie, said: false });
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

    /// Forgets a project; the hub stays as it is. What it was tied to may now be another's.
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
                said: false,
            })
            .chain(self.rivals.remove(hub).unwrap_or_default())
            .collect();
        if let Some(winner) = self.winner(hub, &claims, holder.is_some()) {
            let winner = claims.remove(winner).tie;
            for lost in claims.iter_mut().filter(|c| !c.said) {
                lost.said = true;
                woken.refused.push(Refusal {
                    claimant: lost.tie.clone(),
                    hub: hub.clone(),
                    holder: winner.clone(),
                });
            }
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
            self.wake_sources(hub, &mut woken.keys);
        }
    }

    /// Which claim holds: the one that the Namespace names, else the first.
    fn winner(&self, hub: &str, claims: &[Rival], held: bool) -> Option<usize> {
        let first = (!claims.is_empty()).then_some(0);
        let row = self.hub.namespaces.get("", hub);
        let Some(label) = row.and_then(|row| row.digest.cluster.as_deref()) else {
            return first;
        };
        let named = |key: &ProjectKey| *key.label() == *label;
        if let Some(named) = claims.iter().position(|c| named(&c.tie.project)) {
            return Some(named);
        }
        // The one that it names may only not have been heard yet. Once all is known a label that was edited is not
        // believed that much.
        let unheard = (!held || !self.hub_ready())
            && self
                .projects
                .iter()
                .any(|(key, p)| named(key) && !p.namespaces.synced());
        first.filter(|_| !unheard)
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
mod tests {
    use crate::{
        api::{
            keys,
            names::{HubNamespace, ProjectKey},
        },
        gateway::{
            federator, garbage,
            world::{
                Role, World,
                events::Woken,
                fixture::{HUB, list, namespace},
                networking::WorkloadChecks,
            },
        },
        kinds::FederatedKind,
        plane::watch::Event,
    };
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn project(name: &str) -> ProjectKey {
        ProjectKey::parse(name).unwrap()
    }

    /// A hub whose Namespace is labelled for this project.
    fn hub(cluster: Option<&str>) -> World {
        let kinds = Arc::new(FederatedKind::builtin().unwrap());
        let mut world = World::new(kinds, WorkloadChecks::default());
        list_hub(&mut world, cluster);
        world
    }

    fn list_hub(world: &mut World, cluster: Option<&str>) {
        for role in world.hub_roles() {
            let labels = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: cluster});
            let own = cluster.map(|_| namespace(HUB, "u-hub", &labels));
            let objects: Vec<Value> = own.into_iter().filter(|_| role == Role::Namespaces).collect();
            list(&objects, |e| world.hub_event(role, e));
        }
    }

    /// Lists a project that has the namespace, as every plane made from one backup has.
    fn lists(world: &mut World, name: &str, live: bool) -> Woken {
        let mut all = Woken::default();
        for role in world.project_roles() {
            let mut objects = Vec::new();
            if role == Role::Namespaces {
                objects.push(namespace("kube-system", "p1", &json!({})));
                objects.extend(live.then(|| namespace("default", "a1", &json!({}))));
            }
            let woken = list(&objects, |e| world.project_event(&project(name), role, e));
            all.keys.extend(woken.keys);
            // Of kube-system's too, which has a UID like any other.
            all.refused
                .extend(woken.refused.into_iter().filter(|r| *r.hub == *HUB));
        }
        all
    }

    fn engage(world: &mut World, name: &str) -> Woken {
        world.engage(project(name));
        lists(world, name, true)
    }

    fn holder(world: &World) -> Option<&str> {
        world.ties.get(HUB).map(|tie| tie.project.as_str())
    }

    #[test]
    fn the_second_claimant_of_a_uid_is_refused_once_and_takes_nothing_away() {
        let mut world = hub(None);
        assert_eq!(engage(&mut world, "prod").refused, []);
        let refused = engage(&mut world, "staging").refused;
        assert_eq!(refused.len(), 1);
        assert_eq!(
            (
                refused[0].claimant.project.as_str(),
                refused[0].holder.project.as_str()
            ),
            ("staging", "prod")
        );
        assert_eq!(holder(&world), Some("prod"));
        assert_eq!(lists(&mut world, "staging", true).refused, [], "it was said");
        lists(&mut world, "staging", false);
        assert_eq!(holder(&world), Some("prod"), "the other's end is not its end");
    }

    #[test]
    fn the_namespaces_own_label_decides_whoever_comes_first() {
        let mut world = hub(Some("cluster-prod"));
        world.engage(project("prod"));
        engage(&mut world, "staging");
        assert_eq!(holder(&world), None, "prod has not been heard yet");
        assert!(world.is_claimed(HUB) && !garbage::proven_gone(&world, HUB));
        assert_eq!(lists(&mut world, "prod", true).refused.len(), 1);
        assert_eq!(holder(&world), Some("prod"));
        // The same with the hub's lists last.
        let kinds = Arc::new(FederatedKind::builtin().unwrap());
        let mut world = World::new(kinds, WorkloadChecks::default());
        engage(&mut world, "staging");
        engage(&mut world, "prod");
        assert_eq!(holder(&world), Some("staging"));
        list_hub(&mut world, Some("cluster-prod"));
        assert_eq!(holder(&world), Some("prod"));
    }

    #[test]
    fn a_tie_that_is_freed_goes_to_who_waits_and_wakes_it() {
        let mut world = hub(None);
        engage(&mut world, "prod");
        engage(&mut world, "staging");
        let woken = world.disengage(&project("prod"));
        assert_eq!(holder(&world), Some("staging"));
        let key = world.hub_key(Role::Namespaces, "", HUB);
        assert!(woken.keys.contains(&key));
        world.disengage(&project("staging"));
        assert!(!world.is_claimed(HUB));
    }

    #[test]
    fn two_projects_of_one_uid_prove_nothing_gone_and_one_only_what_is_labelled_for_it() {
        let mut world = hub(Some("cluster-prod"));
        world.engage(project("staging"));
        lists(&mut world, "staging", false);
        assert!(!garbage::proven_gone(&world, HUB), "it is labelled for prod");
        world.engage(project("prod"));
        lists(&mut world, "prod", false);
        assert!(!garbage::proven_gone(&world, HUB), "two have the UID");
        world.disengage(&project("staging"));
        assert!(garbage::proven_gone(&world, HUB));
    }

    #[test]
    fn a_deployment_acts_on_the_hub_only_under_its_own_tie() {
        let mut world = hub(Some("cluster-prod"));
        engage(&mut world, "prod");
        engage(&mut world, "staging");
        let deployment = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "9",
                "deletionTimestamp": "2026-05-04T10:00:00Z", "finalizers": [keys::FEDERATOR_FINALIZER],
                "annotations": {keys::FEDERATION_NAMESPACE: HUB}},
            "spec": {"cityCode": "DFW"}});
        for (name, expected) in [("prod", HubNamespace::parse(HUB)), ("staging", None)] {
            let role = Role::Federated(0);
            list(std::slice::from_ref(&deployment), |e| {
                world.project_event(&project(name), role, e)
            });
            let key = world.source_key(0, &project(name), "default", "web");
            let seen = federator::observe::observe(&world, &key, &project(name)).unwrap();
            assert_eq!(seen.hub, expected, "{name}");
        }
    }

    fn instance(version: u64, size: usize) -> Event {
        let object = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
            "metadata": {"name": "web-0", "namespace": HUB, "uid": "u-i", "resourceVersion": version.to_string(),
                "labels": {keys::WORKLOAD_DEPLOYMENT_NAME: "web"}},
            "spec": {"text": "x".repeat(size)}});
        Event::Applied(Box::new(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn a_body_is_kept_only_where_a_turn_follows_that_may_write_it() {
        let mut world = hub(Some("cluster-prod"));
        let role = Role::WrittenBack(0);
        let held = |world: &World| {
            let row = world.hub.write_backs[0].get(HUB, "web-0").unwrap();
            row.body.is_some()
        };
        world.hub_event(role, instance(10, 1));
        assert!(!held(&world), "its project is not engaged");
        engage(&mut world, "prod");
        world.hub_event(role, instance(11, 2));
        assert!(held(&world));
        world.hub_event(role, instance(12, 64 * 1024));
        assert!(!held(&world), "it is too large to go anywhere");
        world.hub_event(role, instance(13, 3));
        assert!(held(&world));
        world.disengage(&project("prod"));
        assert!(!held(&world), "its project has left");
    }

    #[test]
    fn a_uid_that_is_no_part_of_a_name_is_no_claim() {
        let mut world = hub(None);
        world.engage(project("prod"));
        let bad = namespace("default", "a/../b", &json!({}));
        list(&[bad], |e| {
            world.project_event(&project("prod"), Role::Namespaces, e)
        });
        assert!(world.ties.is_empty() && world.rivals.is_empty());
    }
}
