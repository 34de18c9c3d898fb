//! The write permit: the executor checks it at each request, and no request outlives it.

use super::*;
use crate::{
    plan::{ReasonLabel, Requeue},
    testing::access::SinglePlane,
};
use axum::body::Body;
use http::{Method, Request, Response};
use kube::Client;
use serde_json::json;
use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

/// A server that answers each request after `delay`, and counts the requests.
#[derive(Clone)]
struct Server {
    delay: Duration,
    requests: watch::Sender<usize>,
}

impl Server {
    fn new(delay: u64) -> Self {
        Self {
            delay: seconds(delay),
            requests: watch::Sender::new(0),
        }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request.method().clone()).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, method: Method) -> Response<Body> {
        self.requests.send_modify(|n| *n += 1);
        sleep(self.delay).await;
        let body = if method == Method::DELETE {
            json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
        } else {
            // A field of another manager under a root that must be exact.
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"ours": "1", "theirs": "2"},
                "metadata": {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "2"}})
        };
        Response::new(Body::from(body.to_string()))
    }

    fn requests(&self) -> usize {
        *self.requests.borrow()
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn target() -> Target {
    let resource = kube::core::ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
    };
    Target::namespaced(Plane::Hub, &resource, "default", "x")
}

/// A server that answers after `delay`, and an executor whose write permit expires after `right`.
fn set_up(delay: u64, right: u64) -> (Server, Arc<SinglePlane>, Arc<Executor>) {
    let server = Server::new(delay);
    let ground = SinglePlane::new(server.client(), Instant::now() + seconds(right));
    let executor = Executor::new(ground.clone(), "test".into(), Clock::system());
    (server, ground, Arc::new(executor))
}

fn plan(write: Write) -> Plan<Prepared> {
    at(Endpoint::Main, write)
}

fn at(endpoint: Endpoint, write: Write) -> Plan<Prepared> {
    Plan::one(Effect {
        target: target(),
        endpoint,
        write,
        reason: ReasonLabel::new("test"),
    })
}

fn body() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"ours": "1"}})
}

