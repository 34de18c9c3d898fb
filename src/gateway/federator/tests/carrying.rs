//! While lists are missing a spec is carried, and nothing else is decided.

use super::*;
use crate::gateway::{
    federator::observe::observe,
    garbage, namespaces, policies, projector,
    world::{
        Role, World,
        fixture::{self, HUB as HOME, hub_namespace, shop},
        networking::WorkloadChecks,
    },
};

/// What is decided of a snapshot with all lists, and without.
fn both(s: &Snapshot, after: Duration) -> [Vec<Effect>; 2] {
    [true, false].map(|complete| {
        let s = Snapshot {
            complete,
            ..s.clone()
        };
        let bound = Memory {
            bound: true,
            ..Memory::default()
        };
        let (mut memory, start) = (bound, now());
        decide(&s, &mut memory, &SETTINGS, start);
        plan(decide(&s, &mut memory, &SETTINGS, later(start, after))).0
    })
}

#[tokio::test]
async fn a_spec_is_carried_as_with_all_lists() {
    let mut unannounced = deployment();
    unannounced["metadata"]["finalizers"] = json!([]);
    let mut newer = deployment();
    newer["metadata"]["generation"] = json!(4);
    newer["spec"]["scaleSettings"]["minReplicas"] = json!(5);
    let mut moved = newer.clone();
    moved["spec"]["cityCode"] = json!("LHR");
    for (source, copy, reason) in [
        (unannounced, None, "announce"),
        (deployment(), None, "create_copy"),
        (newer, Some(hub_copy()), "update_copy"),
        (moved, Some(hub_copy()), "move_copy"),
    ] {
        let [all, some] = both(&snapshot(&source, copy.as_ref()), Duration::ZERO);
        assert_eq!((all.len(), all[0].reason), (1, reason));
        assert_eq!(some, all);
    }
}

#[tokio::test]
async fn nothing_else_is_decided_before_all_lists_are_complete() {
    let with = |change: &dyn Fn(&mut Value, &mut Value)| {
        let (mut d, mut c) = (deployment(), hub_copy());
        change(&mut d, &mut c);
        snapshot(&d, Some(&c))
    };
    let leaving = |d: &mut Value| d["metadata"]["deletionTimestamp"] = json!("2026-05-04T09:59:59Z");
    let anothers = |c: &mut Value| c["metadata"]["annotations"][keys::SOURCE_UID] = json!("u-earlier");
    let mut let_go = with(&|d, _| leaving(d));
    let_go.copy = None;
    let mut drain = with(&|_, c| anothers(c));
    drain.hub_state = HubNamespaceState::EarlierLife;
    let mut claim = with(&|_, _| {});
    claim.claim_good = false;
    let mut taken = with(&|_, _| {});
    taken.companion_taken = Some("Secret/db".into());
    let cases = [
        ("delete_copy", with(&|d, _| leaving(d))),
        ("let_go", let_go),
        ("replace_copy", with(&|_, c| anothers(c))),
        ("drain_earlier_life", drain),
        ("repair_claim", claim),
        ("return_status", taken),
        (
            "return_status",
            with(&|_, c| c["status"] = json!({"replicas": 1, "observedGeneration": 3})),
        ),
        (
            "return_status",
            with(&|d, _| d["spec"]["cityCode"] = json!("not a city")),
        ),
    ];
    for (reason, s) in cases {
        let [all, some] = both(&s, Duration::from_secs(10));
        assert_eq!(all.iter().map(|e| e.reason).collect::<Vec<_>>(), [reason]);
        assert_eq!(some, [], "{reason}");
    }
}

#[tokio::test]
async fn what_may_not_be_this_projects_place_takes_nothing() {
    let mut s = snapshot(&deployment(), None);
    (s.hub_state, s.complete) = (HubNamespaceState::Unproven, false);
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
}

