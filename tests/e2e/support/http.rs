//! HTTP without a client library, mostly GET from the gateway's admin server.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Status code and body, or `None` if nobody answers.
pub(crate) async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    exchange(address, &head).await
}

/// The same for whoever shows this bearer token.
pub(crate) async fn get_as(address: &str, path: &str, token: &str) -> Option<(u16, String)> {
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    exchange(address, &head).await
}

/// Sends a whole request that asks for the connection to be closed.
pub(crate) async fn exchange(address: &str, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}

/// Sum of the samples of a metric whose label text contains all `labels`.
pub(crate) fn metric(page: &str, name: &str, labels: &[&str]) -> f64 {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .filter(|(series, _)| series.split('{').next() == Some(name))
        .filter(|(series, _)| labels.iter().all(|label| series.contains(label)))
        .filter_map(|(_, sample)| sample.parse::<f64>().ok())
        .sum()
}
