//! A hub and a project as real API servers, with everything that manifests/ gives them, and clients that play users.

use anyhow::Result;
use fedgate_kinds::FederatedKind;
use fedgate_manifests::{KindManifests, Plane};
use fedgate_sandbox::{HubControllers, Manifest, Options, PlaneRole, Progress, Sandbox, User};
use kube::{
    Api, Client, Config, Resource,
    api::DynamicObject,
    config::{KubeConfigOptions, Kubeconfig},
    core::ApiResource,
};
use serde_json::Value;
use std::path::Path;

/// The two planes.
pub(crate) async fn up() -> Result<Sandbox> {
    let kinds: Vec<KindManifests> = FederatedKind::builtin()?
        .iter()
        .map(|kind| KindManifests::of(kind, None))
        .collect();
    let manifest = |plane, role| -> Result<Manifest> {
        Ok(Manifest {
            plane: role,
            yaml: fedgate_manifests::yaml(plane, &kinds)?,
        })
    };
    let options = Options {
        projects: vec!["alpha".to_owned()],
        cells: Vec::new(),
        hub_controllers: HubControllers::Nobody,
        manifests: vec![
            manifest(Plane::Hub, PlaneRole::Hub)?,
            manifest(Plane::Project, PlaneRole::Project)?,
        ],
        progress: Progress::new(|line| eprintln!("sandbox: {line}")),
        ..Options::new(
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("api"),
            env!("CARGO_BIN_EXE_fedgate-sandbox"),
        )
    };
    Sandbox::up(options).await
}

/// A client of the administrator who plays `user` of `groups`.
pub(crate) async fn play(sandbox: &Sandbox, plane: &str, user: &str, groups: &[&str]) -> Result<Client> {
    let file = Kubeconfig::read_from(sandbox.kubeconfig(plane, User::Admin))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups = Some(groups.iter().map(|g| (*g).to_owned()).collect());
    Ok(Client::try_from(config)?)
}

/// Objects of a kind in a namespace, without types.
pub(crate) fn objects<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

/// An object without types.
pub(crate) fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// The answer of a server as one line: the code and the message, `200` if it accepted.
pub(crate) fn verdict<T>(answer: Result<T, kube::Error>) -> String {
    match answer {
        Ok(_) => "200".to_owned(),
        Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
        Err(error) => format!("no answer: {error}"),
    }
}
