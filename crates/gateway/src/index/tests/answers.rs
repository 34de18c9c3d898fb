//! Tests of the index queries: cities that copies may go to, keys that wait for an object, rejected claims.

use super::{
    super::watches::Command,
    fixture::{HUB, city_policy, hub_namespace, object, shop, source, zoo},
    *,
};
use crate::route::CityRoute;
use fedgate_api::keys;
use fedgate_engine::{key::Plane, runtime::index::Index};
use fedgate_kinds::{CompanionKind, KindId};
use serde_json::Value;

fn newer(mut object: Value, version: &str) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

fn leaves(object: Value) -> Value {
    let mut object = newer(object, "8");
    object["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    object
}

fn kinds(keys: &[Key], index: &GatewayIndex, tables: &[TableId]) -> Vec<usize> {
    let kind = |role: &TableId| index.hub_key(*role, "", "x").kind;
    let count = |table: &TableId| keys.iter().filter(|key| key.kind == kind(table)).count();
    tables.iter().map(count).collect()
}

#[test]
fn a_city_is_ready_with_its_namespace_and_both_policies_and_while_none_of_them_goes() {
    let to = |code: &str| CityRoute::to_city(CityCode::parse(code).unwrap());
    let (dfw, lhr) = (to("DFW"), to("LHR"));
    let ready = |index: &GatewayIndex| [&dfw, &lhr].map(|to| index.is_ready(KindId::FIRST, HUB, to));
    let set = city_set("cities-dfw", &["DFW"]);
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::CityPolicies, &city_policy("dfw", "DFW"));
    assert_eq!(ready(&index), [false, false], "no policy brings the Namespace");
    index.hub_has(TableId::CitySets, &set);
    assert_eq!(ready(&index), [true, false]);
    index.hub_has(TableId::CityPolicies, &city_policy("lhr", "LHR"));
    assert_eq!(ready(&index), [true, false], "its Namespace does not go there");
    assert_eq!(
        index
            .policy_of(KindId::FIRST, HUB, &lhr.route)
            .map(|(name, _)| &**name),
        Some("lhr"),
        "not the first one of the kind"
    );
    assert!(
        index.policy_of(KindId::nth(1), HUB, &lhr.route).is_none(),
        "it is of another kind"
    );
    index.hub_has(TableId::CityPolicies, &leaves(city_policy("dfw", "DFW")));
    assert_eq!(ready(&index), [false, false], "the city's policy goes");
    let again = newer(city_policy("dfw", "DFW"), "9");
    index.hub_has(TableId::CityPolicies, &again);
    assert_eq!(ready(&index), [true, false]);
    index.hub_lost(TableId::CityPolicies, &newer(again, "10"));
    assert_eq!(ready(&index), [false, false], "the city has none");
    index.hub_has(TableId::CityPolicies, &newer(city_policy("dfw-2", "DFW"), "11"));
    assert_eq!(ready(&index), [true, false]);
    index.hub_has(TableId::CitySets, &leaves(set));
    assert_eq!(ready(&index), [false, false], "the set's policy goes");
}

#[test]
fn a_hub_namespaces_change_is_looked_at_by_all_that_may_wait_for_it() {
    let mut index = GatewayIndex::fixture();
    let mut web = source("web", "DFW");
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    index.shop_has(TableId::DEPLOYMENTS, &web);
    let deployment = index.source_key(KindId::FIRST, &shop(), "default", "web");
    let data = index.hub_key(TableId::SECRETS, HUB, "db");
    assert_eq!(index.waiting_keys(HUB), [deployment.clone(), data.clone()]);
    assert_eq!(index.waiting_keys("ns-b2"), []);
    let enqueued = index.hub_has(TableId::Namespaces, &newer(hub_namespace("lhr"), "6"));
    assert!(
        enqueued.contains(&deployment) && enqueued.contains(&data),
        "{enqueued:?}"
    );
    // Reassigning the Namespace to another project and back enqueues the deployment too.
    let mut index = GatewayIndex::fixture();
    index.with_zoo("z1", "a1");
    index.shop_has(TableId::DEPLOYMENTS, &web);
    let given = |to: &str, version: &str| {
        let mut given = newer(hub_namespace("dfw"), version);
        given["metadata"]["annotations"] = json!({keys::REASSIGN_TO: to});
        given
    };
    index.hub_has(TableId::Namespaces, &given("zoo", "7"));
    assert!(index.is_owned_by(HUB, &zoo()));
    assert_eq!(index.waiting_keys(HUB), [], "zoo has none");
    let enqueued = index.hub_has(TableId::Namespaces, &given("shop", "8"));
    assert!(enqueued.contains(&deployment));
}

