//! Marks the copy of a suspended deployment as suspended. The mark is a write of its own where the copy cannot be updated as a
//! whole, for example because the deployment is invalid. Otherwise a tenant could keep Instances running by an invalid edit.

use super::{Act, CopyStep, Pass, copy::await_permit, copy_target};
use crate::{
    federator::{
        conditions,
        memory::Memory,
        observe::{HubNamespaceState, Snapshot},
        pauses,
    },
    index::rows::HubCopy,
    rate_limit::Class,
    reason::WriteReason,
};
use fedgate_engine::{
    plan::{Effect, Plan, Write},
    store::table::Row,
};
use serde_json::{Value, json};

/// Marks the copy as suspended, or removes the mark.
pub(super) fn suspend(p: &Pass<'_>, memory: &Memory) -> Option<CopyStep> {
    let Pass { s, source, .. } = *p;
    let key = s.profile().suspension_mark()?;
    let copy = unmarked(s)?;
    if let Some(step) = await_permit(p, Class::Update) {
        return Some(step);
    }
    let mark = if source.digest.suspended {
        json!("true")
    } else {
        Value::Null
    };
    let patch = json!({"metadata": {"uid": &*copy.uid, "annotations": {key: mark}}});
    let effect = Effect::main(copy_target(s), Write::Merge { patch }, WriteReason::SuspendCopy);
    let mut plan = Plan::one(effect);
    plan.notes.extend(pauses::changed(s));
    Some(CopyStep::Act(Box::new(Act::new(plan, memory.clone()))))
}

/// The copy, if its mark is not that of its deployment and is written by itself.
pub fn unmarked(s: &Snapshot) -> Option<&Row<HubCopy>> {
    let (source, copy) = (s.source.as_ref()?, s.copy.as_ref()?);
    let differs = pauses::differs(s) && s.hub_state == HubNamespaceState::Ours && !copy.deleting;
    let is_held =
        || conditions::invalid(s, source).is_some() || s.asks_for.is_some() || !s.companions.allow_write();
    (differs && (s.suspended || !source.digest.suspended && is_held())).then_some(copy)
}
