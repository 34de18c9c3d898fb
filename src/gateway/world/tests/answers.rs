//! What the index answers to the controllers: where a city's copies may go, whose keys wait for what, whose claim is refused.

use super::fixture::{HUB, city_policy, hub_namespace, object, shop, source};
use super::*;
use crate::api::keys;
use serde_json::Value;

fn zoo() -> ProjectKey {
    ProjectKey::parse("zoo").unwrap()
}

/// Another project, all of whose lists are complete, with a namespace of this UID.
fn with_zoo(world: &mut World, uid: &str, namespace_uid: &str) {
    world.engage(zoo());
    let live = [
        namespace("kube-system", uid, &json!({})),
        namespace("cages", namespace_uid, &json!({})),
    ];
    for role in world.project_roles() {
        let live: &[Value] = if role == Role::Namespaces { &live } else { &[] };
        fixture::list(live, |event| world.project_event(&zoo(), role, event));
    }
}

fn newer(mut object: Value, version: &str) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

fn leaves(object: Value) -> Value {
    let mut object = newer(object, "8");
    object["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    object
}

fn kinds(keys: &[Key], world: &World, roles: &[Role]) -> Vec<usize> {
    let kind = |role: &Role| world.hub_key(*role, "", "x").kind;
    let count = |role: &Role| keys.iter().filter(|key| key.kind == kind(role)).count();
    roles.iter().map(count).collect()
}

#[test]
fn a_city_is_ready_with_its_namespace_and_both_policies_and_while_none_of_them_goes() {
    let (dfw, lhr) = (CityCode::parse("DFW").unwrap(), CityCode::parse("LHR").unwrap());
    let ready = |world: &World| [&dfw, &lhr].map(|city| world.city_ready(0, HUB, city));
    let set = city_set("cities-dfw", &["DFW"]);
    let mut world = World::fixture();
    world.hub_has(Role::CityPolicies, &city_policy("dfw", "DFW"));
    assert_eq!(ready(&world), [false, false], "no policy brings the Namespace");
    world.hub_has(Role::CitySets, &set);
    assert_eq!(ready(&world), [true, false]);
    world.hub_has(Role::CityPolicies, &city_policy("lhr", "LHR"));
    assert_eq!(ready(&world), [true, false], "its Namespace does not go there");
    assert_eq!(
        world.city_policy(0, HUB, &lhr).map(|(name, _)| &**name),
        Some("lhr"),
        "not the first one of the kind"
    );
    assert!(world.city_policy(1, HUB, &lhr).is_none(), "it is of another kind");
    world.hub_has(Role::CityPolicies, &leaves(city_policy("dfw", "DFW")));
    assert_eq!(ready(&world), [false, false], "the city's policy goes");
    let again = newer(city_policy("dfw", "DFW"), "9");
    world.hub_has(Role::CityPolicies, &again);
    assert_eq!(ready(&world), [true, false]);
    world.hub_lost(Role::CityPolicies, &newer(again, "10"));
    assert_eq!(ready(&world), [false, false], "the city has none");
    world.hub_has(Role::CityPolicies, &newer(city_policy("dfw-2", "DFW"), "11"));
    assert_eq!(ready(&world), [true, false]);
    world.hub_has(Role::CitySets, &leaves(set));
    assert_eq!(ready(&world), [false, false], "the set's policy goes");
}

#[test]
fn a_hub_namespaces_change_is_looked_at_by_all_that_may_wait_for_it() {
    let mut world = World::fixture();
    let mut web = source("web", "DFW");
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    world.shop_has(Role::Federated(0), &web);
    let deployment = world.source_key(0, &shop(), "default", "web");
    let data = world.hub_key(Role::Secrets, HUB, "db");
    assert_eq!(world.waiting_keys(HUB), [deployment.clone(), data.clone()]);
    assert_eq!(world.waiting_keys("ns-b2"), []);
    let woken = world.hub_has(Role::Namespaces, &newer(hub_namespace("lhr"), "6"));
    assert!(woken.contains(&deployment) && woken.contains(&data), "{woken:?}");
    // The same when it becomes another project's, and its own again.
    let mut world = World::fixture();
    with_zoo(&mut world, "z1", "a1");
    world.shop_has(Role::Federated(0), &web);
    let given = |to: &str, version: &str| {
        let mut given = newer(hub_namespace("dfw"), version);
        given["metadata"]["annotations"] = json!({keys::REASSIGN_TO: to});
        given
    };
    world.hub_has(Role::Namespaces, &given("zoo", "7"));
    assert!(world.is_tied(HUB, &zoo()));
    assert_eq!(world.waiting_keys(HUB), [], "zoo has none");
    let woken = world.hub_has(Role::Namespaces, &given("shop", "8"));
    assert!(woken.contains(&deployment));
}

#[test]
fn the_last_binding_of_a_namespace_without_origin_wakes_it_also_if_its_kind_is_unknown() {
    let mut world = World::fixture();
    let mut binding = object("ns-z9", "web-deployment", "b-1");
    binding["spec"] = json!({"resource": {"kind": "Deployment", "name": "web"}});
    let key = world.hub_key(Role::Namespaces, "", "ns-z9");
    assert_eq!(world.hub_has(Role::Bindings, &binding), [], "it has come");
    assert_eq!(world.hub_lost(Role::Bindings, &binding), [key]);
    binding["metadata"]["namespace"] = json!(HUB);
    world.hub_has(Role::Bindings, &binding);
    assert_eq!(
        world.hub_lost(Role::Bindings, &binding),
        [],
        "this one has an origin"
    );
}

#[test]
fn data_is_watched_once_a_deployment_references_some() {
    let mut world = World::fixture();
    let references = |world: &World| world.projects[&shop()].references;
    world.shop_has(Role::Federated(0), &source("web", "DFW"));
    assert!(!references(&world));
    let mut api = source("api", "DFW");
    api["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    world.shop_has(Role::Federated(0), &api);
    assert!(references(&world));
}

#[test]
fn a_deployment_concerns_the_workload_of_its_own_namespace_that_controls_it() {
    let mut world = World::fixture();
    let mut workload = object("elsewhere", "web", "u-workload");
    world.shop_has(Role::Workloads, &workload);
    workload["metadata"]["namespace"] = json!("default");
    workload["metadata"]["uid"] = json!("u-ours");
    world.shop_has(Role::Workloads, &workload);
    let key = |world: &World, namespace: &str| world.workload_key(&shop(), namespace, "web");
    for (uid, wakes) in [("u-workload", false), ("u-ours", true)] {
        let mut of = source(uid, "DFW");
        of["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Workload", "name": "web", "uid": uid, "controller": true}]);
        let woken = world.shop_has(Role::Federated(0), &of);
        assert_eq!(woken.contains(&key(&world, "default")), wakes, "{uid}");
        assert!(!woken.contains(&key(&world, "elsewhere")), "{uid}");
    }
}

