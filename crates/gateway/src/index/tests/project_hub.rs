//! The hub that a project has, by what its deployments name.

use super::*;
use crate::{
    federator,
    index::{
        apply::Applied,
        derived::project_hub::{NamedHub, OtherHub, Share},
    },
    projector,
};
use fedgate_api::keys;
use fedgate_engine::runtime::index::Index;
use serde_json::Value;

const OWN: &str = "hub-b";

/// A Namespace of a hub, made at a second.
fn of_hub(name: &str, uid: &str, second: i64, replaces: Option<&str>) -> Value {
    let mut object = namespace(name, uid, &json!({}));
    let created = jiff::Timestamp::from_second(second).unwrap();
    object["metadata"]["creationTimestamp"] = json!(created.to_string());
    object["metadata"]["resourceVersion"] = json!(second.to_string());
    if let Some(replaces) = replaces {
        object["metadata"]["annotations"] = json!({keys::REPLACES_HUB: replaces});
    }
    object
}

/// An index whose hub is [`OWN`].
fn fixture() -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::Namespaces, &of_hub("kube-system", OWN, 10, None));
    index
}

/// A deployment that names a hub.
fn of(name: &str, hub: &str) -> Value {
    let mut source = fixture::source(name, "DFW");
    source["metadata"]["annotations"][keys::HUB] = json!(hub);
    source
}

fn other(index: &GatewayIndex) -> Option<(&str, Share)> {
    let other = index.projects[&shop()].other_hub.as_ref()?;
    Some((&other.uid, other.share))
}

/// The result of an event of the project's deployments.
fn told(index: &mut GatewayIndex, event: WatchEvent) -> Applied {
    index.project_event(&shop(), TableId::DEPLOYMENTS, event)
}

fn boxed(object: &Value) -> Box<kube::core::DynamicObject> {
    serde_json::from_value(object.clone()).map(Box::new).unwrap()
}

#[test]
fn a_project_of_which_no_deployment_names_our_hub_is_left_alone() {
    let mut index = fixture();
    let plane = Plane::Project(shop());
    let applied = told(&mut index, WatchEvent::Apply(boxed(&of("api", "hub-a"))));
    assert_eq!(other(&index), Some(("hub-a", Share::Whole)));
    assert_eq!(applied.other_hubs().len(), 1);
    assert!(!index.project_ready(&shop()) && !index.specs_synced(&shop()));
    assert_eq!(index.defect(&plane), Some(OTHER_HUB));
    assert!(index.lacks_proof(HUB).is_some(), "its absence proves nothing");
    // Copies on this hub are marked while it is suspended, whatever its tenant writes.
    index.suspend(&shop(), true);
    assert!(index.project_ready(&shop()));
    index.suspend(&shop(), false);
    assert!(!index.project_ready(&shop()));
    let applied = told(&mut index, WatchEvent::Delete(boxed(&of("api", "hub-a"))));
    assert_eq!(applied.other_hubs(), [(shop(), None)]);
    assert!(applied.synced, "what has waited is decided on");
    assert_eq!((other(&index), index.defect(&plane)), (None, None));
    assert!(index.project_ready(&shop()));
}

#[test]
fn of_two_hubs_that_are_named_the_one_with_more_deployments_has_the_rest() {
    let mut index = fixture();
    let rest = |index: &GatewayIndex| {
        let project = &index.projects[&shop()];
        let row = project.sources[KindId::FIRST].get("default", "new").unwrap();
        index.named_hub(project, "default", row)
    };
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("new", "DFW"));
    index.shop_has(TableId::DEPLOYMENTS, &of("web", OWN));
    assert_eq!((other(&index), rest(&index)), (None, NamedHub::None));
    // Of as many the lower UID.
    index.shop_has(TableId::DEPLOYMENTS, &of("api", "hub-a"));
    assert_eq!(
        (other(&index), rest(&index)),
        (Some(("hub-a", Share::Most)), NamedHub::Other)
    );
    assert!(index.is_complete(&shop()), "its own deployments go on");
    let applied = told(&mut index, WatchEvent::Apply(boxed(&of("db", OWN))));
    assert_eq!(
        (other(&index), rest(&index)),
        (Some(("hub-a", Share::Part)), NamedHub::None)
    );
    assert!(applied.synced, "what has waited is decided on");
    assert_eq!(index.defect(&Plane::Project(shop())), Some(OTHER_HUB));
}

#[test]
fn nothing_is_known_before_the_lists_are_complete() {
    let mut index = fixture();
    index.engage(shop());
    let first = [of("web", "hub-a")];
    index.list_shop(TableId::DEPLOYMENTS, &first);
    assert_eq!(other(&index), None);
    let live = [
        namespace("kube-system", "p1", &json!({})),
        namespace("default", "a1", &json!({})),
    ];
    index.list_shop(TableId::Namespaces, &live);
    assert_eq!(other(&index), Some(("hub-a", Share::Whole)));
    assert!(!index.specs_synced(&shop()));
}

