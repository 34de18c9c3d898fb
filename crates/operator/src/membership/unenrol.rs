//! A leave's part of mode pull: the agent takes its objects at the member back before its rights end (contract:
//! provisioning.md §7.3).

use super::{
    certificate,
    change::{Change, Verb, delete, mark, title},
    cluster::Cluster,
    error::{Error, Kind},
    executor::{Executor, say},
    leave::take_away,
    plane::{Plane, kind},
    pull,
    usage::first,
    wait::{Objects, Watched, until},
};
use fedgate_api::karmada::work_namespace;
use kube::api::ApiResource;
use serde_json::Value;
use std::time::Duration;

fn works() -> ApiResource {
    kind("work.karmada.io/v1alpha1", "Work")
}

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
        let change = Change {
            verb: Verb::Merge,
            object: cluster.withdrawn(&Value::Null),
            is_new: false,
        };
        executor.run(hub, &change).await?;
    }
    let namespace = work_namespace(name);
    let found = hub.list_in(&works(), &namespace, "").await;
    let found = hub.if_served(&works(), found).await?;
    for work in found
        .iter()
        .filter(|work| work["metadata"]["deletionTimestamp"].is_null())
    {
        let change = Change {
            verb: Verb::Delete,
            object: work.clone(),
            is_new: false,
        };
        executor.run(hub, &change).await?;
    }
    if executor.writes() && !found.is_empty() {
        await_none(hub, &namespace, name, limit).await?;
    }
    Ok(())
}

async fn await_none(hub: &Plane, namespace: &str, name: &str, limit: Duration) -> Result<(), Error> {
    let watched = Watched {
        kind: works(),
        namespace,
        name: "",
        labels: "",
    };
    let test = |objects: &Objects| objects.is_empty().then_some(());
    let left = |objects: &Objects| {
        let names: Vec<String> = objects.keys().map(|(_, work)| work.clone()).collect();
        format!(
            "the agent of cell {name} has not taken all of its Works back after {} s: {}",
            limit.as_secs(),
            first(&names)
        )
    };
    until(hub, &watched, limit, test, left)
        .await
        .map_err(|error| match error.kind {
            Kind::TimedOut => error.next(format!(
                "read the log of karmada-agent at the cell, then run the command again; if the agent is gone, Karmada calls \
                 the cell not Ready after a minute, and the command leaves its objects there: kubectl get clusters.cluster.karmada.io {name}"
            )),
            _ => error,
        })
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
    take_away(executor, member, vec![agent], own).await
}

/// The agent's rights on the hub: all bindings, and the roles but for the one of [`pull::lease_role`].
pub(super) async fn rights(executor: &mut Executor, hub: &Plane, name: &str, own: &str) -> Result<(), Error> {
    let last = title(&pull::lease_role(name));
    let mut objects = pull::hub_objects(name);
    objects.retain(|object| object["kind"] != "Namespace" && title(object) != last);
    take_away(executor, hub, objects, own).await
}

/// The objects that are left on the hub when the Cluster is gone: the namespace, if Karmada has left it, the requests for
/// certificates, the agent's lease, and the role by which an interrupted run finds these.
pub(super) async fn rest(executor: &mut Executor, hub: &Plane, name: &str, own: &str) -> Result<(), Error> {
    let namespace = pull::namespace(&work_namespace(name));
    take_away(executor, hub, vec![namespace], own).await?;
    let requests = kind(certificate::API_VERSION, "CertificateSigningRequest");
    for request in hub.list(&requests, super::change::MADE_BY).await? {
        if let Some(change) = delete(&request, own) {
            executor.run(hub, &change).await?;
        }
    }
    let role = pull::lease_role(name);
    let is_ours = hub
        .live(&role)
        .await?
        .is_some_and(|role| mark(&role) == Some(own));
    // Made by the agent, so without a mark.
    let lease = if is_ours {
        hub.live(&pull::lease(name)).await?
    } else {
        None
    };
    if let Some(lease) = lease {
        let change = Change {
            verb: Verb::Delete,
            object: lease,
            is_new: false,
        };
        executor.run(hub, &change).await?;
    }
    take_away(executor, hub, vec![role], own).await
}

/// The mark on the cell's objects on the hub; `None` without any.
pub(super) async fn mark_on_hub(hub: &Plane, name: &str) -> Result<Option<String>, Error> {
    for object in pull::hub_objects(name) {
        let live: Option<Value> = hub.live(&object).await?;
        if let Some(own) = live.as_ref().and_then(mark) {
            return Ok(Some(own.to_owned()));
        }
    }
    Ok(None)
}
