//! The state of the fleet in one object.

use super::{Operations, next_step, stuck};
use fedgate_engine::{key::Plane, runtime::inspect::PlaneState};
use fedgate_gateway::index::{
    GatewayIndex, derived::summary, derived::undelivered::is_of_leader, rows::Cell,
};
use fedgate_operations::views::{before, header, health, planes, stuck as views};
use fedgate_operations::{
    CellCounts, CellState, Deletions, Deployments, Garbage, HubSummary, Overview, ProjectCounts, Stage, Time,
    Undelivered,
    query::{PageQuery, Query, STUCK_FOR},
};
use std::collections::BTreeMap;

pub(super) fn overview(of: &Operations) -> Overview {
    let gateway = &of.gateway;
    let shared = &gateway.shared;
    let survey = gateway.survey();
    let found = stuck::found(of, &survey, STUCK_FOR, false);
    let stuck = views::counts(&found);
    let query = Query {
        page: PageQuery::default(),
        ..Query::default()
    };
    let groups = views::groups(found, &query, next_step::next_step);
    let states = survey.states;
    let complete = states.keys().all(|(_, state)| *state != PlaneState::Syncing);
    let projects = projects(&states, shared.refused.lock().len());
    let hub = hub(of);
    let leads = shared.planes.lease.may_write();
    let drift = gateway.role.interpreters.drift();
    let index = of.index();
    Overview {
        health: health::of(&groups, complete),
        hub,
        projects: Some(projects),
        cells: Some(cells(&index)),
        deployments: deployments(&index),
        instances: index.reported_instances(),
        undelivered: undelivered(&index, leads),
        stuck,
        deletions: deletions(&index),
        garbage: Garbage {
            orphans: gateway.role.garbage.orphans(&index),
            brake: !gateway.role.brakes(&index).is_empty() || index.withholds(),
        },
        interpreter_drift: drift,
        ..header::overview(gateway)
    }
}

fn projects(states: &BTreeMap<(&'static str, PlaneState), usize>, refused: usize) -> ProjectCounts {
    let mut counts = ProjectCounts {
        refused,
        ..ProjectCounts::default()
    };
    for ((kind, state), count) in states {
        if *kind != "project" {
            continue;
        }
        counts.engaged += count;
        *match state {
            PlaneState::Unauthorized => &mut counts.unauthorized,
            PlaneState::Backoff => &mut counts.backoff,
            PlaneState::Syncing => &mut counts.syncing,
            PlaneState::Connected => &mut counts.connected,
        } += count;
    }
    counts
}

fn hub(of: &Operations) -> Option<HubSummary> {
    let report = of.gateway.plane_reports(&[Plane::Hub]).pop()?;
    let now = of.gateway.shared.now();
    let down = planes::down(&of.gateway).remove(&Plane::Hub);
    let connected = report.state == PlaneState::Connected;
    Some(HubSummary {
        state: planes::state(report.state),
        since: down.or_else(|| connected.then(|| before(now, report.engaged))),
        last_event: report.idle.map(|idle| before(now, idle)),
        credential_ends: report.expiry.map(|expiry| Time::from_second(expiry.at)),
    })
}

fn cells(index: &GatewayIndex) -> CellCounts {
    let mut counts = CellCounts::default();
    for (_, row) in index.hub.clusters.iter() {
        *match Cell::state(row) {
            CellState::NotReady => &mut counts.not_ready,
            CellState::Leaving => &mut counts.leaving,
            CellState::Unlabelled => &mut counts.unlabelled,
            CellState::Draining => &mut counts.draining,
            CellState::Ready => &mut counts.ready,
        } += 1;
    }
    counts
}

fn deployments(index: &GatewayIndex) -> Deployments {
    let mut federated: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    for ((_, state), count) in index.summary.federated() {
        total += count;
        let (_, word) = summary::labels(state);
        *federated.entry(word.to_owned()).or_default() += count;
    }
    Deployments { total, federated }
}

fn undelivered(index: &GatewayIndex, leads: bool) -> BTreeMap<Stage, Undelivered> {
    let stages = Stage::ALL.iter().map(|&stage| {
        let known = leads || !is_of_leader(stage);
        let objects = index.undelivered.of(stage);
        let of = Undelivered {
            count: if known { objects.len() } else { 0 },
            oldest: objects
                .values()
                .map(|since| Time(since.at))
                .min()
                .filter(|_| known),
        };
        (stage, of)
    });
    stages.collect()
}

fn deletions(index: &GatewayIndex) -> Deletions {
    let times = || index.summary.deletions(None).map(|(_, time)| time);
    Deletions {
        pending: times().count(),
        oldest: times().min().map(Time::from_second),
    }
}
