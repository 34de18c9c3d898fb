//! The secondary indexes match the rows after any order of events, and reconciles read few rows.

use super::{by_place::ByPlace, *};
use crate::{
    companions, federator,
    index::{
        Hub, Project, TableId,
        fixture::{self, HUB, shop},
    },
    namespaces, policies,
    single_member::referrers::CompanionRef,
};
use fedgate_api::{keys, names::is_label_value};
use fedgate_engine::store::table::visits;
use fedgate_kinds::{CompanionKinds, KindId};
use proptest::prelude::*;
use serde_json::{Value, json};

impl HubIndex {
    fn anew(kinds: &PerKind<FederatedKind>, hub: &Hub) -> Self {
        let mut index = Self::default();
        let name = |(namespace, name): (&Arc<str>, &Arc<str>)| (namespace.clone(), name.clone());
        for ((_, name), row) in hub.namespaces.iter() {
            index.namespace(name, None, Some(row));
        }
        for (_, row) in hub.clusters.iter() {
            index.places.cluster(None, Some(row));
        }
        for (kind, table) in hub.copies.enumerate() {
            table
                .iter()
                .for_each(|(of, row)| index.copy(kind, &name(of), None, Some(row)));
        }
        for (of, row) in hub.bindings.iter() {
            index.binding(kinds, &name(of), None, Some(row));
        }
        for (kind, table) in hub.companions.enumerate() {
            table
                .iter()
                .for_each(|(of, row)| index.companion(kind, &name(of), None, Some(row)));
        }
        index
    }
}

impl SourceIndex {
    fn anew(project: &Project) -> Self {
        let mut index = Self::default();
        for (kind, table) in project.sources.enumerate() {
            for ((namespace, name), row) in table.iter() {
                index.change(
                    (kind, &CompanionKinds::default()),
                    &(namespace.clone(), name.clone()),
                    None,
                    Some(row),
                );
            }
        }
        index
    }
}

impl ByPlace {
    fn anew(index: &GatewayIndex) -> Self {
        let mut by_place = Self::default();
        for (key, project) in &index.projects {
            for (_, table) in project.sources.enumerate() {
                for ((namespace, _), row) in table.iter() {
                    by_place.change(key, namespace, None, Some(row));
                }
            }
        }
        by_place
    }
}

fn with_secret(mut source: Value, secret: &str) -> Value {
    source["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": secret}}]);
    source
}

fn write_back(name: &str, city: Option<&str>) -> Value {
    let mut object = fixture::object(HUB, name, &format!("i-{name}"));
    object["metadata"]["labels"] =
        json!({keys::WORKLOAD_DEPLOYMENT_NAME: "a", "compute.datumapis.com/city-code": city});
    if city.is_none() {
        object["metadata"]["labels"] = json!({keys::WORKLOAD_DEPLOYMENT_NAME: "a"});
    }
    object
}

