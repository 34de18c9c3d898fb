//! `fedgate status`: planes, delivery, stuck objects and cells, one line each, the worst first.

use super::{
    answer::Answer,
    follow::watch,
    output::{Output, age},
    replicas::Replicas,
};
use crate::client::args::{ListFormat, StatusArgs};
use fedgate_operations::{
    Answer as Document, CellCounts, Class, Header, HealthState, HubSummary, Instances, Overview, PlaneState,
    ProjectCounts, ReplicaRole, Time,
};
use fedgate_terminal::{
    error::{Error, Kind},
    style::Tone,
    table::{Cell, Table, escape},
    write::write,
};

/// The path of the overview.
pub(super) const PATH: &str = "/overview";
const COLUMNS: &[&str] = &["SUBJECT", "STATE", "AGE", "DETAIL", "NEXT"];

/// Runs the command.
pub(super) async fn run(args: &StatusArgs) -> Result<(), Error> {
    let output = Output::of(args.output, &args.ask);
    let mut replicas = Replicas::open(&args.ask.way, args.cell).await?;
    if !args.watch {
        let answer = replicas.ask(PATH).await?;
        write(&text(&answer, output)?)?;
        return verdict(&answer.document()?);
    }
    let is_json = output.format == ListFormat::Json;
    let topics = "topics=overview".to_owned();
    watch(&mut replicas, topics, PATH, is_json, |answer| {
        text(answer, output)
    })
    .await
}

fn text(answer: &Answer, output: Output) -> Result<String, Error> {
    output.text(answer, |document| render(document, output))
}

/// The exit code: broken beats syncing.
pub(super) fn verdict(overview: &Document<Overview>) -> Result<(), Error> {
    let health = &overview.body.health;
    let is_down = |class: Class| matches!(class, Class::Plane | Class::Right | Class::Brake);
    if health.state == HealthState::Degraded || health.reasons.iter().any(|reason| is_down(reason.class)) {
        return Err(Error::new(Kind::Blocked, "degraded").shown());
    }
    if health.state == HealthState::Syncing || !overview.header.complete {
        return Err(Error::new(Kind::Moving, "first lists are read").shown());
    }
    // An outage of the hub is a reason of the health after 30 s, and has cost the Lease after ten.
    if is_leaderless(&overview.header) {
        return Err(Error::new(Kind::Blocked, "no replica leads").shown());
    }
    Ok(())
}

/// True if the replica that answers neither leads nor knows one that does.
fn is_leaderless(header: &Header) -> bool {
    header.replica.role == ReplicaRole::Standby && header.replica.leader.is_none()
}

/// The state of a line, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Broken,
    Waiting,
    Ok,
}

impl State {
    /// Broken if the first holds, else waiting if the second does.
    fn of(is_broken: bool, is_waiting: bool) -> Self {
        match (is_broken, is_waiting) {
            (true, _) => Self::Broken,
            (_, true) => Self::Waiting,
            _ => Self::Ok,
        }
    }

    fn cell(self) -> Cell {
        match self {
            Self::Broken => Cell::toned("broken", Tone::Bad),
            Self::Waiting => Cell::toned("waiting", Tone::Busy),
            Self::Ok => Cell::toned("ok", Tone::Good),
        }
    }
}

/// A line of the status: its subject, its state, since when, the details, and the next step.
type Line = (String, State, Option<Time>, String, String);

fn line(subject: &str, state: State, since: Option<Time>, detail: String, next: &str) -> Line {
    (subject.to_owned(), state, since, detail, next.to_owned())
}

pub(super) fn render(overview: &Document<Overview>, output: Output) -> String {
    let as_of = overview.header.as_of;
    let mut lines = lines(overview);
    lines.sort_by_key(|(_, state, ..)| *state);
    if output.format == ListFormat::Name {
        let subjects = lines.iter().map(|(subject, ..)| escape(subject) + "\n");
        return subjects.collect();
    }
    let mut table = Table::new(COLUMNS);
    for (subject, state, since, detail, next) in lines {
        let since = age(since, as_of);
        table.row(vec![
            subject.into(),
            state.cell(),
            since.into(),
            detail.into(),
            next.into(),
        ]);
    }
    output.table(&table, COLUMNS.len())
}

fn lines(document: &Document<Overview>) -> Vec<Line> {
    let (header, overview) = (&document.header, &document.body);
    let reasons = overview.health.reasons.iter().map(|reason| {
        let subject = format!("{} {}", reason.class.as_str(), reason.plane);
        let detail = format!("{}: {}", reason.count, reason.word);
        line(&subject, State::Broken, reason.since, detail, &reason.next)
    });
    let mut lines: Vec<Line> = reasons.collect();
    lines.push(replica(header, overview.hub.as_ref()));
    lines.extend(overview.hub.as_ref().map(|hub| self::hub(hub, header.as_of)));
    lines.extend(overview.projects.as_ref().map(projects));
    lines.extend(overview.cells.as_ref().map(cells));
    lines.push(delivery(overview));
    lines.push(stuck(overview));
    let Instances {
        ready,
        desired,
        updated,
        ..
    } = overview.instances;
    let detail = format!("{ready} of {desired} ready, {updated} updated");
    lines.push(line(
        "instances",
        State::of(false, ready < desired),
        None,
        detail,
        "",
    ));
    let deletions = overview.deletions;
    if deletions.pending > 0 {
        let detail = format!("{} pending", deletions.pending);
        lines.push(line("deletions", State::Waiting, deletions.oldest, detail, ""));
    }
    lines
}

