//! `fedgate cells leave`: what join has made goes, in the order of provisioning.md §7.3.

use super::{
    agent, agent_hub,
    args::LeaveArgs,
    change::{delete, mark},
    cluster::{API_VERSION, Cluster},
    credential,
    error::{Error, Kind},
    executor::{Executor, Mode, say},
    internal,
    mode::SyncMode,
    plane::{Plane, kind},
    pull,
    registration::{self, AccountRights, Cell, member_mark},
    rotation, unenrol,
    usage::{self, first},
    wait::{Objects, Watched, until},
};
use fedgate_manifests::{CELL, KindManifests, NAMESPACE};
use serde_json::Value;
use std::time::Duration;

/// Runs the command.
pub(super) async fn run(args: &LeaveArgs) -> Result<(), Error> {
    let name = &args.cell.name;
    let hub = super::open_hub(&args.cell.hub).await?;
    let member = super::open_cell(&args.cell).await?;
    let federated = super::load_kinds(&args.kinds)?.federated;
    let kinds: Vec<KindManifests> = federated
        .iter()
        .map(|kind| KindManifests::of(kind, None))
        .collect();
    let mut executor = Executor::new(if args.write.dry_run {
        Mode::DryRun
    } else {
        Mode::Write
    });
    let clusters = hub.clusters().await?;
    let cluster = clusters
        .iter()
        .map(Cluster)
        .find(|cluster| cluster.name() == name);
    if let Some(cluster) = cluster {
        may_leave(cluster, args.adopt)?;
    }
    let mut others = Vec::new();
    let id = match (&member, cluster) {
        (Some(member), cluster) => {
            let id = member.id().await?;
            same_member(name, &id, cluster)?;
            agent_hub::check_live(member, &hub).await?;
            let accounts = agent_hub::accounts(member).await?;
            others = agent_hub::check_own(&accounts, name, &hub).await?;
            id
        }
        (None, Some(cluster)) => cluster.id().to_owned(),
        (None, None) => String::new(),
    };
    let usage = usage::read(name, &hub, member.as_ref(), &federated).await?;
    if !usage.is_empty() && !args.force {
        return Err(
            Error::new(Kind::Refused, format!("cell {name} is in use: {usage}")).next(format!(
                "fedgate cells drain {name}; --force takes it away at once and leaves these behind"
            )),
        );
    }
    if !usage.is_empty() {
        say(&format!("cell {name} is in use and leaves all the same: {usage}"));
    }
    let cell = Cell {
        name,
        city: "",
        id: &id,
        endpoint: "",
        rights: AccountRights::Narrow,
        proxy: cluster.is_none_or(|cluster| !cluster.0["spec"]["impersonatorSecretRef"].is_null()),
        mode: cluster.map_or(SyncMode::Push, SyncMode::of),
    };
    if let Some(member) = member.as_ref().filter(|_| others.is_empty()) {
        program(&mut executor, member, &cell, &kinds).await?;
    }
    let planes = Planes {
        hub: &hub,
        member: member.as_ref(),
    };
    from_hub(&mut executor, planes, &cell, cluster, args.wait).await?;
    match &member {
        Some(member) if others.is_empty() => from_member(&mut executor, member, &cell, &kinds).await?,
        Some(member) => {
            account_from_member(&mut executor, member, &cell, &kinds).await?;
            say(&format!(
                "{}: its definitions, roles and program stay for {}, which another join has made",
                member.title,
                first(&others)
            ));
        }
        None => say(&left_behind(&cell, &kinds)),
    }
    say(&match executor.changes() {
        0 => format!("nothing is left of cell {name}; nothing to change"),
        changes if args.write.dry_run => format!("cell {name}: {changes} objects would be deleted"),
        changes => format!("cell {name} has left; {changes} objects were deleted"),
    });
    Ok(())
}

