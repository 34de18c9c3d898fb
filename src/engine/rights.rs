//! Rights that a plane's authorizer refuses. A missing right says nothing of the object, and whoever needs it meets the same
//! refusal: while it is missing one request in a while asks for all, and once it is there all go on.

use crate::engine::{
    error::Category,
    key::{Kind, Plane},
    plan::{Endpoint, Target},
    probe::Probes,
};
use std::{fmt, time::Duration};

/// What a request needs a right for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    /// Where.
    pub plane: Plane,
    verb: &'static str,
    kind: Kind,
    endpoint: Endpoint,
}

impl fmt::Display for Right {
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
pub enum News {
    /// Nothing new.
    None,
    /// It is missing.
    Missing(Right),
    /// It was missing and is there.
    Back(Right),
}

/// See the module. A right that is refused a few times in a row is held to be missing: a server that has just started
/// refuses everyone until it has read its roles.
#[derive(Debug, Default)]
pub struct Rights(Probes<Right>);

impl Rights {
    /// Lets a request through, or says which right is missing and how long to wait.
    pub fn pass(
        &self,
        target: &Target,
        endpoint: Endpoint,
        verb: &'static str,
    ) -> Result<(), (Right, Duration)> {
        if self.0.is_empty() {
            return Ok(());
        }
        let right = right(target, endpoint, verb);
        self.0.pass(&right).map_err(|wait| (right, wait))
    }

    /// A request has ended: `None` if it was answered as asked.
    pub fn ended(
        &self,
        target: &Target,
        endpoint: Endpoint,
        verb: &'static str,
        failure: Option<Category>,
    ) -> News {
        let refused = failure == Some(Category::Forbidden);
        if !refused && (self.0.is_empty() || !failure.is_none_or(Category::was_authorized)) {
            return News::None;
        }
        let right = right(target, endpoint, verb);
        if refused && self.0.failed(&right) {
            News::Missing(right)
        } else if !refused && self.0.answered(&right) {
            News::Back(right)
        } else {
            News::None
        }
    }

    /// The rights that are missing.
    pub fn missing(&self) -> Vec<Right> {
        let mut missing = self.0.held();
        missing.sort();
        missing
    }

    /// Forgets the planes that are not wanted any more.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.0.retain(|right| wanted(&right.plane));
    }
}

fn right(target: &Target, endpoint: Endpoint, verb: &'static str) -> Right {
    Right {
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
    use crate::engine::probe::{FAILURES, PROBE_EVERY};
    use kube::core::ApiResource;

    fn target(namespace: &str) -> Target {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        Target::namespaced(Plane::Hub, &resource, namespace, "x")
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_in_a_while_asks_for_a_right_that_is_missing_and_an_answer_brings_it_back() {
        let rights = Rights::default();
        let pass = |namespace, verb| {
            rights
                .pass(&target(namespace), Endpoint::Main, verb)
                .map_err(|(_, wait)| wait)
        };
        let ended = |verb, category| rights.ended(&target("a"), Endpoint::Main, verb, category);
        for _ in 1..FAILURES {
            assert_eq!(ended("apply", Some(Category::Forbidden)), News::None);
            assert_eq!(pass("a", "apply"), Ok(()), "a server that starts");
        }
        let news = ended("patch", Some(Category::Forbidden));
        let News::Missing(right) = news else {
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
            News::None,
            "it was said"
        );
        assert_eq!(
            ended("patch", Some(Category::Timeout)),
            News::None,
            "no answer says nothing"
        );
        assert_eq!(ended("create", None), News::None, "nor does another right");
        assert_eq!(ended("patch", Some(Category::Conflict)), News::Back(right));
        assert_eq!((pass("a", "patch"), rights.missing()), (Ok(()), Vec::new()));
        assert_eq!(ended("patch", None), News::None);
    }
}
