//! A cluster becomes a cell: it is registered with Karmada, and opened for its city last (contract: provisioning.md §5.1). `fedgate cells
//! join` and the provisioner both do it; the provisioner reports each [`Stage`] as a condition.

use super::{
    agent,
    agent_hub::check_member,
    args::{JoinArgs, JoinSpec},
    change::{MADE_BY, Verb, contains},
    cluster::{ADOPT, API_VERSION, Cluster, NOT_SERVED},
    credential, drain,
    executor::Executor,
    file::hand_out,
    kubeconfig::from_base64,
    mode::{SyncMode, same_mode},
    plane::{Plane, kind},
    pull,
    registration::{self, AccountRights, Cell, Found, IMPERSONATOR, NAMESPACE},
    rotation,
    token::{self, Account},
    wait::{self, named_object, until},
};
use fedgate_admin::console::session::random_text;
use fedgate_api::keys::CITY_CODE;
use fedgate_kinds::FederatedKind;
use fedgate_manifests::KindManifests;
use fedgate_terminal::error::{Error, Kind};
use kube::api::ApiResource;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

/// A step of a join. Each proves what is there and makes what is missing, so that a run goes on where another has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The annotation by which another program's Cluster is ours to label and taint.
    Adopt,
    /// The rights of karmada-agent on the hub.
    AgentRights,
    /// The account of Karmada or its agent at the member, with its rights.
    Account,
    /// The token of Karmada's account, proven, on the hub.
    Token,
    /// The Cluster, without a city.
    Cluster,
    /// The certificate of karmada-agent, and its Pod.
    Agent,
    /// Definitions and roles of a cell at the member.
    Definitions,
    /// The cell's account on the hub, its kubeconfig, and the program that uses it.
    Credential,
    /// The city, once Karmada calls the Cluster ready.
    City,
}

/// A part of a join that can be reported by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Hub and member reach each other, and the member has definitions and roles.
    Registered,
    /// The cell's program has its account on the hub, and its objects at the member if its image is given.
    Program,
    /// The Cluster has its city.
    Open,
}

impl Step {
    /// The stage that the step belongs to.
    const fn stage(self) -> Stage {
        match self {
            Self::City => Stage::Open,
            Self::Credential => Stage::Program,
            _ => Stage::Registered,
        }
    }
}

/// The steps in their order. Hub and member reach each other by Karmada's account at the member, or by an agent there.
const fn steps(found: Found<'_>, mode: SyncMode) -> &'static [Step] {
    use Step::{Account, Adopt, Agent, AgentRights, City, Credential, Definitions, Token};
    match (found, mode) {
        (Found::Adopted(_), _) => &[Adopt, Definitions, Credential, City],
        (_, SyncMode::Push) => &[Account, Token, Step::Cluster, Definitions, Credential, City],
        (_, SyncMode::Pull) => &[
            AgentRights,
            Step::Cluster,
            Account,
            Agent,
            Definitions,
            Credential,
            City,
        ],
    }
}

/// The planes of a join, and what was read there before anything is written.
pub struct Facts {
    /// The hub.
    pub hub: Plane,
    /// The cluster that joins.
    pub member: Plane,
    /// UID of the member's namespace kube-system.
    pub id: String,
    /// UID of the hub's namespace kube-system.
    hub_id: String,
    clusters: Vec<Value>,
}

impl Facts {
    /// Reads both planes.
    ///
    /// # Errors
    /// If one of them does not answer, or refuses.
    pub async fn read(hub: Plane, member: Plane) -> Result<Self, Error> {
        let (id, hub_id) = (member.id().await?, hub.id().await?);
        let clusters = hub.clusters().await?;
        Ok(Self {
            hub,
            member,
            id,
            hub_id,
            clusters,
        })
    }
}

/// The planes and facts of one join.
pub struct Join<'a> {
    pub(super) spec: &'a JoinSpec,
    pub(super) cell: Cell<'a>,
    /// The mark of its objects.
    pub(super) mark: String,
    pub(super) hub: Plane,
    pub(super) member: Plane,
    manifests: Vec<KindManifests>,
    kinds: Vec<ApiResource>,
    pub(super) executor: Executor,
    /// The Cluster, if the hub has it.
    cluster: Option<Value>,
    /// Name of the Secret with the token that Karmada is to use.
    token: String,
    /// Secrets on the hub that are to get the Cluster as owner.
    secrets: Vec<Value>,
    /// The file for the cell's kubeconfig.
    credential_out: Option<&'a Path>,
    steps: &'static [Step],
}

