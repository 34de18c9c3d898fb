//! Event streams over connections whose readers are slow.

use super::*;
use axum::body::BodyDataStream;
use fedgate_operations::{
    Header, JournalRow, Overview, PlaneRow, RefusedProject, Replica, ReplicaRole, Rows, StuckGroup, Time,
    query::Query,
};
use futures::StreamExt;
use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    task::JoinHandle,
};

/// A role whose overview is large and always another.
#[derive(Default)]
struct Restless(AtomicUsize);

impl OperationsSource for Restless {
    fn header(&self) -> Header {
        Header {
            as_of: Time::from_second(0),
            complete: true,
            missing: Vec::new(),
            replica: Replica {
                identity: "gateway-1".to_owned(),
                role: ReplicaRole::Alone,
                leader: None,
                version: "0.1.0".to_owned(),
                revision: "unknown".to_owned(),
                started_at: Time::from_second(0),
            },
        }
    }
    fn overview(&self) -> Overview {
        let mut overview = Overview::default();
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        overview
            .deployments
            .federated
            .insert("x".repeat(200 * 1024), count);
        overview
    }
    fn planes(&self, _: &Query) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        (Rows::default(), Vec::new())
    }
    fn stuck(&self, _: &Query) -> Rows<StuckGroup> {
        Rows::default()
    }
    fn journal(&self, _: &Query) -> Rows<JournalRow> {
        Rows::default()
    }
}

struct Running(Arc<Restless>);

