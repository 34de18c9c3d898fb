use super::*;
use serde_json::json;

fn tolerant(value: &Value) -> LenientObject {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn a_sound_object_is_read_as_kube_reads_it() {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "spec": {"n": 1.5},
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"},
            "creationTimestamp": "2026-05-04T10:00:00Z", "finalizers": ["f"], "deletionTimestamp": null},
    });
    for value in [value, json!({"data": {"a": "1"}}), json!({"metadata": {}})] {
        let read = tolerant(&value);
        assert_eq!(read.object, serde_json::from_value(value).unwrap());
        assert_eq!(read.malformed_fields, [""; 0]);
    }
}

#[test]
fn managed_fields_are_passed_over_and_all_else_of_metadata_is_read() {
    let text = r#"{"metadata": {"name": "a", "managedFields": [{"manager": "m"}], "generateName": "a-", "selfLink": "/a",
        "deletionGracePeriodSeconds": 3, "deletionTimestamp": "2026-05-04T10:00:00Z", "annotations": {}, "other": 1}}"#;
    let read: LenientObject = serde_json::from_str(text).unwrap();
    let mut whole: DynamicObject = serde_json::from_str(text).unwrap();
    whole.metadata.managed_fields = None;
    assert_eq!(read.object, whole);
    assert_eq!(read.malformed_fields, [""; 0]);
}

#[test]
fn what_has_the_wrong_form_is_left_out_and_named() {
    let read = tolerant(&json!({
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": "many",
            "labels": {"good": "x", "bad": 5}, "annotations": "none", "finalizers": ["f", {}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "n", "uid": "o"}, {"uid": []}]},
        "spec": [1],
    }));
    let meta = read.object.metadata;
    assert_eq!(
        (meta.name.as_deref(), meta.uid.as_deref()),
        (Some("a"), Some("u"))
    );
    assert_eq!((meta.generation, meta.annotations), (None, None));
    assert_eq!(json!(meta.labels), json!({"good": "x"}));
    assert_eq!(json!(meta.finalizers), json!(["f"]));
    assert_eq!(meta.owner_references.unwrap().len(), 1);
    assert_eq!(read.object.data, json!({"spec": [1]}));
    let mut faults = read.malformed_fields;
    faults.sort();
    let fields = [
        "annotations",
        "finalizers",
        "generation",
        "labels",
        "ownerReferences",
    ];
    assert_eq!(faults, fields.map(|field| format!("metadata.{field}")));
}

#[test]
fn what_is_no_object_at_all_has_no_name() {
    for value in [
        json!(5),
        json!(null),
        json!({"metadata": "a"}),
        json!({"metadata": {"name": 7}}),
    ] {
        let read = tolerant(&value);
        assert_eq!(read.object.metadata.name, None, "{value}");
    }
}

/// JSON text of lists nested `levels` deep.
fn lists(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

/// JSON text of maps nested `levels` deep.
fn maps(levels: usize) -> String {
    r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels)
}

fn sees(text: &str) -> (Option<String>, Vec<String>) {
    let read = LenientObject::read(text.as_bytes(), &[]).unwrap();
    let whole: LenientObject = serde_json::from_str(text).unwrap();
    assert_eq!(read.object, whole.object, "both ways to read are one");
    assert!(levels(&read.object.data) <= LEVELS + 1);
    assert!(!is_partial(&read.object));
    (read.object.metadata.resource_version, read.malformed_fields)
}

