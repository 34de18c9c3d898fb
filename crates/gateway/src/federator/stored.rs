//! Answers of API servers that differ from the object that was sent, for example by defaults: the write is not repeated.

use super::{
    decide,
    memory::Memory,
    observe::{self, Snapshot},
};
use crate::{
    context::Context,
    index::rows::{ConditionsAt, Source},
    reason::WriteReason,
};
use fedgate_engine::{
    key::Key,
    plan::{Applied, Effect, Plan, Write},
};
use fedgate_kinds::ConditionsIn;
use serde_json::Value;

/// Records that an API server answered with something other than what was applied, so that it is not applied
/// forever. The basis is the state that was decided on, because a change that has arrived since then is not applied yet.
pub(super) fn record_stored(
    ctx: &Context<'_>,
    key: &Key,
    before: &Snapshot,
    memory: &mut Memory,
    reason: Option<WriteReason>,
    applied: &Plan<Applied>,
) {
    let Some(after) = observe::observe(&ctx.index.lock(), key, &before.project) else {
        return;
    };
    if reason == Some(WriteReason::ReturnStatus)
        && let Some(got) = &after.source
        && applied.produced_version(&got.resource_version())
    {
        let kind = &before.profile().status;
        if kind.conditions_in == ConditionsIn::Status
            && lost_conditions(&kind.own_conditions, &applied.effects, &got.digest)
        {
            memory.pruned = Some(ctx.now().instant);
        }
    }
    match (reason, &before.source, &before.copy, &after.source, &after.copy) {
        (
            Some(WriteReason::CreateCopy | WriteReason::UpdateCopy | WriteReason::MoveCopy),
            Some(asked),
            _,
            _,
            Some(got),
        ) if applied.produced_version(&got.resource_version()) => {
            memory.payload.record(before.wanted(asked), got.digest.whole());
        }
        (Some(WriteReason::ReturnStatus), _, Some(asked), Some(got), _)
            if applied.produced_version(&got.resource_version())
                && !got.digest.status.is_returned(
                    &asked.digest.status,
                    &before.profile().status.own_conditions,
                    got.digest.generation,
                ) =>
        {
            let (hub, project) = decide::status_digests(asked, got);
            memory.status.record(hub, project);
        }
        _ => {}
    }
}

/// True if the project's API server has stored a status without the gateway's own conditions that were sent with it.
fn lost_conditions(own: &[String], sent: &[Effect], stored: &Source) -> bool {
    let is_own = |condition: &Value| own.iter().any(|kind| condition["type"] == **kind);
    let has_own = |body: &Value| {
        let conditions = body["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(is_own))
    };
    let sent = sent
        .iter()
        .any(|effect| matches!(&effect.write, Write::Apply { body, .. } if has_own(body)));
    let is_elsewhere = stored.conditions == ConditionsAt::Annotation;
    sent && (is_elsewhere || own.iter().all(|kind| stored.status.condition(kind).is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::rows::Strings;
    use fedgate_api::keys;
    use fedgate_engine::{
        key::Plane,
        plan::{Endpoint, ExactFields, Target},
    };
    use fedgate_kinds::{CompanionKinds, FederatedKind};
    use serde_json::json;

    fn source(changes: &Value) -> Source {
        let kind = FederatedKind::builtin().unwrap().remove(0);
        let mut object = changes.clone();
        object["apiVersion"] = json!(kind.resource.api_version);
        object["kind"] = json!(kind.resource.kind);
        let object = serde_json::from_value(object).unwrap();
        Source::read(
            &object,
            &kind,
            &CompanionKinds::default(),
            &mut Strings::default(),
        )
    }

    fn effect(write: Write) -> Effect {
        Effect {
            target: Target::cluster(
                Plane::Hub,
                &crate::index::Resources::default()[crate::index::TableId::Namespaces],
                "x",
            ),
            endpoint: Endpoint::Status,
            write,
            reason: WriteReason::ReturnStatus.into(),
        }
    }

    #[test]
    fn conditions_are_lost_only_if_they_were_sent_and_none_was_stored() {
        let own = ["Federated".to_owned(), "Applied".to_owned()];
        let status = |kinds: &[&str]| {
            let conditions: Vec<Value> = kinds
                .iter()
                .map(|kind| json!({"type": kind, "status": "True"}))
                .collect();
            json!({"conditions": conditions})
        };
        let lost = |sent: &[&str], stored: &[&str]| {
            let write = Write::Apply {
                body: json!({"status": status(sent)}),
                exact: ExactFields::default(),
            };
            let stored = source(&json!({"status": status(stored)}));
            lost_conditions(&own, &[effect(write)], &stored)
        };
        assert!(lost(&["Ready", "Federated"], &[]));
        assert!(lost(&["Federated", "Applied"], &["Ready"]));
        assert!(!lost(&["Federated", "Applied"], &["Applied"]));
        assert!(!lost(&["Ready"], &[]), "the member's own");
        let noted = Write::Merge {
            patch: json!({"status": status(&["Federated"])}),
        };
        assert!(!lost_conditions(&own, &[effect(noted)], &source(&json!({}))));
        let note = json!([{"type": "Federated", "status": "True"}]).to_string();
        let noted = source(&json!({"metadata": {"annotations": {keys::CONDITIONS: note}}}));
        let sent = Write::Apply {
            body: json!({"status": status(&["Federated"])}),
            exact: ExactFields::default(),
        };
        assert!(
            lost_conditions(&own, &[effect(sent)], &noted),
            "those of the annotation were not stored"
        );
    }
}
