//! Projects from labelled Secrets.

use super::{
    ProjectEvent, Projects,
    objects::{Change, Objects},
};
use crate::plane::{
    client::Connection,
    kubeconfig::{Credential, Rules},
};
use fedgate_api::keys::PROJECT_SECRET;
use futures::{Stream, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

/// Secrets per page of a list.
const PAGE: u32 = 50;

pub(super) fn stream(
    plane: Connection,
    namespace: String,
    projects: Projects,
    rules: Rules,
) -> impl Stream<Item = ProjectEvent> + Send {
    let label = format!("{PROJECT_SECRET}=true");
    let of = namespace.clone();
    let api = move |client| Api::<Secret>::namespaced(client, &of);
    let secrets = Objects::new(plane, api, &label, PAGE);
    let state = (secrets, projects, namespace);
    stream::unfold(state, move |(mut secrets, mut projects, namespace)| async move {
        loop {
            if let Some(event) = projects.events.pop_front() {
                return Some((event, (secrets, projects, namespace)));
            }
            match secrets.next().await {
                Change::Apply(secret) => {
                    let (name, found) = (secret.name_any(), read(&secret, &namespace, rules));
                    projects.put(&name, || format!("Secret {namespace}/{name}"), None, found);
                }
                Change::Delete(secret) => projects.remove(&secret.name_any()),
                Change::Listed(listed) => projects.retain(&listed),
                Change::Failed(error, true) => tracing::warn!(
                    %namespace, %error,
                    "the projects' Secrets cannot be read; check that the namespace exists and that this user may get, list and watch secrets there"
                ),
                Change::Failed(_, false) | Change::Reconnected => {}
            }
        }
    })
}

fn read(secret: &Secret, namespace: &str, rules: Rules) -> Result<Credential, String> {
    let name = secret.name_any();
    match secret.data.as_ref().and_then(|d| d.get("kubeconfig")) {
        Some(text) => Credential::from_secret(namespace, &name, &text.0, rules).map_err(|e| e.to_string()),
        None => Err(format!(
            "Secret {namespace}/{name}: key kubeconfig is missing, its keys are {}; store the kubeconfig under kubeconfig (Cluster API and Flux have it under value), or take the label fedgate.dev/project off",
            keys(secret)
        )),
    }
}

/// The keys that a Secret has instead: Cluster API's and Flux's key is `value`, Argo CD has `config` and `server`.
fn keys(secret: &Secret) -> String {
    let keys: Vec<&str> = secret
        .data
        .iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    if keys.is_empty() {
        "none".to_owned()
    } else {
        keys.join(", ")
    }
}
