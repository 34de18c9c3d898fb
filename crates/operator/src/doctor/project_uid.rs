//! The UID of a project.

use super::{Check, Finding, PreflightError, Subject, project_hub::HubNames};
use fedgate_api::keys::PROJECT_IDENTITY;
use fedgate_engine::plane::{client::PlaneClient, discovery::MiloForm};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, core::DynamicObject};

/// The API server of a platform that has a project as an object.
#[derive(Debug)]
pub struct Platform {
    /// Its client.
    pub client: PlaneClient,
    /// Name of the Project.
    pub project: String,
}

/// Checks that the object is there whose UID the gateway takes for the project's: the Project of a platform, else a namespace
/// that is neither the hub's nor a cell's.
pub(super) async fn check(subject: &Subject, hub: Option<&HubNames>) -> Finding {
    match &subject.platform {
        Some(platform) => of_platform(subject, platform).await,
        None => of_namespace(subject, hub).await,
    }
}

async fn of_namespace(subject: &Subject, hub: Option<&HubNames>) -> Finding {
    let check = Check::ProjectUid;
    let namespaces: Api<Namespace> = Api::all(subject.client.client());
    match namespaces.get_metadata_opt(PROJECT_IDENTITY).await {
        Ok(Some(found)) => match hub.and_then(|hub| hub.known_as(found.metadata.uid.as_deref()?)) {
            Some(known) => subject.fail(
                check,
                format!("nothing is carried to the hub: by the UID of its namespace {PROJECT_IDENTITY} it is {known}"),
                "give the project the kubeconfig of an API server of its own",
            ),
            None => subject.ok(check, format!("namespace {PROJECT_IDENTITY} identifies the project")),
        },
        Ok(None) => subject.fail(
            check,
            format!("nothing is carried to the hub: it has no namespace {PROJECT_IDENTITY}, whose UID identifies a project"),
            format!("kubectl create namespace {PROJECT_IDENTITY} in the project"),
        ),
        Err(error) => subject.error(check, &PreflightError::of(&error, "get", "namespaces")),
    }
}

async fn of_platform(subject: &Subject, platform: &Platform) -> Finding {
    let check = Check::ProjectUid;
    let name = &platform.project;
    let resource = MiloForm::Projects.resource();
    let projects: Api<DynamicObject> = Api::all_with(platform.client.client(), &resource);
    match projects.get(name).await {
        Ok(project) if project.metadata.deletion_timestamp.is_some() => subject.fail(
            check,
            format!("Project {name} is being deleted: its deployments go with it"),
            "nothing, if that is wanted; else make it again when it is gone",
        ),
        Ok(project) if !MiloForm::Projects.is_ready(&project) => subject.open(
            check,
            format!("Project {name} is not Ready, so the gateway does not use it yet"),
            "look at its conditions",
        ),
        Ok(_) => subject.ok(check, format!("Project {name} identifies it, and is Ready")),
        Err(kube::Error::Api(status)) if status.code == 404 => subject.fail(
            check,
            format!("there is no Project {name}; its path answers under any name"),
            "check the path in clusters[].cluster.server",
        ),
        Err(kube::Error::Api(status)) if status.code == 403 => subject.open(
            check,
            format!("this user may not get Project {name}, whose UID identifies it"),
            "give it get, list and watch of projects.resourcemanager.miloapis.com",
        ),
        Err(error) => subject.error(
            check,
            &PreflightError::of(&error, "get", "projects.resourcemanager.miloapis.com"),
        ),
    }
}
