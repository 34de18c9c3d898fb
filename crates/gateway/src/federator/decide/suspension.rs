//! The copy of a suspended deployment. Its mark is written by itself where the copy cannot be updated as a whole, e.g. because
//! the deployment is invalid: no tenant keeps its cells running by an edit that is not carried.

use super::{Act, Step, copy::held_up, copy_target};
use crate::{
    federator::{
        conditions,
        memory::Memory,
        observe::{HubNamespaceState, Snapshot},
        pauses,
    },
    index::rows::{HubCopy, Source},
    rate_limit::{Class, Permit},
    reason::WriteReason,
};
use fedgate_engine::{
    plan::{Effect, Endpoint, Plan, Write},
    store::table::Row,
};
use serde_json::{Value, json};

/// Marks the copy, or takes the mark off.
pub(super) fn suspension_step(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &Memory,
    permit: Permit,
) -> Option<Step> {
    let key = s.profile().suspension_mark()?;
    let copy = unmarked(s)?;
    if let Some(step) = held_up(permit, Class::Update) {
        return Some(step);
    }
    let mark = if source.digest.suspended {
        json!("true")
    } else {
        Value::Null
    };
    let effect = Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write: Write::Merge {
            patch: json!({"metadata": {"uid": &*copy.uid, "annotations": {key: mark}}}),
        },
        reason: WriteReason::SuspendCopy.into(),
    };
    let mut plan = Plan::one(effect);
    plan.notes.extend(pauses::changed(s));
    Some(Step::Act(Box::new(Act::new(plan, memory.clone()))))
}

/// The copy, if its mark is not that of its deployment and is written by itself.
pub fn unmarked(s: &Snapshot) -> Option<&Row<HubCopy>> {
    s.profile().suspension_mark()?;
    let (source, copy) = (s.source.as_ref()?, s.copy.as_ref()?);
    let is_ours = s.hub_state == HubNamespaceState::Ours
        && !source.deleting
        && !copy.deleting
        && copy.digest.source_uid.as_ref() == Some(&source.uid);
    let differs = source.digest.suspended != copy.digest.suspended;
    let furnished = s.companions_there && s.references.as_ref().is_none_or(|r| !r.resolving);
    let is_held = || conditions::invalid(s, source).is_some() || s.asks_for.is_some() || !furnished;
    (is_ours && differs && (s.suspended || !source.digest.suspended && is_held())).then_some(copy)
}
