//! The token of Karmada's account at a member, and its rotation: a new token is proven and handed to Karmada before the old
//! one ends (contract: provisioning.md §5.5).

use super::{
    agent_hub::check_member,
    args::CredentialArgs,
    change::{MADE_BY, mark},
    cluster::Cluster,
    drain::find,
    error::foreign,
    executor::Executor,
    join::{await_token, prove},
    leave::same_member,
    mode::SyncMode,
    plane::{Plane, kind},
    registration::{self, NAMESPACE, account},
    wait::usable,
};
use fedgate_terminal::{error::Error, write::say};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

/// Annotation on the hub Secret: when it got its present token, as RFC 3339.
pub(super) const ROTATED: &str = "fedgate.dev/rotated-at";
/// Time after which Karmada has read a new token: it reads every 5 min, and at once after a 401.
const READ_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// A token Secret of Karmada's account at the member.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenSecret<'a> {
    /// The Secret.
    pub(super) object: &'a Value,
    /// 0 for the one of `join`, then its number.
    number: u64,
}

/// The token Secrets of a cell's account, in the order of their numbers.
pub(super) fn token_secrets<'a>(cell: &str, secrets: &'a [Value]) -> Vec<TokenSecret<'a>> {
    let account = account(cell);
    let number = |name: &str| match name.strip_prefix(&account)? {
        "" => Some(0),
        rest => rest.strip_prefix('-')?.parse().ok(),
    };
    let of_account = |secret: &&Value| {
        secret["metadata"]["namespace"] == NAMESPACE
            && secret["type"] == "kubernetes.io/service-account-token"
            && secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] == account.as_str()
    };
    let found = secrets.iter().filter(of_account).filter_map(|object| {
        let number = number(object["metadata"]["name"].as_str()?)?;
        Some(TokenSecret { object, number })
    });
    let mut found: Vec<TokenSecret<'a>> = found.collect();
    found.sort_by_key(|secret| secret.number);
    found
}

/// The token Secrets of the cells at a member.
pub(super) async fn read(member: &Plane) -> Result<Vec<Value>, Error> {
    member.list_in(&kind("v1", "Secret"), NAMESPACE, MADE_BY).await
}

/// The name of the Secret whose token Karmada is to use.
pub(super) fn newest(cell: &str, secrets: &[Value]) -> String {
    let newest = token_secrets(cell, secrets).pop();
    let name = newest.and_then(|secret| secret.object["metadata"]["name"].as_str());
    name.map_or_else(|| account(cell), str::to_owned)
}

/// The next step of a rotation.
#[derive(Debug, PartialEq)]
enum Step {
    /// Make the Secret of this name, and hand its token to Karmada.
    Make(String),
    /// Hand the token of this Secret, which an earlier run has made, to Karmada.
    Hand(String),
    /// Karmada has the newest token; at this time these Secrets may go.
    End(Vec<Value>, Timestamp),
}

/// Decides the step by the member's Secrets and the Secret on the hub.
fn step(cell: &str, secrets: &[Value], on_hub: &Value, now: Timestamp) -> Step {
    let all = token_secrets(cell, secrets);
    let token = &on_hub["data"]["token"];
    let is_handed = |secret: &TokenSecret<'_>| !token.is_null() && secret.object["data"]["token"] == *token;
    match all.iter().position(is_handed) {
        Some(at) if at + 1 < all.len() => Step::Hand(newest(cell, secrets)),
        Some(1..) => {
            let handed = on_hub["metadata"]["annotations"][ROTATED].as_str();
            let handed = handed.and_then(|text| text.parse().ok()).unwrap_or(now);
            let older = all[..all.len() - 1].iter().map(|secret| secret.object.clone());
            let end = handed.checked_add(READ_WITHIN).unwrap_or(Timestamp::MAX);
            Step::End(older.collect(), end)
        }
        Some(0) | None => {
            let last = all.last().map_or(0, |secret| secret.number);
            Step::Make(format!("{}-{}", account(cell), last.saturating_add(1)))
        }
    }
}

