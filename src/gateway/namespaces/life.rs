//! Whether a hub namespace still belongs to an earlier project of the same name (contract: federation.md §3.2).

use crate::{api::names::ProjectKey, gateway::world::World};
use std::{collections::BTreeSet, sync::Arc};

/// Whether a hub namespace holds objects of an earlier project of the same name: another project's UID is on it and
/// nothing in it belongs to a live deployment. If something does, the label was merely edited.
///
/// All of it goes: copies by federator and garbage, with them bindings and write-backs, then companions and policies.
/// What nobody of these takes away does not count: it would hold up the new life for ever.
pub fn earlier_life(world: &World, project: &ProjectKey, hub: &str) -> bool {
    let Some(row) = world.hub.namespaces.get("", hub) else {
        return false;
    };
    let uid = world.projects.get(project).and_then(|p| p.uid.clone());
    if row.digest.project_uid.is_none() || row.digest.project_uid == uid {
        return false;
    }
    let mut dead = false;
    for i in 0..world.kinds.len() {
        let live: BTreeSet<&Arc<str>> = world.tied_sources(i, hub).map(|(_, row)| &row.uid).collect();
        for (_, copy) in world.hub.copies[i].in_namespace(hub) {
            match &copy.digest.source_uid {
                Some(uid) if live.contains(uid) => return false,
                uid => dead |= uid.is_some(),
            }
        }
        dead |= world.hub.write_backs[i]
            .in_namespace(hub)
            .any(|(_, w)| w.digest.controller.is_some());
    }
    let ours = |kind: &str| world.kinds.iter().any(|k| k.resource.kind == kind);
    dead || world.hub.config_maps.in_namespace(hub).next().is_some()
        || world.hub.secrets.in_namespace(hub).next().is_some()
        || world
            .hub
            .bindings
            .in_namespace(hub)
            .any(|(_, b)| ours(&b.digest.kind))
        || world
            .hub
            .city_policies
            .in_namespace(hub)
            .any(|(name, policy)| policy.digest.is_ours(name, &world.kinds))
}

#[cfg(test)]
mod tests {
    use super::earlier_life;
    use crate::{
        api::{keys, names::ProjectKey},
        gateway::{
            companions, namespaces, policies,
            world::{Role, World, networking::WorkloadChecks},
        },
        kinds::{CompanionKind, FederatedKind},
        plane::watch::Event,
    };
    use serde_json::{Value, json};
    use std::sync::Arc;

    const HUB: &str = "ns-a1";

    fn list(world: &mut World, project: Option<&ProjectKey>, role: Role, objects: &[Value]) {
        let listed = objects
            .iter()
            .map(|o| Event::Listed(serde_json::from_value(o.clone()).map(Box::new).unwrap()));
        for event in [Event::Began].into_iter().chain(listed).chain([Event::Complete]) {
            match project {
                Some(key) => drop(world.project_event(key, role, event)),
                None => drop(world.hub_event(role, event)),
            }
        }
    }

    fn object(kind: &str, namespace: Option<&str>, name: &str, metadata: &Value, spec: &Value) -> Value {
        let mut meta = json!({"name": name, "namespace": namespace, "uid": format!("u-{kind}-{name}"), "resourceVersion": "5"});
        meta.as_object_mut()
            .unwrap()
            .extend(metadata.as_object().unwrap().clone());
        json!({"apiVersion": "x/v1", "kind": kind, "metadata": meta, "spec": spec})
    }

