//! The credential of the requests to a replica. It is read anew when a replica refuses it, because tokens are rotated while a
//! command runs.

use super::host::{Host, bearer};
use crate::client::args::{AdminAuth, WayArgs};
use fedgate_kubeconfig::plain;
use fedgate_terminal::error::Error;
use http::HeaderValue;
use std::{path::PathBuf, sync::Arc};
use tokio::sync::Mutex;

/// The header `Authorization`, and where it comes from.
pub(super) struct Credential {
    source: Source,
    /// Locked while it is read, so that requests that are refused together read it once.
    last: Mutex<HeaderValue>,
}

enum Source {
    File(PathBuf),
    Host(Arc<Host>, AdminAuth),
}

impl Credential {
    /// The credential that the flags choose; `None` for a server without one.
    pub(super) async fn read(args: &WayArgs, host: Option<&Arc<Host>>) -> Result<Option<Self>, Error> {
        let source = match (&args.token_file, host) {
            (Some(file), _) => Source::File(file.clone()),
            (None, Some(host)) => Source::Host(Arc::clone(host), args.admin_auth),
            (None, None) => return Ok(None),
        };
        let last = Mutex::new(source.read().await?);
        Ok(Some(Self { source, last }))
    }

    /// The header as it was read last.
    pub(super) async fn last(&self) -> HeaderValue {
        self.last.lock().await.clone()
    }

    /// The header after a replica has refused this one; `None` if the source has no other.
    pub(super) async fn after(&self, refused: &HeaderValue) -> Result<Option<HeaderValue>, Error> {
        let mut last = self.last.lock().await;
        if *last == *refused {
            *last = self.source.read().await?;
        }
        Ok((*last != *refused).then(|| last.clone()))
    }
}

impl Source {
    async fn read(&self) -> Result<HeaderValue, Error> {
        match self {
            Self::File(file) => {
                let wrong = |cause: &str| Error::usage(format!("--token-file {}: {cause}", file.display()));
                let token = tokio::fs::read_to_string(file).await;
                let token = token.map_err(|error| wrong(&plain(&error.to_string())))?;
                bearer(&token).ok_or_else(|| wrong("it has no token"))
            }
            Self::Host(host, auth) => host.credential(*auth).await,
        }
    }
}
