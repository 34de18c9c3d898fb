//! `status`: a Workload's placements and cities.

use crate::{
    args::StatusArgs,
    error::{Error, Kind},
    history::{Active, active},
    output::{
        Output,
        screen::Screen,
        style::Tone,
        table::{Cell, Table, escape},
        write,
    },
    plane::{Follow, Plane, Resource, Selection},
    rollout::{Row, once},
    time::{age, sleep},
    view::{Counts, Health, Joined, Object, join},
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

/// Time after which a status that is watched is looked at again: what does not move is blocked by then.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

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
    let now = plane.clock.now();
    match Status::of(workload, deployments, &instances, revision, now) {
        Some(status) if output.is_text() => write(&status.text(output, now)),
        Some(status) => output.object(&status.object(now)),
        None => Ok(()),
    }
}

async fn watch(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    // A misspelled name is answered at once.
    let mut workload = plane.workload(name).await?;
    let mut revision_now = active(plane, &workload).await;
    let mut follow = Follow::start(
        plane,
        &[
            (Resource::Workloads, Selection::Named(name.to_owned())),
            (Resource::Deployments, Selection::All),
            (Resource::Instances, Selection::All),
        ],
    )?;
    let mut screen = Screen::stdout();
    let mut last: Option<Status> = None;
    loop {
        let news = tokio::select! {
            news = follow.next() => Some(news?),
            () = sleep(Some(LOOK_AGAIN)) => None,
        };
        if let Some(notice) = news.and_then(|news| news.notice()) {
            output.remark(&notice);
            continue;
        }
        let Some(seen) = follow.objects(Resource::Workloads).pop() else {
            return Err(Error::new(
                Kind::NotFound,
                format!("workload {name:?} was deleted"),
            ));
        };
        if (seen.uid(), seen.generation()) != (workload.uid(), workload.generation()) {
            revision_now = active(plane, &seen).await;
        }
        workload = seen;
        let (deployments, instances) = (
            follow.objects(Resource::Deployments),
            follow.objects(Resource::Instances),
        );
        let now = plane.clock.now();
        let status = Status::of(
            workload.clone(),
            deployments,
            &instances,
            revision_now.clone(),
            now,
        );
        if status == last {
            continue;
        }
        if let Some(status) = &status {
            if output.is_text() {
                screen.draw(&status.text(output, now))?;
            } else {
                output.next_object(&status.object(now))?;
            }
        }
        last = status;
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
    fn of(
        workload: Object,
        deployments: Vec<Object>,
        instances: &[Object],
        revision: Option<Active>,
        now: Timestamp,
    ) -> Option<Self> {
        let joined: Joined = join(vec![workload], deployments).pop()?;
        let counts: Counts = joined.deployments().map(Counts::of).sum();
        Some(Self {
            name: joined.workload.name().to_owned(),
            health: Health::of(&joined.workload, counts),
            revision,
            rows: once(&joined, instances, now),
        })
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
            json!({"placement": row.city.placement, "city": row.city.city, "ready": row.counts.ready,
                "updated": row.counts.updated, "desired": row.counts.desired, "phase": row.phase.word(),
                "reason": row.detail, "since": row.since, "ageSeconds": row.since.map(|since| seconds(since, now))})
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
        (&*row.city.city).into(),
        format!("{ready}/{desired}").into(),
        format!("{updated}/{desired}").into(),
        Cell::toned(row.phase.word(), Tone::from(row.phase)),
        row.reason().into(),
        row.since.map(|since| age(since, now)).unwrap_or_default().into(),
    ]
}
