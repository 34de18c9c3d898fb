//! Outage and recovery of a plane with many watches: the number of requests, and the time until all watches are
//! healthy.

use super::*;
use crate::{
    circuit_breaker::{FAILURES, PROBE_EVERY},
    key::Plane,
    plane::{
        client::PlaneClient,
        watch::{SMALL_OBJECTS, WatchEvent, WatchSpec, WatchStatus, run},
    },
};
use axum::body::{Body, Bytes};
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use tokio::{sync::watch, task::JoinSet};
use tower::BoxError;

/// How a plane answers requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Answers,
    Refuses,
    Hangs,
    Fails,
    /// Sends no events, and ends each watch as soon as it has started.
    Ends,
}

/// A plane, and the time of each request.
#[derive(Clone)]
struct Server {
    mood: watch::Sender<Mood>,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Server {
    fn new(mood: Mood) -> Self {
        Self {
            mood: watch::Sender::new(mood),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> Arc<PlaneClient> {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let watch = request.uri().query().is_some_and(|q| q.contains("watch=true"));
            let server = server.clone();
            async move { server.answer(watch).await }
        });
        Arc::new(PlaneClient::of(kube::Client::new(service, "default")))
    }

    async fn answer(&self, watch: bool) -> Result<Response<Body>, BoxError> {
        self.asked.lock().push(Instant::now());
        let mood = *self.mood.borrow();
        match mood {
            Mood::Refuses => return Err("refused".into()),
            Mood::Hangs => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                return Err("no answer".into());
            }
            Mood::Fails => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503});
                let mut response = Response::new(Body::from(status.to_string()));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                return Ok(response);
            }
            Mood::Answers | Mood::Ends => {}
        }
        if !watch {
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []});
            return Ok(Response::new(Body::from(list.to_string())));
        }
        let mut moods = self.mood.subscribe();
        let breaks = async move {
            if mood == Mood::Ends {
                return None;
            }
            // The watch breaks when the plane stops answering.
            let _ = moods.wait_for(|mood| *mood != Mood::Answers).await;
            Some(Err::<Bytes, _>(std::io::Error::other("reset")))
        };
        let events = futures::stream::once(breaks).filter_map(std::future::ready);
        Ok(Response::new(Body::from_stream(events)))
    }

    fn becomes(&self, mood: Mood) {
        self.asked.lock().clear();
        self.mood.send_replace(mood);
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

/// Running watches of one plane.
struct Watches {
    statuses: Vec<Arc<WatchStatus>>,
    _tasks: JoinSet<()>,
}

impl Watches {
    fn start(server: &Server, count: usize) -> Self {
        let health = Arc::<PlaneHealth>::default();
        let mut tasks = JoinSet::new();
        let statuses: Vec<_> = (0..count).map(|_| Arc::<WatchStatus>::default()).collect();
        for status in &statuses {
            let health = health.clone();
            let (client, status) = (server.client(), status.clone());
            tasks.spawn(async move {
                let selection = WatchSpec {
                    resource: kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()),
                    page: SMALL_OBJECTS,
                    namespace: None,
                    labels: None,
                    fields: None,
                    metadata_only: false,
                    unread: &[],
                    may_be_absent: false,
                };
                run(
                    &Plane::Hub,
                    client,
                    &selection,
                    &status,
                    &health,
                    |_: WatchEvent| {},
                    |_| {},
                )
                .await;
            });
        }
        Self {
            statuses,
            _tasks: tasks,
        }
    }

    fn well(&self) -> bool {
        self.statuses.iter().all(|h| h.synced() && h.error().is_none())
    }

    async fn are_well_within(&self, time: Duration) {
        let well = async {
            while !self.well() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(time, well)
            .await
            .expect("all are well again");
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_plane_that_is_away_is_asked_by_one_watch_at_a_time_and_all_are_well_soon_after() {
    for mood in [Mood::Refuses, Mood::Hangs, Mood::Fails] {
        let server = Server::new(Mood::Answers);
        let watches = Watches::start(&server, 9);
        watches.are_well_within(SECOND).await;
        server.becomes(mood);
        tokio::time::sleep(600 * SECOND).await;
        let asked = server.asked.lock().clone();
        assert!(
            (60..=121).contains(&asked.len()),
            "{mood:?}: {} times",
            asked.len()
        );
        let apart = asked.windows(2).map(|two| two[1] - two[0]).min();
        assert!(apart >= Some(PROBE_INTERVAL), "{mood:?}: {apart:?}");
        assert!(!watches.well());
        server.becomes(Mood::Answers);
        watches.are_well_within(10 * SECOND).await;
        tokio::time::sleep(20 * SECOND).await;
        assert!(
            server.asked() <= 20,
            "{mood:?}: each for its version and for its watch, and what hung once more: {}",
            server.asked()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_plane_that_was_never_there_is_found_when_it_comes() {
    let server = Server::new(Mood::Hangs);
    let watches = Watches::start(&server, 9);
    tokio::time::sleep(600 * SECOND).await;
    assert!(server.asked() <= 9 + 120, "{}", server.asked());
    server.becomes(Mood::Answers);
    watches.are_well_within(10 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_silent_plane_takes_its_turn_among_the_watches() {
    let health = PlaneHealth::default();
    for _ in 0..FAILURES {
        assert_eq!(health.admit_call(), Ok(()), "calls were answered so far");
        health.call_ended(Some(Category::Timeout));
    }
    assert!(health.failure(Instant::now(), Unreachable::Failing));
    assert_eq!(
        health.admit_call(),
        Err(PROBE_EVERY),
        "watches are answered, if not well: calls have turns of their own"
    );
    health.failure(Instant::now(), Unreachable::Silent);
    assert_eq!(health.admit_call(), Ok(()));
    assert_eq!(health.admit_call(), Err(PROBE_INTERVAL));
    let began = Instant::now();
    health.probe_turn().await;
    assert_eq!(began.elapsed(), PROBE_INTERVAL, "the watch has the next");
    let waits = health.probe_turn();
    let answered = async {
        tokio::time::sleep(SECOND).await;
        health.success();
    };
    tokio::join!(waits, answered);
    assert_eq!(began.elapsed(), PROBE_INTERVAL + SECOND);
    assert!(
        !health.failure(began, Unreachable::Silent),
        "it has answered since"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_as_soon_as_it_begins_is_begun_again_ever_more_rarely() {
    let server = Server::new(Mood::Ends);
    let watches = Watches::start(&server, 1);
    tokio::time::sleep(600 * SECOND).await;
    // Each time a watch, and a list of one object for the server's version.
    assert!((120..=150).contains(&server.asked()), "{}", server.asked());
    assert!(watches.well());
}

#[tokio::test(start_paused = true)]
async fn calls_without_an_answer_fail_at_once_but_for_a_probe_until_one_is_answered() {
    let health = PlaneHealth::default();
    for _ in 0..FAILURES {
        assert_eq!(health.admit_call(), Ok(()));
        health.call_ended(Some(Category::Timeout));
    }
    assert_eq!(health.admit_call(), Err(PROBE_EVERY));
    health.call_ended(Some(Category::NotLeader));
    assert_eq!(
        health.admit_call(),
        Err(PROBE_EVERY),
        "a cancelled call proves nothing"
    );
    health.admit_all_calls();
    assert_eq!(health.admit_call(), Ok(()), "the plane has another credential");
    health.call_ended(Some(Category::Timeout));
    health.call_ended(Some(Category::Conflict));
    health.call_ended(Some(Category::Network));
    health.call_ended(Some(Category::Timeout));
    assert_eq!(health.admit_call(), Ok(()), "a refusal is an answer");
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_probing_call_counts_for_the_watches() {
    let health = PlaneHealth::default();
    health.failure(Instant::now(), Unreachable::Silent);
    for _ in 0..FAILURES {
        health.call_ended(Some(Category::Timeout));
    }
    let mut recovered = pin!(health.recovered());
    assert!(futures::poll!(recovered.as_mut()).is_pending());
    health.call_ended(None);
    assert!(!health.is_down());
    recovered.await;
    assert!(health.admits_all_calls());
}