    /// A hub namespace of another project UID whose project namespace is back under the same UID, with a new deployment.
    fn world() -> (World, ProjectKey) {
        let kinds = Arc::new(FederatedKind::builtin().unwrap());
        let mut world = World::new(kinds, WorkloadChecks::default());
        let shop = ProjectKey::parse("shop").unwrap();
        world.engage(shop.clone());
        for role in world.hub_roles() {
            list(&mut world, None, role, &[]);
        }
        for role in world.project_roles() {
            list(&mut world, Some(&shop), role, &[]);
        }
        let own = [
            object(
                "Namespace",
                None,
                "kube-system",
                &json!({"uid": "p2"}),
                &json!({}),
            ),
            object("Namespace", None, "default", &json!({"uid": "a1"}), &json!({})),
        ];
        list(&mut world, Some(&shop), Role::Namespaces, &own);
        let labels = json!({"labels": {keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-shop"}});
        let hub = object("Namespace", None, HUB, &labels, &json!({}));
        list(&mut world, None, Role::Namespaces, &[hub]);
        let new = json!({"uid": "u-new", "finalizers": [keys::FEDERATOR_FINALIZER]});
        let new = object(
            "WorkloadDeployment",
            Some("default"),
            "web",
            &new,
            &json!({"cityCode": "DFW"}),
        );
        list(&mut world, Some(&shop), Role::Federated(0), &[new]);
        (world, shop)
    }

    fn copy(source: Option<&str>) -> Value {
        let metadata = json!({"labels": {keys::CITY_CODE: "DFW"}, "annotations": source.map(|uid| json!({keys::SOURCE_UID: uid}))});
        object("WorkloadDeployment", Some(HUB), "web", &metadata, &json!({}))
    }

    fn instance(controlled: bool) -> Value {
        let owner = json!({"apiVersion": "x/v1", "kind": "WorkloadDeployment", "name": "web", "uid": "u", "controller": controlled});
        let metadata = json!({"ownerReferences": [owner]});
        object("Instance", Some(HUB), "web-0", &metadata, &json!({}))
    }

    fn companion() -> Value {
        let metadata = json!({"annotations": {keys::REFERENCED_BY: "[\"default/web\"]"}});
        object("ConfigMap", Some(HUB), "settings", &metadata, &json!({}))
    }

    #[test]
    fn an_earlier_life_lasts_until_all_that_can_be_taken_away_is_gone() {
        let (mut world, shop) = world();
        assert!(!earlier_life(&world, &shop, HUB), "the label was edited");
        let binding = json!({"resource": {"kind": "WorkloadDeployment", "name": "web"}});
        let binding = object("ResourceBinding", Some(HUB), "b", &json!({}), &binding);
        for (role, one, holds) in [
            (Role::Federated(0), copy(Some("u-dead")), true),
            (Role::Federated(0), copy(None), false),
            (Role::Federated(0), copy(Some("u-new")), false),
            (Role::WrittenBack(0), instance(true), true),
            (Role::WrittenBack(0), instance(false), false),
            (Role::ConfigMaps, companion(), true),
            (Role::Bindings, binding, true),
        ] {
            list(&mut world, None, role, std::slice::from_ref(&one));
            assert_eq!(earlier_life(&world, &shop, HUB), holds, "{one}");
            list(&mut world, None, role, &[]);
        }
    }

    #[test]
    fn a_write_backs_city_is_held_and_never_brought_in() {
        let (mut world, _) = world();
        let in_use = |world: &World| {
            let seen = namespaces::observe(world, HUB).unwrap();
            seen.in_use.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let written = ["IAD", "LHR"].map(|city| {
            let labels = json!({"labels": {keys::INSTANCE_CITY_CODE: city}});
            object("Instance", Some(HUB), city, &labels, &json!({}))
        });
        list(&mut world, None, Role::WrittenBack(0), &written);
        assert_eq!(
            in_use(&world),
            ["DFW", "IAD", "LHR"],
            "nothing is known of the set"
        );
        let labels = json!({"resourceVersion": "6", "labels": {keys::PROJECT_UID: "p2",
            keys::UPSTREAM_CLUSTER: "cluster-shop", keys::CITIES: "dfw-lhr"}});
        let hub = object("Namespace", None, HUB, &labels, &json!({}));
        list(&mut world, None, Role::Namespaces, &[hub]);
        assert_eq!(in_use(&world), ["DFW", "LHR"]);
    }

    #[test]
    fn an_earlier_lifes_companions_and_policies_go_after_its_copies() {
        let (mut world, _) = world();
        let wanted = |world: &World| {
            let seen = companions::observe(world, CompanionKind::ConfigMap, HUB, "settings").unwrap();
            let policies = policies::observe(world, HUB).unwrap();
            assert!(policies.used[0].is_empty(), "the new life waits");
            (seen.wanted_by.len(), policies.needed[0].len())
        };
        list(&mut world, None, Role::Federated(0), &[copy(Some("u-dead"))]);
        list(&mut world, None, Role::ConfigMaps, &[companion()]);
        assert_eq!(wanted(&world), (1, 1));
        list(&mut world, None, Role::Federated(0), &[]);
        assert_eq!(wanted(&world), (0, 0));
    }
}
