//! A watch against a scripted server: events at the sink, and requests at the server.

mod host;
mod restored;

use super::*;
use crate::{
    interner::Interner,
    store::table::{Origin, Table},
    testing::logs,
};
use axum::body::{Body, Bytes};
use fedgate_api::names::ProjectKey;
use futures::{StreamExt, future::BoxFuture};
use http::{Request, Response};
use serde_json::{Value, json};
use std::{collections::VecDeque, io, sync::Arc};
use tokio::{sync::mpsc, task::JoinHandle};
use tower::BoxError;

/// How the body of a watch ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Ends,
    Breaks,
    Stays,
    /// Ends without error after this time.
    After(Duration),
    /// Repeats the same text, each time after this delay.
    Repeats(Duration),
}

enum Answer {
    /// A complete list at this version.
    List(u64, Vec<Value>),
    /// The text of a watch, and how the body continues after the text.
    Watch(String, End),
    Refuse(u16),
    /// The connection breaks before an answer.
    Break,
}

impl Answer {
    fn response(self) -> Response<Body> {
        let (code, body) = match self {
            Self::List(version, items) => {
                let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": items,
                    "metadata": {"resourceVersion": version.to_string()}});
                (200, Body::from(list.to_string()))
            }
            Self::Watch(text, End::Repeats(after)) => {
                let texts = futures::stream::repeat(Bytes::from(text)).then(move |text| async move {
                    tokio::time::sleep(after).await;
                    Ok::<_, io::Error>(text)
                });
                (200, Body::from_stream(texts))
            }
            Self::Watch(text, end) => {
                let text = futures::stream::once(async { Ok(Bytes::from(text)) });
                let rest =
                    futures::stream::iter(matches!(end, End::Breaks).then(|| Err(io::Error::other("reset"))));
                let body = match end {
                    End::After(time) => {
                        let end = futures::stream::once(tokio::time::sleep(time)).map(|()| Ok(Bytes::new()));
                        Body::from_stream(text.chain(end))
                    }
                    End::Ends | End::Breaks => Body::from_stream(text.chain(rest)),
                    End::Stays | End::Repeats(_) => Body::from_stream(text.chain(futures::stream::pending())),
                };
                (200, body)
            }
            Self::Refuse(code) => (code, Body::from(status(code).to_string())),
            Self::Break => unreachable!("it has no response"),
        };
        Response::builder().status(code).body(body).unwrap()
    }
}

fn status(code: u16) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Script", "message": "as scripted",
        "code": code})
}

fn object(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name,
        "uid": format!("uid-{name}"), "resourceVersion": version.to_string()}})
}

/// An object that no API server should send.
fn malformed(name: &str, version: u64) -> Value {
    let mut object = object(name, version);
    object["metadata"]["labels"] = json!({"good": "x", "bad": 5});
    object
}

fn line(event: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": event, "object": object}))
}

fn prod() -> Plane {
    Plane::Project(ProjectKey::parse("prod").unwrap())
}