/// Why the replica cannot work with the hub, if it is down: a hub that is down has a beginning, unlike one whose watches
/// fail in part.
fn outage(hub: &HubSummary) -> Option<&'static str> {
    hub.since?;
    match hub.state {
        PlaneState::Backoff => Some("the hub is unreachable"),
        PlaneState::Unauthorized => Some("the hub rejects the credential"),
        PlaneState::Syncing | PlaneState::Connected => None,
    }
}

fn hub(hub: &HubSummary, as_of: Time) -> Line {
    let detail = list([
        Some(hub.state.as_str().to_owned()),
        hub.last_event
            .map(|at| format!("last event {} ago", age(Some(at), as_of))),
        hub.credential_ends.map(|end| format!("credential ends {end}")),
    ]);
    let is_down = matches!(hub.state, PlaneState::Unauthorized | PlaneState::Backoff);
    let state = State::of(is_down, hub.state == PlaneState::Syncing);
    line("hub", state, hub.since, detail, "")
}

fn projects(projects: &ProjectCounts) -> Line {
    let detail = list([
        Some(format!("{} engaged", projects.engaged)),
        number(projects.syncing, "syncing"),
        number(projects.backoff, "in backoff"),
        number(projects.unauthorized, "unauthorized"),
        number(projects.refused, "refused"),
    ]);
    let down = projects.backoff + projects.unauthorized + projects.refused;
    let state = State::of(down > 0, projects.syncing > 0);
    line("projects", state, None, detail, "")
}

/// A cell that is not ready delays what goes there; the gateway itself goes on.
fn cells(cells: &CellCounts) -> Line {
    let detail = list([
        Some(format!("{} ready", cells.ready)),
        number(cells.draining, "being drained"),
        number(cells.not_ready, "not ready"),
        number(cells.unlabelled, "without a city"),
        number(cells.leaving, "leaving"),
    ]);
    let is_open = cells.not_ready + cells.unlabelled + cells.leaving > 0;
    let next = if is_open {
        "kubectl get clusters.cluster.karmada.io, on the hub"
    } else {
        ""
    };
    line("cells", State::of(false, is_open), None, detail, next)
}

/// The Lease is on the hub: a replica that cannot reach it neither leads nor knows who does.
fn replica(header: &Header, hub: Option<&HubSummary>) -> Line {
    let replica = &header.replica;
    let (role, next) = match (replica.role, &replica.leader, hub.and_then(outage)) {
        (ReplicaRole::Leader, ..) => ("leader".to_owned(), ""),
        (ReplicaRole::Alone, ..) => ("alone".to_owned(), ""),
        (ReplicaRole::Standby, Some(leader), _) => (format!("standby of {leader}"), ""),
        (ReplicaRole::Standby, None, Some(outage)) => (
            format!("standby without a leader: {outage}"),
            "docs/runbooks/FedgateHubDisconnected.md",
        ),
        (ReplicaRole::Standby, None, None) => (
            "standby, no replica leads".to_owned(),
            "docs/runbooks/FedgateNoLeader.md",
        ),
    };
    let missing = (!header.complete).then(|| {
        let missing = if header.missing.is_empty() {
            "first lists".to_owned()
        } else {
            header.missing.join(", ")
        };
        format!("reads {missing}")
    });
    let detail = list([
        Some(replica.identity.clone()),
        Some(role),
        Some(format!("version {}", replica.version)),
        missing,
    ]);
    let state = State::of(is_leaderless(header), !header.complete);
    line("replica", state, Some(replica.started_at), detail, next)
}

fn delivery(overview: &Overview) -> Line {
    let stages = overview.undelivered.iter();
    let stages = stages.filter(|(_, undelivered)| undelivered.count > 0);
    let detail = stages.clone();
    let detail = detail.map(|(stage, undelivered)| format!("{} {}", undelivered.count, stage.as_str()));
    let detail = detail.collect::<Vec<_>>().join(", ");
    let total = overview.deployments.total;
    if detail.is_empty() {
        return line(
            "delivery",
            State::Ok,
            None,
            format!("all of {total} deployments"),
            "",
        );
    }
    let oldest = stages.filter_map(|(_, undelivered)| undelivered.oldest).min();
    let detail = format!("{detail} of {total} deployments");
    line("delivery", State::Waiting, oldest, detail, "")
}

/// The classes beyond those that the health already names.
fn stuck(overview: &Overview) -> Line {
    let classes = overview.stuck.iter();
    let classes = classes.filter(|(class, count)| **count > 0 && **class > Class::Brake);
    let detail = classes.map(|(class, count)| format!("{count} {}", class.as_str()));
    let detail = detail.collect::<Vec<_>>().join(", ");
    if detail.is_empty() {
        return line("stuck", State::Ok, None, "none".to_owned(), "");
    }
    line("stuck", State::Waiting, None, detail, "fedgate stuck")
}

fn number(count: usize, word: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} {word}"))
}

fn list<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
