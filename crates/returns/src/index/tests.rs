//! Rows that the index keeps, and when its keys may be reconciled.

use super::{ReturnsIndex, TableId};
use fedgate_engine::{key::Plane, plane::watch::WatchEvent, runtime::index::Index};
use fedgate_kinds::Kinds;
use kube::core::DynamicObject;
use serde_json::json;
use std::path::Path;

fn index() -> ReturnsIndex {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kinds");
    ReturnsIndex::new(Kinds::load_dir(&folder).unwrap().federated)
}

#[test]
fn only_kinds_with_returns_are_watched_and_secrets_by_their_metadata() {
    let index = index();
    let tables = index.member_tables();
    let kinds: Vec<String> = tables
        .iter()
        .map(|table| index.kind_of(*table).as_str().to_owned())
        .collect();
    assert_eq!(kinds, ["vaults.example.fedgate.dev", "secrets"]);
    for table in tables {
        let is_secrets = table == TableId::Secrets;
        assert_eq!(index.watch_spec(&Plane::Cell, table).metadata_only, is_secrets);
    }
}

#[test]
fn secrets_of_the_members_own_namespaces_are_not_kept() {
    let mut index = index();
    let secret = |namespace: &str| -> Box<DynamicObject> {
        let object = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a", "namespace": namespace, "uid": namespace, "resourceVersion": "5"}});
        Box::new(serde_json::from_value(object).unwrap())
    };
    index.event(TableId::Secrets, WatchEvent::Init);
    for namespace in ["kube-system", "ns-a1"] {
        index.event(TableId::Secrets, WatchEvent::InitApply(secret(namespace)));
    }
    index.event(TableId::Secrets, WatchEvent::InitDone);
    index.event(TableId::Secrets, WatchEvent::Apply(secret("default")));
    assert_eq!(index.len(TableId::Secrets), 1);
}

#[test]
fn no_key_is_admitted_before_the_lists_of_the_member_are_complete() {
    let mut index = index();
    let objects = TableId::Objects(index.kinds.ids().next().unwrap());
    let vault = json!({"apiVersion": "example.fedgate.dev/v1", "kind": "Vault",
        "metadata": {"name": "gold", "namespace": "ns-a1", "uid": "u", "resourceVersion": "5"}});
    index.event(objects, WatchEvent::Init);
    let vault = Box::new(serde_json::from_value(vault).unwrap());
    let update = index.apply(&Plane::Cell, 0, objects, WatchEvent::InitApply(vault));
    let mut keys = Vec::new();
    update
        .changes
        .iter()
        .for_each(|change| index.keys_of(change, &mut keys));
    assert_eq!(keys.len(), 1);
    assert!(
        index
            .admit(&Plane::Cell, objects, false, keys.clone())
            .keys
            .is_empty()
    );
    index.event(objects, WatchEvent::InitDone);
    assert!(
        index
            .admit(&Plane::Cell, objects, true, keys.clone())
            .keys
            .is_empty()
    );
    index.event(TableId::Secrets, WatchEvent::Init);
    index.event(TableId::Secrets, WatchEvent::InitDone);
    assert_eq!(
        index.admit(&Plane::Cell, TableId::Secrets, true, Vec::new()).keys,
        keys
    );
}
