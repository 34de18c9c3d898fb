//! Decides the write for a companion. Pure.

use super::referenced_by;
use crate::gateway::reason::WriteReason;
use crate::gateway::{
    index::digest::{Companion, Payload},
    lane::{self, Lane},
    rate_limit::Class,
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
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
    /// v1 `ConfigMap` or Secret.
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
    /// The lane that it is to have; `None` if no object that lives at one member has expected it.
    pub lane: Option<Lane>,
    /// Name of this lane, if its policy is there.
    pub open_lane: Option<String>,
    /// The source, if it exists and may be synced.
    pub payload: Option<Payload>,
    /// The companion.
    pub row: Option<Row<Companion>>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Read the body of the source first.
    Read,
    /// Execute this plan.
    Do(Plan<Prepared>),
}

/// Decides; `body` is the source, if it was just read.
pub fn decide(s: &Snapshot, body: Option<&DynamicObject>) -> Decision {
    let idle = Decision::Do(Plan::default());
    let one = |write, reason| Decision::Do(Plan::one(effect(s, write, reason)));
    let delete = |row: &Row<Companion>| Write::Delete {
        uid: row.uid.to_string(),
        resource_version: None,
    };
    let Some(row) = &s.row else {
        let waits = s.wanted_by.is_empty() || !s.open || s.lane.is_some() && s.open_lane.is_none();
        return match (waits, &s.payload, body) {
            (true, ..) | (_, None, _) => idle,
            (false, Some(_), None) => Decision::Read,
            (false, Some(_), Some(body)) => one(
                Write::Create {
                    body: render(s, body, None),
                },
                WriteReason::CreateCompanion,
            ),
        };
    };
    if row.deleting {
        return idle;
    }
    if s.wanted_by.is_empty() {
        return one(delete(row), WriteReason::ReleaseCompanion);
    }
    if let Some(payload) = &s.payload
        && payload.payload != row.digest.payload
    {
        // The type of a Secret is immutable.
        if payload.secret_type != row.digest.secret_type {
            return one(delete(row), WriteReason::ReplaceCompanion);
        }
        let Some(body) = body else { return Decision::Read };
        let write = Write::Apply {
            body: render(s, body, Some(&row.uid)),
            exact: ExactFields::roots(["data", "binaryData"]),
        };
        return one(write, WriteReason::UpdateCompanion);
    }
    let wanted = referenced_by(&s.wanted_by);
    if s.lane.is_some() && s.open_lane.is_none() {
        return idle;
    }
    if let Some(name) = s
        .open_lane
        .as_ref()
        .filter(|name| row.digest.lane.as_deref() != Some(name))
    {
        let mut patch = lane::patch(&row.uid, &row.resource_version(), name);
        patch["metadata"]["annotations"][keys::REFERENCED_BY] = json!(&*wanted);
        return one(Write::Merge { patch }, WriteReason::MoveCompanion);
    }
    if row.digest.referenced_by.as_ref() == Some(&wanted) {
        return idle;
    }
    let patch = json!({"metadata": {"uid": &*row.uid, "annotations": {keys::REFERENCED_BY: &*wanted}}});
    one(Write::Merge { patch }, WriteReason::CountCompanion)
}

/// Rate limit class of the permit that a decision needs. Writes that cause work in Karmada need a permit, deletions do
/// not.
pub fn class(s: &Snapshot, decision: &Decision) -> Option<Class> {
    let writes = match decision {
        Decision::Read => true,
        Decision::Do(plan) => plan
            .effects
            .iter()
            .any(|effect| !matches!(effect.write, Write::Delete { .. })),
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
fn render(s: &Snapshot, source: &DynamicObject, uid: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": &*s.name,
        "namespace": &*s.hub,
        "labels": {keys::REFERENCED_DATA: "true"},
        "annotations": {keys::REFERENCED_BY: &*referenced_by(&s.wanted_by)},
    });
    if let Some(uid) = uid {
        metadata["uid"] = json!(uid);
    }
    if let Some(lane) = &s.open_lane {
        metadata["labels"][keys::LANE] = json!(lane);
    }
    let mut object = json!({"apiVersion": "v1", "kind": s.resource.kind, "metadata": metadata});
    for field in ["type", "data", "binaryData"] {
        if let Some(value) = source.data.get(field).filter(|v| !v.is_null()) {
            object[field] = value.clone();
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_engine::diff::Digest;

    fn snapshot(wanted_by: &[&str], row: Option<Companion>) -> Snapshot {
        Snapshot {
            resource: ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&()),
            kind: CompanionKind::Secret,
            project: Some(ProjectKey::parse("shop").unwrap()),
            namespace: "default".into(),
            hub: "ns-a".into(),
            name: "db".into(),
            open: true,
            wanted_by: wanted_by.iter().map(|s| (*s).to_owned()).collect(),
            payload: Some(payload(1)),
            lane: None,
            open_lane: None,
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
