//! Checks of the hub that are no requirement for the start.

use super::{Check, Finding, PreflightError, Subject, karmada::look_for_skip, preflight};
use fedgate_gateway::index::{Resources, TableId};
use fedgate_kinds::Kinds;
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, ObjectList},
};
use std::collections::BTreeMap;

/// Checks that Karmada's kinds and ours are served.
pub(super) async fn kinds(subject: &Subject, kinds: &Kinds) -> Finding {
    match preflight::served(&subject.client, kinds).await {
        Ok(()) => subject.ok(Check::Kinds, "Karmada's kinds and ours are served"),
        Err(error) => subject.error(Check::Kinds, &error),
    }
}

/// Checks Karmada's webhook. Policies that have their ids do not say that a new one gets its own.
pub(super) async fn webhook(subject: &Subject) -> Finding {
    match preflight::webhook_acts(&subject.client).await {
        Ok(()) if preflight::is_stand_in(&subject.client).await.unwrap_or(false) => subject.ok(
            Check::Webhook,
            "this is the sandbox's stand-in for Karmada, which needs no webhook",
        ),
        Ok(()) => subject.ok(Check::Webhook, "Karmada's webhook gives policies their identity"),
        Err(error) => subject.error(Check::Webhook, &error),
    }
}

/// Checks what Karmada propagates, as far as its bindings show it.
pub(super) async fn bindings(subject: &Subject) -> Vec<Finding> {
    let api: Api<DynamicObject> =
        Api::all_with(subject.client.client(), &Resources::default()[TableId::Bindings]);
    match api.list(&ListParams::default().limit(500)).await {
        Ok(list) => vec![dependencies(subject, &list), instances(subject, &list)],
        Err(error) => {
            let error = PreflightError::of(&error, "list", "resourcebindings.work.karmada.io");
            vec![subject.error(Check::PropagateDeps, &error)]
        }
    }
}

fn dependencies(subject: &Subject, list: &ObjectList<DynamicObject>) -> Finding {
    let depended = |b: &DynamicObject| {
        let mut keys = b.metadata.labels.iter().flat_map(BTreeMap::keys);
        keys.any(|k| k.starts_with("resourcebinding.karmada.io/depended-by-"))
    };
    if list.iter().any(depended) {
        return subject.ok(
            Check::PropagateDeps,
            "PropagateDeps is on: ConfigMaps and Secrets follow their deployments",
        );
    }
    subject.open(
        Check::PropagateDeps,
        "PropagateDeps cannot be seen: no binding depends on another yet",
        "make sure that karmada-controller-manager does not run with --feature-gates=PropagateDeps=false",
    )
}

/// Instances are written by cells; a binding of one says that Karmada carries them back.
fn instances(subject: &Subject, list: &ObjectList<DynamicObject>) -> Finding {
    let check = Check::SkippedPropagatingApis;
    let of_instance = |b: &&DynamicObject| {
        let of = &b.data["spec"]["resource"];
        of["kind"] == "Instance" && of["apiVersion"] == fedgate_api::API_VERSION
    };
    match list.iter().find(of_instance) {
        Some(binding) => {
            let name = binding.metadata.name.as_deref().unwrap_or_default();
            let text = format!("Karmada propagates Instances, which cells write: ResourceBinding {name}");
            subject.fail(check, text, look_for_skip())
        }
        None => subject.open(
            check,
            "that Instances are skipped cannot be seen from here",
            look_for_skip(),
        ),
    }
}
