//! Deployments that want a companion, resolved from the index.

use super::*;
use crate::{
    federator::observe::observe as observe_source,
    index::{
        TableId,
        fixture::{self, HUB, binding, companion, copy, leaving, shop, source},
    },
    rate_limit::Class,
    single_member::referrers::CompanionRef,
    testing::{Rig, refusal},
};
use fedgate_engine::{error::Class as FailureClass, plan::Plan, runtime::driver::reconcile};
use fedgate_kinds::KindId;
use http::Method;
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

fn wanted(index: &GatewayIndex) -> Vec<String> {
    let snapshot = observe(
        index,
        CompanionRef {
            kind: CompanionKind::SECRET,
            hub: HUB,
            name: "db",
        },
        &BTreeSet::new(),
    )
    .unwrap();
    snapshot.wanted_by.into_iter().collect()
}

/// An index with companion `db` of deployment `web`, delivered.
fn delivered(referenced_by: &Value) -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::DEPLOYMENTS, &copy("web", "DFW"));
    index.hub_has(TableId::Bindings, &binding("web"));
    index.hub_has(TableId::SECRETS, &companion("db", referenced_by));
    index
}

#[test]
fn a_deployment_that_vanished_keeps_its_companions_until_copy_and_binding_are_gone() {
    let mut index = delivered(&json!(["default/never", "default/web", "other/web"]));
    let key = index.hub_key(TableId::SECRETS, HUB, "db");
    index.list_shop(TableId::SECRETS, &[]);
    assert_eq!(wanted(&index), ["default/web"]);
    assert!(
        index
            .hub_lost(TableId::DEPLOYMENTS, &copy("web", "DFW"))
            .contains(&key)
    );
    assert_eq!(wanted(&index), ["default/web"], "its binding still delivers");
    assert!(index.hub_lost(TableId::Bindings, &binding("web")).contains(&key));
    assert_eq!(wanted(&index), [""; 0]);
}

#[test]
fn a_namespace_that_is_proven_gone_keeps_them_as_long() {
    let mut index = delivered(&json!(["default/web"]));
    index.list_shop(
        TableId::Namespaces,
        &[fixture::namespace("kube-system", "p1", &json!({}))],
    );
    assert_eq!(wanted(&index), ["default/web"]);
    index.hub_lost(TableId::DEPLOYMENTS, &copy("web", "DFW"));
    assert_eq!(wanted(&index), ["default/web"], "its binding still delivers");
    index.hub_lost(TableId::Bindings, &binding("web"));
    assert_eq!(wanted(&index), [""; 0]);
}

#[test]
fn a_list_without_it_or_a_copy_of_nobody_holds_nothing() {
    let mut index = delivered(&json!(["default/web"]));
    let mut live = source("web", "DFW");
    live["metadata"]["annotations"]["compute.datumapis.com/expected-referenced-data"] = json!("[]");
    index.shop_has(TableId::DEPLOYMENTS, &live);
    assert_eq!(wanted(&index), [""; 0], "its list no longer has it");
    index.shop_lost(TableId::DEPLOYMENTS, &live);
    index.hub_lost(TableId::DEPLOYMENTS, &copy("web", "DFW"));
    let mut nobodys = copy("web", "DFW");
    nobodys["metadata"]["uid"] = json!("c-other");
    nobodys["metadata"]["labels"] = json!({});
    nobodys["metadata"]["annotations"] = json!({});
    index.hub_has(TableId::DEPLOYMENTS, &nobodys);
    assert_eq!(wanted(&index), [""; 0]);
    assert_eq!(index.owners[HUB].project, shop());
    let mut gone = leaving("web", "DFW");
    gone["metadata"]["uid"] = json!("u-later");
    index.shop_has(TableId::DEPLOYMENTS, &gone);
    assert_eq!(
        wanted(&index),
        [""; 0],
        "leaving, and nothing of it is on the hub"
    );
}

/// A deployment of DFW that references Secret `db`, and whose city is ready.
fn referencing() -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::CitySets, &fixture::city_set("cities-dfw", &["DFW"]));
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    let mut web = source("web", "DFW");
    web["metadata"]["annotations"][keys::EXPECTED_REFERENCED_DATA] = json!("[\"Secret/db\"]");
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    index.shop_has(TableId::DEPLOYMENTS, &web);
    index.list_shop(TableId::CONFIG_MAPS, &[]);
    let mut db = fixture::object("default", "db", "u-db");
    db["data"] = json!({"k": "dg=="});
    index.list_shop(TableId::SECRETS, &[db]);
    index
}

/// Reconciles a companion whose name is held by an object with these labels: the requeue, the number of quarantined
/// objects, and whether the name is recorded as taken.
async fn held_by(labels: Value) -> (Requeue, usize, bool) {
    let rig = Rig::new(referencing(), move |method, _| {
        let mut object = fixture::object(HUB, "db", "k-db");
        object["metadata"]["labels"] = labels.clone();
        match method {
            &Method::POST => refusal(409, "AlreadyExists", &json!({"name": "db"})),
            _ => (200, object),
        }
    });
    let key = rig.context.index.lock().hub_key(TableId::SECRETS, HUB, "db");
    let ctx = rig.reconcile_once();
    let next = reconcile(&Companions::default(), &ctx, &key).await.unwrap();
    assert_eq!(rig.asked(), ["GET db", "POST secrets", "GET db"]);
    let taken = !rig.context.index.lock().intents.name_taken.is_empty();
    (next, rig.context.quarantine.counts().len(), taken)
}

