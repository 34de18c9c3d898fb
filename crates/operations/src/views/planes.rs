//! The planes, as rows.

use super::{before, page};
use crate::{
    PlaneRow, PlaneState, RefusedProject, Rows, Time, WatchRow,
    query::{self, From, Query},
};
use fedgate_engine::{
    clock::Now,
    key::Plane,
    runtime::{
        Runtime,
        failures::Cause,
        inspect::{PlaneReport, PlaneState as State},
        role::Role,
    },
};
use std::collections::BTreeMap;

/// Maximum number of refused projects in an answer.
const REFUSED_LIMIT: usize = 200;

/// The state of a plane in an answer.
pub fn state(of: State) -> PlaneState {
    match of {
        State::Unauthorized => PlaneState::Unauthorized,
        State::Backoff => PlaneState::Backoff,
        State::Syncing => PlaneState::Syncing,
        State::Connected => PlaneState::Connected,
    }
}

/// The name of a plane in an answer: `hub`, `cell`, `home` or the project.
pub fn name(plane: &Plane) -> &str {
    match plane {
        Plane::Hub => "hub",
        Plane::Cell => "cell",
        Plane::Home => "home",
        Plane::Project(project) => project.as_str(),
    }
}

/// Since when each plane that is down has been down.
pub fn down<R: Role>(runtime: &Runtime<R>) -> BTreeMap<Plane, Time> {
    let causes = runtime.shared.workers.failures().causes();
    let planes = causes.into_iter().filter_map(|(cause, failure)| match &*cause {
        Cause::Plane(plane) => Some((plane.clone(), Time(failure.since))),
        Cause::Right(_) | Cause::Suspended(_) => None,
    });
    planes.collect()
}

/// A page of the planes: the hub first, then the worst, in order of name.
pub fn rows<R: Role>(runtime: &Runtime<R>, query: &Query) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
    let planes: Vec<Plane> = runtime
        .engaged()
        .into_iter()
        .filter(|plane| query::selects(query.plane.as_deref(), plane.kind()))
        .filter(|plane| query.q.as_deref().is_none_or(|q| name(plane).contains(q)))
        .collect();
    let mut states = runtime.plane_states(&planes);
    states.retain(|(_, of)| query::selects(query.state.as_deref(), state(*of).as_str()));
    states.sort_by(|(a, of_a), (b, of_b)| {
        let rank = |plane: &Plane, of: State| (*plane != Plane::Hub, of);
        rank(a, *of_a).cmp(&rank(b, *of_b)).then_with(|| a.cmp(b))
    });
    let page = page::by_rank(states.into_iter().map(|(plane, _)| plane).collect(), &query.page);
    let (down, now) = (down(runtime), runtime.shared.now());
    let reports = runtime.plane_reports(&page.items).into_iter();
    let items = reports.map(|report| row(&report, &down, now)).collect();
    let refused = match query.page.from {
        From::Start => refused(runtime),
        From::After(_) | From::Skip(_) => Vec::new(),
    };
    let rows = Rows {
        items,
        next: page.next,
        remaining: page.remaining,
    };
    (rows, refused)
}

/// The projects whose kubeconfig is refused, by name.
pub fn refused<R: Role>(runtime: &Runtime<R>) -> Vec<RefusedProject> {
    let refused = runtime.shared.refused.lock();
    let rows = refused.iter().take(REFUSED_LIMIT);
    rows.map(|(project, reason)| RefusedProject {
        project: project.clone(),
        reason: reason.clone(),
    })
    .collect()
}

fn row(report: &PlaneReport, down: &BTreeMap<Plane, Time>, now: Now) -> PlaneRow {
    let plane = &report.plane;
    let mut watches = report.watches.iter();
    let worst = watches.find_map(|watch| watch.error.clone());
    let of_defect = || {
        report
            .defect
            .map(|of| (of.text.to_owned(), of.word, Some(of.next.to_owned())))
    };
    let (error, next) = worst
        .or_else(of_defect)
        .map_or((None, None), |(text, _, next)| (Some(text), next));
    let rights = || {
        let is_missing = !report.missing.is_empty();
        is_missing.then(|| format!("apply {} on this plane and bind its roles", plane.roles()))
    };
    let watches = report.watches.iter().map(|watch| WatchRow {
        kind: watch.kind.clone(),
        synced: watch.synced,
        forbidden: watch.forbidden,
        restarts: watch.restarts,
        error: watch.error.as_ref().map(|(text, ..)| text.clone()),
    });
    PlaneRow {
        plane: name(plane).to_owned(),
        kind: plane.kind().to_owned(),
        state: state(report.state),
        engaged_since: before(now, report.engaged),
        down_since: down.get(plane).copied().filter(|_| report.is_down),
        last_event: report.idle.map(|idle| before(now, idle)),
        credential_ends: report.expiry.as_ref().map(|expiry| Time::from_second(expiry.at)),
        next: next.or_else(rights),
        watches: watches.collect(),
        missing_rights: report.missing.clone(),
        error,
    }
}
