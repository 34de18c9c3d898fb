use super::*;
use axum::body::{Body, Bytes};
use futures::Stream;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use tokio::sync::broadcast;

/// API server with one Lease, resourceVersions and watches; tests can make it fail.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<Stored>>);

struct Stored {
    lease: Option<Value>,
    version: u64,
    fail: Option<Failure>,
    writes: usize,
    events: broadcast::Sender<Bytes>,
}

#[derive(Clone, Copy, PartialEq)]
enum Failure {
    Hang,
    /// The next request hangs, later requests succeed.
    HangOnce,
    Error,
    /// Executes the request and answers after this many seconds.
    Late(u64),
    /// Rejects watches, serves all other requests.
    NoWatch,
}

impl Server {
    pub(crate) fn new() -> Self {
        let events = broadcast::Sender::new(64);
        Self(Arc::new(Mutex::new(Stored {
            lease: None,
            version: 1,
            fail: None,
            writes: 0,
            events,
        })))
    }

    fn plane(&self) -> Connection {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Connection::of_client(kube::Client::new(service, "default"))
    }

    fn fail(&self, failure: Option<Failure>) {
        self.0.lock().fail = failure;
    }

    pub(crate) fn holder(&self) -> String {
        let held = self.0.lock();
        held.lease
            .as_ref()
            .and_then(|l| l["spec"]["holderIdentity"].as_str())
            .unwrap_or("(no lease)")
            .to_owned()
    }

    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut held = self.0.lock();
        let mut lease = held.lease.clone().unwrap();
        change(&mut lease);
        held.store(lease);
    }

    fn delete(&self) {
        let mut held = self.0.lock();
        let lease = held.lease.take().unwrap();
        held.tell("DELETED", &lease);
    }

    pub(crate) async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let failure = self.0.lock().fail;
        match failure {
            // As long as the client stack lets a call wait.
            Some(Failure::Hang | Failure::HangOnce) => {
                if failure == Some(Failure::HangOnce) {
                    self.fail(None);
                }
                seconds(10).await;
                return status(504, "Timeout");
            }
            Some(Failure::Error) => return status(500, "InternalError"),
            Some(Failure::NoWatch) if request.uri().query().is_some_and(|q| !q.is_empty()) => {
                return status(403, "Forbidden");
            }
            _ => {}
        }
        let answer = self.carry_out(request).await;
        if let Some(Failure::Late(by)) = failure {
            seconds(by).await;
        }
        answer
    }

    async fn carry_out(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let watching = request.uri().query().is_some_and(|q| q.contains("watch=true"));
        let single = request.uri().path().ends_with("/gate");
        let (method, body) = (
            request.method().clone(),
            request.into_body().collect().await.unwrap().to_bytes(),
        );
        let mut held = self.0.lock();
        match method {
            Method::GET if watching => {
                let events = tokio_events(held.events.subscribe());
                Response::new(Body::from_stream(events))
            }
            Method::GET if single => match &held.lease {
                Some(lease) => json_body(lease),
                None => status(404, "NotFound"),
            },
            Method::GET => json_body(&json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList",
                "metadata": {"resourceVersion": held.version.to_string()},
                "items": held.lease.iter().collect::<Vec<_>>(),
            })),
            Method::POST if held.lease.is_some() => status(409, "AlreadyExists"),
            Method::PUT if held.lease.is_none() => status(404, "NotFound"),
            _ => {
                let new: Value = serde_json::from_slice(&body).unwrap();
                let seen = &new["metadata"]["resourceVersion"];
                if method == Method::PUT && !seen.as_str().is_some_and(|v| v.parse() == Ok(held.version)) {
                    return status(409, "Conflict");
                }
                held.writes += 1;
                json_body(&held.store(new))
            }
        }
    }
}

impl Stored {
    fn store(&mut self, mut lease: Value) -> Value {
        let before = self.lease.as_ref().map(|had| had["metadata"]["uid"].clone());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = before.unwrap_or_else(|| json!(format!("u{}", self.version)));
        self.lease = Some(lease.clone());
        self.tell(kind, &lease);
        lease
    }

    fn tell(&self, kind: &str, lease: &Value) {
        let event = format!("{}\n", json!({"type": kind, "object": lease}));
        let _ = self.events.send(event.into());
    }
}

