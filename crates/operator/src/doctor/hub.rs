//! Checks of the hub that are no requirement for the start.

use super::{Check, Finding, PreflightError, Subject, karmada::look_for_skip, preflight};
use fedgate_gateway::index::{
    Resources,
    rows::{CityPolicy, CitySet},
};
use fedgate_kinds::{FederatedKind, Kinds};
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, ObjectList},
};
use std::collections::BTreeMap;

/// Most policies of a kind that are read.
const AT_MOST: u32 = 5000;

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
        Ok(()) if preflight::is_stand_in(&subject.client).await.unwrap_or(false) => {
            let text = "this is the sandbox's stand-in for Karmada, which needs no webhook";
            subject.ok(Check::Webhook, text)
        }
        Ok(()) => subject.ok(Check::Webhook, "Karmada's webhook gives policies their identity"),
        Err(error) => subject.error(Check::Webhook, &error),
    }
}

/// Checks what Karmada propagates, as far as its bindings show it.
pub(super) async fn bindings(subject: &Subject) -> Vec<Finding> {
    let api: Api<DynamicObject> = Api::all_with(subject.client.client(), &Resources::default().bindings);
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

/// Checks that no policy of another client can take objects of tenants.
pub(super) async fn policies(subject: &Subject, kinds: &[FederatedKind]) -> Finding {
    let resources = Resources::default();
    let mut taking = Vec::new();
    for resource in [&resources.city_sets, &resources.city_policies] {
        let api: Api<DynamicObject> = Api::all_with(subject.client.client(), resource);
        match api.list(&ListParams::default().limit(AT_MOST)).await {
            Ok(list) => taking.extend(list.items.iter().filter(|of| is_intruder(of, kinds)).map(|of| {
                let namespace = of.metadata.namespace.iter().map(|name| format!("{name}/"));
                let path: String = namespace.chain(of.metadata.name.clone()).collect();
                format!("{} {path}", resource.kind)
            })),
            Err(error) => {
                let resource = format!("{}.{}", resource.plural, resource.group);
                return subject.error(Check::Policies, &PreflightError::of(&error, "list", &resource));
            }
        }
    }
    if taking.is_empty() {
        return subject.ok(
            Check::Policies,
            "no policy of another client matches objects of tenants",
        );
    }
    subject.fail(
        Check::Policies,
        format!("policies of others match objects of tenants in Namespaces ns-* and take them to their own clusters: {}", taking.join(", ")),
        "give their resourceSelectors a namespace, a name or a label of their owners' objects; two operators whose objects are in the \
         same Namespaces need a hub each (docs/operations/install.md)",
    )
}

fn is_intruder(policy: &DynamicObject, kinds: &[FederatedKind]) -> bool {
    if policy.metadata.namespace.is_some() {
        CityPolicy::read(policy, &kinds.to_vec().into()).is_intruder
    } else {
        CitySet::read(policy, "", kinds).is_intruder
    }
}

/// Checks that each kind's interpreter exists, is ours, and has no competing one.
pub(super) async fn interpreters(subject: &Subject, kinds: &[FederatedKind]) -> Vec<Finding> {
    let api: Api<DynamicObject> = Api::all_with(subject.client.client(), &Resources::default().interpreters);
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(error) => {
            let resource = "resourceinterpretercustomizations.config.karmada.io";
            let error = PreflightError::of(&error, "list", resource);
            return vec![subject.error(Check::Interpreters, &error)];
        }
    };
    let check = Check::Interpreters;
    let mut findings = Vec::new();
    for kind in kinds {
        let wanted = kind.interpreter_object();
        let name = &kind.interpreter.name;
        let object = format!("ResourceInterpreterCustomization {name}");
        let target = |c: &DynamicObject| c.data["spec"]["target"] == wanted["spec"]["target"];
        let duplicates: Vec<_> = list
            .iter()
            .filter(|c| target(c) && c.metadata.name.as_ref() != Some(name))
            .filter_map(|c| c.metadata.name.clone())
            .collect();
        findings.push(match list.iter().find(|c| c.metadata.name.as_ref() == Some(name)) {
            None => subject.open(
                check,
                format!("{object} is missing"),
                "the gateway writes it with --manage-interpreters=true; else apply manifests/hub/interpreters",
            ),
            Some(live) if live.data["spec"] != wanted["spec"] => subject.fail(
                check,
                format!("{object} differs from the kind's folder"),
                "the gateway restores it with --manage-interpreters=true; else apply manifests/hub/interpreters",
            ),
            Some(_) => subject.ok(check, format!("{object} is ours")),
        });
        if !duplicates.is_empty() {
            findings.push(subject.fail(
                check,
                format!(
                    "{object} has duplicates for the same kind: {}",
                    duplicates.join(", ")
                ),
                format!(
                    "delete them: kubectl delete resourceinterpretercustomization {}",
                    duplicates.join(" ")
                ),
            ));
        }
    }
    findings
}
