//! `fedgate cells join`: registers a cluster with Karmada, and opens it for its city last (contract: provisioning.md §5.1).

use super::{
    agent::{self, Agent},
    agent_hub,
    args::{JoinArgs, PrintFormat},
    change::{Change, Verb},
    cluster::{ADOPT, API_VERSION, Cluster},
    credential::{self, Hub},
    error::{Error, Kind},
    executor::{Executor, Mode, Owner, say},
    file::write_private,
    internal,
    kubeconfig::from_base64,
    mode::same_mode,
    plane::{Plane, kind},
    registration::{self, Cell, Found},
    wait::{Watched, until},
};
use fedgate_api::{keys::CITY_CODE, names::hex};
use fedgate_kinds::FederatedKind;
use fedgate_manifests::KindManifests;
use kube::api::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use std::{io::Read, path::Path, time::Duration};

/// The planes and facts of one join.
pub(super) struct Join<'a> {
    pub(super) args: &'a JoinArgs,
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
    let mode = match (args.output, args.write.dry_run) {
        (Some(PrintFormat::Yaml), _) => Mode::Print,
        (None, true) => Mode::DryRun,
        (None, false) => Mode::Write,
    };
    let member = super::open_cell(&args.cell).await?;
    let member = member.ok_or_else(|| {
        Error::new(Kind::Usage, "join needs the cell")
            .next("give --cell-kubeconfig, of an administrator of the cell")
    })?;
    let mut join = Join {
        args,
        hub: super::open_hub(&args.cell.hub).await?,
        member,
        manifests: kinds.iter().map(|kind| KindManifests::of(kind, None)).collect(),
        kinds: kinds
            .into_iter()
            .map(|kind: FederatedKind| kind.resource)
            .collect(),
        executor: Executor::new(mode).waiting(args.wait),
    };
    let id = join.member.id().await?;
    let endpoint = args
        .cell_endpoint
        .clone()
        .unwrap_or_else(|| join.member.server.clone());
    let cell = Cell {
        name,
        city: &args.city,
        id: &id,
        endpoint: endpoint.trim_end_matches('/'),
        rights: args.rights,
        proxy: args.proxy,
        mode: args.mode,
    };
    let clusters = join.hub.clusters().await?;
    let found = registration::find(name, &id, args.adopt, &clusters)?;
    same_mode(found, args.mode)?;
    agent_hub::check_live(&join.member, &join.hub).await?;
    agent_hub::check_all(&join.member, &join.hub).await?;
    match (found, args.agent_image.as_deref()) {
        (Found::Adopted(cluster), _) => join.adopt(cluster).await?,
        (found, Some(image)) => join.enrol(&cell, found.ours(), image).await?,
        (found, None) => join.register(&cell, found.ours()).await?,
    }
    join.definitions(&cell).await?;
    join.credential(&cell).await?;
    join.open(&cell).await?;
    let done = match (mode, join.executor.changes()) {
        (Mode::Print, _) => return Ok(()),
        (Mode::DryRun, changes) => format!("cell {name}: {changes} changes would be made"),
        (Mode::Write, 0) => format!("cell {name} serves {}; nothing to change", args.city),
        (Mode::Write, changes) => format!("cell {name} serves {}; {changes} changes were made", args.city),
    };
    say(&done);
    Ok(())
}

