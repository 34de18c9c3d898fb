//! The cell's own credential on the hub: a `ServiceAccount` that can be revoked (contract: provisioning.md §6.2).

use super::{
    error::Error,
    executor::{Executor, Owner},
    kubeconfig,
    plane::Plane,
    token::{self, Account},
};
use fedgate_manifests::{CELL_ACCOUNTS, KindManifests, ManifestError};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// The hub as a cell reaches it.
#[derive(Debug, Clone, Copy)]
pub struct Hub<'a> {
    /// The hub, as an administrator.
    pub plane: &'a Plane,
    /// Its address for cells.
    pub endpoint: &'a str,
}

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

/// The roles and policies of cells on the hub: without them the credential would be useless, or unlimited.
pub fn hub_objects(kinds: &[KindManifests]) -> Result<Vec<Value>, ManifestError> {
    let files = fedgate_manifests::all(kinds)?.into_iter();
    let files = files.filter(|file| {
        matches!(
            file.path.as_str(),
            "hub/role-of-cells.yaml" | "hub/cell-writes.yaml"
        )
    });
    Ok(files.flat_map(|file| file.objects).collect())
}

/// Makes roles, policies and the account.
pub async fn ensure_account(
    executor: &mut Executor,
    hub: &Plane,
    cell: &str,
    mark: &str,
    kinds: &[KindManifests],
) -> Result<(), Error> {
    for object in hub_objects(kinds).map_err(super::internal)? {
        executor.ensure(hub, object, Owner::Shared).await?;
    }
    executor
        .ensure(hub, account_object(cell), Owner::Cell(mark))
        .await?;
    Ok(())
}

/// A kubeconfig of the cell for the hub. `old` is given back if it is good for more than half of the lifetime.
pub async fn kubeconfig(
    hub: Hub<'_>,
    cell: &str,
    lifetime: Duration,
    old: Option<&str>,
) -> Result<String, Error> {
    let account = account(cell);
    if let Some(old) = old
        && kubeconfig::is_fresh(old.as_bytes(), hub.endpoint, lifetime, Timestamp::now())
        && token::user_of(old, "hub")
            .await
            .is_ok_and(|user| user == account.user())
    {
        return Ok(old.to_owned());
    }
    let token = token::issue(hub.plane, account, lifetime, None).await?;
    kubeconfig::with_token("hub", hub.endpoint, &hub.plane.authority, cell, &token)
}