impl AdminSource for Running {
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
    fn metrics(&self) -> Result<String, String> {
        Ok(String::new())
    }
    fn planes(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    fn operations(&self) -> Arc<dyn OperationsSource> {
        self.0.clone()
    }
}

/// A connection with a stream; the task that serves it.
async fn stream(routes: &Router) -> (DuplexStream, JoinHandle<()>) {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let (stop, stopped) = watch::channel(false);
    let peer = access::Peer::at(Ipv4Addr::LOCALHOST.into());
    let routes = routes.clone();
    let task = tokio::spawn(async move {
        server::requests(server, peer, routes, stopped).await;
        drop(stop);
    });
    client
        .write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost:8080\r\n\r\n")
        .await
        .unwrap();
    (client, task)
}

/// Reads until the text of this many deltas has come.
async fn deltas(client: &mut DuplexStream, wanted: usize) {
    let (mut found, mut part, mut tail) = (0, vec![0; 64 * 1024], Vec::new());
    while found < wanted {
        let read = client.read(&mut part).await.unwrap();
        assert!(read > 0, "the stream ended");
        tail.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&tail);
        found += text.matches("event: delta").count();
        let keep = tail.len().saturating_sub("event: delt".len());
        tail.drain(..keep);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_reading_loses_its_connection_and_others_notice_nothing() {
    let access = Access::new(SocketAddr::from(([127, 0, 0, 1], 8080)), None, None);
    let subject: Arc<dyn AdminSource> = Arc::new(Running(Arc::default()));
    let routes = router(&subject, &Metrics::new().unwrap(), access);
    let (mut other, others) = stream(&routes).await;
    let (slow, served) = stream(&routes).await;
    let began = tokio::time::Instant::now();
    deltas(&mut other, 3).await;
    assert!(!served.is_finished());
    let reads = async {
        for _ in 0..20 {
            deltas(&mut other, 1).await;
        }
    };
    tokio::select! {
        ended = served => ended.unwrap(),
        () = reads => panic!("20 s behind, and still connected"),
    }
    // Data that the connection has buffered is as good as read.
    let took = began.elapsed();
    assert!(
        took > Duration::from_secs(5) && took < Duration::from_secs(9),
        "{took:?}"
    );
    deltas(&mut other, 3).await;
    assert!(!others.is_finished());
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_closed_after_ten_seconds() {
    let access = Access::new(SocketAddr::from(([127, 0, 0, 1], 8080)), None, None);
    let subject: Arc<dyn AdminSource> = Arc::new(Waiting);
    let routes = router(&subject, &Metrics::new().unwrap(), access);
    for sent in [
        "",
        "GET /livez HTTP/1.1\r\nHost: loc",
        "GET /livez HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
    ] {
        let (mut client, server) = tokio::io::duplex(1024);
        let (_stop, stopped) = watch::channel(false);
        let peer = access::Peer::at(Ipv4Addr::LOCALHOST.into());
        let began = tokio::time::Instant::now();
        let task = tokio::spawn(server::requests(server, peer, routes.clone(), stopped));
        client.write_all(sent.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        client.read_to_end(&mut text).await.unwrap();
        task.await.unwrap();
        assert!(
            began.elapsed() <= Duration::from_secs(11),
            "{sent:?}: {:?}",
            began.elapsed()
        );
    }
}

/// A connection to the routes of a role that is not ready, and the task that serves it.
fn connected(token: Option<Token>) -> (DuplexStream, JoinHandle<()>, watch::Sender<bool>) {
    let (client, server) = tokio::io::duplex(1024);
    let (stop, stopped) = watch::channel(false);
    let peer = access::Peer::at(Ipv4Addr::LOCALHOST.into());
    let task = tokio::spawn(server::requests(server, peer, routes(token, None), stopped));
    (client, task, stop)
}

/// The connection is admitted, pipelines requests and reads no answer.
#[tokio::test(start_paused = true)]
async fn a_connection_whose_answers_nobody_reads_is_closed_after_ten_seconds() {
    let (mut client, task, _stop) = connected(None);
    let began = tokio::time::Instant::now();
    let hostile = async {
        let request = b"GET /debug/planes HTTP/1.1\r\nHost: localhost:8080\r\n\r\n";
        while client.write_all(request).await.is_ok() {}
    };
    let patience = tokio::time::sleep(Duration::from_secs(60));
    tokio::select! {
        () = hostile => task.await.unwrap(),
        () = patience => panic!("still connected after a minute"),
    }
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(11), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_token_a_connection_gets_one_answer_however_many_it_asks_for() {
    let file = File::new("answers", "0123456789abcdef");
    for (path, token, answers) in [
        ("/livez", "", 1),
        ("/console", "", 1),
        ("/metrics", "", 1),
        ("/metrics", "wrong", 1),
        ("/metrics", "0123456789abcdef", 3),
    ] {
        let (mut client, task, _stop) = connected(Some(Token::of(file.0.clone())));
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost:8080\r\nAuthorization: Bearer {token}\r\n\r\n");
        // The connection may end in the midst of the requests.
        let _ = client.write_all(request.repeat(3).as_bytes()).await;
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        task.await.unwrap();
        assert_eq!(text.matches("HTTP/1.1 ").count(), answers, "{path}: {text}");
    }
}

/// The connection of a user whose stream the guard admitted.
async fn stream_of(routes: &Router, token: &str) -> (Response, u16) {
    let request = Request::get("/api/v1/events").header(header::AUTHORIZATION, format!("Bearer {token}"));
    let response = routes.clone().oneshot(request.body(Body::empty()).unwrap());
    let response = response.await.unwrap();
    let status = response.status().as_u16();
    (response, status)
}

/// Returns when the stream has ended without an error, with the time that it took.
async fn end(mut parts: BodyDataStream) -> Duration {
    let began = tokio::time::Instant::now();
    let read = async {
        while let Some(part) = parts.next().await {
            part.unwrap();
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(600), read).await;
    ended.expect("the stream goes on for ten minutes");
    began.elapsed()
}

fn running(token: Option<Token>, hub: Option<Connection>) -> Router {
    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    let access = Access::new(address, token, hub.map(Reviews::by));
    let subject: Arc<dyn AdminSource> = Arc::new(Running(Arc::default()));
    router(&subject, &Metrics::new().unwrap(), access)
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_token_no_longer_counts() {
    let file = File::new("stream", "0123456789abcdef");
    let routes = running(Some(Token::of(file.0.clone())), None);
    let (stream, status) = stream_of(&routes, "0123456789abcdef").await;
    assert_eq!(status, 200);
    let mut parts = stream.into_body().into_data_stream();
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        parts.next().await.unwrap().unwrap();
        // Wrong tokens of the same address are no reason.
        for _ in 0..11 {
            assert_ne!(stream_of(&routes, "wrong").await.1, 200);
        }
    }
    file.write("fedcba9876543210");
    let took = end(parts).await;
    assert!(took <= Duration::from_secs(11), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_hub_takes_the_right_back() {
    let hub = Arc::<hub::Hub>::default();
    let routes = running(None, Some(hub.connection()));
    let (stream, status) = stream_of(&routes, "all-1").await;
    assert_eq!(status, 200);
    hub.revokes("all");
    let took = end(stream.into_body().into_data_stream()).await;
    assert!(took <= Duration::from_secs(71), "{took:?}");
    assert_eq!(stream_of(&routes, "all-1").await.1, 403);
}

#[tokio::test(start_paused = true)]
async fn one_user_of_the_hub_takes_no_place_of_another() {
    let hub = Arc::<hub::Hub>::default();
    let file = File::new("places", "0123456789abcdef");
    let routes = running(Some(Token::of(file.0.clone())), Some(hub.connection()));
    let mut open = Vec::new();
    for n in 0..4 {
        // By two tokens: the user counts.
        let (stream, status) = stream_of(&routes, &format!("all-{}", n % 2)).await;
        assert_eq!(status, 200);
        open.push(stream);
    }
    // Another second has reviews of other tokens.
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(stream_of(&routes, "all-1").await.1, 429);
    let (_other, status) = stream_of(&routes, "every-1").await;
    assert_eq!(status, 200, "another user");
    for _ in 0..27 {
        let (stream, status) = stream_of(&routes, "0123456789abcdef").await;
        assert_eq!(status, 200, "the operators' token has no such limit");
        open.push(stream);
    }
    assert_eq!(stream_of(&routes, "0123456789abcdef").await.1, 503);
}
