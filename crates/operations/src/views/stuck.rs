//! Stuck objects, in groups with the same cause: the part that every role has.

use super::{page, planes, wall};
use crate::{
    Class, Rows, StuckGroup, StuckItem, Time,
    query::{self, Query},
};
use fedgate_engine::{
    clock::Now,
    error::Category,
    key::{Key, Plane},
    runtime::{
        Runtime,
        failures::{Cause, Class as FailureClass, LastFailure},
        inspect::Survey,
        role::Role,
    },
};
use std::{collections::BTreeMap, time::Duration};

/// A plane is shown after it has been down for this time.
const PLANE_DOWN: Duration = Duration::from_secs(30);
/// A key that waits for a change is shown after this time.
const WAITING: Duration = Duration::from_mins(5);
/// Maximum number of objects that a group shows.
const ITEMS: usize = 20;

/// A stuck object with its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The class.
    pub class: Class,
    /// Kind of the plane.
    pub plane: &'static str,
    /// Cause, permission, verdict, reason, category or stage.
    pub word: String,
    /// The object.
    pub item: StuckItem,
}

impl Found {
    /// An object that is stuck.
    pub fn new(class: Class, plane: &'static str, word: impl Into<String>, item: StuckItem) -> Self {
        let word = word.into();
        Self {
            class,
            plane,
            word,
            item,
        }
    }
}

/// Names the project, namespace, kind and name of a key as the tenant knows it.
pub type Naming<'a> = &'a dyn Fn(&Key) -> StuckItem;

/// An object of a key in a project, or on a plane without projects.
pub fn item(key: &Key, project: Option<&str>, namespace: &str, plural: &str) -> StuckItem {
    StuckItem {
        project: project.unwrap_or_default().to_owned(),
        namespace: namespace.to_owned(),
        kind: plural.to_owned(),
        name: key.name.to_string(),
        ..StuckItem::default()
    }
}

/// True if a time is at least so long ago.
pub fn is_older(since: Option<Time>, than: Duration, now: Now) -> bool {
    since.is_none_or(|since| now.since_wall(since.0) >= than)
}

/// Planes that are down or refused, missing permissions, verdicts, and failures of keys.
pub fn of_runtime<R: Role>(
    runtime: &Runtime<R>,
    survey: &Survey,
    stuck_for: Duration,
    naming: Naming<'_>,
) -> Vec<Found> {
    let mut found = Vec::new();
    let now = runtime.shared.now();
    planes_and_rights(runtime, survey, now, &mut found);
    for project in planes::refused(runtime) {
        let item = StuckItem {
            project: project.project.clone(),
            kind: "projects".to_owned(),
            name: project.project,
            message: project.reason,
            ..StuckItem::default()
        };
        found.push(Found::new(Class::Plane, "project", "refused", item));
    }
    for (key, verdict, since) in runtime.shared.quarantine.all() {
        let failure = runtime.shared.workers.failures().of(&key);
        let item = StuckItem {
            since: Some(wall(now, since)),
            since_at_least: true,
            message: failure.as_ref().map(words_of).unwrap_or_default(),
            ..naming(&key)
        };
        found.push(Found::new(Class::Quarantined, key.plane.kind(), verdict, item));
    }
    if runtime.shared.planes.lease.may_write() {
        for (key, failure) in runtime.shared.workers.failures().all() {
            found.extend(failed(&key, &failure, stuck_for, now, naming));
        }
    }
    found
}

fn planes_and_rights<R: Role>(runtime: &Runtime<R>, survey: &Survey, now: Now, found: &mut Vec<Found>) {
    let causes = runtime.shared.workers.failures().causes();
    let down = causes.iter().filter_map(|(cause, _)| match &**cause {
        Cause::Plane(plane) => Some(plane.clone()),
        Cause::Right(_) | Cause::Suspended(_) => None,
    });
    let down: Vec<Plane> = down.collect();
    let reports = runtime.plane_reports(&down);
    let word_of = |plane: &Plane| {
        let mut watches = reports.iter().filter(|report| report.plane == *plane);
        let mut watches = watches.next()?.watches.iter();
        watches.find_map(|watch| watch.error.as_ref().map(|(_, cause, _)| *cause))
    };
    let mut rights = BTreeMap::new();
    for (cause, failure) in &causes {
        let since = Some(Time(failure.since));
        let (class, plane, word) = match &**cause {
            Cause::Plane(plane) if is_older(since, PLANE_DOWN, now) => {
                let word = word_of(plane).unwrap_or(failure.category.as_str());
                (Class::Plane, plane, word)
            }
            Cause::Plane(_) => continue,
            // A wait for a suspended project is no fault: the suspension alone names it.
            Cause::Suspended(plane) => (Class::Waiting, plane, Category::ProjectSuspended.as_str()),
            Cause::Right(right) => {
                rights.insert(right.clone(), failure.since);
                continue;
            }
        };
        found.push(of_plane(class, plane, word, since, &failure.message));
    }
    for (plane, end) in runtime.expired(now.wall.as_second()) {
        let since = Some(Time::from_second(end));
        found.push(of_plane(Class::Plane, &plane, "credential_expired", since, ""));
    }
    for (plane, defect) in &survey.defects {
        found.push(of_plane(Class::Plane, plane, defect.word, None, defect.text));
    }
    for right in runtime.shared.executor.missing_rights() {
        let since = rights.get(&right).map(|since| Time(*since));
        found.push(of_plane(Class::Right, &right.plane, right.to_string(), since, ""));
    }
    forbidden_watches(runtime, &survey.forbidding, found);
}

