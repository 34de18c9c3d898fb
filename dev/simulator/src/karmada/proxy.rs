//! The proxy of Clusters: requests that go through the hub to a member.

use crate::{
    state::State,
    status::{Status, Subject},
};
use std::sync::Arc;

/// Where a request through a Cluster's proxy goes.
#[derive(Debug)]
pub(crate) enum Proxied {
    /// To this plane.
    To(Arc<str>),
    /// Nowhere.
    Refused(Status),
}

/// The Cluster and the path behind its proxy, if a path is one.
pub(crate) fn through(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/apis/cluster.karmada.io/v1alpha1/clusters/")?;
    let (cluster, rest) = rest.split_once('/')?;
    let rest = rest.strip_prefix("proxy")?;
    (rest.is_empty() || rest.starts_with('/')).then_some((cluster, rest))
}

impl State {
    /// Where the proxy of a Cluster leads; `None` if there is no Karmada here.
    pub(crate) fn proxied(&self, cluster: &str) -> Option<Proxied> {
        self.karmada.as_ref()?;
        let clusters = self.table("cluster.karmada.io", "clusters")?;
        Some(match (self.get(clusters, cluster), self.member(cluster)) {
            (None, _) => Proxied::Refused(Status::not_found(&Subject {
                group: "cluster.karmada.io",
                resource: "clusters",
                name: cluster,
            })),
            (Some(_), Some(member)) => Proxied::To(member.name.clone()),
            (Some(_), None) => Proxied::Refused(unreachable()),
        })
    }
}

/// The member's API server takes no connection; Karmada's answer has no reason.
pub(crate) fn unreachable() -> Status {
    Status::plain(500, "", "dial tcp: connect: connection refused")
}
