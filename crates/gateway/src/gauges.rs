//! The gateway's own part of the metrics and of `/debug/planes`.

use super::{
    Gateway,
    context::{Shared, scan_projects},
    index::{
        GatewayIndex, TableId, derived::project_hub::OtherHub, derived::summary,
        derived::undelivered::is_of_leader, locations,
    },
    operations,
};
use fedgate_engine::metrics::{Family, Gauges, Holder};
use fedgate_kinds::KindId;
use fedgate_operations::Stage;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, time::Duration};

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
    into.set(Family::RejectedClaims, &[], index.refused_claims().count());
    into.set(Family::UnlabelledWriteBacks, &[], index.summary.unlabelled());
    let without = index.hub.secondary.without_place();
    into.set(Family::CopiesWithoutPlace, &["cityCode"], without.city);
    into.set(Family::CopiesWithoutPlace, &["locationRef"], without.location);
    into.set(Family::Orphans, &[], gateway.garbage.orphans(index));
    into.set(Family::Projects, &["engaged"], index.projects.len());
    into.set(Family::Projects, &["refused"], shared.refused.lock().len());
    fleet(index, shared, into);
    let counts = hub_tables(index);
    drop(held);
    tables(shared, counts, into);
}

/// The sums over the fleet; visits no object.
fn fleet(index: &GatewayIndex, shared: &Shared, into: &mut Gauges) {
    let (now, leads) = (shared.now(), shared.planes.lease.may_write());
    for stage in Stage::ALL {
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
    let instances = index.summary.instances();
    for (state, count) in [
        ("desired", instances.desired),
        ("existing", instances.existing),
        ("ready", instances.ready),
        ("updated", instances.updated),
    ] {
        into.set(Family::ReportedInstances, &[state], count);
    }
    let cells = operations::overview::cells(index);
    for (state, count) in [
        ("ready", cells.ready),
        ("not_ready", cells.not_ready),
        ("unlabelled", cells.unlabelled),
        ("leaving", cells.leaving),
    ] {
        into.set(Family::Cells, &[state], count);
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

/// Numbers of rows by kind of plane and table.
type Counts = BTreeMap<(&'static str, TableId), usize>;

/// The size of the hub's part of the index.
fn hub_tables(index: &GatewayIndex) -> Counts {
    let mut counts = Counts::new();
    let mut add = |plane, table, count| *counts.entry((plane, table)).or_default() += count;
    let hub = &index.hub;
    add("hub", TableId::Namespaces, hub.namespaces.len());
    add("hub", TableId::Clusters, hub.clusters.len());
    add("hub", TableId::CitySets, hub.city_sets.len());
    add("hub", TableId::CityPolicies, hub.city_policies.len());
    add("hub", TableId::Bindings, hub.bindings.len());
    add("hub", TableId::Interpreters, hub.interpreters.len());
    for (kind, table) in hub.companions.enumerate() {
        add("hub", TableId::Companions(kind), table.len());
    }
    add("hub", TableId::Pins, hub.pins.len());
    add("hub", TableId::Returned, hub.returned.len());
    for (kind, table) in hub.copies.enumerate() {
        add("hub", TableId::Federated(kind), table.len());
    }
    let written_back = |kind: &KindId| index.kinds[*kind].write_back.is_some();
    for (kind, table) in hub.write_backs.enumerate().filter(|(kind, _)| written_back(kind)) {
        add("hub", TableId::WrittenBack(kind), table.len());
    }
    for (kind, table) in hub.platform.enumerate() {
        add("hub", TableId::Platform(kind), table.len());
    }
    counts
}

/// Adds the size of the index, and the objects being deleted: visits each project, and no object that is not being
/// deleted.
fn tables(shared: &Shared, mut counts: Counts, figures: &mut Gauges) {
    let (now, mut of_other_hub) = (shared.now(), 0_usize);
    let mut add = |plane, table, count| *counts.entry((plane, table)).or_default() += count;
    scan_projects(shared, Holder::Metrics, |index, _, project| {
        let written_back = |kind: &KindId| index.kinds[*kind].write_back.is_some();
        add("project", TableId::Namespaces, project.namespaces.len());
        add("project", TableId::Workloads, project.workloads.len());
        for table in locations::tables(index.checks.locations) {
            add("project", table, project.locations.len(table));
        }
        if index.checks.networks {
            add("project", TableId::Networks, project.networks.len());
        }
        for (kind, table) in project.referable.enumerate() {
            add("project", TableId::Companions(kind), table.len());
        }
        add("project", TableId::Returned, project.returned.len());
        for (kind, table) in project.sources.enumerate() {
            add("project", TableId::Federated(kind), table.len());
        }
        for (kind, table) in project
            .projections
            .enumerate()
            .filter(|(kind, _)| written_back(kind))
        {
            add("project", TableId::WrittenBack(kind), table.len());
        }
        for (kind, table) in project.platform.enumerate() {
            add("project", TableId::Platform(kind), table.rows.len());
        }
        figures.add(Family::Projects, &["refused"], project.known_plane.is_some());
        of_other_hub += usize::from(project.other_hub.is_some());
        for since in project.secondary.deleting() {
            figures.add(Family::PendingDeletions, &[], 1_usize);
            let age = since.map_or(Duration::ZERO, |since| now.since_wall(since));
            figures.raise(Family::OldestPendingDeletion, &[], age);
        }
    });
    figures.set(Family::Projects, &["other_hub"], of_other_hub);
    let index = shared.read_index(Holder::Metrics);
    for ((plane, table), count) in counts {
        figures.add(Family::CachedObjects, &[plane, index.plural(table)], count);
    }
}
