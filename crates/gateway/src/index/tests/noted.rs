//! Tests of the facts that the index records, and of the bodies that it keeps.

use super::*;
use super::{
    super::rows::size_of,
    fixture::{HUB, companion, copy, namespace, object, shop, source, zoo},
};
use fedgate_engine::{key::Plane, runtime::index::Index};
use fedgate_kinds::KindId;
use serde_json::Value;

/// Largest status of the built-in kind that returns, in bytes.
const LARGEST_STATUS: u32 = 64 * 1024;

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
        let mut index = GatewayIndex::fixture();
        let mut of = with_status(size);
        of["metadata"]["namespace"] = json!(namespace);
        index.hub_has(TableId::DEPLOYMENTS, &of);
        index.hub.copies[KindId::FIRST]
            .get(namespace, "web")
            .unwrap()
            .body
            .is_some()
    };
    assert!(kept(HUB, 0) && kept(HUB, LARGEST_STATUS));
    assert!(!kept(HUB, LARGEST_STATUS + 1));
    assert!(!kept("ns-b2", 0), "nobody decides on it");
}

#[test]
fn a_binding_whose_companion_goes_is_noted_and_woken_once() {
    for (kind, table) in [("Secret", TableId::SECRETS), ("ConfigMap", TableId::CONFIG_MAPS)] {
        let mut index = GatewayIndex::fixture();
        let of = companion("db", &json!([]));
        let name = format!("db-{}", kind.to_lowercase());
        let mut bound = object(HUB, &name, "u-binding");
        bound["spec"] = json!({"resource": {"apiVersion": "v1", "kind": kind, "name": "db"}});
        let key = index.hub_key(TableId::Bindings, HUB, &name);
        index.hub_has(table, &of);
        assert!(!index.hub_has(TableId::Bindings, &bound).contains(&key), "{kind}");
        assert!(index.hub.outlived.is_empty(), "{kind}");
        assert!(index.hub_lost(table, &of).contains(&key), "{kind}");
        assert_eq!(index.hub.outlived.len(), 1, "{kind}");
        bound["metadata"]["resourceVersion"] = json!("9");
        bound["spec"]["clusters"] = json!([{"name": "a"}]);
        assert!(
            !index.hub_has(TableId::Bindings, &bound).contains(&key),
            "{kind}: once"
        );
    }
}

#[test]
fn the_end_of_a_write_back_is_noted_as_long_as_its_projection_is_there() {
    let mut index = GatewayIndex::fixture();
    let (written, projected) = (object(HUB, "web-0", "u-w"), object("default", "web-0", "u-p"));
    index.hub_has(TableId::INSTANCES, &written);
    index.hub_lost(TableId::INSTANCES, &written);
    assert!(index.intents.ended.is_empty(), "nothing follows it");
    index.shop_has(TableId::INSTANCES, &projected);
    let mut again = written.clone();
    again["metadata"]["uid"] = json!("u-again");
    index.hub_has(TableId::INSTANCES, &again);
    assert!(index.intents.ended.is_empty());
    index.hub_lost(TableId::INSTANCES, &again);
    assert_eq!(index.intents.ended.len(), 1);
    // A plane that reports the same UID, and whose claim is refused, says nothing of it.
    index.with_zoo("z1", "a1");
    let its = || Box::new(serde_json::from_value(object("cages", "web-0", "u-z")).unwrap());
    index.project_event(&zoo(), TableId::INSTANCES, WatchEvent::Apply(its()));
    index.project_event(&zoo(), TableId::INSTANCES, WatchEvent::Delete(its()));
    assert_eq!(index.intents.ended.len(), 1);
    index.shop_lost(TableId::INSTANCES, &projected);
    assert!(index.intents.ended.is_empty());
}

#[test]
fn a_departure_is_noted_of_the_deployment_whose_copy_is_there() {
    let departed = |uid: &str| {
        let mut index = GatewayIndex::fixture();
        let mut web = source("web", "DFW");
        web["metadata"]["uid"] = json!(uid);
        index.shop_has(TableId::DEPLOYMENTS, &web);
        index.hub_has(TableId::DEPLOYMENTS, &copy("web", "DFW"));
        index.shop_lost(TableId::DEPLOYMENTS, &web);
        let noted = index.intents.departed.len();
        index.hub_lost(TableId::DEPLOYMENTS, &copy("web", "DFW"));
        assert!(index.intents.departed.is_empty(), "it goes with the copy");
        noted
    };
    assert_eq!((departed("u-web"), departed("u-other")), (1, 0));
}

