//! `rollout status`, `history` and `undo`.

use super::changes::follow_up;
use crate::{
    args::{HistoryArgs, RolloutStatusArgs, UndoArgs},
    change::{Intent, Session},
    error::{Error, Kind},
    history::{self, History, Revision},
    output::{
        Output,
        table::{Table, escape},
        write,
    },
    plane::{Plane, Resource},
    rollout::{Phase, ROWS, Row, Target, WaitFlags, once, table, wait},
    time::age,
    view::{Object, join},
};
use serde_json::{Value, json};

const REVISIONS: &[&str] = &[
    "REV", "WHEN", "IMAGE", "CHANGES", "BY", "STATUS", "VERB", "REASON",
];
/// Columns of the narrow form of the history.
const NARROW: usize = 6;

/// Follows a rollout, or prints its state once.
pub(crate) async fn status(plane: &Plane, output: &Output, args: &RolloutStatusArgs) -> Result<(), Error> {
    let Some(name) = &args.name else {
        return Err(Error::usage("rollout needs the NAME of a workload").next("kubectl compute workloads"));
    };
    let workload = plane.workload(name).await?;
    let generation = match args.revision {
        0 => None,
        number => Some(kept(plane, &workload).await?.find(name, number)?.generation),
    };
    if args.watch {
        let target = Target {
            name: name.clone(),
            uid: workload.uid().to_owned(),
            generation,
        };
        let flags = WaitFlags {
            timeout: args.timeout,
            stall_timeout: args.stall_timeout,
        };
        return wait(plane, output, &target, flags).await;
    }
    if generation.is_some_and(|generation| workload.generation() > generation) {
        let what = format!(
            "workload {name:?} has a newer spec than revision #{}",
            args.revision
        );
        return Err(Error::new(Kind::Conflict, what).next(format!("kubectl compute rollout history {name}")));
    }
    let rows = state(plane, workload).await?;
    print_rows(output, name, &rows)?;
    verdict(name, &rows)
}

/// The rows of a Workload as they are now.
pub(crate) async fn state(plane: &Plane, workload: Object) -> Result<Vec<Row>, Error> {
    let (deployments, instances) =
        tokio::try_join!(plane.list(Resource::Deployments), plane.list(Resource::Instances))?;
    let joined = join(vec![workload], deployments).pop();
    Ok(joined
        .map(|joined| once(&joined, &instances, plane.clock.now()))
        .unwrap_or_default())
}

fn print_rows(output: &Output, name: &str, rows: &[Row]) -> Result<(), Error> {
    if !output.is_text() {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        return output.object(
            &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "RolloutStatus", "metadata": {"name": name}, "rows": rows}),
        );
    }
    output.table(&table(rows), ROWS.len())
}

/// A row for programs.
pub(crate) fn row_json(row: &Row) -> Value {
    json!({"placement": row.city.placement, "city": row.city.city, "desired": row.counts.desired,
        "updated": row.counts.updated, "ready": row.counts.ready, "old": row.old(),
        "phase": row.phase.word(), "detail": row.detail})
}

fn verdict(name: &str, rows: &[Row]) -> Result<(), Error> {
    let left: Vec<String> = rows
        .iter()
        .filter(|row| row.phase != Phase::Done)
        .map(|row| format!("{}/{} {}", row.city.placement, row.city.city, row.phase.word()))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let blocked = rows.iter().any(|row| row.phase == Phase::Blocked);
    let kind = if blocked { Kind::Blocked } else { Kind::Moving };
    Err(
        Error::new(kind, format!("rollout not finished: {}", left.join(", ")))
            .next(format!("kubectl compute trace {name}")),
    )
}

/// Revisions as commands need them.
#[derive(Debug)]
struct Kept(History);

impl Kept {
    /// The revision with this number.
    fn find(&self, name: &str, number: u64) -> Result<&Revision, Error> {
        let Self(history) = self;
        history.get(number).ok_or_else(|| {
            let kept = match (history.revisions.first(), history.revisions.last()) {
                (Some(first), Some(last)) => format!(" (kept: #{}..#{})", first.rev, last.rev),
                _ => String::new(),
            };
            Error::new(Kind::NotFound, format!("revision #{number} not found{kept}"))
                .next(format!("kubectl compute rollout history {name}"))
        })
    }
}

/// The history of a Workload; an error if there is none.
async fn kept(plane: &Plane, workload: &Object) -> Result<Kept, Error> {
    let map = history::find(plane, workload).await?;
    let history = map.map(|map| History::read(&map)).unwrap_or_default();
    if history.revisions.is_empty() {
        let what = format!("workload {:?} has no history", workload.name());
        return Err(
            Error::new(Kind::NotFound, what).next(format!("kubectl compute status {}", workload.name()))
        );
    }
    Ok(Kept(history))
}

