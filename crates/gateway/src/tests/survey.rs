//! Nothing runs here but what a test reports. A survey reads only the planes of which something was reported since the last one. Whatever comes in whatever order, it
//! shows what reading all planes shows.

use super::*;
use fedgate_engine::runtime::inspect::{PlaneState, Survey, WatchReport};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Projects that come and go.
const NAMES: [&str; 3] = ["p1", "p2", "p3"];

/// The planes of which a survey consists, and those that are being listed, as reading all of them shows.
fn from_nothing(gateway: &Runtime<Gateway>) -> (Survey, Vec<Plane>) {
    let mut survey = Survey::default();
    let mut syncing = Vec::new();
    for report in gateway.plane_reports(&gateway.engaged()) {
        let plane = report.plane;
        *survey.states.entry((plane.kind(), report.state)).or_insert(0) += 1;
        survey
            .defects
            .extend(report.defect.map(|defect| (plane.clone(), defect)));
        let optional = ["ConfigMap", "Secret"];
        let forbids = |watch: &WatchReport| watch.forbidden && !optional.contains(&watch.kind.as_str());
        if report.watches.iter().any(forbids) {
            survey.forbidding.push(plane.clone());
        }
        if report.state == PlaneState::Syncing {
            syncing.push(plane);
        }
    }
    (survey, syncing)
}

/// Fails unless a survey shows what reading all planes shows.
fn agrees(gateway: &Runtime<Gateway>, after: &str) -> Survey {
    let (all, syncing) = from_nothing(gateway);
    let survey = gateway.survey();
    assert_eq!(
        (&survey.states, &survey.forbidding, &survey.defects),
        (&all.states, &all.forbidding, &all.defects),
        "after {after}"
    );
    assert_eq!(gateway.syncing(usize::MAX), syncing, "after {after}");
    survey
}

fn report(gateway: &Runtime<Gateway>, plane: &Plane, table: TableId, event: WatchEvent) {
    let planes = &gateway.shared.planes;
    planes.event(plane, planes.engagement(plane), table, event);
}

fn tables(gateway: &Runtime<Gateway>, plane: &Plane) -> Vec<TableId> {
    let index = gateway.shared.index.lock();
    match plane {
        Plane::Hub => index.hub_tables(),
        Plane::Project(_) | Plane::Cell | Plane::Home => index.project_tables(),
    }
}

/// The Namespace whose UID is that of a plane.
fn identity(plane: &Plane) -> Box<kube::core::DynamicObject> {
    let name: String = plane
        .to_string()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let object = fixture::namespace("kube-system", &name, &json!({}));
    Box::new(serde_json::from_value(object).unwrap())
}

fn list(gateway: &Runtime<Gateway>, plane: &Plane, table: TableId, with_identity: bool) {
    report(gateway, plane, table, WatchEvent::Init);
    if with_identity && table == TableId::Namespaces {
        report(gateway, plane, table, WatchEvent::InitApply(identity(plane)));
    }
    report(gateway, plane, table, WatchEvent::InitDone);
}

/// The states of all projects.
fn states(of: &Survey) -> BTreeMap<PlaneState, usize> {
    let projects = of.states.iter().filter(|((kind, _), _)| *kind == "project");
    projects.map(|((_, state), count)| (*state, *count)).collect()
}