#[test]
fn the_last_binding_of_a_namespace_without_origin_wakes_it_also_if_its_kind_is_unknown() {
    let mut index = GatewayIndex::fixture();
    let mut binding = object("ns-z9", "web-deployment", "b-1");
    binding["spec"] = json!({"resource": {"kind": "Deployment", "name": "web"}});
    let key = index.hub_key(TableId::Namespaces, "", "ns-z9");
    assert_eq!(index.hub_has(TableId::Bindings, &binding), [], "it has come");
    assert_eq!(index.hub_lost(TableId::Bindings, &binding), [key]);
    binding["metadata"]["namespace"] = json!(HUB);
    index.hub_has(TableId::Bindings, &binding);
    assert_eq!(
        index.hub_lost(TableId::Bindings, &binding),
        [],
        "this one has an origin"
    );
}

#[test]
fn data_is_watched_once_a_deployment_references_some() {
    let mut index = GatewayIndex::fixture();
    let references = |index: &GatewayIndex| index.projects[&shop()].references;
    index.shop_has(TableId::DEPLOYMENTS, &source("web", "DFW"));
    assert!(references(&index).is_empty());
    let mut api = source("api", "DFW");
    api["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    index.shop_has(TableId::DEPLOYMENTS, &api);
    let both: Vec<_> = references(&index).iter().collect();
    assert_eq!(both, [CompanionKind::CONFIG_MAP, CompanionKind::SECRET]);
}

#[test]
fn data_is_watched_again_after_a_restore_that_overtook_the_command() {
    let mut index = GatewayIndex::fixture();
    let mut web = source("web", "DFW");
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    let project = Plane::Project(shop());
    let commands = |index: &mut GatewayIndex, engagement, event| {
        let update = Index::apply(index, &project, engagement, TableId::DEPLOYMENTS, event);
        let commands = update.commands.into_iter().map(|command| match command {
            Command::WatchReferences(key, engagement, tables) => {
                assert_eq!(tables, [TableId::CONFIG_MAPS, TableId::SECRETS]);
                (key, engagement)
            }
            Command::ReportRejected(_) | Command::ReportOtherHub(..) | Command::ReportKnownPlane(..) => {
                panic!("{command:?}")
            }
        });
        commands.collect::<Vec<_>>()
    };
    let event = || WatchEvent::Apply(Box::new(serde_json::from_value(web.clone()).unwrap()));
    let first = index.projects[&shop()].engagement;
    assert_eq!(commands(&mut index, first, event()), [(shop(), first)]);
    assert_eq!(commands(&mut index, first, event()), [], "it is watched");
    let second = Index::rewind(&mut index, &project, first).unwrap();
    assert_eq!(commands(&mut index, second, event()), [(shop(), second)]);
}

#[test]
fn a_deployment_concerns_the_workload_of_its_own_namespace_that_controls_it() {
    let mut index = GatewayIndex::fixture();
    let mut workload = object("elsewhere", "web", "u-workload");
    index.shop_has(TableId::Workloads, &workload);
    workload["metadata"]["namespace"] = json!("default");
    workload["metadata"]["uid"] = json!("u-ours");
    index.shop_has(TableId::Workloads, &workload);
    let key = |index: &GatewayIndex, namespace: &str| index.workload_key(&shop(), namespace, "web");
    for (uid, wakes) in [("u-workload", false), ("u-ours", true)] {
        let mut of = source(uid, "DFW");
        of["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Workload", "name": "web", "uid": uid, "controller": true}]);
        let enqueued = index.shop_has(TableId::DEPLOYMENTS, &of);
        assert_eq!(enqueued.contains(&key(&index, "default")), wakes, "{uid}");
        assert!(!enqueued.contains(&key(&index, "elsewhere")), "{uid}");
    }
}