/// An object in the state that `state` selects; true if it is on the hub, and its table.
fn thing(what: u8, name: u8, state: u8) -> (bool, TableId, Value) {
    let name = ["a", "b", "c"][usize::from(name % 3)];
    let city = ["DFW", "LHR"][usize::from(state % 2)];
    match what % 7 {
        0 => {
            let mut source = match state % 4 {
                0 | 1 => fixture::source(name, city),
                _ => fixture::leaving(name, city),
            };
            if !state.is_multiple_of(3) {
                source = with_secret(source, ["db", "key"][usize::from(state % 2)]);
            }
            if state.is_multiple_of(5) {
                source["metadata"]["annotations"][keys::EXPECTED_REFERENCED_DATA] =
                    json!(r#"["Secret/db","ConfigMap/x"]"#);
            }
            if state.is_multiple_of(7) {
                source["metadata"]["finalizers"] = json!([]);
            }
            if state % 11 < 5 {
                source["spec"]["workloadRef"] = json!({"name": "w", "uid": format!("w-{}", state % 2)});
                source["apiVersion"] = json!("compute.datumapis.com/v1alpha");
            }
            (false, TableId::DEPLOYMENTS, source)
        }
        1 => (true, TableId::DEPLOYMENTS, fixture::copy(name, city)),
        2 => {
            let mut binding = fixture::binding(name);
            binding["metadata"]["annotations"] =
                json!({keys::CLAIM_NAME: format!("city-{city}").to_lowercase()});
            let clusters: Vec<_> = ["dfw-1", "dfw-2"]
                .into_iter()
                .take(usize::from(state % 3))
                .collect();
            let clusters = clusters.into_iter().map(|name| json!({"name": name}));
            binding["spec"]["clusters"] = clusters.collect();
            binding["spec"]["replicas"] = json!(state % 4);
            (true, TableId::Bindings, binding)
        }
        3 | 4 => {
            let by = [
                json!(["default/a"]),
                json!(["default/a", "default/b"]),
                json!("nonsense"),
            ];
            let companion = fixture::companion(
                ["db", "key"][usize::from(name == "a")],
                &by[usize::from(state % 3)],
            );
            (
                true,
                if what % 7 == 3 {
                    TableId::SECRETS
                } else {
                    TableId::CONFIG_MAPS
                },
                companion,
            )
        }
        5 => (
            true,
            TableId::INSTANCES,
            write_back(name, (!state.is_multiple_of(3)).then_some(city)),
        ),
        _ => (
            true,
            TableId::Namespaces,
            fixture::hub_namespace(["dfw", "dfw-lhr"][usize::from(state % 2)]),
        ),
    }
}

proptest! {
    #[test]
    fn the_index_is_what_the_rows_say(
        events in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), 0..8u8), 1..60)
    ) {
        let mut index = GatewayIndex::fixture();
        for (version, (what, name, state, how)) in (10..).zip(events) {
            let (on_hub, table, mut object) = thing(what, name, state);
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            if state.is_multiple_of(13) {
                object["metadata"]["uid"] = json!(format!("u-{version}"));
            }
            match (on_hub, how) {
                // A list with this object alone deletes all other objects of its table.
                (true, 0) => index.list_hub(table, &[object]),
                (false, 0) => index.list_shop(table, &[object]),
                (true, 1) => drop(index.hub_lost(table, &object)),
                (false, 1) => drop(index.shop_lost(table, &object)),
                (true, _) => drop(index.hub_has(table, &object)),
                (false, _) => drop(index.shop_has(table, &object)),
            }
            prop_assert_eq!(&index.hub.secondary, &HubIndex::anew(&index.kinds, &index.hub));
            prop_assert_eq!(&index.by_place, &ByPlace::anew(&index));
            let project = &index.projects[&shop()];
            prop_assert_eq!(&project.secondary, &SourceIndex::anew(project));
            let deleting = project.sources[KindId::FIRST].iter().filter(|(_, row)| row.deleting);
            let deleting: Vec<_> = deleting.map(|((_, name), _)| name.clone()).collect();
            let known = index.summary.deletions(None);
            let known: Vec<_> = known.map(|((_, (_, (_, name))), _)| name.clone()).collect();
            prop_assert_eq!(known, deleting);
        }
    }
}

/// A namespace with `count` deployments in one city, each with its own Secret, all of them in sync.
fn crowded(count: usize) -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.list_shop(TableId::SECRETS, &[]);
    index.list_shop(TableId::CONFIG_MAPS, &[]);
    index.hub_has(TableId::CityPolicies, &fixture::city_policy("city-dfw", "DFW"));
    index.hub_has(TableId::CitySets, &fixture::city_set("cities-dfw", &["DFW"]));
    for n in 0..count {
        let name = format!("web-{n:05}");
        let source = with_secret(fixture::source(&name, "DFW"), &format!("s-{n}"));
        index.shop_has(TableId::DEPLOYMENTS, &source);
        index.hub_has(TableId::DEPLOYMENTS, &fixture::copy(&name, "DFW"));
        index.hub_has(TableId::Bindings, &fixture::binding(&name));
        let by = json!([format!("default/{name}")]);
        index.hub_has(TableId::SECRETS, &fixture::companion(&format!("s-{n}"), &by));
        index.hub_has(TableId::INSTANCES, &write_back(&format!("{name}-0"), Some("DFW")));
    }
    index
}

