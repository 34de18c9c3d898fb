//! How many lists and starts of watches a host is asked for at a time. Thousands of planes may be behind one address, whose
//! server admits a number of requests of one user and refuses the others with 429.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Requests at a time before anything is known of the host.
const START: u32 = 16;
/// Most requests at a time.
const MOST: u32 = 256;
/// Pause after a 429 that names none.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause of a host, whatever its server asks for.
const LONGEST: Duration = Duration::from_secs(30);
/// Above the number that was refused once, each further place takes so many successes for each place that there is.
const CAUTION: u32 = 8;

/// The pace of one host; see the module.
#[derive(Debug)]
pub struct Pace {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug)]
struct State {
    limit: u32,
    under_way: u32,
    /// The number at which the host refused; it is approached with caution.
    refused_at: u32,
    /// Successes since the limit last grew.
    successes: u32,
    /// No request is sent before.
    paused: Option<Instant>,
    /// The last plane that was refused, and whether another was answered since.
    refused: Option<(u32, bool)>,
    /// How often the limit was lowered: requests that were sent before say nothing about the lower one.
    lowered: u32,
}

/// A request that is under way.
#[derive(Debug)]
pub struct Under<'a> {
    pace: &'a Pace,
    lowered: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                limit: START,
                under_way: 0,
                refused_at: MOST,
                successes: 0,
                paused: None,
                refused: None,
                lowered: 0,
            }),
            freed: Notify::new(),
        }
    }
}

impl Pace {
    /// Waits until a request may be sent.
    pub async fn admit(&self) -> Under<'_> {
        loop {
            let freed = self.freed.notified();
            let paused = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.paused.take_if(|until| *until <= now);
                if state.paused.is_none() && state.under_way < state.limit {
                    state.under_way += 1;
                    if state.under_way < state.limit {
                        self.freed.notify_one();
                    }
                    return Under {
                        pace: self,
                        lowered: state.lowered,
                    };
                }
                state.paused
            };
            match paused {
                Some(until) => sleep_until(until).await,
                None => freed.await,
            }
        }
    }

    /// Most requests at a time now.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> u32 {
        self.state.lock().limit
    }
}

impl Under<'_> {
    /// Records that the host answered a request of this plane.
    pub fn answered(&self, plane: u32) {
        let mut state = self.pace.state.lock();
        if let Some((refused, others)) = &mut state.refused {
            *others |= *refused != plane;
        }
        state.successes += 1;
        let needed = if state.limit < state.refused_at {
            1
        } else {
            state.limit * CAUTION
        };
        if state.limit < MOST && state.successes >= needed {
            (state.limit, state.successes) = (state.limit + 1, 0);
            self.pace.freed.notify_one();
        }
    }

    /// Records that the host refused a request of this plane because of too many, with the time that it asks for. A plane that
    /// is refused again and again while others are answered concerns none of them.
    pub fn refused(&self, plane: u32, retry_after: Option<Duration>) {
        let mut state = self.pace.state.lock();
        if state
            .refused
            .is_some_and(|(last, others)| last == plane && others)
        {
            return;
        }
        state.refused = Some((plane, false));
        let until = Instant::now() + retry_after.unwrap_or(PAUSE).min(LONGEST);
        state.paused = state.paused.max(Some(until));
        if self.lowered == state.lowered {
            state.refused_at = state.limit.saturating_sub(1).max(1);
            state.limit = (state.limit / 2).max(1);
            (state.successes, state.lowered) = (0, state.lowered + 1);
        }
    }
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.pace.state.lock().under_way -= 1;
        self.pace.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_halves_the_pace_once_and_pauses_it_and_successes_bring_it_back_to_below() {
        let pace = Pace::default();
        let mut under = Vec::new();
        for _ in 0..START {
            under.push(pace.admit().now_or_never().unwrap());
        }
        assert!(pace.admit().now_or_never().is_none(), "no more at a time");
        under[0].refused(1, Some(Duration::from_secs(5)));
        under[1].refused(2, None);
        assert_eq!(
            pace.limit(),
            START / 2,
            "those that were sent before say nothing more"
        );
        under.clear();
        assert!(pace.admit().now_or_never().is_none(), "it asked for a pause");
        let began = Instant::now();
        let one = pace.admit().await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        for _ in 0..START / 2 - 1 {
            one.answered(1);
        }
        assert_eq!(pace.limit(), START - 1);
        for _ in 0..(START - 1) * CAUTION - 1 {
            one.answered(1);
        }
        assert_eq!(
            pace.limit(),
            START - 1,
            "what was refused once is approached with caution"
        );
        one.answered(1);
        assert_eq!(pace.limit(), START);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pace_is_one_at_the_least_and_what_is_asked_for_is_bounded() {
        let pace = Pace::default();
        for _ in 0..10 {
            let one = pace.admit().await;
            one.refused(1, Some(Duration::from_hours(9)));
        }
        assert_eq!(pace.limit(), 1);
        let began = Instant::now();
        drop(pace.admit().await);
        assert_eq!(began.elapsed(), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plane_that_is_always_refused_slows_no_other() {
        let pace = Pace::default();
        pace.admit().await.refused(1, None);
        pace.admit().await.answered(2);
        let limit = pace.limit();
        for _ in 0..100 {
            pace.admit().now_or_never().unwrap().refused(1, Some(LONGEST));
        }
        assert_eq!(pace.limit(), limit);
        pace.admit().now_or_never().unwrap().refused(2, None);
        assert!(pace.limit() < limit, "another is refused too");
    }
}
