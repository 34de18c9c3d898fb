//! Watches of single Works and of single objects at members, each for one change.

use super::{Observation, Probe, Subject, probe, probe_delay};
use crate::context::Context;
use fedgate_engine::{error::Failure, key::Key, plan::Target, random::HashMap, runtime::queue::Priority};
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::Instant};

/// Watches of Works and of objects at members whose end is awaited, by the key that each enqueues.
#[derive(Debug, Default)]
pub struct Watches(Mutex<HashMap<Key, Watch>>);

/// Waits for a change, but at least as long as until the first repeated probe, because a member may change its object all the
/// time.
async fn after_pause(change: impl Future<Output = bool>) -> bool {
    let soonest = Instant::now() + probe_delay(0);
    let has_changed = change.await;
    if has_changed {
        tokio::time::sleep_until(soonest).await;
    }
    has_changed
}

/// A watch; it ends when this is dropped.
#[derive(Debug)]
struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Maximum number of watches at a time. Further objects are probed repeatedly.
const WATCHES: usize = 64;

impl Watches {
    /// Sends a probe. The key is enqueued at the next change of the object that the answer shows.
    pub async fn probe(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        subject: Subject<'_>,
        question: &Probe,
    ) -> Result<Observation, Failure> {
        let answered = probe(ctx, subject, question).await?;
        match &answered.watched {
            Some((target, version)) => self.start(ctx, key, target, version),
            None => drop(self.0.lock().remove(key)),
        }
        Ok(answered.observation)
    }

    fn start(&self, ctx: &Context<'_>, key: &Key, target: &Target, version: &str) {
        let mut watches = self.0.lock();
        watches.retain(|_, task| !task.0.is_finished());
        if watches.len() >= WATCHES && !watches.contains_key(key) {
            return;
        }
        let Ok(change) = ctx.executor.next_change(target, version) else {
            return;
        };
        let (queue, own) = (ctx.queue.clone(), key.clone());
        let task = tokio::spawn(async move {
            if after_pause(change).await {
                queue.extend([own], Priority::Fresh);
            }
        });
        watches.insert(key.clone(), Watch(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_member_that_changes_its_object_all_the_time_is_asked_once_a_second() {
        let begin = Instant::now();
        for _ in 0..3 {
            assert!(after_pause(async { true }).await);
        }
        assert_eq!(begin.elapsed(), Duration::from_secs(3));
        let late = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            true
        };
        let begin = Instant::now();
        assert!(after_pause(late).await);
        assert_eq!(
            begin.elapsed(),
            Duration::from_secs(5),
            "no later than its change"
        );
        assert!(!after_pause(async { false }).await);
        assert_eq!(begin.elapsed(), Duration::from_secs(5));
    }
}