/// Runs the command.
pub(super) async fn run(args: &JoinArgs) -> Result<(), Error> {
    let (name, spec) = (&args.cell.name, &args.spec);
    spec.check()?;
    let kinds = super::load_kinds(&args.kinds)?.federated;
    let member = super::open_cell(&args.cell).await?;
    let member = member.ok_or_else(|| {
        Error::usage("join needs the cell").next("give --cell-kubeconfig, of an administrator of the cell")
    })?;
    let hub = super::open_hub(&args.cell.hub).await?;
    super::refuse_cell(&hub, name).await?;
    let facts = Facts::read(hub, member).await?;
    let executor = Executor::new(args.write.mode(args.output));
    let mut join = Join::begin(name, spec, &facts, kinds, executor).await?;
    join.credential_out = args.credential_out.as_deref();
    for stage in [Stage::Registered, Stage::Program, Stage::Open] {
        join.reach(stage).await?;
    }
    let done = format!("cell {name} serves {}", spec.city);
    join.executor.conclude(&done, &done);
    Ok(())
}

impl<'a> Join<'a> {
    /// Checks that the cluster may become this cell.
    ///
    /// # Errors
    /// If the name or the member is taken, or of another hub.
    pub async fn begin(
        name: &'a str,
        spec: &'a JoinSpec,
        facts: &'a Facts,
        kinds: Vec<FederatedKind>,
        executor: Executor,
    ) -> Result<Self, Error> {
        let Facts {
            hub,
            member,
            id,
            hub_id,
            clusters,
        } = facts;
        let found = registration::find(name, id, spec.adopt, clusters)?;
        same_mode(found, spec.mode)?;
        if let Some(other) = found
            .cluster()
            .and_then(Cluster::own_city)
            .filter(|city| *city != spec.city)
        {
            return Err(another_city(name, &other, &spec.city));
        }
        check_member(member, hub_id, None).await?;
        let endpoint = spec.cell_endpoint.as_deref().unwrap_or(&member.server);
        Ok(Self {
            spec,
            cell: Cell {
                name,
                city: &spec.city,
                id,
                hub: hub_id,
                endpoint: endpoint.trim_end_matches('/'),
                rights: spec.rights,
                proxy: spec.proxy,
                mode: spec.mode,
            },
            mark: registration::member_mark(id),
            hub: hub.clone(),
            member: member.clone(),
            manifests: kinds.iter().map(|kind| KindManifests::of(kind, None)).collect(),
            kinds: kinds.into_iter().map(|kind| kind.resource).collect(),
            executor: Executor {
                patience: spec.wait,
                ..executor
            },
            cluster: found.cluster().map(|cluster| cluster.0.clone()),
            token: registration::account(name),
            secrets: Vec::new(),
            credential_out: None,
            steps: steps(found, spec.mode),
        })
    }

    /// Takes the steps of a stage. The earlier stages must have been reached.
    ///
    /// # Errors
    /// If a plane refuses, another owner holds an object, or what is waited for has not come in the time of the wait.
    pub async fn reach(&mut self, stage: Stage) -> Result<(), Error> {
        for step in self.steps.iter().filter(|step| step.stage() == stage) {
            self.take(*step).await?;
        }
        Ok(())
    }

