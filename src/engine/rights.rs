//! Rights that a plane's authorizer refuses. A missing right says nothing of the object, and whoever needs it meets the same
//! refusal: while it is missing one request in a while asks for all, and once it is there all go on.

use crate::engine::{
    chance::HashMap,
    error::Category,
    key::{Kind, Plane},
    plan::{Endpoint, Target},
};
use parking_lot::Mutex;
use std::{fmt, time::Duration};
use tokio::time::Instant;

/// A right that was refused so many times in a row is held to be missing: a server that has just started refuses everyone
/// until it has read its roles.
const REFUSALS: u32 = 3;
/// While a right is missing, one request in this time asks for it.
pub const ASK_EVERY: Duration = Duration::from_secs(5);

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

#[derive(Debug)]
struct Refused {
    in_a_row: u32,
    next: Instant,
}

impl Refused {
    fn is_missing(&self) -> bool {
        self.in_a_row >= REFUSALS
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Rights(Mutex<HashMap<Right, Refused>>);

impl Rights {
    /// Lets a request through, or says which right is missing and how long to wait.
    pub fn pass(
        &self,
        target: &Target,
        endpoint: Endpoint,
        verb: &'static str,
    ) -> Result<(), (Right, Duration)> {
        let mut refused = self.0.lock();
        if refused.is_empty() {
            return Ok(());
        }
        let right = right(target, endpoint, verb);
        let Some(entry) = refused.get_mut(&right).filter(|entry| entry.is_missing()) else {
            return Ok(());
        };
        let now = Instant::now();
        if entry.next > now {
            return Err((right, entry.next - now));
        }
        entry.next = now + ASK_EVERY;
        Ok(())
    }

    /// A request has ended: `None` if it was answered as asked.
    pub fn ended(
        &self,
        target: &Target,
        endpoint: Endpoint,
        verb: &'static str,
        failure: Option<Category>,
    ) -> News {
        let mut refused = self.0.lock();
        if failure == Some(Category::Forbidden) {
            let right = right(target, endpoint, verb);
            let next = Instant::now() + ASK_EVERY;
            let entry = refused
                .entry(right.clone())
                .or_insert(Refused { in_a_row: 0, next });
            entry.in_a_row += 1;
            entry.next = next;
            return if entry.in_a_row == REFUSALS {
                News::Missing(right)
            } else {
                News::None
            };
        }
        if refused.is_empty() || !failure.is_none_or(Category::was_authorized) {
            return News::None;
        }
        let right = right(target, endpoint, verb);
        match refused.remove(&right) {
            Some(entry) if entry.is_missing() => News::Back(right),
            _ => News::None,
        }
    }

    /// The rights that are missing.
    pub fn missing(&self) -> Vec<Right> {
        let refused = self.0.lock();
        let missing = refused.iter().filter(|(_, entry)| entry.is_missing());
        let mut missing: Vec<Right> = missing.map(|(right, _)| right.clone()).collect();
        missing.sort();
        missing
    }

    /// Forgets the planes that are not wanted any more.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.0.lock().retain(|right, _| wanted(&right.plane));
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
        for _ in 1..REFUSALS {
            assert_eq!(ended("apply", Some(Category::Forbidden)), News::None);
            assert_eq!(pass("a", "apply"), Ok(()), "a server that starts");
        }
        let news = ended("patch", Some(Category::Forbidden));
        let News::Missing(right) = news else {
            panic!("{news:?}")
        };
        assert_eq!(right.to_string(), "patch configmaps");
        assert_eq!(rights.missing(), std::slice::from_ref(&right));
        assert_eq!(pass("b", "apply"), Err(ASK_EVERY), "whatever the object");
        assert_eq!(pass("b", "create"), Ok(()), "another right");
        assert_eq!(
            rights.pass(&target("a"), Endpoint::Status, "patch"),
            Ok(()),
            "another right"
        );
        tokio::time::advance(ASK_EVERY).await;
        assert_eq!(pass("b", "patch"), Ok(()), "one asks");
        assert_eq!(pass("a", "patch"), Err(ASK_EVERY), "for all");
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

    #[test]
    fn one_refusal_among_answers_is_no_missing_right() {
        let rights = Rights::default();
        for _ in 0..10 * REFUSALS {
            for category in [Some(Category::Forbidden), None] {
                assert_eq!(
                    rights.ended(&target("a"), Endpoint::Main, "create", category),
                    News::None
                );
            }
        }
        assert_eq!(rights.missing(), []);
    }
}
