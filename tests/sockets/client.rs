//! The real client, and a watch of it whose events are told in words.

use crate::server::ca;
use fedgate_engine::{
    key::Plane,
    metrics::{Families, PlaneKind},
    plane::{
        client::{Clients, Connection, Limits},
        kubeconfig::{Credential, Rules},
        watch::{SMALL_OBJECTS, WatchEvent, WatchSpec, WatchStatus, run_supervised},
    },
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, core::ApiResource};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};

/// What has not come within this time never comes.
const NEVER: Duration = Duration::from_mins(2);

/// Limits that a dead connection exceeds soon, and one on a busy machine does not.
pub(crate) fn limits() -> Limits {
    Limits {
        call: Duration::from_secs(2),
        ping_every: Duration::from_millis(500),
        ping_answer: Duration::from_millis(1_500),
        ..Limits::default()
    }
}

/// The way to whichever server is at an address.
pub(crate) fn connection(address: SocketAddr) -> Connection {
    let ca = k8s_openapi::ByteString(ca().into_bytes());
    let kubeconfig = json!({
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": ca,
        }}],
        "users": [{"name": "u", "user": {"token": "gateway"}}],
    });
    let rules = Rules::default();
    let credential = Credential::from_secret("n", "s", kubeconfig.to_string().as_bytes(), rules).unwrap();
    let metrics = Families::new(&prometheus::Registry::new()).unwrap();
    Connection::new(Clients::new(limits(), metrics).plane(PlaneKind::Hub, &credential))
}

pub(crate) fn api(connection: &Connection) -> Api<ConfigMap> {
    Api::namespaced(connection.current().client(), "default")
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}})
}

/// Awaits what must come.
pub(crate) async fn comes<T>(what: &str, future: impl Future<Output = T>) -> T {
    let come = tokio::time::timeout(NEVER, future).await;
    come.unwrap_or_else(|_| panic!("it never came: {what}"))
}

/// A watch of `ConfigMap`s under way.
pub(crate) struct Watching {
    events: mpsc::UnboundedReceiver<String>,
    task: JoinHandle<()>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watching {
    pub(crate) fn start(connection: &Connection) -> Self {
        let (told, events) = mpsc::unbounded_channel();
        let connection = connection.clone();
        let task = tokio::spawn(async move {
            let selection = WatchSpec {
                resource: ApiResource::erase::<ConfigMap>(&()),
                namespace: Some("default".to_owned()),
                labels: None,
                fields: None,
                page: SMALL_OBJECTS,
                metadata_only: false,
                unread: &[],
                may_be_absent: false,
            };
            let health = WatchStatus::default();
            // Nobody listens once the test is over.
            let sink = |event| drop(told.send(words(event)));
            run_supervised(&Plane::Hub, &connection, &selection, &health, sink, drop, || ()).await;
        });
        Self { events, task }
    }

    /// All that is told up to this.
    pub(crate) async fn until(&mut self, last: &str) -> Vec<String> {
        let mut told = Vec::new();
        let all = async {
            while told.last().is_none_or(|word| word != last) {
                told.push(self.events.recv().await.unwrap());
            }
        };
        let come = tokio::time::timeout(NEVER, all).await.is_ok();
        assert!(come, "it was never told: {last}, only {told:?}");
        told
    }
}

fn words(event: WatchEvent) -> String {
    let (what, object) = match event {
        WatchEvent::Init => return "began".to_owned(),
        WatchEvent::InitDone => return "complete".to_owned(),
        WatchEvent::Failed => return "failed".to_owned(),
        WatchEvent::Resumed => return "resumed".to_owned(),
        WatchEvent::Rewound => return "rewound".to_owned(),
        WatchEvent::InitApply(object) => ("listed", object),
        WatchEvent::Apply(object) | WatchEvent::Written(object) => ("applied", object),
        WatchEvent::Delete(object) => ("deleted", object),
    };
    format!("{what} {}", object.metadata.name.unwrap_or_default())
}
