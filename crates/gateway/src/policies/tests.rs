//! Decisions on city policies: the exact effects, and no others.

use super::{
    decide::{Policies, Snapshot, decide, name_for, withdrawing},
    observe,
};
use crate::{
    index::{
        GatewayIndex, Resources, TableId, fixture, intents::Withdrawal, networking::WorkloadChecks,
        rows::CityPolicy,
    },
    policy_spec,
    route::Route,
    testing::Rig,
};
use fedgate_api::{
    keys,
    names::{CityCode, LocationName, ProjectKey},
};
use fedgate_engine::runtime::driver::reconcile;
use fedgate_engine::{
    plan::{Effect, Requeue, Write},
    plane::watch::WatchEvent,
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// The route of a city, or of a location if the text has a dash.
fn route(text: &str) -> Route {
    if text.contains('-') {
        Route::Location(LocationName::of_word(text.into()).unwrap())
    } else {
        Route::City(CityCode::parse(text).unwrap())
    }
}

fn routes(texts: &[&str]) -> BTreeSet<Route> {
    texts.iter().map(|text| route(text)).collect()
}

fn policy(name: &str, selects: Option<&str>, exact: bool) -> (Arc<str>, Row<CityPolicy>) {
    let selects = selects.map(route);
    let spec = |route| policy_spec::route_spec(&FederatedKind::builtin().unwrap()[0], "ns-a1", route);
    let digest = CityPolicy {
        is_intruder: false,
        spec: selects
            .as_ref()
            .filter(|_| exact)
            .map(|route| policy_spec::digest(&spec(route))),
        selects: selects.map(|route| (KindId::FIRST, route)),
        is_delivery: false,
    };
    (
        name.into(),
        Row {
            uid: "u".into(),
            version: 7,
            deleting: false,
            partial: false,
            digest,
            body: None,
        },
    )
}

fn snapshot(used: &[&str], policies: Vec<(Arc<str>, Row<CityPolicy>)>) -> Snapshot {
    let kind = &FederatedKind::builtin().unwrap()[0];
    let (used, policies): (_, Policies) = (routes(used), policies.into_iter().collect());
    let named = |route| name_for(&policies, (KindId::FIRST, kind), route, &used);
    let wanted = used
        .iter()
        .map(|route| (named(route), policy_spec::route_spec(kind, "ns-a1", route)));
    Snapshot {
        proven: true,
        kinds: Arc::new(FederatedKind::builtin().unwrap().into()),
        resource: Resources::default()[TableId::CityPolicies].clone(),
        namespace: "ns-a1".into(),
        open: true,
        wanted: wanted.collect(),
        needed: BTreeSet::new(),
        policies,
    }
}

fn done(s: &Snapshot) -> Vec<(String, &'static str)> {
    decide(s)
        .effects
        .into_iter()
        .map(|e: Effect| (e.target.name, e.reason.label()))
        .collect()
}

/// A deployment runs at one cell (serving.md §1).
fn one() -> Value {
    json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}])
}

#[test]
fn a_city_in_use_gets_exactly_its_policy() {
    let plan = decide(&snapshot(&["DFW"], vec![]));
    assert_eq!(plan.effects.len(), 1);
    let Write::Apply { body, .. } = &plan.effects[0].write else {
        panic!("{plan:?}")
    };
    let labels = json!({"topology.datum.net/city-code": "DFW"});
    assert_eq!(
        body,
        &json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "city-dfw", "namespace": "ns-a1"},
            "spec": {"propagateDeps": true,
                "resourceSelectors": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                    "namespace": "ns-a1", "labelSelector": {"matchLabels": labels}}],
                "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": labels}}, "spreadConstraints": one()}}})
    );
}

/// locations.md §4, 2: the shape of a city's policy, with the other label.
#[test]
fn a_location_in_use_gets_exactly_its_policy_beside_that_of_its_city() {
    let plan = decide(&snapshot(&["us-south-1", "DFW"], vec![]));
    let made: Vec<_> = plan.effects.iter().map(|effect| &*effect.target.name).collect();
    assert_eq!(made, ["city-dfw", "location-us-south-1"]);
    let Write::Apply { body, .. } = &plan.effects[1].write else {
        panic!("{plan:?}")
    };
    let labels = json!({"topology.datum.net/location": "us-south-1"});
    assert_eq!(
        body["spec"],
        json!({"propagateDeps": true,
            "resourceSelectors": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                "namespace": "ns-a1", "labelSelector": {"matchLabels": labels}}],
            "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": labels}}, "spreadConstraints": one()}})
    );
    // The policy as it was written is read as the location's.
    let mut written = body.clone();
    written["metadata"]["uid"] = json!("u");
    let read = CityPolicy::read(
        &serde_json::from_value(written).unwrap(),
        &FederatedKind::builtin().unwrap().into(),
    );
    assert_eq!(read.selects, Some((KindId::FIRST, route("us-south-1"))));
    assert_eq!(read.spec, Some(policy_spec::digest(&body["spec"])));
    assert!(read.is_ours("location-us-south-1", &FederatedKind::builtin().unwrap().into()));
    assert!(!read.is_ours("city-us-south-1", &FederatedKind::builtin().unwrap().into()));
}

