//! The hub that a cell's karmada-agent serves. The marks of a member's objects are the same for all hubs, so the agent's
//! Secret names its hub (contract: provisioning.md §5.4).

use super::{
    error::{Error, Kind},
    plane::Plane,
    pull::{self, KUBECONFIG},
};
use fedgate_api::keys::HUB;
use serde_json::{Value, json};

/// The Secret, naming the hub.
pub(super) fn naming(mut secret: Value, hub: &str) -> Value {
    secret["metadata"]["annotations"][HUB] = json!(hub);
    secret
}

/// The hub that a Secret names.
pub(super) fn named(secret: &Value) -> Option<&str> {
    secret["metadata"]["annotations"][HUB].as_str()
}

/// Fails if the agent's Secret names another hub. One that names none is an earlier join's.
///
/// # Errors
/// [`Kind::Refused`], with the UID of that hub.
pub(super) fn check(secret: Option<&Value>, hub: &str) -> Result<(), Error> {
    let Some(other) = secret.and_then(named).filter(|other| *other != hub) else {
        return Ok(());
    };
    // The cell wrote it, as long as it liked.
    let other: String = other.chars().take(63).collect();
    let namespace = pull::NAMESPACE;
    Err(Error::new(
        Kind::Refused,
        format!("the cell's karmada-agent serves another hub, whose namespace kube-system has the UID {other}"),
    )
    .because("a cell pulls from one hub: without its credential or its rights the agent would be cut off from that one")
    .next(format!(
        "give --hub-kubeconfig of that hub, or let the cell leave it first; if this hub takes its place: \
         kubectl -n {namespace} annotate secret {KUBECONFIG} {HUB}- at the cell, then run the command again"
    )))
}

/// [`check`] of the Secret that is at the member now.
pub(super) async fn check_live(member: &Plane, hub: &Plane) -> Result<(), Error> {
    let live = member.live(&pull::secret(KUBECONFIG, b"")).await?;
    match live {
        Some(secret) => check(Some(&secret), &hub.id().await?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, naming, pull};

    #[test]
    fn a_name_that_a_cell_made_up_is_shown_short_and_escaped() {
        let named = |hub: &str| naming(pull::secret("x", b""), hub);
        let error = check(Some(&named(&"\u{1b}[2J".repeat(9_999))), "ours").unwrap_err();
        let text = error.to_string();
        assert!(!text.contains('\u{1b}') && text.len() < 1_000, "{text:?}");
        assert_eq!(check(Some(&named("ours")), "ours"), Ok(()));
        assert_eq!(check(Some(&pull::secret("x", b"")), "ours"), Ok(()));
        assert_eq!(check(None, "ours"), Ok(()));
    }
}
