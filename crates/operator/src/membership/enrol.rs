//! A join's part of mode pull: the agent's rights on the hub, its certificate, and the agent at the member (contract:
//! provisioning.md §5.4).

use super::{
    agent_hub,
    certificate::{self, Held, Key, Pair, Signed, signed},
    change::{Verb, is_going, mark, marked, title},
    executor::Mode,
    join::Join,
    kubeconfig::Server,
    plane::{Plane, kind},
    pull::{self, KUBECONFIG, PENDING_KEY},
    registration, token,
    wait::{Objects, Watched, until},
};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use serde_json::{Value, json};
use std::time::Duration;

impl Join<'_> {
    /// The agent's rights on the hub; the id of the hub.
    pub(super) async fn enrol(&mut self) -> Result<String, Error> {
        let hub = self.hub.id().await?;
        self.is_alone(&hub).await?;
        // The agent may make neither and needs both, for the leases of cell and agent.
        for name in [registration::NAMESPACE, pull::NAMESPACE] {
            self.hub_namespace(name).await?;
        }
        for object in pull::hub_objects(self.cell.name)? {
            self.at_hub(object).await?;
        }
        Ok(hub)
    }

    /// The agent at the member, with its rights and its certificate.
    pub(super) async fn install_agent(&mut self, hub: &str, image: &str) -> Result<(), Error> {
        self.account(pull::member_objects(&self.cell, &self.manifests))
            .await?;
        self.certify(hub).await?;
        let deployment = pull::deployment(&self.cell, image)?;
        self.at_member(deployment).await.map(drop)
    }

    /// Fails if an agent of another program or hub is at the member, before anything is written: the policy would limit its
    /// account, and the Secret is its credential.
    async fn is_alone(&self, hub: &str) -> Result<(), Error> {
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
        match Held::read(&secret, self.hub.at("")).pair {
            Some(pair) if self.is_accepted(&pair).await? => Ok(()),
            _ => may_replace(Some(&secret)),
        }
    }

    /// The agent's Secret with a kubeconfig that the hub accepts. The key is in the Secret before the hub is asked, so that
    /// a run that was interrupted goes on with the same request.
    async fn certify(&mut self, hub: &str) -> Result<(), Error> {
        let sample = pull::secret(KUBECONFIG, b"");
        if self.executor.mode == Mode::Print {
            self.at_member(sample).await?;
            say("the request for the agent's certificate is not printed: it needs a new key");
            return Ok(());
        }
        let authority = self.hub.authority.clone();
        let url = self
            .args
            .hub_endpoint
            .as_ref()
            .unwrap_or(&self.hub.server)
            .clone();
        let server = Server {
            url: &url,
            authority: &authority,
        };
        let live = self.member.live(&sample).await?;
        let held = Held::read(live.as_ref().unwrap_or(&Value::Null), server);
        let pair = match held.pair {
            Some(pair) if self.is_accepted(&pair).await? => {
                if held.leads_there {
                    return self.name_hub(live.as_ref(), hub).await;
                }
                pair
            }
            _ => {
                may_replace(live.as_ref())?;
                let key = self.key(live.as_ref(), held.pending, hub).await?;
                let Some(pair) = self.signed(&key).await? else {
                    return Ok(());
                };
                pair
            }
        };
        may_replace(live.as_ref())?;
        let text = pair.kubeconfig(server, self.cell.name)?;
        let mut secret = pull::secret(KUBECONFIG, text.as_bytes());
        secret["data"][PENDING_KEY] = Value::Null;
        self.patch_secret(agent_hub::naming(secret, hub)).await
    }

    /// Names the hub on a Secret of ours that does not.
    async fn name_hub(&mut self, live: Option<&Value>, hub: &str) -> Result<(), Error> {
        if live.is_none_or(|live| mark(live).is_none() || agent_hub::named(live).is_some()) {
            return Ok(());
        }
        let mut secret = agent_hub::naming(pull::secret(KUBECONFIG, b""), hub);
        secret["data"] = json!({});
        self.patch_secret(secret).await
    }

    /// The key of the present request, or a new one, kept at the member.
    async fn key(&mut self, live: Option<&Value>, pending: Option<Key>, hub: &str) -> Result<Key, Error> {
        if let Some(key) = pending {
            return Ok(key);
        }
        let key = Key::generate()?;
        let secret = agent_hub::naming(pull::secret(PENDING_KEY, key.pem().as_bytes()), hub);
        if live.is_some() {
            self.patch_secret(secret).await?;
        } else {
            let secret = marked(secret, &self.mark);
            self.executor.run(&self.member, Verb::Create, secret).await?;
        }
        Ok(key)
    }

    /// Changes the Secret as it is now: the agent writes it, too, and owns the fields that it has written.
    async fn patch_secret(&mut self, mut secret: Value) -> Result<(), Error> {
        let live = self.member.live(&secret).await?.unwrap_or_default();
        for key in ["uid", "resourceVersion"] {
            secret["metadata"][key] = live["metadata"][key].clone();
        }
        let patched = self.executor.run(&self.member, Verb::Merge, secret).await;
        patched.map(drop)
    }

    /// True if the hub takes the certificate for the agent's. It is asked as it is reached from here.
    async fn is_accepted(&self, pair: &Pair) -> Result<bool, Error> {
        let text = pair.kubeconfig(self.hub.at(&self.hub.server), self.cell.name)?;
        match token::user_of(&text, "hub").await {
            Ok(user) => Ok(user == pull::user(self.cell.name)),
            Err(error) if error.kind == Kind::Forbidden => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The certificate of a key; `None` if nothing is written.
    async fn signed(&mut self, key: &Key) -> Result<Option<Pair>, Error> {
        let cell = self.cell.name;
        let request = key.request(cell)?;
        if !self.executor.writes() {
            let hub = &self.hub.title;
            say(&format!(
                "{hub}: would request a certificate by fedgate-agent-{cell}-…"
            ));
            return Ok(None);
        }
        let name = key.request_name(cell);
        match self.hub.live(&request).await? {
            None => {
                let request = marked(request, &self.mark);
                self.executor.run(&self.hub, Verb::Create, request).await?;
            }
            Some(live) if mark(&live) == Some(&self.mark) => {}
            Some(_) => {
                let what = format!("CertificateSigningRequest {name} was made by another program");
                return Err(Error::new(Kind::Refused, what)
                    .next(format!("kubectl delete csr {name}, then run the command again")));
            }
        }
        let pair = Pair {
            certificate: await_certificate(&self.hub, &name, self.args.wait).await?,
            key: key.pem().into_bytes(),
        };
        if self.is_accepted(&pair).await? {
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
    Error::new(
        Kind::Refused,
        format!("{} of the cell was made by another program", title(live)),
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
    let Some(live) = live.filter(|live| mark(live).is_none()) else {
        return Ok(());
    };
    Err(Error::new(
        Kind::Refused,
        format!("{} of the cell was made by another program", title(live)),
    )
    .because("it has no certificate that this hub accepts for the cell, and may be another hub's")
    .next(format!(
        "kubectl -n {} delete secret {KUBECONFIG} at the cell if its karmada-agent is gone",
        pull::NAMESPACE
    )))
}

/// Waits until the request of this name has its certificate.
async fn await_certificate(hub: &Plane, name: &str, limit: Duration) -> Result<Vec<u8>, Error> {
    let test = |objects: &Objects| {
        let request = objects.values().next();
        let status = request.map(|request| &request.data["status"]);
        match signed(&json!({"status": status})) {
            Signed::Certificate(certificate) => Ok(certificate),
            state => Err(missing(name, limit, state)),
        }
    };
    let requests = kind(certificate::API_VERSION, "CertificateSigningRequest");
    until(hub, Watched::one(requests, "", name), limit, test).await
}

/// The error for a request without a certificate: who has to act, or that it was refused.
fn missing(name: &str, limit: Duration, state: Signed) -> Error {
    if let Signed::Refused(reason) = state {
        let what = format!("CertificateSigningRequest {name} was refused");
        return Error::new(Kind::Refused, what).because(reason).next(format!(
            "kubectl delete csr {name} on the hub, then run the command again"
        ));
    }
    let (state, next) = if state == Signed::Approved {
        (
            "approved and not signed",
            "start csrsigning in the hub's kube-controller-manager".to_owned(),
        )
    } else {
        (
            "not approved",
            format!("kubectl certificate approve {name} on the hub"),
        )
    };
    let what = format!(
        "the hub has signed no certificate of karmada-agent after {} s",
        limit.as_secs()
    );
    Error::new(Kind::TimedOut, what)
        .because(format!(
            "CertificatePending: CertificateSigningRequest {name} is {state}"
        ))
        .next(format!(
            "{next}, then run the command again: it goes on where it ended"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_does_not_come_says_who_has_to_act() {
        let name = "fedgate-agent-dfw-2-0a1b2c3d";
        let late = |state| missing(name, Duration::from_mins(5), state);
        let unapproved = late(Signed::Pending);
        assert_eq!(unapproved.kind.exit(), 8);
        let text = unapproved.to_string();
        assert!(
            text.contains("CertificatePending")
                && text.contains("kubectl certificate approve fedgate-agent-dfw-2-0a1b2c3d"),
            "{text}"
        );
        let unsigned = late(Signed::Approved).to_string();
        assert!(
            unsigned.contains("csrsigning") && !unsigned.contains("kubectl"),
            "{unsigned}"
        );
        let refused = late(Signed::Refused("Denied: not today".to_owned()));
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
