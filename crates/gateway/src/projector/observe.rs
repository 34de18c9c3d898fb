//! Observes a write-back, its projection, and the deployment that they belong to.

use super::decide::{Reporting, Snapshot};
use crate::{
    index::{self, GatewayIndex, TableId, derived::project_hub::NamedHub},
    projection,
    queries::instances,
};
use fedgate_api::names::HubNamespace;
use fedgate_engine::key::Key;
use fedgate_kinds::KindId;

/// Reports of the cells on the deployment that owns the projection of a write-back.
fn reporting(index: &GatewayIndex, key: &Key, kind: KindId) -> Reporting {
    let found = index.owning(&key.namespace).and_then(|(project, owner)| {
        let projection = project.projections[kind].get(&owner.namespace, &key.name)?;
        let (name, uid) = projection.digest.owner.clone()?;
        let source = project.sources[kind].get(&owner.namespace, &name);
        let created = projection.digest.created;
        Some((source.is_some_and(|s| s.uid == uid && !s.deleting), name, created))
    });
    let Some((true, name, created)) = found else {
        return Reporting::Given;
    };
    let deployment = index::ObjectRef::new(kind, &key.namespace, &name);
    if let Some(withheld) = index.intents.withheld.get(&deployment) {
        return Reporting::Awaited(Some(withheld.since));
    }
    let copy = index.hub.copies[kind].get(&deployment.hub, &deployment.name);
    let Some(copy) = copy.filter(|copy| copy.digest.reports()) else {
        return Reporting::Awaited(None);
    };
    // A copy that is younger than the projection is not the one that the write-back was of: the hub was made anew.
    let made_anew = copy.digest.created > i64::from(created);
    if made_anew && !index.is_reported_in_full(&deployment) {
        return Reporting::Awaited(None);
    }
    Reporting::Given
}

/// Takes the snapshot; `None` while the hub namespace has no owner or the lists that the snapshot depends on are
/// incomplete.
pub fn observe(index: &GatewayIndex, key: &Key) -> Option<Snapshot> {
    let Some(TableId::WrittenBack(kind)) = index.table_of_kind(&key.kind) else {
        return None;
    };
    let owner = index.owners.get(&key.namespace)?;
    if !index.hub_ready() || !index.project_ready(&owner.project) {
        return None;
    }
    let project = index.projects.get(&owner.project)?;
    let hub = HubNamespace::parse(&key.namespace)?;
    let mut write_back = index.hub.write_backs[kind]
        .get(&key.namespace, &key.name)
        .cloned();
    let deployment = write_back.as_ref().and_then(|w| w.digest.deployment.clone());
    let name = deployment.as_deref();
    let copy = name.and_then(|d| index.hub.copies[kind].get(&key.namespace, d));
    let rules = index.kinds[kind].write_back.as_ref()?;
    if let (Some(row), Some(copy)) = (&mut write_back, copy) {
        row.digest.labels = row.digest.projected_labels(&copy.digest, rules);
    }
    let binding = name.and_then(|d| index.binding(kind, &key.namespace, d));
    let source = name.and_then(|d| project.sources[kind].get(&owner.namespace, d));
    let row = project.projections[kind].get(&owner.namespace, &key.name);
    let projected = || {
        let (name, _) = row?.digest.owner.as_ref()?;
        project.sources[kind].get(&owner.namespace, name)
    };
    let of = if write_back.is_some() { source } else { projected() };
    let of_other_hub =
        of.is_some_and(|row| index.named_hub(project, &owner.namespace, row) == NamedHub::Other);
    // The binding of an earlier copy does not count.
    let cells = binding.filter(|b| copy.is_some_and(|copy| b.digest.owner.as_ref() == Some(&copy.uid)));
    Some(Snapshot {
        kinds: index.kinds.clone(),
        kind,
        rules: rules.clone(),
        suspended: project.suspended,
        project: owner.project.clone(),
        namespace: owner.namespace.clone(),
        hub,
        name: key.name.clone(),
        is_of_project: projection::is_namespace_of(index, &key.namespace, &owner.project),
        cells: match copy.and_then(|copy| copy.digest.cell().cloned()) {
            Some(named) => Box::new([named]),
            None => cells.map_or_else(Box::default, |binding| binding.digest.cells().cloned().collect()),
        },
        copy: copy.cloned(),
        source: source.cloned(),
        ended: index
            .intents
            .ended
            .contains(&index::ObjectRef::new(kind, &key.namespace, &key.name)),
        proven: index.lacks_proof(&key.namespace).is_none(),
        reporting: reporting(index, key, kind),
        projection: row.cloned(),
        of_other_hub,
        rank: index.rank(kind, &key.namespace, &key.name),
        most: source.map_or(0, instances::instance_limit),
        write_back,
    })
}