fn tokio_events(receiver: broadcast::Receiver<Bytes>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.ok().map(|event| (Ok(event), receiver))
    })
}

fn json_body(value: &Value) -> Response<Body> {
    Response::new(Body::from(value.to_string()))
}

fn status(code: u16, reason: &str) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason});
    Response::builder()
        .status(code)
        .body(Body::from(body.to_string()))
        .unwrap()
}

fn stand(server: &Server, identity: &str) -> LeaseHandle {
    Lease::run(&server.plane(), "fedgate-system", "gate", identity)
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

async fn until(handle: &LeaseHandle, leading: bool) -> Duration {
    let began = Instant::now();
    handle.changes().wait_for(|leads| leads == leading).await;
    began.elapsed()
}

/// Timers have a resolution of 1 ms.
fn close_to(time: Duration, wanted: Duration) -> bool {
    time.abs_diff(wanted) < Duration::from_millis(20)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_keeps_leading() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    for _ in 0..120 {
        seconds(1).await;
        assert!(a.may_write() && !b.may_write());
    }
    let writes = server.0.lock().writes;
    assert!((24..=27).contains(&writes), "one renewal per 5 s, not {writes}");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once_and_one_of_a_dead_holder_after_15_seconds() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    seconds(7).await;
    a.release().await;
    assert!(!a.may_write());
    assert!(until(&b, true).await < Duration::from_millis(200));
    let c = stand(&server, "c");
    seconds(1).await;
    // A dead process neither renews nor releases.
    b.task.as_ref().unwrap().lock().take().unwrap().abort();
    let waited = until(&c, true).await;
    assert!(
        (Duration::from_secs(9)..=Duration::from_secs(16)).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(server.holder(), "c");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_before_another_may_begin() {
    for failure in [Failure::Hang, Failure::Error] {
        let server = Server::new();
        let a = stand(&server, "a");
        until(&a, true).await;
        seconds(1).await;
        server.fail(Some(failure));
        let waited = until(&a, false).await;
        assert!(
            waited <= RENEW_DEADLINE && waited > Duration::from_secs(3),
            "{waited:?}"
        );
        assert!(!a.may_write());
        server.fail(None);
        // Its own Lease need not expire: no other candidate holds it.
        assert!(until(&a, true).await < Duration::from_mins(1));
    }
}

#[tokio::test(start_paused = true)]
async fn may_write_ends_by_itself_even_if_the_renewing_task_is_stuck() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    a.task.as_ref().unwrap().lock().take().unwrap().abort();
    assert!(a.may_write());
    tokio::time::advance(RENEW_DEADLINE + Duration::from_millis(1)).await;
    assert!(!a.may_write());
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_force_ends_the_leadership_and_a_label_does_not() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({"x": "y"}));
    seconds(30).await;
    assert!(a.may_write(), "still ours");
    assert_eq!(
        server.0.lock().lease.as_ref().unwrap()["metadata"]["labels"]["x"],
        "y"
    );
    server.edit(|lease| lease["spec"]["holderIdentity"] = json!("z"));
    assert!(until(&a, false).await <= RENEW_EVERY);
    assert_eq!(server.holder(), "z");
    server.0.lock().lease = None;
    assert!(
        until(&a, true).await < Duration::from_mins(1),
        "a deleted Lease is made anew"
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_the_election_still_works() {
    let server = Server::new();
    server.fail(Some(Failure::NoWatch));
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    seconds(60).await;
    assert!(a.may_write() && !b.may_write());
    a.release().await;
    assert!(until(&b, true).await <= Duration::from_secs(16));
}

#[tokio::test]
async fn a_single_replica_always_writes_until_it_is_released() {
    let alone = LeaseHandle::always();
    assert!(alone.may_write() && alone.changes().borrow_and_update());
    alone.release().await;
    assert!(!alone.may_write());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_is_tried_again_before_the_deadline() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let changes = a.changes();
    for _ in 0..5 {
        server.fail(Some(Failure::HangOnce));
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(a.may_write());
        }
        assert!(server.0.lock().fail.is_none(), "a renewal has hung");
    }
    assert!(!changes.has_changed());
}

#[tokio::test(start_paused = true)]
async fn the_right_counts_from_the_sending_of_a_late_answer_and_leadership_ends_with_it() {
    let server = Server::new();
    server.fail(Some(Failure::Late(2)));
    let a = stand(&server, "a");
    until(&a, true).await;
    server.fail(Some(Failure::Error));
    let led = until(&a, false).await + Duration::from_secs(2);
    assert!(
        close_to(led, RENEW_DEADLINE),
        "no time in which it leads and may not write: {led:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_unheard_is_found_out() {
    let server = Server::new();
    server.fail(Some(Failure::Late(4)));
    let a = stand(&server, "a");
    // The list, the watch and the write that takes the Lease are all late.
    while server.holder() != "a" {
        seconds(1).await;
        assert!(!a.may_write());
    }
    seconds(4).await;
    server.fail(None);
    assert!(until(&a, true).await <= Duration::from_secs(6));
    assert!(a.may_write());
}

/// Name of a way to delete the Lease, and the function that does so.
type Deletion<'a> = (&'a str, &'a dyn Fn(&Server));

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_not_free_before_its_holder_has_stopped() {
    let empty = || json!({"metadata": {"name": "gate"}, "spec": {"holderIdentity": ""}});
    let deletions: [Deletion; 3] = [
        ("deleted", &Server::delete),
        ("made anew", &|server| {
            server.delete();
            server.0.lock().store(empty());
        }),
        ("replaced unseen", &|server| {
            let mut stored = server.0.lock();
            stored.lease = None;
            stored.store(empty());
        }),
    ];
    for (how, delete) in deletions {
        let server = Server::new();
        let a = stand(&server, "a");
        until(&a, true).await;
        let b = stand(&server, "b");
        seconds(7).await;
        // The holder neither renews nor learns of the deletion, and writes until its deadline.
        a.task.as_ref().unwrap().lock().take().unwrap().abort();
        delete(&server);
        let deleted = Instant::now();
        while !b.may_write() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let waited = deleted.elapsed();
        assert!(!a.may_write());
        assert!(
            (LEASE_DURATION..Duration::from_secs(17)).contains(&waited),
            "{how}: {waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_living_holder_makes_its_deleted_lease_anew() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    seconds(1).await;
    server.delete();
    for _ in 0..60 {
        seconds(1).await;
        assert!(a.may_write() && !b.may_write());
    }
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_right_that_comes_back_is_told_even_if_nobody_saw_the_gap() {
    let right = WritePermit::none(crate::plane::client::Fence::default());
    let second = Duration::from_secs(1);
    right.allow(Some(Instant::now() + second));
    let mut changes = right.changes();
    right.allow(Some(Instant::now() + 2 * second));
    assert!(!changes.has_changed(), "a renewal in time is no news");
    tokio::time::advance(3 * second).await;
    assert!(
        !right.may_write() && right.changes().borrow_and_update(),
        "it leads and may not write"
    );
    right.allow(Some(Instant::now() + second));
    assert!(changes.has_changed() && changes.borrow_and_update());
    right.allow(None);
    right.allow(Some(Instant::now() + second));
    assert!(changes.has_changed() && changes.borrow_and_update());
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_ends_with_the_right_and_not_with_a_renewal() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let ends = tokio::spawn({
        let a = a.clone();
        async move { a.permit_expired().await }
    });
    seconds(60).await;
    assert!(!ends.is_finished());
    server.edit(|lease| lease["spec"]["holderIdentity"] = json!("z"));
    until(&a, false).await;
    ends.await.unwrap();
    a.permit_expired().await;

    let b = stand(&Server::new(), "b");
    until(&b, true).await;
    b.task.as_ref().unwrap().lock().take().unwrap().abort();
    let began = Instant::now();
    b.permit_expired().await;
    assert!(close_to(began.elapsed(), RENEW_DEADLINE));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_begins_nothing_and_keeps_the_lease_until_it_is_released() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    a.revoke();
    for _ in 0..20 {
        seconds(1).await;
        assert!(!a.may_write() && a.changes().borrow_and_update());
    }
    assert_eq!(server.holder(), "a");
    a.release().await;
    assert_eq!(server.holder(), "");
    a.permit_expired().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_given_back_while_an_unanswered_write_may_still_be_carried_out() {
    for (after, holder) in [(0, "a"), (3, "a"), (4, "")] {
        let server = Server::new();
        let a = stand(&server, "a");
        until(&a, true).await;
        a.unanswered();
        seconds(after).await;
        a.release().await;
        assert_eq!(server.holder(), holder, "after {after} s");
    }
}
