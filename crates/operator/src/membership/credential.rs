//! The cell's own credential on the hub: a `ServiceAccount` that can be revoked (contract: provisioning.md §6.2).

use super::{
    agent,
    change::Maker,
    executor::Executor,
    kubeconfig,
    plane::Plane,
    token::{self, Account},
};
use fedgate_manifests::{CELL_ACCOUNTS, KindManifests};
use fedgate_terminal::error::{Error, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// The account of a cell.
pub fn account(cell: &str) -> Account<'_> {
    Account {
        namespace: CELL_ACCOUNTS,
        name: cell,
    }
}

/// The account as an object.
pub fn account_object(cell: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount",
           "metadata": {"name": cell, "namespace": CELL_ACCOUNTS}, "automountServiceAccountToken": false})
}

/// Makes the account, and before it the roles and policies of cells: without them the credential would be useless, or
/// unlimited.
pub async fn ensure_account(
    executor: &mut Executor,
    hub: &Plane,
    cell: &str,
    mark: &str,
    kinds: &[KindManifests],
) -> Result<(), Error> {
    // The provisioner may grant no rights, so that an administrator applies these files before it starts.
    if executor.maker == Maker::Command {
        let objects = agent::files(kinds, &["hub/role-of-cells.yaml", "hub/cell-writes.yaml"])?;
        executor.ensure_all(hub, objects, None).await?;
    }
    let account = account_object(cell);
    executor.ensure(hub, account, Some(mark)).await.map(drop)
}

/// A kubeconfig of the cell for the hub at its address for cells, which may be that of the administrator's kubeconfig. The
/// token of `old` stays if it is good for more than half of the lifetime and the hub does not refuse it.
pub async fn kubeconfig(
    hub: &Plane,
    endpoint: Option<&str>,
    cell: &str,
    lifetime: Duration,
    old: Option<&str>,
) -> Result<String, Error> {
    let (account, endpoint) = (account(cell), endpoint.unwrap_or(&hub.server));
    let is_fresh = |old: &&str| kubeconfig::is_fresh(old.as_bytes(), endpoint, lifetime, Timestamp::now());
    if let Some(old) = old.filter(is_fresh)
        && let Some(token) = kubeconfig::token(old.as_bytes())
    {
        // The cell's address of the hub may lead nowhere from here.
        let from_here = kubeconfig::with_token("hub", hub.at(&hub.server), cell, &token)?;
        let is_refused = match token::user_of(&from_here, "hub", false).await {
            Ok(user) => user != account.user(),
            Err(error) => error.kind == Kind::Forbidden,
        };
        if !is_refused {
            // The hub may have another authority since.
            return kubeconfig::with_token("hub", hub.at(endpoint), cell, &token);
        }
    }
    let token = token::issue(hub, account, lifetime, None).await?;
    kubeconfig::with_token("hub", hub.at(endpoint), cell, &token)
}