    async fn take(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::Adopt => self.adopt().await,
            Step::AgentRights => self.agent_rights().await,
            Step::Account => self.account().await,
            Step::Token => self.token().await,
            Step::Cluster => self.cluster().await,
            Step::Agent => self.agent().await,
            Step::Definitions => {
                let definitions = agent::definitions(&self.manifests)?;
                let definitions = super::without_crds(definitions, self.spec.skip_crds);
                self.at_member(definitions).await
            }
            Step::Credential => self.credential().await,
            Step::City => self.city().await,
        }
    }

    /// Makes objects of the cell on the hub what is wanted.
    pub(super) async fn at_hub(&mut self, objects: Vec<Value>) -> Result<(), Error> {
        let owner = Some(self.mark.as_str());
        self.executor.ensure_all(&self.hub, objects, owner).await
    }

    /// Makes objects at the member what is wanted.
    pub(super) async fn at_member(&mut self, objects: Vec<Value>) -> Result<(), Error> {
        let owner = Some(self.mark.as_str());
        self.executor.ensure_all(&self.member, objects, owner).await
    }

    async fn patch(&mut self, cluster: &Value, patch: Value) -> Result<(), Error> {
        let patch = Cluster(cluster).patch(patch);
        self.executor.run(&self.hub, Verb::Merge, patch).await.map(drop)
    }

    async fn adopt(&mut self) -> Result<(), Error> {
        let Some(cluster) = self.cluster.take_if(|cluster| !Cluster(cluster).is_adopted()) else {
            return Ok(());
        };
        let adopted = json!({"metadata": {"annotations": {ADOPT: self.cell.name}}});
        self.patch(&cluster, adopted).await
    }

    async fn agent_rights(&mut self) -> Result<(), Error> {
        self.is_alone().await?;
        // The agent may make neither and needs both, for the leases of cell and agent.
        let namespaces = [NAMESPACE, pull::NAMESPACE].map(registration::namespace);
        self.executor
            .ensure_all(&self.hub, namespaces.into(), None)
            .await?;
        self.at_hub(pull::hub_objects(self.cell.name)?).await
    }

    async fn account(&mut self) -> Result<(), Error> {
        let mut objects = registration::member_objects(&self.cell, &self.manifests)?;
        self.token = rotation::newest(self.cell.name, &rotation::read(&self.member).await?);
        objects.retain(|object| {
            let name = &object["metadata"]["name"];
            // The token of any other Secret has been rotated.
            object["kind"] != "Secret" || *name == self.token.as_str() || *name == IMPERSONATOR
        });
        for object in objects {
            let policy = object["kind"] == "ValidatingAdmissionPolicy";
            self.at_member(vec![object])
                .await
                .map_err(|error| match error.kind {
                    Kind::NotFound if policy => error
                        .reason("NarrowUnsupported")
                        .next("the cell serves no ValidatingAdmissionPolicy; join it with --rights full"),
                    _ => error,
                })?;
        }
        if self.cell.rights == AccountRights::Narrow {
            return Ok(());
        }
        // An earlier join with narrow rights has made them.
        let narrow = Cell {
            rights: AccountRights::Narrow,
            ..self.cell
        };
        let mut limits = registration::member_objects(&narrow, &self.manifests)?;
        limits.retain(registration::is_limit);
        self.executor.take_away(&self.member, limits, &self.mark).await
    }

    async fn token(&mut self) -> Result<(), Error> {
        let (name, authority) = (self.cell.name, &self.member.authority);
        let token = self.read_token(&self.token).await?;
        let mut secrets = vec![registration::hub_secret(name, &token, authority)];
        if self.cell.proxy {
            let token = self.read_token(IMPERSONATOR).await?;
            secrets.push(registration::hub_impersonator(name, &token));
        }
        if let Some(cluster) = &self.cluster {
            for secret in &mut secrets {
                *secret = registration::owned(secret.take(), cluster);
            }
        }
        let namespace = registration::namespace(NAMESPACE);
        self.executor.ensure(&self.hub, namespace, None).await?;
        let live = self.hub.live(&secrets[0]).await?;
        if self.executor.writes() && !live.is_some_and(|live| contains(&live, &secrets[0])) {
            prove(&self.member, self.cell.endpoint, name, &token).await?;
        }
        self.secrets.clone_from(&secrets);
        self.at_hub(secrets).await
    }

    /// The token of an account in the Secret of this name.
    async fn read_token(&self, name: &str) -> Result<Vec<u8>, Error> {
        if self.executor.writes() {
            return await_token(&self.member, name, self.spec.wait).await;
        }
        let live = self.member.live(&registration::token_secret("", name)).await?;
        let token = live.and_then(|live| from_base64(&live["data"]["token"]));
        Ok(token.unwrap_or_default())
    }

    async fn cluster(&mut self) -> Result<(), Error> {
        let mut wanted = registration::cluster(&self.cell);
        if let Some(cluster) = self.cluster.take() {
            let made_by = self.executor.maker.as_str();
            let mut patch = json!({});
            if !contains(&cluster["spec"], &wanted["spec"]) {
                patch["spec"] = wanted["spec"].take();
            }
            if cluster["metadata"]["labels"][MADE_BY] != made_by {
                patch["metadata"]["labels"][MADE_BY] = json!(made_by);
            }
            if patch != json!({}) {
                self.patch(&cluster, patch).await?;
            }
            return Ok(());
        }
        let wanted = self.executor.mark(&self.mark).put_on(wanted);
        let created = self.executor.run(&self.hub, Verb::Create, wanted).await?;
        if !self.executor.writes() {
            return Ok(());
        }
        let name = self.cell.name;
        if registration::is_younger_duplicate(name, self.cell.id, &self.hub.clusters().await?) {
            self.executor.run(&self.hub, Verb::Delete, created).await?;
            self.undo().await?;
            let what = format!("another Cluster of this member was made before {name}");
            return Err(Error::refused(what)
                .reason("DuplicateMember")
                .next("fedgate cells list"));
        }
        let secrets = std::mem::take(&mut self.secrets).into_iter();
        let owned = secrets.map(|secret| registration::owned(secret, &created));
        self.at_hub(owned.collect()).await
    }

    /// Takes away what was made under the name of a cell that cannot be: its Secrets on the hub, and its account at the member. The
    /// objects of all cells of the member stay.
    async fn undo(&mut self) -> Result<(), Error> {
        let (secrets, mark) = (std::mem::take(&mut self.secrets), &self.mark);
        self.executor.take_away(&self.hub, secrets, mark).await?;
        if self.cell.mode == SyncMode::Pull {
            // The agent of the other Cluster has the same name at the member.
            let rights = pull::hub_objects(self.cell.name)?;
            return self.executor.take_away(&self.hub, rights, mark).await;
        }
        let mut objects = registration::member_objects(&self.cell, &self.manifests)?;
        objects.retain(|object| object["kind"] != "Namespace" && object["metadata"]["name"] != IMPERSONATOR);
        self.executor.take_away(&self.member, objects, mark).await
    }

    async fn credential(&mut self) -> Result<(), Error> {
        let out = self.credential_out;
        let image = self.spec.agent_image_cell.as_deref();
        if out.is_none() && image.is_none() && self.executor.writes() {
            return Ok(());
        }
        let (name, manifests) = (self.cell.name, &self.manifests);
        credential::ensure_account(&mut self.executor, &self.hub, name, &self.mark, manifests).await?;
        if let Some(image) = image {
            self.program(image).await?;
        }
        let Some(out) = out.filter(|_| self.executor.writes()) else {
            return Ok(());
        };
        let old = std::fs::read_to_string(out)
            .ok()
            .filter(|_| out != Path::new("-"));
        let text = self.kubeconfig(old.as_deref()).await?;
        if old.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        hand_out(out, &text)
    }

    async fn kubeconfig(&self, old: Option<&str>) -> Result<String, Error> {
        self.executor.may_write("issue a token of the cell")?;
        let endpoint = self.spec.hub_endpoint.as_deref();
        let lifetime = self.spec.credential_lifetime;
        credential::kubeconfig(&self.hub, endpoint, self.cell.name, lifetime, old).await
    }

    /// The cell's program and its Secrets.
    async fn program(&mut self, image: &str) -> Result<(), Error> {
        let Cell { name, city, .. } = self.cell;
        let location = self.spec.location.as_deref().unwrap_or(name);
        self.at_member(agent::objects(image, location, city, name, &self.manifests)?)
            .await?;
        let sample = agent::secret("fedgate-hub", "kubeconfig", b"");
        let live = self.member.live(&sample).await?.unwrap_or_default();
        let old = from_base64(&live["data"]["kubeconfig"]).and_then(|old| String::from_utf8(old).ok());
        let text = if self.executor.writes() {
            self.kubeconfig(old.as_deref()).await?
        } else {
            old.unwrap_or_default()
        };
        let mut secrets = vec![agent::secret("fedgate-hub", "kubeconfig", text.as_bytes())];
        let admin = agent::secret("fedgate-admin", "token", b"");
        if self.member.live(&admin).await?.is_none() {
            let token = random_text().map_err(|error| Error::failed(error.to_string()))?;
            secrets.push(agent::secret("fedgate-admin", "token", token.as_bytes()));
        }
        self.at_member(secrets).await
    }

    async fn city(&mut self) -> Result<(), Error> {
        let Cell { name, city, .. } = self.cell;
        let label = json!({"metadata": {"labels": {CITY_CODE: city}}});
        if !self.executor.writes() {
            let object = json!({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"name": name}});
            let live = self.hub.live(&object).await?.unwrap_or(object);
            if Cluster(&live).city() == Some(city) {
                return Ok(());
            }
            return self.patch(&live, label).await;
        }
        let live = self.usable().await?;
        match Cluster(&live).city() {
            Some(other) if other == city => Ok(()),
            Some(other) => Err(another_city(name, other, city)),
            None if Cluster(&live).is_cordoned() => Err(Error::refused(format!("cell {name} is drained"))
                .next(format!("fedgate cells uncordon {name}"))),
            None => self.patch(&live, label).await,
        }
    }

    /// Opens the cell, or opens it again after a drain, with this taint of ours or none.
    ///
    /// # Errors
    /// As [`Join::reach`].
    pub async fn open(&mut self, taint: Option<&str>) -> Result<(), Error> {
        let Cell { name, city, .. } = self.cell;
        let live = self.usable().await?;
        if let Some(other) = Cluster(&live).city().filter(|other| *other != city) {
            return Err(another_city(name, other, city));
        }
        match drain::opening_patch(Cluster(&live), city, taint) {
            Some(patch) => self.patch(&live, patch).await,
            None => Ok(()),
        }
    }

    /// The Cluster, once Karmada calls it ready and it serves the kinds.
    async fn usable(&self) -> Result<Value, Error> {
        let (name, limit) = (self.cell.name, self.spec.wait);
        let missing = |pending: &str| {
            let what = format!(
                "Cluster {name} is not usable after {} s: {pending}",
                limit.as_secs()
            );
            let lacks_kinds = pending.starts_with(NOT_SERVED);
            let word = if lacks_kinds {
                "KindsMissing"
            } else {
                "ClusterNotReady"
            };
            Error::timed_out(what).reason(word).next(format!(
                "kubectl describe clusters.cluster.karmada.io {name}; then run the command again: it goes on where it ended"
            ))
        };
        wait::usable(&self.hub, name, &self.kinds, limit, missing).await
    }
}

