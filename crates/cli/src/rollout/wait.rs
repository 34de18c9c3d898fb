//! Waits until a rollout has ended, and shows on the way what changes.

use super::{
    Locations,
    progress::{End, Progress},
    report::Report,
    rows, unfinished,
};
use crate::{
    error::{Error, Kind},
    history::recorded,
    output::Output,
    plane::{Follow, Plane},
    time::sleep,
    view::{Instances, Joined, Object},
};
use std::time::Duration;
use tokio::time::Instant;

/// The rollout that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Name of the Workload.
    pub(crate) name: String,
    /// UID of the Workload.
    pub(crate) uid: String,
    /// The generation of the spec; `None` for whichever is the newest.
    pub(crate) generation: Option<i64>,
    /// The longest wait; zero for none.
    pub(crate) timeout: Duration,
    /// The longest wait for rows that are all blocked, and at most this long until a refused row is blocked; zero for neither.
    pub(crate) stall_timeout: Duration,
}

/// Waits for the end of a rollout, and shows its progress; `is_result` is true if that is the command's result.
pub(crate) async fn wait(
    plane: &Plane,
    output: &Output,
    target: &Target,
    is_result: bool,
) -> Result<(), Error> {
    let begun = Instant::now();
    let result = is_result.then_some(&*target.name);
    let report = Report::new(output, &plane.clock, begun, result);
    let wait = Wait {
        plane,
        target,
        begun,
        follow: Follow::workload(plane, &target.name),
        progress: Progress::new(target.stall_timeout),
        locations: Locations::default(),
    };
    wait.run(report).await
}

struct Wait<'a> {
    plane: &'a Plane,
    target: &'a Target,
    begun: Instant,
    follow: Follow,
    progress: Progress,
    locations: Locations,
}

impl Wait<'_> {
    async fn run(mut self, mut report: Report<'_>) -> Result<(), Error> {
        loop {
            let left = self.left();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(self.unfinished(Kind::TimedOut, self.target.timeout));
            }
            let next_change = self.progress.next(self.follow.clock());
            let next_change = next_change.filter(|_| !self.follow.is_lost());
            let timers = [left, next_change, report.tick()];
            let news = tokio::select! {
                news = self.follow.next() => Some(news?),
                () = sleep(timers.into_iter().flatten().min()) => None,
                _ = tokio::signal::ctrl_c() => {
                    return Err(Error::new(Kind::Interrupted, "Detached; the rollout continues."));
                }
            };
            let changed = match news {
                Some(None) => {
                    report.clear_notice()?;
                    self.observe().await?
                }
                Some(Some(notice)) => {
                    report.notice(&notice)?;
                    continue;
                }
                None => self.progress.again(self.follow.clock()),
            };
            let now = self.follow.clock();
            report.show(&self.progress.rows(now), &changed)?;
            match self.progress.end(now) {
                Some(End::Complete) => {
                    report.complete();
                    return Ok(());
                }
                Some(End::Paused) => return Err(self.unfinished(Kind::Moving, self.begun.elapsed())),
                Some(End::Stalled) => return Err(self.unfinished(Kind::Blocked, self.begun.elapsed())),
                None => {}
            }
        }
    }

    /// Time until the wait ends; `None` for no end.
    fn left(&self) -> Option<Duration> {
        let timeout = self.target.timeout;
        (!timeout.is_zero()).then(|| timeout.saturating_sub(self.begun.elapsed()))
    }

    /// Takes over the objects as they are now; returns the rows that have changed.
    async fn observe(&mut self) -> Result<Vec<super::Row>, Error> {
        let (mut joined, instances) = self.current().await?;
        self.locations.look_up(self.plane, &mut joined).await;
        Ok(self
            .progress
            .observe(rows(&joined, &instances), self.follow.clock()))
    }

    /// The Workload with its deployments, and the Instances, unless it is another one by now.
    async fn current(&self) -> Result<(Joined, Instances), Error> {
        let Target {
            name,
            uid,
            generation,
            ..
        } = self.target;
        let gone = || {
            let what = format!("workload {name:?} was deleted during the wait");
            Error::new(Kind::NotFound, what)
        };
        let is_same = |workload: &Object| workload.uid() == uid && !workload.is_deleting();
        let joined = self.follow.joined();
        let joined = joined
            .filter(|(joined, _)| is_same(&joined.workload))
            .ok_or_else(gone)?;
        let workload = &joined.0.workload;
        if generation.is_some_and(|wanted| workload.generation() > wanted) {
            return Err(changed_meanwhile(self.plane, workload).await);
        }
        Ok(joined)
    }

    fn unfinished(&self, kind: Kind, after: Duration) -> Error {
        let rows = self.progress.rows(self.follow.clock());
        unfinished(&self.target.name, &rows, kind, Some(after))
    }
}

/// The error about a spec that another user has changed, with the revision if it is recorded.
pub(crate) async fn changed_meanwhile(plane: &Plane, workload: &Object) -> Error {
    let name = workload.name();
    let by = match recorded(plane, workload).await {
        Some((number, by)) => format!(" (rev #{number} by {by})"),
        None => String::new(),
    };
    Error::new(Kind::Conflict, format!("workload {name:?} changed meanwhile{by}"))
        .next(format!("kubectl compute rollout history {name}"))
}