#[test]
fn the_policy_of_a_location_goes_when_no_copy_takes_its_route() {
    let both = || {
        vec![
            policy("city-dfw", Some("DFW"), true),
            policy("location-us-south-1", Some("us-south-1"), true),
            policy("us-south-2", Some("us-south-2"), true),
        ]
    };
    assert_eq!(
        done(&snapshot(&["DFW"], both())),
        [("location-us-south-1".into(), "delete_city_policy")],
        "the third is not ours"
    );
    assert_eq!(
        done(&snapshot(&["us-south-1"], both())),
        [("city-dfw".into(), "delete_city_policy")]
    );
}

/// A policy that selects by both labels, or the city of a kind without locations by the other, is not of our form.
#[test]
fn a_policy_of_two_labels_is_no_route() {
    let kinds = FederatedKind::builtin().unwrap().into();
    let mut spec = policy_spec::route_spec(&FederatedKind::builtin().unwrap()[0], "ns-a1", &route("DFW"));
    spec["resourceSelectors"][0]["labelSelector"]["matchLabels"]["topology.datum.net/location"] =
        json!("us-south-1");
    let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "city-dfw", "namespace": "ns-a1"}, "spec": spec});
    let read = CityPolicy::read(&serde_json::from_value(object).unwrap(), &kinds);
    assert_eq!(read.selects, None);
}

#[test]
fn at_rest_nothing_is_written_and_an_unused_policy_goes_by_version() {
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", Some("DFW"), true)])),
        []
    );
    let plan = decide(&snapshot(&[], vec![policy("city-dfw", Some("DFW"), true)]));
    assert_eq!(
        plan.effects[0].write,
        Write::Delete {
            uid: "u".into(),
            resource_version: Some("7".into())
        }
    );
    let mut claimed = snapshot(&[], vec![policy("city-dfw", Some("DFW"), true)]);
    claimed.needed = ["city-dfw".into()].into();
    assert_eq!(done(&claimed), [], "a binding still claims it");
    assert_eq!(
        done(&snapshot(
            &[],
            vec![policy("mine", None, false), policy("other", Some("DFW"), true)]
        )),
        []
    );
}

#[test]
fn two_codes_of_one_plain_name_never_share_a_policy() {
    let first = done(&snapshot(&["DFW", "dfw"], vec![]));
    assert_eq!(first.iter().filter(|(name, _)| name == "city-dfw").count(), 1);
    assert_eq!(first.len(), 2);
    let held = done(&snapshot(
        &["DFW", "dfw"],
        vec![policy("city-dfw", Some("dfw"), true)],
    ));
    assert_eq!(held.len(), 1);
    assert!(held[0].0.starts_with("city-dfw."), "{held:?}");
}

#[test]
fn an_edited_policy_is_restored_under_its_name() {
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", Some("DFW"), false)])),
        [("city-dfw".into(), "restore_city_policy")]
    );
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", Some("LHR"), false)])),
        [("city-dfw".into(), "restore_city_policy")]
    );
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", None, false)])),
        [("city-dfw".into(), "restore_city_policy")]
    );
}

#[test]
fn a_policy_that_terminates_is_awaited() {
    for exact in [true, false] {
        let mut leaving = policy("city-dfw", Some("DFW"), exact);
        leaving.1.deleting = true;
        assert_eq!(done(&snapshot(&["DFW"], vec![leaving.clone()])), []);
        assert_eq!(done(&snapshot(&[], vec![leaving])), []);
    }
}

#[test]
fn nothing_is_made_without_a_namespace_that_takes_it() {
    let mut closed = snapshot(&["DFW"], vec![]);
    closed.open = false;
    assert_eq!(done(&closed), []);
}

#[test]
fn nobody_may_rely_on_a_policy_that_is_taken_away() {
    let s = snapshot(
        &["DFW"],
        vec![
            policy("city-dfw", Some("DFW"), false),
            policy("city-lhr", Some("LHR"), true),
        ],
    );
    let plan = decide(&s);
    let reasons: Vec<_> = plan.effects.iter().map(|e| e.reason.label()).collect();
    assert_eq!(reasons, ["restore_city_policy", "delete_city_policy"]);
    assert_eq!(withdrawing(&plan), [Withdrawal::Policy("city-lhr".into())]);
}

fn list(feed: &mut dyn FnMut(WatchEvent), objects: &[Value]) {
    feed(WatchEvent::Init);
    for o in objects {
        let object: DynamicObject = serde_json::from_value(o.clone()).unwrap();
        feed(WatchEvent::InitApply(Box::new(object)));
    }
    feed(WatchEvent::InitDone);
}

