//! The state of a process in one word, and its reasons.

use crate::{Class, Health, HealthReason, HealthState, StuckGroup};

/// Maximum number of reasons.
const REASONS: usize = 20;

/// The health that follows from the stuck groups: planes, permissions and brakes degrade it.
pub fn of(groups: &[StuckGroup], complete: bool) -> Health {
    let degrading = groups
        .iter()
        .filter(|group| matches!(group.class, Class::Plane | Class::Right | Class::Brake));
    let reasons: Vec<HealthReason> = degrading
        .take(REASONS)
        .map(|group| HealthReason {
            class: group.class,
            plane: group.plane.clone(),
            word: group.word.clone(),
            count: group.count,
            since: group.oldest,
            next: group.next.clone(),
        })
        .collect();
    let state = if !reasons.is_empty() {
        HealthState::Degraded
    } else if complete {
        HealthState::Ok
    } else {
        HealthState::Syncing
    };
    Health { state, reasons }
}
