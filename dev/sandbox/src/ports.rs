//! Free ports on loopback.

use anyhow::anyhow;
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    net::{Ipv4Addr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

// Below the ports that Linux and macOS hand out to outgoing connections: a plane that is stopped and started again
// keeps its port, which no connection may take in between.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

// Starts anywhere, so that two sandboxes that start together do not walk the same row.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
    let random = RandomState::new().hash_one(std::process::id()) % u64::from(COUNT);
    AtomicU16::new(u16::try_from(random).unwrap_or_default())
});

/// A port that was free a moment ago and that this process hands out once only.
pub(super) fn free_port() -> anyhow::Result<u16> {
    for _ in 0..COUNT {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(anyhow!(
        "no port of 127.0.0.1:{FIRST}-{} is free",
        FIRST + COUNT - 1
    ))
}
