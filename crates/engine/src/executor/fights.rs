//! Detects write fights: the same content written to the same object again within 1 min means that another writer keeps
//! reverting it.

use crate::{
    diff::Digest,
    plan::{Endpoint, Target},
    random::{HashMap, Random},
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{hash::BuildHasher, time::Duration};
use tokio::time::Instant;

/// A repeated write within this time counts as a fight.
const WINDOW: Duration = Duration::from_mins(1);
/// Limit of recorded writes.
const LIMIT: usize = 4_096;

/// The last write to each object, stored as hashes.
#[derive(Debug, Default)]
pub(super) struct FightDetector {
    last: Mutex<HashMap<u64, (Digest, Instant)>>,
}

/// The part of an object that a write changes: `status`, `metadata`, or `payload` for the rest.
pub(super) fn field_group(endpoint: Endpoint, body: &Value) -> &'static str {
    let payload = |key: &String| !matches!(key.as_str(), "metadata" | "apiVersion" | "kind");
    match (endpoint, body.as_object()) {
        (Endpoint::Status, _) => "status",
        (Endpoint::Main, Some(fields)) if !fields.keys().any(payload) => "metadata",
        (Endpoint::Main, _) => "payload",
    }
}

/// The content of a body, which a precondition is not.
fn content(body: &Value) -> Digest {
    let metadata = body["metadata"].as_object().into_iter().flatten();
    let of_metadata = metadata.filter(|(field, _)| *field != "resourceVersion");
    let roots = body.as_object().into_iter().flatten();
    let roots = roots.filter(|(root, _)| *root != "metadata");
    let roots = roots.fold(Digest::default(), |all, (root, value)| {
        all.with(&(root, Digest::of(value)))
    });
    of_metadata.fold(roots, |all, (field, value)| {
        all.with(&("metadata", field, Digest::of(value)))
    })
}

fn object(target: &Target) -> u64 {
    Random.hash_one((&target.plane, target.kind(), &target.namespace, &target.name))
}

impl FightDetector {
    /// Records a write; true if it repeats the last write to this object within the window.
    pub(super) fn repeats(&self, target: &Target, body: &Value) -> bool {
        let content = content(body);
        let now = Instant::now();
        let mut last = self.last.lock();
        if last.len() >= LIMIT {
            last.retain(|_, (_, at)| now.saturating_duration_since(*at) < WINDOW);
        }
        if last.len() >= LIMIT {
            last.clear();
        }
        let before = last.insert(object(target), (content, now));
        before.is_some_and(|(had, at)| had == content && now.saturating_duration_since(at) < WINDOW)
    }

    /// Drops the record of an object that fedgate deleted itself: creating it again is no fight.
    pub(super) fn forget(&self, target: &Target) {
        self.last.lock().remove(&object(target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Plane;
    use kube::core::ApiResource;
    use serde_json::json;

    fn target(name: &str) -> Target {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        Target::namespaced(Plane::Hub, &resource, "ns", name)
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_same_content_for_the_same_object_within_a_minute_is_a_fight() {
        let fights = FightDetector::default();
        let write =
            |version: &str, value: i32| json!({"metadata": {"resourceVersion": version}, "data": value});
        assert!(!fights.repeats(&target("a"), &write("1", 1)));
        assert!(!fights.repeats(&target("b"), &write("1", 1)), "another object");
        assert!(fights.repeats(&target("a"), &write("2", 1)));
        assert!(!fights.repeats(&target("a"), &write("3", 2)), "another content");
        tokio::time::advance(WINDOW).await;
        assert!(!fights.repeats(&target("a"), &write("4", 2)), "long ago");
        fights.forget(&target("a"));
        assert!(!fights.repeats(&target("a"), &write("4", 2)), "deleted by us");
    }

    #[test]
    fn a_write_belongs_to_one_group() {
        let body = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}});
        assert_eq!(field_group(Endpoint::Main, &body), "metadata");
        assert_eq!(field_group(Endpoint::Main, &json!({"spec": {}})), "payload");
        assert_eq!(field_group(Endpoint::Status, &body), "status");
    }
}
