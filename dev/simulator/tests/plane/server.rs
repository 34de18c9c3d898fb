//! Planes over sockets.

use crate::client::{MAPS, map, plane};
use bytes::Bytes;
use fedgate_simulator::Simulator;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

async fn serve(simulator: &Simulator) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let simulator = simulator.clone();
    let server = tokio::spawn(async move { simulator.serve(listener, None).await.unwrap() });
    (address, server)
}

fn request(method: &str, path: &str, body: String) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://sim/planes/p{path}"))
        .header("host", "sim")
        .header("authorization", "Bearer someone")
        .body(Full::from(body))
        .unwrap()
}

#[tokio::test]
async fn http1_is_served() {
    let (simulator, plane, _) = plane();
    let (address, server) = serve(&simulator).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut plain = request("POST", MAPS, map("a", "1").to_string());
    *plain.uri_mut() = format!("/planes/p{MAPS}").parse().unwrap();
    let answer = client.send_request(plain).await.unwrap();
    assert_eq!(answer.status(), 201);
    assert!(plane.get("ConfigMap", "default", "a").is_some());
    assert_eq!(&*simulator.log().entries()[0].user, "someone");
    server.abort();
    // The connection ends with the server.
    let _ = connection.await.unwrap();
}

#[tokio::test]
async fn http2_carries_many_watches_on_one_connection() {
    let (simulator, plane, _) = plane();
    simulator.limit_streams(500);
    let (address, server) = serve(&simulator).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut watches = Vec::new();
    for _ in 0..200 {
        let watch = client
            .clone()
            .send_request(request("GET", &format!("{MAPS}?watch=true"), String::new()));
        watches.push(watch.await.unwrap().into_body());
    }
    plane.create(map("a", "1")).unwrap();
    for watch in &mut watches {
        let line = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(line.starts_with(b"{\"type\":\"ADDED\""));
    }
    simulator.remove("p");
    let rest = watches.remove(0).collect().await.unwrap().to_bytes();
    assert!(rest.is_empty(), "the watch ends");
    let lost = client
        .clone()
        .send_request(request("GET", MAPS, String::new()))
        .await;
    assert!(lost.is_err(), "a plane that is not there breaks the connection");
    server.abort();
}
