//! `fedgate cells leave`: what join has made goes, in the order of provisioning.md §7.3.

use super::{
    agent,
    agent_hub::check_member,
    args::LeaveArgs,
    change::{Verb, mark, title},
    cluster::Cluster,
    credential,
    error::foreign,
    executor::Executor,
    mode::SyncMode,
    plane::{Plane, kind},
    pull,
    registration::{self, Cell, IMPERSONATOR, member_mark},
    rotation,
    usage::{self, first, refuse_used},
    wait,
};
use fedgate_manifests::{CELL, KindManifests, NAMESPACE};
use fedgate_terminal::{error::Error, write::say};
use serde_json::Value;
use std::time::Duration;

/// A step of a leave. Each takes away what is still there, so that a run goes on where another has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The cell's program, before its credential ends.
    Program,
    /// The cell's account on the hub.
    Credential,
    /// The objects that karmada-agent has delivered, and the agent.
    Agent,
    /// The agent's rights on the hub.
    AgentRights,
    /// The Cluster.
    Cluster,
    /// The other objects on the hub.
    Hub,
    /// Karmada's account or its agent, roles and definitions at the member.
    Member,
}

const STEPS: [Step; 7] = [
    Step::Program,
    Step::Credential,
    Step::Agent,
    Step::AgentRights,
    Step::Cluster,
    Step::Hub,
    Step::Member,
];

/// Runs the command.
pub(super) async fn run(args: &LeaveArgs) -> Result<(), Error> {
    let name = &args.cell.name;
    let hub = super::open_hub(&args.cell.hub).await?;
    let member = super::open_cell(&args.cell).await?;
    let federated = super::load_kinds(&args.kinds)?.federated;
    let clusters = hub.clusters().await?;
    let mut all = clusters.iter().map(Cluster);
    let cluster = all.find(|cluster| cluster.name() == name);
    if let Some(cluster) = cluster {
        may_leave(cluster, args.adopt)?;
    }
    let mut others = Vec::new();
    let mut id = cluster.map_or("", Cluster::id).to_owned();
    if let Some(member) = &member {
        id = member.id().await?;
        cluster.map_or(Ok(()), |cluster| same_member(cluster, &id))?;
        others = check_member(member, &hub.id().await?, Some(name)).await?;
    }
    let used = usage::read(name, &hub, member.as_ref(), &federated).await?;
    let next = format!("fedgate cells drain {name}; --force takes it away at once and leaves these behind");
    refuse_used(&format!("cell {name}"), &used, args.force, &next)?;
    let mark = if id.is_empty() {
        mark_on_hub(&hub, name).await?
    } else {
        member_mark(&id)
    };
    let kinds = federated.iter().map(|kind| KindManifests::of(kind, None));
    let mut leaving = Leaving {
        cell: Cell {
            name,
            id: &id,
            proxy: cluster.is_none_or(|cluster| !cluster.0["spec"]["impersonatorSecretRef"].is_null()),
            mode: cluster.map_or(SyncMode::Push, SyncMode::of),
            ..Cell::default()
        },
        mark,
        kinds: kinds.collect(),
        hub,
        member,
        others,
        cluster,
        executor: Executor::new(args.write.mode(None)),
        wait: args.wait,
    };
    for step in STEPS {
        leaving.take(step).await?;
    }
    leaving.executor.conclude(
        &format!("cell {name} has left"),
        &format!("nothing is left of cell {name}"),
    );
    Ok(())
}

/// Fails for a Cluster that another program has made.
fn may_leave(cluster: Cluster<'_>, adopt: bool) -> Result<(), Error> {
    if mark(cluster.0).is_some() || adopt {
        return Ok(());
    }
    let error = foreign(&format!("Cluster {}", cluster.name()));
    Err(error.next("take it away with that program, or --adopt"))
}

