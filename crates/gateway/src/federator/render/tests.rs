//! No text of a tenant becomes a key of the hub's metadata, or a value that the allow-list does not name.

use super::*;
use proptest::{collection::btree_map, prelude::*};
use std::{collections::BTreeMap, sync::LazyLock};

static KIND: LazyLock<FederatedKind> = LazyLock::new(|| FederatedKind::builtin().unwrap().remove(0));

/// Keys that Karmada or fedgate interpret.
const KNOWN: [&str; 17] = [
    keys::CLAIM_ID,
    keys::CLAIM_NAME,
    keys::CLUSTER_CLAIM_ID,
    keys::SKIP_AUTO_PROPAGATION,
    keys::UPSTREAM_CLUSTER,
    keys::UPSTREAM_NAMESPACE,
    keys::PROJECT_UID,
    keys::CITY_CODE,
    keys::CITIES,
    keys::CELL,
    keys::REFERENCED_BY,
    keys::SOURCE_UID,
    keys::SOURCE_GENERATION,
    keys::SUSPENDED,
    keys::EXPECTED_REFERENCED_DATA,
    keys::REFERENCED_DATA_ERROR,
    keys::STAND_IN,
];

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        2 => "[a-z]{1,10}\\.karmada\\.io/[a-z-]{1,12}",
        1 => any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![Just("true".to_owned()), any::<String>()]
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(key(), value(), 0..12)
}

/// Root fields of the object, some of which are metadata or status in other objects.
fn roots() -> impl Strategy<Value = BTreeMap<String, String>> {
    let root = prop_oneof![
        prop::sample::select(&["spec", "status", "labels", "annotations", "finalizers"][..])
            .prop_map(str::to_owned),
        "[a-z]{1,8}".prop_filter("names of the wire format", |root| root != "metadata"
            && root != "kind"),
    ];
    btree_map(root, any::<String>(), 0..5)
}

proptest! {
    #[test]
    fn the_copys_metadata_holds_the_allow_list_and_nothing_else(
        labels in map(),
        annotations in map(),
        finalizers in prop::collection::vec(any::<String>(), 0..3),
        roots in roots(),
    ) {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Theirs",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 7, "generateName": "w",
                "labels": labels, "annotations": annotations, "finalizers": finalizers,
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "n", "uid": "o"}]},
        });
        for (root, text) in &roots {
            object[root] = json!(text);
        }
        let source: DynamicObject = serde_json::from_value(object).unwrap();
        let dfw = CityRoute::to_city(fedgate_api::names::CityCode::parse("DFW").unwrap());
        let copy = copy(&KIND, &source, "ns-1", &dfw, None);

        let mut carried: BTreeMap<&str, &str> = annotations
            .iter()
            .filter(|(key, value)| {
                KIND.carried_annotations.contains(key) && (*key != keys::SUSPENDED || *value == "true")
            })
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        carried.insert(keys::SOURCE_UID, "u");
        carried.insert(keys::SOURCE_GENERATION, "7");
        prop_assert_eq!(
            &copy["metadata"],
            &json!({"name": "web", "namespace": "ns-1", "annotations": carried,
                "labels": {keys::CITY_CODE: "DFW", keys::UPSTREAM_NAMESPACE: "shop"}})
        );
        prop_assert_eq!(&copy["kind"], "WorkloadDeployment");
        prop_assert!(copy.get("status").is_none());
        for (root, text) in roots.iter().filter(|(root, _)| *root != "status") {
            prop_assert_eq!(&copy[root], text);
        }
    }
}