#[test]
fn our_finalizer_is_what_holds_a_deployment() {
    let mut world = World::fixture();
    world.shop_has(Role::Federated(0), &source("web", "DFW"));
    let mut foreign = source("api", "DFW");
    foreign["metadata"]["finalizers"] = json!(["example.com/other"]);
    world.shop_has(Role::Federated(0), &foreign);
    let holds = |name| World::holds(world.projects[&shop()].sources[0].get("default", name).unwrap());
    assert!(holds("web") && !holds("api"));
}

#[test]
fn the_workload_controller_writes_the_kind_of_its_group_alone() {
    let kinds = FederatedKind::builtin().unwrap();
    let mut other = kinds.clone();
    other[0].resource.kind = "Gadget".into();
    other.extend(kinds);
    let mut foreign = other.clone();
    foreign[1].resource.group = "example.com".into();
    let of = |kinds| World::new(std::sync::Arc::new(kinds), WorkloadChecks::default()).workload_kind();
    assert_eq!((of(other), of(foreign)), (Some(1), None));
    assert_eq!(World::fixture().plural(Role::Namespaces), "namespaces");
}

#[test]
fn a_claim_is_refused_by_whom_the_namespace_is() {
    let mut world = World::fixture();
    assert!(!world.is_refused(HUB, &zoo()), "it claims nothing");
    with_zoo(&mut world, "z1", "a1");
    assert!(world.is_refused(HUB, &zoo()) && !world.is_refused(HUB, &shop()));
}

#[test]
fn a_claim_that_is_withdrawn_leaves_the_others() {
    let mut world = World::fixture();
    let claims = |world: &World| world.refused_claims().count();
    with_zoo(&mut world, "z1", "a1");
    let another = namespace("aviary", "a1", &json!({}));
    let event = |of: &Value| Event::Applied(Box::new(serde_json::from_value(of.clone()).unwrap()));
    world.project_event(&zoo(), Role::Namespaces, event(&another));
    assert_eq!(claims(&world), 2);
    let gone = Event::Deleted(Box::new(serde_json::from_value(another).unwrap()));
    world.project_event(&zoo(), Role::Namespaces, gone);
    let left: Vec<_> = world.refused_claims().map(|r| r.claimant.namespace).collect();
    assert_eq!(left, ["cages".into()]);
}

