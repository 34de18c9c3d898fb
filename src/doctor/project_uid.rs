//! The UID of a project.

use super::{Check, Finding, PreflightError, Subject};
use fedgate_api::keys::PROJECT_IDENTITY;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

/// Checks that the namespace is there whose UID the gateway takes for the project's.
pub(super) async fn check(subject: &Subject) -> Finding {
    let check = Check::ProjectUid;
    let namespaces: Api<Namespace> = Api::all(subject.client.client());
    match namespaces.get_metadata_opt(PROJECT_IDENTITY).await {
        Ok(Some(_)) => subject.ok(check, format!("namespace {PROJECT_IDENTITY} identifies the project")),
        Ok(None) => subject.fail(
            check,
            format!("nothing is carried to the hub: it has no namespace {PROJECT_IDENTITY}, whose UID identifies a project"),
            format!(
                "kubectl create namespace {PROJECT_IDENTITY} in the project; none is needed if the gateway takes its projects \
                 from Milo (--project-mode=milo)"
            ),
        ),
        Err(error) => subject.error(check, &PreflightError::of(&error, "get", "namespaces")),
    }
}
