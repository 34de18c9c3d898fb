//! A request of the executor: what its failures say, and what becomes of a write without an answer.

use super::PlaneAccess;
use crate::{
    error::{Category, Failure, classify, misses_namespace},
    object::LenientObject,
    plan::{Endpoint, Target},
};
use serde_json::Value;

/// A request: its object, endpoint and verb.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(super) target: &'a Target,
    pub(super) endpoint: Endpoint,
    pub(super) verb: &'static str,
}

impl<'a> Call<'a> {
    /// A request to the main resource.
    pub(crate) fn of(target: &'a Target, verb: &'static str) -> Self {
        Self {
            target,
            endpoint: Endpoint::Main,
            verb,
        }
    }

    /// A failure of this category.
    pub(super) fn failed(self, category: Category, message: &str) -> Failure {
        let Target { namespace, name, .. } = self.target;
        let namespace = namespace.as_ref().map(|n| format!("{n}/")).unwrap_or_default();
        let object = format!("{} {namespace}{name}", self.target.kind());
        Failure::new(&self.target.plane, self.verb, object, category, message)
    }

    /// The failure that an error of the client stands for.
    pub(super) fn failure(self, error: &kube::Error) -> Failure {
        let (category, message, retry_after) = classify(error);
        let namespace = self.target.namespace.as_deref();
        let category = if namespace.is_some_and(|namespace| misses_namespace(error, namespace)) {
            Category::NamespaceMissing
        } else {
            category
        };
        Failure {
            retry_after,
            ..self.failed(category, &message)
        }
    }

    /// The object of a body.
    pub(super) fn whole(self, body: &Value) -> Result<LenientObject, Failure> {
        let read = serde_json::from_value(body.clone());
        read.map_err(|e| self.failed(Category::Refused, &e.to_string()))
    }
}

/// A write in flight. Dropping it without an answer, e.g. because its task is cancelled, calls
/// [`PlaneAccess::write_unresolved`].
pub(super) struct InFlightWrite<'a> {
    pub(super) surroundings: &'a dyn PlaneAccess,
    pub(super) target: &'a Target,
    pub(super) answered: bool,
}

impl Drop for InFlightWrite<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.surroundings.write_unresolved(self.target);
        }
    }
}
