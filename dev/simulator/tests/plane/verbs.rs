//! Reading and writing.

use crate::client::{GADGETS, MAPS, map, named, plane};
use fedgate_simulator::Verb;
use serde_json::{Value, json};

#[tokio::test]
async fn an_object_comes_with_what_the_server_gives_it() {
    let (_, plane, client) = plane();
    let (code, made) = client
        .post(GADGETS, &named("a", &json!({"size": 1, "unknown": 2})))
        .await;
    assert_eq!(code, 201);
    assert_eq!(made["spec"], json!({"size": 1, "colour": "red"}));
    let meta = &made["metadata"];
    assert_eq!(
        (&meta["generation"], &meta["namespace"]),
        (&json!(1), &json!("default"))
    );
    assert_eq!(meta["resourceVersion"], plane.revision().to_string());
    assert_eq!(meta["managedFields"][0]["manager"], "client");
    assert_eq!(client.get(&format!("{GADGETS}/a")).await, (200, made.clone()));
    let (code, again) = client.post(GADGETS, &named("a", &json!({}))).await;
    assert_eq!((code, &again["reason"]), (409, &json!("AlreadyExists")));
    let (code, lost) = client.get(&format!("{GADGETS}/b")).await;
    assert_eq!((code, &lost["reason"]), (404, &json!("NotFound")));
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_alone() {
    let (_, _, client) = plane();
    let path = format!("{GADGETS}/a");
    client.post(GADGETS, &named("a", &json!({"size": 1}))).await;
    let generation = |object: &Value| object["metadata"]["generation"].as_u64().unwrap();
    let (_, labelled) = client
        .merge(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    assert_eq!(generation(&labelled), 1);
    let (_, larger) = client
        .merge(&path, &json!({"spec": {"size": 2}, "status": {"size": 9}}))
        .await;
    assert_eq!((generation(&larger), larger.get("status")), (2, None));
    let status = format!("{path}/status");
    let (_, told) = client
        .merge(&status, &json!({"spec": {"size": 5}, "status": {"size": 2}}))
        .await;
    assert_eq!(
        (generation(&told), &told["spec"]["size"], &told["status"]["size"]),
        (2, &json!(2), &json!(2))
    );
}

#[tokio::test]
async fn a_write_without_effect_is_no_write() {
    let (_, plane, client) = plane();
    client.post(MAPS, &map("a", "1")).await;
    let (revision, writes) = (plane.revision(), plane.writes());
    let (code, same) = client
        .merge(&format!("{MAPS}/a"), &json!({"data": {"v": "1"}}))
        .await;
    assert_eq!(code, 200);
    assert_eq!(same["metadata"]["resourceVersion"], revision.to_string());
    assert_eq!((plane.revision(), plane.writes()), (revision, writes));
}

#[tokio::test]
async fn stale_writes_are_refused() {
    let (_, _, client) = plane();
    let path = format!("{GADGETS}/a");
    let (_, first) = client.post(GADGETS, &named("a", &json!({"size": 1}))).await;
    client.merge(&path, &json!({"spec": {"size": 2}})).await;
    let (code, refused) = client.ask("PUT", &path, "application/json", &first).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
    let stale =
        json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "spec": {"size": 3}});
    assert_eq!(client.merge(&path, &stale).await.0, 409);
    let delete = |preconditions: Value| json!({"preconditions": preconditions});
    let wrong = delete(json!({"uid": "other"}));
    assert_eq!(
        client.ask("DELETE", &path, "application/json", &wrong).await.0,
        409
    );
    let wrong = delete(json!({"resourceVersion": first["metadata"]["resourceVersion"]}));
    assert_eq!(
        client.ask("DELETE", &path, "application/json", &wrong).await.0,
        409
    );
    let right = delete(json!({"uid": first["metadata"]["uid"]}));
    let (code, gone) = client.ask("DELETE", &path, "application/json", &right).await;
    assert_eq!((code, &gone["status"]), (200, &json!("Success")));
}

#[tokio::test]
async fn pages_show_one_version() {
    let (_, plane, client) = plane();
    for name in ["a", "b", "c"] {
        plane.create(map(name, "1")).unwrap();
    }
    let (_, first) = client.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    plane.delete("ConfigMap", "default", "c").unwrap();
    let token = first["metadata"]["continue"]
        .as_str()
        .unwrap()
        .replace('=', "%3D");
    let next = format!("{MAPS}?limit=2&continue={token}");
    let (_, second) = client.get(&next).await;
    assert_eq!(second["items"][0]["metadata"]["name"], "c");
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    plane.compact();
    let (code, gone) = client.get(&next).await;
    assert_eq!((code, &gone["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn lists_are_narrowed_by_selectors() {
    let (_, plane, client) = plane();
    for (name, app) in [("a", "web"), ("b", "db")] {
        let mut one = map(name, "1");
        one["metadata"]["labels"] = json!({"app": app});
        plane.create(one).unwrap();
    }
    for query in ["labelSelector=app%3Dweb", "fieldSelector=metadata.name%3Da"] {
        let (_, list) = client.get(&format!("/api/v1/configmaps?{query}")).await;
        let names: Vec<&Value> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| &i["metadata"]["name"])
            .collect();
        assert_eq!(names, ["a"], "{query}");
    }
}

#[tokio::test]
async fn every_request_is_logged_and_direct_access_is_not() {
    let (simulator, plane, client) = plane();
    plane.create(map("direct", "1")).unwrap();
    client.post(MAPS, &map("a", "1")).await;
    client
        .merge(&format!("{MAPS}/a"), &json!({"data": {"v": "1"}}))
        .await;
    client.get(&format!("{MAPS}/none")).await;
    let log = simulator.log();
    let short: Vec<String> = log
        .entries()
        .iter()
        .map(|e| {
            format!(
                "{} {} {} {}/{} {} {}",
                e.user, e.verb, e.resource, e.namespace, e.name, e.code, e.changed
            )
        })
        .collect();
    assert_eq!(
        short,
        [
            "someone create configmaps default/a 201 true",
            "someone patch configmaps default/a 200 false",
            "someone get configmaps default/none 404 false",
        ]
    );
    assert_eq!(log.since(2).len(), 1);
    log.clear();
    assert!(log.is_empty());
    assert_eq!(
        (plane.requests(Verb::Create), plane.requests(Verb::Watch)),
        (1, 0)
    );
}