#[test]
fn bodies_are_dropped_with_the_tie_and_not_before() {
    let mut world = World::fixture();
    world.hub_has(Role::WrittenBack(0), &object(HUB, "web-0", "u-w"));
    let kept = |world: &World| {
        let row = world.hub.write_backs[0].get(HUB, "web-0");
        row.unwrap().body.is_some()
    };
    assert!(kept(&world));
    with_zoo(&mut world, "z1", "a1");
    assert!(kept(&world), "the claim is refused");
    world.shop_lost(Role::Namespaces, &namespace("default", "a1", &json!({})));
    assert!(!kept(&world));
}

#[test]
fn a_project_that_leaves_wakes_the_namespaces_of_its_twin_alone() {
    let namespaces = |uid: &str| {
        let mut world = World::fixture();
        with_zoo(&mut world, uid, "b2");
        let woken = world.disengage(&zoo()).keys;
        kinds(&woken, &world, &[Role::Namespaces, Role::CityPolicies])
    };
    assert_eq!(namespaces("z1"), [0, 0]);
    assert_eq!(namespaces("p1"), [1, 1], "it has the same UID");
}

#[test]
fn a_projects_hub_keys_are_those_of_its_namespaces_and_of_those_that_bear_its_uid() {
    let mut world = World::fixture();
    with_zoo(&mut world, "z1", "b2");
    let labelled = |name: &str, uid: &str| {
        let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-x", keys::PROJECT_UID: uid});
        namespace(name, &format!("u-{name}"), &labels)
    };
    world.hub_has(Role::Namespaces, &labelled("ns-b2", "z1"));
    world.hub_has(Role::Namespaces, &labelled("ns-left", "p1"));
    let mut unmarked = namespace("ns-none", "u-none", &json!({}));
    unmarked["metadata"]["labels"] = json!({});
    world.hub_has(Role::Namespaces, &unmarked);
    let of = |world: &World, project: &ProjectKey| -> BTreeSet<String> {
        let all = world.hub_keys_of(project);
        let namespaces = all.iter().filter(|key| key.namespace.is_empty());
        namespaces.map(|key| key.name.to_string()).collect()
    };
    assert_eq!(of(&world, &shop()), [HUB.to_owned(), "ns-left".to_owned()].into());
    assert_eq!(of(&world, &zoo()), ["ns-b2".to_owned()].into());
    // One whose UID is not known has those that are tied to it alone.
    world.projects.get_mut(&shop()).unwrap().uid = None;
    assert_eq!(of(&world, &shop()), [HUB.to_owned()].into());
}

#[test]
fn what_is_forgotten_is_of_namespaces_and_projects_that_are_gone() {
    let mut world = World::fixture();
    with_zoo(&mut world, "z1", "b2");
    let own: std::sync::Arc<str> = shop().label().into();
    let limits = [
        (own.clone(), HUB),
        ("cluster-zoo".into(), HUB),
        (own.clone(), "ns-gone"),
    ];
    world
        .limited
        .extend(limits.map(|(label, hub)| (label, hub.into())));
    for plane in [
        Plane::Project(shop()),
        Plane::Project(ProjectKey::parse("gone").unwrap()),
        Plane::Hub,
    ] {
        world.unproven.entry(plane).or_default();
    }
    world.forget_untied();
    assert_eq!(world.limited, [(own, HUB.into())].into_iter().collect());
    let unproven: BTreeSet<Plane> = world.unproven.keys().cloned().collect();
    assert_eq!(unproven, [Plane::Project(shop()), Plane::Hub].into());
}

#[test]
fn a_project_that_was_restored_begins_its_lists_anew_and_the_hub_does_not() {
    let mut world = World::fixture();
    with_zoo(&mut world, "z1", "b2");
    world.shop_has(Role::Federated(0), &source("web", "DFW"));
    let engagement = world.projects[&shop()].engagement;
    assert!(world.rewind(&Plane::Project(shop()), engagement + 100).is_none());
    assert!(world.project_ready(&shop()));
    let now = world.rewind(&Plane::Project(shop()), engagement).unwrap();
    assert!(world.is_engaged(&shop(), now) && !world.is_engaged(&shop(), engagement));
    assert!(!world.project_ready(&shop()) && world.project_ready(&zoo()) && world.hub_ready());
    assert!(
        world.projects[&shop()].sources[0].get("default", "web").is_some(),
        "what was there is kept until the list says otherwise"
    );
    for role in world.project_roles() {
        let live = [
            namespace("kube-system", "p1", &json!({})),
            namespace("default", "a1", &json!({})),
        ];
        // Its versions are lower now.
        let live = live.map(|of| newer(of, "2"));
        let live: &[Value] = if role == Role::Namespaces { &live } else { &[] };
        world.list_shop(role, live);
    }
    assert!(world.project_ready(&shop()));
    assert!(world.projects[&shop()].sources[0].get("default", "web").is_none());
}