/// Rotates the token of Karmada's account; a run that was interrupted goes on.
pub(super) async fn rotate(
    executor: &mut Executor,
    hub: &Plane,
    member: &Plane,
    args: &CredentialArgs,
) -> Result<(), Error> {
    let clusters = hub.clusters().await?;
    let cluster = find(&args.cell.name, &clusters)?;
    let mark = may_rotate(cluster, &member.id().await?)?;
    check_member(member, &hub.id().await?, Some(&args.cell.name)).await?;
    let mut rotation = Rotation {
        executor,
        hub,
        member,
        cluster,
        mark: &mark,
        args,
    };
    match rotation.next().await? {
        Step::Make(name) => {
            let secret = registration::token_secret(&account(&args.cell.name), &name);
            let executor = &mut *rotation.executor;
            executor.ensure(member, secret, Some(&mark)).await?;
            rotation.hand(&name).await?;
        }
        Step::Hand(name) => rotation.hand(&name).await?,
        Step::End(..) => {}
    }
    match rotation.next().await? {
        Step::End(older, end) => rotation.end(older, end).await,
        Step::Make(_) | Step::Hand(_) => Ok(()),
    }
}

/// The mark of a Cluster whose credential is ours to rotate.
fn may_rotate(cluster: Cluster<'_>, member: &str) -> Result<String, Error> {
    let name = cluster.name();
    let Some(own) = mark(cluster.0) else {
        let error = foreign(&format!("the credential of Cluster {name}"));
        return Err(error.next("rotate it with that program"));
    };
    same_member(cluster, member)?;
    if SyncMode::of(cluster) == SyncMode::Pull {
        let what =
            format!("the hub holds no credential of cell {name}: its karmada-agent has one of the hub");
        return Err(Error::refused(what).next("karmada-agent rotates it itself"));
    }
    Ok(own.to_owned())
}

struct Rotation<'a> {
    executor: &'a mut Executor,
    hub: &'a Plane,
    member: &'a Plane,
    cluster: Cluster<'a>,
    mark: &'a str,
    args: &'a CredentialArgs,
}

