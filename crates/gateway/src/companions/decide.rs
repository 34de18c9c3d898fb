//! Decides the write for a companion. Pure.

use super::{referenced_by, users::Leaving};
use crate::{
    index::rows::{Companion, Payload, payload_of},
    lane::{self, Lane},
    member::{Look, Seen},
    rate_limit::Class,
    reason::WriteReason,
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    diff::Digest,
    key::Plane,
    plan::{Effect, Endpoint, ExactFields, Plan, Prepared, Target, Write},
    store::table::Row,
};
use fedgate_kinds::CompanionKind;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// A companion and the deployments that want it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Resource of the companion, on the hub and in the project.
    pub resource: ApiResource,
    /// Kind of the companion.
    pub kind: CompanionKind,
    /// The project; `None` if it is proven gone.
    pub project: Option<ProjectKey>,
    /// The project namespace.
    pub namespace: Arc<str>,
    /// The hub namespace.
    pub hub: Arc<str>,
    /// Name of the companion on every plane.
    pub name: Arc<str>,
    /// True if Namespace and policies of a city that needs the companion exist.
    pub open: bool,
    /// `<project namespace>/<deployment>` of every deployment that expects the companion.
    pub wanted_by: BTreeSet<String>,
    /// Objects in `wanted_by` whose new spec no longer names the companion.
    pub leaving: Vec<Leaving>,
    /// The lane that it is to have; `None` if no object that lives at one member has expected it.
    pub lane: Option<Lane>,
    /// The lane that it has by its label; `None` without one, or if that cannot be read.
    pub given: Option<Lane>,
    /// Name of this lane, if its policy is there.
    pub open_lane: Option<String>,
    /// State of a companion that is being taken off its member.
    pub stopping: Option<Stopping>,
    /// The source, if it exists and may be synced.
    pub payload: Option<Payload>,
    /// The companion.
    pub row: Option<Row<Companion>>,
    /// Payload of a source, and that of the companion as the hub stored it.
    pub accepted: Option<(Digest, Digest)>,
    /// The last look at its Works.
    pub seen: Option<Seen>,
}

/// A companion in [`Lane::Park`], as its binding shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    /// The member.
    pub member: Arc<str>,
    /// The binding's permanent id, once nothing is dispatched any more.
    pub id: Option<Arc<str>>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Read the body of the source first.
    Read,
    /// Look at its Works first.
    Look(Look),
    /// Look again after a while.
    LookAgain,
    /// Execute this plan.
    Do(Plan<Prepared>),
}

/// Decides; `body` is the source, if it was just read.
pub fn decide(s: &Snapshot, body: Option<&DynamicObject>) -> Decision {
    let Some(row) = &s.row else {
        return create(s, body);
    };
    if row.deleting {
        return idle();
    }
    if s.wanted_by.is_empty() {
        return release(s, row);
    }
    let is_parked = matches!(s.lane, Some(Lane::Park(_)));
    if let Some(payload) = s.payload.as_ref().filter(|_| !is_parked)
        && payload.payload != row.digest.payload
        && s.accepted != Some((payload.payload, row.digest.payload))
    {
        // The type of a Secret is immutable.
        if payload.secret_type != row.digest.secret_type {
            return one(s, delete(row), WriteReason::ReplaceCompanion);
        }
        let Some(body) = body else { return Decision::Read };
        let exact = if s.kind.is_core() {
            ExactFields::roots(["data", "binaryData"])
        } else {
            ExactFields::payload(Vec::new())
        };
        // The lane that it has: to change it takes the claim off, too.
        let mut body = render(s, body, row.digest.lane.as_deref());
        body["metadata"]["uid"] = json!(&*row.uid);
        return one(s, Write::Apply { body, exact }, WriteReason::UpdateCompanion);
    }
    if let Some(decision) = change_lane(s, row) {
        return decision;
    }
    let wanted = referenced_by(&s.wanted_by);
    if row.digest.referenced_by.as_ref() == Some(&wanted) {
        return idle();
    }
    let patch = json!({"metadata": {"uid": &*row.uid, "annotations": {keys::REFERENCED_BY: &*wanted}}});
    one(s, Write::Merge { patch }, WriteReason::CountCompanion)
}

fn idle() -> Decision {
    Decision::Do(Plan::default())
}

fn one(s: &Snapshot, write: Write, reason: WriteReason) -> Decision {
    Decision::Do(Plan::one(effect(s, write, reason)))
}

fn delete(row: &Row<Companion>) -> Write {
    Write::Delete {
        uid: row.uid.to_string(),
        resource_version: None,
    }
}

