//! The `ConfigMaps` and Secrets of a project that deployments reference.

use crate::gateway::{index::GatewayIndex, references::SourceState};
use fedgate_api::names::ProjectKey;
use fedgate_kinds::CompanionKind;

/// State of the source of a reference.
pub fn source_state(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: CompanionKind,
    namespace: &str,
    name: &str,
) -> SourceState {
    let Some(p) = index.projects.get(project) else {
        return SourceState::Unknown;
    };
    let table = match kind {
        CompanionKind::ConfigMap => &p.config_maps,
        CompanionKind::Secret => &p.secrets,
    };
    match table.get(namespace, name) {
        _ if p.forbidden.contains(&kind) => SourceState::Forbidden,
        _ if !table.synced() => SourceState::Unknown,
        None => SourceState::Missing,
        Some(row) => SourceState::Present(row.digest.size),
    }
}