#[test]
fn our_finalizer_is_what_holds_a_deployment() {
    let mut index = GatewayIndex::fixture();
    index.shop_has(TableId::DEPLOYMENTS, &source("web", "DFW"));
    let mut foreign = source("api", "DFW");
    foreign["metadata"]["finalizers"] = json!(["example.com/other"]);
    index.shop_has(TableId::DEPLOYMENTS, &foreign);
    let holds = |name| {
        GatewayIndex::holds(
            index.projects[&shop()].sources[KindId::FIRST]
                .get("default", name)
                .unwrap(),
        )
    };
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
    let of =
        |kinds: Vec<_>| GatewayIndex::new(Arc::new(kinds.into()), WorkloadChecks::default()).workload_kind();
    assert_eq!((of(other), of(foreign)), (Some(KindId::nth(1)), None));
    assert_eq!(GatewayIndex::fixture().plural(TableId::Namespaces), "namespaces");
}

#[test]
fn a_claim_is_refused_by_whom_the_namespace_is() {
    let mut index = GatewayIndex::fixture();
    assert!(!index.is_refused(HUB, &zoo()), "it claims nothing");
    index.with_zoo("z1", "a1");
    assert!(index.is_refused(HUB, &zoo()) && !index.is_refused(HUB, &shop()));
}

#[test]
fn a_claim_that_is_withdrawn_leaves_the_others() {
    let mut index = GatewayIndex::fixture();
    let claims = |index: &GatewayIndex| index.refused_claims().count();
    index.with_zoo("z1", "a1");
    let another = namespace("aviary", "a1", &json!({}));
    let event = |of: &Value| WatchEvent::Apply(Box::new(serde_json::from_value(of.clone()).unwrap()));
    index.project_event(&zoo(), TableId::Namespaces, event(&another));
    assert_eq!(claims(&index), 2);
    let gone = WatchEvent::Delete(Box::new(serde_json::from_value(another).unwrap()));
    index.project_event(&zoo(), TableId::Namespaces, gone);
    let left: Vec<_> = index.refused_claims().map(|r| r.claimant.namespace).collect();
    assert_eq!(left, ["cages".into()]);
}

#[test]
fn bodies_are_dropped_with_the_tie_and_not_before() {
    let mut index = GatewayIndex::fixture();
    index.hub_has(TableId::INSTANCES, &object(HUB, "web-0", "u-w"));
    let kept = |index: &GatewayIndex| {
        let row = index.hub.write_backs[KindId::FIRST].get(HUB, "web-0");
        row.unwrap().body.is_some()
    };
    assert!(kept(&index));
    index.with_zoo("z1", "a1");
    assert!(kept(&index), "the claim is refused");
    index.shop_lost(TableId::Namespaces, &namespace("default", "a1", &json!({})));
    assert!(!kept(&index));
}

#[test]
fn a_project_that_leaves_wakes_the_namespaces_of_its_twin_alone() {
    let namespaces = |uid: &str| {
        let mut index = GatewayIndex::fixture();
        index.with_zoo(uid, "b2");
        let enqueued = index.disengage(&zoo());
        let enqueued = enqueued.keys(&index);
        kinds(&enqueued, &index, &[TableId::Namespaces, TableId::CityPolicies])
    };
    assert_eq!(namespaces("z1"), [0, 0]);
    assert_eq!(namespaces("p1"), [1, 1], "it has the same UID");
}