#[tokio::test]
async fn what_the_hub_refused_waits_with_and_without_the_other_lists() {
    let mut s = snapshot(&deployment(), None);
    s.complete = false;
    let (mut memory, start) = (Memory::default(), now());
    memory.refuse(s.source.as_ref().unwrap(), "no", start);
    let (effects, next) = plan(decide(&s, &mut memory, &SETTINGS, start));
    assert_eq!((effects, next), (vec![], Next::After(Duration::from_mins(5))));
}

/// The hub and the project with an edit that the copy lacks, and only the lists that carrying needs.
fn half_read(cluster: &str) -> World {
    half_read_without(cluster, &[])
}

/// The same without these lists.
fn half_read_without(cluster: &str, missing: &[Role]) -> World {
    let mut world = World::new(KINDS.clone(), WorkloadChecks::default());
    let mut home = hub_namespace("dfw");
    home["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!(cluster);
    for role in world
        .hub_roles()
        .into_iter()
        .filter(|role| role.is_for_carrying() && !missing.contains(role))
    {
        let objects = match role {
            Role::Namespaces => vec![home.clone()],
            Role::CitySets => vec![fixture::city_set("cities-dfw", &["DFW"])],
            Role::CityPolicies => vec![fixture::city_policy("city-dfw", "DFW")],
            Role::Federated(_) => vec![fixture::copy("web", "DFW")],
            _ => Vec::new(),
        };
        world.list_hub(role, &objects);
    }
    world.engage(shop());
    let mut edited = fixture::source("web", "DFW");
    edited["metadata"]["generation"] = json!(2);
    edited["spec"]["template"] = json!({"spec": {"runtime": {}}});
    for role in world.project_roles() {
        let objects = match role {
            Role::Namespaces => vec![
                fixture::namespace("kube-system", "p1", &json!({})),
                fixture::namespace("default", "a1", &json!({})),
            ],
            Role::Federated(_) => vec![edited.clone()],
            _ => continue,
        };
        world.list_shop(role, &objects);
    }
    world
}

#[tokio::test]
async fn an_edit_is_seen_without_the_lists_that_carrying_does_not_need() {
    let mut world = half_read(&shop().label());
    let key = world.source_key(0, &shop(), "default", "web");
    let mut s = observe(&world, &key, &shop()).unwrap();
    assert!(!s.complete && s.city_ready && s.hub_state == HubNamespaceState::Ours);
    s.source.as_mut().unwrap().body = Some(Arc::new(object(fixture::source("web", "DFW"))));
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(effect.reason, "update_copy");
    assert!(namespaces::observe(&world, HOME).is_none());
    assert!(policies::observe(&world, HOME).is_none());
    let instance = world.hub_key(Role::WrittenBack(0), HOME, "web-0");
    assert!(projector::observe(&world, &instance).is_none());
    assert!(!garbage::proven_gone(&world, HOME));
    for role in world.hub_roles() {
        world.list_hub(role, &[]);
    }
    for role in world.project_roles().into_iter().filter(|r| !r.is_for_carrying()) {
        assert!(!observe(&world, &key, &shop()).unwrap().complete, "{role:?}");
        world.list_shop(role, &[]);
    }
    assert!(observe(&world, &key, &shop()).unwrap().complete);
}

#[tokio::test]
async fn before_the_cells_were_ever_listed_what_is_in_place_is_carried_and_a_new_city_waits() {
    let mut world = half_read_without(&shop().label(), &[Role::Clusters]);
    let seen = |world: &World, name: &str| {
        let key = world.source_key(0, &shop(), "default", name);
        let mut s = observe(world, &key, &shop()).unwrap();
        s.source.as_mut().unwrap().body = Some(Arc::new(object(fixture::source(name, "DFW"))));
        s
    };
    world.shop_has(Role::Federated(0), &fixture::source("new", "LHR"));
    for complete in [false, true] {
        if complete {
            let rest = world.hub_roles().into_iter().filter(|r| !r.is_for_carrying());
            rest.for_each(|role| world.list_hub(role, &[]));
            let rest = world.project_roles().into_iter().filter(|r| !r.is_for_carrying());
            rest.for_each(|role| world.list_shop(role, &[]));
        }
        let web = seen(&world, "web");
        assert_eq!(web.complete, complete);
        let effect = one(decide(&web, &mut Memory::default(), &SETTINGS, now()));
        assert_eq!(effect.reason, "update_copy");
        let new = seen(&world, "new");
        assert!(!new.no_cell && new.cell_unproven && !new.city_ready);
    }
    world.list_hub(Role::Clusters, &[]);
    assert!(seen(&world, "new").no_cell);
}

#[test]
fn each_list_that_carrying_needs_is_waited_for() {
    let all = half_read(&shop().label());
    let lists = |world: &World| {
        world
            .hub_roles()
            .into_iter()
            // What is in place is carried without.
            .filter(|role| role.is_for_carrying() && *role != Role::Clusters)
            .collect::<Vec<_>>()
    };
    for missing in lists(&all) {
        let mut world = World::new(KINDS.clone(), WorkloadChecks::default());
        for role in lists(&all) {
            assert!(!world.hub_carries(), "{role:?}");
            if role != missing {
                world.list_hub(role, &[]);
            }
        }
        assert!(!world.hub_carries(), "{missing:?}");
        world.list_hub(missing, &[]);
        assert!(world.hub_carries());
    }
    let mut world = half_read(&shop().label());
    world.engage(shop());
    assert!(!world.carries(&shop()));
    world.list_shop(Role::Federated(0), &[]);
    world.list_shop(
        Role::Namespaces,
        &[fixture::namespace("default", "a1", &json!({}))],
    );
    assert!(!world.carries(&shop()), "its UID is not known");
}

#[test]
fn a_namespace_that_names_another_takes_nothing_whether_that_is_engaged_or_not() {
    let mut world = half_read("cluster-prod");
    let key = world.source_key(0, &shop(), "default", "web");
    let seen = |world: &World| observe(world, &key, &shop()).map(|s| (s.hub_state, s.hub.is_some()));
    let claimed = Some((HubNamespaceState::Claimed, false));
    assert_eq!(seen(&world), claimed);
    world.engage(ProjectKey::parse("prod").unwrap());
    assert_eq!(seen(&world), claimed);
    assert_eq!(world.uncarried_keys(&crate::engine::key::Plane::Hub), []);
    let own = half_read(&shop().label());
    assert_eq!(seen(&own), Some((HubNamespaceState::Ours, true)));
}

#[test]
fn only_what_the_hub_has_otherwise_waits_to_be_carried() {
    use crate::engine::key::Plane;
    let mut world = half_read(&shop().label());
    let key = |world: &World, name: &str| world.source_key(0, &shop(), "default", name);
    assert_eq!(world.uncarried_keys(&Plane::Hub), [key(&world, "web")]);
    world.shop_has(Role::Federated(0), &fixture::source("new", "DFW"));
    world.shop_has(Role::Federated(0), &fixture::leaving("old", "DFW"));
    world.shop_has(Role::Federated(0), &fixture::source("same", "DFW"));
    world.hub_has(Role::Federated(0), &fixture::copy("same", "DFW"));
    let waiting = [key(&world, "new"), key(&world, "web")];
    assert_eq!(world.uncarried_keys(&Plane::Hub), waiting);
    assert_eq!(world.uncarried_keys(&Plane::Project(shop())), waiting);
    let held = |world: &World, name: &str| {
        let row = world.projects[&shop()].sources[0].get("default", name);
        row.unwrap().body.is_some()
    };
    assert!(held(&world, "new"), "its turn comes");
    world.disengage(&shop());
    assert_eq!(world.uncarried_keys(&Plane::Hub), []);
}