/// Watches that a plane forbids, which need the right to list and watch.
fn forbidden_watches<R: Role>(runtime: &Runtime<R>, forbidding: &[Plane], found: &mut Vec<Found>) {
    for report in runtime.plane_reports(forbidding) {
        for watch in report.watches.iter().filter(|watch| watch.forbidden) {
            let word = format!("watch {}", watch.kind);
            let message = watch.error.as_ref().map_or("", |(text, ..)| text);
            found.push(of_plane(Class::Right, &report.plane, word, None, message));
        }
    }
}

fn of_plane(
    class: Class,
    plane: &Plane,
    word: impl Into<String>,
    since: Option<Time>,
    message: &str,
) -> Found {
    let project = match plane {
        Plane::Project(project) => project.as_str(),
        Plane::Hub | Plane::Cell | Plane::Home => "",
    };
    let item = StuckItem {
        project: project.to_owned(),
        kind: "planes".to_owned(),
        name: planes::name(plane).to_owned(),
        since,
        message: message.to_owned(),
        ..StuckItem::default()
    };
    Found::new(class, plane.kind(), word, item)
}

/// The failure of a key, if it has lasted long enough. A missing permission and a verdict have rows of their own.
fn failed(
    key: &Key,
    failure: &LastFailure,
    stuck_for: Duration,
    now: Now,
    naming: Naming<'_>,
) -> Option<Found> {
    let (class, after) = match failure.class {
        FailureClass::Retry => (Class::Retrying, stuck_for),
        FailureClass::Wait => (Class::Waiting, WAITING),
        FailureClass::Quarantine | FailureClass::Right => return None,
    };
    let since = Some(Time(failure.since));
    let item = StuckItem {
        since,
        attempts: Some(failure.attempts),
        next_try: failure.next.map(Time),
        message: words_of(failure),
        ..naming(key)
    };
    let (plane, word) = (failure.plane.kind(), failure.category.as_str());
    is_older(since, after, now).then(|| Found::new(class, plane, word, item))
}

fn words_of(failure: &LastFailure) -> String {
    format!("{} {}: {}", failure.verb, failure.object, failure.message)
}

/// True if the query selects an object.
fn selects(query: &Query, found: &Found) -> bool {
    let class = query
        .class
        .map_or(found.class != Class::Unavailable, |class| class == found.class);
    let cells = || found.item.cell.split(", ");
    class
        && query::selects(query.plane.as_deref(), found.plane)
        && query::selects(query.project.as_deref(), &found.item.project)
        && query
            .cell
            .as_deref()
            .is_none_or(|cell| cells().any(|of| of == cell))
}

/// The groups of the objects that a query selects, the worst class first, then the oldest; `next` gives the next step.
pub fn groups(
    found: Vec<Found>,
    query: &Query,
    next: impl Fn(Class, &str, &str) -> String,
) -> Vec<StuckGroup> {
    let mut by_cause: BTreeMap<(Class, &'static str, String), Vec<StuckItem>> = BTreeMap::new();
    for one in found.into_iter().filter(|one| selects(query, one)) {
        by_cause
            .entry((one.class, one.plane, one.word))
            .or_default()
            .push(one.item);
    }
    let mut groups: Vec<StuckGroup> = by_cause
        .into_iter()
        .map(|((class, plane, word), mut items)| {
            let count = items.len();
            items.sort_by(|a, b| rank(a).cmp(&rank(b)));
            items.truncate(ITEMS);
            StuckGroup {
                class,
                plane: plane.to_owned(),
                count,
                oldest: items.iter().find_map(|item| item.since),
                next: next(class, plane, &word),
                word,
                items,
            }
        })
        .collect();
    groups.sort_by(|a, b| {
        let oldest = |group: &StuckGroup| (group.oldest.is_none(), group.oldest);
        a.class.cmp(&b.class).then_with(|| oldest(a).cmp(&oldest(b)))
    });
    groups
}

/// A page of groups.
pub fn page(groups: Vec<StuckGroup>, query: &Query) -> Rows<StuckGroup> {
    page::by_rank(groups, &query.page)
}

fn rank(item: &StuckItem) -> (bool, Option<Time>, &str, &str, &str) {
    (
        item.since.is_none(),
        item.since,
        &item.project,
        &item.namespace,
        &item.name,
    )
}

/// Number of stuck objects by class; [`Class::Unavailable`] is not counted.
pub fn counts(found: &[Found]) -> BTreeMap<Class, usize> {
    let mut counts = BTreeMap::new();
    for one in found.iter().filter(|one| one.class != Class::Unavailable) {
        *counts.entry(one.class).or_default() += 1;
    }
    counts
}
