//! What is noted of what was seen, and whose bodies are kept.

use super::*;
use super::{
    super::digest::{SIZE_LIMIT, size_of},
    fixture::{HUB, companion, copy, object, source},
};
use serde_json::Value;

fn with_status(size: u32) -> Value {
    let mut of = copy("web", "DFW");
    of["status"] = json!({"message": ""});
    let least = size_of(&of["status"]);
    of["status"]["message"] = json!("x".repeat((size.max(least) - least) as usize));
    assert_eq!(size_of(&of["status"]), size.max(least));
    of
}

#[test]
fn a_copys_body_is_kept_if_it_is_tied_and_its_status_may_return() {
    let kept = |namespace: &str, size| {
        let mut world = World::fixture();
        let mut of = with_status(size);
        of["metadata"]["namespace"] = json!(namespace);
        world.hub_has(Role::Federated(0), &of);
        world.hub.copies[0].get(namespace, "web").unwrap().body.is_some()
    };
    assert!(kept(HUB, 0) && kept(HUB, SIZE_LIMIT));
    assert!(!kept(HUB, SIZE_LIMIT + 1));
    assert!(!kept("ns-b2", 0), "nobody decides on it");
}

#[test]
fn a_binding_whose_companion_goes_is_noted_and_woken_once() {
    for (kind, role) in [("Secret", Role::Secrets), ("ConfigMap", Role::ConfigMaps)] {
        let mut world = World::fixture();
        let of = companion("db", &json!([]));
        let name = format!("db-{}", kind.to_lowercase());
        let mut bound = object(HUB, &name, "u-binding");
        bound["spec"] = json!({"resource": {"kind": kind, "name": "db"}});
        let key = world.hub_key(Role::Bindings, HUB, &name);
        world.hub_has(role, &of);
        assert!(!world.hub_has(Role::Bindings, &bound).contains(&key), "{kind}");
        assert!(world.hub.outlived.is_empty(), "{kind}");
        assert!(world.hub_lost(role, &of).contains(&key), "{kind}");
        assert_eq!(world.hub.outlived.len(), 1, "{kind}");
        bound["metadata"]["resourceVersion"] = json!("9");
        bound["spec"]["clusters"] = json!([{"name": "a"}]);
        assert!(
            !world.hub_has(Role::Bindings, &bound).contains(&key),
            "{kind}: once"
        );
    }
}

#[test]
fn the_end_of_a_write_back_is_noted_as_long_as_its_projection_is_there() {
    let mut world = World::fixture();
    let (written, projected) = (object(HUB, "web-0", "u-w"), object("default", "web-0", "u-p"));
    world.hub_has(Role::WrittenBack(0), &written);
    world.hub_lost(Role::WrittenBack(0), &written);
    assert!(world.hub.ended.is_empty(), "nothing follows it");
    world.shop_has(Role::WrittenBack(0), &projected);
    let mut again = written.clone();
    again["metadata"]["uid"] = json!("u-again");
    world.hub_has(Role::WrittenBack(0), &again);
    assert!(world.hub.ended.is_empty());
    world.hub_lost(Role::WrittenBack(0), &again);
    assert_eq!(world.hub.ended.len(), 1);
    world.shop_lost(Role::WrittenBack(0), &projected);
    assert!(world.hub.ended.is_empty());
}

#[test]
fn a_departure_is_noted_of_the_deployment_whose_copy_is_there() {
    let departed = |uid: &str| {
        let mut world = World::fixture();
        let mut web = source("web", "DFW");
        web["metadata"]["uid"] = json!(uid);
        world.shop_has(Role::Federated(0), &web);
        world.hub_has(Role::Federated(0), &copy("web", "DFW"));
        world.shop_lost(Role::Federated(0), &web);
        let noted = world.hub.departed.len();
        world.hub_lost(Role::Federated(0), &copy("web", "DFW"));
        assert!(world.hub.departed.is_empty(), "it goes with the copy");
        noted
    };
    assert_eq!((departed("u-web"), departed("u-other")), (1, 0));
}

#[test]
fn the_first_list_of_a_role_is_told_of_and_no_other() {
    let mut world = World::fixture();
    let engagement = world.hub_engagement;
    assert!(world.rewind(&Plane::Hub, engagement).is_some());
    assert!(
        world.rewind(&Plane::Hub, engagement).is_none(),
        "it is another by now"
    );
    for role in world.hub_roles() {
        for first in [true, false] {
            assert!(!world.hub_event(role, Event::Began).synced, "{role:?}");
            assert_eq!(world.hub_event(role, Event::Complete).synced, first, "{role:?}");
        }
    }
}

