//! Ages, counted from the server's clock.

pub(crate) use fedgate_terminal::time::age;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// The server's clock, as its answers show it: a local clock may be wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerClock(Arc<Mutex<Option<SignedDuration>>>);

impl ServerClock {
    /// Takes over the header `Date` of an answer.
    pub(crate) fn observe(&self, headers: &http::HeaderMap) {
        let date = headers
            .get(http::header::DATE)
            .and_then(|date| date.to_str().ok());
        let Some(server) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) else {
            return;
        };
        let ahead = server.timestamp().duration_since(Timestamp::now());
        // The header has whole seconds: a smaller difference is none.
        let ahead = if ahead.abs() < SignedDuration::from_secs(2) {
            SignedDuration::ZERO
        } else {
            ahead
        };
        *self.0.lock() = Some(ahead);
    }

    /// The server's present time; the local one before the first answer.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead = self.0.lock().unwrap_or_default();
        Timestamp::now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
    }
}

/// Sleeps for this time; for ever if there is none.
pub(crate) async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// A duration in words: `1m 12s`.
pub(crate) fn prose(time: Duration) -> String {
    let seconds = SignedDuration::from_secs(time.as_secs().try_into().unwrap_or(i64::MAX));
    format!("{seconds:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_date_counts_and_not_the_local_clock() {
        let clock = ServerClock::default();
        let mut headers = http::HeaderMap::new();
        headers.insert(
            http::header::DATE,
            "Tue, 01 Jan 2030 00:00:00 GMT".parse().unwrap(),
        );
        clock.observe(&headers);
        let server: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        assert!(clock.now().duration_since(server).abs() < SignedDuration::from_secs(5));
        headers.insert(http::header::DATE, "not a date".parse().unwrap());
        clock.observe(&headers);
        assert!(clock.now().duration_since(server).abs() < SignedDuration::from_secs(5));
    }
}
