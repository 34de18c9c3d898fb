//! The metrics of an engaged plane's watches.

use super::*;
use crate::{
    key::{Key, Kind},
    metrics::Gauges,
    plane::watch::{SMALL_OBJECTS, WatchSpec},
};
use axum::body::{Body, Bytes};
use http::{Request, Response};
use serde_json::json;
use std::convert::Infallible;

/// An index with one table, of ConfigMaps, that keeps nothing.
struct Empty;

impl Index for Empty {
    type TableId = u8;
    type Change = Infallible;
    type Command = Infallible;

    fn apply(&mut self, _: &Plane, _: u64, _: u8, _: WatchEvent) -> Update<Self> {
        Update::default()
    }

    fn admit(&self, _: &Plane, _: u8, _: bool, _: Vec<Key>) -> Keys {
        Keys::default()
    }

    fn all_keys(&self) -> Keys {
        Keys::default()
    }

    fn tables(&self) -> Vec<(PlaneKind, u8)> {
        vec![(PlaneKind::Hub, 0)]
    }

    fn watch_spec(&self, _: &Plane, _: u8) -> WatchSpec {
        WatchSpec {
            resource: kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()),
            namespace: None,
            labels: None,
            fields: None,
            page: SMALL_OBJECTS,
            unread: &[],
            metadata_only: false,
            may_be_absent: false,
        }
    }

    fn table_of(&self, _: &Target) -> Option<u8> {
        None
    }

    fn kind_of(&self, _: u8) -> Kind {
        Kind::new("configmaps", "")
    }

    fn plural(&self, _: u8) -> String {
        "configmaps".to_owned()
    }

    fn kind_label(&self, kind: &Kind) -> String {
        kind.as_str().to_owned()
    }
}

/// A server that answers lists, and watches with these codes; every further watch stays open without events.
fn server(codes: &'static [u16]) -> Connection {
    let watches = Arc::new(Mutex::new(codes.iter()));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let code = is_watch.then(|| watches.lock().next()).flatten();
        let (code, body) = match code {
            Some(code) => {
                let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
                    "reason": "Script", "message": "as scripted", "code": code});
                (*code, Body::from(status.to_string()))
            }
            None if is_watch => {
                let silence = futures::stream::pending::<Result<Bytes, Infallible>>();
                (200, Body::from_stream(silence))
            }
            None => {
                let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [],
                    "metadata": {"resourceVersion": "10"}});
                (200, Body::from(list.to_string()))
            }
        };
        let response = Response::builder().status(code).body(body).unwrap();
        async { Ok::<_, Infallible>(response) }
    });
    Connection::of_client(kube::Client::new(service, "default"))
}

/// A scrape that precedes the next answer of the server has the failure already.
#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_counted_by_its_cause() {
    let metrics = Metrics::new().unwrap();
    let (planes, _commands) = EngagedPlanes::new(
        Arc::new(Mutex::new(Empty)),
        Arc::new(Queue::new(1)),
        LeaseHandle::always(),
        PlaneKind::Hub,
        |_, _, _| {},
        metrics.clone(),
    );
    planes.engage(&Plane::Hub, 1, server(&[410, 500, 500]), &[0]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let text = metrics.render(&Gauges::default()).unwrap();
    for line in [
        "fedgate_watch_restarts_total{cause=\"gone\",kind=\"configmaps\",plane=\"hub\"} 1",
        "fedgate_watch_restarts_total{cause=\"error\",kind=\"configmaps\",plane=\"hub\"} 2",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} is missing in {text}");
    }
}
