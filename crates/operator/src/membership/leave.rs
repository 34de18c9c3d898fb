//! `fedgate cells leave`: what join has made goes, in the order of provisioning.md §7.3.

use super::{
    agent, agent_hub,
    args::LeaveArgs,
    change::{Verb, mark, title},
    cluster::{API_VERSION, Cluster},
    credential,
    executor::Executor,
    internal,
    mode::SyncMode,
    plane::{Plane, kind},
    pull,
    registration::{self, AccountRights, Cell, member_mark},
    rotation, unenrol,
    usage::{self, first},
    wait::{Objects, Watched, until_none},
};
use fedgate_manifests::{CELL, KindManifests, NAMESPACE};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use serde_json::Value;
use std::time::Duration;

/// Runs the command.
pub(super) async fn run(args: &LeaveArgs) -> Result<(), Error> {
    let name = &args.cell.name;
    let hub = super::open_hub(&args.cell.hub).await?;
    let member = super::open_cell(&args.cell).await?;
    let federated = super::load_kinds(&args.kinds)?.federated;
    let mut executor = Executor::new(args.write.mode(None));
    let clusters = hub.clusters().await?;
    let mut all = clusters.iter().map(Cluster);
    let cluster = all.find(|cluster| cluster.name() == name);
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
    let leaving = Leaving {
        cell: Cell {
            name,
            city: "",
            id: &id,
            endpoint: "",
            rights: AccountRights::Narrow,
            proxy: cluster.is_none_or(|cluster| !cluster.0["spec"]["impersonatorSecretRef"].is_null()),
            mode: cluster.map_or(SyncMode::Push, SyncMode::of),
        },
        mark: member_mark(&id),
        kinds: federated
            .iter()
            .map(|kind| KindManifests::of(kind, None))
            .collect(),
    };
    if let Some(member) = member.as_ref().filter(|_| others.is_empty()) {
        leaving.program(&mut executor, member).await?;
    }
    leaving
        .clear_hub(&mut executor, &hub, member.as_ref(), cluster, args.wait)
        .await?;
    match &member {
        Some(member) if others.is_empty() => leaving.clear_member(&mut executor, member).await?,
        Some(member) => {
            leaving.account_from_member(&mut executor, member).await?;
            say(&format!(
                "{}: its definitions, roles and program stay for {}, which another join has made",
                member.title,
                first(&others)
            ));
        }
        None => say(&leaving.left_behind()),
    }
    say(&match executor.changes {
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

/// A cell that leaves.
struct Leaving<'a> {
    cell: Cell<'a>,
    /// The mark of its objects.
    mark: String,
    kinds: Vec<KindManifests>,
}

impl Leaving<'_> {
    /// The cell's program, before its credential ends.
    async fn program(&self, executor: &mut Executor, member: &Plane) -> Result<(), Error> {
        let agent = agent::Agent {
            image: "",
            location: "",
            city: "",
        };
        let mut objects = agent::objects(&agent, self.cell.name, &self.kinds).map_err(internal)?;
        // The Namespace is the roles' too, and goes with them.
        objects.retain(|object| object["kind"] != "Namespace");
        objects.extend(["fedgate-hub", "fedgate-admin"].map(|secret| agent::secret(secret, "x", b"")));
        executor.take_away(member, objects, &self.mark).await
    }

    /// Credential, Cluster, Secrets and the agent's rights on the hub.
    async fn clear_hub(
        &self,
        executor: &mut Executor,
        hub: &Plane,
        member: Option<&Plane>,
        cluster: Option<Cluster<'_>>,
        limit: Duration,
    ) -> Result<(), Error> {
        let name = self.cell.name;
        let account = hub.live(&credential::account_object(name)).await?;
        // Without Cluster and member the objects' own mark is all that says whose they are.
        let own = match account.as_ref().and_then(mark) {
            _ if !self.cell.id.is_empty() => self.mark.clone(),
            Some(marked) => marked.to_owned(),
            None => unenrol::mark_on_hub(hub, name).await?.unwrap_or_default(),
        };
        executor.delete_own(hub, account, &own).await?;
        if let Some(cluster) = cluster.filter(|_| self.cell.mode == SyncMode::Pull) {
            unenrol::withdraw(executor, hub, cluster, limit).await?;
            if let Some(member) = member {
                unenrol::stop(executor, member, &own).await?;
            }
        }
        unenrol::rights(executor, hub, name, &own).await?;
        if let Some(cluster) = cluster {
            if !cluster.is_going() {
                executor.run(hub, Verb::Delete, cluster.0.clone()).await?;
            }
            if executor.writes() {
                gone(hub, name, limit).await?;
            }
        }
        let secrets = vec![
            registration::hub_secret(name, b"", b""),
            registration::hub_impersonator(name, b""),
        ];
        executor.take_away(hub, secrets, &own).await?;
        unenrol::rest(executor, hub, name, &own).await
    }

    /// Karmada's account, roles and definitions at the member.
    async fn clear_member(&self, executor: &mut Executor, member: &Plane) -> Result<(), Error> {
        // Without the Cluster nothing says any more which mode the cell had.
        let mut objects = registration::member_objects(&self.cell, &self.kinds);
        objects.extend(self.agent_at_member());
        objects.extend(agent::definitions(&self.kinds).map_err(internal)?);
        let mut of_kind = |kind: &str| -> Vec<Value> {
            let found = objects.iter().filter(|object| object["kind"] == kind).cloned();
            let found = found.collect();
            objects.retain(|object| object["kind"] != kind);
            found
        };
        let definitions = of_kind("CustomResourceDefinition");
        let namespaces = of_kind("Namespace");
        executor.take_away(member, objects, &self.mark).await?;
        self.tokens(executor, member).await?;
        for namespace in namespaces {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            if is_empty(member, name, &self.mark).await? {
                executor.take_away(member, vec![namespace], &self.mark).await?;
            }
        }
        for definition in definitions {
            if member.list_if_served(&defined(&definition), "").await?.is_empty() {
                executor.take_away(member, vec![definition], &self.mark).await?;
            } else {
                say(&format!(
                    "{}: {} stays, its kind has objects",
                    member.title,
                    title(&definition)
                ));
            }
        }
        Ok(())
    }

    /// Karmada's account for the cell alone, with its rights and limits.
    async fn account_from_member(&self, executor: &mut Executor, member: &Plane) -> Result<(), Error> {
        let mut objects = registration::member_objects(&self.cell, &self.kinds);
        // The impersonator is every hub's.
        let is_shared = |object: &Value| {
            object["kind"] == "Namespace" || object["metadata"]["name"] == registration::IMPERSONATOR
        };
        objects.retain(|object| !is_shared(object));
        executor.take_away(member, objects, &self.mark).await?;
        self.tokens(executor, member).await
    }

    /// The token Secrets of the cell's account, also those of rotations.
    async fn tokens(&self, executor: &mut Executor, member: &Plane) -> Result<(), Error> {
        let secrets = rotation::read(member).await?;
        let tokens = rotation::token_secrets(self.cell.name, &secrets);
        let tokens = tokens.into_iter().map(|secret| secret.object.clone()).collect();
        executor.take_away(member, tokens, &self.mark).await
    }

    /// The objects of karmada-agent at the member.
    fn agent_at_member(&self) -> Vec<Value> {
        let mut objects = pull::member_objects(&self.cell, &self.kinds);
        objects.extend([pull::secret("x", b""), pull::deployment_identity()]);
        objects
    }

    /// The objects that stay without the member's kubeconfig.
    fn left_behind(&self) -> String {
        let objects = match self.cell.mode {
            SyncMode::Push => registration::member_objects(&self.cell, &self.kinds),
            SyncMode::Pull => self.agent_at_member(),
        };
        let mut titles: Vec<String> = objects.iter().map(title).collect();
        titles.push(format!("Deployment {NAMESPACE}/{CELL}"));
        format!(
            "without --cell-kubeconfig these stay at the cell: {}; the definitions and roles of fedgate stay too",
            titles.join(", ")
        )
    }
}

/// Waits until Karmada has let the Cluster go.
async fn gone(hub: &Plane, name: &str, limit: Duration) -> Result<(), Error> {
    let watched = Watched::one(kind(API_VERSION, "Cluster"), "", name);
    let names = |objects: &Objects| objects.keys().map(|(_, name)| name.clone()).collect();
    let missing = |_: &[String]| {
        let what = format!(
            "Karmada has not let Cluster {name} go after {} s",
            limit.as_secs()
        );
        Error::new(Kind::TimedOut, what).next(format!(
            "kubectl describe clusters.cluster.karmada.io {name}, then run the command again"
        ))
    };
    until_none(hub, watched, limit, names, missing).await
}

/// True if a namespace has no Secret, ConfigMap or account of another.
async fn is_empty(member: &Plane, namespace: &str, own: &str) -> Result<bool, Error> {
    for name in ["Secret", "ConfigMap", "ServiceAccount"] {
        let is_foreign = |object: &Value| {
            let metadata = &object["metadata"];
            metadata["namespace"] == namespace
                && mark(object) != Some(own)
                // Kubernetes makes these itself.
                && metadata["name"] != "kube-root-ca.crt"
                && metadata["name"] != "default"
        };
        if member.list(&kind("v1", name), "").await?.iter().any(is_foreign) {
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
        let left_behind = |cell| {
            let (mark, kinds) = (String::new(), Vec::new());
            Leaving { cell, mark, kinds }.left_behind()
        };
        let text = left_behind(cell);
        assert!(
            text.contains("ServiceAccount karmada-cluster/karmada-dfw-1"),
            "{text}"
        );
        assert!(text.contains("Deployment fedgate-system/fedgate-cell"), "{text}");
        let pulled = Cell {
            mode: SyncMode::Pull,
            ..cell
        };
        let text = left_behind(pulled);
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
