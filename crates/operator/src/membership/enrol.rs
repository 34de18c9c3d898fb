//! karmada-agent at a cell of mode pull: its certificate, and its Pod (contract: provisioning.md §5.4).

use super::{
    agent_hub::{named, naming},
    certificate::{self, Held, Pair, Signed, new_key, signed},
    change::{Verb, is_going, mark, title},
    error::foreign,
    executor::Mode,
    join::Join,
    kubeconfig::Server,
    plane::{Plane, kind},
    pull::{self, KUBECONFIG, PENDING_KEY},
    token,
    wait::{named_object, until},
};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::time::Duration;

impl Join<'_> {
    /// The agent at the member, with its certificate.
    pub(super) async fn agent(&mut self) -> Result<(), Error> {
        self.certify().await?;
        let image = self.spec.agent_image.as_deref().unwrap_or_default();
        let deployment = pull::deployment(&self.cell, image)?;
        self.at_member(vec![deployment]).await
    }

    /// Fails if an agent of another program is at the member, before anything is written: the policy would limit its account,
    /// and the Secret is its credential.
    pub(super) async fn is_alone(&self) -> Result<(), Error> {
        for object in pull::agent_identities() {
            let live = self.member.live(&object).await?;
            if let Some(live) = live.filter(|live| mark(live).is_none() && !is_going(live)) {
                return Err(foreign(&format!("{} of the cell", title(&live)))
                    .because(
                        "the cell has a karmada-agent already; join would limit its rights and replace its credential, and may \
                         cut it off from another hub",
                    )
                    .next(
                        "if it serves this hub: --adopt without --mode and --agent-image, under the name of its Cluster; else \
                         take it away with that program (karmadactl unregister), then run the command again",
                    ));
            }
        }
        let live = self.member.live(&pull::secret(KUBECONFIG, b"")).await?;
        let live = live.filter(|live| !is_going(live)).unwrap_or_default();
        match Held::read(&live, self.hub.at("")).pair {
            Some(pair) if mark(&live).is_none() && self.is_accepted(&pair).await? => Ok(()),
            _ => may_replace(&live),
        }
    }

    /// The agent's Secret with a kubeconfig that the hub accepts. The key is in the Secret before the hub is asked, so that
    /// a run that was interrupted goes on with the same request.
    async fn certify(&mut self) -> Result<(), Error> {
        let sample = pull::secret(KUBECONFIG, b"");
        if self.executor.mode == Mode::Print {
            say("the request for the agent's certificate is not printed: it needs a new key");
            return self.at_member(vec![sample]).await;
        }
        let authority = self.hub.authority.clone();
        let url = self
            .spec
            .hub_endpoint
            .as_ref()
            .unwrap_or(&self.hub.server)
            .clone();
        let server = Server {
            url: &url,
            authority: &authority,
        };
        let live = self.member.live(&sample).await?.unwrap_or_default();
        let held = Held::read(&live, server);
        let accepted = match held.pair {
            Some(pair) if self.is_accepted(&pair).await? => Some(pair),
            _ => None,
        };
        if accepted.is_some() && held.leads_there {
            if mark(&live).is_none() || named(&live).is_some() {
                return Ok(());
            }
            let mut secret = sample;
            secret["data"] = json!({});
            return self.patch_secret(secret).await;
        }
        may_replace(&live)?;
        let pair = if let Some(pair) = accepted {
            pair
        } else {
            let key = self.key(&live, held.pending).await?;
            let Some(pair) = self.signed(&key).await? else {
                return Ok(());
            };
            pair
        };
        let text = pair.kubeconfig(server, self.cell.name)?;
        let mut secret = pull::secret(KUBECONFIG, text.as_bytes());
        secret["data"][PENDING_KEY] = Value::Null;
        self.patch_secret(secret).await
    }

    /// The key of the present request, or a new one, kept at the member.
    async fn key(&mut self, live: &Value, pending: Option<KeyPair>) -> Result<KeyPair, Error> {
        if let Some(key) = pending {
            return Ok(key);
        }
        let key = new_key()?;
        let secret = pull::secret(PENDING_KEY, key.serialize_pem().as_bytes());
        if live.is_null() {
            let secret = self
                .executor
                .mark(&self.mark)
                .put_on(naming(secret, self.cell.hub));
            self.executor.run(&self.member, Verb::Create, secret).await?;
        } else {
            self.patch_secret(secret).await?;
        }
        Ok(key)
    }

    /// Changes the Secret as it is now, naming the hub: the agent writes it, too, and owns the fields that it has written.
    async fn patch_secret(&mut self, secret: Value) -> Result<(), Error> {
        let mut secret = naming(secret, self.cell.hub);
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
        match token::user_of(&text, "hub", false).await {
            Ok(user) => Ok(user == pull::user(self.cell.name)),
            Err(error) if error.kind == Kind::Forbidden => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The certificate of a key; `None` if nothing is written.
    async fn signed(&mut self, key: &KeyPair) -> Result<Option<Pair>, Error> {
        let cell = self.cell.name;
        let request = certificate::request(key, cell)?;
        if !self.executor.writes() {
            let hub = &self.hub.title;
            say(&format!(
                "{hub}: would request a certificate by fedgate-agent-{cell}-…"
            ));
            return Ok(None);
        }
        let name = certificate::request_name(key, cell);
        match self.hub.live(&request).await? {
            None => {
                let request = self.executor.mark(&self.mark).put_on(request);
                self.executor.run(&self.hub, Verb::Create, request).await?;
            }
            Some(live) if mark(&live) == Some(&self.mark) => {}
            Some(live) => {
                let next = format!("kubectl delete csr {name}, then run the command again");
                return Err(foreign(&title(&live)).next(next));
            }
        }
        let pair = Pair {
            certificate: await_certificate(&self.hub, &name, self.spec.wait).await?,
            key: key.serialize_pem().into_bytes(),
        };
        if self.is_accepted(&pair).await? {
            return Ok(Some(pair));
        }
        let what = "the hub does not accept the certificate that it has signed for karmada-agent";
        Err(Error::failed(what).next(
            "let the hub's kube-controller-manager sign with the authority of the hub's --client-ca-file",
        ))
    }
}

/// Fails for another program's Secret, if there is one: its credential is not ours to replace.
fn may_replace(live: &Value) -> Result<(), Error> {
    if live.is_null() || mark(live).is_some() {
        return Ok(());
    }
    Err(foreign(&format!("{} of the cell", title(live)))
        .because("it has no certificate that this hub accepts for the cell, and may be another hub's")
        .next(format!(
            "kubectl -n {} delete secret {KUBECONFIG} at the cell if its karmada-agent is gone",
            pull::NAMESPACE
        )))
}

/// Waits until the request of this name has its certificate.
async fn await_certificate(hub: &Plane, name: &str, limit: Duration) -> Result<Vec<u8>, Error> {
    let test = |objects: &[Value]| match signed(objects.first().unwrap_or(&Value::Null)) {
        Signed::Certificate(certificate) => Ok(certificate),
        state => Err(missing(name, limit, state)),
    };
    let requests = kind(certificate::API_VERSION, "CertificateSigningRequest");
    until(hub, (requests, "", named_object(name)), limit, test).await
}

/// The error for a request without a certificate: who has to act, or that it was refused.
fn missing(name: &str, limit: Duration, state: Signed) -> Error {
    let (state, next) = match state {
        Signed::Refused(reason) => {
            let next = format!("kubectl delete csr {name} on the hub, then run the command again");
            let what = format!("CertificateSigningRequest {name} was refused");
            return Error::refused(what).because(reason).next(next);
        }
        Signed::Approved => (
            "approved and not signed",
            "start csrsigning in the hub's kube-controller-manager".to_owned(),
        ),
        Signed::Certificate(_) | Signed::Pending => (
            "not approved",
            format!("kubectl certificate approve {name} on the hub"),
        ),
    };
    let limit = limit.as_secs();
    Error::timed_out(format!(
        "the hub has signed no certificate of karmada-agent after {limit} s"
    ))
    .reason("CertificatePending")
    .because(format!("CertificateSigningRequest {name} is {state}"))
    .next(format!(
        "{next}, then run the command again: it goes on where it ended"
    ))
}

#[cfg(test)]
mod tests {
    use super::{super::executor::Executor, *};

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
        let mark = Executor::new(Mode::Write).mark("member-1");
        assert_eq!(may_replace(&Value::Null), Ok(()));
        assert_eq!(may_replace(&mark.put_on(secret.clone())), Ok(()));
        let error = may_replace(&secret).unwrap_err();
        assert_eq!(error.kind, Kind::Refused);
        assert!(
            error.to_string().contains("karmada-system/karmada-kubeconfig"),
            "{error}"
        );
    }
}
