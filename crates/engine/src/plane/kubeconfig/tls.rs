//! TLS settings, shared by all credentials with the same inputs: each has a session cache, which would be much of the
//! memory of an idle project.

use parking_lot::Mutex;
use rustls::ClientConfig;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// Settings by the digest of all their inputs.
static KNOWN: Mutex<BTreeMap<[u8; 32], Weak<ClientConfig>>> = Mutex::new(BTreeMap::new());

/// The settings of this digest; created if no credential uses them yet.
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