/// Fails if the kubeconfig is another member's.
pub(super) fn same_member(cluster: Cluster<'_>, id: &str) -> Result<(), Error> {
    let (name, own) = (cluster.name(), cluster.id());
    if own == id {
        return Ok(());
    }
    let what = format!("the kubeconfig is not of cell {name}: its id is {id}, not {own}");
    let next = "give --cell-kubeconfig of that cell, or leave it out";
    Err(Error::refused(what).because("MemberReplaced").next(next))
}

/// The mark on the cell's objects on the hub; empty without any. Without Cluster and member it is all that says whose they are.
async fn mark_on_hub(hub: &Plane, name: &str) -> Result<String, Error> {
    let account = credential::account_object(name);
    for object in [account].into_iter().chain(pull::hub_objects(name)?) {
        let live = hub.live(&object).await?;
        if let Some(own) = live.as_ref().and_then(mark) {
            return Ok(own.to_owned());
        }
    }
    Ok(String::new())
}

/// A cell that leaves.
pub(super) struct Leaving<'a> {
    pub(super) cell: Cell<'a>,
    /// The mark of its objects.
    pub(super) mark: String,
    pub(super) hub: Plane,
    pub(super) member: Option<Plane>,
    pub(super) cluster: Option<Cluster<'a>>,
    pub(super) executor: Executor,
    /// How long to wait for others.
    pub(super) wait: Duration,
    kinds: Vec<KindManifests>,
    /// Titles of accounts at the member that joins under other names have made.
    others: Vec<String>,
}

impl Leaving<'_> {
    async fn take(&mut self, step: Step) -> Result<(), Error> {
        let name = self.cell.name;
        match step {
            Step::Program if self.others.is_empty() => {
                let mut objects = agent::objects("", "", "", name, &self.kinds)?;
                // The Namespace is the roles' too, and goes with them.
                objects.retain(|object| object["kind"] != "Namespace");
                objects
                    .extend(["fedgate-hub", "fedgate-admin"].map(|secret| agent::secret(secret, "x", b"")));
                self.clear_member(objects).await
            }
            Step::Program => Ok(()),
            Step::Credential => self.clear_hub(vec![credential::account_object(name)]).await,
            Step::Agent => match self.cluster.filter(|_| self.cell.mode == SyncMode::Pull) {
                Some(cluster) => self.agent(cluster).await,
                None => Ok(()),
            },
            Step::AgentRights => self.agent_rights().await,
            Step::Cluster => self.cluster().await,
            Step::Hub => {
                self.clear_hub(vec![
                    registration::hub_secret(name, b"", b""),
                    registration::hub_impersonator(name, b""),
                ])
                .await?;
                self.rest_of_agent().await
            }
            Step::Member => self.member().await,
        }
    }

    /// Takes our objects on the hub away.
    pub(super) async fn clear_hub(&mut self, objects: Vec<Value>) -> Result<(), Error> {
        self.executor.take_away(&self.hub, objects, &self.mark).await
    }

    /// Takes our objects at the member away, if its kubeconfig is given.
    pub(super) async fn clear_member(&mut self, objects: Vec<Value>) -> Result<(), Error> {
        match &self.member {
            Some(member) => self.executor.take_away(member, objects, &self.mark).await,
            None => Ok(()),
        }
    }

    async fn cluster(&mut self) -> Result<(), Error> {
        let Some(cluster) = self.cluster else {
            return Ok(());
        };
        if !cluster.is_going() {
            self.executor
                .run(&self.hub, Verb::Delete, cluster.0.clone())
                .await?;
        }
        if self.executor.writes() {
            wait::gone(&self.hub, cluster.0, self.wait).await?;
        }
        Ok(())
    }

    async fn member(&mut self) -> Result<(), Error> {
        let Some(member) = self.member.clone() else {
            say(&left_behind(&self.cell, &self.kinds)?);
            return Ok(());
        };
        // Without the Cluster nothing says which mode the cell had.
        let mut objects = at_member(&self.cell, SyncMode::Push, &self.kinds)?;
        if self.others.is_empty() {
            objects.extend(at_member(&self.cell, SyncMode::Pull, &self.kinds)?);
            objects.extend(agent::definitions(&self.kinds)?);
        } else {
            // The impersonator is every hub's.
            objects.retain(|object| object["metadata"]["name"] != IMPERSONATOR);
        }
        let (definitions, objects) = of_kind(objects, "CustomResourceDefinition");
        let (namespaces, objects) = of_kind(objects, "Namespace");
        self.clear_member(objects).await?;
        // Also those of rotations.
        let secrets = rotation::read(&member).await?;
        let tokens = rotation::token_secrets(self.cell.name, &secrets);
        let tokens = tokens.into_iter().map(|secret| secret.object.clone());
        self.clear_member(tokens.collect()).await?;
        if !self.others.is_empty() {
            let (title, others) = (&member.title, first(&self.others));
            say(&format!(
                "{title}: its definitions, roles and program stay for {others}, which another join has made"
            ));
            return Ok(());
        }
        for namespace in namespaces {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            if is_empty(&member, name, &self.mark).await? {
                self.clear_member(vec![namespace]).await?;
            }
        }
        for definition in definitions {
            if member.list_if_served(&defined(&definition), "").await?.is_empty() {
                self.clear_member(vec![definition]).await?;
            } else {
                let (on, what) = (&member.title, title(&definition));
                say(&format!("{on}: {what} stays, its kind has objects"));
            }
        }
        Ok(())
    }
}

