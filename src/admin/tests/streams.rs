//! Event streams over connections whose readers are slow.

use super::*;
use fedgate_operations::{
    Header, JournalRow, Overview, PlaneRow, RefusedProject, Replica, ReplicaRole, Rows, StuckGroup, Time,
    query::{JournalQuery, PlanesQuery, StuckQuery},
};
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
    fn planes(&self, _: &PlanesQuery) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        (Rows::default(), Vec::new())
    }
    fn stuck(&self, _: &StuckQuery) -> Rows<StuckGroup> {
        Rows::default()
    }
    fn journal(&self, _: &JournalQuery) -> Rows<JournalRow> {
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
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
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
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
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
