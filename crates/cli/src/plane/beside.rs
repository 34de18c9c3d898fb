//! Reads of other kinds and of other planes: the hub and the cells, for those who have access to them.

use super::{Choice, PAGE, Plane, client};
use crate::{error::Error, view::Object};
use kube::{
    Api,
    api::{ApiResource, ListParams},
    core::DynamicObject,
};

/// A kind beside those of the compute API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    /// Namespaces.
    Namespaces,
    /// Karmada's bindings of templates to clusters.
    Bindings,
    /// Karmada's policies of a namespace.
    Policies,
    /// Karmada's policies of all namespaces.
    ClusterPolicies,
    /// Karmada's members.
    Clusters,
    /// Deployments on any plane.
    Deployments,
    /// Instances on any plane.
    Instances,
}

impl Other {
    fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = match self {
            Self::Namespaces => ("", "v1", "Namespace", "namespaces"),
            Self::Bindings => (
                "work.karmada.io",
                "v1alpha2",
                "ResourceBinding",
                "resourcebindings",
            ),
            Self::Policies => (
                "policy.karmada.io",
                "v1alpha1",
                "PropagationPolicy",
                "propagationpolicies",
            ),
            Self::ClusterPolicies => (
                "policy.karmada.io",
                "v1alpha1",
                "ClusterPropagationPolicy",
                "clusterpropagationpolicies",
            ),
            Self::Clusters => ("cluster.karmada.io", "v1alpha1", "Cluster", "clusters"),
            Self::Deployments => return super::Compute::Deployments.resource(),
            Self::Instances => return super::Compute::Instances.resource(),
        };
        let dot = if group.is_empty() { "" } else { "/" };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}{dot}{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

impl Plane {
    /// Reads an object; `None` if it does not exist. An empty namespace is for kinds that have none.
    pub(crate) async fn read(
        &self,
        kind: Other,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>, Error> {
        let found = self.other(kind, namespace).get_opt(name).await;
        let found = found.map_err(|error| self.refusal(&error, "get", &kind.resource()))?;
        Ok(found.map(|object| Object(serde_json::to_value(object).unwrap_or_default())))
    }

    /// Lists the objects of a namespace, or of the cluster if that is empty, page by page.
    pub(crate) async fn read_all(&self, kind: Other, namespace: &str) -> Result<Vec<Object>, Error> {
        let api = self.other(kind, namespace);
        let mut params = ListParams::default().limit(PAGE);
        let mut objects = Vec::new();
        loop {
            let page = api.list(&params).await;
            let page = page.map_err(|error| self.refusal(&error, "list", &kind.resource()))?;
            let values = page.items.into_iter().map(serde_json::to_value);
            objects.extend(values.filter_map(Result::ok).map(Object));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(objects),
            }
        }
    }

    /// A member of this Karmada hub, through the hub's proxy.
    pub(crate) fn member(&self, cluster: &str) -> Result<Self, Error> {
        let mut config = self.config.clone();
        let hub = config.cluster_url.to_string();
        let url = format!(
            "{}/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy",
            hub.trim_end_matches('/')
        );
        config.cluster_url = url
            .parse()
            .map_err(|_| Error::usage(format!("cluster {cluster:?} has no usable name")))?;
        Ok(Self {
            client: client(config.clone(), &self.clock)?,
            config,
            ..self.clone()
        })
    }

    /// Another plane, from a context of a kubeconfig.
    pub(crate) async fn beside(choice: &Choice, context: Option<&str>) -> Result<Self, Error> {
        let choice = Choice {
            context: context.map(str::to_owned),
            project: String::new(),
            ..choice.clone()
        };
        Self::open(&choice).await
    }

    fn other(&self, kind: Other, namespace: &str) -> Api<DynamicObject> {
        let resource = kind.resource();
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }
}