#[test]
fn a_projects_hub_keys_are_those_of_its_namespaces_and_of_those_that_bear_its_uid() {
    let mut index = GatewayIndex::fixture();
    index.with_zoo("z1", "b2");
    let labelled = |name: &str, uid: &str| {
        let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-x", keys::PROJECT_UID: uid});
        namespace(name, &format!("u-{name}"), &labels)
    };
    index.hub_has(TableId::Namespaces, &labelled("ns-b2", "z1"));
    index.hub_has(TableId::Namespaces, &labelled("ns-left", "p1"));
    let mut unmarked = namespace("ns-none", "u-none", &json!({}));
    unmarked["metadata"]["labels"] = json!({});
    index.hub_has(TableId::Namespaces, &unmarked);
    let of = |index: &GatewayIndex, project: &ProjectKey| -> BTreeSet<String> {
        let all = index.hub_keys_of(project);
        let namespaces = all.iter().filter(|key| key.namespace.is_empty());
        namespaces.map(|key| key.name.to_string()).collect()
    };
    assert_eq!(of(&index, &shop()), [HUB.to_owned(), "ns-left".to_owned()].into());
    assert_eq!(of(&index, &zoo()), ["ns-b2".to_owned()].into());
    // A project whose UID is unknown has only the hub namespaces that it owns.
    index.projects.get_mut(&shop()).unwrap().uid = None;
    assert_eq!(of(&index, &shop()), [HUB.to_owned()].into());
}

#[test]
fn what_is_forgotten_is_of_namespaces_and_projects_that_are_gone() {
    let mut index = GatewayIndex::fixture();
    index.with_zoo("z1", "b2");
    let own: std::sync::Arc<str> = shop().label().into();
    let limits = [
        (own.clone(), HUB),
        ("cluster-zoo".into(), HUB),
        (own.clone(), "ns-gone"),
    ];
    index
        .intents
        .limited
        .extend(limits.map(|(label, hub)| (label, hub.into())));
    for plane in [
        Plane::Project(shop()),
        Plane::Project(ProjectKey::parse("gone").unwrap()),
        Plane::Hub,
    ] {
        index.intents.unproven.entry(plane).or_default();
    }
    index.prune_unowned();
    assert_eq!(index.intents.limited, [(own, HUB.into())].into_iter().collect());
    let unproven: BTreeSet<Plane> = index.intents.unproven.keys().cloned().collect();
    assert_eq!(unproven, [Plane::Project(shop()), Plane::Hub].into());
}

#[test]
fn a_project_that_was_restored_begins_its_lists_anew_and_the_hub_does_not() {
    let mut index = GatewayIndex::fixture();
    index.with_zoo("z1", "b2");
    index.shop_has(TableId::DEPLOYMENTS, &source("web", "DFW"));
    let engagement = index.projects[&shop()].engagement;
    assert!(
        index
            .restart_lists(&Plane::Project(shop()), engagement + 100)
            .is_none()
    );
    assert!(index.project_ready(&shop()));
    let now = index.restart_lists(&Plane::Project(shop()), engagement).unwrap();
    assert!(index.is_engaged(&shop(), now) && !index.is_engaged(&shop(), engagement));
    assert!(!index.project_ready(&shop()) && index.project_ready(&zoo()) && index.hub_ready());
    assert!(
        index.projects[&shop()].sources[KindId::FIRST]
            .get("default", "web")
            .is_some(),
        "what was there is kept until the list says otherwise"
    );
    for table in index.project_tables() {
        let live = [
            namespace("kube-system", "p1", &json!({})),
            namespace("default", "a1", &json!({})),
        ];
        // The resource versions are lower after the restore.
        let live = live.map(|of| newer(of, "2"));
        let live: &[Value] = if table == TableId::Namespaces { &live } else { &[] };
        index.list_shop(table, live);
    }
    assert!(index.project_ready(&shop()));
    assert!(
        index.projects[&shop()].sources[KindId::FIRST]
            .get("default", "web")
            .is_none()
    );
}
