//! Waits until a rollout has ended, and says on the way what changes.

use super::{
    Phase, Progress, Row,
    progress::{BLOCKED_AFTER, End},
    report::Report,
    rows,
};
use crate::{
    error::{Error, Kind},
    output::Output,
    plane::{Follow, News, Plane, Resource, Selection},
    time::{prose, sleep},
    view::{Joined, Object, join},
};
use jiff::{SignedDuration, Timestamp};
use std::time::{Duration, Instant};

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

/// Waits for the end of a rollout.
pub(crate) async fn wait(
    plane: &Plane,
    output: &Output,
    target: &Target,
    flags: WaitFlags,
) -> Result<(), Error> {
    let begun = Instant::now();
    let mut follow = Follow::start(
        plane,
        &[
            (Resource::Workloads, Selection::Named(target.name.clone())),
            (Resource::Deployments, Selection::All),
            (Resource::Instances, Selection::All),
        ],
    )?;
    let mut progress = Progress::new(flags.stall_timeout);
    let mut report = Report::new(output, &plane.clock, begun);
    loop {
        let now = Instant::now();
        let left = (!flags.timeout.is_zero()).then(|| flags.timeout.saturating_sub(begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(unfinished(&progress, now, target, Kind::TimedOut, flags.timeout));
        }
        let timers = [left, progress.next(now), report.tick()];
        let timer = timers.into_iter().flatten().min();
        let news = tokio::select! {
            news = follow.next() => Some(news?),
            () = sleep(timer) => None,
        };
        if let Some(notice) = news.as_ref().and_then(News::notice) {
            output.remark(&notice);
            continue;
        }
        let now = Instant::now();
        let changed = if news.is_some() {
            let joined = current(&follow, target)?;
            let instances = follow.objects(Resource::Instances);
            progress.observe(rows(&joined, &instances), now)
        } else {
            progress.again(now)
        };
        report.tell(&progress.rows(now).collect::<Vec<_>>(), &changed);
        match progress.end(now) {
            Some(End::Complete) => {
                output.remark(&format!("Rollout complete in {}.", prose(begun.elapsed())));
                return Ok(());
            }
            Some(End::Stalled) => {
                return Err(unfinished(&progress, now, target, Kind::Blocked, begun.elapsed()));
            }
            None => {}
        }
    }
}

/// The rows as they are now, without a wait: how long a row was refused is told by its condition.
pub(crate) fn once(joined: &Joined, instances: &[Object], now: Timestamp) -> Vec<Row> {
    let mut rows = rows(joined, instances);
    for row in &mut rows {
        let old = row.since.is_none_or(|since| {
            now.duration_since(since) >= SignedDuration::try_from(BLOCKED_AFTER).unwrap_or_default()
        });
        if let (Some(refusal), true) = (&row.refusal, old) {
            row.detail = match &row.instance {
                Some(instance) => format!("{refusal}; {instance}"),
                None => refusal.clone(),
            };
            row.phase = Phase::Blocked;
        }
    }
    rows
}

/// The Workload with its deployments, unless it is another one by now.
fn current(follow: &Follow, target: &Target) -> Result<Joined, Error> {
    let name = &target.name;
    let workload = follow.objects(Resource::Workloads).pop();
    let gone = || {
        Error::new(
            Kind::NotFound,
            format!("workload {name:?} was deleted during the wait"),
        )
    };
    let workload = workload.filter(|workload| workload.uid() == target.uid && !workload.is_deleting());
    let workload = workload.ok_or_else(gone)?;
    if target
        .generation
        .is_some_and(|wanted| workload.generation() > wanted)
    {
        return Err(
            Error::new(Kind::Conflict, format!("workload {name:?} changed meanwhile"))
                .next(format!("kubectl compute rollout history {name}")),
        );
    }
    let deployments = follow.objects(Resource::Deployments);
    join(vec![workload], deployments).pop().ok_or_else(gone)
}

fn unfinished(progress: &Progress, now: Instant, target: &Target, kind: Kind, after: Duration) -> Error {
    let rows: Vec<String> = progress
        .rows(now)
        .filter(|row| row.phase != Phase::Done)
        .map(|row| match row.phase {
            Phase::Blocked => format!("{}/{} Blocked: {}", row.city.placement, row.city.city, row.detail),
            phase => format!("{}/{} {}", row.city.placement, row.city.city, phase.word()),
        })
        .collect();
    let what = format!("rollout not finished after {}: {}", prose(after), rows.join(", "));
    Error::new(kind, what).next(format!("kubectl compute trace {}", target.name))
}