#[test]
fn a_name_that_was_copied_from_another_namespace_does_not_count() {
    let mut index = fixture();
    let mut copied = of("web", "hub-a");
    copied["metadata"]["annotations"][keys::FEDERATION_NAMESPACE] = json!("ns-elsewhere");
    index.shop_has(TableId::DEPLOYMENTS, &copied);
    assert_eq!(other(&index), None);
    // The namespace of that UID is the one in which it is now.
    let mut live = namespace("default", "elsewhere", &json!({}));
    live["metadata"]["resourceVersion"] = json!("7");
    index.shop_has(TableId::Namespaces, &live);
    assert_eq!(other(&index), Some(("hub-a", Share::Whole)));
    index.shop_lost(TableId::Namespaces, &live);
    assert_eq!(
        other(&index),
        Some(("hub-a", Share::Whole)),
        "a namespace that is gone proves nothing"
    );
    let mut again = namespace("default", "a2", &json!({}));
    again["metadata"]["resourceVersion"] = json!("9");
    index.shop_has(TableId::Namespaces, &again);
    assert_eq!(other(&index), None);
    let mut bad = of("web", "no uid!");
    bad["metadata"]["resourceVersion"] = json!("9");
    bad["metadata"]["annotations"][keys::FEDERATION_NAMESPACE] = json!("ns-a2");
    index.shop_has(TableId::DEPLOYMENTS, &bad);
    assert_eq!(other(&index), None, "no UID is written so");
}

#[test]
fn a_hub_takes_the_place_of_those_that_an_operator_names() {
    let mut index = fixture();
    index.shop_has(TableId::DEPLOYMENTS, &of("web", "hub-a"));
    assert_eq!(other(&index), Some(("hub-a", Share::Whole)));
    let system = |second, replaces| of_hub("fedgate-system", "s", second, replaces);
    index.hub_has(TableId::Namespaces, &system(20, Some("hub-x")));
    assert_eq!(other(&index), Some(("hub-a", Share::Whole)));
    index.hub_has(TableId::Namespaces, &system(21, Some("hub-x, hub-a")));
    assert_eq!(other(&index), None);
    let project = &index.projects[&shop()];
    let row = project.sources[KindId::FIRST].get("default", "web").unwrap();
    assert_eq!(index.named_hub(project, "default", row), NamedHub::Replaced);
    assert!(index.is_complete(&shop()));
    index.hub_has(TableId::Namespaces, &system(22, None));
    assert_eq!(other(&index), Some(("hub-a", Share::Whole)));
}

#[test]
fn a_hub_that_is_made_anew_under_a_running_gateway_replaces_the_former() {
    for (second, is_former) in [(2_000, true), (900, false)] {
        let mut index = GatewayIndex::fixture();
        index.clock = fedgate_engine::clock::Clock::of(|| jiff::Timestamp::from_second(1_000).unwrap());
        index.hub_has(TableId::Namespaces, &of_hub("kube-system", "hub-a", 10, None));
        index.shop_has(TableId::DEPLOYMENTS, &of("web", "hub-a"));
        assert_eq!(other(&index), None);
        index.hub_has(TableId::Namespaces, &of_hub("kube-system", OWN, second, None));
        let expected = (!is_former).then_some(("hub-a", Share::Whole));
        assert_eq!(
            other(&index),
            expected,
            "one that is older than this process is another hub"
        );
    }
}

#[test]
fn a_deployment_that_names_another_hub_is_left_to_it() {
    let mut index = fixture();
    index.shop_has(TableId::DEPLOYMENTS, &of("web", OWN));
    index.shop_has(TableId::DEPLOYMENTS, &of("api", OWN));
    index.shop_has(TableId::DEPLOYMENTS, &of("db", "hub-a"));
    let key = |name: &str| index.source_key(KindId::FIRST, &shop(), "default", name);
    let named = |name: &str| {
        let snapshot = federator::observe::observe(&index, &key(name), &shop()).unwrap();
        (
            snapshot.hub_reference.named,
            snapshot.hub_reference.own.as_deref().map(str::to_owned),
        )
    };
    assert_eq!(named("web"), (NamedHub::Ours, Some(OWN.to_owned())));
    assert_eq!(named("db").0, NamedHub::Other);
    let own = OtherHub {
        uid: "hub-a".into(),
        share: Share::Part,
    };
    assert_eq!(index.projects[&shop()].other_hub, Some(own));
    // An Instance that the other gateway has projected has no write-back here.
    let mut projection = fixture::object("default", "db-0", "i-0");
    projection["metadata"]["labels"] = json!({keys::UPSTREAM_CLUSTER: shop().label()});
    projection["metadata"]["ownerReferences"] = json!([{"apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment", "name": "db", "uid": "u-db"}]);
    index.shop_has(TableId::INSTANCES, &projection);
    let instance = index.hub_key(TableId::INSTANCES, HUB, "db-0");
    assert!(projector::observe(&index, &instance).unwrap().of_other_hub);
}
