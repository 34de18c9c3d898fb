//! `fedgate cells join`: registers a cluster with Karmada, and opens it for its city last (contract: provisioning.md §5.1).

use super::{
    agent::{self, Agent},
    agent_hub,
    args::JoinArgs,
    change::{Owner, Verb, contains, marked},
    cluster::{ADOPT, API_VERSION, Cluster},
    credential,
    executor::{Executor, Mode},
    file::write_private,
    internal,
    kubeconfig::from_base64,
    mode::{SyncMode, same_mode},
    plane::Plane,
    pull,
    registration::{self, AccountRights, Cell, Found},
    wait,
};
use fedgate_admin::console::session::random_text;
use fedgate_api::keys::CITY_CODE;
use fedgate_manifests::KindManifests;
use fedgate_terminal::{
    error::{Error, Kind},
    write::{say, write},
};
use kube::api::ApiResource;
use serde_json::{Value, json};
use std::path::Path;

/// The planes and facts of one join.
pub(super) struct Join<'a> {
    pub(super) args: &'a JoinArgs,
    pub(super) cell: Cell<'a>,
    /// The mark of its objects.
    pub(super) mark: String,
    pub(super) hub: Plane,
    pub(super) member: Plane,
    pub(super) manifests: Vec<KindManifests>,
    kinds: Vec<ApiResource>,
    pub(super) executor: Executor,
}

/// Runs the command.
pub(super) async fn run(args: &JoinArgs) -> Result<(), Error> {
    let name = &args.cell.name;
    args.check()?;
    let kinds = super::load_kinds(&args.kinds)?.federated;
    let mode = args.write.mode(args.output);
    let member = super::open_cell(&args.cell).await?;
    let member = member.ok_or_else(|| {
        Error::new(Kind::Usage, "join needs the cell")
            .next("give --cell-kubeconfig, of an administrator of the cell")
    })?;
    let hub = super::open_hub(&args.cell.hub).await?;
    let id = member.id().await?;
    let endpoint = args.cell_endpoint.as_deref().unwrap_or(&member.server).to_owned();
    let mut join = Join {
        args,
        cell: Cell {
            name,
            city: &args.city,
            id: &id,
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
            ..Executor::new(mode)
        },
    };
    let clusters = join.hub.clusters().await?;
    let found = registration::find(name, &id, args.adopt, &clusters)?;
    same_mode(found, args.mode)?;
    agent_hub::check_live(&join.member, &join.hub).await?;
    agent_hub::check_all(&join.member, &join.hub).await?;
    match found {
        Found::Adopted(cluster) => join.adopt(cluster).await?,
        found => join.connect(found.ours()).await?,
    }
    let definitions = agent::definitions(&join.manifests).map_err(internal)?;
    for object in super::without_crds(definitions, args.skip_crds) {
        join.at_member(object).await?;
    }
    join.credential().await?;
    join.open().await?;
    let done = match (mode, join.executor.changes) {
        (Mode::Print, _) => return Ok(()),
        (Mode::DryRun, changes) => format!("cell {name}: {changes} changes would be made"),
        (Mode::Write, 0) => format!("cell {name} serves {}; nothing to change", args.city),
        (Mode::Write, changes) => format!("cell {name} serves {}; {changes} changes were made", args.city),
    };
    say(&done);
    Ok(())
}

