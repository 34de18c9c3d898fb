//! TLS settings, one for all credentials that need the same: each has a cache of sessions, which would be much of what
//! an idle project takes.

use parking_lot::Mutex;
use rustls::ClientConfig;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// By the digest of everything that they are made of.
static KNOWN: Mutex<BTreeMap<[u8; 32], Weak<ClientConfig>>> = Mutex::new(BTreeMap::new());

/// The settings of this digest, made if nobody has them.
pub(super) fn shared<E>(
    digest: [u8; 32],
    make: impl FnOnce() -> Result<ClientConfig, E>,
) -> Result<Arc<ClientConfig>, E> {
    if let Some(known) = KNOWN.lock().get(&digest).and_then(Weak::upgrade) {
        return Ok(known);
    }
    let new = Arc::new(make()?);
    let mut known = KNOWN.lock();
    known.retain(|_, tls| tls.strong_count() > 0);
    known.insert(digest, Arc::downgrade(&new));
    Ok(new)
}