impl Rotation<'_> {
    async fn next(&self) -> Result<Step, Error> {
        let cell = &self.args.cell.name;
        let on_hub = self.hub.live(&registration::hub_secret(cell, b"", b"")).await?;
        let secrets = read(self.member).await?;
        Ok(step(
            cell,
            &secrets,
            &on_hub.unwrap_or_default(),
            Timestamp::now(),
        ))
    }

    /// Proves the token of a Secret, and gives it to Karmada.
    async fn hand(&mut self, name: &str) -> Result<(), Error> {
        let cell = &self.args.cell.name;
        if !self.executor.writes() {
            say(&format!(
                "would give Karmada the token of Secret {NAMESPACE}/{name}"
            ));
            return Ok(());
        }
        let token = await_token(self.member, name, self.args.wait).await?;
        let endpoint = self.cluster.0["spec"]["apiEndpoint"].as_str().unwrap_or_default();
        prove(self.member, endpoint, cell, &token).await?;
        let mut secret = registration::hub_secret(cell, &token, &self.member.authority);
        secret = registration::owned(secret, self.cluster.0);
        secret["metadata"]["annotations"] = json!({(ROTATED): Timestamp::now().to_string()});
        let owner = Some(self.mark);
        self.executor.ensure(self.hub, secret, owner).await.map(drop)
    }

    /// Ends the older tokens once Karmada has read the new one.
    async fn end(&mut self, older: Vec<Value>, end: Timestamp) -> Result<(), Error> {
        let cell = &self.args.cell.name;
        if self.args.keep_old_tokens {
            say(&format!(
                "cell {cell}: the older tokens stay valid; run rotate again to end them"
            ));
            return Ok(());
        }
        if self.executor.writes() {
            let left = Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default();
            if left > self.args.wait {
                let what = format!(
                    "Karmada may read the token of cell {cell} until {end}, and the old one is valid"
                );
                let next = "run the command again then: it goes on where it ended";
                return Err(Error::timed_out(what).next(next));
            }
            if !left.is_zero() {
                say(&format!(
                    "waiting until {end}, when Karmada has read the new token; after Ctrl-C run the command again"
                ));
                tokio::time::sleep(left).await;
            }
            // Karmada calls the Cluster ready with the new token.
            let missing = |pending: &str| {
                let what = format!("Cluster {cell} is not ready with its new token: {pending}");
                Error::timed_out(what)
                    .next("the old token is valid: kubectl describe the Cluster, then rotate again")
            };
            usable(self.hub, cell, &[], self.args.wait, missing).await?;
        }
        self.executor.delete_own(self.member, older, self.mark).await?;
        say(&format!(
            "cell {cell}: Karmada uses a new token, and the old one has ended"
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, token: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": name, "namespace": NAMESPACE,
                "annotations": {"kubernetes.io/service-account.name": "karmada-dfw-2"}},
            "data": {"token": token}})
    }

    fn on_hub(token: &str, rotated: Option<&str>) -> Value {
        let mut secret = json!({"data": {"token": token}, "metadata": {"annotations": {}}});
        if let Some(rotated) = rotated {
            secret["metadata"]["annotations"][ROTATED] = json!(rotated);
        }
        secret
    }

    fn now() -> Timestamp {
        "2026-11-25T10:00:00Z".parse().unwrap()
    }

    fn next(secrets: &[Value], on_hub: &Value) -> Step {
        step("dfw-2", secrets, on_hub, now())
    }

    #[test]
    fn a_rotation_makes_the_next_secret_hands_it_over_and_ends_the_older_ones() {
        let first = secret("karmada-dfw-2", "a");
        assert_eq!(
            next(std::slice::from_ref(&first), &on_hub("a", None)),
            Step::Make("karmada-dfw-2-1".to_owned())
        );
        let both = [first.clone(), secret("karmada-dfw-2-1", "b")];
        // A run ended between the Secret and the hub.
        assert_eq!(
            next(&both, &on_hub("a", None)),
            Step::Hand("karmada-dfw-2-1".to_owned())
        );
        let rotated = on_hub("b", Some("2026-11-25T09:55:00Z"));
        let end = "2026-11-25T10:05:00Z".parse().unwrap();
        assert_eq!(next(&both, &rotated), Step::End(vec![first], end));
        // The older one has gone: the next rotation begins.
        assert_eq!(
            next(&both[1..], &rotated),
            Step::Make("karmada-dfw-2-2".to_owned())
        );
    }

    #[test]
    fn a_token_of_unknown_age_ends_ten_minutes_from_now() {
        let both = [secret("karmada-dfw-2", "a"), secret("karmada-dfw-2-1", "b")];
        let Step::End(_, end) = next(&both, &on_hub("b", None)) else {
            panic!("it ends the older one");
        };
        assert_eq!(end.to_string(), "2026-11-25T10:10:00Z");
    }

    #[test]
    fn a_token_that_no_secret_has_is_replaced() {
        let both = [secret("karmada-dfw-2", "a"), secret("karmada-dfw-2-3", "b")];
        assert_eq!(
            next(&both, &on_hub("x", None)),
            Step::Make("karmada-dfw-2-4".to_owned())
        );
        assert_eq!(next(&[], &Value::Null), Step::Make("karmada-dfw-2-1".to_owned()));
    }

    #[test]
    fn secrets_of_other_accounts_and_names_do_not_count() {
        let mut foreign = secret("karmada-dfw-2-9", "x");
        foreign["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "karmada-dfw-2-9"});
        let odd = secret("karmada-dfw-2-old", "y");
        let all = [
            foreign,
            odd,
            secret("karmada-dfw-2-10", "b"),
            secret("karmada-dfw-2-2", "a"),
        ];
        let names: Vec<u64> = token_secrets("dfw-2", &all)
            .iter()
            .map(|secret| secret.number)
            .collect();
        assert_eq!(names, [2, 10]);
        assert_eq!(newest("dfw-2", &all), "karmada-dfw-2-10");
        assert_eq!(newest("dfw-3", &all), "karmada-dfw-3");
    }
}