/// A running watch. Each event of its sink becomes a text, as a table interprets the event.
struct Running {
    events: mpsc::UnboundedReceiver<String>,
    asked: Arc<Mutex<Vec<String>>>,
    rights: Arc<Mutex<Vec<bool>>>,
    /// The cause of each failure.
    failures: Arc<Mutex<Vec<&'static str>>>,
    health: Arc<WatchStatus>,
    /// The version that the server returns to a request for the version alone.
    server: Arc<AtomicU64>,
    /// Number of such requests.
    versions_asked: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let script: VecDeque<Answer> = script.into_iter().collect();
        let (script, asked) = (Arc::new(Mutex::new(script)), Arc::<Mutex<Vec<String>>>::default());
        let server = Arc::new(AtomicU64::new(1_000));
        let versions_asked = Arc::<AtomicU64>::default();
        let (seen, version, count) = (asked.clone(), server.clone(), versions_asked.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let query = request.uri().query().unwrap_or_default();
            if query.split('&').any(|parameter| parameter == "limit=1") {
                count.fetch_add(1, Ordering::Relaxed);
                let version = Answer::List(version.load(Ordering::Relaxed), Vec::new());
                let answer: BoxFuture<'static, Result<_, BoxError>> =
                    Box::pin(async { Ok(version.response()) });
                return answer;
            }
            seen.lock().push(name_of(&request));
            let answer = script.lock().pop_front();
            Box::pin(async {
                match answer {
                    Some(Answer::Break) => Err(io::Error::other("reset").into()),
                    Some(answer) => Ok(answer.response()),
                    None => std::future::pending().await,
                }
            })
        });
        let client = Arc::new(PlaneClient::of(kube::Client::new(service, "default")));
        let (health, rights) = (Arc::<WatchStatus>::default(), Arc::<Mutex<Vec<bool>>>::default());
        let (told, events) = mpsc::unbounded_channel();
        let (healthy, refused) = (health.clone(), rights.clone());
        let failures = Arc::<Mutex<Vec<_>>>::default();
        let failed = failures.clone();
        let task = tokio::spawn(async move {
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
            let table = Mutex::new(Table::<()>::default());
            let sink = |event| {
                if matches!(event, WatchEvent::Failed) {
                    failed.lock().push(healthy.restart_cause());
                }
                if let Some(words) = words(&mut table.lock(), event) {
                    told.send(words).unwrap();
                }
            };
            let on_rights = |forbidden| refused.lock().push(forbidden);
            run(
                &prod(),
                client,
                &selection,
                &healthy,
                &Arc::default(),
                sink,
                on_rights,
            )
            .await;
        });
        Self {
            events,
            asked,
            rights,
            failures,
            health,
            server,
            versions_asked,
            task,
        }
    }

    /// Asserts the next events.
    async fn tells(&mut self, expected: &[&str]) {
        for (n, expected) in expected.iter().enumerate() {
            let event = tokio::time::timeout(Duration::from_mins(2), self.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("event {n} never came: {expected}"));
            assert_eq!(event.as_deref(), Some(*expected), "event {n}");
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

fn name_of(request: &Request<kube::client::Body>) -> String {
    let query = request.uri().query().unwrap_or_default();
    let version = query.split('&').find_map(|p| p.strip_prefix("resourceVersion="));
    if query.contains("watch=true") {
        format!("watch {}", version.unwrap_or_default())
    } else {
        "list".to_owned()
    }
}

fn words(table: &mut Table<()>, event: WatchEvent) -> Option<String> {
    let take = |table: &mut Table<()>, what: &str, object: DynamicObject| {
        let (name, version) = (
            object.metadata.name.clone(),
            object.metadata.resource_version.clone(),
        );
        table.upsert(object, (), Origin::Event, &mut Interner::default());
        format!(
            "{what} {}@{}",
            name.unwrap_or_default(),
            version.unwrap_or_default()
        )
    };
    Some(match event {
        WatchEvent::Init => {
            table.begin_list();
            "began".to_owned()
        }
        WatchEvent::InitApply(object) => take(table, "listed", *object),
        WatchEvent::Apply(object) | WatchEvent::Written(object) => take(table, "applied", *object),
        WatchEvent::Delete(object) => {
            table.remove(&object);
            format!("deleted {}", object.metadata.name.unwrap_or_default())
        }
        WatchEvent::Rewound => {
            table.rewind();
            "rewound".to_owned()
        }
        WatchEvent::Failed | WatchEvent::Resumed => {
            table.set_failing(matches!(event, WatchEvent::Failed));
            return None;
        }
        WatchEvent::InitDone => {
            let (gone, _) = table.end_list();
            let gone: Vec<&str> = gone.iter().map(|((_, name), _)| &**name).collect();
            format!("complete, gone: {gone:?}")
        }
    })
}

const FIRST: [&str; 4] = ["began", "listed a@1", "listed b@2", r"complete, gone: []"];

fn first() -> Answer {
    Answer::List(10, vec![object("a", 1), object("b", 2)])
}

/// `b` was deleted in the meantime, `c` is new.
fn second() -> Answer {
    Answer::List(20, vec![object("a", 1), object("c", 15)])
}

const SECOND: [&str; 4] = ["began", "listed a@1", "listed c@15", r#"complete, gone: ["b"]"#];

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_leads_to_a_new_list_in_whatever_form_it_is_told() {
    let event = line("ERROR", &status(410));
    let bare = format!("{}\n", status(410));
    let forms = [
        Answer::Refuse(410),
        Answer::Watch(event, End::Stays),
        Answer::Watch(bare, End::Ends),
    ];
    for gone in forms {
        let last = Answer::Watch(line("DELETED", &object("c", 21)), End::Stays);
        let mut watch = Running::start([first(), gone, second(), last]);
        watch.tells(&FIRST).await;
        watch.tells(&SECOND).await;
        watch.tells(&["deleted c"]).await;
        assert_eq!(watch.asked(), ["list", "watch 10", "list", "watch 20"]);
        assert_eq!(*watch.failures.lock(), ["gone"]);
        assert_eq!(watch.health.restarts(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_within_a_line_goes_on_where_it_was() {
    for end in [End::Ends, End::Breaks] {
        let whole = line("MODIFIED", &object("a", 11));
        let half = &line("MODIFIED", &object("b", 12))[..40];
        let again = line("MODIFIED", &object("b", 12)) + &line("ADDED", &object("c", 13));
        let mut watch = Running::start([
            first(),
            Answer::Watch(whole + half, end),
            Answer::Watch(again, End::Stays),
        ]);
        watch.tells(&FIRST).await;
        watch
            .tells(&["applied a@11", "applied b@12", "applied c@13"])
            .await;
        assert_eq!(
            watch.asked(),
            ["list", "watch 10", "watch 11"],
            "{end:?}: no list"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_outlives_its_time_is_begun_again_where_it_was_whatever_it_says() {
    let drip = line("MODIFIED", &object("a", 11));
    for slow in [
        Answer::Watch(drip[..40].to_owned(), End::Stays),
        Answer::Watch(drip[..40].to_owned(), End::Repeats(Duration::from_secs(100))),
        Answer::Watch(drip, End::Repeats(Duration::from_secs(1))),
    ] {
        let last = Answer::Watch(line("ADDED", &object("c", 12)), End::Stays);
        let mut watch = Running::start([first(), slow, last]);
        watch.tells(&FIRST).await;
        let began = Instant::now();
        loop {
            let event = watch.events.recv().await;
            if event.as_deref() == Some("applied c@12") {
                break;
            }
            assert_eq!(event.as_deref(), Some("applied a@11"));
        }
        assert!(
            began.elapsed() > Duration::from_mins(4) && began.elapsed() < Duration::from_mins(5),
            "{:?}",
            began.elapsed()
        );
        assert!(["watch 10", "watch 11"].contains(&&*watch.asked()[2]), "no list");
        assert_eq!(watch.health.restarts(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_event_may_have_hidden_one_so_the_list_is_read_again() {
    let garbage = "<html>\n".to_owned() + &line("MODIFIED", &object("a", 11));
    let mut watch = Running::start([first(), Answer::Watch(garbage, End::Stays), second()]);
    watch.tells(&FIRST).await;
    watch.tells(&SECOND).await;
    assert_eq!(watch.asked()[..3], ["list", "watch 10", "list"]);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_is_no_obstacle_to_the_others() {
    let list = Answer::List(
        10,
        vec![
            object("a", 1),
            malformed("bad", 2),
            json!("nothing"),
            object("b", 3),
        ],
    );
    let events = line("MODIFIED", &malformed("bad", 11))
        + &line("ADDED", &object("c", 12))
        + &line("DELETED", &malformed("bad", 13))
        + &line("MODIFIED", &object("a", 14));
    let mut watch = Running::start([list, Answer::Watch(events, End::Stays)]);
    let listed = [
        "began",
        "listed a@1",
        "listed bad@2",
        "listed b@3",
        "complete, gone: []",
    ];
    watch.tells(&listed).await;
    watch
        .tells(&["applied bad@11", "applied c@12", "deleted bad", "applied a@14"])
        .await;
    assert_eq!(watch.asked(), ["list", "watch 10"]);
    assert_eq!(watch.health.restarts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_proves_nothing_gone() {
    let mut watch = Running::start([
        first(),
        Answer::Refuse(410),
        Answer::Refuse(500),
        Answer::Refuse(503),
        second(),
    ]);
    watch.tells(&FIRST).await;
    watch.tells(&["began", "began"]).await;
    assert!(watch.health.error().is_some_and(|e| e.contains("as scripted")));
    assert!(watch.health.synced(), "the old list still counts");
    watch.tells(&SECOND).await;
    assert_eq!(watch.health.error(), None);
    assert_eq!(*watch.failures.lock(), ["gone", "error", "error"]);

    let mut never = Running::start([Answer::Refuse(500), Answer::Refuse(500)]);
    never.tells(&["began", "began", "began"]).await;
    assert!(!never.health.synced() && never.events.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_lasts_is_told_once_and_so_is_its_end() {
    let refusals = (0..12).map(|_| Answer::Refuse(403));
    let mut watch = Running::start(refusals.chain([first()]));
    watch.tells(&["began"; 12]).await;
    watch.tells(&FIRST).await;
    assert_eq!(*watch.rights.lock(), [true, false]);
    assert!(!watch.health.forbidden());

    let mut starting = Running::start([Answer::Refuse(403), Answer::Refuse(403), first()]);
    starting.tells(&["began"; 2]).await;
    starting.tells(&FIRST).await;
    assert_eq!(*starting.rights.lock(), [false; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_that_was_begun_again_counts_as_well() {
    let quiet = Answer::Watch(String::new(), End::Stays);
    let mut watch = Running::start([first(), Answer::Watch(String::new(), End::Breaks), quiet]);
    watch.tells(&FIRST).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(watch.asked(), ["list", "watch 10", "watch 10"]);
    assert_eq!((watch.health.error(), watch.health.restarts()), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_each_change_of_state_once_with_plane_kind_and_next_step() {
    let logged = logs::capture(tracing::Level::DEBUG);
    let refusals = [401, 401, 401, 403, 403].map(Answer::Refuse);
    let mut watch = Running::start(refusals.into_iter().chain([first()]));
    watch.tells(&["began"; 5]).await;
    watch.tells(&FIRST).await;
    let mut told = logged.take();
    told.retain(|line| line["target"] == "fedgate_engine::plane::watch" && line["level"] != "DEBUG");
    let messages: Vec<&str> = told.iter().filter_map(|line| line["message"].as_str()).collect();
    assert_eq!(
        messages,
        [
            "a watch fails and is retried: the credential is refused",
            "a watch fails and is retried: the user may not list and watch this kind",
            "the watch goes on",
        ]
    );
    for line in &told {
        assert_eq!(
            (&line["plane"], &line["kind"]),
            (&json!("project prod"), &json!("ConfigMap"))
        );
    }
    assert_eq!(
        told[0]["next"],
        "renew the credential in the kubeconfig of project prod"
    );
    assert!(told[1]["next"].as_str().unwrap().contains("manifests/project"));
    assert!(told[1]["error"].as_str().unwrap().contains("as scripted"));
}

#[tokio::test(start_paused = true)]
async fn a_plane_that_lists_and_opens_no_watch_is_asked_less_and_less_often_and_says_so() {
    let breaks = std::iter::repeat_with(|| Answer::Break).take(500);
    let mut watch = Running::start([Answer::List(5, vec![object("a", 3)])].into_iter().chain(breaks));
    watch.tells(&["began", "listed a@3", "complete, gone: []"]).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (opened, versions) = (
        watch.asked().len() - 1,
        watch.versions_asked.load(Ordering::Relaxed),
    );
    assert!((5..=20).contains(&opened), "{opened} times in a minute");
    assert!(versions <= 20, "{versions} lists in a minute");
    assert!(watch.health.is_failing() && watch.health.synced());
}
