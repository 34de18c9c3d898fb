//! Blocks data that was handed to a connection while writing was allowed and would leave the process later: a suspended
//! process resumes where it stopped, possibly long after another replica has become leader.

use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use parking_lot::Mutex;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

/// Deadline until which connections of this process may send; shared by all planes.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<Mutex<Until>>);

#[derive(Debug, Default)]
struct Until {
    /// `None`: no deadline.
    until: Option<Instant>,
    /// Number of deadlines that have passed.
    lapses: u64,
}

impl Fence {
    /// Allows connections to send until `until`. Data not sent by then is never sent, and the connections end. `None`
    /// allows new connections to send.
    pub fn allow(&self, until: Option<Instant>) {
        let mut right = self.0.lock();
        if right.has_lapsed() {
            right.lapses += 1;
        }
        right.until = until;
    }

    pub(super) fn lapses(&self) -> u64 {
        self.0.lock().lapses
    }

    /// True if a connection that was opened after this many lapses may send.
    fn admits(&self, lapses: u64) -> bool {
        let right = self.0.lock();
        right.lapses == lapses && !right.has_lapsed()
    }
}

impl Until {
    fn has_lapsed(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Opens connections that a fence may block.
pub(super) type Connector = BoxCloneSyncService<http::Uri, TokioIo<Fenced<TcpStream>>, BoxError>;

/// Connections of `tcp` behind `fence`; without a fence they may always send.
pub(super) fn connector(tcp: HttpConnector, fence: Option<Fence>) -> Connector {
    let behind = move |stream: TokioIo<TcpStream>| {
        TokioIo::new(Fenced {
            stream: stream.into_inner(),
            fence: fence.clone().map(|fence| (fence.lapses(), fence)),
        })
    };
    BoxCloneSyncService::new(tcp.map_response(behind).map_err(Into::into))
}

/// A connection behind a fence, with the number of lapses at the time it was opened.
#[derive(Debug)]
pub(super) struct Fenced<S> {
    stream: S,
    fence: Option<(u64, Fence)>,
}

impl<S: Unpin> Fenced<S> {
    /// The stream, if it may send.
    fn open(self: Pin<&mut Self>) -> io::Result<Pin<&mut S>> {
        let this = self.get_mut();
        match &this.fence {
            Some((lapses, fence)) if !fence.admits(*lapses) => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "not sent: this replica's right to write has run out",
            )),
            _ => Ok(Pin::new(&mut this.stream)),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Fenced<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.open()?.poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Fenced<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, into)
    }
}

impl<S: Connection> Connection for Fenced<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn behind(fence: &Fence) -> (Fenced<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (stream, other) = tokio::io::duplex(64);
        let fence = Some((fence.lapses(), fence.clone()));
        (Fenced { stream, fence }, other)
    }

    /// True if a write succeeds and arrives.
    async fn sends(
        stream: &mut Fenced<tokio::io::DuplexStream>,
        other: &mut tokio::io::DuplexStream,
    ) -> bool {
        if let Err(error) = stream.write_all(b"x").await {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            return false;
        }
        assert_eq!(other.read_u8().await.unwrap(), b'x');
        true
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_when_the_right_runs_out_is_never_sent() {
        let fence = Fence::default();
        let (mut first, mut sees) = behind(&fence);
        assert!(sends(&mut first, &mut sees).await, "nobody stands for election");
        fence.allow(Some(Instant::now() + Duration::from_secs(10)));
        assert!(sends(&mut first, &mut sees).await);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!sends(&mut first, &mut sees).await, "before anybody has noticed");
        fence.allow(None);
        assert!(
            !sends(&mut first, &mut sees).await,
            "what it was handed is of then"
        );
        let (mut second, mut sees_second) = behind(&fence);
        assert!(sends(&mut second, &mut sees_second).await, "a standby asks, too");
        fence.allow(Some(Instant::now() + Duration::from_secs(10)));
        assert!(sends(&mut second, &mut sees_second).await);
        assert!(!sends(&mut first, &mut sees).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_that_is_renewed_or_given_back_in_time_ends_no_connection() {
        let fence = Fence::default();
        let (mut stream, mut other) = behind(&fence);
        for _ in 0..3 {
            fence.allow(Some(Instant::now() + Duration::from_secs(10)));
            tokio::time::advance(Duration::from_secs(9)).await;
            assert!(sends(&mut stream, &mut other).await);
        }
        fence.allow(None);
        assert!(sends(&mut stream, &mut other).await);
    }
}
