//! The gateway's own part of the metrics and of `/debug/planes`.

use super::{
    Gateway,
    context::{Shared, scan_projects},
    index::{
        GatewayIndex, TableId, derived::project_hub::OtherHub, derived::summary,
        derived::undelivered::is_of_leader, rows::Cell, tables::AnyTable,
    },
};
use fedgate_engine::{
    metrics::{Family, Gauges, Holder, PlaneKind},
    runtime::index::Index,
};
use fedgate_operations::{CellState, Stage};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum number of rejected claims, and of projects of other hubs, that `/debug/planes` shows.
const CLAIMS_SHOWN: usize = 1_000;

/// Adds the gateway's gauges.
pub(super) fn collect(gateway: &Gateway, shared: &Shared, into: &mut Gauges) {
    let held = shared.read_index(Holder::Metrics);
    let index = &*held;
    let is_braked = !gateway.brakes(index).is_empty() || index.withholds();
    into.set(Family::GarbageBrake, &[], is_braked);
    into.set(
        Family::DelayedHubWrites,
        &[],
        shared.rate_limiter.lock().waiting(),
    );
    into.set(Family::InterpreterDrift, &[], gateway.interpreters.drift());
    into.set(Family::MovesHeld, &[], index.intents.moves.held() > 0);
    into.set(Family::RejectedClaims, &[], index.refused_claims().count());
    into.set(Family::UnlabelledWriteBacks, &[], index.summary.unlabelled());
    let without = index.hub.secondary.without_place();
    into.set(Family::CopiesWithoutPlace, &["cityCode"], without.city);
    into.set(Family::CopiesWithoutPlace, &["locationRef"], without.location);
    into.set(Family::Orphans, &[], gateway.garbage.orphans(index));
    into.set(Family::Projects, &["engaged"], index.projects.len());
    into.set(Family::Projects, &["refused"], shared.refused.lock().len());
    fleet(index, shared, into);
    drop(held);
    tables(shared, into);
}

/// The sums over the fleet; visits no object but those that are refused or being deleted.
fn fleet(index: &GatewayIndex, shared: &Shared, into: &mut Gauges) {
    let (now, leads) = (shared.now(), shared.planes.lease.may_write());
    for &stage in Stage::ALL {
        let objects = index.undelivered.of(stage);
        let known = leads || !is_of_leader(stage);
        let oldest = objects.values().map(|since| now.since_wall(since.at)).max();
        let shown = (objects.len(), oldest.unwrap_or_default());
        let (count, age) = if known { shown } else { Default::default() };
        into.set(Family::Undelivered, &[stage.as_str()], count);
        into.set(Family::OldestUndelivered, &[stage.as_str()], age);
    }
    for (kind, profile) in index.kinds.enumerate() {
        let plural = &profile.resource.plural;
        for (status, reason) in summary::federated_states() {
            into.set(Family::FederatedObjects, &[plural, status, reason], 0_usize);
        }
        for ((_, state), count) in index.summary.federated().filter(|((of, _), _)| *of == kind) {
            let (status, reason) = summary::labels(state);
            into.add(Family::FederatedObjects, &[plural, status, reason], count);
        }
    }
    for (_, second) in index.summary.deletions(None) {
        into.add(Family::PendingDeletions, &[], 1_usize);
        let since = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
        into.raise(Family::OldestPendingDeletion, &[], now.since_wall(since));
    }
    let instances = index.reported_instances();
    for (state, count) in [
        ("desired", instances.desired),
        ("existing", instances.existing),
        ("ready", instances.ready),
        ("updated", instances.updated),
    ] {
        into.set(Family::ReportedInstances, &[state], count);
    }
    for state in CellState::WORDS {
        into.set(Family::Cells, &[state], 0_usize);
    }
    for (_, row) in index.hub.clusters.iter() {
        into.add(Family::Cells, &[Cell::state(row).as_str()], 1_usize);
    }
}

/// The gateway's part of `/debug/planes`.
pub(super) fn describe(gateway: &Gateway, index: &GatewayIndex) -> Map<String, Value> {
    let claims = index.refused_claims().take(CLAIMS_SHOWN).map(|claim| {
        json!({
            "hubNamespace": &*claim.hub, "holder": claim.holder.to_string(),
            "project": claim.claimant.project.as_str(), "namespace": &*claim.claimant.namespace,
        })
    });
    let claims: Vec<Value> = claims.collect();
    let others = index.projects.iter().filter_map(|(key, project)| {
        let OtherHub { uid, share } = project.other_hub.as_ref()?;
        Some(json!({"project": key.as_str(), "hub": &**uid, "share": share.as_str()}))
    });
    let others: Vec<Value> = others.take(CLAIMS_SHOWN).collect();
    let known = index.projects.iter().filter_map(|(key, project)| {
        let known = project.known_plane.as_ref()?;
        Some(json!({"project": key.as_str(), "plane": known.to_string()}))
    });
    let known: Vec<Value> = known.take(CLAIMS_SHOWN).collect();
    let brakes = gateway.brakes(index);
    let own = [
        ("hubUid", json!(index.hub.identity.uid().map(|uid| &**uid))),
        ("otherHubs", json!(others)),
        ("knownPlanes", json!(known)),
        ("rejectedClaims", json!(claims)),
        ("garbageBrake", json!(!brakes.is_empty() || index.withholds())),
        ("garbageBrakes", json!(brakes)),
        ("interpreterDrift", json!(gateway.interpreters.drift())),
    ];
    own.map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect()
}

/// Adds the size of the index: visits each project, and no object.
fn tables(shared: &Shared, figures: &mut Gauges) {
    let mut counts: BTreeMap<(&'static str, TableId), usize> = BTreeMap::new();
    let of_projects: Vec<TableId> = {
        let index = shared.read_index(Holder::Metrics);
        for table in index.hub_tables() {
            let rows = index.hub.table(table);
            counts.insert(("hub", table), rows.map_or(0, AnyTable::count));
        }
        let tables = index.tables().into_iter();
        let of_projects = tables.filter(|(plane, _)| *plane == PlaneKind::Project);
        of_projects.map(|(_, table)| table).collect()
    };
    let mut of_other_hub = 0_usize;
    scan_projects(shared, Holder::Metrics, |_, _, project| {
        for table in &of_projects {
            let rows = project.table(*table);
            *counts.entry(("project", *table)).or_default() += rows.map_or(0, AnyTable::count);
        }
        figures.add(Family::Projects, &["refused"], project.known_plane.is_some());
        of_other_hub += usize::from(project.other_hub.is_some());
    });
    figures.set(Family::Projects, &["other_hub"], of_other_hub);
    let index = shared.read_index(Holder::Metrics);
    for ((plane, table), count) in counts {
        figures.add(Family::CachedObjects, &[plane, index.plural(table)], count);
    }
}
