//! `rollout status` and `rollout history`.

use crate::{
    args::{HistoryArgs, RolloutStatusArgs},
    error::{Error, Kind},
    history::{self, History, Revision},
    output::{Output, escaped, table::Table, write},
    plane::{Plane, Resource},
    rollout::{Locations, Phase, ROWS, Row, Target, header, object, once, table, unfinished, wait},
    time::age,
    view::{Instances, Joined, Object, without_registries},
};
use fedgate_api::{Reason, RolloutSettings, conditions::types::PROGRESSING};
use jiff::Timestamp;
use serde_json::json;

const REVISIONS: &[&str] = &[
    "REV", "WHEN", "IMAGE", "CHANGES", "BY", "STATUS", "VERB", "REASON",
];
/// Columns of the narrow form of the history.
const NARROW: usize = 6;

/// The name of the workload, which `rollout` alone lacks.
pub(super) fn named(args: &RolloutStatusArgs) -> Result<&String, Error> {
    let missing = || Error::usage("rollout needs the NAME of a workload").next("kubectl compute workloads");
    args.name.as_ref().ok_or_else(missing)
}

/// Follows a rollout, or prints its state once.
pub(crate) async fn status(plane: &Plane, output: &Output, args: &RolloutStatusArgs) -> Result<(), Error> {
    let name = named(args)?;
    let workload = plane.workload(name).await?;
    let generation = match args.revision {
        0 => None,
        number => {
            let history = history::load(plane, &workload).await?;
            Some(history.revision(name, number)?.generation)
        }
    };
    if args.watch {
        let target = Target {
            name: name.clone(),
            uid: workload.uid().to_owned(),
            generation,
            timeout: args.timeout,
            stall_timeout: args.stall_timeout,
        };
        if output.is_text() {
            output.remark(&header_of(plane, &workload, args.revision).await);
        }
        return wait(plane, output, &target, true).await;
    }
    if generation.is_some_and(|generation| workload.generation() > generation) {
        let what = format!(
            "workload {name:?} has a newer spec than revision #{}",
            args.revision
        );
        return Err(Error::new(Kind::Conflict, what).next(format!("kubectl compute rollout history {name}")));
    }
    let rows = state(plane, workload).await?;
    let text = output.table_text(&table(&rows), ROWS.len());
    output.result(&text, &object(name, &rows))?;
    verdict(name, &rows)
}

/// The rows of a Workload as they are now.
async fn state(plane: &Plane, workload: Object) -> Result<Vec<Row>, Error> {
    let (deployments, instances) =
        tokio::try_join!(plane.list(Resource::Deployments), plane.list(Resource::Instances))?;
    let mut joined = Joined::of(workload, deployments);
    Locations::default().look_up(plane, &mut joined).await;
    Ok(once(&joined, &Instances::from(instances), plane.clock.now()))
}

/// The header of a rollout, with the revision (0 for the newest) and the one before it, as far as they are recorded.
async fn header_of(plane: &Plane, workload: &Object, revision: u64) -> String {
    let history = history::known(plane, workload).await;
    let newest = history.active.filter(|_| !history.is_behind(workload));
    let to = Some(revision).filter(|number| *number > 0).or(newest);
    let numbers = history.revisions.iter().map(|revision| revision.rev);
    let from = to.and_then(|to| numbers.filter(|number| *number < to).max());
    header(workload.name(), from, to)
}

fn verdict(name: &str, rows: &[Row]) -> Result<(), Error> {
    if rows.iter().all(|row| row.phase == Phase::Done) {
        return Ok(());
    }
    let blocked = rows.iter().any(|row| row.phase == Phase::Blocked);
    let kind = if blocked { Kind::Blocked } else { Kind::Moving };
    Err(unfinished(name, rows, kind, None))
}

/// Lists the revisions, or shows one.
pub(crate) async fn history(plane: &Plane, output: &Output, args: &HistoryArgs) -> Result<(), Error> {
    let workload = plane.workload(&args.name).await?;
    let history = history::load(plane, &workload).await?;
    if history.unreadable > 0 {
        let what = format!("{} revisions cannot be read and are skipped", history.unreadable);
        crate::output::warn(&what);
    }
    let one = match args.revision {
        0 => None,
        number => Some(history.revision(&args.name, number)?),
    };
    if !output.is_text() {
        let all = history.revisions.iter().rev();
        let shown = all.filter(|revision| one.is_none_or(|one| one.rev == revision.rev));
        return output.object(
            &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "History", "metadata": {"name": args.name},
            "active": history.active, "observed": history.is_behind(&workload),
            "revisions": shown.collect::<Vec<_>>()}),
        );
    }
    if let Some(revision) = one {
        return show(revision);
    }
    let undone = is_undone(plane, &workload).await?;
    list(output, &history, &workload, undone, plane.clock.now())
}

/// True if a city has returned to the former template, because the rollout of the newest one failed there. Nothing is read for a
/// Workload whose settings undo nothing.
async fn is_undone(plane: &Plane, workload: &Object) -> Result<bool, Error> {
    let mut placements = workload.list("/spec/placements").iter();
    if !placements.any(|of| of["scaleSettings"]["rollout"]["onFailure"] == RolloutSettings::UNDO) {
        return Ok(false);
    }
    let joined = Joined::of(workload.clone(), plane.list(Resource::Deployments).await?);
    let mut deployments = joined
        .cities
        .iter()
        .filter_map(|(_, deployment)| deployment.as_ref());
    Ok(deployments.any(|deployment| {
        let progressing = deployment.condition(PROGRESSING);
        progressing.is_some_and(|progressing| progressing.reason == Reason::RolloutUndone.as_str())
    }))
}

fn list(
    output: &Output,
    history: &History,
    workload: &Object,
    undone: bool,
    now: Timestamp,
) -> Result<(), Error> {
    let mut table = Table::new(REVISIONS);
    let behind = history.is_behind(workload);
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
            without_registries(&revision.image).into(),
            revision.summary().into(),
            (&*revision.actor.name).into(),
            match (active, undone) {
                (true, true) => "undone",
                (true, false) => "active",
                (false, _) => "",
            }
            .into(),
            revision.verb.as_str().into(),
            (&*revision.reason).into(),
        ]);
    }
    write(&output.table_text(&table, NARROW))
}

fn show(revision: &Revision) -> Result<(), Error> {
    let mut lines = vec![
        format!("Revision    #{}", revision.rev),
        format!("Time        {}", revision.time),
        format!("Verb        {}", revision.verb.as_str()),
        format!("By          {} ({})", revision.actor.name, revision.actor.client),
        format!("Generation  {}", revision.generation),
        format!("Spec hash   {}", revision.spec_hash),
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
    write(&escaped(&lines))
}
