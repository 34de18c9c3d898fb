//! Planes beside the project: the hub and the cells, for those who have access to them.

use super::{Choice, Plane, client};
use crate::error::Error;

impl Plane {
    /// Another plane, from a context of a kubeconfig.
    pub(crate) async fn beside(choice: &Choice, context: Option<&str>) -> Result<Self, Error> {
        let choice = Choice {
            context: context.map(str::to_owned),
            project: String::new(),
            ..choice.clone()
        };
        Self::open(&choice).await
    }

    /// The same plane, with another namespace.
    pub(crate) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
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
            client: client(&config, &self.clock, &self.context)?,
            config,
            ..self.clone()
        })
    }
}
