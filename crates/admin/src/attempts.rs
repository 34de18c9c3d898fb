//! Wrong tokens: an address that shows ten in a second is not heard for a second (contract: operations.md §2.7 rule 1). Each
//! address is counted by itself, so that one cannot shut out another.

use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr, time::Duration};
use tokio::time::Instant;

/// Wrong tokens within [`WINDOW`] after which an address has to wait.
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);
/// How long it has to wait.
const WAIT: Duration = Duration::from_secs(1);
/// Maximum number of addresses that are counted. When it is reached, those without a wrong token in the last second make way.
const ADDRESSES: usize = 1_024;

/// The wrong tokens of the last second.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<BTreeMap<IpAddr, Attempt>>);

#[derive(Debug)]
struct Attempt {
    /// When the window began.
    since: Instant,
    wrong: u32,
    /// Until when the address has to wait.
    until: Option<Instant>,
}

impl Attempt {
    fn is_over(&self, now: Instant) -> bool {
        match self.until {
            Some(until) => now >= until,
            None => now >= self.since + WINDOW,
        }
    }
}

impl Attempts {
    /// True if the address may show a token.
    pub(super) fn may_try(&self, address: IpAddr) -> bool {
        let now = Instant::now();
        let attempts = self.0.lock();
        attempts
            .get(&address)
            .and_then(|attempt| attempt.until)
            .is_none_or(|until| now >= until)
    }

    /// Counts a wrong token.
    pub(super) fn wrong(&self, address: IpAddr) {
        let now = Instant::now();
        let mut attempts = self.0.lock();
        if attempts.len() >= ADDRESSES && !attempts.contains_key(&address) {
            attempts.retain(|_, attempt| !attempt.is_over(now));
            if attempts.len() >= ADDRESSES {
                attempts.pop_first();
            }
        }
        let attempt = attempts.entry(address).or_insert(Attempt {
            since: now,
            wrong: 0,
            until: None,
        });
        if attempt.is_over(now) {
            *attempt = Attempt {
                since: now,
                wrong: 0,
                until: None,
            };
        }
        attempt.wrong += 1;
        if attempt.wrong >= MOST {
            attempt.until = Some(now + WAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(n).into()
    }

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_tokens_in_a_second_cost_a_second_and_no_other_address_any() {
        let attempts = Attempts::default();
        for n in 0..10 {
            assert!(attempts.may_try(address(1)), "{n}");
            attempts.wrong(address(1));
        }
        assert!(!attempts.may_try(address(1)));
        assert!(attempts.may_try(address(2)));
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(!attempts.may_try(address(1)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(attempts.may_try(address(1)));
        for _ in 0..9 {
            attempts.wrong(address(1));
        }
        tokio::time::advance(WINDOW).await;
        attempts.wrong(address(1));
        assert!(
            attempts.may_try(address(1)),
            "nine in one second and one in the next"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_take_no_memory() {
        let attempts = Attempts::default();
        for n in 0..20_000 {
            attempts.wrong(address(n));
        }
        assert_eq!(attempts.0.lock().len(), ADDRESSES);
    }
}
