//! Which hub a project's deployments name, and whether the platform knows the projects that the hub's Namespaces name.

use super::{Check, Finding, PreflightError, Subject, project_uid::Platform};
use fedgate_api::{
    keys::{
        CITY_CODE, HUB, HUB_IDENTITY, LOCATION, PROJECT_UID, REPLACES_HUB, SYSTEM_NAMESPACE, UPSTREAM_CLUSTER,
    },
    names::HubNamespace,
};
use fedgate_engine::plane::discovery::MiloForm;
use fedgate_kinds::FederatedKind;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{ListParams, PartialObjectMeta},
    core::DynamicObject,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of objects of a kind per run; a run reads only the first ones of a plane with more.
const AT_MOST: u32 = 5000;
/// Maximum number of objects that are named.
const NAMED: usize = 5;

/// The hub's identity, as its Namespaces tell it.
#[derive(Debug, Clone, Default)]
pub(super) struct HubNames {
    /// Its UID.
    uid: Option<String>,
    /// Hubs whose place it takes.
    replaces: BTreeSet<String>,
    /// The projects that its Namespaces name: name by UID.
    projects: BTreeMap<String, String>,
    /// Its cells: name by the UID of the member's namespace `kube-system`.
    cells: BTreeMap<String, String>,
}

impl HubNames {
    /// Reads the Namespaces of the hub; `None` if they cannot be read.
    pub(super) async fn read(subject: &Subject, clusters: &[DynamicObject]) -> Option<Self> {
        let namespaces: Api<Namespace> = Api::all(subject.client.client());
        let list = ListParams::default().limit(AT_MOST);
        let found = namespaces.list_metadata(&list).await.ok()?;
        let mut names = Self::of(&found.items);
        let cells = clusters.iter().filter_map(|cluster| {
            let labels = cluster.metadata.labels.as_ref()?;
            let is_cell = labels.contains_key(CITY_CODE) || labels.contains_key(LOCATION);
            let id = cluster.data["spec"]["id"].as_str().filter(|_| is_cell)?;
            Some((id.to_owned(), cluster.metadata.name.clone()?))
        });
        names.cells.extend(cells);
        Some(names)
    }

    /// The hub itself or the cell whose plane has this UID, in words.
    pub(super) fn known_as(&self, uid: &str) -> Option<String> {
        let cell = self.cells.get(uid).map(|cell| format!("cell {cell}"));
        cell.or_else(|| (self.uid.as_deref() == Some(uid)).then(|| "the hub itself".to_owned()))
    }

    fn of(namespaces: &[PartialObjectMeta<Namespace>]) -> Self {
        let mut names = Self::default();
        for namespace in namespaces {
            let meta = &namespace.metadata;
            let name = meta.name.as_deref().unwrap_or_default();
            let annotation = |key| meta.annotations.as_ref().and_then(|all| all.get(key));
            let label = |key| meta.labels.as_ref().and_then(|all| all.get(key));
            if name == HUB_IDENTITY {
                names.uid.clone_from(&meta.uid);
            } else if name == SYSTEM_NAMESPACE {
                let text = annotation(REPLACES_HUB).into_iter();
                let uids = text
                    .flat_map(|text| text.split(','))
                    .map(|uid| uid.trim().to_owned());
                names.replaces.extend(uids);
            } else if let Some(uid) = label(PROJECT_UID).filter(|_| HubNamespace::parse(name).is_some()) {
                let project = label(UPSTREAM_CLUSTER).map_or(uid.as_str(), String::as_str);
                let project = project.strip_prefix("cluster-").unwrap_or(project);
                names.projects.insert(uid.clone(), project.to_owned());
            }
        }
        names
    }
}

/// Checks that the project's deployments name this hub, or none.
pub(super) async fn named(subject: &Subject, kinds: &[FederatedKind], hub: Option<&HubNames>) -> Finding {
    let check = Check::ProjectHub;
    let Some((hub, own)) = hub.and_then(|hub| Some((hub, hub.uid.as_deref()?))) else {
        let text = "the UID of the hub is not known, so the one that the deployments name was not compared";
        return subject.open(
            check,
            text,
            "give --hub-kubeconfig of a user who may list its Namespaces",
        );
    };
    let mut others: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in kinds {
        let api: Api<DynamicObject> = Api::all_with(subject.client.client(), &kind.resource);
        let found = match api.list_metadata(&ListParams::default().limit(AT_MOST)).await {
            Ok(found) => found,
            Err(error) => {
                let resource = format!("{}.{}", kind.resource.plural, kind.resource.group);
                return subject.error(check, &PreflightError::of(&error, "list", &resource));
            }
        };
        for object in found.items {
            let meta = object.metadata;
            let named = meta.annotations.as_ref().and_then(|all| all.get(HUB));
            if let Some(uid) = named.filter(|uid| *uid != own && !hub.replaces.contains(*uid)) {
                let (namespace, name) = (meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default());
                others
                    .entry(uid.clone())
                    .or_default()
                    .push(format!("{namespace}/{name}"));
            }
        }
    }
    judge(subject, own, &others)
}