fn create(s: &Snapshot, body: Option<&DynamicObject>) -> Decision {
    let is_leaving = matches!(s.lane, Some(Lane::Park(_)));
    let waits = s.wanted_by.is_empty() || !s.open || is_leaving || s.lane.is_some() && s.open_lane.is_none();
    match (waits, &s.payload, body) {
        (true, ..) | (_, None, _) => idle(),
        (false, Some(_), None) => Decision::Read,
        (false, Some(_), Some(body)) => {
            let body = render(s, body, s.open_lane.as_deref());
            one(s, Write::Create { body }, WriteReason::CreateCompanion)
        }
    }
}

/// Nothing wants it: what its member keeps is stopped first, and deleted once no Work of it goes on.
fn release(s: &Snapshot, row: &Row<Companion>) -> Decision {
    if let Some(decision) = change_lane(s, row) {
        return decision;
    }
    match (&s.stopping, &s.seen) {
        (None, _) | (_, Some(Seen::WorksStopped)) => one(s, delete(row), WriteReason::ReleaseCompanion),
        (Some(_), Some(_)) => Decision::LookAgain,
        (Some(Stopping { member, id: Some(id) }), None) => Decision::Look(Look::Works {
            member: member.clone(),
            ids: vec![id.clone()],
        }),
        (Some(Stopping { id: None, .. }), None) => idle(),
    }
}

/// Gives the companion to the lane that it is to have, once the policy is there; `None` if it has the lane, or is to have none.
fn change_lane(s: &Snapshot, row: &Row<Companion>) -> Option<Decision> {
    s.lane.as_ref()?;
    let Some(name) = &s.open_lane else {
        return Some(idle());
    };
    if row.digest.lane.as_ref().is_some_and(|lane| **lane == **name) {
        return None;
    }
    let mut patch = lane::patch(&row.uid, &row.resource_version(), name);
    patch["metadata"]["annotations"][keys::REFERENCED_BY] = json!(&*referenced_by(&s.wanted_by));
    Some(one(s, Write::Merge { patch }, WriteReason::MoveCompanion))
}

/// Rate limit class of the permit that a decision needs. Writes that cause work in Karmada need a permit; those that only take a
/// companion off its members do not, and are not held up by those of others.
pub fn class(s: &Snapshot, decision: &Decision) -> Option<Class> {
    let to = s.lane.as_ref();
    let only_withdraws = to.is_some_and(|lane| lane::only_withdraws(s.given.as_ref(), lane));
    let is_move = |effect: &Effect| WriteReason::of(effect.reason) == Some(WriteReason::MoveCompanion);
    let writes = match decision {
        Decision::Read => true,
        Decision::Look(_) | Decision::LookAgain => false,
        Decision::Do(plan) => plan.effects.iter().any(|effect| match effect.write {
            Write::Delete { .. } => false,
            Write::Merge { .. } => !(is_move(effect) && only_withdraws),
            Write::Create { .. } | Write::Replace { .. } | Write::Apply { .. } | Write::DeleteNamed => true,
        }),
    };
    let class = if s.row.is_some() {
        Class::Update
    } else {
        Class::Create
    };
    writes.then_some(class)
}

fn effect(s: &Snapshot, write: Write, reason: WriteReason) -> Effect {
    let target = Target::namespaced(Plane::Hub, &s.resource, &s.hub, &s.name);
    Effect {
        target,
        endpoint: Endpoint::Main,
        write,
        reason: reason.into(),
    }
}