#[test]
fn who_may_have_no_more_city_sets_is_known_by_project_and_by_the_set_it_waits_for() {
    let mut world = World::fixture();
    let label: Arc<str> = fixture::shop().label().into();
    let (hub, lhr): (Arc<str>, Arc<str>) = (HUB.into(), "lhr".into());
    let key = world.hub_key(Role::Namespaces, "", HUB);
    assert!(!world.is_limited(HUB));
    world.limited.insert((label.clone(), hub.clone()));
    world.limited.insert(("cluster-zoo".into(), "ns-z".into()));
    assert!(
        world.is_limited(HUB) && !world.is_limited("ns-z"),
        "that is not tied"
    );
    assert_eq!(world.limited_keys(&label), std::slice::from_ref(&key));
    assert_eq!(world.limited_keys_for(&label, &lhr), []);
    world.left_at.want(&hub, Some(&lhr));
    assert_eq!(world.limited_keys_for(&label, &lhr), [key]);
    assert_eq!(world.limited_keys_for(&label, &"dfw".into()), []);
}

#[test]
fn a_deployments_body_is_kept_if_it_may_be_carried_and_until_it_is_dropped() {
    let kept = |world: &World| {
        let shop = &world.projects[&fixture::shop()];
        shop.sources[0].get("default", "web").unwrap().body.is_some()
    };
    let mut world = World::fixture();
    world.shop_has(Role::Federated(0), &source("web", "DFW"));
    assert!(kept(&world));
    let key = world.source_key(0, &fixture::shop(), "default", "web");
    world.drop_source(&key, &fixture::shop());
    assert!(!kept(&world));
    world = World::fixture();
    world.largest_spec = 10;
    world.shop_has(Role::Federated(0), &source("web", "DFW"));
    assert!(!kept(&world), "it is too large");
    world = World::fixture();
    world.hub.copies[0].rewind();
    world.shop_has(Role::Federated(0), &source("web", "DFW"));
    assert!(!kept(&world), "nothing is carried yet");
}

#[test]
fn a_write_backs_body_is_kept_until_it_is_dropped() {
    let mut world = World::fixture();
    world.hub_has(Role::WrittenBack(0), &object(HUB, "web-0", "u-w"));
    let kept = |world: &World| world.hub.write_backs[0].get(HUB, "web-0").unwrap().body.is_some();
    assert!(kept(&world));
    world.drop_write_back(&world.hub_key(Role::WrittenBack(0), HUB, "web-0"));
    assert!(!kept(&world));
}

#[test]
fn a_policy_claims_a_binding_until_that_says_otherwise() {
    let mut world = World::fixture();
    let (dfw, lhr): (Arc<str>, Arc<str>) = ("city-dfw".into(), "city-lhr".into());
    let claims = |world: &World| [&dfw, &lhr].map(|policy| world.hub.index.claims(HUB, policy));
    let mut of = fixture::binding("web");
    of["metadata"]["annotations"] = json!({crate::api::keys::CLAIM_NAME: "city-dfw"});
    world.hub_has(Role::Bindings, &of);
    assert_eq!(claims(&world), [true, false]);
    of["metadata"]["annotations"] = json!({crate::api::keys::CLAIM_NAME: "city-lhr"});
    of["metadata"]["resourceVersion"] = json!("7");
    world.hub_has(Role::Bindings, &of);
    assert_eq!(claims(&world), [false, true]);
    world.hub_lost(Role::Bindings, &of);
    assert_eq!(claims(&world), [false, false]);
}

#[test]
fn who_waits_for_a_set_is_woken_when_the_project_has_it_first() {
    let mut world = World::fixture();
    let (hub, lhr): (Arc<str>, Arc<str>) = (HUB.into(), "lhr".into());
    world
        .limited
        .insert((fixture::shop().label().into(), hub.clone()));
    world.left_at.want(&hub, Some(&lhr));
    let key = world.hub_key(Role::Namespaces, "", HUB);
    for (name, first) in [("ns-b2", true), ("ns-c3", false)] {
        let mut of = fixture::hub_namespace("lhr");
        of["metadata"]["name"] = json!(name);
        of["metadata"]["uid"] = json!(format!("u-{name}"));
        assert_eq!(
            world.hub_has(Role::Namespaces, &of).contains(&key),
            first,
            "{name}"
        );
    }
}

#[test]
fn deployments_that_leave_are_counted_until_they_are_gone() {
    let mut world = World::fixture();
    let leaving = |world: &World| world.projects[&fixture::shop()].index.deleting().count();
    world.shop_has(Role::Federated(0), &source("api", "DFW"));
    world.shop_has(Role::Federated(0), &fixture::leaving("web", "DFW"));
    assert_eq!(leaving(&world), 1);
    world.shop_lost(Role::Federated(0), &fixture::leaving("web", "DFW"));
    assert_eq!(leaving(&world), 0);
}