fn judge(subject: &Subject, own: &str, others: &BTreeMap<String, Vec<String>>) -> Finding {
    let check = Check::ProjectHub;
    if others.is_empty() {
        return subject.ok(check, format!("no deployment names another hub than {own}"));
    }
    let lines = others.iter().map(|(uid, names)| {
        let more = if names.len() > NAMED { ", …" } else { "" };
        let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        format!("{} name hub {uid} ({first}{more})", names.len())
    });
    let lines = lines.collect::<Vec<_>>().join("; ");
    subject.fail(
        check,
        format!("two gateways have the project: of its deployments {lines}, not this hub {own}"),
        "take the project from one of the gateways, by --project-selector or its kubeconfig; docs/runbooks/FedgateProjectRefused.md says how it moves to this hub",
    )
}

/// Checks that the platform has the projects that the hub's Namespaces name; `None` if the project is of no platform.
pub(super) async fn known(subject: &Subject, hub: Option<&HubNames>) -> Option<Finding> {
    let check = Check::HubProjects;
    let Platform { client, .. } = subject.platform.as_ref()?;
    let hub = hub?;
    let resource = MiloForm::Projects.resource();
    let projects: Api<DynamicObject> = Api::all_with(client.client(), &resource);
    let of_platform = match projects.list_metadata(&ListParams::default()).await {
        Ok(found) => found.items.into_iter().filter_map(|project| project.metadata.uid),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Some(subject.open(
                check,
                "this user may not list Projects, so those that the hub's Namespaces name were not looked for",
                "give it get, list and watch of projects.resourcemanager.miloapis.com",
            ));
        }
        Err(error) => {
            let error = PreflightError::of(&error, "list", "projects.resourcemanager.miloapis.com");
            return Some(subject.error(check, &error));
        }
    };
    Some(compare(subject, hub, &of_platform.collect()))
}

fn compare(subject: &Subject, hub: &HubNames, of_platform: &BTreeSet<String>) -> Finding {
    let check = Check::HubProjects;
    let unknown = hub.projects.iter().filter(|(uid, _)| !of_platform.contains(*uid));
    let unknown: BTreeSet<&str> = unknown.map(|(_, name)| name.as_str()).collect();
    let all = hub.projects.len();
    if unknown.is_empty() {
        return subject.ok(
            check,
            format!("the platform has all {all} projects that the hub's Namespaces name"),
        );
    }
    let more = if unknown.len() > NAMED { ", …" } else { "" };
    let first = unknown.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    subject.fail(
        check,
        format!(
            "{} of the {all} projects that the hub's Namespaces name are unknown to the platform: {first}{more}",
            unknown.len()
        ),
        "give the gateway the hub of this platform; if these Projects were deleted, nothing: what is left of them goes, or see docs/runbooks/FedgateGarbageBrake.md",
    )
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};
    use serde_json::{Value, json};

    fn namespace(metadata: &Value) -> PartialObjectMeta<Namespace> {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn of_project(name: &str, project: &str, uid: &str) -> PartialObjectMeta<Namespace> {
        let label = format!("cluster-{project}");
        namespace(&json!({"name": name, "uid": name, "labels": {UPSTREAM_CLUSTER: label, PROJECT_UID: uid}}))
    }

    fn hub() -> HubNames {
        HubNames::of(&[
            namespace(&json!({"name": "kube-system", "uid": "hub-a"})),
            namespace(
                &json!({"name": "fedgate-system", "uid": "s", "annotations": {REPLACES_HUB: "hub-x, hub-y"}}),
            ),
            of_project("ns-1", "shop", "p1"),
            of_project("ns-2", "shop", "p1"),
            of_project("ns-3", "bank", "p2"),
            of_project("elsewhere", "other", "p3"),
        ])
    }

    #[test]
    fn the_hubs_namespaces_say_which_hub_it_is_and_whose_they_are() {
        let hub = hub();
        assert_eq!(hub.uid.as_deref(), Some("hub-a"));
        assert_eq!(
            hub.replaces,
            BTreeSet::from(["hub-x".to_owned(), "hub-y".to_owned()])
        );
        let projects: Vec<&str> = hub.projects.values().map(String::as_str).collect();
        assert_eq!(projects, ["shop", "bank"]);
    }

    #[test]
    fn projects_that_the_platform_does_not_have_are_named() {
        let of = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect();
        assert_eq!(
            compare(&subject(), &hub(), &of(&["p1", "p2", "p9"])).verdict,
            Verdict::Ok
        );
        let found = compare(&subject(), &hub(), &of(&["p2"]));
        assert_eq!(found.verdict, Verdict::Fail);
        assert!(
            found.text.starts_with("1 of the 2 projects") && found.text.ends_with("platform: shop"),
            "{found}"
        );
    }

    #[test]
    fn deployments_of_another_hub_are_named_with_it() {
        let none = BTreeMap::new();
        assert_eq!(judge(&subject(), "hub-a", &none).verdict, Verdict::Ok);
        let names = (0..7).map(|n| format!("default/web-{n}")).collect();
        let found = judge(
            &subject(),
            "hub-a",
            &BTreeMap::from([("hub-b".to_owned(), names)]),
        );
        assert_eq!(found.verdict, Verdict::Fail);
        assert!(
            found.text.contains("7 name hub hub-b (default/web-0, ") && found.text.contains("web-4, …)"),
            "{found}"
        );
    }
}
