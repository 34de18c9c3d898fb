//! Connections of a served address: many, slow ones, and such as send too much.

use super::*;
use std::{collections::VecDeque, net::Ipv4Addr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

/// How long an answer is awaited before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// An address that is served, beside that of the probes.
struct Served {
    address: SocketAddr,
    probes: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

async fn served(token: Option<Token>) -> Served {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let bound = bind(Settings {
        address: any,
        token,
        reviewer: None,
        tls: None,
        probes: Some(any),
    });
    let bound = bound.await.unwrap();
    let address = bound.access.address;
    let probes = bound.probes.as_ref().unwrap().local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(bound.serve(Arc::new(Waiting), Metrics::new().unwrap(), stopped));
    Served {
        address,
        probes,
        stop,
        task,
    }
}

/// A connection from another address of this machine.
async fn connect_from(last: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))
        .unwrap();
    socket.connect(address).await.unwrap()
}

/// The answer to a request for this path with these further headers.
async fn send(mut stream: TcpStream, path: &str, headers: &str) -> String {
    let port = stream.peer_addr().unwrap().port();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{headers}\r\n");
    // The server may have closed already.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut text = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    assert!(read.is_ok(), "{path} is not answered");
    String::from_utf8(text).unwrap()
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Asks for `/livez` with these further headers.
    async fn livez(&self, headers: &str) -> String {
        send(self.connect().await, "/livez", headers).await
    }
}

#[tokio::test]
async fn huge_headers_are_refused_and_the_next_request_is_served() {
    let served = served(None).await;
    for headers in [
        format!("X-Huge: {}\r\n", "x".repeat(1024 * 1024)),
        "X-Many: 1\r\n".repeat(10_000),
    ] {
        let text = served.livez(&headers).await;
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
    }
    let text = served.livez("").await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[tokio::test]
async fn ten_thousand_connections_that_wait_keep_nobody_out() {
    let served = served(None).await;
    let mut waiting = VecDeque::new();
    for _ in 0..10_000 {
        waiting.push_back(connect_from(2, served.address).await);
        if waiting.len() > server::OF_ADDRESS {
            // The oldest gave way: it is closed, with or without a reset.
            let mut oldest = waiting.pop_front().unwrap();
            assert_eq!(oldest.read(&mut [0; 1]).await.unwrap_or(0), 0);
        }
    }
    for last in [2, 3] {
        let text = send(connect_from(last, served.address).await, "/livez", "").await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
}

/// More connections than there are places, from many addresses. Their headers never end, so that each holds its place.
#[tokio::test]
async fn a_flood_of_connections_stops_neither_probes_nor_the_holder_of_a_token() {
    let file = File::new("flood", "0123456789abcdef");
    let served = served(Some(Token::of(file.0.clone()))).await;
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    let mut known = connect_from(250, served.address).await;
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: a\r\n{token}\r\n");
    known.write_all(request.as_bytes()).await.unwrap();
    let mut part = [0; 4096];
    let read = known.read(&mut part).await.unwrap();
    assert!(part[..read].starts_with(b"HTTP/1.1 200"));
    for address in [served.address, served.probes] {
        let mut held = Vec::new();
        for last in (2..13).cycle().take(server::CONNECTIONS + 200) {
            let mut stream = connect_from(last, address).await;
            stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
            held.push(stream);
        }
        let text = send(connect_from(1, served.probes).await, "/livez", "").await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let text = send(connect_from(200, served.address).await, "/metrics", token).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
    let mut read = known.try_read(&mut part);
    while let Ok(1..) = read {
        read = known.try_read(&mut part);
    }
    let open = read.expect_err("the stream has given way");
    assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_wildcard_of_ipv6_stands_for_all_addresses() {
    let any: SocketAddr = "[::]:0".parse().unwrap();
    let (_listener, bound) = listen("--admin-address", any).await.unwrap();
    let _ipv4 = connect_from(1, SocketAddr::from((Ipv4Addr::LOCALHOST, bound.port()))).await;

    let no_ipv6 = std::io::Error::from_raw_os_error(97);
    let taken = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    let may = |address: &str, error| may_lack_ipv6(address.parse().unwrap(), error);
    assert!(may("[::]:8080", &no_ipv6));
    assert!(!may("[::]:8080", &taken));
    for chosen in ["[::1]:8080", "0.0.0.0:8080"] {
        assert!(!may(chosen, &no_ipv6), "{chosen}");
    }
}

#[tokio::test]
async fn the_probes_address_serves_nothing_of_a_tenant() {
    let served = served(None).await;
    for (path, status) in [
        ("/livez", 200),
        ("/readyz", 503),
        ("/metrics", 404),
        ("/api/v1/overview", 404),
    ] {
        let text = send(connect_from(1, served.probes).await, path, "").await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {text}");
    }
}

#[tokio::test]
async fn at_its_end_the_address_answers_what_was_asked_and_closes_what_waits() {
    let served = served(None).await;
    let mut idle = served.connect().await;
    let text = served.livez("").await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    served.stop.send_replace(true);
    served.task.await.unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
}