impl Join<'_> {
    /// Makes an object of the cell on the hub what is wanted.
    pub(super) async fn at_hub(&mut self, object: Value) -> Result<Value, Error> {
        let owner = Owner::Cell(&self.mark);
        self.executor.ensure(&self.hub, object, owner).await
    }

    /// Makes an object at the member what is wanted.
    pub(super) async fn at_member(&mut self, object: Value) -> Result<Value, Error> {
        let owner = Owner::Cell(&self.mark);
        self.executor.ensure(&self.member, object, owner).await
    }

    /// A Namespace of Karmada's own on the hub.
    pub(super) async fn hub_namespace(&mut self, name: &str) -> Result<(), Error> {
        let namespace = registration::namespace(name);
        let ensured = self.executor.ensure(&self.hub, namespace, Owner::Shared).await;
        ensured.map(drop)
    }

    async fn patch(&mut self, cluster: Cluster<'_>, patch: Value) -> Result<(), Error> {
        let patch = cluster.patch(patch);
        self.executor.run(&self.hub, Verb::Merge, patch).await.map(drop)
    }

    /// Takes over another program's Cluster: its label and taint are ours to write from now on.
    async fn adopt(&mut self, cluster: Cluster<'_>) -> Result<(), Error> {
        if cluster.is_adopted() {
            return Ok(());
        }
        let adopted = json!({"metadata": {"annotations": {ADOPT: cluster.name()}}});
        self.patch(cluster, adopted).await
    }

    /// Lets hub and member reach each other, by Karmada's account at the member or by an agent there, and makes the Cluster
    /// without a city.
    async fn connect(&mut self, cluster: Option<Cluster<'_>>) -> Result<(), Error> {
        match self.args.agent_image.as_deref() {
            None => {
                let secrets = self.register(cluster).await?;
                self.cluster(cluster, secrets).await
            }
            Some(image) => {
                let hub = self.enrol().await?;
                self.cluster(cluster, Vec::new()).await?;
                self.install_agent(&hub, image).await
            }
        }
    }

    /// The account of Karmada or its agent at the member, with its rights.
    pub(super) async fn account(&mut self, objects: Vec<Value>) -> Result<(), Error> {
        for object in objects {
            let policy = object["kind"] == "ValidatingAdmissionPolicy";
            self.at_member(object).await.map_err(|error| match error.kind {
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
        let limits = match self.cell.mode {
            SyncMode::Push => registration::limits_of(self.cell.name, &self.manifests),
            SyncMode::Pull => pull::limits(&self.manifests),
        };
        self.executor.take_away(&self.member, limits, &self.mark).await
    }

    /// The Cluster with the fields that are ours, and its Secrets.
    async fn cluster(&mut self, cluster: Option<Cluster<'_>>, secrets: Vec<Value>) -> Result<(), Error> {
        let Some(cluster) = cluster else {
            return self.create(secrets).await;
        };
        let spec = registration::cluster_spec(&self.cell);
        if contains(&cluster.0["spec"], &spec) {
            return Ok(());
        }
        self.patch(cluster, json!({"spec": spec})).await
    }

    async fn create(&mut self, secrets: Vec<Value>) -> Result<(), Error> {
        let cluster = marked(registration::cluster(&self.cell), &self.mark);
        let created = self.executor.run(&self.hub, Verb::Create, cluster).await?;
        if !self.executor.writes() {
            return Ok(());
        }
        let name = self.cell.name;
        if registration::is_younger_duplicate(name, self.cell.id, &self.hub.clusters().await?) {
            self.executor.run(&self.hub, Verb::Delete, created).await?;
            let what = format!("another Cluster of this member was made before {name}");
            return Err(Error::new(Kind::Refused, what)
                .because("DuplicateMember")
                .next("fedgate cells list"));
        }
        for secret in secrets {
            self.at_hub(registration::owned(secret, &created)).await?;
        }
        Ok(())
    }

    /// The cell's account on the hub, its kubeconfig, and the program that uses it.
    async fn credential(&mut self) -> Result<(), Error> {
        let out = self.args.credential_out.as_deref();
        let image = self.args.agent_image_cell.as_deref();
        if out.is_none() && image.is_none() && self.executor.writes() {
            return Ok(());
        }
        let (name, manifests) = (self.cell.name, &self.manifests);
        credential::ensure_account(&mut self.executor, &self.hub, name, &self.mark, manifests).await?;
        if let Some(image) = image {
            let location = self.args.location.as_deref().unwrap_or(name);
            let city = self.cell.city;
            self.program(&Agent {
                image,
                location,
                city,
            })
            .await?;
        }
        let Some(out) = out.filter(|_| self.executor.writes()) else {
            return Ok(());
        };
        let old = (out != Path::new("-"))
            .then(|| std::fs::read_to_string(out).ok())
            .flatten();
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
    async fn program(&mut self, agent: &Agent<'_>) -> Result<(), Error> {
        for object in agent::objects(agent, self.cell.name, &self.manifests).map_err(internal)? {
            self.at_member(object).await?;
        }
        let sample = agent::secret("fedgate-hub", "kubeconfig", b"");
        let live = self.member.live(&sample).await?.unwrap_or_default();
        let old = from_base64(&live["data"]["kubeconfig"]).and_then(|old| String::from_utf8(old).ok());
        let text = if self.executor.writes() {
            self.kubeconfig(old.as_deref()).await?
        } else {
            old.unwrap_or_default()
        };
        self.at_member(agent::secret("fedgate-hub", "kubeconfig", text.as_bytes()))
            .await?;
        let admin = agent::secret("fedgate-admin", "token", b"");
        if self.member.live(&admin).await?.is_none() {
            let token = random_text();
            let token = token.map_err(|error| Error::new(Kind::Failed, error.to_string()))?;
            self.at_member(agent::secret("fedgate-admin", "token", token.as_bytes()))
                .await?;
        }
        Ok(())
    }

    /// Waits until Karmada calls the Cluster ready, then writes its city.
    async fn open(&mut self) -> Result<(), Error> {
        let Cell { name, city, .. } = self.cell;
        let label = json!({"metadata": {"labels": {CITY_CODE: city}}});
        if !self.executor.writes() {
            let object = json!({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"name": name}});
            let live = self.hub.live(&object).await?.unwrap_or(object);
            if Cluster(&live).city() == Some(city) {
                return Ok(());
            }
            return self.patch(Cluster(&live), label).await;
        }
        let limit = self.args.wait;
        let missing = |pending: &str| {
            let what = format!(
                "Cluster {name} is not usable after {} s: {pending}",
                limit.as_secs()
            );
            Error::new(Kind::TimedOut, what).next(format!(
                "kubectl describe clusters.cluster.karmada.io {name}; then run the command again: it goes on where it ended"
            ))
        };
        let cluster = wait::usable(&self.hub, name, &self.kinds, limit, missing).await?;
        let live = Cluster(&cluster);
        match live.city() {
            Some(other) if other == city => Ok(()),
            Some(other) => Err(
                Error::new(Kind::Refused, format!("cell {name} serves {other}, not {city}"))
                    .because("the city of a cell cannot change: its objects would be withdrawn and made anew")
                    .next(format!(
                        "give --city {other}, or: fedgate cells drain {name} and fedgate cells leave {name}"
                    )),
            ),
            None if live.is_cordoned() => Err(Error::new(Kind::Refused, format!("cell {name} is drained"))
                .next(format!("fedgate cells uncordon {name}"))),
            None => self.patch(live, label).await,
        }
    }
}

/// Writes a credential to the file, or to standard output for `-`.
pub(super) fn hand_out(out: &Path, text: &str) -> Result<(), Error> {
    if out == Path::new("-") {
        return write(text);
    }
    write_private(out, text)?;
    say(&format!("credential written to {}", out.display()));
    Ok(())
}
