//! What the index shows of a deployment.

use super::*;
use crate::{
    api::names::CityCode,
    engine::{
        error::{Category, Failure},
        key::Plane,
        queue::Outcome,
        work::outcome,
    },
    gateway::{
        federator::{Federator, arrival, observe::observe},
        policies,
        rig::{Rig, refusal},
        world::{
            Role, World,
            fixture::{self, HUB, hub_namespace, shop},
        },
    },
};
use http::Method;

fn seen(world: &World) -> Snapshot {
    let key = world.source_key(0, &shop(), "default", "web");
    observe(world, &key, &shop()).unwrap()
}

#[test]
fn a_deployment_that_leaves_acts_on_no_hub_namespace_but_its_own() {
    let mut world = World::fixture();
    let mut theirs = hub_namespace("dfw");
    theirs["metadata"]["name"] = json!("ns-b1");
    theirs["metadata"]["labels"][keys::PROJECT_UID] = json!("p2");
    world.hub_has(Role::Namespaces, &theirs);
    let mut copy = fixture::copy("web", "DFW");
    copy["metadata"]["namespace"] = json!("ns-b1");
    copy["metadata"]["annotations"] = json!({});
    world.hub_has(Role::Federated(0), &copy);
    let mut web = fixture::leaving("web", "DFW");
    web["metadata"]["annotations"][keys::FEDERATION_NAMESPACE] = json!("ns-b1");
    world.shop_has(Role::Federated(0), &web);
    let s = seen(&world);
    assert_eq!(s.hub.as_ref().map(HubNamespace::as_str), Some(HUB));
    assert!(s.copy.is_none());
    let mut relabel = |world: &mut World, version: &str, key: &str, value: Option<&str>| {
        theirs["metadata"]["resourceVersion"] = json!(version);
        let labels = theirs["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(key);
        labels.extend(value.map(|value| (key.to_owned(), json!(value))));
        world.hub_has(Role::Namespaces, &theirs);
        seen(world).hub.unwrap().as_str().to_owned()
    };
    let peers = relabel(&mut world, "6", keys::PROJECT_UID, None);
    assert_eq!(peers, "ns-b1", "a peer's, of this project");
    assert_eq!(
        relabel(&mut world, "7", keys::UPSTREAM_CLUSTER, Some("cluster-b")),
        HUB
    );
    let copied = relabel(&mut world, "8", keys::PROJECT_UID, Some("p1"));
    assert_eq!(copied, HUB, "a plane made from a backup has the same UID");
    let own = fixture::shop().label();
    assert_eq!(
        relabel(&mut world, "9", keys::UPSTREAM_CLUSTER, Some(&own)),
        "ns-b1"
    );
    let elsewhere = relabel(&mut world, "10", keys::UPSTREAM_NAMESPACE, Some("other"));
    assert_eq!(elsewhere, HUB, "another namespace's");
}

#[test]
fn a_deployment_that_leaves_waits_for_no_policy_but_ours() {
    let mut world = World::fixture();
    world.shop_has(Role::Federated(0), &fixture::leaving("web", "DFW"));
    world.hub_has(Role::CityPolicies, &fixture::city_policy("mine", "DFW"));
    assert!(!seen(&world).policy_leaving, "nobody deletes it");
    world.hub_lost(Role::CityPolicies, &fixture::city_policy("mine", "DFW"));
    world.hub_has(Role::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    assert!(seen(&world).policy_leaving);
}

#[tokio::test]
async fn a_project_that_has_left_is_forgotten() {
    let rig = Rig::new(World::fixture(), |_, _| panic!("nothing is asked"));
    let federator = Federator::default();
    let key = rig.context.world.lock().source_key(0, &shop(), "default", "web");
    let memory = Memory {
        undelivered: Some(Instant::now()),
        ..Memory::default()
    };
    federator.memory.lock().insert(key, memory);
    federator.prune(&rig.context, &rig.context.world.lock());
    assert_eq!(federator.memory.lock().len(), 1);
    rig.context.world.lock().disengage(&shop());
    federator.prune(&rig.context, &rig.context.world.lock());
    assert_eq!(federator.memory.lock().len(), 0);
}

#[tokio::test]
async fn a_refused_copy_is_asked_for_once_said_once_and_held_in_quarantine() {
    let mut world = World::fixture();
    world.hub_has(Role::CitySets, &fixture::city_set("cities-dfw", &["DFW"]));
    world.hub_has(Role::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    world.shop_has(Role::Federated(0), &fixture::source("web", "DFW"));
    let rig = Rig::new(world, |_, name| {
        if name == "web" {
            return refusal(422, "Invalid", &json!({"name": "web"}));
        }
        let mut told = fixture::source("web", "DFW");
        told["metadata"]["resourceVersion"] = json!("6");
        told["status"] = json!({"conditions": [{"type": "Federated", "status": "False", "reason": "HubRefused",
            "message": "Invalid", "observedGeneration": 1, "lastTransitionTime": "2026-05-04T10:00:00Z"}]});
        (200, told)
    });
    let federator = Federator::default();
    let key = rig.context.world.lock().source_key(0, &shop(), "default", "web");
    let mut turns = Vec::new();
    for _ in 0..2 {
        let turn = rig.turn();
        let result = federator.reconcile(&turn, &key, &shop()).await;
        let outcome = outcome(&key, result, &rig.context.quarantine);
        assert!(
            matches!(outcome, Outcome::Again(after) if after > Duration::from_secs(200)),
            "{outcome:?}"
        );
        let mut asked = rig.asked();
        // The answer is not to the letter what was written, which is one patch more.
        asked.dedup();
        turns.push(asked);
        let held = rig.context.quarantine.counts();
        assert_eq!(
            held.keys().map(|(_, word)| *word).collect::<Vec<_>>(),
            ["refused"]
        );
    }
    assert_eq!(turns, [vec!["PATCH web", "PATCH status", "POST events"], vec![]]);
}

/// What is asked when a deployment leaves whose copy and binding are not seen, and these are what the hub has.
async fn asked_of_the_hub(copy: (u16, Value), bindings: &[Value]) -> Vec<String> {
    let mut world = World::fixture();
    world.shop_has(Role::Federated(0), &fixture::leaving("web", "DFW"));
    let bindings = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": bindings});
    let rig = Rig::new(world, move |method, name| match (method, name) {
        (&Method::GET, "web") => copy.clone(),
        (&Method::GET, "resourcebindings") => (200, bindings.clone()),
        _ => refusal(404, "NotFound", &json!({})),
    });
    let key = rig.context.world.lock().source_key(0, &shop(), "default", "web");
    let _ = Federator::default().reconcile(&rig.turn(), &key, &shop()).await;
    rig.asked()
}

#[tokio::test]
async fn a_deployment_leaves_once_the_hub_says_that_nothing_of_it_is_left() {
    let none = || refusal(404, "NotFound", &json!({}));
    let mut anothers = fixture::copy("web", "DFW");
    anothers["metadata"]["annotations"][keys::SOURCE_UID] = json!("u-anothers");
    let let_go = "PATCH web";
    assert_eq!(
        asked_of_the_hub(none(), &[]).await,
        ["GET web", "GET resourcebindings", let_go]
    );
    let mut binding = fixture::binding("web");
    binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
    binding["kind"] = json!("ResourceBinding");
    assert_eq!(
        asked_of_the_hub(none(), &[binding]).await,
        ["GET web", "GET resourcebindings"]
    );
    assert_eq!(
        asked_of_the_hub((200, fixture::copy("web", "DFW")), &[]).await,
        ["GET web"]
    );
    assert_eq!(asked_of_the_hub((200, anothers), &[]).await, ["GET web", let_go]);
    let refused = refusal(500, "InternalError", &json!({}));
    assert_eq!(asked_of_the_hub(refused, &[]).await, ["GET web"]);
}

#[tokio::test]
async fn a_copy_on_its_way_keeps_its_city_and_is_not_sent_where_that_is_going() {
    let mut world = World::fixture();
    world.hub_has(Role::CitySets, &fixture::city_set("cities-dfw", &["DFW"]));
    world.hub_has(Role::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    world.shop_has(Role::Federated(0), &fixture::source("web", "DFW"));
    let rig = Rig::new(world, |_, _| panic!("nothing is asked"));
    let (turn, dfw) = (rig.turn(), CityCode::parse("DFW").unwrap());
    let s = seen(&rig.context.world.lock());
    let Action::Apply(plan) = decide(&s, &mut Memory::default(), &SETTINGS, now()) else {
        panic!("a copy is made");
    };
    assert_eq!(plan.effects[0].reason, "create_copy");
    let going = (HUB.into(), dfw.clone());
    rig.context.world.lock().condemned.insert(going);
    assert!(!arrival::note_sent(&turn, &s, &plan));
    rig.context.world.lock().condemned.clear();
    assert!(arrival::note_sent(&turn, &s, &plan));
    // The tenant takes it back before there is an answer.
    let leaving = fixture::leaving("web", "DFW");
    rig.context.world.lock().shop_has(Role::Federated(0), &leaving);
    let needed = || policies::needed(&rig.context.world.lock(), HUB, 0, &dfw);
    assert!(needed());
    let failed = |category| Failure {
        plane: Plane::Hub,
        verb: "apply",
        object: "web".into(),
        category,
        message: "it failed".into(),
        retry_after: Duration::ZERO,
    };
    arrival::note_outcome(&turn, &s, Some(&failed(Category::Timeout)));
    assert!(needed(), "it may have arrived");
    rig.woken().await;
    arrival::note_outcome(&turn, &s, Some(&failed(Category::Conflict)));
    assert!(!needed());
    let woken: Vec<_> = rig.woken().await.iter().map(|key| key.kind.to_string()).collect();
    assert_eq!(woken.len(), 2, "the policies and the Namespace: {woken:?}");
}

/// Acceptance 16: what a claim is, whoever lets go of it first.
#[test]
fn a_claim_is_good_only_of_a_policy_that_is_there_and_of_the_copys_city() {
    let mut world = World::fixture();
    world.hub_has(Role::Namespaces, &hub_namespace("dfw-lhr"));
    world.hub_has(Role::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    world.hub_has(Role::CityPolicies, &fixture::city_policy("city-lhr", "LHR"));
    world.shop_has(Role::Federated(0), &fixture::source("web", "DFW"));
    let claims = [
        (None, true),
        (Some("city-dfw"), true),
        (Some("city-lhr"), false),
        (Some("city-gone"), false),
    ];
    for (version, (policy, good)) in (10..).zip(claims) {
        let mut copy = fixture::copy("web", "DFW");
        copy["metadata"]["resourceVersion"] = json!(version.to_string());
        copy["metadata"]["annotations"][keys::CLAIM_NAME] = json!(policy);
        if policy.is_none() {
            copy["metadata"]["annotations"]
                .as_object_mut()
                .unwrap()
                .remove(keys::CLAIM_NAME);
        }
        world.hub_has(Role::Federated(0), &copy);
        assert_eq!(seen(&world).claim_good, good, "{policy:?}");
    }
}
