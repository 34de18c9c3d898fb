//! The log lines about failures. Each about a key has its plane, controller and object in the same fields.

use super::{Attempt, LastFailure, Settled};
use crate::error::Class;
use crate::key::{Key, Plane};
use crate::message::clean;
use std::fmt;

/// Reports a failed attempt; `is_news` if the object is refused for the first time.
pub(crate) fn attempt(attempt: &Attempt<'_>, is_news: bool) {
    let Attempt {
        key,
        controller,
        failure,
        cause: _,
        next: _,
    } = attempt;
    let (plane, verb, category) = (&failure.plane, failure.verb, failure.category.as_str());
    let (namespace, name) = (&*key.namespace, &*key.name);
    // Formatted only if the level is on: most attempts are lines of level debug.
    let error = tracing::field::display(Cleaned(&failure.message));
    let text = match failure.category.class() {
        Class::Retry | Class::Right => "trying again",
        Class::Wait => "waiting for a change",
        Class::Quarantine if is_news => {
            tracing::warn!(%plane, controller, kind = %key.kind, namespace, name, verb, category, error, %key, "object refused; it is retried when it changes, or in 5 min");
            return;
        }
        Class::Quarantine => "refused again",
    };
    tracing::debug!(%plane, controller, kind = %key.kind, namespace, name, verb, category, error, %key, "{text}");
}

/// The message as logs may show it.
struct Cleaned<'a>(&'a str);

impl fmt::Display for Cleaned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(self.0))
    }
}

/// Reports a key that has failed for long.
pub(crate) fn stuck(key: &Key, project: Option<&str>, failure: &LastFailure) {
    let LastFailure {
        controller,
        plane,
        verb,
        ..
    } = failure;
    let (namespace, name, error) = (&*key.namespace, &*key.name, &*failure.message);
    let (category, attempts, since) = (failure.category.as_str(), failure.attempts, failure.since);
    let next = failure.next.map(tracing::field::display);
    tracing::warn!(
        project, namespace, kind = %key.kind, name, %plane, controller, verb, category, error, attempts, %since, next, %key,
        "a key is stuck"
    );
}

/// Reports the end of a failure that was reported.
pub(crate) fn settled(key: &Key, project: Option<&str>, controller: &'static str, settled: Settled) {
    let (plane, namespace, name) = (&key.plane, &*key.namespace, &*key.name);
    let (attempts, lasted) = (settled.attempts, seconds(settled));
    tracing::info!(
        project, namespace, kind = %key.kind, name, %plane, controller, attempts, lasted, %key,
        "the key is settled again"
    );
}

/// Reports the stuck keys without a line of their own.
pub(crate) fn more_stuck(counts: &str) {
    tracing::warn!(counts, "more keys are stuck");
}

/// Reports a plane that is down.
pub(crate) fn plane_down(plane: &Plane, failure: &LastFailure, keys: usize) {
    let (category, error, since) = (failure.category.as_str(), &*failure.message, failure.since);
    let next = "check its address and credential in its kubeconfig, the network and the server itself";
    tracing::warn!(%plane, category, error, %since, keys, next, "the plane is down; the keys that need it wait");
}

/// Reports that a plane answers again.
pub(crate) fn plane_answers(plane: &Plane, settled: Settled) {
    tracing::info!(%plane, lasted = seconds(settled), "the plane answers again");
}

/// The duration of a failure as text, in whole seconds.
fn seconds(settled: Settled) -> String {
    format!("{} s", settled.lasted.as_secs())
}