/// Lists the revisions, or shows one.
pub(crate) async fn history(plane: &Plane, output: &Output, args: &HistoryArgs) -> Result<(), Error> {
    let workload = plane.workload(&args.name).await?;
    let kept = kept(plane, &workload).await?;
    if kept.0.unreadable > 0 {
        crate::output::warn(&format!(
            "{} revisions cannot be read and are skipped",
            kept.0.unreadable
        ));
    }
    if args.revision > 0 {
        let revision = kept.find(&args.name, args.revision)?;
        return show(output, revision);
    }
    let Kept(history) = kept;
    if !output.is_text() {
        let items: Vec<_> = history.revisions.iter().rev().map(|r| json!(r)).collect();
        return output.object(
            &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "History", "metadata": {"name": args.name},
            "active": history.active, "observed": history.is_behind(&workload), "revisions": items}),
        );
    }
    let now = plane.clock.now();
    let mut table = Table::new(REVISIONS);
    let behind = history.is_behind(&workload);
    if behind {
        table.row(vec![
            "-".into(),
            "-".into(),
            workload.image().into(),
            "changed outside of this command".into(),
            "unknown".into(),
            "active".into(),
            "observed".into(),
            "".into(),
        ]);
    }
    for revision in history.revisions.iter().rev() {
        let active = !behind && Some(revision.rev) == history.active;
        table.row(vec![
            format!("#{}", revision.rev).into(),
            format!("{} ago", age(revision.time, now)).into(),
            (&*revision.image).into(),
            revision.summary().into(),
            (&*revision.actor.name).into(),
            if active { "active" } else { "" }.into(),
            revision.verb.word().into(),
            (&*revision.reason).into(),
        ]);
    }
    output.table(&table, output.columns(NARROW, REVISIONS.len()))
}

fn show(output: &Output, revision: &Revision) -> Result<(), Error> {
    if !output.is_text() {
        return output.object(&json!(revision));
    }
    let mut lines = vec![
        format!("Revision    #{}", revision.rev),
        format!("Time        {}", revision.time),
        format!("Verb        {}", revision.verb.word()),
        format!("By          {} ({})", revision.actor.name, revision.actor.client),
        format!("Generation  {}", revision.generation),
        format!("Image       {}", revision.image),
    ];
    if let Some(from) = revision.from {
        lines.push(format!("Copy of     #{from}"));
    }
    if !revision.reason.is_empty() {
        lines.push(format!("Reason      {}", revision.reason));
    }
    lines.push("Changes:".to_owned());
    match &revision.changes {
        Some(changes) => lines.extend(changes.iter().map(|change| format!("  {change}"))),
        None => lines.push(format!("  {}", revision.summary())),
    }
    let text: Vec<String> = lines.iter().map(|line| escape(line) + "\n").collect();
    write(&text.concat())
}

/// The wish to go back to a revision; 0 for the newest one that differs from the live Workload.
pub(super) async fn undo_intent(
    plane: &Plane,
    workload: &Object,
    to_revision: u64,
    keep_scale: bool,
) -> Result<Intent, Error> {
    let name = workload.name();
    let kept = kept(plane, workload).await?;
    let target = if to_revision > 0 {
        kept.find(name, to_revision)?
    } else {
        kept.0.previous(workload).ok_or_else(|| {
            let what = format!("workload {name:?} has no earlier revision");
            Error::new(Kind::NotFound, what).next(format!("kubectl compute rollout history {name}"))
        })?
    };
    Ok(Intent::Undo {
        target: Box::new(target.clone()),
        keep_scale,
        active: kept.0.active,
        newest: kept.0.last + u64::from(kept.0.is_behind(workload)),
    })
}

/// Goes back to an earlier revision.
pub(crate) async fn undo(plane: &Plane, output: &Output, args: UndoArgs, yes: bool) -> Result<(), Error> {
    let name = &args.name;
    let workload = plane.workload(name).await?;
    let intent = undo_intent(plane, &workload, args.to_revision, args.keep_scale).await?;
    let session = Session {
        plane,
        output,
        yes,
        dry_run: args.write.dry_run,
        reason: &args.write.reason,
        stdin_used: false,
        save: None,
    };
    let outcome = session.change(name, &intent).await?;
    if matches!(outcome, crate::change::Outcome::Unchanged(_)) {
        return Ok(());
    }
    follow_up(plane, output, name, outcome, &args.wait).await
}
