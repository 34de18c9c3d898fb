//! Permissions: sends a `SelfSubjectAccessReview` to the API server for every rule of the shipped roles.

use super::{Finding, PreflightError};
use fedgate_engine::plane::client::PlaneClient;
use fedgate_kinds::FederatedKind;
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

/// Checks that this user has every permission of the gateway's roles on a plane.
pub async fn rights(
    client: &PlaneClient,
    plane: Plane,
    kinds: &[FederatedKind],
) -> Result<Finding, ManifestError> {
    let carried: Vec<KindManifests> = kinds.iter().map(|kind| KindManifests::of(kind, None)).collect();
    let (name, folder) = match plane {
        Plane::Hub => ("hub", "manifests/hub"),
        _ => ("project", "manifests/project"),
    };
    let wanted = wanted(&fedgate_manifests::objects(plane, &carried)?);
    let total = wanted.len();
    let asked = futures::stream::iter(wanted)
        .map(|right| ask(client, right))
        .buffer_unordered(AT_ONCE);
    let answers: Vec<(Right, bool)> = match asked.try_collect().await {
        Ok(answers) => answers,
        Err(error) => {
            return Ok(Finding::of_error(&PreflightError::of(
                &error,
                "create",
                "selfsubjectaccessreviews",
            )));
        }
    };
    let mut missing: Vec<String> = answers
        .into_iter()
        .filter(|(_, allowed)| !allowed)
        .map(|(r, _)| r.to_string())
        .collect();
    missing.sort();
    Ok(if missing.is_empty() {
        Finding::fine(format!(
            "{name}: this user has all {total} rights of the gateway's roles"
        ))
    } else {
        Finding::bad(
            format!("{name}: rights are missing: {}", missing.join(", ")),
            format!("apply {folder} and bind its roles to this user"),
        )
    })
}

/// The permissions of the gateway's roles among these objects.
fn wanted(objects: &[Value]) -> Vec<Right> {
    let ours = |o: &&Value| {
        matches!(o["kind"].as_str(), Some("ClusterRole" | "Role"))
            && o["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.contains(fedgate_manifests::GATEWAY))
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

    #[test]
    fn the_shipped_roles_say_what_is_asked() {
        let kinds = FederatedKind::builtin().unwrap();
        let carried: Vec<KindManifests> = kinds.iter().map(|kind| KindManifests::of(kind, None)).collect();
        for (plane, resource, verb) in [
            (Plane::Hub, "clusterpropagationpolicies", "delete"),
            (Plane::Hub, "leases", "update"),
            (Plane::Hub, "workloaddeployments", "patch"),
            (Plane::Project, "instances/status", "patch"),
        ] {
            let wanted = wanted(&fedgate_manifests::objects(plane, &carried).unwrap());
            assert!(
                wanted.iter().any(|r| r.resource == resource && r.verb == verb),
                "{resource}: {wanted:?}"
            );
        }
    }
}
