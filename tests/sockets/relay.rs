//! What lies between a client and its server, and forgets connections: a NAT, a load balancer, a machine without power.

use std::net::SocketAddr;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// What becomes of the connections that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Both sockets stay open, and nothing passes, in neither direction.
    HalfOpen,
    /// Both sockets are closed.
    Cut,
}

/// See the module.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// Where new connections lead; nowhere, if they are accepted and nothing more.
    to: watch::Sender<Option<SocketAddr>>,
    fate: watch::Sender<Fate>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// An address of its own before this one.
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (to, fate) = (watch::Sender::new(Some(to)), watch::Sender::new(Fate::Cut));
        let task = tokio::spawn(accept(listener, to.subscribe(), fate.clone()));
        Self {
            address,
            to,
            fate,
            task,
        }
    }

    /// From now on new connections lead there, or nowhere.
    pub(crate) fn leads(&self, to: Option<SocketAddr>) {
        self.to.send_replace(to);
    }

    /// This is what becomes of all present connections.
    pub(crate) fn ends(&self, fate: Fate) {
        self.fate.send_replace(fate);
    }
}

async fn accept(listener: TcpListener, to: watch::Receiver<Option<SocketAddr>>, fate: watch::Sender<Fate>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let to = *to.borrow();
        connections.spawn(relay(client, to, fate.subscribe()));
    }
}

async fn relay(mut client: TcpStream, to: Option<SocketAddr>, mut fate: watch::Receiver<Fate>) {
    let Some(to) = to else {
        return std::future::pending().await;
    };
    let Ok(mut server) = TcpStream::connect(to).await else {
        return;
    };
    tokio::select! {
        biased;
        _ = fate.changed() => {
            let fate = *fate.borrow();
            if fate == Fate::HalfOpen {
                std::future::pending::<()>().await;
            }
        }
        // Its end is that of either side.
        _ = copy_bidirectional(&mut client, &mut server) => {}
    }
}
