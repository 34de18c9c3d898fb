//! Events for the suspension of a deployment (contract: federation.md §3.10). A suspended project admits no Events, so that its
//! deployments get theirs when the suspension of the project ends. Pure.

use super::{events, observe::Snapshot};
use fedgate_engine::{
    error::{Category, Failure},
    key::Plane,
    plan::Event,
};

/// True if the copy is marked as suspended and the deployment is not suspended, or the deployment is and the copy is not marked.
pub fn differs(s: &Snapshot) -> bool {
    let (Some(source), Some(copy)) = (&s.source, &s.copy) else {
        return false;
    };
    s.profile().suspension_mark().is_some()
        && !source.deleting
        && copy.digest.source_uid.as_ref() == Some(&source.uid)
        && source.digest.suspended != copy.digest.suspended
}

fn event(s: &Snapshot, warning: bool, reason: &str, message: String) -> Option<Event> {
    let source = s.source.as_ref().filter(|_| differs(s) && !s.suspended)?;
    let action = if source.digest.suspended {
        "Suspending"
    } else {
        "Resuming"
    };
    Some(events::event(s, source, warning, reason, action, message))
}

/// The Event for a write that marks the copy, or takes the mark off.
pub fn changed(s: &Snapshot) -> Option<Event> {
    let is_paused = s.source.as_ref()?.digest.suspended;
    let (reason, message) = if is_paused {
        (
            "ProjectPaused",
            "it is suspended: its cells stop it, and keep its placement, quota and disks",
        )
    } else {
        (
            "ProjectResumed",
            "it is suspended no longer: its cells start it again",
        )
    };
    event(s, false, reason, message.to_owned())
}

/// The Event for a failed write of the mark. It has no words of a server.
pub fn failed(s: &Snapshot, failure: &Failure) -> Option<Event> {
    let is_paused = s.source.as_ref()?.digest.suspended;
    // Other failures are retried at once.
    let lasts = matches!(
        failure.category,
        Category::Network
            | Category::Timeout
            | Category::Server
            | Category::Throttled
            | Category::Unauthorized
            | Category::Forbidden
            | Category::Refused
            | Category::CircuitOpen
    );
    if !is_paused || failure.plane != Plane::Hub || !lasts {
        return None;
    }
    let (verb, category) = (failure.verb, failure.category.as_str());
    let message =
        format!("{verb} on the hub fails ({category}), so its cells still run it; it is tried again");
    event(s, true, "PauseFailed", message)
}
