//! A small client, and a kind to play with.

use bytes::Bytes;
use fedgate_simulator::{Body, Plane, Service, Simulator};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const GADGETS: &str = "/apis/g.dev/v1/namespaces/default/gadgets";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A simulator with the plane `p`, which knows Gadgets.
pub(crate) fn plane() -> (Simulator, Plane, Client) {
    let simulator = Simulator::new(1);
    let plane = simulator.add("p");
    plane.define(&gadget());
    let client = Client(simulator.service("p", "someone"));
    (simulator, plane, client)
}

pub(crate) fn gadget() -> Value {
    json!({"spec": {
        "group": "g.dev", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "size": {"type": "integer"},
                    "colour": {"type": "string", "default": "red"},
                    "args": {"type": "array", "items": {"type": "string"}},
                    "ports": {"type": "array", "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {
                            "name": {"type": "string"}, "port": {"type": "integer"}}}},
                }},
                "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
            }}}}],
    }})
}

pub(crate) fn named(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "g.dev/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"v": value}})
}

#[derive(Clone)]
pub(crate) struct Client(pub(crate) Service);

impl Client {
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> http::Response<Body> {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .header("user-agent", "client/1")
            .body(Full::new(body))
            .unwrap();
        self.0.clone().call(request).await.unwrap()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let answer = self.send(method, path, kind, body).await;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "", &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, "application/json", body).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("PATCH", path, MERGE, body).await
    }

    /// Applies as a manager, with or without force.
    pub(crate) async fn apply(&self, path: &str, manager: &str, force: bool, body: &Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager={manager}&force={force}");
        self.ask("PATCH", &path, APPLY, body).await
    }

    pub(crate) async fn watch(&self, path: &str, query: &str) -> Events {
        let answer = self
            .send("GET", &format!("{path}?watch=true&{query}"), "", &Value::Null)
            .await;
        assert_eq!(answer.status(), 200);
        Events(answer.into_body())
    }
}

/// An open watch.
pub(crate) struct Events(Body);

impl Events {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        let frame = self.0.frame().await?.unwrap();
        let event: Value = serde_json::from_slice(&frame.into_data().unwrap()).unwrap();
        Some((
            event["type"].as_str().unwrap().to_owned(),
            event["object"].clone(),
        ))
    }

    /// Type, name and the value of a ConfigMap.
    pub(crate) async fn short(&mut self) -> String {
        let Some((kind, object)) = self.next().await else {
            return "END".to_owned();
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        format!(
            "{kind} {name} {}",
            object["data"]["v"].as_str().unwrap_or_default()
        )
    }

    /// Whether nothing is there to read.
    pub(crate) fn is_quiet(&mut self) -> bool {
        futures::FutureExt::now_or_never(self.0.frame()).is_none()
    }
}
