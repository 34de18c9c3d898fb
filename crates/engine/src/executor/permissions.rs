//! Permissions that a plane's authorizer denies. A denied permission concerns no single object, and every request that
//! needs it fails alike: one probe request is sent periodically, and once it succeeds all requests are admitted.

use super::Call;
use crate::{
    circuit_breaker::CircuitBreaker,
    error::{Category, Failure},
    key::{Kind, Plane},
    plan::Endpoint,
};
use std::{fmt, time::Duration};

/// The permission that a request needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permission {
    /// The plane of the request.
    pub plane: Plane,
    verb: &'static str,
    kind: Kind,
    endpoint: Endpoint,
}

impl Permission {
    fn of(call: Call<'_>) -> Self {
        Self {
            plane: call.target.plane.clone(),
            verb: rbac_verb(call.verb),
            kind: call.target.kind(),
            endpoint: call.endpoint,
        }
    }
}

impl fmt::Display for Permission {
    /// Formats the permission with the words of a role, e.g. `patch workloaddeployments.compute.datumapis.com/status`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.endpoint {
            Endpoint::Main => "",
            Endpoint::Status => "/status",
        };
        write!(f, "{} {}{part}", self.verb, self.kind)
    }
}

/// The denied permissions. A permission counts as denied only after several denials in a row: a server that has just
/// started denies every request until it has read its roles.
#[derive(Debug, Default)]
pub struct Permissions(CircuitBreaker<Permission>);

impl Permissions {
    /// Admits a request, or returns the denied permission and the time to wait.
    pub(super) fn pass(&self, call: Call<'_>) -> Result<(), (Permission, Duration)> {
        if self.0.is_empty() {
            return Ok(());
        }
        let right = Permission::of(call);
        self.0.admit(&right).map_err(|wait| (right, wait))
    }

    /// Records the end of a request; `failure` is `None` if it succeeded. The permission, if it is denied now, or granted again.
    pub(crate) fn ended(&self, call: Call<'_>, failure: Option<Category>) -> Option<Permission> {
        let refused = failure == Some(Category::Forbidden);
        if !refused && (self.0.is_empty() || !failure.is_none_or(Category::was_authorized)) {
            return None;
        }
        let right = Permission::of(call);
        let changes = if refused {
            self.0.failure(&right)
        } else {
            self.0.success(&right)
        };
        changes.then_some(right)
    }

    /// The permissions that are denied.
    pub fn missing(&self) -> Vec<Permission> {
        let mut missing = self.0.open_keys();
        missing.sort();
        missing
    }

    /// The denied permission that a failed request lacks, or was held back for.
    pub fn missing_for(&self, failure: &Failure) -> Option<Permission> {
        if self.0.is_empty() || !matches!(failure.category, Category::Forbidden | Category::CircuitOpen) {
            return None;
        }
        let verb = rbac_verb(failure.verb);
        let kind = failure.object.split(' ').next()?;
        let mut missing = self.missing().into_iter();
        missing
            .find(|right| right.plane == failure.plane && right.verb == verb && right.kind.as_str() == kind)
    }

    /// Drops the permissions of planes that are no longer engaged.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.0.retain(|right| wanted(&right.plane));
    }
}

/// RBAC has no verb `apply`.
fn rbac_verb(verb: &'static str) -> &'static str {
    if verb == "apply" { "patch" } else { verb }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit_breaker::{FAILURES, PROBE_EVERY};
    use crate::plan::Target;
    use kube::core::ApiResource;

    fn target(namespace: &str) -> Target {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        Target::namespaced(Plane::Hub, &resource, namespace, "x")
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_in_a_while_asks_for_a_right_that_is_missing_and_an_answer_brings_it_back() {
        let rights = Permissions::default();
        let pass = |namespace, verb| {
            rights
                .pass(Call::of(&target(namespace), verb))
                .map_err(|(_, wait)| wait)
        };
        let ended = |verb, category| rights.ended(Call::of(&target("a"), verb), category);
        for _ in 1..FAILURES {
            assert_eq!(ended("apply", Some(Category::Forbidden)), None);
            assert_eq!(pass("a", "apply"), Ok(()), "a server that starts");
        }
        let right = ended("patch", Some(Category::Forbidden)).unwrap();
        assert_eq!(right.to_string(), "patch configmaps");
        assert_eq!(rights.missing(), std::slice::from_ref(&right));
        assert_eq!(pass("b", "apply"), Err(PROBE_EVERY), "whatever the object");
        assert_eq!(pass("b", "create"), Ok(()), "another right");
        assert_eq!(
            rights.pass(Call {
                endpoint: Endpoint::Status,
                ..Call::of(&target("a"), "patch")
            }),
            Ok(()),
            "another right"
        );
        tokio::time::advance(PROBE_EVERY).await;
        assert_eq!(pass("b", "patch"), Ok(()), "one asks");
        assert_eq!(pass("a", "patch"), Err(PROBE_EVERY), "for all");
        assert_eq!(ended("patch", Some(Category::Forbidden)), None, "it was said");
        assert_eq!(
            ended("patch", Some(Category::Timeout)),
            None,
            "no answer says nothing"
        );
        assert_eq!(ended("create", None), None, "nor does another right");
        assert_eq!(ended("patch", Some(Category::Conflict)), Some(right));
        assert_eq!((pass("a", "patch"), rights.missing()), (Ok(()), Vec::new()));
        assert_eq!(ended("patch", None), None);
    }
}
