//! Server-side apply.

use crate::client::{GADGETS, MAPS, map, named, plane};
use serde_json::{Value, json};

fn labelled(labels: &Value, spec: &Value) -> Value {
    let mut object = named("a", spec);
    object["metadata"]["labels"] = labels.clone();
    object
}

#[tokio::test]
async fn what_is_no_longer_applied_goes() {
    let (_, _, client) = plane();
    let path = format!("{GADGETS}/a");
    let (code, _) = client
        .apply(
            &path,
            "one",
            true,
            &labelled(&json!({"x": "1", "y": "1"}), &json!({"size": 1})),
        )
        .await;
    assert_eq!(code, 201);
    client
        .merge(&path, &json!({"metadata": {"labels": {"other": "1"}}}))
        .await;
    let (code, now) = client
        .apply(
            &path,
            "one",
            true,
            &labelled(&json!({"x": "2"}), &json!({"args": ["a"]})),
        )
        .await;
    assert_eq!(code, 200);
    assert_eq!(now["metadata"]["labels"], json!({"x": "2", "other": "1"}));
    assert_eq!(now["spec"], json!({"args": ["a"], "colour": "red"}));
    assert_eq!(now["metadata"]["generation"], 2);
}

#[tokio::test]
async fn an_apply_without_effect_is_no_write() {
    let (_, plane, client) = plane();
    let path = format!("{GADGETS}/a");
    let config = labelled(
        &json!({"x": "1"}),
        &json!({"size": 1, "ports": [{"name": "web", "port": 1}]}),
    );
    client.apply(&path, "one", true, &config).await;
    let revision = plane.revision();
    let (code, _) = client.apply(&path, "one", true, &config).await;
    assert_eq!((code, plane.revision()), (200, revision));
    // Another who says the same owns it too, which is a change of metadata.
    let (_, shared) = client.apply(&path, "two", false, &config).await;
    assert_eq!(plane.revision(), revision + 1);
    assert_eq!(shared["metadata"]["generation"], 1);
}

#[tokio::test]
async fn another_managers_field_needs_force() {
    let (_, _, client) = plane();
    let path = format!("{GADGETS}/a");
    client
        .apply(&path, "one", false, &named("a", &json!({"size": 1})))
        .await;
    let (code, refused) = client
        .apply(&path, "two", false, &named("a", &json!({"size": 2})))
        .await;
    assert_eq!(code, 409);
    assert_eq!(
        refused["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.size"}])
    );
    let (code, taken) = client
        .apply(&path, "two", true, &named("a", &json!({"size": 2})))
        .await;
    assert_eq!((code, &taken["spec"]["size"]), (200, &json!(2)));
    let managers = taken["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 1, "the first one has nothing left: {managers:?}");
}

#[tokio::test]
async fn items_are_owned_one_by_one() {
    let (_, _, client) = plane();
    let path = format!("{GADGETS}/a");
    let ports = |list: &[(&str, u16)]| -> Value {
        let items = list
            .iter()
            .map(|(name, port)| json!({"name": name, "port": port}));
        json!({"ports": items.collect::<Vec<_>>()})
    };
    client
        .apply(&path, "one", true, &named("a", &ports(&[("web", 1), ("db", 2)])))
        .await;
    let (_, both) = client
        .apply(&path, "two", true, &named("a", &ports(&[("mail", 3)])))
        .await;
    assert_eq!(
        both["spec"]["ports"],
        ports(&[("web", 1), ("db", 2), ("mail", 3)])["ports"]
    );
    let (_, less) = client
        .apply(&path, "one", true, &named("a", &ports(&[("web", 1)])))
        .await;
    assert_eq!(less["spec"]["ports"], ports(&[("web", 1), ("mail", 3)])["ports"]);
}

#[tokio::test]
async fn owners_and_finalizers_are_merged() {
    let (_, plane, client) = plane();
    let owner = plane.create(map("owner", "")).unwrap();
    let other = plane.create(map("other", "")).unwrap();
    let reference = |of: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]});
    let mut first = map("a", "1");
    first["metadata"]["ownerReferences"] = json!([reference(&other)]);
    first["metadata"]["finalizers"] = json!(["x.dev/one"]);
    plane.create(first).unwrap();
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
        "finalizers": ["x.dev/two"], "ownerReferences": [reference(&owner)]}});
    let (_, now) = client.apply(&format!("{MAPS}/a"), "one", false, &config).await;
    assert_eq!(now["metadata"]["finalizers"], json!(["x.dev/one", "x.dev/two"]));
    assert_eq!(
        now["metadata"]["ownerReferences"],
        json!([reference(&other), reference(&owner)])
    );
}

#[tokio::test]
async fn an_apply_that_must_not_create_does_not() {
    let (_, plane, client) = plane();
    let mut config = named("a", &json!({"size": 1}));
    config["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    let (code, refused) = client.apply(&format!("{GADGETS}/a"), "one", true, &config).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
    assert!(plane.get("Gadget", "default", "a").is_none());
}

#[tokio::test]
async fn status_is_applied_by_its_endpoint_alone() {
    let (_, _, client) = plane();
    let path = format!("{GADGETS}/a");
    let mut config = named("a", &json!({"size": 1}));
    config["status"] = json!({"size": 1});
    let (_, made) = client.apply(&path, "one", true, &config).await;
    assert_eq!(made.get("status"), None);
    config["spec"] = json!({"size": 2});
    let (_, told) = client
        .apply(&format!("{path}/status"), "one", true, &config)
        .await;
    assert_eq!(
        (&told["status"]["size"], &told["spec"]["size"]),
        (&json!(1), &json!(1))
    );
    let entry = &told["metadata"]["managedFields"][1];
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:size": {}}}))
    );
}
