//! Objects of an earlier project of the same name in a hub namespace, and their cleanup.

use crate::{
    companions,
    index::{
        GatewayIndex, TableId,
        fixture::{self, HUB, namespace, shop},
    },
    namespaces::observe,
    policies,
    queries::lifecycle::earlier_life,
    single_member::referrers::CompanionRef,
};
use fedgate_api::keys;
use fedgate_kinds::CompanionKind;
use serde_json::{Value, json};

/// [`HUB`] in a later version, of a project with this UID.
fn hub(version: &str, project: &str, cities: Option<&str>) -> Value {
    let mut labels = json!({keys::PROJECT_UID: project, keys::UPSTREAM_CLUSTER: shop().label()});
    if let Some(cities) = cities {
        labels[keys::CITIES] = json!(cities);
    }
    let mut hub = namespace(HUB, "u-hub", &labels);
    hub["metadata"]["resourceVersion"] = json!(version);
    hub
}

/// A hub namespace with another project UID. Its project namespace exists again under the same UID, with a new
/// deployment.
fn index() -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    let own = [
        namespace("kube-system", "p2", &json!({})),
        namespace("default", "a1", &json!({})),
    ];
    index.list_shop(TableId::Namespaces, &own);
    index.list_hub(TableId::Namespaces, &[hub("6", "p1", None)]);
    let mut new = fixture::source("web", "DFW");
    new["metadata"]["uid"] = json!("u-new");
    index.list_shop(TableId::DEPLOYMENTS, &[new]);
    index
}

fn copy(source: Option<&str>) -> Value {
    let mut copy = fixture::copy("web", "DFW");
    copy["metadata"]["annotations"] = source.map_or_else(|| json!({}), |uid| json!({keys::SOURCE_UID: uid}));
    copy
}

fn instance(controlled: bool) -> Value {
    let mut instance = fixture::object(HUB, "web-0", "u-instance");
    instance["metadata"]["ownerReferences"] = json!([{"apiVersion": "x/v1", "kind": "WorkloadDeployment",
        "name": "web", "uid": "u", "controller": controlled}]);
    instance
}

fn companion() -> Value {
    fixture::companion("settings", &json!(["default/web"]))
}

#[test]
fn an_earlier_life_lasts_until_all_that_can_be_taken_away_is_gone() {
    let mut index = index();
    assert!(!earlier_life(&index, &shop(), HUB), "the label was edited");
    for (table, one, holds) in [
        (TableId::DEPLOYMENTS, copy(Some("u-dead")), true),
        (TableId::DEPLOYMENTS, copy(None), false),
        (TableId::DEPLOYMENTS, copy(Some("u-new")), false),
        (TableId::INSTANCES, instance(true), true),
        (TableId::INSTANCES, instance(false), false),
        (TableId::CONFIG_MAPS, companion(), true),
        (TableId::Bindings, fixture::binding("web"), true),
    ] {
        index.list_hub(table, std::slice::from_ref(&one));
        assert_eq!(earlier_life(&index, &shop(), HUB), holds, "{one}");
        index.list_hub(table, &[]);
    }
}

#[test]
fn a_write_backs_city_is_held_and_never_brought_in() {
    let mut index = index();
    let in_use = |index: &GatewayIndex| {
        let seen = observe(index, HUB).unwrap();
        seen.in_use.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let written = ["IAD", "LHR"].map(|city| {
        let mut instance = fixture::object(HUB, city, &format!("u-{city}"));
        instance["metadata"]["labels"] = json!({keys::INSTANCE_CITY_CODE: city});
        instance
    });
    index.list_hub(TableId::INSTANCES, &written);
    assert_eq!(
        in_use(&index),
        ["DFW", "IAD", "LHR"],
        "nothing is known of the set"
    );
    index.list_hub(TableId::Namespaces, &[hub("7", "p2", Some("dfw-lhr"))]);
    assert_eq!(in_use(&index), ["DFW", "LHR"]);
}

#[test]
fn an_earlier_lifes_companions_and_policies_go_after_its_copies() {
    let mut index = index();
    let wanted = |index: &GatewayIndex| {
        let seen = companions::observe::observe(
            index,
            CompanionRef {
                kind: CompanionKind::CONFIG_MAP,
                hub: HUB,
                name: "settings",
            },
            &std::collections::BTreeSet::new(),
        )
        .unwrap();
        let policies = policies::observe(index, HUB).unwrap();
        assert!(policies.wanted.is_empty(), "the new life waits");
        (seen.wanted_by.len(), policies.needed.len())
    };
    index.list_hub(TableId::CityPolicies, &[fixture::city_policy("city-dfw", "DFW")]);
    index.list_hub(TableId::DEPLOYMENTS, &[copy(Some("u-dead"))]);
    index.list_hub(TableId::CONFIG_MAPS, &[companion()]);
    assert_eq!(wanted(&index), (1, 1));
    index.list_hub(TableId::DEPLOYMENTS, &[]);
    assert_eq!(wanted(&index), (0, 0));
}
