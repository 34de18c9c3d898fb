//! The kinds in the executable that are federated only when they are named.

use super::{FederatedKind, Kinds};
use crate::{
    ByMember, Cardinality, FinishedWhen, PlatformKind, Required,
    lua::{Host, Operation},
};
use fedgate_api::keys;
use kube::core::ApiResource;
use serde_json::json;
use std::path::Path;

/// Folders below `interpreters/`.
const CLUSTERS: &str = "azimuth.stackhpc.com/v1alpha1/Cluster";
const TEMPLATES: &str = "azimuth.stackhpc.com/v1alpha1/ClusterTemplate";
const DATABASES: &str = "postgresql.cnpg.io/v1/Cluster";
const DEFAULT: &str = "compute.datumapis.com/v1alpha/WorkloadDeployment";

/// The name under which the kind of a folder is asked for.
fn name(folder: &str) -> String {
    let all = Kinds::load_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interpreters")).unwrap();
    let federated = all
        .federated
        .iter()
        .map(|kind| (&kind.origin.file, &kind.resource));
    let mut kinds = federated.chain(all.platform.iter().map(|kind| (&kind.origin, &kind.resource)));
    let is_there = |(file, _): &(&String, &ApiResource)| file.ends_with(&format!("/{folder}/kind.yaml"));
    let (_, resource) = kinds.find(is_there).unwrap();
    format!("{}.{}", resource.plural, resource.group)
}

fn named(folders: &[&str]) -> Kinds {
    let names: Vec<String> = folders.iter().map(|folder| name(folder)).collect();
    Kinds::load(&names, None).unwrap()
}

fn one(folder: &str) -> FederatedKind {
    named(&[folder]).federated.remove(1)
}

#[test]
fn further_kinds_are_federated_only_when_named() {
    let count = |kinds: &Kinds| (kinds.federated.len(), kinds.platform.len());
    assert_eq!(count(&named(&[])), (1, 0));
    assert_eq!(count(&named(&[CLUSTERS])), (2, 0));
    assert_eq!(count(&named(&[TEMPLATES])), (1, 1));
    assert_eq!(
        count(&named(&[CLUSTERS, TEMPLATES, DATABASES, DATABASES])),
        (3, 1)
    );
    // A default kind may be named, too.
    assert_eq!(count(&named(&[DEFAULT])), (1, 0));
}

#[test]
fn a_name_that_does_not_exist_lists_those_that_do() {
    let error = Kinds::load(&["gizmos.example.com".to_owned()], None).unwrap_err();
    let known = [CLUSTERS, DATABASES, TEMPLATES, DEFAULT].map(name).join(", ");
    assert_eq!(
        error.to_string(),
        format!("no kind in the executable is called \"gizmos.example.com\"; there are {known}")
    );
}

