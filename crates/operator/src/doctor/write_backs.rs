//! Instances on the hub that nothing takes away: without an owner, and without their deployment's copy (older cells of the
//! peer write no owner). The hub Namespace stays as long as they do, and an operator decides.

use super::{Check, Finding, PreflightError, Subject};
use fedgate_api::names::deployment_of_instance;
use fedgate_kinds::{FederatedKind, WriteBack};
use kube::{
    Api,
    api::{ListParams, PartialObjectMeta},
    core::DynamicObject,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of objects of a kind per run; a run reads only the first ones of a hub with more.
const AT_MOST: u32 = 5000;
/// Maximum number of Instances that are named per Namespace, and of Namespaces.
const NAMED: usize = 5;

type Metadata = PartialObjectMeta<DynamicObject>;

/// Finds Instances that keep their hub Namespace; `None` for a kind that is not written back.
pub(super) async fn check(subject: &Subject, kind: &FederatedKind) -> Option<Finding> {
    let rules = kind.write_back.as_ref()?;
    let client = || subject.client.client();
    let list = ListParams::default().limit(AT_MOST);
    let written: Api<DynamicObject> = Api::all_with(client(), &rules.resource);
    let copies: Api<DynamicObject> = Api::all_with(client(), &kind.resource);
    let (written, copies) = match tokio::try_join!(written.list_metadata(&list), copies.list_metadata(&list))
    {
        Ok((written, copies)) => (written, copies),
        Err(error) => {
            let error = PreflightError::of(
                &error,
                "list",
                &format!("{}.{}", rules.resource.plural, rules.resource.group),
            );
            return Some(subject.error(Check::WriteBacks, &error));
        }
    };
    if copies.metadata.continue_.is_some() {
        let text = format!(
            "the hub has more than {AT_MOST} {}, so Instances that nothing owns were not looked for",
            kind.resource.plural
        );
        return Some(subject.open(
            Check::WriteBacks,
            text,
            "look at gauge fedgate_unlabelled_write_backs",
        ));
    }
    Some(judge(subject, rules, &written.items, &copies.items))
}

fn judge(subject: &Subject, rules: &WriteBack, written: &[Metadata], copies: &[Metadata]) -> Finding {
    let place = |of: &Metadata| {
        (
            of.metadata.namespace.clone().unwrap_or_default(),
            of.metadata.name.clone().unwrap_or_default(),
        )
    };
    let copies: BTreeSet<(String, String)> = copies.iter().map(place).collect();
    let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let owned = |of: &&Metadata| {
        of.metadata
            .owner_references
            .as_ref()
            .is_some_and(|owners| !owners.is_empty())
    };
    for of in written.iter().filter(|of| !owned(of)) {
        let (namespace, name) = place(of);
        let labels = of.metadata.labels.as_ref();
        let labelled = labels
            .and_then(|labels| labels.get(&rules.owner_label))
            .filter(|name| !name.is_empty());
        let deployment = labelled
            .map(String::as_str)
            .or_else(|| deployment_of_instance(&name));
        let has_copy = deployment.is_some_and(|of| copies.contains(&(namespace.clone(), of.to_owned())));
        if !has_copy {
            left.entry(namespace).or_default().push(name);
        }
    }
    if left.is_empty() {
        let text = format!(
            "no {} keeps its Namespace: each has an owner or its deployment",
            rules.resource.kind
        );
        return subject.ok(Check::WriteBacks, text);
    }
    let names_of = |names: &[String]| names.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let named = left.iter().take(NAMED).map(|(namespace, names)| {
        let more = if names.len() > NAMED { " …" } else { "" };
        format!("{namespace} ({}{more})", names_of(names).join(", "))
    });
    let named = named.collect::<Vec<_>>().join("; ");
    let more = if left.len() > NAMED { " …" } else { "" };
    let kind = &rules.resource;
    let first = left
        .iter()
        .next()
        .map(|(namespace, names)| format!("-n {namespace} {}", names_of(names).join(" ")));
    subject.open(
        Check::WriteBacks,
        format!(
            "{} Namespaces are kept by {} that have no owner and whose deployment is gone: {named}{more}",
            left.len(),
            kind.plural,
        ),
        format!(
            "make sure that no cell runs them, then, for each Namespace: kubectl delete {}.{} {}",
            kind.plural,
            kind.group,
            first.unwrap_or_default()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};
    use serde_json::{Value, json};

    fn object(namespace: &str, name: &str, metadata: &Value) -> Metadata {
        let mut object = json!({"metadata": metadata});
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["name"] = json!(name);
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn instances_without_owner_and_deployment_are_named_by_namespace() {
        let kind = &FederatedKind::builtin().unwrap()[0];
        let rules = kind.write_back.as_ref().unwrap();
        let owner = json!({"ownerReferences": [{"apiVersion": "v", "kind": "WorkloadDeployment", "name": "gone", "uid": "u"}]});
        let label = |name: &str| json!({"labels": {rules.owner_label.clone(): name}});
        let copies = [
            object("ns-a", "web", &json!({})),
            object("ns-b", "api", &json!({})),
        ];
        let fine = [
            object("ns-a", "gone-0", &owner),
            object("ns-a", "web-0", &json!({})),
            object("ns-b", "any", &label("api")),
        ];
        assert_eq!(judge(&subject(), rules, &fine, &copies).verdict, Verdict::Ok);
        let left = [
            object("ns-b", "web-0", &json!({})),
            object("ns-c", "any", &json!({"ownerReferences": []})),
            object("ns-a", "web-1", &label("other")),
            object("ns-a", "web-2", &json!({})),
        ];
        let open = judge(&subject(), rules, &left, &copies);
        assert_eq!(open.verdict, Verdict::Open);
        assert!(
            open.text
                .ends_with("is gone: ns-a (web-1); ns-b (web-0); ns-c (any)"),
            "{open}"
        );
        assert!(
            open.next
                .contains("kubectl delete instances.compute.datumapis.com"),
            "{open}"
        );
    }
}
