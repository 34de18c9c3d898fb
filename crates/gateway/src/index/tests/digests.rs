//! Tests of the digests: each field is read from its path, and no other field is read.

use super::super::rows::{
    Binding, CityPolicy, HubCopy, InterpreterDigest, LEVEL_LIMIT, Payload, Projection, Source, Strings,
    WriteBackDigest, size_of, template_digest,
};
use fedgate_api::keys;
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, KindId, PerKind};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

fn kind() -> FederatedKind {
    FederatedKind::builtin().unwrap().remove(0)
}

fn object(mut value: Value) -> DynamicObject {
    for (field, of) in [("apiVersion", "x.example.com/v1"), ("kind", "X")] {
        if value[field].is_null() {
            value[field] = json!(of);
        }
    }
    serde_json::from_value(value).unwrap()
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

fn source(value: &Value) -> Source {
    Source::read(
        &object(value.clone()),
        &kind(),
        &CompanionKinds::default(),
        &mut Strings::default(),
    )
}

#[test]
fn a_payloads_digest_is_of_its_values_and_its_size_that_of_their_bytes() {
    let read = |value: Value| Payload::read(&object(value), CompanionKind::SECRET);
    let secret = read(json!({"type": "Opaque", "data": {"a": "QUJDRA=="}, "binaryData": {"b": "QUJD"}}));
    assert_eq!(secret.size, 6 + 3);
    let map = read(json!({"data": {"a": "QUJDRA=="}, "binaryData": {"b": "QUJD"}}));
    assert_eq!(map.size, 8 + 3);
    let other = read(json!({"type": "Opaque", "data": {"a": "QUJDRQ=="}, "binaryData": {"b": "QUJD"}}));
    assert_ne!(secret.payload, other.payload);
    let (none, empty) = (read(json!({})), read(json!({"data": {}})));
    assert_eq!(none.payload, empty.payload, "an empty map is none");
    assert_eq!(
        read(json!({"data": null, "binaryData": {}})).payload,
        none.payload
    );
}

#[test]
fn as_many_levels_as_are_allowed_are_carried_and_as_many_bytes() {
    let much = |levels| source(&json!({"spec": nested(levels)})).extent;
    assert!(much(LEVEL_LIMIT).fits(u32::MAX));
    assert!(much(LEVEL_LIMIT + 1).too_much(u32::MAX).contains("levels"));
    assert_ne!(size_of(&nested(LEVEL_LIMIT)), u32::MAX);
    assert_eq!(size_of(&nested(LEVEL_LIMIT + 1)), u32::MAX);
    let of = source(&json!({"spec": "x"}));
    assert!(of.fits(3) && !of.fits(2), "{:?}", of.extent);
    assert!(!source(&json!({"spec": nested(LEVEL_LIMIT + 1)})).fits(u32::MAX));
}

#[test]
fn of_a_deployment_its_notes_and_what_may_be_missing_are_read() {
    let of = source(&json!({
        "metadata": {"annotations": {keys::REFERENCED_DATA_ERROR: "no", keys::EXPECTED_REFERENCED_DATA: "[]"}},
        "spec": {"template": {"spec": {"volumes": [
            {"name": "a", "secret": {"secretName": "a", "optional": true}},
            {"name": "b", "secret": {"secretName": "b", "optional": false}},
            {"name": "c", "secret": {"secretName": "c"}}]}}},
    }));
    assert_eq!((of.error(), of.expected()), (Some("no"), Some("[]")));
    let optional: Vec<_> = of.references.iter().map(|r| (&*r.name, r.optional)).collect();
    assert_eq!(optional, [("a", true), ("b", false), ("c", false)]);
    assert_eq!(source(&json!({})).error(), None);
}

#[test]
fn of_a_text_that_no_api_server_bounds_a_part_is_kept() {
    let long = |end: &str| format!("{}{end}", "x".repeat(100_000));
    let of = |end: &str| {
        source(&json!({
            "metadata": {"annotations": {keys::FEDERATION_NAMESPACE: long(end)}},
            "spec": {"cityCode": long(end), "placementName": "p", "scaleSettings": {"minReplicas": 1},
                "workloadRef": {"name": "w", "uid": long(end)}, "template": {"spec": {
                    "runtime": {"resources": {"instanceType": "t"}}, "networkInterfaces": [],
                    "volumes": [{"name": "v", "configMap": {"name": long(end)}}]}}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": long(end),
                "message": long(end), "lastTransitionTime": "2026-05-04T10:00:00Z"}]},
        }))
    };
    let (one, other) = (of("a"), of("b"));
    let rollup = one.rollup.as_deref().unwrap().as_ref().unwrap();
    let message = rollup.status(1).conditions[0].message.clone();
    let secret = Payload::read(&object(json!({"type": long("a")})), CompanionKind::SECRET);
    let condition = one.status.condition("Available").unwrap();
    for text in [
        one.federation_namespace.as_deref().unwrap(),
        one.controller.as_deref().unwrap(),
        &*one.references[0].name,
        &*condition.reason,
        &*message,
        secret.secret_type.as_deref().unwrap(),
        one.place.as_str(),
    ] {
        assert!(text.len() <= 1_024, "{} bytes", text.len());
        assert!(text.starts_with("xxx"), "{text}");
    }
    assert_ne!(
        one.federation_namespace, other.federation_namespace,
        "another text"
    );
    assert_ne!(one.references, other.references);
    assert_eq!(one.references, of("a").references);
    let exact = "y".repeat(1_024);
    let kept = source(&json!({"metadata": {"annotations": {keys::FEDERATION_NAMESPACE: exact}}}));
    assert_eq!(kept.federation_namespace.as_deref(), Some(&*exact));
}

