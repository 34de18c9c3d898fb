//! The snapshot of a deployment from the index.

use super::*;
use crate::route::Route;
use crate::{
    federator::{Federator, arrival, observe::observe},
    index::{
        GatewayIndex, TableId,
        fixture::{self, HUB, hub_namespace, shop},
        intents::Withdrawal,
    },
    testing::{Rig, refusal},
};
use fedgate_api::names::CityCode;
use fedgate_engine::runtime::driver::reconcile;
use fedgate_engine::{
    error::{Category, Failure},
    key::Plane,
    runtime::workers::outcome,
};
use fedgate_kinds::KindId;
use http::Method;

fn seen(index: &GatewayIndex) -> Snapshot {
    let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
    observe(index, &key, &shop()).unwrap()
}

#[test]
fn a_deployment_that_leaves_acts_on_no_hub_namespace_but_its_own() {
    let mut index = GatewayIndex::fixture();
    let mut theirs = hub_namespace("dfw");
    theirs["metadata"]["name"] = json!("ns-b1");
    theirs["metadata"]["labels"][keys::PROJECT_UID] = json!("p2");
    index.hub_has(TableId::Namespaces, &theirs);
    let mut copy = fixture::copy("web", "DFW");
    copy["metadata"]["namespace"] = json!("ns-b1");
    copy["metadata"]["annotations"] = json!({});
    index.hub_has(TableId::DEPLOYMENTS, &copy);
    let mut web = fixture::leaving("web", "DFW");
    web["metadata"]["annotations"][keys::FEDERATION_NAMESPACE] = json!("ns-b1");
    index.shop_has(TableId::DEPLOYMENTS, &web);
    let s = seen(&index);
    assert_eq!(s.hub.as_ref().map(HubNamespace::as_str), Some(HUB));
    assert!(s.copy.is_none());
    let mut relabel = |index: &mut GatewayIndex, version: &str, key: &str, value: Option<&str>| {
        theirs["metadata"]["resourceVersion"] = json!(version);
        let labels = theirs["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(key);
        labels.extend(value.map(|value| (key.to_owned(), json!(value))));
        index.hub_has(TableId::Namespaces, &theirs);
        seen(index).hub.unwrap().as_str().to_owned()
    };
    let peers = relabel(&mut index, "6", keys::PROJECT_UID, None);
    assert_eq!(peers, "ns-b1", "a peer's, of this project");
    assert_eq!(
        relabel(&mut index, "7", keys::UPSTREAM_CLUSTER, Some("cluster-b")),
        HUB
    );
    let copied = relabel(&mut index, "8", keys::PROJECT_UID, Some("p1"));
    assert_eq!(copied, HUB, "a plane made from a backup has the same UID");
    let own = fixture::shop().label();
    assert_eq!(
        relabel(&mut index, "9", keys::UPSTREAM_CLUSTER, Some(&own)),
        "ns-b1"
    );
    let elsewhere = relabel(&mut index, "10", keys::UPSTREAM_NAMESPACE, Some("other"));
    assert_eq!(elsewhere, HUB, "another namespace's");
}

#[test]
fn a_deployment_that_leaves_waits_for_no_policy_but_ours() {
    let mut index = GatewayIndex::fixture();
    index.shop_has(TableId::DEPLOYMENTS, &fixture::leaving("web", "DFW"));
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("mine", "DFW"));
    assert!(!seen(&index).readiness.is_policy_leaving, "nobody deletes it");
    index.hub_lost(TableId::CityPolicies, &fixture::city_policy("mine", "DFW"));
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    assert!(seen(&index).readiness.is_policy_leaving);
}

#[tokio::test]
async fn a_project_that_has_left_is_forgotten() {
    let rig = Rig::new(GatewayIndex::fixture(), |_, _| panic!("nothing is asked"));
    let federator = Federator::default();
    let key = rig
        .context
        .index
        .lock()
        .source_key(KindId::FIRST, &shop(), "default", "web");
    let memory = Memory {
        carrying: Some(Instant::now()),
        ..Memory::default()
    };
    federator.memory.put(&key, memory);
    federator.prune(&rig.context, &rig.context.index.lock());
    assert_eq!(federator.memory.len(), 1);
    rig.context.index.lock().disengage(&shop());
    federator.prune(&rig.context, &rig.context.index.lock());
    assert_eq!(federator.memory.len(), 0);
}

/// An index that lacks only the copy.
fn without_copy() -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::CitySets, &fixture::city_set("cities-dfw", &["DFW"]));
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "DFW"));
    index
}

#[tokio::test]
async fn a_refused_copy_is_asked_for_once_said_once_and_held_in_quarantine() {
    let rig = Rig::new(without_copy(), |_, name| {
        if name == "workloaddeployments" {
            return refusal(422, "Invalid", &json!({"name": "web"}));
        }
        let mut told = fixture::source("web", "DFW");
        told["metadata"]["resourceVersion"] = json!("6");
        told["status"] = json!({"conditions": [{"type": "Federated", "status": "False", "reason": "HubRefused",
            "message": "Invalid", "observedGeneration": 1, "lastTransitionTime": "2026-05-04T10:00:00Z"}]});
        (200, told)
    });
    let federator = Federator::default();
    let key = rig
        .context
        .index
        .lock()
        .source_key(KindId::FIRST, &shop(), "default", "web");
    let mut turns = Vec::new();
    for _ in 0..2 {
        let ctx = rig.reconcile_once();
        let result = reconcile(&federator, &ctx, &key).await;
        let outcome = outcome(&key, result.as_ref(), &rig.context.quarantine);
        assert!(
            matches!(outcome, Ok(Requeue::After(after)) if after > Duration::from_secs(200)),
            "{outcome:?}"
        );
        let mut asked = rig.asked();
        // The answer differs from the written object, which costs one more patch.
        asked.dedup();
        turns.push(asked);
        let held = rig.context.quarantine.counts();
        assert_eq!(
            held.keys().map(|(_, word)| *word).collect::<Vec<_>>(),
            ["refused"]
        );
    }
    let first = vec!["POST workloaddeployments", "PATCH status", "POST events"];
    assert_eq!(turns, [first, vec![]]);
    let source = seen(&rig.context.index.lock()).source.unwrap();
    let memory = federator.memory.take(&key);
    assert!(memory.refuses_spec(&source, rig.reconcile_once().now()));
}

