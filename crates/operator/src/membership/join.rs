//! `fedgate cells join`: registers a cluster with Karmada, and opens it for its city last (contract: provisioning.md §5.1).

use super::{
    agent,
    agent_hub::check_member,
    args::JoinArgs,
    change::{Verb, contains, marked},
    cluster::{ADOPT, API_VERSION, Cluster},
    credential,
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

/// The planes and facts of one join.
pub(super) struct Join<'a> {
    pub(super) args: &'a JoinArgs,
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
}

/// Runs the command.
pub(super) async fn run(args: &JoinArgs) -> Result<(), Error> {
    let name = &args.cell.name;
    args.check()?;
    let kinds = super::load_kinds(&args.kinds)?.federated;
    let member = super::open_cell(&args.cell).await?;
    let member = member.ok_or_else(|| {
        Error::usage("join needs the cell").next("give --cell-kubeconfig, of an administrator of the cell")
    })?;
    let hub = super::open_hub(&args.cell.hub).await?;
    let (id, hub_id) = (member.id().await?, hub.id().await?);
    let endpoint = args.cell_endpoint.as_deref().unwrap_or(&member.server).to_owned();
    let clusters = hub.clusters().await?;
    let found = registration::find(name, &id, args.adopt, &clusters)?;
    same_mode(found, args.mode)?;
    check_member(&member, &hub_id, None).await?;
    let mut join = Join {
        args,
        cell: Cell {
            name,
            city: &args.city,
            id: &id,
            hub: &hub_id,
            endpoint: endpoint.trim_end_matches('/'),
            rights: args.rights,
            proxy: args.proxy,
            mode: args.mode,
        },
        mark: registration::member_mark(&id),
        hub,
        member,
        manifests: kinds.iter().map(|kind| KindManifests::of(kind, None)).collect(),
        kinds: kinds.into_iter().map(|kind| kind.resource).collect(),
        executor: Executor {
            patience: args.wait,
            ..Executor::new(args.write.mode(args.output))
        },
        cluster: found.cluster().map(|cluster| cluster.0.clone()),
        token: registration::account(name),
        secrets: Vec::new(),
    };
    for step in steps(found, args.mode) {
        join.take(*step).await?;
    }
    let done = format!("cell {name} serves {}", args.city);
    join.executor.conclude(&done, &done);
    Ok(())
}

impl Join<'_> {
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
                let definitions = super::without_crds(definitions, self.args.skip_crds);
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
            self.at_member(vec![object]).await.map_err(|error| match error.kind {
                Kind::NotFound if policy => {
                    error.next("NarrowUnsupported: the cell serves no ValidatingAdmissionPolicy; join it with --rights full")
                }
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
            return await_token(&self.member, name, self.args.wait).await;
        }
        let live = self.member.live(&registration::token_secret("", name)).await?;
        let token = live.and_then(|live| from_base64(&live["data"]["token"]));
        Ok(token.unwrap_or_default())
    }

    async fn cluster(&mut self) -> Result<(), Error> {
        let mut wanted = registration::cluster(&self.cell);
        if let Some(cluster) = self.cluster.take() {
            if contains(&cluster["spec"], &wanted["spec"]) {
                return Ok(());
            }
            return self.patch(&cluster, json!({"spec": wanted["spec"].take()})).await;
        }
        let wanted = marked(wanted, &self.mark);
        let created = self.executor.run(&self.hub, Verb::Create, wanted).await?;
        if !self.executor.writes() {
            return Ok(());
        }
        let name = self.cell.name;
        if registration::is_younger_duplicate(name, self.cell.id, &self.hub.clusters().await?) {
            self.executor.run(&self.hub, Verb::Delete, created).await?;
            let what = format!("another Cluster of this member was made before {name}");
            return Err(Error::refused(what)
                .because("DuplicateMember")
                .next("fedgate cells list"));
        }
        let secrets = std::mem::take(&mut self.secrets).into_iter();
        let owned = secrets.map(|secret| registration::owned(secret, &created));
        self.at_hub(owned.collect()).await
    }

    async fn credential(&mut self) -> Result<(), Error> {
        let out = self.args.credential_out.as_deref();
        let image = self.args.agent_image_cell.as_deref();
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
        let endpoint = self.args.hub_endpoint.as_deref();
        let lifetime = self.args.credential_lifetime;
        credential::kubeconfig(&self.hub, endpoint, self.cell.name, lifetime, old).await
    }

    /// The cell's program and its Secrets.
    async fn program(&mut self, image: &str) -> Result<(), Error> {
        let Cell { name, city, .. } = self.cell;
        let location = self.args.location.as_deref().unwrap_or(name);
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
        let limit = self.args.wait;
        let missing = |pending: &str| {
            let what = format!(
                "Cluster {name} is not usable after {} s: {pending}",
                limit.as_secs()
            );
            Error::timed_out(what).next(format!(
                "kubectl describe clusters.cluster.karmada.io {name}; then run the command again: it goes on where it ended"
            ))
        };
        let live = wait::usable(&self.hub, name, &self.kinds, limit, missing).await?;
        match Cluster(&live).city() {
            Some(other) if other == city => Ok(()),
            Some(other) => Err(Error::refused(format!("cell {name} serves {other}, not {city}"))
                .because("the city of a cell cannot change: its objects would be withdrawn and made anew")
                .next(format!(
                    "give --city {other}, or: fedgate cells drain {name} and fedgate cells leave {name}"
                ))),
            None if Cluster(&live).is_cordoned() => Err(Error::refused(format!("cell {name} is drained"))
                .next(format!("fedgate cells uncordon {name}"))),
            None => self.patch(&live, label).await,
        }
    }
}

/// Fails unless the member accepts the token, at the address where the hub reaches it, as that of Karmada's account.
pub(super) async fn prove(member: &Plane, endpoint: &str, cell: &str, token: &[u8]) -> Result<(), Error> {
    let account = Account {
        namespace: NAMESPACE,
        name: &registration::account(cell),
    };
    let token = String::from_utf8_lossy(token);
    token::prove(&member.title, member.at(endpoint), &token, account).await
}

/// Waits for the token that the member's controller puts into the Secret of this name.
pub(super) async fn await_token(member: &Plane, name: &str, limit: Duration) -> Result<Vec<u8>, Error> {
    let test = |objects: &[Value]| {
        let token = objects
            .first()
            .and_then(|secret| from_base64(&secret["data"]["token"]));
        token.filter(|token| !token.is_empty()).ok_or_else(|| {
            let what = format!("{} has put no token into Secret {NAMESPACE}/{name}", member.title);
            Error::timed_out(what).next(
                "start serviceaccount-token-controller in its kube-controller-manager, then run the command again",
            )
        })
    };
    let watched = (kind("v1", "Secret"), NAMESPACE, named_object(name));
    until(member, watched, limit, test).await
}