#[test]
fn sums_are_kept_of_the_kind_alone_that_workloads_make() {
    let read = |change: fn(&mut FederatedKind)| {
        let mut kind = kind();
        change(&mut kind);
        let read = Source::read(
            &object(json!({})),
            &kind,
            &CompanionKinds::default(),
            &mut Strings::default(),
        );
        read.rollup.is_some()
    };
    assert!(read(|_| ()));
    assert!(!read(|kind| kind.resource.kind = "Other".to_owned()));
    assert!(!read(|kind| kind.resource.group = "other.example.com".to_owned()));
}

#[test]
fn templates_are_told_apart() {
    let template = |image: &str| {
        json!({"metadata": {}, "spec": {"runtime": {"resources": {"instanceType": "t"},
            "sandbox": {"containers": [{"name": "web", "image": image}]}}}})
    };
    assert_ne!(template_digest(&template("a")), template_digest(&template("b")));
    assert_ne!(
        template_digest(&json!(1)),
        template_digest(&json!(2)),
        "of what is none, too"
    );
}

#[test]
fn a_cell_reports_on_a_copy_with_a_status_that_does_not_deny_it() {
    let reports = |status: Value| {
        let copy = object(json!({"status": status}));
        HubCopy::read(&copy, &kind(), &mut Strings::default()).reports()
    };
    let available = |reason: &str| {
        json!({"replicas": 0, "conditions": [{"type": "Available", "status": "False", "reason": reason, "message": "m",
            "lastTransitionTime": "2026-05-04T09:00:00Z"}]})
    };
    assert!(reports(json!({"replicas": 1})));
    assert!(reports(available("NoInstances")));
    assert!(!reports(available("NoCellReporting")));
    assert!(!reports(Value::Null));
}