/// A write of each kind; the apply is exact, and the update lacks a root field, which takes a second request.
fn writes() -> [Write; 6] {
    [
        Write::create(body()),
        Write::Replace { body: body() },
        Write::Apply {
            body: body(),
            exact: ExactFields::roots(["data"]),
        },
        Write::Update {
            body: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
            strict: true,
        },
        Write::Merge { patch: body() },
        Write::Delete {
            uid: "u".into(),
            resource_version: None,
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn a_write_under_way_ends_with_the_right() {
    for write in writes() {
        let (server, ground, executor) = set_up(60, 3);
        let began = Instant::now();
        let failure = executor.execute(plan(write)).await.unwrap_err();
        assert_eq!(began.elapsed(), seconds(3));
        assert_eq!(failure.category, Category::NotLeader);
        assert_eq!((server.requests(), ground.unanswered()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_can_go_on_when_the_right_ends_is_not_sent() {
    let sent = Arc::<AtomicUsize>::default();
    let count = sent.clone();
    let service = tower::service_fn(move |_: Request<kube::client::Body>| {
        let count = count.clone();
        async move {
            // Delays the request as if it waited for a free call slot.
            sleep(seconds(3)).await;
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    let ground = SinglePlane::new(Client::new(service, "default"), Instant::now() + seconds(3));
    let executor = Executor::new(ground.clone(), "test".into(), Clock::system());
    let write = Write::create(body());
    let failure = executor.execute(plan(write)).await.unwrap_err();
    assert_eq!(failure.category, Category::NotLeader);
    assert_eq!((sent.load(Ordering::Relaxed), ground.unanswered()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_write_is_finished_while_the_right_is_renewed() {
    for write in writes() {
        let (_, ground, executor) = set_up(5, 3);
        let renewed = ground.clone();
        let renewal = tokio::spawn(async move {
            sleep(seconds(2)).await;
            renewed.until.send_replace(Instant::now() + seconds(60));
        });
        executor.execute(plan(write)).await.unwrap();
        assert_eq!(ground.unanswered(), 0);
        renewal.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_request_of_an_exact_write_asks_for_the_right_and_ends_with_it() {
    let [_, _, apply, update, ..] = writes();
    for write in [apply, update] {
        let (server, ground, executor) = set_up(2, 3);
        let began = Instant::now();
        let failure = executor.execute(plan(write.clone())).await.unwrap_err();
        assert_eq!(failure.category, Category::NotLeader);
        assert_eq!(
            (began.elapsed(), server.requests(), ground.unanswered()),
            (seconds(3), 2, 1)
        );

        // As at shutdown: the request in flight finishes, and no other starts.
        let (server, ground, executor) = set_up(2, 60);
        let closed = ground.clone();
        let closing = tokio::spawn(async move {
            sleep(seconds(1)).await;
            closed.until.send_replace(Instant::now());
        });
        let failure = executor.execute(plan(write)).await.unwrap_err();
        assert_eq!(failure.category, Category::NotLeader);
        assert_eq!((server.requests(), ground.unanswered()), (1, 0));
        closing.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_nothing_is_sent_not_even_a_read() {
    let (server, ground, executor) = set_up(0, 0);
    for write in writes() {
        let failure = executor.execute(plan(write)).await.unwrap_err();
        assert_eq!(failure.category, Category::NotLeader);
    }
    let failure = executor.get(&target()).await.unwrap_err();
    assert_eq!(failure.category, Category::NotLeader);
    assert_eq!((server.requests(), ground.unanswered()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_task_is_ended_counts_as_unanswered() {
    let (server, ground, executor) = set_up(60, 600);
    let [create, ..] = writes();
    let task = tokio::spawn(async move { executor.execute(plan(create)).await.map(drop) });
    server.requests.subscribe().wait_for(|n| *n == 1).await.unwrap();
    assert_eq!(ground.unanswered(), 0, "it is under way");
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(ground.unanswered(), 1);
}

#[tokio::test]
async fn silence_of_the_server_is_no_answer_and_a_refusal_is_one() {
    for (code, unanswered) in [(504, 1), (500, 0), (409, 0)] {
        let service = tower::service_fn(move |_: Request<kube::client::Body>| async move {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "", "message": ""});
            let response = Response::builder().status(code);
            response.body(Body::from(body.to_string()))
        });
        let ground = SinglePlane::new(Client::new(service, "default"), Instant::now() + seconds(60));
        let executor = Executor::new(ground.clone(), "test".into(), Clock::system());
        let [create, ..] = writes();
        executor.execute(plan(create)).await.unwrap_err();
        assert_eq!(ground.unanswered(), unanswered, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_no_turn_from_the_next_that_may_write() {
    let (server, ground, executor) = set_up(0, 60);
    for _ in 0..3 {
        ground.health.call_ended(Some(Category::Timeout));
    }
    tokio::time::advance(crate::circuit_breaker::PROBE_EVERY).await;
    ground.until.send_replace(Instant::now());
    let [create, ..] = writes();
    let failure = executor.execute(plan(create.clone())).await.unwrap_err();
    assert_eq!(failure.category, Category::NotLeader);
    ground.until.send_replace(Instant::now() + seconds(60));
    executor.execute(plan(create)).await.unwrap();
    assert_eq!(server.requests(), 1, "the probe");
}

#[test]
fn what_is_deleted_is_gone_unless_something_holds_it_or_it_still_stops() {
    let gone = |metadata: serde_json::Value| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        matches!(
            answer_of(serde_json::from_value(pod).unwrap()),
            WriteResult::Deleted { .. }
        )
    };
    let deleted = "2026-05-04T10:00:00Z";
    assert!(!gone(json!({"name": "a"})));
    assert!(gone(json!({"name": "a", "deletionTimestamp": deleted})));
    assert!(gone(
        json!({"name": "a", "deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0})
    ));
    assert!(!gone(
        json!({"name": "a", "deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30})
    ));
    assert!(!gone(
        json!({"name": "a", "deletionTimestamp": deleted, "finalizers": ["example.com/a"]})
    ));
}

/// Requests, and what their write ends with.
type Sent = (Vec<(Method, String, Value)>, Result<(), Category>);

/// The requests that an executor sends to apply `body`, and its result, if the server rejects the apply with `refusal`
/// and stores `live`.
async fn sent_when_refused(refusal: &'static str, live: Value) -> Sent {
    sent_to((422, refusal), Endpoint::Main, live).await
}

/// The requests that are sent while an endpoint gives this answer.
async fn sent_to(refusal: (u16, &'static str), endpoint: Endpoint, live: Value) -> Sent {
    let write = Write::Apply {
        body: gated(),
        exact: ExactFields::roots(["data"]),
    };
    sent_with(write, "apply-patch", &[refusal], endpoint, live).await
}

fn gated() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"gates": []}})
}

/// As [`sent_to`], of this write, while the first requests of this content type are refused.
async fn sent_with(
    write: Write,
    refused: &'static str,
    refusals: &[(u16, &'static str)],
    endpoint: Endpoint,
    live: Value,
) -> Sent {
    let refusals = refusals.to_vec();
    let seen = Arc::<parking_lot::Mutex<Vec<(Method, String, Value)>>>::default();
    let log = seen.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (log, live, refusals) = (log.clone(), live.clone(), refusals.clone());
        async move {
            let (parts, body) = request.into_parts();
            let kind = parts
                .headers
                .get("content-type")
                .map(|v| v.to_str().unwrap().to_owned());
            let kind = kind.unwrap_or_default();
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let before = log
                .lock()
                .iter()
                .filter(|(_, earlier, _)| *earlier == kind)
                .count();
            log.lock().push((parts.method, kind.clone(), body));
            let refusal = refusals.get(before).filter(|_| kind.contains(refused));
            let (code, answer) = refusal.map_or((200, live), |(code, refusal)| {
                (
                    *code,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "reason": "Invalid", "message": refusal}),
                )
            });
            let answer = Response::builder()
                .status(code)
                .body(Body::from(answer.to_string()));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    let ground = SinglePlane::new(Client::new(service, "default"), Instant::now() + seconds(60));
    let result = Executor::new(ground, "test".into(), Clock::system())
        .execute(at(endpoint, write))
        .await;
    let sent = std::mem::take(&mut *seen.lock());
    (sent, result.map(drop).map_err(|failure| failure.category))
}

#[tokio::test]
async fn a_replacement_is_a_put_of_the_whole_and_a_post_where_there_is_none() {
    for (is_there, wanted) in [
        (true, vec![Method::PUT]),
        (false, vec![Method::PUT, Method::POST]),
    ] {
        let seen = Arc::<parking_lot::Mutex<Vec<Method>>>::default();
        let log = seen.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let log = log.clone();
            async move {
                let (parts, sent) = request.into_parts();
                let sent: Value = serde_json::from_slice(&sent.collect_bytes().await.unwrap()).unwrap();
                assert_eq!(sent, body());
                let is_found = is_there || parts.method == Method::POST;
                log.lock().push(parts.method);
                let absent = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": "there is none",
                    "details": {"kind": "configmaps", "name": "x"}});
                let text = if is_found { body() } else { absent };
                let answer = Response::builder().status(if is_found { 200 } else { 404 });
                Ok::<_, Infallible>(answer.body(Body::from(text.to_string())).unwrap())
            }
        });
        let ground = SinglePlane::new(Client::new(service, "default"), Instant::now() + seconds(60));
        let executor = Executor::new(ground, "test".into(), Clock::system());
        let written = executor.execute(plan(Write::Replace { body: body() })).await;
        assert!(written.is_ok(), "{:?}", written.map(drop));
        assert_eq!(*seen.lock(), wanted);
    }
}

/// The requests of an apply that is refused, and then merged into the object that is there.
const MERGED: [(&str, &str); 3] = [
    ("PATCH", "application/apply-patch+yaml"),
    ("GET", ""),
    ("PATCH", "application/merge-patch+json"),
];

fn methods(sent: &[(Method, String, Value)]) -> Vec<(&str, &str)> {
    let sent = sent.iter();
    sent.map(|(method, kind, _)| (method.as_str(), kind.as_str()))
        .collect()
}

#[tokio::test]
async fn a_list_that_an_apply_cannot_empty_is_emptied_by_a_merge_patch() {
    let refusal = "ConfigMap \"x\" is invalid: data.gates: Invalid value: \"null\": data.gates in body must be of type array: \"null\"";
    let live = |gates: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"gates": gates},
            "metadata": {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "2"}})
    };
    let (sent, result) = sent_when_refused(refusal, live(json!([{"name": "Quota"}]))).await;
    assert_eq!(result, Ok(()));
    assert_eq!(methods(&sent), MERGED);
    assert_eq!(
        sent[2].2,
        json!({"metadata": {"uid": "u"}, "data": {"gates": []}})
    );
    // Without a difference, or with another rejection, the apply stays rejected.
    let (sent, result) = sent_when_refused(refusal, live(json!([]))).await;
    assert_eq!((sent.len(), result), (2, Err(Category::Refused)));
    let (sent, result) = sent_when_refused("data.gates: Required value", live(json!([]))).await;
    assert_eq!((sent.len(), result), (1, Err(Category::Refused)));
}

#[tokio::test]
async fn a_status_with_a_field_that_the_schema_lacks_is_written_without_it() {
    let refusal = (
        500,
        "failed to create typed patch object: .data.gates: field not declared in schema",
    );
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "2"}});
    let (sent, result) = sent_to(refusal, Endpoint::Status, live.clone()).await;
    assert_eq!(result, Ok(()));
    assert_eq!(methods(&sent), MERGED);
    // A spec that lost a field would build something else.
    let (sent, result) = sent_to(refusal, Endpoint::Main, live).await;
    assert_eq!((sent.len(), result), (1, Err(Category::Refused)));
}

const JSON_PATCH: (&str, &str) = ("PATCH", "application/json-patch+json");

/// The requests of an update, and its result, if the object is `live` and the first JSON patches are answered so.
async fn sent_to_update(live: Value, refusals: &[(u16, &'static str)]) -> Sent {
    let update = Write::Update {
        body: gated(),
        strict: true,
    };
    sent_with(update, "json-patch", refusals, Endpoint::Main, live).await
}

#[tokio::test]
async fn an_update_is_one_json_patch_and_a_merge_patch_for_another_root() {
    let live = |data: Value| {
        let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "2"}});
        live.as_object_mut()
            .unwrap()
            .extend(data.as_object().unwrap().clone());
        live
    };
    let same = live(json!({"data": {"gates": [], "default": 1}}));
    let (sent, result) = sent_to_update(same.clone(), &[]).await;
    assert_eq!((methods(&sent), result), (vec![JSON_PATCH], Ok(())));
    assert_eq!(sent[0].2, json!(diff::update_operations(&gated())));

    let left = live(json!({"data": {"gates": []}, "binaryData": {"a": "b"}}));
    let (sent, result) = sent_to_update(left, &[]).await;
    assert_eq!((methods(&sent), result), (vec![JSON_PATCH, MERGED[2]], Ok(())));
    assert_eq!(sent[1].2, json!({"metadata": {"uid": "u"}, "binaryData": null}));

    // An object without annotations gets them, and then the update.
    let missing = (
        422,
        "the server rejected our request due to an error in our request",
    );
    let (sent, result) = sent_to_update(same.clone(), &[missing]).await;
    assert_eq!(
        (methods(&sent), result),
        (vec![JSON_PATCH, MERGED[1], JSON_PATCH], Ok(()))
    );
    let found = serde_json::from_value(same.clone()).unwrap();
    let all = [diff::absent_maps(&found), diff::update_operations(&gated())].concat();
    assert_eq!(sent[2].2, json!(all));
    // No other refusal is answered by another request, nor that one twice.
    let (sent, result) = sent_to_update(same.clone(), &[missing, missing]).await;
    assert_eq!((sent.len(), result), (3, Err(Category::Refused)));
    let (sent, result) = sent_to_update(same, &[(422, "spec.gates: Required value")]).await;
    assert_eq!((sent.len(), result), (1, Err(Category::Refused)));
}

#[tokio::test]
async fn a_strict_write_asks_the_server_to_refuse_fields_that_it_does_not_know() {
    for (strict, wanted) in [
        (true, "?&fieldManager=fedgate&fieldValidation=Strict"),
        (false, "?&fieldManager=fedgate"),
    ] {
        let writes = [
            Write::Create { body: body(), strict },
            Write::Update { body: body(), strict },
        ];
        for write in writes {
            let seen = Arc::<parking_lot::Mutex<String>>::default();
            let log = seen.clone();
            let service = tower::service_fn(move |request: Request<kube::client::Body>| {
                log.lock().push_str(&request.uri().to_string());
                async move { Ok::<_, Infallible>(Response::new(Body::from(body().to_string()))) }
            });
            let ground = SinglePlane::new(Client::new(service, "default"), Instant::now() + seconds(60));
            let executor = Executor::new(ground, "test".into(), Clock::system());
            executor.execute(plan(write.clone())).await.unwrap();
            let uri = seen.lock().clone();
            assert!(uri.ends_with(wanted), "{uri} of {write:?}");
        }
    }
}

#[tokio::test]
async fn each_applied_effect_is_reported_though_another_one_failed() {
    // The server knows no DELETE of this object, whose UID is another one.
    let server = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let (code, body) = match *request.method() {
            Method::DELETE => (
                409,
                json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"}),
            ),
            _ => (200, body()),
        };
        let response = Response::builder()
            .status(code)
            .body(Body::from(body.to_string()));
        Ok::<_, Infallible>(response.unwrap())
    });
    let ground = SinglePlane::new(Client::new(server, "default"), Instant::now() + seconds(60));
    let effect = |endpoint, write| Effect {
        target: target(),
        endpoint,
        write,
        reason: ReasonLabel::new("test"),
    };
    let [create, _, _, _, merge, delete] = writes();
    let effects = vec![effect(Endpoint::Main, delete), effect(Endpoint::Main, create)];
    let status = effect(Endpoint::Status, merge);
    let independent = Plan::independent(effects.clone(), Some(status), Requeue::AwaitChange);
    let mut ordered = Plan::default();
    ordered.effects = effects;
    for (plan, expected) in [
        (
            independent,
            vec![(Endpoint::Main, "create"), (Endpoint::Status, "merge")],
        ),
        (ordered, vec![]),
    ] {
        let applied = parking_lot::Mutex::new(Vec::new());
        let on_applied = |effect: &Effect| {
            let write = match effect.write {
                Write::Create { .. } => "create",
                Write::Replace { .. } => "update",
                Write::Update { .. } | Write::Merge { .. } => "merge",
                Write::Apply { .. } => "apply",
                Write::Delete { .. } | Write::DeleteNamed => "delete",
            };
            applied.lock().push((effect.endpoint, write));
        };
        let executor = Executor::new(ground.clone(), "test".into(), Clock::system());
        let failure = executor.execute_each(plan, &on_applied).await.unwrap_err();
        assert_eq!(failure.category, Category::Conflict);
        assert_eq!(applied.into_inner(), expected);
    }
}

#[tokio::test]
async fn the_journal_has_each_write_with_its_reason_and_result_and_keeps_places_for_failures() {
    let refusing = Arc::new(Journal::new(Clock::system()));
    let effect = |name: &str| Effect {
        target: Target {
            name: name.to_owned(),
            ..target()
        },
        ..plan(Write::Merge { patch: json!({}) }).effects.remove(0)
    };
    let refusal = Call::of(&target(), "apply").failed(
        Category::Refused,
        r#"spec.env: Invalid value: "hunter2": too long"#,
    );
    refusing.record(&effect("first"), "apply", Instant::now(), Err(&refusal));
    for _ in 0..5_000 {
        refusing.record(&effect("later"), "patch", Instant::now(), Ok(Some("7")));
    }
    let standby = Call::of(&target(), "apply").failed(Category::NotLeader, "standby");
    refusing.record(&effect("unsent"), "apply", Instant::now(), Err(&standby));
    let entries = refusing.entries();
    assert_eq!(entries.len(), 3_841);
    let newest = &entries[0];
    assert_eq!(
        (newest.number, newest.verb, &*newest.object.name),
        (5_001, "patch", "later")
    );
    assert_eq!(newest.end, journal::End::Applied(Some("7".into())));
    let oldest = &entries[3_840];
    assert_eq!((oldest.number, oldest.reason), (1, "test"));
    let words = "spec.env: Invalid value: …: too long".into();
    assert_eq!(oldest.end, journal::End::Failed(Category::Refused, words));
}
