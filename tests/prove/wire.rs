//! The wire between one life of a gateway and the planes, which can be cut: what a killed process had under way is given
//! up, and nothing more of it arrives.

use fedgate_engine::watch_channel::Receiver;
use fedgate_simulator::Service;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use std::{
    io,
    task::{Context, Poll},
};

/// See the module.
#[derive(Clone)]
pub(crate) struct Wire {
    to: Service,
    cut: Receiver<bool>,
}

impl Wire {
    /// A wire to a plane that lasts until `cut`.
    pub(crate) fn new(to: Service, cut: Receiver<bool>) -> Self {
        Self { to, cut }
    }
}

impl<B> tower::Service<Request<B>> for Wire
where
    B: Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    type Response = Response<fedgate_simulator::Body>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut to, mut cut) = (self.to.clone(), self.cut.clone());
        Box::pin(async move {
            if cut.borrow_and_update() {
                return Err(io::Error::other("the wire is cut"));
            }
            tokio::select! {
                biased;
                () = cut.wait_for(|cut| cut) => Err(io::Error::other("the wire is cut")),
                answer = tower::Service::call(&mut to, request) => answer.map_err(io::Error::other),
            }
        })
    }
}