#[tokio::test]
async fn a_survey_shows_each_kind_of_change_at_the_next_request() {
    let (hub, server) = (Server::new(false, Vec::new()), project(false));
    let gateway = gateway(&hub);
    assert_eq!(states(&agrees(&gateway, "nothing")), BTreeMap::new());
    let plane = Plane::Project(ProjectKey::parse("p1").unwrap());
    let shared = &gateway.shared;
    gateway.role.on_project(shared, engaged("p1", &server));
    let syncing = BTreeMap::from([(PlaneState::Syncing, 1)]);
    assert_eq!(states(&agrees(&gateway, "an engagement")), syncing);
    for table in tables(&gateway, &plane) {
        list(&gateway, &plane, table, false);
        agrees(&gateway, "a list");
    }
    let without_uid = BTreeMap::from([(PlaneState::Backoff, 1)]);
    assert_eq!(states(&agrees(&gateway, "a list without the UID")), without_uid);
    let connected = BTreeMap::from([(PlaneState::Connected, 1)]);
    report(
        &gateway,
        &plane,
        TableId::Namespaces,
        WatchEvent::Apply(identity(&plane)),
    );
    assert_eq!(states(&agrees(&gateway, "the UID")), connected);
    report(
        &gateway,
        &plane,
        TableId::Namespaces,
        WatchEvent::Delete(identity(&plane)),
    );
    agrees(&gateway, "a Namespace that is deleted");
    report(
        &gateway,
        &plane,
        TableId::Namespaces,
        WatchEvent::Apply(identity(&plane)),
    );
    report(&gateway, &plane, TableId::Namespaces, WatchEvent::Rewound);
    assert_eq!(states(&agrees(&gateway, "a restore")), syncing);
    let key = ProjectKey::parse("p1").unwrap();
    gateway.role.on_project(shared, ProjectEvent::Removed { key });
    assert_eq!(states(&agrees(&gateway, "its end")), BTreeMap::new());
    for table in tables(&gateway, &Plane::Hub) {
        list(&gateway, &Plane::Hub, table, false);
        agrees(&gateway, "a list of the hub");
    }
    assert_eq!(gateway.syncing(1), []);
}

/// Surveys at the same time share what each finds: none takes a change from another one.
#[tokio::test]
async fn surveys_at_the_same_time_show_the_same() {
    let (hub, server) = (Server::new(false, Vec::new()), project(false));
    let gateway = gateway(&hub);
    let plane = Plane::Project(ProjectKey::parse("p1").unwrap());
    gateway.role.on_project(&gateway.shared, engaged("p1", &server));
    agrees(&gateway, "an engagement");
    for _ in 0..50 {
        for table in tables(&gateway, &plane) {
            list(&gateway, &plane, table, true);
        }
        let seen: Vec<_> = std::thread::scope(|scope| {
            let surveys: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| states(&gateway.survey())))
                .collect();
            surveys.into_iter().map(|survey| survey.join().unwrap()).collect()
        });
        let connected = BTreeMap::from([(PlaneState::Connected, 1)]);
        assert_eq!(seen, vec![connected; 4]);
        report(&gateway, &plane, TableId::Namespaces, WatchEvent::Rewound);
        // The main loop would begin the next engagement; here the plane is engaged again.
        gateway.role.on_project(&gateway.shared, engaged("p1", &server));
        assert_eq!(
            states(&agrees(&gateway, "a restore")),
            BTreeMap::from([(PlaneState::Syncing, 1)])
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_survey_is_what_reading_all_planes_shows(
        events in prop::collection::vec((0..8u8, 0..4usize, any::<u8>(), any::<bool>(), any::<bool>()), 1..80)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let (hub, server) = (Server::new(false, Vec::new()), project(false));
        let gateway = gateway(&hub);
        for (what, which, table, identified, surveyed) in events {
            let plane = NAMES.get(which).map_or(Plane::Hub, |name| {
                Plane::Project(ProjectKey::parse(name).unwrap())
            });
            let tables = tables(&gateway, &plane);
            let table = tables[usize::from(table) % tables.len()];
            match (what, &plane) {
                (0, Plane::Project(key)) => {
                    let uid = identified.then(|| Arc::from("told"));
                    let connection = server.connection();
                    gateway.role.on_project(&gateway.shared, ProjectEvent::Engaged { key: key.clone(), connection, uid });
                }
                (1, Plane::Project(key)) => {
                    gateway.role.on_project(&gateway.shared, ProjectEvent::Removed { key: key.clone() });
                }
                (2, _) => report(&gateway, &plane, table, WatchEvent::Rewound),
                (3, _) => report(&gateway, &plane, TableId::Namespaces, WatchEvent::Apply(identity(&plane))),
                (4, _) => report(&gateway, &plane, TableId::Namespaces, WatchEvent::Delete(identity(&plane))),
                (5, _) => report(&gateway, &plane, table, WatchEvent::Failed),
                // All lists at once, since single ones seldom make a plane complete.
                (6, _) => tables.iter().for_each(|table| list(&gateway, &plane, *table, identified)),
                _ => list(&gateway, &plane, table, identified),
            }
            // Some changes meet in one survey.
            if surveyed {
                agrees(&gateway, &format!("{what} of {plane}"));
            }
        }
        agrees(&gateway, "all");
    }
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
    let agrees = || agrees(&gateway, "a change");
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