#[test]
fn a_policy_is_let_go_only_when_its_project_can_be_seen() {
    let kinds: Arc<PerKind<FederatedKind>> = Arc::new(FederatedKind::builtin().unwrap().into());
    let mut index = GatewayIndex::new(kinds.clone(), WorkloadChecks::default());
    let namespace = |name: &str, uid: &str, labels: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "resourceVersion": "5", "labels": labels}})
    };
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "city-dfw", "namespace": "ns-a1", "uid": "u", "resourceVersion": "7"},
        "spec": policy_spec::route_spec(&kinds[KindId::FIRST], "ns-a1", &route("DFW"))});
    for table in index.hub_tables() {
        assert!(observe(&index, "ns-a1").is_none(), "a list of the hub is missing");
        let objects = match table {
            TableId::Namespaces => vec![namespace(
                "ns-a1",
                "u-hub",
                json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-shop"}),
            )],
            TableId::CityPolicies => vec![policy.clone()],
            _ => vec![],
        };
        list(&mut |event| drop(index.hub_event(table, event)), &objects);
    }
    let shop = ProjectKey::parse("shop").unwrap();
    let unseen = observe(&index, "ns-a1").unwrap();
    assert_eq!(done(&unseen), [], "the project is not engaged");
    index.engage(shop.clone());
    let live = [
        namespace("kube-system", "p1", json!({})),
        namespace("default", "a1", json!({})),
    ];
    list(
        &mut |event| drop(index.project_event(&shop, TableId::Namespaces, event)),
        &live,
    );
    assert!(
        observe(&index, "ns-a1").is_none(),
        "a list of the project is missing"
    );
    for table in index.project_tables() {
        let objects = if table == TableId::Namespaces {
            &live[..]
        } else {
            &[]
        };
        list(
            &mut |event| drop(index.project_event(&shop, table, event)),
            objects,
        );
    }
    let seen = observe(&index, "ns-a1").unwrap();
    assert_eq!(done(&seen), [("city-dfw".into(), "delete_city_policy")]);
    list(
        &mut |event| drop(index.project_event(&shop, TableId::Namespaces, event)),
        &live[..1],
    );
    let gone = observe(&index, "ns-a1").unwrap();
    assert_eq!(
        done(&gone),
        [("city-dfw".into(), "delete_city_policy")],
        "its namespace is gone"
    );
}

#[tokio::test]
async fn a_deployment_that_waits_for_a_policy_to_go_is_told_that_it_stays() {
    let mut index = GatewayIndex::fixture();
    let first = fixture::leaving("first", "DFW");
    index.shop_has(TableId::DEPLOYMENTS, &first);
    index.shop_has(TableId::DEPLOYMENTS, &fixture::leaving("delivered", "DFW"));
    index.hub_has(TableId::Bindings, &fixture::binding("delivered"));
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("second", "DFW"));
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    let key = index.source_key(KindId::FIRST, &fixture::shop(), "default", "first");
    let rig = Rig::new(index, |_, _| panic!("nothing is asked"));
    let ctx = rig.reconcile_once();
    let policies = ctx.index.lock().hub_key(TableId::CityPolicies, fixture::HUB, "");
    let next = reconcile(&super::Policies, &ctx, &policies).await.unwrap();
    assert_eq!((next, rig.enqueued().await), (Requeue::AwaitChange, vec![key]));
}

#[test]
fn no_policy_is_made_in_a_namespace_that_names_another_owner() {
    let mut index = GatewayIndex::fixture();
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "DFW"));
    let create = [("city-dfw".into(), "create_city_policy")];
    assert_eq!(done(&observe(&index, fixture::HUB).unwrap()), create);
    let mut version = 5;
    let mut labelled = |labels: Value| {
        version += 1;
        let mut peers = fixture::namespace(fixture::HUB, "u-hub", &labels);
        peers["metadata"]["resourceVersion"] = json!(version.to_string());
        index.hub_has(TableId::Namespaces, &peers);
        done(&observe(&index, fixture::HUB).unwrap())
    };
    assert_eq!(labelled(json!({keys::UPSTREAM_CLUSTER: "cluster-other"})), []);
    assert_eq!(
        labelled(json!({keys::UPSTREAM_CLUSTER: "cluster-shop"})),
        create,
        "a peer's, of this project"
    );
}

#[test]
fn a_policy_under_our_name_that_goes_is_waited_for() {
    let mut going = policy("city-dfw", None, true);
    going.1.deleting = true;
    assert_eq!(done(&snapshot(&["DFW"], vec![going])), []);
    let taken = policy("city-dfw", None, true);
    let restored = [("city-dfw".to_owned(), "restore_city_policy")];
    assert_eq!(done(&snapshot(&["DFW"], vec![taken])), restored);
}
