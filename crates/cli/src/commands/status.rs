//! `status`: a Workload's placements and cities.

use super::watching::Watching;
use crate::{
    args::StatusArgs,
    error::Error,
    history::{Active, Recorded, active},
    output::{
        Output, escaped,
        table::{Cell, Table},
    },
    plane::Plane,
    rollout::{Locations, Phase, Row, once},
    time::age,
    view::{Counts, Health, Instances, Joined},
};
use fedgate_api::conditions::types::MOVING;
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
    let (mut joined, instances) = plane.joined(&args.name).await?;
    let revision = active(plane, &joined.workload).await;
    Locations::default().look_up(plane, &mut joined).await;
    let now = plane.clock.now();
    let status = Status::of(&joined, &instances, revision, now);
    output.result(&status.text(output, now), &status.object(now))
}

async fn watch(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    let mut watching = Watching::start(plane, output, name).await?;
    let mut history = Recorded::start(plane, name);
    let mut locations = Locations::default();
    let mut last: Option<Status> = None;
    loop {
        let due = last.as_ref().and_then(|last| last.next_change(plane.clock.now()));
        let (mut joined, instances) = watching.next(due, history.changed()).await?;
        if !history.is_known() {
            continue;
        }
        let revision = history.active(&joined.workload);
        locations.look_up(plane, &mut joined).await;
        let now = plane.clock.now();
        let status = Status::of(&joined, &instances, revision, now);
        if last.as_ref() != Some(&status) {
            watching.show(&status.text(output, now), &status.object(now))?;
            last = Some(status);
        }
    }
}

/// A Workload as it is shown.
#[derive(Debug, Clone, PartialEq)]
struct Status {
    name: String,
    health: Health,
    /// Message of condition Moving.
    moving: Option<String>,
    revision: Option<Active>,
    rows: Vec<Row>,
}

impl Status {
    fn of(joined: &Joined, instances: &Instances, revision: Option<Active>, now: Timestamp) -> Self {
        let counts: Counts = joined.deployments().map(Counts::of).sum();
        Self {
            name: joined.workload.name().to_owned(),
            health: Health::of(&joined.workload, counts),
            moving: joined
                .workload
                .condition(MOVING)
                .map(|moving| moving.message.to_owned()),
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

    fn text(&self, output: &Output, now: Timestamp) -> String {
        let revision = self
            .revision
            .as_ref()
            .map_or_else(|| "-".to_owned(), |revision| revision.line(now));
        let mut table = Table::new(COLUMNS);
        for row in &self.rows {
            table.row(cells(row, now));
        }
        let mut head = vec![
            format!("Workload  {}", self.name),
            format!("Health    {}", self.health),
        ];
        head.extend(self.moving.iter().map(|moving| format!("Moving    {moving}")));
        head.push(format!("Revision  {revision}"));
        escaped(&head) + "\n" + &output.table_text(&table, COLUMNS.len())
    }

    fn object(&self, now: Timestamp) -> Value {
        let cities = self.rows.iter().map(|row| {
            let mut object = json!({"ready": row.counts.ready, "updated": row.counts.updated,
                "desired": row.counts.desired, "phase": row.phase.as_str(), "reason": row.detail, "since": row.since,
                "ageSeconds": row.since.map(|since| seconds(since, now))});
            row.city.describe(&mut object);
            object
        });
        let revision = self
            .revision
            .as_ref()
            .map(|Active { number, by, time }| json!({"number": number, "by": by, "time": time}));
        json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Status", "metadata": {"name": self.name},
            "health": self.health.word.as_str(), "message": self.health.detail, "moving": self.moving, "revision": revision,
            "cities": cities.collect::<Vec<_>>()})
    }
}

fn seconds(since: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(since).max(SignedDuration::ZERO).as_secs()
}

fn cells(row: &Row, now: Timestamp) -> Vec<Cell> {
    let counts = row.counts;
    vec![
        (&*row.city.placement).into(),
        (&*row.city.shown).into(),
        format!("{}/{}", counts.ready, counts.desired).into(),
        format!("{}/{}", counts.updated, counts.desired).into(),
        Cell::toned(row.phase.as_str(), row.phase.tone()),
        row.reason().into(),
        row.since.map(|since| age(since, now)).unwrap_or_default().into(),
    ]
}
