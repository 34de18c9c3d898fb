//! Event streams, on a paused clock.

use super::{fake::Fake, *};
use axum::body::BodyDataStream;
use futures::StreamExt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A stream that a client reads.
struct Client {
    body: BodyDataStream,
    text: String,
}

/// An event: name, id and data.
#[derive(Debug)]
struct Event {
    name: String,
    id: String,
    data: Value,
}

impl Client {
    async fn open(api: &Arc<Operations>, query: &str, last: Option<&str>) -> Self {
        let mut request = Request::get(format!("/api/v1/events{query}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = api
            .router()
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// The next event or comment; `None` at the end of the stream.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let part = self.body.next().await?.ok()?;
            self.text.push_str(std::str::from_utf8(&part).unwrap());
        }
    }

    /// The next event.
    async fn event(&mut self) -> Event {
        loop {
            let block = self.block().await.unwrap();
            if block.starts_with(':') {
                continue;
            }
            let field = |name: &str| {
                block
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .unwrap()
                    .to_owned()
            };
            return Event {
                name: field("event: "),
                id: field("id: "),
                data: serde_json::from_str(&field("data: ")).unwrap(),
            };
        }
    }

    /// The next event, which has this name.
    async fn expect(&mut self, name: &str) -> Event {
        let event = self.event().await;
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// No event comes for ten seconds.
    async fn is_silent(&mut self) {
        let event = timeout(Duration::from_secs(10), self.event()).await;
        assert!(event.is_err(), "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_changes_of_a_row_in_a_second_are_one_delta_with_the_last_state() {
    let fake = Fake::with_projects(3);
    let api = api(&fake);
    let mut client = Client::open(&api, "?topics=projects", None).await;
    let hello = client.expect("hello").await;
    assert_eq!(hello.data["position"], hello.id.as_str());
    assert_eq!(hello.data["replica"]["role"], "leader");
    fake.set("p00001", 41);
    fake.set("p00001", 42);
    fake.remove("p00002");
    let began = Instant::now();
    let delta = client.expect("delta").await;
    assert!(
        began.elapsed() <= Duration::from_millis(1_001),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(delta.data["projects"]["rows"].as_array().unwrap().len(), 1);
    assert_eq!(delta.data["projects"]["rows"][0]["deployments"], 42);
    assert_eq!(delta.data["projects"]["gone"], serde_json::json!(["p00002"]));
    assert_eq!(delta.data["asOf"], "1970-01-01T00:16:40.000Z");
    client.is_silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_rows_in_a_second_are_a_reset_and_so_are_rows_of_256_kibibytes() {
    let fake = Fake::with_projects(1_000);
    let api = api(&fake);
    let mut client = Client::open(&api, "?topics=projects,journal", None).await;
    client.expect("hello").await;
    for n in 0..1_000 {
        fake.set(&format!("p{n:05}"), n + 1);
    }
    let reset = client.expect("reset").await;
    assert_eq!(reset.data, serde_json::json!({"topics": ["projects"]}));
    for n in 0..300 {
        fake.set(&format!("p{n:05}"), n + 2);
        fake.wrote(n as u64 + 1, "shop");
    }
    let reset = client.expect("reset").await;
    assert_eq!(
        reset.data,
        serde_json::json!({"topics": ["projects", "journal"]}),
        "600 rows together"
    );
    fake.wrote(1_000, "shop");
    fake.state.lock().journal[0].message = "x".repeat(257 * 1024);
    let reset = client.expect("reset").await;
    assert_eq!(reset.data, serde_json::json!({"topics": ["journal"]}));
    fake.wrote(1_001, "shop");
    let delta = client.expect("delta").await;
    assert_eq!(delta.data["journal"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_topic_shows_what_has_changed_of_it() {
    let fake = Fake::with_projects(1);
    let group = |word: &str, count| fedgate_operations::StuckGroup {
        class: fedgate_operations::Class::Retrying,
        plane: "hub".to_owned(),
        word: word.to_owned(),
        count,
        oldest: None,
        next: "see its log".to_owned(),
        items: Vec::new(),
    };
    fake.state.lock().stuck = vec![group("server", 1), group("timeout", 1), group("conflict", 1)];
    let api = api(&fake);
    let mut all = Client::open(&api, "?topics=overview,stuck,journal", None).await;
    let mut usual = Client::open(&api, "", None).await;
    all.expect("hello").await;
    usual.expect("hello").await;
    {
        let mut state = fake.state.lock();
        state.stuck = vec![group("server", 1), group("timeout", 2)];
        state.deployments = 7;
    }
    fake.wrote(5, "shop");
    fake.wrote(6, "shop");
    let delta = all.expect("delta").await;
    assert_eq!(delta.data["overview"]["deployments"]["total"], 7);
    assert_eq!(delta.data["stuck"]["rows"].as_array().unwrap().len(), 1);
    assert_eq!(delta.data["stuck"]["rows"][0]["word"], "timeout");
    assert_eq!(
        delta.data["stuck"]["gone"],
        serde_json::json!([{"class": "retrying", "plane": "hub", "word": "conflict"}])
    );
    assert_eq!(
        (&delta.data["journal"][0]["seq"], &delta.data["journal"][1]["seq"]),
        (&6.into(), &5.into())
    );
    let delta = usual.expect("delta").await;
    let keys: Vec<_> = delta.data.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["asOf", "overview"]);
    fake.wrote(7, "shop");
    all.expect("delta").await;
    usual.is_silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_one_project_shows_no_other() {
    let fake = Fake::with_projects(2);
    let api = api(&fake);
    let mut client = Client::open(&api, "?project=p00001&topics=projects,stuck,journal", None).await;
    client.expect("hello").await;
    fake.set("p00000", 9);
    fake.wrote(1, "p00000");
    fake.state.lock().stuck = vec![fedgate_operations::StuckGroup {
        class: fedgate_operations::Class::Retrying,
        plane: "project".to_owned(),
        word: "server".to_owned(),
        count: 1,
        oldest: None,
        next: String::new(),
        items: vec![fedgate_operations::StuckItem {
            project: "p00000".to_owned(),
            ..fedgate_operations::StuckItem::default()
        }],
    }];
    client.is_silent().await;
    fake.set("p00001", 9);
    fake.wrote(2, "p00001");
    let delta = client.expect("delta").await;
    assert_eq!(delta.data["projects"]["rows"][0]["project"], "p00001");
    assert_eq!(delta.data["journal"][0]["seq"], 2);
    assert!(!delta.data.to_string().contains("p00000"));
    fake.state.lock().changes.overflow = true;
    let delta = client.expect("delta").await;
    assert_eq!(delta.data["projects"]["rows"][0]["project"], "p00001");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_comes_back_goes_on_without_loss() {
    let fake = Fake::with_projects(1);
    let api = api(&fake);
    let mut other = Client::open(&api, "?topics=projects", None).await;
    let mut client = Client::open(&api, "?topics=projects", None).await;
    other.expect("hello").await;
    client.expect("hello").await;
    fake.set("p00000", 1);
    let first = client.expect("delta").await;
    other.expect("delta").await;
    drop(client);
    for n in 2..=300 {
        fake.set("p00000", n);
        other.expect("delta").await;
    }
    let mut back = Client::open(&api, "?topics=projects", Some(&first.id)).await;
    let hello = back.expect("hello").await;
    assert_eq!(
        hello.id, first.id,
        "an id that is read again would lose what follows"
    );
    for n in 2..=300 {
        let delta = back.expect("delta").await;
        assert_eq!(delta.data["projects"]["rows"][0]["deployments"], n);
    }
    for n in 301..=303 {
        fake.set("p00000", n);
        other.expect("delta").await;
    }
    for (query, last, why) in [
        (
            "?topics=projects",
            first.id.as_str(),
            "303 deltas are more than are kept",
        ),
        (
            "?topics=projects,journal",
            back.expect("delta").await.id.as_str(),
            "nobody watched this topic",
        ),
        ("?topics=projects", "12345678-3", "of another process"),
        ("?topics=projects", "nonsense", "no id"),
        (
            "?topics=projects",
            &first.id.replace('-', "-9999"),
            "an id of the future",
        ),
    ] {
        let mut late = Client::open(&api, query, Some(last)).await;
        late.expect("hello").await;
        late.expect("reset").await;
        assert!(
            timeout(Duration::from_millis(1), late.event()).await.is_err(),
            "{why}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_while_no_stream_is_open() {
    let fake = Fake::with_projects(1);
    let api = api(&fake);
    assert!(!fake.state.lock().collects);
    let mut client = Client::open(&api, "?topics=projects", None).await;
    let hello = client.expect("hello").await;
    assert!(fake.state.lock().collects);
    drop(client);
    while fake.state.lock().collects {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fake.set("p00000", 7);
    let mut back = Client::open(&api, "?topics=projects", Some(&hello.id)).await;
    assert!(fake.state.lock().collects);
    back.expect("hello").await;
    back.expect("reset").await;
}

#[tokio::test(start_paused = true)]
async fn the_thirty_third_stream_is_refused_until_another_one_ends() {
    let fake = Fake::with_projects(1);
    let metrics = Metrics::new().unwrap();
    let source = fake.clone();
    let provider: Provider = Arc::new(move || source.clone());
    let api = Operations::new(provider, &metrics);
    let shown = |metrics: &Metrics| {
        let text = metrics
            .render(&fedgate_engine::metrics::Gauges::default())
            .unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("fedgate_operations_streams"));
        line.unwrap().to_owned()
    };
    let mut clients = Vec::new();
    for _ in 0..32 {
        clients.push(Client::open(&api, "", None).await);
    }
    assert_eq!(shown(&metrics), "fedgate_operations_streams 32");
    let (status, response) = send(&api, "GET", "/api/v1/events").await;
    assert_eq!(
        (status, &response.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    clients.pop();
    assert_eq!(shown(&metrics), "fedgate_operations_streams 31");
    clients.push(Client::open(&api, "", None).await);
    assert_eq!(api.streams.count(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_five_seconds_behind_is_dropped_and_others_notice_nothing() {
    let fake = Fake::with_projects(1);
    let api = api(&fake);
    let mut slow = Client::open(&api, "?topics=projects", None).await;
    let mut other = Client::open(&api, "?topics=projects", None).await;
    slow.expect("hello").await;
    other.expect("hello").await;
    for n in 1..=6 {
        assert_eq!(api.streams.count(), 2, "after {n} s");
        fake.set("p00000", n);
        other.expect("delta").await;
    }
    assert_eq!(api.streams.count(), 1);
    assert!(slow.block().await.is_none(), "its answer breaks off");
    fake.set("p00000", 9);
    other.expect("delta").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_has_a_comment_each_fifteen_seconds() {
    let api = api(&Fake::with_projects(1));
    let mut client = Client::open(&api, "", None).await;
    client.expect("hello").await;
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(client.block().await.unwrap(), ": alive");
        let waited = began.elapsed();
        assert!(
            waited >= Duration::from_secs(14) && waited <= Duration::from_millis(15_001),
            "{waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_fails_ends_the_streams_and_the_next_one_begins_anew() {
    let fake = Fake::with_projects(1);
    let api = api(&fake);
    let mut client = Client::open(&api, "", None).await;
    client.expect("hello").await;
    let (sender, receiver) = std::sync::mpsc::channel();
    fake.state.lock().block = Some(receiver);
    drop(sender);
    assert!(client.block().await.is_none());
    let mut client = Client::open(&api, "", None).await;
    client.expect("hello").await;
    fake.state.lock().deployments = 3;
    client.expect("delta").await;
}
