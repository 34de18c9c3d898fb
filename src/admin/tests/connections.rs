//! Connections of a served address: many, slow ones, and such as send too much.

use super::*;
use std::net::Ipv4Addr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

/// An address that is served.
struct Served {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

async fn served() -> Served {
    let bound = bind(Settings {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        token: None,
        reviewer: None,
        tls: None,
    });
    let bound = bound.await.unwrap();
    let address = bound.access.address;
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(bound.serve(Arc::new(Waiting), Metrics::new().unwrap(), stopped));
    Served { address, stop, task }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection from another address of this machine.
    async fn connect_from(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))
            .unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends a request with these further headers; the answer.
    async fn send(&self, mut stream: TcpStream, headers: &str) -> String {
        let port = self.address.port();
        let request =
            format!("GET /livez HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{headers}\r\n");
        // The server may have closed already.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text).await;
        String::from_utf8(text).unwrap()
    }
}

#[tokio::test]
async fn huge_headers_are_refused_and_the_next_request_is_served() {
    let served = served().await;
    for headers in [
        format!("X-Huge: {}\r\n", "x".repeat(1024 * 1024)),
        "X-Many: 1\r\n".repeat(10_000),
    ] {
        let text = served.send(served.connect().await, &headers).await;
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
    }
    let text = served.send(served.connect().await, "").await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[tokio::test]
async fn ten_thousand_connections_that_wait_keep_no_other_address_out() {
    let served = served().await;
    let mut waiting = Vec::new();
    for _ in 0..server::OF_ADDRESS {
        waiting.push(served.connect_from(2).await);
    }
    for _ in server::OF_ADDRESS..10_000 {
        let mut more = served.connect_from(2).await;
        // It is closed at once: with or without a reset.
        assert_eq!(more.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
    let open = waiting[0].try_read(&mut [0; 1]);
    assert_eq!(
        open.unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "the others were not closed because they waited long"
    );
    let text = served.send(served.connect_from(3).await, "").await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    drop(waiting);
}

#[tokio::test]
async fn at_its_end_the_address_answers_what_was_asked_and_closes_what_waits() {
    let served = served().await;
    let mut idle = served.connect().await;
    let text = served.send(served.connect().await, "").await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    served.stop.send_replace(true);
    served.task.await.unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
}