#[test]
fn a_city_policy_selects_one_federated_kind_by_version_and_kind() {
    let kinds = PerKind::from(vec![kind()]);
    let selects = |api_version: &str, kind: &str| {
        let selector = json!({"apiVersion": api_version, "kind": kind,
            "labelSelector": {"matchLabels": {keys::CITY_CODE: "DFW"}}});
        let policy = object(json!({"spec": {"resourceSelectors": [selector]}}));
        CityPolicy::read(&policy, &kinds).selects.is_some()
    };
    let of = &kinds[KindId::FIRST].resource;
    assert!(selects(&of.api_version, &of.kind));
    assert!(!selects(&of.api_version, "Other") && !selects("v1", &of.kind));
    let customizes = |api_version: &str, kind: &str| {
        let target = json!({"spec": {"target": {"apiVersion": api_version, "kind": kind}}});
        InterpreterDigest::read(&object(target), &kinds, &mut Strings::default()).kind
    };
    assert_eq!(customizes(&of.api_version, &of.kind), Some(KindId::FIRST));
    assert_eq!(customizes(&of.api_version, "Other"), None);
    assert_eq!(customizes("v1", &of.kind), None);
}

#[test]
fn of_a_binding_its_schedule_and_its_first_failure_are_read() {
    let kinds: PerKind<FederatedKind> = FederatedKind::builtin().unwrap().into();
    let read = |status: &str, reason: &str, clusters: Value| {
        let binding = object(json!({"spec": {"clusters": clusters}, "status": {
            "conditions": [{"type": "FullyApplied", "status": "False", "reason": "NoClusterFit"},
                {"type": "Scheduled", "status": status, "reason": reason}],
            "aggregatedStatus": [{"clusterName": "a", "applied": true, "appliedMessage": "once"},
                {"clusterName": "b", "applied": false, "appliedMessage": ""},
                {"clusterName": "c", "applied": false, "appliedMessage": "refused"}]}}));
        Binding::read(
            &binding,
            &kinds,
            &CompanionKinds::default(),
            &mut Strings::default(),
        )
    };
    let (none, one) = (json!([]), json!([{"name": "a"}]));
    assert!(read("False", "NoClusterFit", none.clone()).no_cluster);
    assert!(!read("False", "Other", none.clone()).no_cluster);
    assert!(!read("True", "NoClusterFit", none.clone()).no_cluster);
    assert!(read("True", "Success", one.clone()).scheduled);
    assert!(!read("True", "Success", none).scheduled);
    assert!(!read("False", "Other", one.clone()).scheduled);
    let failed = read("True", "Success", one).failed;
    assert_eq!(failed, Some(Box::new(("c".into(), "refused".into()))));
}

