//! Ctrl-C, and the writes that it must not cut in two.

use tokio::{signal::ctrl_c, sync::watch};

/// The writes under way. Once one was sent, its record and its result are finished before Ctrl-C ends the command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writes(watch::Sender<()>);

/// A write under way, with its record and its result; it ends when this is dropped.
pub(crate) type WriteGuard = watch::Receiver<()>;

impl Writes {
    /// Begins a write.
    pub(crate) fn begin(&self) -> WriteGuard {
        self.0.subscribe()
    }

    /// Waits for Ctrl-C, then for the end of the writes under way. A second Ctrl-C waits for nothing: a server may not answer.
    pub(crate) async fn interrupted(&self) {
        if ctrl_c().await.is_err() {
            // Without a handler the signal ends the process by itself.
            return std::future::pending().await;
        }
        tokio::select! {
            () = self.0.closed() => {}
            _ = ctrl_c() => {}
        }
    }
}
