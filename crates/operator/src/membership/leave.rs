//! A cell leaves: the objects that a join has made go, in the order of provisioning.md §7.3.

use super::{
    agent,
    agent_hub::check_member,
    args::LeaveArgs,
    change::{Verb, mark, title},
    cluster::Cluster,
    credential, drain,
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
use fedgate_kinds::FederatedKind;
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
    let kinds = super::load_kinds(&args.kinds)?.federated;
    super::refuse_cell(&hub, name).await?;
    let leave = Leave {
        name,
        hub,
        member,
        foreign: if args.adopt {
            ForeignCluster::Delete
        } else {
            ForeignCluster::Refuse
        },
        force: args.force,
        wait: args.wait,
        kinds: &kinds,
        id: None,
    };
    let executor = leave.run(Executor::new(args.write.mode(None))).await?;
    executor.conclude(
        &format!("cell {name} has left"),
        &format!("nothing is left of cell {name}"),
    );
    Ok(())
}

/// The end of a leave for a Cluster that another program has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignCluster {
    /// The leave fails.
    Refuse,
    /// The Cluster is deleted.
    Delete,
    /// The Cluster stays, without our taints and annotations.
    Release,
    /// The Cluster stays as it is, also one of ours: it is another cell's.
    Ignore,
}

/// Arguments of a leave.
pub struct Leave<'a> {
    /// Name of the cell.
    pub name: &'a str,
    /// The hub.
    pub hub: Plane,
    /// The cell; without it the objects there stay, and are named.
    pub member: Option<Plane>,
    /// The end for a Cluster that another program has made.
    pub foreign: ForeignCluster,
    /// True if the cell goes although it is in use.
    pub force: bool,
    /// How long to wait for others.
    pub wait: Duration,
    /// The federated kinds.
    pub kinds: &'a [FederatedKind],
    /// The id of the member, if neither Cluster nor member tell it.
    pub id: Option<&'a str>,
}

impl Leave<'_> {
    /// Deletes the objects of the cell that are left. Returns the executor, which counts the changes.
    ///
    /// # Errors
    /// If the cell is in use, or not ours, or a plane refuses.
    pub async fn run(self, executor: Executor) -> Result<Executor, Error> {
        let Self {
            name,
            hub,
            member,
            foreign,
            force,
            wait,
            kinds,
            id: known,
        } = self;
        let clusters = hub.clusters().await?;
        let mut all = clusters.iter().map(Cluster);
        let cluster = all.find(|cluster| cluster.name() == name && foreign != ForeignCluster::Ignore);
        if let Some(cluster) = cluster {
            may_leave(cluster, foreign)?;
        }
        let is_foreign = cluster.is_some_and(|cluster| mark(cluster.0).is_none());
        let keeps_cluster = is_foreign && foreign == ForeignCluster::Release;
        let mut id = cluster.map_or(known.unwrap_or_default(), Cluster::id).to_owned();
        if let Some(member) = &member {
            id = member.id().await?;
            cluster.map_or(Ok(()), |cluster| same_member(cluster, &id))?;
            check_member(member, &hub.id().await?, Some(name)).await?;
        }
        let is_shared = clusters
            .iter()
            .any(|other| Cluster(other).id() == id && Cluster(other).name() != name);
        // Objects at the member of another Cluster may be that cell's.
        let own_member = member.as_ref().filter(|_| !is_shared);
        let used = usage::read(name, &hub, own_member, kinds).await?;
        let next =
            format!("fedgate cells drain {name}; --force takes it away at once and leaves these behind");
        refuse_used(&format!("cell {name}"), &used, force, &next)?;
        let mark = if id.is_empty() {
            mark_on_hub(&hub, name).await?
        } else {
            member_mark(&id)
        };
        let kinds = kinds.iter().map(|kind| KindManifests::of(kind, None));
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
            others: Vec::new(),
            keeps_cluster,
            cluster,
            executor,
            wait,
        };
        for step in STEPS {
            leaving.take(step).await?;
        }
        Ok(leaving.executor)
    }
}

/// Fails for a Cluster that another program has made.
fn may_leave(cluster: Cluster<'_>, policy: ForeignCluster) -> Result<(), Error> {
    if mark(cluster.0).is_some() || policy != ForeignCluster::Refuse {
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
    Err(Error::refused(what).reason("MemberReplaced").next(next))
}

/// The mark on the cell's objects on the hub; empty without any. Without Cluster and member it is all that says whose they are.
async fn mark_on_hub(hub: &Plane, name: &str) -> Result<String, Error> {
    let own = [
        credential::account_object(name),
        registration::hub_secret(name, b"", b""),
    ];
    for object in own.into_iter().chain(pull::hub_objects(name)?) {
        let live = hub.live(&object).await?;
        if let Some(own) = live.as_ref().and_then(mark) {
            return Ok(own.to_owned());
        }
    }
    Ok(String::new())
}

/// A leave that goes on.
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
    /// True if the Cluster and its agent are another program's, and stay.
    keeps_cluster: bool,
    /// Titles of accounts at the member that joins under other names have made, and of its other Clusters.
    others: Vec<String>,
}

impl Leaving<'_> {
    async fn take(&mut self, step: Step) -> Result<(), Error> {
        let name = self.cell.name;
        if matches!(step, Step::Program | Step::Member) {
            self.find_others().await?;
        }
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
            Step::Agent | Step::AgentRights if self.keeps_cluster => Ok(()),
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

    /// Looks whether the member is another cell's, too: the program, definitions and roles are then that cell's, with the same mark.
    async fn find_others(&mut self) -> Result<(), Error> {
        let (name, id) = (self.cell.name, self.cell.id);
        if let Some(member) = &self.member {
            self.others = check_member(member, &self.hub.id().await?, Some(name)).await?;
        }
        let clusters = self.hub.clusters().await?;
        let others = clusters.iter().map(Cluster);
        let others = others.filter(|other| !id.is_empty() && other.id() == id && other.name() != name);
        self.others.extend(others.map(|other| title(other.0)));
        Ok(())
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
        if self.keeps_cluster {
            return match drain::releasing_patch(cluster) {
                Some(patch) => self.executor.run(&self.hub, Verb::Merge, patch).await.map(drop),
                None => Ok(()),
            };
        }
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
        assert_eq!(may_leave(Cluster(&ours), ForeignCluster::Refuse), Ok(()));
        let mut foreign = ours.clone();
        foreign["metadata"]["annotations"] = json!({});
        assert_eq!(
            may_leave(Cluster(&foreign), ForeignCluster::Refuse)
                .unwrap_err()
                .kind,
            Kind::Refused
        );
        assert_eq!(may_leave(Cluster(&foreign), ForeignCluster::Delete), Ok(()));
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