#[test]
fn a_turn_in_a_crowded_namespace_goes_through_few_rows() {
    assert!(is_label_value(HUB));
    let mut index = crowded(400);
    let key = index.source_key(KindId::FIRST, &shop(), "default", "web-00007");
    let seen = visits::of(|| {
        let snapshot = federator::observe::observe(&index, &key, &shop()).unwrap();
        assert!(snapshot.companions.hold && snapshot.readiness.is_ready);
        let companion = companions::observe::observe(
            &index,
            CompanionRef {
                kind: CompanionKind::SECRET,
                hub: HUB,
                name: "s-7",
            },
            &BTreeSet::new(),
        )
        .unwrap();
        assert_eq!((companion.wanted_by.len(), companion.open), (1, true));
        assert_eq!(policies::observe(&index, HUB).unwrap().wanted.len(), 1);
        assert_eq!(namespaces::observe(&index, HUB).unwrap().in_use.len(), 1);
        assert!(crate::queries::cities::policy_needed(
            &index,
            HUB,
            KindId::FIRST,
            &Route::City(CityCode::parse("DFW").unwrap())
        ));
        assert_eq!(index.leaving_keys(HUB), []);
    });
    assert!(seen <= 20, "{seen} rows for turns of one of each kind");

    let mut leaving = with_secret(fixture::leaving("web-00007", "DFW"), "s-7");
    leaving["metadata"]["resourceVersion"] = json!("7");
    let mut by_nobody = fixture::companion("s-7", &json!([]));
    by_nobody["metadata"]["resourceVersion"] = json!("8");
    let seen = visits::of(|| {
        assert!(index.shop_has(TableId::DEPLOYMENTS, &leaving).contains(&key));
        assert!(index.hub_has(TableId::SECRETS, &by_nobody).contains(&key));
        index.hub_lost(TableId::Bindings, &fixture::binding("web-00007"));
        index.hub_lost(TableId::DEPLOYMENTS, &fixture::copy("web-00007", "DFW"));
        assert_eq!(index.leaving_keys(HUB), std::slice::from_ref(&key));
    });
    assert!(seen <= 20, "{seen} rows for events of one deployment");
}

#[test]
fn a_change_of_a_cluster_reads_the_deployments_of_its_city_alone() {
    let mut index = crowded(400);
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("far", "AMS"));
    let far = index.source_key(KindId::FIRST, &shop(), "default", "far");
    let mut concerned = Vec::new();
    // The namespace is read as a whole, because it has a deployment of the city.
    let seen = visits::of(|| concerned = index.hub_has(TableId::Clusters, &fixture::cluster("AMS")));
    assert!(concerned.contains(&far));
    let sources = concerned
        .iter()
        .filter(|key| key.kind == far.kind && key.plane == far.plane);
    assert_eq!(sources.count(), 1, "{concerned:?}");
    assert!(seen <= 500, "{seen} rows");
    let seen = visits::of(|| concerned = index.hub_has(TableId::Clusters, &fixture::cluster("OSL")));
    assert!(seen <= 20, "{seen} rows for a city that no deployment names");
    assert!(!concerned.iter().any(|key| key.kind == far.kind), "{concerned:?}");

    index.disengage(&shop());
    assert_eq!(
        index.by_place,
        ByPlace::default(),
        "a project leaves with its places"
    );
}

/// Annotation text as a tenant, a cell or a typing error may produce it.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,24}",
        r#"\[("[a-z/"]{0,12}",?){0,4}\]?"#,
        "-?[0-9]{1,24}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{1,8}Z",
        Just("[".repeat(10_000)),
    ]
}

