//! A leave's part of mode pull: the agent takes its objects at the member back before its rights end (contract:
//! provisioning.md §7.3).

use super::{
    certificate,
    change::{MADE_BY, Verb, is_going, mark, title},
    cluster::Cluster,
    executor::Executor,
    plane::{Plane, kind},
    pull, registration,
    usage::first,
    wait::{Objects, Watched, until_none},
};
use fedgate_api::karmada::work_namespace;
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use serde_json::Value;
use std::time::Duration;

/// Deletes the cell's Works and waits until the agent has taken their objects away. Together with the Cluster the agent's
/// rights to its Works would go, and these would stay.
pub(super) async fn withdraw(
    executor: &mut Executor,
    hub: &Plane,
    cluster: Cluster<'_>,
    limit: Duration,
) -> Result<(), Error> {
    let name = cluster.name();
    if cluster.is_going() {
        return Ok(());
    }
    if !cluster.is_ready() {
        say(&format!(
            "Karmada does not call cell {name} Ready: what it has delivered stays at the cell"
        ));
        return Ok(());
    }
    if cluster.is_open() {
        // Karmada would make new Works meanwhile.
        executor
            .run(hub, Verb::Merge, cluster.withdrawn(&Value::Null))
            .await?;
    }
    let (works, namespace) = (kind("work.karmada.io/v1alpha1", "Work"), work_namespace(name));
    let found = hub.list_in(&works, &namespace, "").await;
    let found = hub.if_served(&works, found).await?;
    for work in found.iter().filter(|work| !is_going(work)) {
        executor.run(hub, Verb::Delete, work.clone()).await?;
    }
    if !executor.writes() || found.is_empty() {
        return Ok(());
    }
    let names = |objects: &Objects| objects.keys().map(|(_, work)| work.clone()).collect();
    let missing = |names: &[String]| {
        let what = format!(
            "the agent of cell {name} has not taken all of its Works back after {} s: {}",
            limit.as_secs(),
            first(names)
        );
        Error::new(Kind::TimedOut, what).next(format!(
            "read the log of karmada-agent at the cell, then run the command again; if the agent is gone, Karmada calls \
             the cell not Ready after a minute, and the command leaves its objects there: kubectl get clusters.cluster.karmada.io {name}"
        ))
    };
    until_none(hub, Watched::within(works, &namespace), limit, names, missing).await
}

/// The agent itself.
pub(super) async fn stop(executor: &mut Executor, member: &Plane, own: &str) -> Result<(), Error> {
    let agent = pull::deployment_identity();
    if let Some(live) = member.live(&agent).await?
        && mark(&live).is_none()
    {
        say(&format!(
            "{}: {} stays, another program made it; take it away with that: it registers the Cluster again when it starts",
            member.title,
            title(&live)
        ));
    }
    executor.take_away(member, vec![agent], own).await
}

/// The agent's rights on the hub: all bindings, and the roles but for the one of [`pull::lease_role`].
pub(super) async fn rights(executor: &mut Executor, hub: &Plane, name: &str, own: &str) -> Result<(), Error> {
    let last = title(&pull::lease_role(name));
    let mut objects = pull::hub_objects(name)?;
    objects.retain(|object| object["kind"] != "Namespace" && title(object) != last);
    executor.take_away(hub, objects, own).await
}

/// The objects that are left on the hub when the Cluster is gone: the namespace, if Karmada has left it, the requests for
/// certificates, the agent's lease, and the role by which an interrupted run finds these.
pub(super) async fn rest(executor: &mut Executor, hub: &Plane, name: &str, own: &str) -> Result<(), Error> {
    let namespace = registration::namespace(&work_namespace(name));
    executor.take_away(hub, vec![namespace], own).await?;
    let requests = kind(certificate::API_VERSION, "CertificateSigningRequest");
    let requests = hub.list(&requests, MADE_BY).await?;
    executor.delete_own(hub, requests, own).await?;
    let role = pull::lease_role(name);
    let is_ours = hub
        .live(&role)
        .await?
        .is_some_and(|role| mark(&role) == Some(own));
    // The agent has made its lease, without a mark.
    if is_ours && let Some(lease) = hub.live(&pull::lease(name)).await? {
        executor.run(hub, Verb::Delete, lease).await?;
    }
    executor.take_away(hub, vec![role], own).await
}

/// The mark on the cell's objects on the hub; `None` without any.
pub(super) async fn mark_on_hub(hub: &Plane, name: &str) -> Result<Option<String>, Error> {
    for object in pull::hub_objects(name)? {
        let live: Option<Value> = hub.live(&object).await?;
        if let Some(own) = live.as_ref().and_then(mark) {
            return Ok(Some(own.to_owned()));
        }
    }
    Ok(None)
}
