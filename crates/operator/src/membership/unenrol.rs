//! A leave's part of mode pull: the agent takes its objects at the member back before its rights end (contract:
//! provisioning.md §7.3).

use super::{
    certificate,
    change::{MADE_BY, Verb, is_going, mark, title},
    cluster::Cluster,
    leave::Leaving,
    plane::kind,
    pull, registration,
    usage::first,
    wait::{labelled, until_none},
};
use fedgate_api::karmada::work_namespace;
use fedgate_terminal::{error::Error, write::say};
use serde_json::Value;

impl Leaving<'_> {
    /// Lets the agent take back what it has delivered, and takes it away.
    pub(super) async fn agent(&mut self, cluster: Cluster<'_>) -> Result<(), Error> {
        let name = self.cell.name;
        if !cluster.is_ready() && !cluster.is_going() {
            say(&format!(
                "Karmada does not call cell {name} Ready: what it has delivered stays at the cell"
            ));
        } else if !cluster.is_going() {
            self.withdraw(cluster).await?;
        }
        let agent = pull::deployment_identity();
        let live = match &self.member {
            Some(member) => member.live(&agent).await?,
            None => None,
        };
        if live.is_some_and(|live| mark(&live).is_none()) {
            say(&format!(
                "cell {name}: {} stays, another program made it; take it away with that: it registers the Cluster again when \
                 it starts",
                title(&agent)
            ));
        }
        self.clear_member(vec![agent]).await
    }

    /// Deletes the cell's Works and waits until the agent has taken their objects away. Together with the Cluster the agent's
    /// rights to its Works would go, and these would stay.
    async fn withdraw(&mut self, cluster: Cluster<'_>) -> Result<(), Error> {
        let (name, limit) = (self.cell.name, self.wait);
        if cluster.is_open() {
            // Karmada would make new Works meanwhile.
            let patch = cluster.withdrawn(&Value::Null);
            self.executor.run(&self.hub, Verb::Merge, patch).await?;
        }
        let (works, namespace) = (kind("work.karmada.io/v1alpha1", "Work"), work_namespace(name));
        let found = self.hub.list_in(&works, &namespace, "").await;
        let found = self.hub.if_served(&works, found).await?;
        for work in found.iter().filter(|work| !is_going(work)) {
            self.executor.run(&self.hub, Verb::Delete, work.clone()).await?;
        }
        if !self.executor.writes() || found.is_empty() {
            return Ok(());
        }
        let missing = |names: &[String]| {
            let (names, limit) = (first(names), limit.as_secs());
            let what = format!(
                "the agent of cell {name} has not taken all of its Works back after {limit} s: {names}"
            );
            Error::timed_out(what).next(format!(
                "read the log of karmada-agent at the cell, then run the command again; if the agent is gone, Karmada calls \
                 the cell not Ready after a minute, and the command leaves its objects there: kubectl get clusters.cluster.karmada.io {name}"
            ))
        };
        let names = |work: &Value| work["metadata"]["name"].as_str().map(str::to_owned);
        let watched = (works, namespace.as_str(), labelled(""));
        until_none(&self.hub, watched, limit, names, missing).await
    }

    /// The agent's rights on the hub: all bindings, and the roles but for the one of [`pull::lease_role`].
    pub(super) async fn agent_rights(&mut self) -> Result<(), Error> {
        let last = title(&pull::lease_role(self.cell.name));
        let mut objects = pull::hub_objects(self.cell.name)?;
        objects.retain(|object| object["kind"] != "Namespace" && title(object) != last);
        self.clear_hub(objects).await
    }

    /// The objects of the agent that are left on the hub when the Cluster is gone: the namespace, if Karmada has left it, the
    /// requests for certificates, the agent's lease, and the role by which an interrupted run finds these.
    pub(super) async fn rest_of_agent(&mut self) -> Result<(), Error> {
        let name = self.cell.name;
        self.clear_hub(vec![registration::namespace(&work_namespace(name))])
            .await?;
        let requests = kind(certificate::API_VERSION, "CertificateSigningRequest");
        let requests = self.hub.list(&requests, MADE_BY).await?;
        self.executor.delete_own(&self.hub, requests, &self.mark).await?;
        let role = pull::lease_role(name);
        let live = self.hub.live(&role).await?;
        // The agent has made its lease, without a mark.
        if live.is_some_and(|live| mark(&live) == Some(&self.mark))
            && let Some(lease) = self.hub.live(&pull::lease(name)).await?
        {
            self.executor.run(&self.hub, Verb::Delete, lease).await?;
        }
        self.clear_hub(vec![role]).await
    }
}
