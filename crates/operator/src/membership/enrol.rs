//! A join's part of mode pull: the agent's rights on the hub, the Cluster, the agent's certificate, and the agent at the
//! member (contract: provisioning.md §5.4).

use super::{
    agent_hub,
    certificate::{self, Held, Key, Pair, Route, Signed, signed},
    change::{Change, Verb, is_going, mark, marked},
    cluster::Cluster,
    error::{Error, Kind},
    executor::{Mode, Owner, say},
    join::Join,
    plane::{Plane, kind},
    pull::{self, KUBECONFIG, PENDING_KEY},
    registration::{self, Cell},
    token,
    wait::{Objects, Watched, until},
};
use serde_json::{Value, json};
use std::time::Duration;

impl Join<'_> {
    /// Rights and Cluster on the hub, then the agent at the member.
    pub(super) async fn enrol(
        &mut self,
        cell: &Cell<'_>,
        cluster: Option<Cluster<'_>>,
        image: &str,
    ) -> Result<(), Error> {
        let hub = self.hub.id().await?;
        self.is_alone(cell, &hub).await?;
        let mark = cell.mark();
        // The agent may make neither and needs both, for the leases of cell and agent.
        for name in [registration::NAMESPACE, pull::NAMESPACE] {
            self.executor
                .ensure(&self.hub, pull::namespace(name), Owner::Shared)
                .await?;
        }
        for object in pull::hub_objects(cell.name) {
            self.executor
                .ensure(&self.hub, object, Owner::Cell(&mark))
                .await?;
        }
        match cluster {
            Some(cluster) => self.correct(cell, cluster).await?,
            None => self.create(cell, Vec::new()).await?,
        }
        let objects = pull::member_objects(cell, &self.manifests);
        self.at_member(cell, objects).await?;
        self.certify(cell, &hub).await?;
        self.executor
            .ensure(&self.member, pull::deployment(cell, image), Owner::Cell(&mark))
            .await?;
        Ok(())
    }

    /// Fails if an agent of another program or hub is at the member, before anything is written: the policy would limit its
    /// account, and the Secret is its credential.
    async fn is_alone(&self, cell: &Cell<'_>, hub: &str) -> Result<(), Error> {
        for object in pull::agent_identities() {
            let live = self.member.live(&object).await?;
            if let Some(live) = live.filter(|live| mark(live).is_none() && !is_going(live)) {
                return Err(another_agent(&live));
            }
        }
        let live = self.member.live(&pull::secret(KUBECONFIG, b"")).await?;
        agent_hub::check(live.as_ref(), hub)?;
        let Some(secret) = live.filter(|live| mark(live).is_none() && !is_going(live)) else {
            return Ok(());
        };
        // Which way it leads is not asked here.
        let nowhere = Route {
            server: "",
            authority: b"",
        };
        match Held::read(&secret, nowhere).pair {
            Some(pair) if self.is_accepted(cell, &pair).await? => Ok(()),
            _ => may_replace(Some(&secret)),
        }
    }

    /// The agent's Secret with a kubeconfig that the hub accepts. The key is in the Secret before the hub is asked, so that
    /// a run that was interrupted goes on with the same request.
    async fn certify(&mut self, cell: &Cell<'_>, hub: &str) -> Result<(), Error> {
        let sample = pull::secret(KUBECONFIG, b"");
        if self.executor.mode() == Mode::Print {
            self.executor
                .ensure(&self.member, sample, Owner::Cell(&cell.mark()))
                .await?;
            say("the request for the agent's certificate is not printed: it needs a new key");
            return Ok(());
        }
        let authority = self.hub.authority.clone();
        let server = self
            .args
            .hub_endpoint
            .as_ref()
            .unwrap_or(&self.hub.server)
            .clone();
        let route = Route {
            server: &server,
            authority: &authority,
        };
        let live = self.member.live(&sample).await?;
        let held = Held::read(live.as_ref().unwrap_or(&Value::Null), route);
        let pair = match held.pair {
            Some(pair) if self.is_accepted(cell, &pair).await? => {
                if held.leads_there {
                    return self.name_hub(live.as_ref(), hub).await;
                }
                pair
            }
            _ => {
                may_replace(live.as_ref())?;
                let key = self.key(cell, live.as_ref(), held.pending, hub).await?;
                let Some(pair) = self.signed(cell, &key).await? else {
                    return Ok(());
                };
                pair
            }
        };
        may_replace(live.as_ref())?;
        let text = pair.kubeconfig(route, cell.name)?;
        let mut secret = pull::secret(KUBECONFIG, text.as_bytes());
        secret["data"][PENDING_KEY] = Value::Null;
        self.patch_secret(agent_hub::naming(secret, hub)).await
    }

    /// Names the hub on a Secret of ours that does not: an earlier join made it.
    async fn name_hub(&mut self, live: Option<&Value>, hub: &str) -> Result<(), Error> {
        if live.is_none_or(|live| mark(live).is_none() || agent_hub::named(live).is_some()) {
            return Ok(());
        }
        let mut secret = agent_hub::naming(pull::secret(KUBECONFIG, b""), hub);
        secret["data"] = json!({});
        self.patch_secret(secret).await
    }

    /// The key of the present request, or a new one, kept at the member.
    async fn key(
        &mut self,
        cell: &Cell<'_>,
        live: Option<&Value>,
        pending: Option<Key>,
        hub: &str,
    ) -> Result<Key, Error> {
        if let Some(key) = pending {
            return Ok(key);
        }
        let key = Key::generate()?;
        let secret = agent_hub::naming(pull::secret(PENDING_KEY, key.pem().as_bytes()), hub);
        if live.is_some() {
            self.patch_secret(secret).await?;
            return Ok(key);
        }
        let change = Change {
            verb: Verb::Create,
            object: marked(secret, &cell.mark()),
            is_new: true,
        };
        self.executor.run(&self.member, &change).await?;
        Ok(key)
    }

    /// Changes the Secret as it is now: the agent writes it, too, and owns the fields that it has written.
    async fn patch_secret(&mut self, mut secret: Value) -> Result<(), Error> {
        let live = self.member.live(&secret).await?.unwrap_or_default();
        for key in ["uid", "resourceVersion"] {
            secret["metadata"][key] = live["metadata"][key].clone();
        }
        let change = Change {
            verb: Verb::Merge,
            object: secret,
            is_new: false,
        };
        self.executor.run(&self.member, &change).await.map(drop)
    }

    /// True if the hub takes the certificate for the agent's. It is asked as it is reached from here.
    async fn is_accepted(&self, cell: &Cell<'_>, pair: &Pair) -> Result<bool, Error> {
        let route = Route {
            server: &self.hub.server,
            authority: &self.hub.authority,
        };
        let text = pair.kubeconfig(route, cell.name)?;
        match token::user_of(&text, "hub").await {
            Ok(user) => Ok(user == pull::user(cell.name)),
            Err(error) if error.kind == Kind::Forbidden => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The certificate of a key; `None` if nothing is written.
    async fn signed(&mut self, cell: &Cell<'_>, key: &Key) -> Result<Option<Pair>, Error> {
        let request = key.request(cell.name)?;
        if !self.executor.writes() {
            let name = format!("fedgate-agent-{}-…", cell.name);
            say(&format!(
                "{}: would request a certificate by {name}",
                self.hub.title
            ));
            return Ok(None);
        }
        match self.hub.live(&request).await? {
            None => {
                let change = Change {
                    verb: Verb::Create,
                    object: marked(request, &cell.mark()),
                    is_new: true,
                };
                self.executor.run(&self.hub, &change).await?;
            }
            Some(live) if mark(&live) == Some(cell.mark().as_str()) => {}
            Some(live) => {
                let name = live["metadata"]["name"].as_str().unwrap_or_default();
                return Err(Error::new(
                    Kind::Refused,
                    format!("CertificateSigningRequest {name} was made by another program"),
                )
                .next(format!("kubectl delete csr {name}, then run the command again")));
            }
        }
        let name = key.request_name(cell.name);
        let pair = Pair {
            certificate: await_certificate(&self.hub, &name, self.args.wait).await?,
            key: key.pem().into_bytes(),
        };
        if self.is_accepted(cell, &pair).await? {
            return Ok(Some(pair));
        }
        Err(Error::new(
            Kind::Failed,
            "the hub does not accept the certificate that it has signed for karmada-agent",
        )
        .next("let the hub's kube-controller-manager sign with the authority of the hub's --client-ca-file"))
    }
}

/// The refusal to replace another program's agent.
fn another_agent(live: &Value) -> Error {
    let what = super::change::title(live);
    Error::new(
        Kind::Refused,
        format!("{what} of the cell was made by another program"),
    )
    .because(
        "the cell has a karmada-agent already; join would limit its rights and replace its credential, and may cut it off \
         from another hub",
    )
    .next(
        "if it serves this hub: --adopt without --mode and --agent-image, under the name of its Cluster; else take it away \
         with that program (karmadactl unregister), then run the command again",
    )
}

/// Fails for another program's Secret: its credential is not ours to replace.
fn may_replace(live: Option<&Value>) -> Result<(), Error> {
    match live {
        Some(live) if mark(live).is_none() => Err(Error::new(
            Kind::Refused,
            format!(
                "{} of the cell was made by another program",
                super::change::title(live)
            ),
        )
        .because("it has no certificate that this hub accepts for the cell, and may be another hub's")
        .next(format!(
            "kubectl -n {} delete secret {KUBECONFIG} at the cell if its karmada-agent is gone",
            pull::NAMESPACE
        ))),
        _ => Ok(()),
    }
}

/// Waits until the request of this name has its certificate.
async fn await_certificate(hub: &Plane, name: &str, limit: Duration) -> Result<Vec<u8>, Error> {
    let watched = Watched {
        kind: kind(certificate::API_VERSION, "CertificateSigningRequest"),
        namespace: "",
        name,
        labels: "",
    };
    let state = |objects: &Objects| {
        let request = objects.values().next();
        request.map_or(Signed::Pending, |request| {
            signed(&json!({"status": request.data["status"]}))
        })
    };
    let test = |objects: &Objects| match state(objects) {
        Signed::Certificate(certificate) => Some(Ok(certificate)),
        Signed::Refused(reason) => Some(Err(refused(name, &reason))),
        Signed::Approved | Signed::Pending => None,
    };
    let approved = std::cell::Cell::new(false);
    let left = |objects: &Objects| {
        approved.set(state(objects) == Signed::Approved);
        format!(
            "the hub has signed no certificate of karmada-agent after {} s",
            limit.as_secs()
        )
    };
    match until(hub, &watched, limit, test, left).await {
        Ok(answer) => answer,
        Err(error) if error.kind == Kind::TimedOut => Err(pending(error, name, approved.get())),
        Err(error) => Err(error),
    }
}

fn refused(name: &str, reason: &str) -> Error {
    Error::new(
        Kind::Refused,
        format!("CertificateSigningRequest {name} was refused"),
    )
    .because(reason)
    .next(format!(
        "kubectl delete csr {name} on the hub, then run the command again"
    ))
}

fn pending(error: Error, name: &str, approved: bool) -> Error {
    if approved {
        return error
            .because(format!("CertificatePending: CertificateSigningRequest {name} is approved and not signed"))
            .next(
                "start csrsigning in the hub's kube-controller-manager, then run the command again: it goes on where it \
                 ended",
            );
    }
    error
        .because(format!("CertificatePending: CertificateSigningRequest {name} is not approved"))
        .next(format!(
            "kubectl certificate approve {name} on the hub, then run the command again: it goes on where it ended"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_does_not_come_says_who_has_to_act() {
        let late = || Error::new(Kind::TimedOut, "the hub has signed no certificate");
        let unapproved = pending(late(), "fedgate-agent-dfw-2-0a1b2c3d", false);
        assert_eq!(unapproved.kind.exit(), 8);
        let text = unapproved.to_string();
        assert!(
            text.contains("CertificatePending")
                && text.contains("kubectl certificate approve fedgate-agent-dfw-2-0a1b2c3d"),
            "{text}"
        );
        let unsigned = pending(late(), "fedgate-agent-dfw-2-0a1b2c3d", true).to_string();
        assert!(
            unsigned.contains("csrsigning") && !unsigned.contains("kubectl"),
            "{unsigned}"
        );
        let refused = refused("fedgate-agent-dfw-2-0a1b2c3d", "Denied: not today");
        assert_eq!(refused.kind, Kind::Refused);
        assert!(refused.to_string().contains("not today"));
    }

    #[test]
    fn another_programs_credential_is_not_replaced() {
        let secret = pull::secret(KUBECONFIG, b"x");
        assert_eq!(may_replace(None), Ok(()));
        assert_eq!(may_replace(Some(&marked(secret.clone(), "member-1"))), Ok(()));
        let error = may_replace(Some(&secret)).unwrap_err();
        assert_eq!(error.kind, Kind::Refused);
        assert!(
            error.to_string().contains("karmada-system/karmada-kubeconfig"),
            "{error}"
        );
    }
}