#[test]
fn the_first_list_of_a_role_is_told_of_and_no_other() {
    let mut index = GatewayIndex::fixture();
    let engagement = index.hub.engagement;
    assert!(index.restart_lists(&Plane::Hub, engagement).is_some());
    assert!(
        index.restart_lists(&Plane::Hub, engagement).is_none(),
        "it is another by now"
    );
    for table in index.hub_tables() {
        for first in [true, false] {
            assert!(!index.hub_event(table, WatchEvent::Init).synced, "{table:?}");
            assert_eq!(
                index.hub_event(table, WatchEvent::InitDone).synced,
                first,
                "{table:?}"
            );
        }
    }
}

#[test]
fn who_may_have_no_more_city_sets_is_known_by_project_and_by_the_set_it_waits_for() {
    let mut index = GatewayIndex::fixture();
    let label: Arc<str> = fixture::shop().label().into();
    let (hub, lhr): (Arc<str>, Arc<str>) = (HUB.into(), "lhr".into());
    let key = index.hub_key(TableId::Namespaces, "", HUB);
    assert!(!index.is_limited(HUB));
    index.intents.limited.insert((label.clone(), hub.clone()));
    index
        .intents
        .limited
        .insert(("cluster-zoo".into(), "ns-z".into()));
    assert!(
        index.is_limited(HUB) && !index.is_limited("ns-z"),
        "that is not tied"
    );
    assert_eq!(index.limited_keys(&label, None), std::slice::from_ref(&key));
    assert_eq!(index.limited_keys(&label, Some(&lhr)), []);
    index.intents.deliveries.want(&hub, Some(&lhr));
    assert_eq!(index.limited_keys(&label, Some(&lhr)), [key]);
    assert_eq!(index.limited_keys(&label, Some(&"dfw".into())), []);
}

#[test]
fn a_deployments_body_is_kept_if_it_may_be_carried_and_until_it_is_dropped() {
    let kept = |index: &GatewayIndex| {
        let shop = &index.projects[&fixture::shop()];
        shop.sources[KindId::FIRST]
            .get("default", "web")
            .unwrap()
            .body
            .is_some()
    };
    let mut index = GatewayIndex::fixture();
    index.shop_has(TableId::DEPLOYMENTS, &source("web", "DFW"));
    assert!(kept(&index));
    let key = index.source_key(KindId::FIRST, &fixture::shop(), "default", "web");
    index.drop_source(&key, &fixture::shop());
    assert!(!kept(&index));
    index = GatewayIndex::fixture();
    index.largest_spec = 10;
    index.shop_has(TableId::DEPLOYMENTS, &source("web", "DFW"));
    assert!(!kept(&index), "it is too large");
    index = GatewayIndex::fixture();
    index.hub.copies[KindId::FIRST].rewind();
    index.shop_has(TableId::DEPLOYMENTS, &source("web", "DFW"));
    assert!(!kept(&index), "nothing is carried yet");
}

#[test]
fn a_write_backs_body_is_kept_until_it_is_dropped() {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::INSTANCES, &object(HUB, "web-0", "u-w"));
    let kept = |index: &GatewayIndex| {
        index.hub.write_backs[KindId::FIRST]
            .get(HUB, "web-0")
            .unwrap()
            .body
            .is_some()
    };
    assert!(kept(&index));
    index.drop_write_back(&index.hub_key(TableId::INSTANCES, HUB, "web-0"));
    assert!(!kept(&index));
}

#[test]
fn a_policy_claims_a_binding_until_that_says_otherwise() {
    let mut index = GatewayIndex::fixture();
    let (dfw, lhr): (Arc<str>, Arc<str>) = ("city-dfw".into(), "city-lhr".into());
    let claims = |index: &GatewayIndex| [&dfw, &lhr].map(|policy| index.hub.secondary.claims(HUB, policy));
    let mut of = fixture::binding("web");
    of["metadata"]["annotations"] = json!({fedgate_api::keys::CLAIM_NAME: "city-dfw"});
    index.hub_has(TableId::Bindings, &of);
    assert_eq!(claims(&index), [true, false]);
    of["metadata"]["annotations"] = json!({fedgate_api::keys::CLAIM_NAME: "city-lhr"});
    of["metadata"]["resourceVersion"] = json!("7");
    index.hub_has(TableId::Bindings, &of);
    assert_eq!(claims(&index), [false, true]);
    index.hub_lost(TableId::Bindings, &of);
    assert_eq!(claims(&index), [false, false]);
}

