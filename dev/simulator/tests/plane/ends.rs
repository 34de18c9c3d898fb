//! How objects, namespaces and planes end.

use crate::client::{GADGETS, MAPS, map, named, plane};
use fedgate_simulator::{Controllers, Down};
use serde_json::{Value, json};
use std::time::Duration;

fn owned(name: &str, owners: &[&Value]) -> Value {
    let mut object = map(name, "1");
    let references = owners.iter().map(|owner| {
        json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
    });
    object["metadata"]["ownerReferences"] = references.collect();
    object
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let (_, plane, client) = plane();
    let path = format!("{GADGETS}/a");
    let mut gadget = named("a", &json!({"size": 1}));
    gadget["metadata"]["finalizers"] = json!(["x.dev/one"]);
    client.post(GADGETS, &gadget).await;
    let mut watch = client
        .watch(GADGETS, &format!("resourceVersion={}", plane.revision()))
        .await;
    let (code, ending) = client.ask("DELETE", &path, "", &Value::Null).await;
    assert_eq!(code, 200);
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(ending["metadata"]["generation"], 2);
    let more = json!({"metadata": {"finalizers": ["x.dev/one", "x.dev/two"]}});
    assert_eq!(client.merge(&path, &more).await.0, 422);
    let (code, last) = client
        .merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!((code, last["metadata"].get("finalizers")), (200, None));
    assert_eq!(watch.next().await.unwrap().0, "MODIFIED");
    assert_eq!(watch.next().await.unwrap().0, "DELETED");
    assert!(watch.is_quiet());
    assert_eq!(client.get(&path).await.0, 404);
}

#[tokio::test]
async fn dependents_go_when_all_owners_are_gone() {
    let (_, plane, _) = plane();
    let (one, two) = (
        plane.create(map("one", "")).unwrap(),
        plane.create(map("two", "")).unwrap(),
    );
    let child = plane.create(owned("child", &[&one, &two])).unwrap();
    plane.create(owned("grandchild", &[&child])).unwrap();
    plane.delete("ConfigMap", "default", "one").unwrap();
    let left = plane.get("ConfigMap", "default", "child").unwrap();
    assert_eq!(left["metadata"]["ownerReferences"][0]["name"], "two");
    plane.delete("ConfigMap", "default", "two").unwrap();
    assert_eq!(plane.list("ConfigMap").len(), 0);
}

#[tokio::test]
async fn an_owner_of_the_same_name_is_not_the_owner() {
    let (_, plane, client) = plane();
    let one = plane.create(map("one", "")).unwrap();
    plane.delete("ConfigMap", "default", "one").unwrap();
    plane.create(map("one", "")).unwrap();
    plane.create(owned("child", &[&one])).unwrap();
    assert!(plane.get("ConfigMap", "default", "child").is_none());
    let again = plane.get("ConfigMap", "default", "one").unwrap();
    plane.create(owned("child", &[&again])).unwrap();
    let path = format!("{MAPS}/one?propagationPolicy=Orphan");
    client.ask("DELETE", &path, "", &Value::Null).await;
    let left = plane.get("ConfigMap", "default", "child").unwrap();
    assert_eq!(left["metadata"].get("ownerReferences"), None);
}

#[tokio::test(start_paused = true)]
async fn controllers_may_take_their_time() {
    let (_, plane, _) = plane();
    plane.controllers(Controllers::After(Duration::from_secs(1)));
    let one = plane.create(map("one", "")).unwrap();
    plane.create(owned("child", &[&one])).unwrap();
    plane.delete("ConfigMap", "default", "one").unwrap();
    assert_eq!(plane.list("ConfigMap").len(), 1);
    let mut changed = plane.changed();
    changed.changed().await.unwrap();
    assert_eq!(plane.list("ConfigMap").len(), 0);
}

#[tokio::test]
async fn a_namespace_ends_with_all_that_is_in_it() {
    let (_, plane, client) = plane();
    let space = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let made = plane.create(space("n")).unwrap();
    assert_eq!(made["status"]["phase"], "Active");
    let mut held = map("held", "1");
    held["metadata"]["namespace"] = json!("n");
    let mut free = held.clone();
    held["metadata"]["finalizers"] = json!(["x.dev/one"]);
    free["metadata"]["name"] = json!("free");
    plane.create(held).unwrap();
    plane.create(free.clone()).unwrap();
    let (code, ending) = client
        .ask("DELETE", "/api/v1/namespaces/n", "", &Value::Null)
        .await;
    assert_eq!((code, &ending["status"]["phase"]), (200, &json!("Terminating")));
    let names: Vec<Value> = plane
        .list("ConfigMap")
        .iter()
        .map(|m| m["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["held"]);
    let (code, refused) = client.post("/api/v1/namespaces/n/configmaps", &free).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    plane
        .merge(
            "ConfigMap",
            "n",
            "held",
            json!({"metadata": {"finalizers": null}}),
        )
        .unwrap();
    assert!(plane.get("Namespace", "", "n").is_none());
    let (code, lost) = client.post("/api/v1/namespaces/n/configmaps", &free).await;
    assert_eq!((code, &lost["details"]["kind"]), (404, &json!("namespaces")));
}

#[tokio::test]
async fn a_plane_that_is_down_answers_nobody() {
    let (simulator, plane, client) = plane();
    let mut watch = client.watch(MAPS, "").await;
    plane.set_down(Some(Down::BlackHole));
    plane.create(map("a", "1")).unwrap();
    assert!(watch.is_quiet());
    assert!(futures::FutureExt::now_or_never(client.get(MAPS)).is_none());
    plane.set_down(None);
    assert_eq!(watch.short().await, "ADDED a 1");
    assert_eq!(client.get(MAPS).await.0, 200);
    simulator.remove("p");
    assert_eq!(watch.short().await, "END");
    let before = plane.get("Namespace", "", "kube-system").unwrap();
    let after = simulator.add("p").get("Namespace", "", "kube-system").unwrap();
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
}
