//! What a project that does nothing takes in a running gateway, the connections to it apart: its planes answer within
//! the process.

use super::fill::{Part, live};
use anyhow::Result;
use axum::body::Body;
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    clock::Clock,
    metrics::{Metrics, PlaneKind},
    plane::{
        client::{Clients, Connection, Limits},
        discovery::ProjectEvent,
        lease::LeaseHandle,
    },
    runtime::Setup,
};
use fedgate_gateway::{
    self, rate_limit,
    settings::{LocationSource, Settings},
};
use fedgate_kinds::FederatedKind;
use futures::stream;
use http::{Request, Response};
use serde_json::{Value, json};
use std::{convert::Infallible, time::Duration};
use tokio::sync::mpsc;

/// Projects before those that are counted, so that what all share is there already.
const WARM: usize = 50;

fn settings() -> Settings {
    Settings {
        city_linger: Duration::from_secs(60),
        cell_lost_after: Duration::from_mins(5),
        moves_per_city: 8,
        move_timeout: Duration::from_mins(10),
        city_sets_per_project: 64,
        unused_city_set_after: Duration::from_secs(300),
        hub_namespace_retention: Duration::from_secs(600),
        projection_retention: Duration::from_secs(3_600),
        orphan_after: Duration::from_secs(60),
        sweep_interval: Duration::from_secs(3_600),
        release_after: None,
        require_owner: false,
        manage_interpreters: false,
        max_spec_size: 256 * 1024,
        instance_types: Vec::new(),
        cross_namespace_networks: false,
        status_interval: Duration::from_millis(250),
        hub_limits: rate_limit::Limits::default(),
        location_source: LocationSource::None,
        networking: false,
    }
}

fn namespaces(number: usize) -> Value {
    let names = ["default", "kube-node-lease", "kube-public", "kube-system"];
    let items = names.iter().enumerate().map(|(i, name)| {
        let uid = format!("0000000a-5e1f-4c0d-8a4b-{:012x}", number * 8 + i);
        json!({"metadata": {"name": name, "uid": uid, "resourceVersion": "1"}})
    });
    items.collect()
}

/// A plane with namespaces and nothing else, whose watches stay silent.
fn plane(clients: &Clients, number: usize) -> Connection {
    let answer = move |request: Request<kube::client::Body>| async move {
        let uri = request.uri();
        let body = if uri.query().is_some_and(|query| query.contains("watch=true")) {
            Body::from_stream(stream::pending::<Result<&'static str, Infallible>>())
        } else {
            let items = if uri.path().ends_with("/namespaces") {
                namespaces(number)
            } else {
                json!([])
            };
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
            Body::from(list.to_string())
        };
        Ok::<_, Infallible>(Response::new(body))
    };
    Connection::new(clients.plane_of(PlaneKind::Project, None, tower::service_fn(answer)))
}

fn engaged(clients: &Clients, number: usize) -> Result<ProjectEvent> {
    Ok(ProjectEvent::Engaged {
        key: ProjectKey::parse(&format!("idle-{number:05}"))?,
        connection: plane(clients, number),
        uid: None,
    })
}

/// Everything on one thread, which counts its bytes.
pub(crate) fn measure(projects: usize) -> Result<Vec<Part>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let clients = Clients::new(Limits::default(), Metrics::new()?.families.clone());
        let before = live()?;
        let ways: Vec<Connection> = (0..projects).map(|number| plane(&clients, number)).collect();
        settle().await;
        let client = Part {
            name: "client",
            count: ways.len(),
            bytes: live()?.saturating_sub(before),
        };
        drop(ways);
        Ok(vec![client, gateway(projects).await?])
    })
}

/// Until nothing moves: what is under way here waits for nothing but its turn.
async fn settle() {
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
}

async fn gateway(projects: usize) -> Result<Part> {
    let metrics = Metrics::new()?;
    let clients = Clients::new(Limits::default(), metrics.families.clone());
    let settings = settings();
    let setup = Setup {
        sweep_interval: settings.sweep_interval,
        lease: LeaseHandle::always(),
        identity: "bench".to_owned(),
        workers: 16,
        metrics,
        clock: Clock::system(),
    };
    let gateway = fedgate_gateway::new(
        plane(&clients, 1_000_000),
        FederatedKind::builtin()?.into(),
        settings,
        setup,
    );
    let (engage, events) = mpsc::unbounded_channel();
    let events = Box::pin(stream::unfold(events, async |mut events| {
        events.recv().await.map(|event| (event, events))
    }));
    let running = gateway.clone();
    let work = tokio::spawn(async move { running.run(events, std::future::pending()).await });
    for number in 0..WARM {
        engage.send(engaged(&clients, number)?)?;
    }
    settle().await;
    let before = live()?;
    for number in WARM..WARM + projects {
        engage.send(engaged(&clients, number)?)?;
        settle().await;
    }
    let bytes = live()?.saturating_sub(before);
    anyhow::ensure!(gateway.ready().is_ok(), "the gateway is not ready");
    let index = gateway.shared.index.lock();
    let listed = index
        .projects
        .values()
        .filter(|project| project.namespaces.synced());
    anyhow::ensure!(
        listed.count() == WARM + projects,
        "the idle projects are not listed"
    );
    drop(index);
    work.abort();
    Ok(Part {
        name: "idle projects",
        count: projects,
        bytes,
    })
}