#[test]
fn who_waits_for_a_set_is_woken_when_the_project_has_it_first() {
    let mut index = GatewayIndex::fixture();
    let (hub, lhr): (Arc<str>, Arc<str>) = (HUB.into(), "lhr".into());
    index
        .intents
        .limited
        .insert((fixture::shop().label().into(), hub.clone()));
    index.intents.deliveries.want(&hub, Some(&lhr));
    let key = index.hub_key(TableId::Namespaces, "", HUB);
    for (name, first) in [("ns-b2", true), ("ns-c3", false)] {
        let mut of = fixture::hub_namespace("lhr");
        of["metadata"]["name"] = json!(name);
        of["metadata"]["uid"] = json!(format!("u-{name}"));
        assert_eq!(
            index.hub_has(TableId::Namespaces, &of).contains(&key),
            first,
            "{name}"
        );
    }
}

#[test]
fn deployments_that_leave_are_counted_until_they_are_gone() {
    let mut index = GatewayIndex::fixture();
    let leaving = |index: &GatewayIndex| index.summary.deletions(Some(&fixture::shop())).count();
    index.shop_has(TableId::DEPLOYMENTS, &source("api", "DFW"));
    index.shop_has(TableId::DEPLOYMENTS, &fixture::leaving("web", "DFW"));
    assert_eq!(leaving(&index), 1);
    index.shop_lost(TableId::DEPLOYMENTS, &fixture::leaving("web", "DFW"));
    assert_eq!(leaving(&index), 0);
}

#[test]
fn a_project_that_nothing_identifies_says_so_until_it_is_identified() {
    let mut index = GatewayIndex::fixture();
    let plane = Plane::Project(shop());
    assert_eq!(index.defect(&plane), None);
    index.engage(shop());
    assert_eq!(index.defect(&plane), None, "its namespaces have not been read");
    index.list_shop(TableId::Namespaces, &[namespace("default", "a1", &json!({}))]);
    let defect = index.defect(&plane).unwrap();
    assert_eq!(defect.word, "no_project_uid");
    assert!(defect.text.contains("kube-system") && defect.next.contains("kube-system"));
    assert!(!index.project_ready(&shop()));
    index.shop_has(TableId::Namespaces, &namespace("kube-system", "p2", &json!({})));
    assert_eq!(index.defect(&plane), None);
    assert_eq!(index.defect(&Plane::Hub), None);
}

#[test]
fn the_uid_that_a_platform_gives_stays() {
    let mut index = GatewayIndex::fixture();
    index.engage_identified(shop(), Some("m1".into()));
    let live = [
        namespace("kube-system", "p1", &json!({})),
        namespace("default", "a1", &json!({})),
    ];
    for (number, of) in [(1, &live[1..]), (2, &live[..])] {
        index.list_shop(TableId::Namespaces, of);
        assert_eq!(
            index.projects[&shop()].uid.as_deref(),
            Some("m1"),
            "list {number}"
        );
        assert_eq!(index.defect(&Plane::Project(shop())), None);
    }
}

#[test]
fn a_binding_is_that_of_its_kind_though_another_group_has_one_of_that_name() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interpreters");
    let kinds = fedgate_kinds::Kinds::load_dir(&folder).unwrap().federated;
    let clusters: Vec<_> = kinds
        .into_iter()
        .filter(|kind| kind.resource.kind == "Cluster")
        .collect();
    assert_eq!(clusters.len(), 2);
    let mut index = GatewayIndex::new(std::sync::Arc::new(clusters.into()), WorkloadChecks::default());
    for table in index.hub_tables() {
        index.list_hub(table, &[]);
    }
    for kind in index.kinds.ids().collect::<Vec<_>>() {
        let api_version = index.kinds[kind].resource.api_version.clone();
        let name = format!("db-{kind:?}").to_lowercase().replace(['(', ')'], "");
        let copy = object(HUB, &name, "u-copy");
        index.hub_has(TableId::Federated(kind), &copy);
        let mut bound = object(HUB, &format!("{name}-cluster"), &format!("u-{name}"));
        bound["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api_version, "kind": "Cluster", "name": name, "uid": "u-copy"}]);
        bound["spec"] = json!({"resource": {"apiVersion": api_version, "kind": "Cluster", "name": name}});
        index.hub_has(TableId::Bindings, &bound);
        assert!(index.hub.outlived.is_empty(), "{api_version}");
    }
}
