//! Permissions: sends a `SelfSubjectAccessReview` to the API server for every rule of the shipped roles.

use super::{Check, Finding, PreflightError, Role, Subject};
use fedgate_engine::plane::client::PlaneClient;
use fedgate_manifests::{KindManifests, ManifestError, Plane};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, api::PostParams};
use serde_json::Value;
use std::fmt;

/// Maximum number of concurrent reviews.
const AT_ONCE: usize = 8;

/// A permission that the gateway needs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Right {
    group: String,
    /// Resource with its subresource, as in a role.
    resource: String,
    verb: String,
    namespace: Option<String>,
}

impl Right {
    /// The right of an administrator.
    fn everything() -> Self {
        let all = || "*".to_owned();
        Self {
            group: all(),
            resource: all(),
            verb: all(),
            namespace: None,
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if self.group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", self.group)
        }
    }
}

/// Checks that the user has every permission of its roles, and that it does not have all there are.
pub(super) async fn rights(subject: &Subject, kinds: &[KindManifests]) -> Result<Finding, ManifestError> {
    let check = Check::Permissions;
    let plane = match subject.role {
        Role::Project => Plane::Project,
        Role::Cell => Plane::Cell,
        _ => Plane::Hub,
    };
    let wanted = wanted(&fedgate_manifests::objects(plane, kinds)?, subject.role);
    let total = wanted.len();
    let asked = wanted.into_iter().chain([Right::everything()]);
    let mut refused = match refused(subject, asked).await {
        Ok(refused) => refused,
        Err(finding) => return Ok(finding),
    };
    let asked = refused.len();
    refused.retain(|right| *right != Right::everything());
    let excess = refused.len() == asked;
    let folder = subject.role.folder();
    Ok(if !refused.is_empty() {
        let next = format!("apply {folder} and bind its roles to this user");
        subject.fail(check, format!("rights are missing: {}", listed(&refused)), next)
    } else if excess {
        let next = format!("use a user that has the roles of {folder} alone");
        subject.open(check, "this user may do everything, and needs much less", next)
    } else {
        subject.ok(check, format!("this user has all {total} rights of its roles"))
    })
}

/// Checks that the gateway may ask the hub for the reviews of `--admin-auth=hub`.
pub(super) async fn reviews(subject: &Subject) -> Result<Finding, ManifestError> {
    let check = Check::Permissions;
    let wanted = rules(&fedgate_manifests::reviewer()?, |_| true);
    let total = wanted.len();
    Ok(match refused(subject, wanted).await {
        Err(finding) => finding,
        Ok(refused) if refused.is_empty() => subject.ok(
            check,
            format!("this user has all {total} rights of --admin-auth=hub"),
        ),
        Ok(refused) => subject.fail(
            check,
            format!("rights of --admin-auth=hub are missing: {}", listed(&refused)),
            "apply manifests/hub/admin-auth and bind its role to this user",
        ),
    })
}

/// Permissions of the list that the user does not have; an error is the finding that says why nobody could be asked.
async fn refused(subject: &Subject, rights: impl IntoIterator<Item = Right>) -> Result<Vec<Right>, Finding> {
    let asked = futures::stream::iter(rights)
        .map(|right| ask(&subject.client, right))
        .buffer_unordered(AT_ONCE);
    let answers: Result<Vec<(Right, bool)>, kube::Error> = asked.try_collect().await;
    let answers = answers.map_err(|error| {
        let error = PreflightError::of(&error, "create", "selfsubjectaccessreviews");
        subject.error(Check::Permissions, &error)
    })?;
    let refused = answers.into_iter().filter(|(_, allowed)| !allowed);
    Ok(refused.map(|(right, _)| right).collect())
}

fn listed(rights: &[Right]) -> String {
    let mut names: Vec<String> = rights.iter().map(ToString::to_string).collect();
    names.sort();
    names.join(", ")
}

/// The permissions of the user's roles among these objects. A cell may do without the roles of its provider.
fn wanted(objects: &[Value], role: Role) -> Vec<Right> {
    rules(objects, |name| match role {
        Role::Cell => name == fedgate_manifests::CELL,
        Role::CellHub => [fedgate_manifests::CELL, fedgate_manifests::CELL_RETURNS].contains(&name),
        _ => name.contains(fedgate_manifests::GATEWAY),
    })
}

/// The permissions of those roles among these objects whose names pass.
fn rules(objects: &[Value], is_of: impl Fn(&str) -> bool) -> Vec<Right> {
    let ours = |o: &&Value| {
        matches!(o["kind"].as_str(), Some("ClusterRole" | "Role"))
            && o["metadata"]["name"].as_str().is_some_and(&is_of)
    };
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let mut rights = Vec::new();
    for role in objects.iter().filter(ours) {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        let right = Right {
                            group: group.clone(),
                            resource: resource.clone(),
                            verb,
                            namespace: namespace.clone(),
                        };
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

async fn ask(client: &PlaneClient, right: Right) -> Result<(Right, bool), kube::Error> {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (right.resource.as_str(), None),
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(right.group.clone()),
                resource: Some(resource.to_owned()),
                subresource,
                verb: Some(right.verb.clone()),
                namespace: right.namespace.clone(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.client());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok((right, answer.status.is_some_and(|s| s.allowed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_kinds::FederatedKind;

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
            assert!(
                wanted.iter().any(|r| r.resource == resource && r.verb == verb),
                "{resource}: {wanted:?}"
            );
        }
    }
}