#[test]
fn a_cluster_lives_at_one_member_with_its_companions_there_first() {
    let kind = one(CLUSTERS);
    let place = &kind.placement;
    assert_eq!(place.cardinality, Cardinality::ExactlyOne);
    let object = json!({
        "metadata": {"name": "lab", "labels": {"topology.datum.net/city-code": "DFW"}},
        "spec": {"cloudCredentialsSecretName": "cloud", "leaseName": "lab", "paused": true},
        "status": {"kubeconfigSecretName": "lab-kubeconfig-user"},
    });
    assert_eq!(place.path.first(&object), Some(&json!("DFW")));
    let references = &kind.companions.as_ref().unwrap().references;
    let found: Vec<_> = references
        .iter()
        .map(|r| {
            (
                r.resource.kind.as_str(),
                r.required,
                r.adopted,
                r.before_applied,
                r.path.first(&object),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("Secret", Required::Always, false, true, Some(&json!("cloud"))),
            ("Lease", Required::IfNamed, true, true, Some(&json!("lab"))),
            ("Realm", Required::Optional, false, true, None),
        ]
    );
    assert_eq!(
        kind.returns[0].name_for(&object).as_deref(),
        Some("lab-kubeconfig-user")
    );
    assert!(!kind.returns[0].allows("lab-kubeconfig"));
    let guard = kind
        .deletion
        .guards
        .iter()
        .find(|guard| guard.holds(&object))
        .unwrap();
    assert!(
        guard.message.starts_with("spec.paused is true"),
        "{}",
        guard.message
    );
    for free in [
        json!({"spec": {"paused": false}}),
        json!({"spec": {"paused": "true"}}),
        json!({"spec": {}}),
    ] {
        assert!(
            !kind.deletion.guards.iter().any(|guard| guard.holds(&free)),
            "{free}"
        );
    }
    assert_eq!(kind.deletion.by_member, ByMember::Ends);
    assert!(kind.deletion.abandon && kind.deletion.finished_when == FinishedWhen::MemberAbsent);
    assert_eq!(kind.status.max_bytes, 262_144);
    assert_eq!(kind.interpreter.scripts.len(), 3);
}

#[test]
fn a_database_names_its_secrets_and_returns_the_applications() {
    let kind = one(DATABASES);
    let object = json!({
        "metadata": {"name": "orders"},
        "spec": {
            "superuserSecret": {"name": "root"},
            "bootstrap": {"initdb": {"secret": {"name": "app"}}},
            "managed": {"roles": [{"name": "a"}, {"name": "b", "passwordSecret": {"name": "role-b"}}]},
            "externalClusters": [{"name": "old", "password": {"name": "old", "key": "password"},
                "sslKey": {"name": "old-key"}, "sslCert": {"name": "old-cert"}, "sslRootCert": {"name": "old-root"}}],
            "backup": {"barmanObjectStore": {"s3Credentials": {
                "accessKeyId": {"name": "s3", "key": "id"}, "secretAccessKey": {"name": "s3", "key": "secret"}}}},
        },
    });
    let names: Vec<&str> = kind
        .companions
        .iter()
        .flat_map(|section| &section.references)
        .flat_map(|reference| reference.path.all(&object))
        .filter_map(|found| found["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "root", "app", "role-b", "old", "old-key", "old-cert", "old-root", "s3", "s3"
        ]
    );
    assert_eq!(kind.returns[0].name_for(&object).as_deref(), Some("orders-app"));
    assert_eq!(kind.returns[0].max_bytes, 16_384);
    assert_eq!(kind.status.counters, ["instances", "readyInstances"]);
    assert_eq!(kind.carried_annotations.len(), 2);
    assert_eq!(kind.interpreter.scripts.len(), 4);
}

/// A binding tells when its member's object is another one or is being deleted, and no copy does.
#[test]
fn uid_and_deletion_of_a_members_object_are_reported_and_are_no_part_of_the_status() {
    let time = "2026-01-01T00:00:00Z";
    for folder in [CLUSTERS, DATABASES, DEFAULT] {
        let kind = named(&[folder]).federated.pop().unwrap();
        let script = |operation: Operation| {
            let mut scripts = kind.interpreter.scripts.iter();
            let found = scripts.find(|(key, _)| key == operation.key());
            found.map(|(_, text)| text.clone()).unwrap()
        };
        let lua = Host::new();
        for said in [json!({"phase": "Ready"}), json!({})] {
            let metadata = json!({"name": "lab", "uid": "m-1", "deletionTimestamp": time});
            let observed = json!({"metadata": metadata, "status": said});
            let status = lua
                .reflect_status(&script(Operation::StatusReflection), &observed)
                .unwrap();
            if !kind.is_exactly_one() {
                assert_eq!(
                    status[keys::UID_AT_MEMBER],
                    json!(null),
                    "{folder} goes to many members"
                );
                continue;
            }
            let mut wanted = said.clone();
            wanted[keys::UID_AT_MEMBER] = json!("m-1");
            wanted[keys::DELETED_AT_MEMBER] = json!(time);
            assert_eq!(status, wanted, "{folder}");
            let items = [json!({"clusterName": "dfw-1", "status": status})];
            let desired = json!({"kind": "Cluster", "status": {"phase": "Pending"}});
            let aggregated = lua
                .aggregate_status(&script(Operation::StatusAggregation), &desired, &items)
                .unwrap();
            let is_report = said != json!({});
            let wanted = if is_report {
                said
            } else {
                desired["status"].clone()
            };
            assert_eq!(aggregated["status"], wanted, "{folder}");
        }
    }
}

#[test]
fn the_platform_owns_the_templates() {
    let PlatformKind {
        resource, selector, ..
    } = named(&[TEMPLATES]).platform.remove(0);
    assert_eq!(
        (resource.kind.as_str(), resource.version.as_str()),
        ("ClusterTemplate", "v1alpha1")
    );
    assert!(selector.selects_all());
}
