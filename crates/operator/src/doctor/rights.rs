//! Permissions: sends a `SelfSubjectAccessReview` to the API server for every rule of the shipped roles.

use super::{Check, Finding, PreflightError, Role, Subject};
use fedgate_engine::plane::client::PlaneClient;
use fedgate_manifests::{CELL, CELL_RETURNS, GATEWAY};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, api::PostParams};
use serde_json::Value;

/// Maximum number of concurrent reviews.
const AT_ONCE: usize = 8;

/// Checks that the user has every permission of its roles among these objects, and that it does not have all there are.
pub(super) async fn rights(subject: &Subject, objects: &[Value]) -> Finding {
    let check = Check::Permissions;
    let wanted = wanted(objects, subject.role);
    let total = wanted.len();
    let everything = right("*", "*", "*", None);
    let asked = wanted.into_iter().chain([everything.clone()]);
    let mut refused = match refused(subject, asked).await {
        Ok(refused) => refused,
        Err(finding) => return finding,
    };
    let asked = refused.len();
    refused.retain(|right| *right != everything);
    let excess = refused.len() == asked;
    let folder = subject.role.folder();
    if !refused.is_empty() {
        let next = format!("apply {folder} and bind its roles to this user");
        subject.fail(check, format!("rights are missing: {}", listed(&refused)), next)
    } else if excess {
        let next = format!("use a user that has the roles of {folder} alone");
        subject.open(check, "this user may do everything, and needs much less", next)
    } else {
        subject.ok(check, format!("this user has all {total} rights of its roles"))
    }
}

/// Checks that the gateway may ask the hub for the reviews of `--admin-auth=hub`, which these objects permit.
pub(super) async fn reviews(subject: &Subject, reviewer: &[Value]) -> Finding {
    let check = Check::Permissions;
    let wanted = rules(reviewer, |_| true);
    let total = wanted.len();
    match refused(subject, wanted).await {
        Err(finding) => finding,
        Ok(refused) if refused.is_empty() => {
            let text = format!("this user has all {total} rights of --admin-auth=hub");
            subject.ok(check, text)
        }
        Ok(refused) => {
            let text = format!("rights of --admin-auth=hub are missing: {}", listed(&refused));
            let next = "apply manifests/hub/admin-auth and bind its role to this user";
            subject.fail(check, text, next)
        }
    }
}

/// Permissions of the list that the user does not have; an error is the finding that says why nobody could be asked.
async fn refused(
    subject: &Subject,
    rights: impl IntoIterator<Item = ResourceAttributes>,
) -> Result<Vec<ResourceAttributes>, Finding> {
    let asked = futures::stream::iter(rights).map(|right| ask(&subject.client, right));
    let answers: Result<Vec<_>, kube::Error> = asked.buffer_unordered(AT_ONCE).try_collect().await;
    let answers = answers.map_err(|error| {
        let error = PreflightError::of(&error, "create", "selfsubjectaccessreviews");
        subject.error(Check::Permissions, &error)
    })?;
    Ok(answers.into_iter().flatten().collect())
}

fn listed(rights: &[ResourceAttributes]) -> String {
    let name = |right: &ResourceAttributes| {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (verb, resource) = (text(&right.verb), text(&right.resource));
        let sub = right.subresource.as_ref().map(|sub| format!("/{sub}"));
        let group = right.group.as_ref().filter(|group| !group.is_empty());
        let group = group.map(|group| format!(".{group}"));
        format!("{verb} {resource}{}{}", text(&sub), text(&group))
    };
    let mut names: Vec<String> = rights.iter().map(name).collect();
    names.sort();
    names.join(", ")
}

/// The permissions of the user's roles among these objects. A cell may do without the roles of its provider.
fn wanted(objects: &[Value], role: Role) -> Vec<ResourceAttributes> {
    rules(objects, |name| match role {
        Role::Cell => name == CELL,
        Role::CellHub => [CELL, CELL_RETURNS].contains(&name),
        _ => name.contains(GATEWAY),
    })
}

/// A permission; the resource may have its subresource, as in a role.
fn right(group: &str, resource: &str, verb: &str, namespace: Option<&str>) -> ResourceAttributes {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (resource, None),
    };
    ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

/// The permissions of those roles among these objects whose names pass.
fn rules(objects: &[Value], is_of: impl Fn(&str) -> bool) -> Vec<ResourceAttributes> {
    fn list(value: &Value) -> impl Iterator<Item = &Value> {
        value.as_array().into_iter().flatten()
    }
    let texts = |value| list(value).filter_map(Value::as_str);
    let ours = |o: &&Value| {
        matches!(o["kind"].as_str(), Some("ClusterRole" | "Role"))
            && o["metadata"]["name"].as_str().is_some_and(&is_of)
    };
    let mut rights = Vec::new();
    for role in objects.iter().filter(ours) {
        let namespace = role["metadata"]["namespace"].as_str();
        for rule in list(&role["rules"]) {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for right in texts(&rule["verbs"]).map(|verb| right(group, resource, verb, namespace)) {
                        if !rights.contains(&right) {
                            rights.push(right);
                        }
                    }
                }
            }
        }
    }
    rights
}

/// The permission, if the user does not have it.
async fn ask(
    client: &PlaneClient,
    right: ResourceAttributes,
) -> Result<Option<ResourceAttributes>, kube::Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(right.clone()),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.client());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok((!answer.status.is_some_and(|status| status.allowed)).then_some(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_kinds::FederatedKind;
    use fedgate_manifests::{KindManifests, Plane};

    #[test]
    fn the_shipped_roles_say_what_is_asked() {
        let kinds = FederatedKind::builtin().unwrap().into();
        let kinds = KindManifests::all(&kinds, false);
        for (plane, role, resource, verb) in [
            (Plane::Hub, Role::Hub, "clusterpropagationpolicies", "delete"),
            (Plane::Hub, Role::Hub, "leases", "update"),
            (Plane::Hub, Role::Hub, "workloaddeployments", "patch"),
            (Plane::Hub, Role::CellHub, "instances", "create"),
            (Plane::Project, Role::Project, "instances/status", "patch"),
            (Plane::Cell, Role::Cell, "instances", "create"),
        ] {
            let wanted = wanted(&fedgate_manifests::objects(plane, &kinds).unwrap(), role);
            let like = right("", resource, verb, None);
            let is_like = |right: &ResourceAttributes| {
                let of = |right: &ResourceAttributes| {
                    let ResourceAttributes {
                        resource,
                        subresource,
                        verb,
                        ..
                    } = right.clone();
                    (resource, subresource, verb)
                };
                of(right) == of(&like)
            };
            assert!(wanted.iter().any(is_like), "{resource}: {wanted:?}");
        }
    }
}
