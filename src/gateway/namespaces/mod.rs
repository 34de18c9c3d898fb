//! Namespace delivery: each hub Namespace exists only at the cells of the cities in use
//! (contract: federation.md §3.5).

pub mod decide;

use super::{
    context::{PASSES, Turn},
    world::World,
};
use crate::{
    api::names::{CityCode, ProjectKey, cities_of_set, city_set, city_set_policy},
    engine::{error::Failure, key::Key, plan::Next},
};
use decide::Snapshot;
use std::{collections::BTreeSet, sync::Arc};

/// Verdict on a Namespace that names another owner.
const FOREIGN: &str = "identity_mismatch";
/// Verdict on a Namespace whose set of cities has the name of another set.
const COLLISION: &str = "city_set_collision";

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

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(world: &World, hub: &str) -> Option<Snapshot> {
    if !world.hub_ready() {
        return None;
    }
    let tie = world.ties.get(hub)?;
    if !world.project_ready(&tie.project) {
        return None;
    }
    let row = world.hub.namespaces.get("", hub).cloned();
    let project_uid = world.projects.get(&tie.project).and_then(|p| p.uid.clone())?;
    let mut in_use = BTreeSet::new();
    let mut written_back = BTreeSet::new();
    let mut unlabelled = false;
    for i in 0..world.kinds.len() {
        in_use.extend(world.cities_of_kind(i, hub));
        for (_, write_back) in world.hub.write_backs[i].in_namespace(hub) {
            match &write_back.digest.city {
                Some(city) => drop(written_back.insert(city.clone())),
                None => unlabelled = true,
            }
        }
    }
    let set = row.as_ref().and_then(|r| r.digest.cities.clone());
    let policy = |set: &str| world.hub.city_sets.get("", &city_set_policy(set)).cloned();
    // What someone has written into the policy is no city of the set.
    let listed = |set: &str| {
        let cities = policy(set)?.digest.cities?;
        (city_set(&cities).as_deref() == Some(set)).then_some(cities)
    };
    let current = set
        .as_deref()
        .and_then(|set| listed(set).or_else(|| cities_of_set(set)))
        .unwrap_or_default();
    // A cell writes that city: it may hold one of the set, never bring one in.
    let holds = |city: &CityCode| current.is_empty() || current.contains(city);
    in_use.extend(written_back.into_iter().filter(holds));
    Some(Snapshot {
        name: hub.into(),
        label: world.cluster_label().to_owned(),
        resources: world.resources.clone(),
        cluster: tie.project.label(),
        namespace: tie.namespace.clone(),
        project_uid,
        earlier_life: earlier_life(world, &tie.project, hub),
        in_use,
        unlabelled,
        current,
        left: world
            .left
            .iter()
            .filter(|((ns, _), _)| **ns == *hub)
            .map(|((_, c), t)| (c.clone(), *t))
            .collect(),
        city_sets: world
            .hub
            .city_sets
            .iter()
            .map(|((_, name), row)| (name.clone(), row.clone()))
            .collect(),
        row,
    })
}

/// One turn of a hub Namespace that belongs to a live project namespace.
pub async fn reconcile(ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
    let hub = &*key.name;
    for _ in 0..PASSES {
        let now = ctx.now();
        let (decision, condemned) = {
            let mut world = ctx.world.lock();
            let Some(snapshot) = observe(&world, hub) else {
                return Ok(Next::OnEvent);
            };
            let decision = decide::decide(&snapshot, ctx.settings.city_linger, now);
            world.left.retain(|(ns, _), _| **ns != *hub);
            world.left.extend(
                decision
                    .left
                    .iter()
                    .map(|(c, t)| ((Arc::from(hub), c.clone()), *t)),
            );
            let condemned: Vec<(Arc<str>, CityCode)> = decision
                .narrowed
                .iter()
                .map(|c| (Arc::from(hub), c.clone()))
                .collect();
            world.condemned.extend(condemned.iter().cloned());
            (decision, condemned)
        };
        if decision.foreign {
            if ctx.quarantine.put(key, FOREIGN) {
                ctx.metrics.identity_rejected(FOREIGN);
                tracing::warn!(
                    plane = "hub",
                    controller = "namespaces",
                    namespace = hub,
                    "its identity labels name another owner: nothing is written here until they agree or it is gone"
                );
            }
            return Ok(Next::OnEvent);
        }
        if decision.collision {
            if ctx.quarantine.put(key, COLLISION) {
                tracing::error!(
                    plane = "hub",
                    controller = "namespaces",
                    namespace = hub,
                    "the policy of its city set is that of other cities under the same hash: its cities stay as they are; one of the two tenants must use another set"
                );
            }
            return Ok(Next::OnEvent);
        }
        ctx.quarantine.release(key);
        if decision.plan.is_idle() {
            return Ok(decision.plan.next);
        }
        if decision.identity_restored {
            ctx.metrics.identity_rejected("namespace_labels_edited");
            tracing::warn!(
                plane = "hub",
                controller = "namespaces",
                namespace = hub,
                "identity labels were edited; restored"
            );
        }
        let reasons: Vec<_> = decision
            .plan
            .effects
            .iter()
            .map(|e| format!("{} {}", e.reason, e.target.name))
            .collect();
        let result = ctx.perform(decision.plan).await;
        ctx.lift_ban(hub, &condemned);
        result?;
        tracing::info!(
            plane = "hub",
            controller = "namespaces",
            namespace = hub,
            changes = reasons.join(", "),
            "hub Namespace changed"
        );
    }
    Ok(Next::OnEvent)
}

#[cfg(test)]
mod tests {
    use super::earlier_life;
    use crate::{
        api::{keys, names::ProjectKey},
        gateway::{
            companions, policies,
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
        let metadata = json!({"labels": {keys::CITY_CODE: "DFW"}, "annotations": {keys::SOURCE_UID: source}});
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
            let seen = super::observe(world, HUB).unwrap();
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