fn another_city(name: &str, other: &str, city: &str) -> Error {
    Error::refused(format!("cell {name} serves {other}, not {city}"))
        .because("the city of a cell cannot change: its objects would be withdrawn and made anew")
        .next(format!(
            "give --city {other}, or: fedgate cells drain {name} and fedgate cells leave {name}"
        ))
}

/// Fails unless the member accepts the token, at the address where the hub reaches it, as that of Karmada's account.
pub(super) async fn prove(member: &Plane, endpoint: &str, cell: &str, token: &[u8]) -> Result<(), Error> {
    let account = Account {
        namespace: NAMESPACE,
        name: &registration::account(cell),
    };
    let token = String::from_utf8_lossy(token);
    token::prove(member, member.at(endpoint), &token, account).await
}

/// Waits for the token that the member's controller puts into the Secret of this name.
pub(super) async fn await_token(member: &Plane, name: &str, limit: Duration) -> Result<Vec<u8>, Error> {
    let test = |objects: &[Value]| {
        let token = objects
            .first()
            .and_then(|secret| from_base64(&secret["data"]["token"]));
        token.filter(|token| !token.is_empty()).ok_or_else(|| {
            let what = format!("{} has put no token into Secret {NAMESPACE}/{name}", member.title);
            Error::timed_out(what).reason("TokenPending").next(
                "start serviceaccount-token-controller in its kube-controller-manager, then run the command again",
            )
        })
    };
    let watched = (kind("v1", "Secret"), NAMESPACE, named_object(name));
    until(member, watched, limit, test).await
}
