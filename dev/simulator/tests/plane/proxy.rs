//! The proxy of Clusters.

use crate::lanes::{Rig, rig};
use fedgate_simulator::{Down, Verb, karmada::Cluster};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;

const PROXY: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const BELOW: &str = "proxy/apis/g.dev/v1/namespaces/default/gadgets";

async fn refusal(rig: &Rig, path: &str) -> (u16, Value) {
    let (code, status) = rig.client.get(path).await;
    (code, json!([status["reason"], status["details"]]))
}

#[tokio::test]
async fn an_object_is_read_and_followed_to_its_end() {
    let rig = rig(Duration::ZERO);
    rig.create("pin-dfw-1", 1);
    let path = format!("{PROXY}/dfw-1/{BELOW}");
    let (code, below) = rig.client.get(&format!("{path}/a")).await;
    assert_eq!((code, &below["spec"]["size"]), (200, &json!(1)));
    let from = below["metadata"]["resourceVersion"].as_str().unwrap();
    let query = format!("fieldSelector=metadata.name%3Da&resourceVersion={from}");
    let mut watch = rig.client.watch(&path, &query).await;
    let other = json!({"apiVersion": "g.dev/v1", "kind": "Gadget",
        "metadata": {"name": "b", "namespace": "default"}});
    rig.members[0].create(other).unwrap();
    rig.to("drop-dfw-1", Some(json!({"size": 2})));
    rig.delete();
    let (kind, gone) = watch.next().await.unwrap();
    assert_eq!((&*kind, &gone["metadata"]["name"]), ("DELETED", &json!("a")));
    let entry = rig
        .simulator
        .log()
        .entries()
        .into_iter()
        .find(|entry| entry.verb == Verb::Get);
    let entry = entry.unwrap();
    assert_eq!(
        (&*entry.plane, &*entry.user, &*entry.name),
        ("dfw-1", "someone", "a")
    );
}

#[tokio::test]
async fn each_absence_has_words_of_its_own() {
    let rig = rig(Duration::ZERO);
    let of = |name: &str| json!(["NotFound", {"name": name, "group": "g.dev", "kind": "gadgets"}]);
    assert_eq!(
        refusal(&rig, &format!("{PROXY}/dfw-1/{BELOW}/absent")).await,
        (404, of("absent"))
    );
    let elsewhere = format!("{PROXY}/dfw-1/proxy/apis/g.dev/v1/namespaces/absent/gadgets/a");
    assert_eq!(refusal(&rig, &elsewhere).await, (404, of("a")));
    let cluster = json!(["NotFound", {"name": "lhr-1", "group": "cluster.karmada.io", "kind": "clusters"}]);
    assert_eq!(
        refusal(&rig, &format!("{PROXY}/lhr-1/{BELOW}/a")).await,
        (404, cluster)
    );
    let unserved = format!("{PROXY}/dfw-1/proxy/apis/g.dev/v2/namespaces/default/gadgets/a");
    let answer = rig.client.send("GET", &unserved, "", &Value::Null).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (404, &"text/plain".parse().unwrap())
    );
    let page = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(page, "404 page not found\n");
}

#[tokio::test]
async fn a_member_that_takes_no_connection_is_an_error_without_a_reason() {
    let rig = rig(Duration::ZERO);
    rig.members[0].set_down(Some(Down::Refused));
    let nothing = (500, json!([null, null]));
    assert_eq!(refusal(&rig, &format!("{PROXY}/dfw-1/{BELOW}/a")).await, nothing);
    rig.karmada.join(&Cluster::new("lhr-1", "city", "LHR"));
    assert_eq!(refusal(&rig, &format!("{PROXY}/lhr-1/{BELOW}/a")).await, nothing);
}

#[tokio::test]
async fn a_member_that_was_away_gets_what_it_missed() {
    let rig = rig(Duration::ZERO);
    rig.members[0].set_down(Some(Down::Refused));
    rig.create("pin-dfw-1", 1);
    assert!(rig.at(0).is_none());
    rig.members[0].set_down(None);
    assert!(rig.at(0).is_some());
}