impl Join<'_> {
    /// Takes over another program's Cluster: its label and taint are ours to write from now on.
    async fn adopt(&mut self, cluster: Cluster<'_>) -> Result<(), Error> {
        if cluster.is_adopted() {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {ADOPT: cluster.name()}}});
        self.merge(cluster.patch(patch)).await.map(drop)
    }

    pub(super) async fn merge(&mut self, object: Value) -> Result<Value, Error> {
        let change = Change {
            verb: Verb::Merge,
            object,
            is_new: false,
        };
        self.executor.run(&self.hub, &change).await
    }

    /// Definitions and roles at the member, before it is opened.
    async fn definitions(&mut self, cell: &Cell<'_>) -> Result<(), Error> {
        let mark = cell.mark();
        let objects = agent::definitions(&self.manifests).map_err(internal)?;
        for object in super::without_crds(objects, self.args.skip_crds) {
            self.executor
                .ensure(&self.member, object, Owner::Cell(&mark))
                .await?;
        }
        Ok(())
    }

    /// The cell's account on the hub, its kubeconfig, and the program that uses it.
    async fn credential(&mut self, cell: &Cell<'_>) -> Result<(), Error> {
        let out = self.args.credential_out.as_deref();
        let image = self.args.agent_image_cell.as_deref();
        if out.is_none() && image.is_none() && self.executor.writes() {
            return Ok(());
        }
        let mark = cell.mark();
        credential::ensure_account(&mut self.executor, &self.hub, cell.name, &mark, &self.manifests).await?;
        if let Some(image) = image {
            let location = self.args.location.as_deref().unwrap_or(cell.name);
            let agent = Agent {
                image,
                location,
                city: cell.city,
            };
            self.agent(cell, &agent).await?;
        }
        match out {
            Some(out) if self.executor.writes() => {
                let old = (out != Path::new("-"))
                    .then(|| std::fs::read_to_string(out).ok())
                    .flatten();
                let text = self.kubeconfig(cell, old.as_deref()).await?;
                if old.as_deref() != Some(text.as_str()) {
                    hand_out(out, &text)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn kubeconfig(&self, cell: &Cell<'_>, old: Option<&str>) -> Result<String, Error> {
        let hub = Hub {
            plane: &self.hub,
            endpoint: self.args.hub_endpoint.as_deref().unwrap_or(&self.hub.server),
        };
        credential::kubeconfig(hub, cell.name, self.args.credential_lifetime, old).await
    }

    /// The cell's program and its Secrets.
    async fn agent(&mut self, cell: &Cell<'_>, agent: &Agent<'_>) -> Result<(), Error> {
        let mark = cell.mark();
        for object in agent::objects(agent, cell.name, &self.manifests).map_err(internal)? {
            self.executor
                .ensure(&self.member, object, Owner::Cell(&mark))
                .await?;
        }
        let sample = agent::secret("fedgate-hub", "kubeconfig", b"");
        let live = self.member.live(&sample).await?.unwrap_or_default();
        let old = from_base64(&live["data"]["kubeconfig"]).and_then(|old| String::from_utf8(old).ok());
        let text = if self.executor.writes() {
            self.kubeconfig(cell, old.as_deref()).await?
        } else {
            old.unwrap_or_default()
        };
        let hub = agent::secret("fedgate-hub", "kubeconfig", text.as_bytes());
        self.executor
            .ensure(&self.member, hub, Owner::Cell(&mark))
            .await?;
        let sample = agent::secret("fedgate-admin", "token", b"");
        if self.member.live(&sample).await?.is_none() {
            let admin = agent::secret("fedgate-admin", "token", random_token()?.as_bytes());
            self.executor
                .ensure(&self.member, admin, Owner::Cell(&mark))
                .await?;
        }
        Ok(())
    }

    /// Waits until Karmada calls the Cluster ready, then writes its city.
    async fn open(&mut self, cell: &Cell<'_>) -> Result<(), Error> {
        let label = json!({"metadata": {"labels": {CITY_CODE: cell.city}}});
        if !self.executor.writes() {
            let object =
                json!({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"name": cell.name}});
            let live = self.hub.live(&object).await?.unwrap_or(object);
            if Cluster(&live).city() == Some(cell.city) {
                return Ok(());
            }
            return self.merge(Cluster(&live).patch(label)).await.map(drop);
        }
        let cluster = await_usable(&self.hub, cell.name, &self.kinds, self.args.wait).await?;
        let live = Cluster(&cluster);
        match live.city() {
            Some(city) if city == cell.city => Ok(()),
            Some(city) => Err(Error::new(
                Kind::Refused,
                format!("cell {} serves {city}, not {}", cell.name, cell.city),
            )
            .because("the city of a cell cannot change: its objects would be withdrawn and made anew")
            .next(format!(
                "give --city {city}, or: fedgate cells drain {0} and fedgate cells leave {0}",
                cell.name
            ))),
            None if live.is_cordoned() => Err(Error::new(
                Kind::Refused,
                format!("cell {} is drained", cell.name),
            )
            .next(format!("fedgate cells uncordon {}", cell.name))),
            None => self.merge(live.patch(label)).await.map(drop),
        }
    }
}

/// Waits until a Cluster is ready and serves the kinds.
async fn await_usable(
    hub: &Plane,
    name: &str,
    kinds: &[ApiResource],
    limit: Duration,
) -> Result<Value, Error> {
    let watched = Watched {
        kind: kind(API_VERSION, "Cluster"),
        namespace: "",
        name,
        labels: "",
    };
    let seen = |objects: &super::wait::Objects| -> Option<Value> {
        let found: Option<&DynamicObject> = objects.values().next();
        serde_json::to_value(found?).ok()
    };
    let test = |objects: &super::wait::Objects| seen(objects).filter(|c| Cluster(c).pending(kinds).is_none());
    let left = |objects: &super::wait::Objects| {
        let pending = seen(objects).map(|cluster| Cluster(&cluster).pending(kinds).unwrap_or_default());
        let pending = pending.unwrap_or_else(|| "it is not there".to_owned());
        format!(
            "Cluster {name} is not usable after {} s: {pending}",
            limit.as_secs()
        )
    };
    until(hub, &watched, limit, test, left)
        .await
        .map_err(|error| match error.kind {
            Kind::TimedOut => error.next(format!(
                "kubectl describe clusters.cluster.karmada.io {name}; then run the command again: it goes on where it ended"
            )),
            _ => error,
        })
}

/// Writes a credential to the file, or to standard output for `-`.
pub(super) fn hand_out(out: &Path, text: &str) -> Result<(), Error> {
    if out == Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    write_private(out, text)?;
    say(&format!("credential written to {}", out.display()));
    Ok(())
}

/// 32 random bytes in hexadecimal digits.
fn random_token() -> Result<String, Error> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Error::new(Kind::Failed, "cannot read random bytes").because(error.to_string()))?;
    Ok(hex(&bytes))
}
