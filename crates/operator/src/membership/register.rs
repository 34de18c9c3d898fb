//! A join's part of mode push: Karmada's account at the member, its token on the hub, and the Cluster (contract:
//! provisioning.md §5.1 steps 2 to 5); the steps of both modes.

use super::{
    agent_hub,
    change::{Change, Verb, contains},
    cluster::Cluster,
    error::{Error, Kind},
    executor::Owner,
    join::Join,
    kubeconfig::from_base64,
    leave::{take_away, take_earlier_limits},
    mode::SyncMode,
    plane::{Plane, kind},
    pull,
    registration::{self, AccountRights, Cell, IMPERSONATOR, NAMESPACE},
    rotation,
    token::{self, Account},
    wait::{Objects, Watched, until},
};
use serde_json::{Value, json};
use std::time::Duration;

impl Join<'_> {
    /// Karmada's account at the member, its token on the hub, and the Cluster without a city.
    pub(super) async fn register(
        &mut self,
        cell: &Cell<'_>,
        cluster: Option<Cluster<'_>>,
    ) -> Result<(), Error> {
        let mark = cell.mark();
        let newest = rotation::newest(cell.name, &rotation::read(&self.member).await?);
        let hub = self.hub.id().await?;
        let mut objects = registration::member_objects(cell, &self.manifests);
        for object in objects.iter_mut().filter(|of| agent_hub::is_account(of, cell)) {
            let live = self.member.live(object).await?;
            // Another program's account is not marked.
            if live.is_none_or(|live| super::change::mark(&live).is_some()) {
                *object = agent_hub::naming(object.take(), &hub);
            }
        }
        objects.retain(|object| {
            let name = &object["metadata"]["name"];
            // The token of any other Secret has been rotated.
            object["kind"] != "Secret" || *name == newest.as_str() || *name == IMPERSONATOR
        });
        self.at_member(cell, objects).await?;
        let token = self.token(&newest).await?;
        let namespace = registration::hub_namespace();
        self.executor.ensure(&self.hub, namespace, Owner::Shared).await?;
        let mut secrets = vec![registration::hub_secret(
            cell.name,
            &token,
            &self.member.authority,
        )];
        if cell.proxy {
            let token = self.token(IMPERSONATOR).await?;
            secrets.push(registration::hub_impersonator(cell.name, &token));
        }
        if let Some(cluster) = cluster {
            secrets = secrets
                .into_iter()
                .map(|secret| registration::owned(secret, cluster.0))
                .collect();
        }
        self.proven(cell, &secrets[0], &token).await?;
        for secret in &secrets {
            self.executor
                .ensure(&self.hub, secret.clone(), Owner::Cell(&mark))
                .await?;
        }
        match cluster {
            Some(cluster) => self.correct(cell, cluster).await,
            None => self.create(cell, secrets).await,
        }
    }

    /// The account of Karmada or its agent at the member, with its rights.
    pub(super) async fn at_member(&mut self, cell: &Cell<'_>, objects: Vec<Value>) -> Result<(), Error> {
        let mark = cell.mark();
        for object in objects {
            let policy = object["kind"] == "ValidatingAdmissionPolicy";
            let applied = self
                .executor
                .ensure(&self.member, object, Owner::Cell(&mark))
                .await;
            applied.map_err(|error| match error.kind {
                Kind::NotFound if policy => {
                    error.next("NarrowUnsupported: the cell serves no ValidatingAdmissionPolicy; join it with --rights full")
                }
                _ => error,
            })?;
        }
        if cell.rights == AccountRights::Full {
            // An earlier join with narrow rights has made them.
            let limits = match cell.mode {
                SyncMode::Push => registration::limits_of(cell.name, &self.manifests),
                SyncMode::Pull => pull::limits(&self.manifests),
            };
            take_away(&mut self.executor, &self.member, limits, &mark).await?;
        }
        // The new policy is there, so that the account is limited all the while.
        take_earlier_limits(&mut self.executor, &self.member, cell).await
    }

    /// Proves a token that the hub does not have yet.
    async fn proven(&self, cell: &Cell<'_>, secret: &Value, token: &[u8]) -> Result<(), Error> {
        if !self.executor.writes() {
            return Ok(());
        }
        let live = self.hub.live(secret).await?;
        if live.is_some_and(|live| contains(&live, secret)) {
            return Ok(());
        }
        let account = Account {
            namespace: NAMESPACE,
            name: &cell.account(),
        };
        let (title, text) = (&self.member.title, String::from_utf8_lossy(token));
        token::prove(title, cell.endpoint, &self.member.authority, &text, account).await
    }

    /// Restores the fields of a Cluster that are ours.
    pub(super) async fn correct(&mut self, cell: &Cell<'_>, cluster: Cluster<'_>) -> Result<(), Error> {
        let spec = registration::cluster_spec(cell);
        if contains(&cluster.0["spec"], &spec) {
            return Ok(());
        }
        self.merge(cluster.patch(json!({"spec": spec}))).await.map(drop)
    }

    pub(super) async fn create(&mut self, cell: &Cell<'_>, secrets: Vec<Value>) -> Result<(), Error> {
        let mark = cell.mark();
        let change = Change {
            verb: Verb::Create,
            object: super::change::marked(registration::cluster(cell), &mark),
            is_new: true,
        };
        let created = self.executor.run(&self.hub, &change).await?;
        if !self.executor.writes() {
            return Ok(());
        }
        let clusters = self.hub.clusters().await?;
        if registration::is_younger_duplicate(cell.name, cell.id, &clusters) {
            let change = Change {
                verb: Verb::Delete,
                object: created,
                is_new: false,
            };
            self.executor.run(&self.hub, &change).await?;
            return Err(Error::new(
                Kind::Refused,
                format!("another Cluster of this member was made before {}", cell.name),
            )
            .because("DuplicateMember")
            .next("fedgate cells list"));
        }
        for secret in secrets {
            let secret = registration::owned(secret, &created);
            self.executor
                .ensure(&self.hub, secret, Owner::Cell(&mark))
                .await?;
        }
        Ok(())
    }

    /// The token of Karmada's account in the Secret of this name.
    async fn token(&self, name: &str) -> Result<Vec<u8>, Error> {
        if self.executor.writes() {
            return await_token(&self.member, name, self.args.wait).await;
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
                            "metadata": {"name": name, "namespace": NAMESPACE}});
        let live = self.member.live(&secret).await?.unwrap_or_default();
        Ok(from_base64(&live["data"]["token"]).unwrap_or_default())
    }
}

/// Waits for the token that the member's controller puts into the Secret of this name.
pub(super) async fn await_token(member: &Plane, name: &str, limit: Duration) -> Result<Vec<u8>, Error> {
    let watched = Watched {
        kind: kind("v1", "Secret"),
        namespace: NAMESPACE,
        name,
        labels: "",
    };
    let token = |data: &Value| from_base64(&data["token"]).filter(|token| !token.is_empty());
    let test = |objects: &Objects| objects.values().find_map(|secret| token(&secret.data["data"]));
    let left = |_: &Objects| format!("{} has put no token into Secret {NAMESPACE}/{name}", member.title);
    let waited = until(member, &watched, limit, test, left).await;
    waited.map_err(|error| match error.kind {
        Kind::TimedOut => error.next(
            "start serviceaccount-token-controller in its kube-controller-manager, then run the command again",
        ),
        _ => error,
    })
}
