//! Answers about more projects than are read under one lock of the index.

use super::*;
use crate::operations::Operations;
use fedgate_engine::{
    metrics::Build,
    runtime::inspect::{PlaneState, SLICE},
};
use fedgate_operations::views::header::Process;
use fedgate_operations::{OperationsSource, Time, query::Query};
use std::collections::BTreeMap;

/// A number of projects that fills two slices and begins a third.
const PROJECTS: usize = 2 * SLICE + 1;

#[tokio::test]
async fn each_project_is_in_an_answer_once_however_many_slices_it_takes() {
    let (hub, project) = (Server::new(false, Vec::new()), project(false));
    let gateway = gateway(&hub);
    let names: Vec<String> = (0..PROJECTS).map(|n| format!("p{n:04}")).collect();
    for name in &names {
        gateway.role.on_project(&gateway.shared, engaged(name, &project));
        let key = ProjectKey::parse(name).unwrap();
        let mut index = gateway.shared.index.lock();
        let leaving = serde_json::from_value(fixture::leaving("web", "DFW")).unwrap();
        index.project_event(&key, TableId::DEPLOYMENTS, WatchEvent::Apply(Box::new(leaving)));
    }
    let process = Process {
        identity: "a".to_owned(),
        build: Build {
            version: "1",
            revision: "r",
            rustc: "c",
        },
        started: Time::from_second(0),
    };
    let operations = Operations::new(gateway, process);

    let overview = operations.overview();
    assert_eq!(overview.projects.unwrap().engaged, PROJECTS);
    assert_eq!(overview.deletions.pending, PROJECTS);
    let page = operations.projects(&Query::default()).unwrap();
    let listed: Vec<&str> = page.items.iter().map(|row| row.project.as_str()).collect();
    let first: Vec<&str> = names.iter().take(listed.len()).map(String::as_str).collect();
    assert_eq!(listed, first);
    assert_eq!(page.remaining, PROJECTS - listed.len());
}

/// A project whose API server answers with this code for Workloads, whose watch ends when that is no success.
fn fickle(code: &watch::Sender<u16>) -> Connection {
    let (server, code) = (project(false), code.subscribe());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (server, mut codes) = (server.clone(), code.clone());
        async move {
            let code = *codes.borrow();
            let watches = request.uri().query().is_some_and(|q| q.contains("watch=true"));
            let of_workloads = request.uri().path().ends_with("/workloads");
            if code != 200 && of_workloads {
                let mut response = Response::new(Body::from(refusal(code, &json!({})).to_string()));
                *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
                return Ok::<_, Infallible>(response);
            }
            if !watches {
                return Ok(server.answer(request).await);
            }
            let end = async move {
                let _ = codes.wait_for(|code| *code != 200 && of_workloads).await;
                Ok::<_, Infallible>(Bytes::new())
            };
            let object = json!({"apiVersion": "v1", "kind": "Any", "metadata": {"resourceVersion": "2"}});
            let bookmark = format!("{}\n", json!({"type": "BOOKMARK", "object": object}));
            let begun = futures::stream::iter([Ok(Bytes::from(bookmark))]);
            let events = begun.chain(futures::stream::once(end));
            Ok(Response::new(Body::from_stream(events)))
        }
    });
    Connection::of_client(kube::Client::new(service, "default"))
}

/// A survey reads only the planes that have changed since the last one, and finds what reading all of them finds.
#[tokio::test(start_paused = true)]
async fn a_survey_shows_each_change_of_a_plane_at_once() {
    let code = watch::Sender::new(200);
    let other = with_uid(project(false), "u2");
    let hub = Server::new(false, Vec::new());
    let gateway = gateway(&hub);
    let (events, received) = mpsc::unbounded_channel();
    let events = |event| events.send(event).unwrap();
    let key = ProjectKey::parse("p1").unwrap();
    let engage = || ProjectEvent::Engaged {
        key: key.clone(),
        connection: fickle(&code),
        uid: None,
    };
    events(engage());
    events(engaged("p2", &other));
    let stream = futures::stream::unfold(received, async |mut received| {
        received.recv().await.map(|event| (event, received))
    });
    let work = gateway.clone();
    let task = tokio::spawn(async move { work.run(Box::pin(stream), std::future::pending()).await });
    let agrees = || {
        let survey = gateway.survey();
        let mut states = BTreeMap::new();
        for (plane, state) in gateway.plane_states(&gateway.engaged()) {
            *states.entry((plane.kind(), state)).or_insert(0) += 1;
        }
        assert_eq!(survey.states, states);
        survey
    };
    let becomes = async |state: Option<PlaneState>, seconds: u32| {
        for _ in 0..10 * seconds {
            tokio::time::sleep(Duration::from_millis(100)).await;
            agrees();
        }
        let plane = Plane::Project(key.clone());
        let found = gateway.plane_states(&[plane]).pop().map(|(_, state)| state);
        assert_eq!(found, state);
    };
    agrees();
    becomes(Some(PlaneState::Connected), 10).await;
    for (failure, state) in [(500, PlaneState::Backoff), (403, PlaneState::Unauthorized)] {
        code.send_replace(failure);
        becomes(Some(state), 30).await;
        let forbidding = agrees().forbidding.len();
        assert_eq!(forbidding, usize::from(failure == 403));
        code.send_replace(200);
        becomes(Some(PlaneState::Connected), 120).await;
    }
    // A project has its UID from a Namespace that comes later.
    events(engaged("p3", &Server::new(false, Vec::new())));
    becomes(Some(PlaneState::Connected), 10).await;
    assert_eq!(agrees().defects.len(), 1);
    let plane = Plane::Project(ProjectKey::parse("p3").unwrap());
    let engagement = gateway.shared.planes.engagement(&plane);
    let identity = fixture::namespace("kube-system", "p3", &json!({}));
    let event = WatchEvent::Apply(Box::new(serde_json::from_value(identity).unwrap()));
    let planes = &gateway.shared.planes;
    planes.event(&plane, engagement, TableId::Namespaces, event);
    assert_eq!(agrees().defects, []);
    gateway.role.on_project(&gateway.shared, engaged("p4", &other));
    assert_eq!(
        agrees().states.values().sum::<usize>(),
        5,
        "it counts from its engagement on"
    );
    events(ProjectEvent::Removed { key: key.clone() });
    becomes(None, 1).await;
    events(engage());
    becomes(Some(PlaneState::Connected), 10).await;
    task.abort();
}