proptest! {
    #[test]
    fn annotations_of_any_text_are_read_and_decide_nothing_by_a_panic(text in any_text(), other in any_text()) {
        let mut index = GatewayIndex::fixture();
        let with = |mut object: Value| {
            for key in [
                keys::REFERENCED_BY,
                keys::EXPECTED_REFERENCED_DATA,
                keys::REFERENCED_DATA_ERROR,
                keys::SOURCE_GENERATION,
                keys::SUSPENDED,
                keys::GARBAGE_CONFIRMED,
            ] {
                object["metadata"]["annotations"][key] = json!(text);
            }
            object["metadata"]["annotations"][keys::FEDERATION_NAMESPACE] = json!(other);
            object["metadata"]["resourceVersion"] = json!("9");
            object
        };
        index.shop_has(TableId::DEPLOYMENTS, &with(fixture::source("web", "DFW")));
        index.hub_has(TableId::DEPLOYMENTS, &with(fixture::copy("web", "DFW")));
        index.hub_has(TableId::SECRETS, &with(fixture::companion("s", &json!([]))));
        index.hub_has(TableId::Namespaces, &with(fixture::hub_namespace(&other)));
        let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
        drop(federator::observe::observe(&index, &key, &shop()));
        drop(companions::observe::observe(&index, CompanionRef { kind: CompanionKind::SECRET, hub: HUB, name: "s" }, &BTreeSet::new()));
        drop(namespaces::observe(&index, HUB));
        prop_assert_eq!(&index.hub.secondary, &HubIndex::anew(&index.kinds, &index.hub));
        let set = fedgate_api::names::cities_of_set(&other);
        prop_assert!(set.is_none_or(|cities| fedgate_api::names::city_set(&cities) == Some(other)));
    }

    #[test]
    fn who_references_a_companion_is_read_as_it_was_written(
        by in prop::collection::btree_set("[a-z0-9-]{1,8}/[a-z0-9.-]{1,8}", 0..6)
    ) {
        let text = companions::referenced_by(&by);
        let object = fixture::companion("s", &serde_json::from_str(&text).unwrap());
        let companion = Companion::read(&serde_json::from_value(object).unwrap(), CompanionKind::SECRET);
        prop_assert_eq!(entries(&companion), by.into_iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_turn_and_the_end_of_a_policy_among_many_city_sets_go_through_few_rows() {
    let mut index = GatewayIndex::fixture();
    for n in 0..300 {
        let set = format!("a{n:03}");
        let policy = fixture::city_set(&format!("cities-{set}"), &[&set.to_uppercase()]);
        index.hub_has(TableId::CitySets, &policy);
        let mut carrying = fixture::hub_namespace(&set);
        let name = format!("ns-x{n}");
        carrying["metadata"]["name"] = json!(name);
        carrying["metadata"]["uid"] = json!(format!("u-{n}"));
        index.hub_has(TableId::Namespaces, &carrying);
        let own = fixture::namespace(&name, &format!("x{n}"), &json!({}));
        index.shop_has(TableId::Namespaces, &own);
    }
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "DFW"));
    index.intents.deliveries.want(&HUB.into(), Some(&"a007".into()));
    let now = fedgate_engine::clock::Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: tokio::time::Instant::now(),
    };
    let mut enqueued = Vec::new();
    let seen = visits::of(|| {
        let snapshot = namespaces::observe(&index, HUB).unwrap();
        let decision =
            namespaces::sets::decided(&index, &snapshot, std::time::Duration::from_secs(60), 64, now);
        assert!(!decision.limited, "it has its set already");
        let policy = fixture::city_set("cities-a007", &["A007"]);
        enqueued = index.hub_lost(TableId::CitySets, &policy);
    });
    assert!(seen <= 20, "{seen} rows");
    let kind = index.kind_of(TableId::Namespaces);
    let namespaces: BTreeSet<_> = enqueued
        .iter()
        .filter(|k| k.kind == kind)
        .map(|k| &*k.name)
        .collect();
    assert_eq!(
        namespaces,
        BTreeSet::from([HUB, "ns-x7"]),
        "the one that wants it, and the one that has it"
    );
}