#[tokio::test]
async fn a_companion_that_the_hub_refuses_is_known_until_it_takes_it() {
    let open = Arc::new(AtomicBool::new(false));
    let lets = open.clone();
    let rig = Rig::new(referencing(), move |method, _| {
        let mut companion = fixture::companion("db", &json!(["default/web"]));
        companion["data"] = json!({"k": "dg=="});
        match *method {
            Method::POST if !lets.load(Ordering::Relaxed) => refusal(422, "Invalid", &json!({"name": "db"})),
            Method::POST => (201, companion),
            _ => (200, fixture::object("default", "db", "u-db")),
        }
    });
    let (key, web) = {
        let index = rig.context.index.lock();
        let web = index.source_key(KindId::FIRST, &shop(), "default", "web");
        (index.hub_key(TableId::SECRETS, HUB, "db"), web)
    };
    let ctx = rig.reconcile_once();
    reconcile(&Companions::default(), &ctx, &key).await.unwrap_err();
    assert_eq!(rig.context.index.lock().intents.refused[&key], "Invalid");
    assert_eq!(rig.enqueued().await, std::slice::from_ref(&web));
    let seen = observe_source(&rig.context.index.lock(), &web, &shop()).unwrap();
    assert_eq!(
        seen.companions.refused,
        Some(("Secret/db".into(), "Invalid".into()))
    );
    reconcile(&Companions::default(), &ctx, &key).await.unwrap_err();
    assert_eq!(rig.enqueued().await, [], "it is no news");
    open.store(true, Ordering::Relaxed);
    reconcile(&Companions::default(), &ctx, &key).await.unwrap();
    assert!(rig.context.index.lock().intents.refused.is_empty());
    assert!(rig.enqueued().await.contains(&web));
}

#[test]
fn a_companion_that_a_cell_refuses_is_told_of_on_its_deployment() {
    let mut index = referencing();
    index.hub_has(TableId::SECRETS, &companion("db", &json!(["default/web"])));
    let mut binding = fixture::object(HUB, "db-secret", "b-db");
    binding["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Secret", "name": "db", "uid": "k-db"}]);
    binding["spec"] = json!({"resource": {"apiVersion": "v1", "kind": "Secret", "name": "db"}, "clusters": [{"name": "dfw-1"}]});
    let words = "resource(kind=Secret) already exists in the cluster dfw-1";
    binding["status"] =
        json!({"aggregatedStatus": [{"clusterName": "dfw-1", "applied": false, "appliedMessage": words}]});
    let web = index.source_key(KindId::FIRST, &shop(), "default", "web");
    assert!(index.hub_has(TableId::Bindings, &binding).contains(&web));
    let refused = |index: &GatewayIndex| observe_source(index, &web, &shop()).unwrap().companions.unapplied;
    let told = Some(("Secret/db".into(), "dfw-1".into(), words.into()));
    assert_eq!(refused(&index), told);
    binding["metadata"]["resourceVersion"] = json!("9");
    binding["status"]["aggregatedStatus"][0]["applied"] = json!(true);
    assert!(index.hub_has(TableId::Bindings, &binding).contains(&web));
    assert_eq!(refused(&index), None);
}

#[tokio::test]
async fn a_name_is_taken_only_by_an_object_that_is_no_companion() {
    let lost_answer = held_by(json!({keys::REFERENCED_DATA: "true"})).await;
    assert_eq!(lost_answer, (Requeue::AwaitChange, 0, false));
    let theirs = held_by(json!({})).await;
    assert_eq!(theirs, (Requeue::After(RETRY_AFTER), 1, true));
}

#[tokio::test]
async fn a_hub_namespace_that_is_not_there_is_awaited() {
    for (details, class) in [
        (json!({"kind": "namespaces", "name": HUB}), FailureClass::Wait),
        (json!({"kind": "secrets", "name": "db"}), FailureClass::Retry),
    ] {
        let rig = Rig::new(referencing(), move |method, _| match method {
            &Method::POST => refusal(404, "NotFound", &details),
            _ => (200, fixture::object("default", "db", "u-db")),
        });
        let key = rig.context.index.lock().hub_key(TableId::SECRETS, HUB, "db");
        let ctx = rig.reconcile_once();
        let failure = reconcile(&Companions::default(), &ctx, &key).await.unwrap_err();
        assert_eq!(
            (failure.category.class(), failure.retry_after()),
            (class, Duration::ZERO)
        );
    }
}

#[test]
fn nothing_is_made_where_nothing_is_open_and_all_but_a_deletion_takes_a_permit() {
    use super::decide::{class, decide};
    let mut index = delivered(&json!([]));
    let secret =
        json!({"metadata": {"namespace": "default", "name": "db", "uid": "u-db"}, "data": {"a": "Yg=="}});
    index.shop_has(TableId::SECRETS, &secret);
    let mut s = observe(
        &index,
        CompanionRef {
            kind: CompanionKind::SECRET,
            hub: HUB,
            name: "db",
        },
        &BTreeSet::new(),
    )
    .unwrap();
    assert!(s.payload.is_some(), "{s:?}");
    s.wanted_by = ["default/web".to_owned()].into();
    let row = s.row.take();
    s.open = false;
    assert_eq!(decide(&s, None), Decision::Do(Plan::default()));
    s.open = true;
    assert_eq!(decide(&s, None), Decision::Read);
    assert_eq!(class(&s, &Decision::Read), Some(Class::Create));
    s.row = row;
    s.payload = None;
    let counts = decide(&s, None);
    assert_eq!(class(&s, &counts), Some(Class::Update), "{counts:?}");
    s.wanted_by.clear();
    let goes = decide(&s, None);
    assert!(
        matches!(&goes, Decision::Do(plan) if plan.effects.len() == 1),
        "{goes:?}"
    );
    assert_eq!(class(&s, &goes), None);
}