/// Renders the payload and fedgate's label and annotation; copies nothing of the source's metadata.
fn render(s: &Snapshot, source: &DynamicObject, lane: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": &*s.name,
        "namespace": &*s.hub,
        "labels": {keys::REFERENCED_DATA: "true"},
        "annotations": {keys::REFERENCED_BY: &*referenced_by(&s.wanted_by)},
    });
    if let Some(lane) = lane {
        metadata["labels"][keys::LANE] = json!(lane);
    }
    let own = json!({"apiVersion": s.resource.api_version, "kind": s.resource.kind, "metadata": metadata});
    let mut object = payload_of(source, s.kind);
    object.extend(own.as_object().cloned().unwrap_or_default());
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_engine::diff::Digest;

    fn snapshot(wanted_by: &[&str], row: Option<Companion>) -> Snapshot {
        Snapshot {
            resource: ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&()),
            kind: CompanionKind::SECRET,
            project: Some(ProjectKey::parse("shop").unwrap()),
            namespace: "default".into(),
            hub: "ns-a".into(),
            name: "db".into(),
            open: true,
            wanted_by: wanted_by.iter().map(|s| (*s).to_owned()).collect(),
            payload: Some(payload(1)),
            lane: None,
            given: None,
            open_lane: None,
            leaving: Vec::new(),
            stopping: None,
            accepted: None,
            seen: None,
            row: row.map(|digest| Row {
                uid: "u".into(),
                version: 3,
                deleting: false,
                partial: false,
                digest,
                body: None,
            }),
        }
    }

    fn payload(n: u8) -> Payload {
        Payload {
            payload: Digest::of_hash(&n),
            secret_type: Some("Opaque".into()),
            size: 1,
        }
    }

    fn companion(n: u8, by: &str) -> Companion {
        let Payload {
            payload, secret_type, ..
        } = payload(n);
        Companion {
            payload,
            secret_type,
            referenced_by: Some(by.into()),
            lane: None,
        }
    }

    fn body() -> DynamicObject {
        serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"k": "dg=="},
            "immutable": true, "metadata": {"name": "db", "labels": {"tenant": "x"}}}),
        )
        .unwrap()
    }

    fn write(d: Decision) -> Write {
        match d {
            Decision::Do(mut plan) if plan.effects.len() == 1 => plan.effects.remove(0).write,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_companion_carries_payload_and_marks_and_nothing_else() {
        let s = snapshot(&["default/a"], None);
        assert_eq!(decide(&s, None), Decision::Read);
        assert_eq!(
            write(decide(&s, Some(&body()))),
            Write::Create {
                body: json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"k": "dg=="},
                    "metadata": {"name": "db", "namespace": "ns-a",
                        "labels": {"compute.datumapis.com/referenced-data": "true"},
                        "annotations": {"compute.datumapis.com/referenced-by": "[\"default/a\"]"}}})
            }
        );
    }

    /// Karmada looks for another policy only when the claim of the last one is taken off.
    #[test]
    fn new_data_leaves_the_lane_as_it_is_and_the_lane_changes_with_its_claim() {
        let mut row = companion(0, r#"["default/a"]"#);
        row.lane = Some("with-lhr-1".into());
        let mut s = snapshot(&["default/a", "default/b"], Some(row.clone()));
        s.lane = Some(Lane::With(members_of(["dfw-1", "lhr-1"])));
        s.open_lane = Some("with-dfw-1.lhr-1".to_owned());
        let Write::Apply { body, .. } = write(decide(&s, Some(&body()))) else {
            panic!()
        };
        assert_eq!(body["metadata"]["labels"][keys::LANE], "with-lhr-1");
        assert_eq!(body["metadata"]["uid"], "u");
        row.payload = payload(1).payload;
        let mut s = snapshot(&["default/a", "default/b"], Some(row));
        s.lane = Some(Lane::With(members_of(["dfw-1", "lhr-1"])));
        s.open_lane = Some("with-dfw-1.lhr-1".to_owned());
        let Write::Merge { patch } = write(decide(&s, None)) else {
            panic!()
        };
        assert_eq!(patch["metadata"]["labels"][keys::LANE], "with-dfw-1.lhr-1");
        assert_eq!(
            patch["metadata"]["annotations"].get(keys::CLAIM_NAME),
            Some(&Value::Null)
        );
    }

    fn members_of(names: [&str; 2]) -> std::collections::BTreeSet<Arc<str>> {
        names.map(Arc::from).into()
    }

    #[test]
    fn counts_change_without_reading_the_payload() {
        let s = snapshot(
            &["default/a", "default/b"],
            Some(companion(1, r#"["default/a"]"#)),
        );
        let Write::Merge { patch } = write(decide(&s, None)) else {
            panic!()
        };
        assert_eq!(
            patch["metadata"]["annotations"]["compute.datumapis.com/referenced-by"],
            r#"["default/a","default/b"]"#
        );
        let rest = snapshot(&["default/a"], Some(companion(1, r#"["default/a"]"#)));
        assert_eq!(decide(&rest, None), Decision::Do(Plan::default()));
        let corrupt = snapshot(&["default/a"], Some(companion(1, "{")));
        assert!(matches!(write(decide(&corrupt, None)), Write::Merge { .. }));
    }

    #[test]
    fn nobody_left_deletes_by_uid_and_a_source_that_went_bad_keeps_the_last_good_one() {
        let s = snapshot(&[], Some(companion(1, "[]")));
        assert_eq!(
            write(decide(&s, None)),
            Write::Delete {
                uid: "u".into(),
                resource_version: None
            }
        );
        let mut s = snapshot(&["default/a"], Some(companion(1, r#"["default/a"]"#)));
        s.payload = None;
        assert_eq!(decide(&s, None), Decision::Do(Plan::default()));
    }

    #[test]
    fn a_secret_of_another_type_is_replaced() {
        let mut s = snapshot(&["default/a"], Some(companion(2, r#"["default/a"]"#)));
        assert_eq!(
            decide(&s, None),
            Decision::Read,
            "another payload is written anew"
        );
        s.payload.as_mut().unwrap().secret_type = Some("kubernetes.io/tls".into());
        assert!(matches!(write(decide(&s, None)), Write::Delete { .. }));
    }
}
