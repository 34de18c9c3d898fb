//! The hub that a cell belongs to. The marks of a member's objects are the same for all hubs, so Karmada's account of mode push
//! and the agent's Secret of mode pull name their hub (contract: provisioning.md §5.2, §5.4).

use super::{
    change::{MADE_BY, title},
    plane::{Plane, kind},
    pull::{self, KUBECONFIG},
    registration::{self, IMPERSONATOR, account},
};
use fedgate_api::keys::HUB;
use fedgate_terminal::error::Error;
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

/// Fails if the Secret or account names another hub. One that names none is this hub's: an operator takes the name off.
///
/// # Errors
/// [`Kind::Refused`](fedgate_terminal::error::Kind::Refused), with the UID of that hub.
fn check(object: &Value, hub: &str) -> Result<(), Error> {
    let Some(other) = named(object).filter(|other| *other != hub) else {
        return Ok(());
    };
    // The cell wrote it, as long as it liked.
    let other: String = other.chars().take(63).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let (title, kind) = (title(object), text(&object["kind"]).to_lowercase());
    let what =
        format!("{title} of the cell is another hub's, whose namespace kube-system has the UID {other}");
    Err(Error::refused(what)
        .reason("AnotherHub")
        .because(
            "a cell is of one hub: a second one would replace the cell's program and the credential of its agent, and take its \
             roles away when it leaves",
        )
        .next(format!(
            "give --hub-kubeconfig of that hub, or let the cell leave it first; if this hub takes its place: kubectl -n \
             {namespace} annotate {kind} {name} {HUB}- at the cell, then run the command again"
        )))
}

/// Fails if the agent's Secret names another hub, or Karmada's account for the cell or, without a name of one, for any cell.
/// Returns the titles of the other accounts.
///
/// # Errors
/// [`Kind::Refused`](fedgate_terminal::error::Kind::Refused), with the UID of that hub.
pub(super) async fn check_member(
    member: &Plane,
    hub: &str,
    cell: Option<&str>,
) -> Result<Vec<String>, Error> {
    let secret = member.live(&pull::secret(KUBECONFIG, b"")).await?;
    secret.iter().try_for_each(|secret| check(secret, hub))?;
    let accounts = kind("v1", "ServiceAccount");
    let mut accounts = member
        .list_in(&accounts, registration::NAMESPACE, MADE_BY)
        .await?;
    accounts.retain(|object| object["metadata"]["name"] != IMPERSONATOR);
    let own = cell.map(account);
    let is_checked = |object: &&Value| own.as_ref().is_none_or(|own| object["metadata"]["name"] == **own);
    let (checked, others): (Vec<&Value>, Vec<&Value>) = accounts.iter().partition(is_checked);
    checked.into_iter().try_for_each(|object| check(object, hub))?;
    Ok(others.into_iter().map(title).collect())
}

#[cfg(test)]
mod tests {
    use super::{check, naming, pull};
    use serde_json::json;

    #[test]
    fn a_name_that_a_cell_made_up_is_shown_short_and_escaped() {
        let account = json!({"kind": "ServiceAccount",
            "metadata": {"name": "karmada-dfw-2", "namespace": "karmada-cluster"}});
        for (object, command) in [
            (
                pull::secret("x", b""),
                "annotate secret karmada-kubeconfig fedgate.dev/hub-",
            ),
            (account, "annotate serviceaccount karmada-dfw-2 fedgate.dev/hub-"),
        ] {
            let error = check(&naming(object.clone(), &"\u{1b}[2J".repeat(9_999)), "ours").unwrap_err();
            let text = error.to_string();
            assert!(!text.contains('\u{1b}') && text.len() < 1_000, "{text:?}");
            assert!(text.contains(command), "{text}");
            assert_eq!(check(&naming(object.clone(), "ours"), "ours"), Ok(()));
            assert_eq!(check(&object, "ours"), Ok(()));
        }
    }
}