/// Karmada's account at the member, or its agent.
fn at_member(cell: &Cell<'_>, mode: SyncMode, kinds: &[KindManifests]) -> Result<Vec<Value>, Error> {
    let mut objects = registration::member_objects(&Cell { mode, ..*cell }, kinds)?;
    if mode == SyncMode::Pull {
        objects.extend([pull::secret("x", b""), pull::deployment_identity()]);
    }
    Ok(objects)
}

/// The objects that stay without the member's kubeconfig.
fn left_behind(cell: &Cell<'_>, kinds: &[KindManifests]) -> Result<String, Error> {
    let objects = at_member(cell, cell.mode, kinds)?;
    let mut titles: Vec<String> = objects.iter().map(title).collect();
    titles.push(format!("Deployment {NAMESPACE}/{CELL}"));
    Ok(format!(
        "without --cell-kubeconfig these stay at the cell: {}; the definitions and roles of fedgate stay too",
        titles.join(", ")
    ))
}

/// The objects of this kind, and the others.
fn of_kind(objects: Vec<Value>, kind: &str) -> (Vec<Value>, Vec<Value>) {
    objects.into_iter().partition(|object| object["kind"] == kind)
}

/// True if a namespace has no Secret, ConfigMap or account of another.
async fn is_empty(member: &Plane, namespace: &str, own: &str) -> Result<bool, Error> {
    for name in ["Secret", "ConfigMap", "ServiceAccount"] {
        let is_foreign = |object: &Value| {
            let name = &object["metadata"]["name"];
            // Kubernetes makes these itself.
            mark(object) != Some(own) && *name != "kube-root-ca.crt" && *name != "default"
        };
        let found = member.list_in(&kind("v1", name), namespace, "").await?;
        if found.iter().any(is_foreign) {
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
    use fedgate_terminal::error::Kind;
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
        assert_eq!(same_member(Cluster(&ours), "1"), Ok(()));
        let other = same_member(Cluster(&ours), "2").unwrap_err();
        assert_eq!(other.kind, Kind::Refused);
    }

    #[test]
    fn the_objects_that_stay_are_named() {
        let cell = Cell {
            name: "dfw-1",
            id: "1",
            ..Cell::default()
        };
        let text = left_behind(&cell, &[]).unwrap();
        assert!(
            text.contains("ServiceAccount karmada-cluster/karmada-dfw-1"),
            "{text}"
        );
        assert!(text.contains("Deployment fedgate-system/fedgate-cell"), "{text}");
        let pulled = Cell {
            mode: SyncMode::Pull,
            ..cell
        };
        let text = left_behind(&pulled, &[]).unwrap();
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
