//! Rights that a plane's authorizer refuses. A missing right says nothing of the object, and whoever needs it meets the same
//! refusal: while it is missing one request in a while asks for all, and once it is there all go on.

use crate::{
    circuit_breaker::CircuitBreaker,
    error::Category,
    key::{Kind, Plane},
    plan::{Endpoint, Target},
};
use std::{fmt, time::Duration};

/// What a request needs a right for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permission {
    /// Where.
    pub plane: Plane,
    verb: &'static str,
    kind: Kind,
    endpoint: Endpoint,
}

impl fmt::Display for Permission {
    /// As a role names it, e.g. `patch workloaddeployments.compute.datumapis.com/status`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.endpoint {
            Endpoint::Main => "",
            Endpoint::Status => "/status",
        };
        write!(f, "{} {}{part}", self.verb, self.kind)
    }
}

/// What a request's end says of the right that it needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionChange {
    /// Nothing new.
    None,
    /// It is missing.
    Denied(Permission),
    /// It was missing and is there.
    Granted(Permission),
}

/// See the module. A right that is refused a few times in a row is held to be missing: a server that has just started
/// refuses everyone until it has read its roles.
#[derive(Debug, Default)]
pub struct Permissions(CircuitBreaker<Permission>);

impl Permissions {
    /// Lets a request through, or says which right is missing and how long to wait.
    pub fn pass(
        &self,
        target: &Target,
        endpoint: Endpoint,
        verb: &'static str,
    ) -> Result<(), (Permission, Duration)> {
        if self.0.is_empty() {
            return Ok(());
        }
        let right = right(target, endpoint, verb);
        self.0.admit(&right).map_err(|wait| (right, wait))
    }

    /// A request has ended: `None` if it was answered as asked.
    pub fn ended(
        &self,
        target: &Target,
        endpoint: Endpoint,
        verb: &'static str,
        failure: Option<Category>,
    ) -> PermissionChange {
        let refused = failure == Some(Category::Forbidden);
        if !refused && (self.0.is_empty() || !failure.is_none_or(Category::was_authorized)) {
            return PermissionChange::None;
        }
        let right = right(target, endpoint, verb);
        if refused && self.0.failure(&right) {
            PermissionChange::Denied(right)
        } else if !refused && self.0.success(&right) {
            PermissionChange::Granted(right)
        } else {
            PermissionChange::None
        }
    }

    /// The rights that are missing.
    pub fn missing(&self) -> Vec<Permission> {
        let mut missing = self.0.open_keys();
        missing.sort();
        missing
    }

    /// Forgets the planes that are not wanted any more.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.0.retain(|right| wanted(&right.plane));
    }
}

fn right(target: &Target, endpoint: Endpoint, verb: &'static str) -> Permission {
    Permission {
        plane: target.plane.clone(),
        // An authorizer knows no apply.
        verb: if verb == "apply" { "patch" } else { verb },
        kind: target.kind(),
        endpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit_breaker::{FAILURES, PROBE_EVERY};
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
                .pass(&target(namespace), Endpoint::Main, verb)
                .map_err(|(_, wait)| wait)
        };
        let ended = |verb, category| rights.ended(&target("a"), Endpoint::Main, verb, category);
        for _ in 1..FAILURES {
            assert_eq!(ended("apply", Some(Category::Forbidden)), PermissionChange::None);
            assert_eq!(pass("a", "apply"), Ok(()), "a server that starts");
        }
        let news = ended("patch", Some(Category::Forbidden));
        let PermissionChange::Denied(right) = news else {
            panic!("{news:?}")
        };
        assert_eq!(right.to_string(), "patch configmaps");
        assert_eq!(rights.missing(), std::slice::from_ref(&right));
        assert_eq!(pass("b", "apply"), Err(PROBE_EVERY), "whatever the object");
        assert_eq!(pass("b", "create"), Ok(()), "another right");
        assert_eq!(
            rights.pass(&target("a"), Endpoint::Status, "patch"),
            Ok(()),
            "another right"
        );
        tokio::time::advance(PROBE_EVERY).await;
        assert_eq!(pass("b", "patch"), Ok(()), "one asks");
        assert_eq!(pass("a", "patch"), Err(PROBE_EVERY), "for all");
        assert_eq!(
            ended("patch", Some(Category::Forbidden)),
            PermissionChange::None,
            "it was said"
        );
        assert_eq!(
            ended("patch", Some(Category::Timeout)),
            PermissionChange::None,
            "no answer says nothing"
        );
        assert_eq!(
            ended("create", None),
            PermissionChange::None,
            "nor does another right"
        );
        assert_eq!(
            ended("patch", Some(Category::Conflict)),
            PermissionChange::Granted(right)
        );
        assert_eq!((pass("a", "patch"), rights.missing()), (Ok(()), Vec::new()));
        assert_eq!(ended("patch", None), PermissionChange::None);
    }
}
