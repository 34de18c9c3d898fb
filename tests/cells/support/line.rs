//! The way from a process to an API server, which a test may cut without the server knowing.

use std::{io, net::SocketAddr};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Passes connections on while it is whole.
pub(crate) struct Line {
    /// Where to connect.
    pub(crate) address: SocketAddr,
    whole: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Line {
    /// A line to the server at `to`, as `127.0.0.1:6443`.
    pub(crate) async fn to(to: String) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (whole, watched) = watch::channel(true);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (mut watched, to) = (watched.clone(), to.clone());
                // A connection that comes while the line is cut is dropped here: a server that refuses.
                if *watched.borrow_and_update() {
                    tokio::spawn(async move {
                        tokio::select! {
                            () = carry(near, &to) => {}
                            _ = watched.wait_for(|whole| !whole) => {}
                        }
                    });
                }
            }
        });
        Ok(Self { address, whole, task })
    }

    /// Breaks all connections, and every one that is tried from now on.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Lets new connections pass.
    pub(crate) fn restore(&self) {
        self.whole.send_replace(true);
    }
}

async fn carry(mut near: TcpStream, to: &str) {
    if let Ok(mut far) = TcpStream::connect(to).await {
        // It ends with an error where one side breaks off, which is all the same here.
        let _ = copy_bidirectional(&mut near, &mut far).await;
    }
}
