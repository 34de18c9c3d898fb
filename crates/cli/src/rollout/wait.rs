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
    plane::{Follow, News, Plane, Resource, Selection},
    time::sleep,
    view::{Instances, Joined, Object, join},
};
use std::time::Duration;
use tokio::time::Instant;

/// The bounds of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitFlags {
    /// The longest wait; zero for none.
    pub(crate) timeout: Duration,
    /// The longest wait for rows that are all blocked; zero for none.
    pub(crate) stall_timeout: Duration,
}

/// The rollout that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Name of the Workload.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// The generation of the spec; `None` for whichever is the newest.
    pub(crate) generation: Option<i64>,
}

/// Waits for the end of a rollout that a command has begun, and shows its progress.
pub(crate) async fn wait(
    plane: &Plane,
    output: &Output,
    target: &Target,
    flags: WaitFlags,
) -> Result<(), Error> {
    let begun = Instant::now();
    let report = Report::progress(output, &plane.clock, begun);
    Wait::start(plane, target, flags, begun).run(report).await
}

/// Waits for the end of a rollout whose state is the command's result.
pub(crate) async fn follow(
    plane: &Plane,
    output: &Output,
    target: &Target,
    flags: WaitFlags,
) -> Result<(), Error> {
    let begun = Instant::now();
    let report = if output.is_text() {
        Report::progress(output, &plane.clock, begun)
    } else {
        Report::objects(output, &plane.clock, begun, &target.name)
    };
    Wait::start(plane, target, flags, begun).run(report).await
}

struct Wait<'a> {
    plane: &'a Plane,
    target: &'a Target,
    flags: WaitFlags,
    begun: Instant,
    follow: Follow,
    progress: Progress,
    locations: Locations,
}

impl<'a> Wait<'a> {
    fn start(plane: &'a Plane, target: &'a Target, flags: WaitFlags, begun: Instant) -> Self {
        let kinds = [
            (Resource::Workloads, Selection::Named(target.name.clone())),
            (Resource::Deployments, Selection::All),
            (Resource::Instances, Selection::All),
        ];
        Self {
            plane,
            target,
            flags,
            begun,
            follow: Follow::start(plane, &kinds),
            progress: Progress::new(flags.stall_timeout),
            locations: Locations::default(),
        }
    }

    async fn run(mut self, mut report: Report<'_>) -> Result<(), Error> {
        loop {
            let left = self.left();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(self.unfinished(Kind::TimedOut, self.flags.timeout));
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
                Some(News::Changed) => {
                    report.clear_notice()?;
                    self.observe().await?
                }
                Some(news @ News::NoAnswer(_)) => {
                    report.notice(&news.notice().unwrap_or_default())?;
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
                Some(End::Stalled) => return Err(self.unfinished(Kind::Blocked, self.begun.elapsed())),
                None => {}
            }
        }
    }

    /// Time until the wait ends; `None` for no end.
    fn left(&self) -> Option<Duration> {
        let timeout = self.flags.timeout;
        (!timeout.is_zero()).then(|| timeout.saturating_sub(self.begun.elapsed()))
    }

    /// Takes over the objects as they are now; returns the rows that have changed.
    async fn observe(&mut self) -> Result<Vec<super::Row>, Error> {
        let mut joined = self.current().await?;
        self.locations.look_up(self.plane, &mut joined).await;
        let instances: Instances = self.follow.objects(Resource::Instances).cloned().collect();
        Ok(self
            .progress
            .observe(rows(&joined, &instances), self.follow.clock()))
    }

    /// The Workload with its deployments, unless it is another one by now.
    async fn current(&self) -> Result<Joined, Error> {
        let Target {
            name,
            uid,
            generation,
        } = self.target;
        let gone = || {
            let what = format!("workload {name:?} was deleted during the wait");
            Error::new(Kind::NotFound, what)
        };
        let workload = self.follow.objects(Resource::Workloads).next().cloned();
        let workload = workload.filter(|workload| workload.uid() == uid && !workload.is_deleting());
        let workload = workload.ok_or_else(gone)?;
        if generation.is_some_and(|wanted| workload.generation() > wanted) {
            return Err(changed_meanwhile(self.plane, &workload).await);
        }
        let deployments = self.follow.objects(Resource::Deployments).cloned().collect();
        join(vec![workload], deployments).pop().ok_or_else(gone)
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
