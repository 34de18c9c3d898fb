//! Decides the write for a companion. Pure.

use super::referenced_by;
use crate::{
    index::{
        rows::{Companion, Payload, payload_of},
        single_member::{DeliveryPolicy, policy},
    },
    rate_limit::Class,
    reason::WriteReason,
    single_member::{
        Observation, Probe,
        referrers::{Leaving, Stopping},
    },
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    diff::Digest,
    key::Plane,
    plan::{Effect, ExactFields, Plan, Prepared, Target, Write},
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
    /// The delivery policy that it is to have; `None` if no object that lives at one member has expected it.
    pub policy: Option<DeliveryPolicy>,
    /// The delivery policy that it has by its label; `None` without one, or if the label cannot be read.
    pub given: Option<DeliveryPolicy>,
    /// Name of the policy that it is to have, if that policy is there.
    pub ready_policy: Option<String>,
    /// State of a companion that is being withdrawn from its member.
    pub stopping: Option<Stopping>,
    /// The source, if it exists and may be synced.
    pub payload: Option<Payload>,
    /// The companion.
    pub row: Option<Row<Companion>>,
    /// Payload of a source, and that of the companion as the hub stored it.
    pub accepted: Option<(Digest, Digest)>,
    /// The last observation of its Works.
    pub observation: Option<Observation>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Read the body of the source first.
    Read,
    /// Probe its Works first.
    Probe(Probe),
    /// Probe its Works again after a while.
    ProbeAgain,
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
    let is_withdrawn = matches!(s.policy, Some(DeliveryPolicy::Withdraw(_)));
    if let Some(payload) = s.payload.as_ref().filter(|_| !is_withdrawn)
        && payload.payload != row.digest.payload
        && s.accepted != Some((payload.payload, row.digest.payload))
    {
        // The type of a Secret is immutable.
        if payload.secret_type != row.digest.secret_type {
            return one(s, Write::delete(&row.uid), WriteReason::ReplaceCompanion);
        }
        let Some(body) = body else { return Decision::Read };
        // The companion stays with its policy, because a change of policy also removes Karmada's claim (`change_policy`).
        let mut body = render(s, body, row.digest.delivery_policy.as_deref());
        body["metadata"]["uid"] = json!(&*row.uid);
        let write = if s.kind.is_core() {
            let exact = ExactFields::roots(["data", "binaryData"]);
            Write::Apply { body, exact }
        } else {
            Write::Update { body, strict: true }
        };
        return one(s, write, WriteReason::UpdateCompanion);
    }
    if let Some(decision) = change_policy(s, row) {
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

fn create(s: &Snapshot, body: Option<&DynamicObject>) -> Decision {
    let is_leaving = matches!(s.policy, Some(DeliveryPolicy::Withdraw(_)));
    let lacks_policy = s.policy.is_some() && s.ready_policy.is_none();
    let waits = s.wanted_by.is_empty() || !s.open || is_leaving || lacks_policy;
    match (waits, &s.payload, body) {
        (true, ..) | (_, None, _) => idle(),
        (false, Some(_), None) => Decision::Read,
        (false, Some(_), Some(body)) => {
            let body = render(s, body, s.ready_policy.as_deref());
            one(s, Write::create(body), WriteReason::CreateCompanion)
        }
    }
}

/// Deletes a companion that no object references. A companion that its member has adopted is withdrawn first, and deleted once all
/// its Works are stopped.
fn release(s: &Snapshot, row: &Row<Companion>) -> Decision {
    if let Some(decision) = change_policy(s, row) {
        return decision;
    }
    match (&s.stopping, &s.observation) {
        (None, _) | (_, Some(Observation::WorksStopped)) => {
            one(s, Write::delete(&row.uid), WriteReason::ReleaseCompanion)
        }
        (Some(_), Some(_)) => Decision::ProbeAgain,
        (Some(Stopping { member, id: Some(id) }), None) => Decision::Probe(Probe::Works {
            member: member.clone(),
            ids: vec![id.clone()],
        }),
        (Some(Stopping { id: None, .. }), None) => idle(),
    }
}

/// Gives the companion to its delivery policy, once that policy exists; `None` if the companion has the policy, or needs none.
fn change_policy(s: &Snapshot, row: &Row<Companion>) -> Option<Decision> {
    s.policy.as_ref()?;
    let Some(name) = &s.ready_policy else {
        return Some(idle());
    };
    if row
        .digest
        .delivery_policy
        .as_ref()
        .is_some_and(|policy| **policy == **name)
    {
        return None;
    }
    let mut patch = policy::patch(&row.uid, &row.resource_version(), name);
    patch["metadata"]["annotations"][keys::REFERENCED_BY] = json!(&*referenced_by(&s.wanted_by));
    Some(one(s, Write::Merge { patch }, WriteReason::MoveCompanion))
}

/// Rate limit class of the permit that a decision needs. Writes that make Karmada work need a permit. Writes that only withdraw a
/// companion from members need none, so that writes of other objects do not delay them.
pub fn class(s: &Snapshot, decision: &Decision) -> Option<Class> {
    let to = s.policy.as_ref();
    let only_withdraws = to.is_some_and(|policy| policy.only_withdraws(s.given.as_ref()));
    let is_move = |effect: &Effect| WriteReason::of(effect.reason) == Some(WriteReason::MoveCompanion);
    let writes = match decision {
        Decision::Read => true,
        Decision::Probe(_) | Decision::ProbeAgain => false,
        Decision::Do(plan) => plan.effects.iter().any(|effect| match effect.write {
            Write::Delete { .. } => false,
            Write::Merge { .. } => !(is_move(effect) && only_withdraws),
            Write::Create { .. }
            | Write::Replace { .. }
            | Write::Apply { .. }
            | Write::Update { .. }
            | Write::DeleteNamed => true,
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
    Effect::main(
        Target::namespaced(Plane::Hub, &s.resource, &s.hub, &s.name),
        write,
        reason,
    )
}

/// Renders the payload and fedgate's label and annotation; copies nothing of the source's metadata.
fn render(s: &Snapshot, source: &DynamicObject, policy: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": &*s.name,
        "namespace": &*s.hub,
        "labels": {keys::REFERENCED_DATA: "true"},
        "annotations": {keys::REFERENCED_BY: &*referenced_by(&s.wanted_by)},
    });
    if let Some(policy) = policy {
        metadata["labels"][keys::LANE] = json!(policy);
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
            policy: None,
            given: None,
            ready_policy: None,
            leaving: Vec::new(),
            stopping: None,
            accepted: None,
            observation: None,
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
            delivery_policy: None,
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
            Write::create(
                json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"k": "dg=="},
                    "metadata": {"name": "db", "namespace": "ns-a",
                        "labels": {"compute.datumapis.com/referenced-data": "true"},
                        "annotations": {"compute.datumapis.com/referenced-by": "[\"default/a\"]"}}})
            )
        );
    }

    /// Karmada looks for another policy only when the claim of the last one is taken off.
    #[test]
    fn new_data_leaves_the_lane_as_it_is_and_the_lane_changes_with_its_claim() {
        let mut row = companion(0, r#"["default/a"]"#);
        row.delivery_policy = Some("with-lhr-1".into());
        let mut s = snapshot(&["default/a", "default/b"], Some(row.clone()));
        s.policy = Some(DeliveryPolicy::With(members_of(["dfw-1", "lhr-1"])));
        s.ready_policy = Some("with-dfw-1.lhr-1".to_owned());
        let Write::Apply { body, .. } = write(decide(&s, Some(&body()))) else {
            panic!()
        };
        assert_eq!(body["metadata"]["labels"][keys::LANE], "with-lhr-1");
        assert_eq!(body["metadata"]["uid"], "u");
        row.payload = payload(1).payload;
        let mut s = snapshot(&["default/a", "default/b"], Some(row));
        s.policy = Some(DeliveryPolicy::With(members_of(["dfw-1", "lhr-1"])));
        s.ready_policy = Some("with-dfw-1.lhr-1".to_owned());
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