#[test]
fn whatever_is_nested_too_deeply_is_cut_off_and_all_around_it_is_read() {
    for deep in [lists(50_000), maps(50_000), lists(129), maps(200)] {
        for field in ["spec", "status", "other"] {
            let text = format!(
                r#"{{"{field}":{{"x":[{deep}]}},"metadata":{{"name":"a","resourceVersion":"5"}},"last":1}}"#
            );
            let (version, faults) = sees(&text);
            assert_eq!(version.as_deref(), Some("5"));
            assert_eq!(faults.len(), 1);
            assert!(faults[0].starts_with(field), "{faults:?}");
        }
        for field in ["managedFields", "unknown"] {
            let text = format!(r#"{{"metadata":{{"name":"a","{field}":{deep},"resourceVersion":"5"}}}}"#);
            assert_eq!(sees(&text), (Some("5".to_owned()), Vec::new()));
        }
        let text = format!(r#"{{"metadata":{{"labels":{{"a":{deep}}},"resourceVersion":"5"}}}}"#);
        assert_eq!(
            sees(&text),
            (Some("5".to_owned()), vec!["metadata.labels".to_owned()])
        );
        let text = format!(r#"{{"metadata":{{"name":{deep},"resourceVersion":"5"}}}}"#);
        assert_eq!(
            sees(&text),
            (Some("5".to_owned()), vec!["metadata.name".to_owned()])
        );
        let text = format!(r#"{{"metadata":{deep}}}"#);
        assert_eq!(
            LenientObject::read(text.as_bytes(), &[])
                .unwrap()
                .object
                .metadata
                .name,
            None
        );
        assert_eq!(
            LenientObject::read(deep.as_bytes(), &[])
                .unwrap()
                .object
                .metadata
                .name,
            None
        );
    }
    let text = format!(r#"{{"spec":{},"metadata":{{}}}}"#, lists(LEVELS));
    assert_eq!(sees(&text).1, [""; 0], "what is not too deep is whole");
    let text = format!(r#"{{"spec":{},"metadata":{{}}}}"#, lists(LEVELS + 1));
    assert_eq!(sees(&text).1.len(), 1);
}

#[test]
fn what_ends_too_early_is_an_error_however_deep_it_is() {
    for text in [
        "[".repeat(100_000),
        r#"{"a":"#.repeat(100_000),
        format!(r#"{{"status":{}"#, "[".repeat(500)),
        format!(r#"{{"metadata":{{"name":"a"}},"status":{}"#, lists(500)),
        r#"{"metadata":{"name":"a"}"#.to_owned(),
        r#"{"metadata":{"name":"a"}}}"#.to_owned(),
    ] {
        assert!(LenientObject::read(text.as_bytes(), &[]).is_err());
    }
}

#[test]
fn one_whose_body_cannot_be_read_is_known_by_its_metadata() {
    for body in [r#""spec":1e999"#, r#""spec":{"a":"\ud800"}"#] {
        let text = format!(r#"{{{body},"metadata":{{"name":"a","resourceVersion":"5"}},"kind":"Thing"}}"#);
        let read = LenientObject::read(text.as_bytes(), &[]).unwrap();
        assert!(is_partial(&read.object), "{body}");
        assert_eq!(read.version(), "5");
        assert_eq!(read.malformed_fields, ["everything but metadata"]);
    }
}

/// An object with these entries in a list, of the largest size that an API server stores.
fn filled(entry: &str) -> String {
    let entries = vec![entry; 1_500_000 / (entry.len() + 1)].join(",");
    format!(r#"{{"metadata": {{"name": "a", "uid": "u"}}, "spec": {{"list": [{entries}]}}}}"#)
}

#[test]
fn one_that_would_take_a_hundred_times_its_size_is_known_by_its_metadata() {
    for entry in [r#"{"":0}"#, "{}", "[{}]"] {
        let read = LenientObject::read(filled(entry).as_bytes(), &[]).unwrap().object;
        assert!(is_partial(&read), "{entry}");
        assert_eq!(read.metadata.uid.as_deref(), Some("u"));
    }
    for entry in [r#"{"name": "DATA", "value": "a value"}"#, r#""a text""#, "1234"] {
        let read = LenientObject::read(filled(entry).as_bytes(), &[]).unwrap().object;
        assert!(!is_partial(&read), "{entry}");
    }
}

#[test]
fn a_field_that_nobody_reads_is_passed_over_wherever_it_is() {
    let unread: Unread = &["status", "items", "*", "status"];
    let text = format!(
        r#"{{"status":{{"items":[{{"status":{0},"name":"x"}},{{"status":1}}],"status":2}},"spec":{{"status":3}}}}"#,
        maps(500)
    );
    let read = LenientObject::read(text.as_bytes(), unread).unwrap();
    assert_eq!(read.malformed_fields, [""; 0]);
    assert_eq!(
        read.object.data,
        json!({"status": {"items": [{"name": "x"}, {}], "status": 2}, "spec": {"status": 3}})
    );
}

#[test]
fn of_a_field_with_two_that_are_read_nothing_else_is_and_of_those_a_text_alone() {
    let unread: Unread = &["items", "*", "status", "!kept", "!other"];
    let text = format!(
        r#"{{"items":[{{"status":{{"kept":"a","left":{0},"other":"c"}}}},{{"status":[{0}]}},{{"status":{{"kept":{0}}}}},
        {{"status":{{"kept":[{0}]}}}},{{"status":"b"}},{{"kept":1}}],"status":{{"x":1}}}}"#,
        maps(500)
    );
    let read = LenientObject::read(text.as_bytes(), unread).unwrap();
    assert_eq!(read.malformed_fields, [""; 0]);
    assert_eq!(
        read.object.data,
        json!({
            "items": [{"status": {"kept": "a", "other": "c"}}, {"status": null}, {"status": {"kept": null}}, {"status": {"kept": null}},
                {"status": "b"}, {"kept": 1}],
            "status": {"x": 1},
        })
    );
}

#[test]
fn sizes_and_levels_are_those_of_the_text() {
    for (value, deep) in [(json!(1), 0), (json!({}), 1), (json!({"a": [1, {"b": "ü"}]}), 3)] {
        assert_eq!(size(&value) as usize, value.to_string().len());
        assert_eq!(levels(&value), deep);
    }
}
