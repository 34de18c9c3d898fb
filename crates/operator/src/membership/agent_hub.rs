//! The hub that a cell belongs to. The marks of a member's objects are the same for all hubs, so Karmada's account of mode push
//! and the agent's Secret of mode pull name their hub (contract: provisioning.md §5.2, §5.4).

use super::{
    change::{MADE_BY, title},
    plane::{Plane, kind},
    pull::{self, KUBECONFIG},
    registration::{self, Cell, IMPERSONATOR, account},
};
use fedgate_api::keys::HUB;
use fedgate_terminal::error::{Error, Kind};
use serde_json::{Value, json};

/// The Secret or account, naming the hub.
pub(super) fn naming(mut object: Value, hub: &str) -> Value {
    object["metadata"]["annotations"][HUB] = json!(hub);
    object
}

/// The hub that a Secret or an account names.
pub(super) fn named(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][HUB].as_str()
}

/// The hub that a Secret or an account names, if it is another one than `hub`. The cell wrote it, as long as it liked.
fn other(object: &Value, hub: &str) -> Option<String> {
    let other = named(object).filter(|other| *other != hub)?;
    Some(other.chars().take(63).collect())
}

/// Fails if the agent's Secret names another hub. One that names none is this hub's: an operator takes the name off.
///
/// # Errors
/// [`Kind::Refused`], with the UID of that hub.
pub(super) fn check(secret: Option<&Value>, hub: &str) -> Result<(), Error> {
    let Some(other) = secret.and_then(|secret| other(secret, hub)) else {
        return Ok(());
    };
    Err(refused(
        &format!(
            "the cell's karmada-agent serves another hub, whose namespace kube-system has the UID {other}"
        ),
        "a cell pulls from one hub: without its credential or its rights the agent would be cut off from that one",
        &format!("{} annotate secret {KUBECONFIG}", pull::NAMESPACE),
    ))
}

/// The refusal of what belongs to another hub. `annotate` is the part of the command that takes that hub's name off.
fn refused(what: &str, cause: &str, annotate: &str) -> Error {
    Error::new(Kind::Refused, what).because(cause).next(format!(
        "give --hub-kubeconfig of that hub, or let the cell leave it first; if this hub takes its place: \
         kubectl -n {annotate} {HUB}- at the cell, then run the command again"
    ))
}

/// [`check`] of the Secret that is at the member now.
pub(super) async fn check_live(member: &Plane, hub: &Plane) -> Result<(), Error> {
    let live = member.live(&pull::secret(KUBECONFIG, b"")).await?;
    match live {
        Some(secret) => check(Some(&secret), &hub.id().await?),
        None => Ok(()),
    }
}

/// True if an object is Karmada's account for the cell.
pub(super) fn is_account(object: &Value, cell: &Cell<'_>) -> bool {
    object["kind"] == "ServiceAccount" && object["metadata"]["name"] == cell.account()
}

/// Karmada's accounts that joins have made at a member, one for each cell name.
pub(super) async fn accounts(member: &Plane) -> Result<Vec<Value>, Error> {
    let kind = kind("v1", "ServiceAccount");
    let mut all = member.list_in(&kind, registration::NAMESPACE, MADE_BY).await?;
    all.retain(|object| object["metadata"]["name"] != IMPERSONATOR);
    Ok(all)
}

/// Fails if an account names another hub. One that names none is this hub's: an operator takes the name off.
fn check_account(of: &Value, hub: &str) -> Result<(), Error> {
    let Some(other) = other(of, hub) else {
        return Ok(());
    };
    let name = of["metadata"]["name"].as_str().unwrap_or_default();
    Err(refused(
        &format!(
            "{} of the cell is another hub's, whose namespace kube-system has the UID {other}",
            title(of)
        ),
        "a cell is of one hub: a second one would replace the cell's program, and take its roles away when it leaves",
        &format!("{} annotate serviceaccount {name}", registration::NAMESPACE),
    ))
}

/// Fails if any account at the member names another hub.
///
/// # Errors
/// [`Kind::Refused`], with the UID of that hub.
pub(super) async fn check_all(member: &Plane, hub: &Plane) -> Result<(), Error> {
    let accounts = accounts(member).await?;
    if accounts.is_empty() {
        return Ok(());
    }
    let hub = hub.id().await?;
    accounts.iter().try_for_each(|of| check_account(of, &hub))
}

/// Fails if the account for the cell names another hub; the names of all other accounts.
///
/// # Errors
/// [`Kind::Refused`], with the UID of that hub.
pub(super) async fn check_own(accounts: &[Value], cell: &str, hub: &Plane) -> Result<Vec<String>, Error> {
    let name = account(cell);
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        accounts.iter().partition(|of| of["metadata"]["name"] == name);
    if let Some(own) = own.first() {
        check_account(own, &hub.id().await?)?;
    }
    Ok(others.into_iter().map(title).collect())
}

#[cfg(test)]
mod tests {
    use super::{check, check_account, naming, pull};
    use serde_json::json;

    #[test]
    fn a_name_that_a_cell_made_up_is_shown_short_and_escaped() {
        let named = |hub: &str| naming(pull::secret("x", b""), hub);
        let error = check(Some(&named(&"\u{1b}[2J".repeat(9_999))), "ours").unwrap_err();
        let text = error.to_string();
        assert!(!text.contains('\u{1b}') && text.len() < 1_000, "{text:?}");
        assert_eq!(check(Some(&named("ours")), "ours"), Ok(()));
        assert_eq!(check(Some(&pull::secret("x", b"")), "ours"), Ok(()));
        assert_eq!(check(None, "ours"), Ok(()));
        let account = json!({"kind": "ServiceAccount",
            "metadata": {"name": "karmada-dfw-2", "namespace": "karmada-cluster"}});
        let error = check_account(&naming(account.clone(), &"\u{1b}[2J".repeat(9_999)), "ours").unwrap_err();
        let text = error.to_string();
        assert!(!text.contains('\u{1b}') && text.len() < 1_000, "{text:?}");
        assert!(
            text.contains("annotate serviceaccount karmada-dfw-2 fedgate.dev/hub-"),
            "{text}"
        );
        assert_eq!(check_account(&naming(account.clone(), "ours"), "ours"), Ok(()));
        assert_eq!(check_account(&account, "ours"), Ok(()));
    }
}
