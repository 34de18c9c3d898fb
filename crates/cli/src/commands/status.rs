//! `status`: a Workload's placements and cities.

use crate::{
    args::StatusArgs,
    error::{Error, Kind},
    history::{Active, Recorded, active},
    output::{
        Output,
        screen::Screen,
        style::Tone,
        table::{Cell, Table, escape},
        write,
    },
    plane::{Follow, Plane, Resource, Selection},
    rollout::{Locations, Phase, Row, once},
    time::{age, sleep},
    view::{Counts, Health, Instances, Joined, join},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

const COLUMNS: &[&str] = &[
    "PLACEMENT",
    "CITY",
    "READY",
    "UP-TO-DATE",
    "PHASE",
    "REASON",
    "AGE",
];

/// Shows a Workload, once or at each change.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &StatusArgs) -> Result<(), Error> {
    if args.watch {
        return watch(plane, output, &args.name).await;
    }
    let (workload, deployments, instances) = tokio::try_join!(
        plane.workload(&args.name),
        plane.list(Resource::Deployments),
        plane.list(Resource::Instances)
    )?;
    let revision = active(plane, &workload).await;
    let Some(mut joined) = join(vec![workload], deployments).pop() else {
        return Ok(());
    };
    Locations::default().look_up(plane, &mut joined).await;
    let now = plane.clock.now();
    let status = Status::of(&joined, &Instances::from(instances), revision, now);
    if output.is_text() {
        write(&status.text(output, now))
    } else {
        output.object(&status.object(now))
    }
}

async fn watch(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    // A misspelled name is answered at once.
    plane.workload(name).await?;
    let mut follow = Follow::start(
        plane,
        &[
            (Resource::Workloads, Selection::Named(name.to_owned())),
            (Resource::Deployments, Selection::All),
            (Resource::Instances, Selection::All),
        ],
    );
    let mut history = Recorded::start(plane, name);
    let mut locations = Locations::default();
    let mut screen = Screen::stdout();
    let mut is_listed = false;
    let mut last: Option<Status> = None;
    loop {
        let next_change = last.as_ref().and_then(|last| last.next_change(plane.clock.now()));
        // While there is no contact, the rows may have changed.
        let next_change = next_change.filter(|_| !follow.is_lost());
        tokio::select! {
            news = follow.next() => {
                let news = news?;
                if let Some(notice) = news.notice() {
                    if !output.quiet {
                        screen.notice(&notice)?;
                    }
                    continue;
                }
                is_listed = true;
                screen.clear_notice()?;
            }
            () = history.changed() => {}
            () = sleep(next_change) => {}
        }
        if !is_listed || !history.is_known() {
            continue;
        }
        let Some(workload) = follow.objects(Resource::Workloads).next().cloned() else {
            let what = format!("workload {name:?} was deleted");
            return Err(Error::new(Kind::NotFound, what));
        };
        let revision = history.active(&workload);
        let Some(mut joined) = join(
            vec![workload],
            follow.objects(Resource::Deployments).cloned().collect(),
        )
        .pop() else {
            continue;
        };
        locations.look_up(plane, &mut joined).await;
        let now = plane.clock.now();
        let instances: Instances = follow.objects(Resource::Instances).cloned().collect();
        let status = Status::of(&joined, &instances, revision, now);
        if last.as_ref() != Some(&status) {
            status.show(output, &mut screen, now)?;
            last = Some(status);
        }
    }
}

/// A Workload as it is shown.
#[derive(Debug, Clone, PartialEq)]
struct Status {
    name: String,
    health: Health,
    revision: Option<Active>,
    rows: Vec<Row>,
}

impl Status {
    fn of(joined: &Joined, instances: &Instances, revision: Option<Active>, now: Timestamp) -> Self {
        let counts: Counts = joined.deployments().map(Counts::of).sum();
        Self {
            name: joined.workload.name().to_owned(),
            health: Health::of(&joined.workload, counts),
            revision,
            rows: once(joined, instances, now),
        }
    }

    /// Time until a row is blocked if nothing changes.
    fn next_change(&self, now: Timestamp) -> Option<Duration> {
        let moving = self.rows.iter().filter(|row| row.phase != Phase::Blocked);
        let first = moving.filter_map(|row| row.blocked_in(now)).min()?;
        first.try_into().ok()
    }

    /// Shows it as the next one of a watch.
    fn show(&self, output: &Output, screen: &mut Screen, now: Timestamp) -> Result<(), Error> {
        if output.is_text() {
            screen.draw(&self.text(output, now))
        } else {
            output.next_object(&self.object(now))
        }
    }

    fn text(&self, output: &Output, now: Timestamp) -> String {
        let revision = self
            .revision
            .as_ref()
            .map_or_else(|| "-".to_owned(), |revision| revision.line(now));
        let mut table = Table::new(COLUMNS);
        for row in &self.rows {
            table.row(cells(row, now));
        }
        let head = [
            format!("Workload  {}", self.name),
            format!("Health    {}", self.health),
            format!("Revision  {revision}"),
        ];
        let head: String = head.iter().map(|line| escape(line) + "\n").collect();
        head + "\n" + &output.table_text(&table, COLUMNS.len())
    }

    fn object(&self, now: Timestamp) -> Value {
        let cities = self.rows.iter().map(|row| {
            let mut object = json!({"ready": row.counts.ready, "updated": row.counts.updated,
                "desired": row.counts.desired, "phase": row.phase.word(), "reason": row.detail, "since": row.since,
                "ageSeconds": row.since.map(|since| seconds(since, now))});
            row.city.describe(&mut object);
            object
        });
        let revision = self
            .revision
            .as_ref()
            .map(|Active { number, by, time }| json!({"number": number, "by": by, "time": time}));
        json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Status", "metadata": {"name": self.name},
            "health": self.health.word.word(), "message": self.health.detail, "revision": revision,
            "cities": cities.collect::<Vec<_>>()})
    }
}

fn seconds(since: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(since).max(SignedDuration::ZERO).as_secs()
}

fn cells(row: &Row, now: Timestamp) -> Vec<Cell> {
    let Counts {
        updated,
        ready,
        desired,
        ..
    } = row.counts;
    vec![
        (&*row.city.placement).into(),
        (&*row.city.shown).into(),
        format!("{ready}/{desired}").into(),
        format!("{updated}/{desired}").into(),
        Cell::toned(row.phase.word(), Tone::from(row.phase)),
        row.reason().into(),
        row.since.map(|since| age(since, now)).unwrap_or_default().into(),
    ]
}