/// The answer to the creation was lost, and the watch of the hub is behind.
#[tokio::test]
async fn a_copy_that_is_there_before_the_index_shows_it_is_read() {
    let rig = Rig::new(without_copy(), |method, name| match (method, name) {
        (&Method::POST, "workloaddeployments") => refusal(409, "AlreadyExists", &json!({"name": "web"})),
        _ => (200, fixture::copy("web", "DFW")),
    });
    let key = rig
        .context
        .index
        .lock()
        .source_key(KindId::FIRST, &shop(), "default", "web");
    let result = reconcile(&Federator::default(), &rig.reconcile_once(), &key).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(rig.asked()[..2], ["POST workloaddeployments", "GET web"]);
    let index = rig.context.index.lock();
    assert!(index.hub.copies[KindId::FIRST].get(HUB, "web").is_some());
    assert_eq!(index.intents.arriving.len(), 0);
}

/// The requests for a deployment that is being deleted and whose copy and binding the index does not show, if the
/// hub has these.
async fn asked_of_the_hub(copy: (u16, Value), bindings: &[Value]) -> Vec<String> {
    let mut index = GatewayIndex::fixture();
    index.shop_has(TableId::DEPLOYMENTS, &fixture::leaving("web", "DFW"));
    let bindings = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": bindings});
    let rig = Rig::new(index, move |method, name| match (method, name) {
        (&Method::GET, "web") => copy.clone(),
        (&Method::GET, "resourcebindings") => (200, bindings.clone()),
        _ => refusal(404, "NotFound", &json!({})),
    });
    let key = rig
        .context
        .index
        .lock()
        .source_key(KindId::FIRST, &shop(), "default", "web");
    let _ = reconcile(&Federator::default(), &rig.reconcile_once(), &key).await;
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
    let rig = Rig::new(without_copy(), |_, _| panic!("nothing is asked"));
    let dfw = Route::City(CityCode::parse("DFW").unwrap());
    let ctx = rig.reconcile_once();
    let s = seen(&rig.context.index.lock());
    let Action::Apply(plan) = decide(&s, &mut Memory::default(), &SETTINGS, now()) else {
        panic!("a copy is made");
    };
    assert_eq!(plan.effects[0].reason.label(), "create_copy");
    let going = (HUB.into(), Withdrawal::Policy("city-dfw".into()));
    rig.context.index.lock().intents.withdrawing.insert(going);
    assert!(!arrival::note_sent(&ctx, &s, &plan));
    rig.context.index.lock().intents.withdrawing.clear();
    assert!(arrival::note_sent(&ctx, &s, &plan));
    // The tenant deletes it before there is an answer.
    let leaving = fixture::leaving("web", "DFW");
    rig.context.index.lock().shop_has(TableId::DEPLOYMENTS, &leaving);
    let needed =
        || crate::queries::cities::policy_needed(&rig.context.index.lock(), HUB, KindId::FIRST, &dfw);
    assert!(needed());
    let failed = |category| Failure {
        plane: Plane::Hub,
        verb: "apply",
        object: "web".into(),
        category,
        message: "it failed".into(),
        retry_after: Duration::ZERO,
    };
    rig.enqueued().await;
    for unknown in [Category::Timeout, Category::NotLeader, Category::CircuitOpen] {
        arrival::note_failed(&ctx, &s, &failed(unknown));
        assert!(needed(), "it may have arrived: {unknown:?}");
        assert_eq!(rig.enqueued().await, [], "{unknown:?}");
    }
    let elsewhere = Failure {
        plane: Plane::Project(shop()),
        ..failed(Category::Conflict)
    };
    arrival::note_failed(&ctx, &s, &elsewhere);
    assert!(
        needed(),
        "a status that the project refuses says nothing of the copy"
    );
    arrival::note_failed(&ctx, &s, &failed(Category::Conflict));
    assert!(!needed());
    let enqueued: Vec<_> = rig
        .enqueued()
        .await
        .iter()
        .map(|key| key.kind.to_string())
        .collect();
    assert_eq!(enqueued.len(), 2, "the policies and the Namespace: {enqueued:?}");
}

/// Acceptance 16: the claim, regardless of which part of it is removed first.
#[test]
fn a_claim_is_good_only_of_a_policy_that_is_there_and_of_the_copys_city() {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::Namespaces, &hub_namespace("dfw-lhr"));
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("city-lhr", "LHR"));
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "DFW"));
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
        index.hub_has(TableId::DEPLOYMENTS, &copy);
        assert_eq!(seen(&index).is_claim_right, good, "{policy:?}");
    }
}