/// Fails for a Cluster that another program has made.
fn may_leave(cluster: Cluster<'_>, adopt: bool) -> Result<(), Error> {
    if mark(cluster.0).is_some() || adopt {
        return Ok(());
    }
    Err(Error::new(
        Kind::Refused,
        format!("Cluster {} was made by another program", cluster.name()),
    )
    .next("take it away with that program, or --adopt"))
}

/// Fails if the kubeconfig is another member's.
fn same_member(name: &str, id: &str, cluster: Option<Cluster<'_>>) -> Result<(), Error> {
    match cluster {
        Some(cluster) if cluster.id() != id => Err(Error::new(
            Kind::Refused,
            format!(
                "the kubeconfig is not of cell {name}: its id is {id}, not {}",
                cluster.id()
            ),
        )
        .because("MemberReplaced")
        .next("give --cell-kubeconfig of that cell, or leave it out")),
        _ => Ok(()),
    }
}

/// Deletes those of the objects that are there and bear the mark, the last first.
pub(super) async fn take_away(
    executor: &mut Executor,
    plane: &Plane,
    objects: Vec<Value>,
    mark: &str,
) -> Result<(), Error> {
    for object in objects.into_iter().rev() {
        let live = plane.live(&object).await?;
        if let Some(change) = live.and_then(|live| delete(&live, mark)) {
            executor.run(plane, &change).await?;
        }
    }
    Ok(())
}

/// Deletes the policy of an earlier version, and its binding, if it limits an account of the cell.
pub(super) async fn take_earlier_limits(
    executor: &mut Executor,
    member: &Plane,
    cell: &Cell<'_>,
) -> Result<(), Error> {
    let earlier = registration::earlier_limits();
    let users = [registration::user(&cell.account()), pull::agent_user()];
    match member.live(&earlier[0]).await? {
        Some(policy) if users.iter().any(|user| registration::is_limit_of(&policy, user)) => {
            take_away(executor, member, earlier.into(), &cell.mark()).await
        }
        _ => Ok(()),
    }
}

/// The cell's program, before its credential ends.
async fn program(
    executor: &mut Executor,
    member: &Plane,
    cell: &Cell<'_>,
    kinds: &[KindManifests],
) -> Result<(), Error> {
    let agent = agent::Agent {
        image: "",
        location: "",
        city: "",
    };
    let mut objects = agent::objects(&agent, cell.name, kinds).map_err(internal)?;
    // The Namespace is the roles' too, and goes with them.
    objects.retain(|object| object["kind"] != "Namespace");
    for secret in ["fedgate-hub", "fedgate-admin"] {
        objects.push(agent::secret(secret, "x", b""));
    }
    take_away(executor, member, objects, &cell.mark()).await
}

/// The planes of a cell that leaves; the member's only if its kubeconfig is given.
#[derive(Clone, Copy)]
struct Planes<'a> {
    hub: &'a Plane,
    member: Option<&'a Plane>,
}

/// Credential, Cluster, Secrets and the agent's rights on the hub.
async fn from_hub(
    executor: &mut Executor,
    Planes { hub, member }: Planes<'_>,
    cell: &Cell<'_>,
    cluster: Option<Cluster<'_>>,
    limit: Duration,
) -> Result<(), Error> {
    let account = hub.live(&credential::account_object(cell.name)).await?;
    // Without Cluster and member the objects' own mark is all that says whose they are.
    let own = match account.as_ref().and_then(mark) {
        _ if !cell.id.is_empty() => member_mark(cell.id),
        Some(marked) => marked.to_owned(),
        None => unenrol::mark_on_hub(hub, cell.name).await?.unwrap_or_default(),
    };
    if let Some(change) = account.and_then(|account| delete(&account, &own)) {
        executor.run(hub, &change).await?;
    }
    if let Some(cluster) = cluster.filter(|_| cell.mode == SyncMode::Pull) {
        unenrol::withdraw(executor, hub, cluster, limit).await?;
        if let Some(member) = member {
            unenrol::stop(executor, member, &own).await?;
        }
    }
    unenrol::rights(executor, hub, cell.name, &own).await?;
    if let Some(cluster) = cluster {
        if !cluster.is_going() {
            let change = super::change::Change {
                verb: super::change::Verb::Delete,
                object: cluster.0.clone(),
                is_new: false,
            };
            executor.run(hub, &change).await?;
        }
        if executor.writes() {
            gone(hub, cell.name, limit).await?;
        }
    }
    let secrets = vec![
        registration::hub_secret(cell.name, b"", b""),
        registration::hub_impersonator(cell.name, b""),
    ];
    take_away(executor, hub, secrets, &own).await?;
    unenrol::rest(executor, hub, cell.name, &own).await
}

