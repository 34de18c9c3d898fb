//! Users made of a `ServiceAccount`, with the gateway's rights or with none, and kubeconfigs for them.

use super::{
    kinds::{Kind, SERVICE_ACCOUNT},
    plane::Plane,
};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::path::Path;

/// A `ServiceAccount`, as a rule bound to whatever the gateway's own user is bound to.
pub(crate) struct Twin {
    plane: Plane,
    namespace: String,
    name: String,
}

impl Twin {
    /// Makes the account and gives it no right at all.
    pub(crate) async fn without_rights(plane: &Plane, namespace: &str, name: &str) -> Self {
        plane
            .create(&SERVICE_ACCOUNT, namespace, json!({"metadata": {"name": name}}))
            .await;
        Self {
            plane: plane.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// An account that is there.
    pub(crate) fn of(plane: &Plane, namespace: &str, name: &str) -> Self {
        Self {
            plane: plane.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The account that the shipped roles are bound to, made if it is not there.
    pub(crate) async fn shipped(plane: &Plane) -> Self {
        let (namespace, name) = (fedgate_manifests::NAMESPACE, super::audit::GATEWAY);
        let account = json!({"metadata": {"name": name}});
        match plane.try_create(&SERVICE_ACCOUNT, namespace, account).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("create the account {name}: {error}"),
        }
        Self {
            plane: plane.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Binds the account to a `ClusterRole`.
    pub(crate) async fn bind(&self, role: &str) {
        let binding = json!({
            "metadata": {"name": format!("{role}-{}-{}", self.namespace, self.name)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}],
        });
        let kind = &super::kinds::CLUSTER_ROLE_BINDING;
        self.plane.create(kind, "", binding).await;
    }

    /// Makes the account and copies the gateway's bindings for it.
    pub(crate) async fn new(plane: &Plane, namespace: &str, name: &str) -> Self {
        let twin = Self::without_rights(plane, namespace, name).await;
        twin.grant(plane).await;
        twin
    }

    /// Copies the gateway's bindings on a plane for it.
    pub(crate) async fn grant(&self, plane: &Plane) {
        let Self { namespace, name, .. } = self;
        let subject = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
        for kind in [&super::kinds::CLUSTER_ROLE_BINDING, &super::kinds::ROLE_BINDING] {
            for binding in gateway_bindings(plane, kind).await {
                let within = binding["metadata"]["namespace"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let copy = json!({
                    "metadata": {"name": format!("{}-{namespace}-{name}", binding["metadata"]["name"].as_str().unwrap_or("b"))},
                    "roleRef": binding["roleRef"],
                    "subjects": subject,
                });
                plane.create(kind, &within, copy).await;
            }
        }
    }

    /// The user under which audit logs name it.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// A new token, valid for an hour.
    pub(crate) async fn token(&self) -> String {
        self.token_for(3600).await
    }

    /// A new token, valid for so many seconds.
    pub(crate) async fn token_for(&self, seconds: i64) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.plane.client(), &self.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(seconds),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(&self.name, &PostParams::default(), &request)
            .await;
        answer
            .expect("a token for the account")
            .status
            .and_then(|status| status.token)
            .expect("a token request is answered")
    }

    /// Ends the account: its tokens are refused from then on, as soon as the server forgets that they were good. Returns when
    /// one is.
    pub(crate) async fn end(&self, kubeconfig: &str) {
        self.plane
            .delete(&SERVICE_ACCOUNT, &self.namespace, &self.name)
            .await;
        let config = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
        super::wait_for("the old token is refused", super::seconds(60), || async {
            let answer = client.apiserver_version().await;
            matches!(answer, Err(kube::Error::Api(status)) if status.code == 401).then_some(())
        })
        .await;
    }

    /// Removes the copied bindings.
    pub(crate) async fn remove(&self) {
        self.revoke(&self.plane).await;
    }

    /// Removes those on a plane.
    pub(crate) async fn revoke(&self, plane: &Plane) {
        for kind in [&super::kinds::CLUSTER_ROLE_BINDING, &super::kinds::ROLE_BINDING] {
            for binding in plane.list(kind, "", "").await {
                let ours = binding["subjects"].as_array().is_some_and(|subjects| {
                    subjects
                        .iter()
                        .any(|s| s["name"] == self.name && s["namespace"] == self.namespace)
                });
                if ours {
                    let within = binding["metadata"]["namespace"].as_str().unwrap_or_default();
                    plane
                        .delete(
                            kind,
                            within,
                            binding["metadata"]["name"].as_str().expect("a name"),
                        )
                        .await;
                }
            }
        }
    }
}

async fn gateway_bindings(plane: &Plane, kind: &Kind) -> Vec<Value> {
    let all = plane
        .api(kind, "")
        .list(&ListParams::default())
        .await
        .expect("list the bindings");
    let all = all
        .items
        .into_iter()
        .map(|o| serde_json::to_value(o).expect("a binding is JSON"));
    all.filter(|binding: &Value| {
        binding["subjects"].as_array().is_some_and(|subjects| {
            subjects
                .iter()
                .any(|s| s["kind"] == "User" && s["name"] == super::audit::GATEWAY)
        })
    })
    .collect()
}

/// The kubeconfig after a change.
pub(crate) fn changed(kubeconfig: &Path, change: impl FnOnce(&mut Value)) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("read a kubeconfig");
    let mut config: Value = serde_saphyr::from_str(&text).expect("a kubeconfig is YAML");
    change(&mut config);
    serde_saphyr::to_string(&config).expect("a kubeconfig prints")
}

/// The kubeconfig with its user's credential replaced by the token.
pub(crate) fn with_token(kubeconfig: &Path, token: &str) -> String {
    changed(kubeconfig, |config| {
        config["users"][0]["user"] = json!({"token": token});
    })
}

/// The kubeconfig with a plugin in place of its user's credential, which no project may have.
pub(crate) fn with_plugin(kubeconfig: &Path) -> String {
    changed(kubeconfig, |config| {
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never",
        }});
    })
}

/// The kubeconfig with another address of the server.
pub(crate) fn with_server(kubeconfig: &Path, address: std::net::SocketAddr) -> String {
    changed(kubeconfig, |config| {
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://{address}"));
    })
}

/// Replaces a file in one step, as a credential agent does.
pub(crate) fn replace(path: &Path, text: &str) {
    let draft = path.with_extension("draft~");
    std::fs::write(&draft, text).expect("write beside the file");
    std::fs::rename(&draft, path).expect("move it into place");
}
