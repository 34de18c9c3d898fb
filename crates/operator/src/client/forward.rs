//! A request to a Pod over a forwarded port, inside of this process: no local port is opened.

use super::{failure, host::Host, replicas::PodPort};
use bytes::Bytes;
use fedgate_terminal::error::Error;
use http::{HeaderValue, header::HOST};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

/// Sends a request over a forward of its own, which ends with the answer's body.
pub(super) async fn send(
    host: &Host,
    to: &PodPort,
    request: http::Request<()>,
) -> Result<http::Response<Incoming>, Error> {
    let PodPort { pod, port, .. } = to;
    let mut request = request.map(|()| Empty::<Bytes>::new());
    let name = HeaderValue::try_from(format!("localhost:{port}"));
    let name = name.map_err(|error| failure::broken_forward(to, error.to_string()))?;
    request.headers_mut().insert(HOST, name);
    let forwarded = host.pods().portforward(pod, &[*port]).await;
    let tried = host.request("get and create", "pods/portforward");
    let mut forwarded = forwarded.map_err(|error| failure::of_host(tried, &error))?;
    let (Some(stream), Some(words)) = (forwarded.take_stream(*port), forwarded.take_error(*port)) else {
        return Err(failure::broken_forward(
            to,
            "the forward has no such port".to_owned(),
        ));
    };
    let answer = async {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer's body, which is read long after this function.
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    match answer.await {
        Ok(answer) => Ok(answer),
        // The node's words say more than a connection that has ended.
        Err(error) => Err(failure::broken_forward(
            to,
            words.await.unwrap_or_else(|| error.to_string()),
        )),
    }
}