/// Waits until Karmada has let the Cluster go.
async fn gone(hub: &Plane, name: &str, limit: Duration) -> Result<(), Error> {
    let watched = Watched {
        kind: kind(API_VERSION, "Cluster"),
        namespace: "",
        name,
        labels: "",
    };
    let test = |objects: &Objects| objects.is_empty().then_some(());
    let left = |_: &Objects| {
        format!(
            "Karmada has not let Cluster {name} go after {} s",
            limit.as_secs()
        )
    };
    until(hub, &watched, limit, test, left)
        .await
        .map_err(|error| match error.kind {
            Kind::TimedOut => error.next(format!(
                "kubectl describe clusters.cluster.karmada.io {name}, then run the command again"
            )),
            _ => error,
        })
}

/// Karmada's account, roles and definitions at the member.
async fn from_member(
    executor: &mut Executor,
    member: &Plane,
    cell: &Cell<'_>,
    kinds: &[KindManifests],
) -> Result<(), Error> {
    let mark = cell.mark();
    // Without the Cluster nothing says any more which mode the cell had.
    let mut objects = registration::member_objects(cell, kinds);
    objects.extend(pull::member_objects(cell, kinds));
    objects.extend([pull::secret("x", b""), pull::deployment_identity()]);
    take_earlier_limits(executor, member, cell).await?;
    let mut definitions = Vec::new();
    for object in agent::definitions(kinds).map_err(internal)? {
        if object["kind"] == "CustomResourceDefinition" {
            definitions.push(object);
        } else {
            objects.push(object);
        }
    }
    let (namespaces, objects): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .partition(|object| object["kind"] == "Namespace");
    take_away(executor, member, objects, &mark).await?;
    tokens_from_member(executor, member, cell).await?;
    for namespace in namespaces {
        if is_empty(
            member,
            namespace["metadata"]["name"].as_str().unwrap_or_default(),
            &mark,
        )
        .await?
        {
            take_away(executor, member, vec![namespace], &mark).await?;
        }
    }
    for definition in definitions {
        if member.list_if_served(&defined(&definition), "").await?.is_empty() {
            take_away(executor, member, vec![definition], &mark).await?;
        } else {
            say(&format!(
                "{}: {} stays, its kind has objects",
                member.title,
                super::change::title(&definition)
            ));
        }
    }
    Ok(())
}

/// Karmada's account for the cell alone, with its rights and limits.
async fn account_from_member(
    executor: &mut Executor,
    member: &Plane,
    cell: &Cell<'_>,
    kinds: &[KindManifests],
) -> Result<(), Error> {
    let mut objects = registration::member_objects(cell, kinds);
    // The impersonator is every hub's.
    let is_shared = |object: &Value| {
        object["kind"] == "Namespace" || object["metadata"]["name"] == registration::IMPERSONATOR
    };
    objects.retain(|object| !is_shared(object));
    take_earlier_limits(executor, member, cell).await?;
    take_away(executor, member, objects, &cell.mark()).await?;
    tokens_from_member(executor, member, cell).await
}

/// The token Secrets of the cell's account, also those of rotations.
async fn tokens_from_member(executor: &mut Executor, member: &Plane, cell: &Cell<'_>) -> Result<(), Error> {
    let secrets = rotation::read(member).await?;
    let tokens = rotation::token_secrets(cell.name, &secrets);
    let tokens = tokens.into_iter().map(|secret| secret.object.clone()).collect();
    take_away(executor, member, tokens, &cell.mark()).await
}

