//! A join's part of mode push: Karmada's account at the member, and its token on the hub (contract: provisioning.md §5.1
//! steps 2 to 4).

use super::{
    agent_hub,
    change::contains,
    cluster::Cluster,
    join::Join,
    kubeconfig::from_base64,
    plane::{Plane, kind},
    registration::{self, IMPERSONATOR, NAMESPACE},
    rotation,
    token::{self, Account},
    wait::{Objects, Watched, until},
};
use fedgate_terminal::error::{Error, Kind};
use serde_json::{Value, json};
use std::time::Duration;

impl Join<'_> {
    /// Karmada's account at the member, and its token on the hub; the hub's Secrets, which the Cluster owns.
    pub(super) async fn register(&mut self, cluster: Option<Cluster<'_>>) -> Result<Vec<Value>, Error> {
        let cell = self.cell;
        let newest = rotation::newest(cell.name, &rotation::read(&self.member).await?);
        let hub = self.hub.id().await?;
        let mut objects = registration::member_objects(&cell, &self.manifests);
        for object in objects.iter_mut().filter(|of| agent_hub::is_account(of, &cell)) {
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
        self.account(objects).await?;
        let token = self.token(&newest).await?;
        self.hub_namespace(NAMESPACE).await?;
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
            for secret in &mut secrets {
                *secret = registration::owned(secret.take(), cluster.0);
            }
        }
        self.prove(&secrets[0], &token).await?;
        for secret in &secrets {
            self.at_hub(secret.clone()).await?;
        }
        Ok(secrets)
    }

    /// Proves a token that the hub does not have yet.
    async fn prove(&self, secret: &Value, token: &[u8]) -> Result<(), Error> {
        if !self.executor.writes() {
            return Ok(());
        }
        let live = self.hub.live(secret).await?;
        if live.is_some_and(|live| contains(&live, secret)) {
            return Ok(());
        }
        prove(&self.member, self.cell.endpoint, self.cell.name, token).await
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
    let token = |data: &Value| from_base64(&data["token"]).filter(|token| !token.is_empty());
    let test = |objects: &Objects| {
        let found = objects.values().find_map(|secret| token(&secret.data["data"]));
        found.ok_or_else(|| {
            let what = format!("{} has put no token into Secret {NAMESPACE}/{name}", member.title);
            Error::new(Kind::TimedOut, what).next(
                "start serviceaccount-token-controller in its kube-controller-manager, then run the command again",
            )
        })
    };
    let watched = Watched::one(kind("v1", "Secret"), NAMESPACE, name);
    until(member, watched, limit, test).await
}