#[test]
fn linking_labels_alone_are_compared_and_the_owner_is_of_the_kind_and_plain() {
    let kind = kind();
    let read = |change: fn(&mut Value)| {
        let mut value = json!({"metadata": {"labels": {
                keys::UPSTREAM_CLUSTER: "cluster-prod", keys::UPSTREAM_NAMESPACE: "shop", keys::INSTANCE_CITY_CODE: "DFW"},
            "ownerReferences": [{"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": "web", "uid": "u"}]}});
        change(&mut value);
        let projection = Projection::read(&object(value.clone()), &kind, &mut Strings::default());
        let write_back = WriteBackDigest::read(&object(value), &kind, &mut Strings::default());
        assert_eq!(projection.labels, write_back.labels);
        projection
    };
    let plain = read(|_| ());
    assert!(plain.plain_owner && plain.owner.is_some());
    let other = read(|o| o["metadata"]["labels"]["mine"] = json!("x"));
    assert_eq!(other.labels, plain.labels);
    for key in [
        keys::UPSTREAM_CLUSTER,
        keys::UPSTREAM_NAMESPACE,
        keys::INSTANCE_CITY_CODE,
    ] {
        let mut edited = json!({"metadata": {"labels": {
            keys::UPSTREAM_CLUSTER: "cluster-prod", keys::UPSTREAM_NAMESPACE: "shop", keys::INSTANCE_CITY_CODE: "DFW"}}});
        edited["metadata"]["labels"][key] = json!("else");
        let edited = Projection::read(&object(edited), &kind, &mut Strings::default());
        assert_ne!(edited.labels, plain.labels, "{key}");
    }
    let owner = |change: fn(&mut Value)| {
        let read = read(change);
        (read.owner.is_some(), read.plain_owner)
    };
    assert_eq!(
        owner(|o| o["metadata"]["ownerReferences"][0]["kind"] = json!("X")),
        (false, false)
    );
    assert_eq!(
        owner(|o| o["metadata"]["ownerReferences"][0]["apiVersion"] = json!("v1")),
        (false, false)
    );
    assert_eq!(
        owner(|o| o["metadata"]["ownerReferences"][0]["controller"] = json!(true)),
        (true, false)
    );
    assert_eq!(
        owner(|o| o["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(true)),
        (true, false)
    );
    assert_eq!(
        owner(|o| {
            let second = o["metadata"]["ownerReferences"][0].clone();
            o["metadata"]["ownerReferences"]
                .as_array_mut()
                .unwrap()
                .push(second);
        }),
        (true, false)
    );
}

#[test]
fn of_a_workloads_deployment_its_conditions_its_counts_and_its_writer_are_read() {
    let read_of = |uid: &str, status: &str, controller: bool| {
        let of = source(&json!({
            "metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Workload", "name": "shop", "uid": uid, "controller": controller}]},
            "spec": {"workloadRef": {"name": "shop", "uid": "u"}, "placementName": "main", "cityCode": "DFW",
                "scaleSettings": {"minReplicas": 1}},
            "status": {"replicas": 2, "conditions": [{"type": "Available", "status": status, "reason": "R",
                "message": "m", "lastTransitionTime": "2026-05-04T09:00:00Z"}]},
        }));
        *of.rollup.unwrap()
    };
    let read = |status: &str, controller: bool| read_of("u", status, controller);
    let (up, down) = (read("True", true).unwrap(), read("False", true).unwrap());
    assert_eq!((up.available, up.why.len()), (true, 0));
    assert_eq!((down.available, down.why.len()), (false, 1));
    let said = |rollup: &super::super::rows::Rollup| {
        let status = rollup.status(1);
        assert_eq!(status.counts, rollup.counts);
        let all = status.conditions.iter();
        all.map(|c| format!("{} {:?}", c.type_, c.status))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (said(&up), said(&down)),
        (vec!["Available True".into()], vec!["Available False".into()])
    );
    assert_eq!(up.written, down.written, "the status is not what is written");
    assert_ne!(
        up.written,
        read("True", false).unwrap().written,
        "the controller is"
    );
    let other = |controller| read_of("other", "True", controller).unwrap().written;
    assert_ne!(up.written, other(true));
    assert_eq!(
        read("True", false).unwrap().written,
        other(false),
        "another owner is not"
    );
}

/// A projection whose deployment was deleted with `orphan` is known by the labels that the gateway has set; of those of its
/// place it may have one or both.
#[test]
fn an_orphan_has_one_name_of_its_place_or_both() {
    let kind = kind();
    let orphaned = |left_out: &[&str]| {
        let mut labels: Map<String, Value> = keys::LINKING
            .iter()
            .map(|key| ((*key).to_owned(), json!("x")))
            .collect();
        labels.insert(keys::INSTANCE_LOCATION.to_owned(), json!("us-south-1"));
        labels.insert(keys::UPSTREAM_CLUSTER.to_owned(), json!("cluster-prod"));
        labels.insert(keys::UPSTREAM_NAMESPACE.to_owned(), json!("shop"));
        labels.retain(|key, _| !left_out.contains(&key.as_str()));
        let value = json!({"metadata": {"namespace": "shop", "labels": labels}});
        Projection::read(&object(value), &kind, &mut Strings::default()).orphaned
    };
    assert!(orphaned(&[]));
    assert!(orphaned(&[keys::INSTANCE_LOCATION]));
    assert!(orphaned(&[keys::INSTANCE_CITY_CODE]));
    assert!(!orphaned(&[keys::INSTANCE_CITY_CODE, keys::INSTANCE_LOCATION]));
    assert!(!orphaned(&[keys::WORKLOAD_NAME]));
}