/// True if a namespace has no Secret, ConfigMap or account of another.
async fn is_empty(member: &Plane, namespace: &str, own: &str) -> Result<bool, Error> {
    for name in ["Secret", "ConfigMap", "ServiceAccount"] {
        let foreign = member
            .list(&kind("v1", name), "")
            .await?
            .into_iter()
            .any(|object| {
                let metadata = &object["metadata"];
                metadata["namespace"] == namespace
                && mark(&object) != Some(own)
                // Kubernetes makes these itself.
                && metadata["name"] != "kube-root-ca.crt"
                && metadata["name"] != "default"
            });
        if foreign {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The kind that a definition makes.
fn defined(definition: &Value) -> kube::api::ApiResource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    let version = format!("{}/{}", text(&spec["group"]), text(&spec["versions"][0]["name"]));
    let mut defined = kind(&version, &text(&spec["names"]["kind"]));
    defined.plural = text(&spec["names"]["plural"]);
    defined
}

/// The objects that stay without the member's kubeconfig.
fn left_behind(cell: &Cell<'_>, kinds: &[KindManifests]) -> String {
    let objects = match cell.mode {
        SyncMode::Push => registration::member_objects(cell, kinds),
        SyncMode::Pull => {
            let mut objects = pull::member_objects(cell, kinds);
            objects.extend([pull::secret("x", b""), pull::deployment_identity()]);
            objects
        }
    };
    let mut titles: Vec<String> = objects.iter().map(super::change::title).collect();
    titles.push(format!("Deployment {NAMESPACE}/{CELL}"));
    format!(
        "without --cell-kubeconfig these stay at the cell: {}; the definitions and roles of fedgate stay too",
        titles.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::{super::cluster::tests::cluster, *};
    use serde_json::json;

    #[test]
    fn another_programs_cluster_and_another_member_are_refused() {
        let ours = cluster("dfw-1", "1", None);
        assert_eq!(may_leave(Cluster(&ours), false), Ok(()));
        let mut foreign = ours.clone();
        foreign["metadata"]["annotations"] = json!({});
        assert_eq!(
            may_leave(Cluster(&foreign), false).unwrap_err().kind,
            Kind::Refused
        );
        assert_eq!(may_leave(Cluster(&foreign), true), Ok(()));
        assert_eq!(same_member("dfw-1", "1", Some(Cluster(&ours))), Ok(()));
        assert_eq!(
            same_member("dfw-1", "2", Some(Cluster(&ours))).unwrap_err().kind,
            Kind::Refused
        );
    }

    #[test]
    fn the_objects_that_stay_are_named() {
        let cell = Cell {
            name: "dfw-1",
            city: "",
            id: "1",
            endpoint: "",
            rights: AccountRights::Narrow,
            proxy: false,
            mode: SyncMode::Push,
        };
        let text = left_behind(&cell, &[]);
        assert!(
            text.contains("ServiceAccount karmada-cluster/karmada-dfw-1"),
            "{text}"
        );
        assert!(text.contains("Deployment fedgate-system/fedgate-cell"), "{text}");
        let pulled = Cell {
            mode: SyncMode::Pull,
            ..cell
        };
        let text = left_behind(&pulled, &[]);
        for part in [
            "Deployment karmada-system/karmada-agent",
            "Secret karmada-system/karmada-kubeconfig",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("karmada-dfw-1"), "{text}");
    }

    #[test]
    fn the_kind_of_a_definition_is_read_from_it() {
        let definition = json!({"spec": {"group": "g.example.com", "versions": [{"name": "v1"}],
                                "names": {"kind": "Gadget", "plural": "gadgets"}}});
        let kind = defined(&definition);
        assert_eq!(
            (kind.api_version.as_str(), kind.plural.as_str()),
            ("g.example.com/v1", "gadgets")
        );
    }
}
