//! One plane as the bench sees it: requests by a bare kube client, and what arrives.

use super::{
    objects::Kind,
    sight::{Expected, Sight},
};
use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use serde_json::{Value, json};

/// One plane.
pub(crate) struct Plane {
    name: String,
    client: Client,
    deployments: Sight,
    instances: Sight,
}

/// Text at a path of an object; empty if it is not there.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl Plane {
    pub(crate) async fn new(name: &str, client: Client) -> Result<Self> {
        let sight = |kind: Kind| {
            let client = client.clone();
            async move { Sight::new(name, client, &kind.resource()).await }
        };
        Ok(Self {
            name: name.to_owned(),
            deployments: sight(Kind::Deployment).await?,
            instances: sight(Kind::Instance).await?,
            client,
        })
    }

    /// The server of the plane, with its version.
    pub(crate) async fn version(&self) -> Result<String> {
        let info = self.client.apiserver_version().await;
        let info = info.with_context(|| format!("get the version of {}", self.name))?;
        Ok(format!("kube-apiserver {}", info.git_version))
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = kind.resource();
        if matches!(kind, Kind::Namespace | Kind::ClusterPolicy | Kind::Cluster) {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    fn at(&self, verb: &str, kind: Kind, namespace: &str, name: &str) -> String {
        format!("{verb} {kind:?} {namespace}/{name} on {}", self.name)
    }

    pub(crate) async fn create(&self, kind: Kind, namespace: &str, mut object: Value) -> Result<Value> {
        let resource = kind.resource();
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        let what = self.at("create", kind, namespace, text(&object, "/metadata/name"));
        let object: DynamicObject = serde_json::from_value(object).with_context(|| what.clone())?;
        let created = self
            .api(kind, namespace)
            .create(&PostParams::default(), &object)
            .await
            .context(what)?;
        Ok(serde_json::to_value(created)?)
    }

    pub(crate) async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Value> {
        let object = self.api(kind, namespace).get(name).await;
        Ok(serde_json::to_value(
            object.with_context(|| self.at("get", kind, namespace, name))?,
        )?)
    }

    /// One JSON merge patch.
    pub(crate) async fn merge(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value> {
        let patched = self
            .api(kind, namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        Ok(serde_json::to_value(
            patched.with_context(|| self.at("patch", kind, namespace, name))?,
        )?)
    }

    /// One JSON merge patch of `status`.
    pub(crate) async fn status(&self, kind: Kind, namespace: &str, name: &str, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        let patched = self
            .api(kind, namespace)
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.with_context(|| self.at("patch status of", kind, namespace, name))?;
        Ok(())
    }

    /// Deletes; an absent object is fine.
    pub(crate) async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<()> {
        match self
            .api(kind, namespace)
            .delete(name, &DeleteParams::background())
            .await
        {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            answer => answer
                .map(|_| ())
                .with_context(|| self.at("delete", kind, namespace, name)),
        }
    }

    /// Announces a state of a deployment, see [`Sight::expect`].
    pub(crate) fn deployment(
        &self,
        namespace: &str,
        name: &str,
        test: impl Fn(Option<&DynamicObject>) -> bool + Send + 'static,
    ) -> Expected {
        self.deployments.expect(namespace, name, test)
    }

    /// Announces a state of an Instance.
    pub(crate) fn instance(
        &self,
        namespace: &str,
        name: &str,
        test: impl Fn(Option<&DynamicObject>) -> bool + Send + 'static,
    ) -> Expected {
        self.instances.expect(namespace, name, test)
    }
}

/// There.
pub(crate) fn exists(state: Option<&DynamicObject>) -> bool {
    state.is_some()
}

/// Not there.
pub(crate) fn gone(state: Option<&DynamicObject>) -> bool {
    state.is_none()
}

/// There with this value at the path.
pub(crate) fn has(
    pointer: &'static str,
    value: Value,
) -> impl Fn(Option<&DynamicObject>) -> bool + Send + 'static {
    move |state| state.is_some_and(|object| object.data.pointer(pointer) == Some(&value))
}
