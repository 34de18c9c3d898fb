//! The planes, as rows.

use super::{before, page};
use crate::{
    PlaneRow, PlaneState, RefusedProject, Rows, Time, WatchRow,
    query::{From, PlanesQuery},
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

/// The name of a plane in an answer: `hub`, `cell` or the project.
pub fn name(plane: &Plane) -> &str {
    match plane {
        Plane::Hub => "hub",
        Plane::Cell => "cell",
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
pub fn rows<R: Role>(runtime: &Runtime<R>, query: &PlanesQuery) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
    let planes: Vec<Plane> = runtime
        .engaged()
        .into_iter()
        .filter(|plane| query.plane.as_deref().is_none_or(|kind| kind == plane.kind()))
        .filter(|plane| query.q.as_deref().is_none_or(|q| name(plane).contains(q)))
        .collect();
    let mut states = runtime.plane_states(&planes);
    states.retain(|(_, of)| query.state.is_none_or(|wanted| wanted == state(*of)));
    states.sort_by(|(a, of_a), (b, of_b)| {
        let rank = |plane: &Plane, of: State| (*plane != Plane::Hub, of);
        rank(a, *of_a).cmp(&rank(b, *of_b)).then_with(|| a.cmp(b))
    });
    let page = page::by_rank(states.into_iter().map(|(plane, _)| plane).collect(), &query.page);
    let (down, now) = (down(runtime), runtime.shared.now());
    let mut reports = runtime.plane_reports(&page.items);
    let items = reports.drain(..).map(|report| row(report, &down, now)).collect();
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

fn row(report: PlaneReport, down: &BTreeMap<Plane, Time>, now: Now) -> PlaneRow {
    let PlaneReport {
        plane,
        state: of,
        engaged,
        idle,
        is_down,
        expiry,
        missing,
        defect,
        watches,
    } = report;
    let worst = watches.iter().find_map(|watch| watch.error.clone());
    let rights =
        (!missing.is_empty()).then(|| format!("apply {} on this plane and bind its roles", plane.roles()));
    let of_defect = || defect.map(|of| (of.text.to_owned(), of.word, Some(of.next.to_owned())));
    let (error, next) = worst
        .or_else(of_defect)
        .map_or((None, None), |(text, _, next)| (Some(text), next));
    PlaneRow {
        plane: name(&plane).to_owned(),
        kind: plane.kind().to_owned(),
        state: state(of),
        engaged_since: before(now, engaged),
        down_since: down.get(&plane).copied().filter(|_| is_down),
        last_event: idle.map(|idle| before(now, idle)),
        credential_ends: expiry.map(|expiry| Time::from_second(expiry.at)),
        missing_rights: missing,
        error,
        next: next.or(rights),
        watches: watches
            .into_iter()
            .map(|watch| WatchRow {
                kind: watch.kind,
                synced: watch.synced,
                forbidden: watch.forbidden,
                restarts: watch.restarts,
                error: watch.error.map(|(text, ..)| text),
            })
            .collect(),
    }
}
