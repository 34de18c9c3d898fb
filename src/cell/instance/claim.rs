//! The claim of quota of an Instance: its name and form, and what one that was read says (contract: api.md §9). Pure.

use super::quota::Claim;
use crate::{
    api::{Reason, keys, names::ProjectKey},
    cell::{
        size::Size,
        world::{CLAIM_PREFIX, digest},
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// Name of the claim of an Instance.
pub fn name(instance: &str) -> String {
    format!("{CLAIM_PREFIX}{instance}")
}

/// An Instance, as far as its claim says who it is for.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The cell.
    pub cell: &'a str,
    /// Its namespace at the cell.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

/// The claim.
pub fn render(of: &Claimant<'_>, project: &ProjectKey, home: &str, size: Size) -> Value {
    let project =
        json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": project.as_str()});
    let Size {
        millicores,
        mebibytes,
    } = size;
    let requests = json!([
        {"resourceType": "compute.datumapis.com/instances", "amount": 1},
        {"resourceType": "compute.datumapis.com/vcpus", "amount": millicores},
        {"resourceType": "compute.datumapis.com/memory", "amount": mebibytes},
    ]);
    json!({
        "apiVersion": "quota.miloapis.com/v1alpha1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name(of.name),
            "namespace": home,
            "labels": {keys::SOURCE_CLUSTER: of.cell, keys::INSTANCE_NAMESPACE: of.namespace},
            "annotations": {keys::INSTANCE_UID: of.uid},
        },
        "spec": {"consumerRef": project, "resourceRef": project, "requests": requests},
    })
}

/// A claim that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its UID.
    pub uid: Arc<str>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it says.
    pub claim: digest::Claim,
}

/// Whether a claim is this very Instance's.
pub fn is_of(claim: &digest::Claim, of: &Claimant<'_>) -> bool {
    claim.cell.as_deref() == Some(of.cell) && claim.instance.as_deref() == Some(of.uid)
}

/// What is known of an Instance's claim.
pub fn judge(found: Option<&Found>, of: &Claimant<'_>) -> Claim {
    let Some(Found { uid, deleting, claim }) = found else {
        return Claim::Absent;
    };
    if claim.cell.as_deref() != Some(of.cell) {
        let other = claim.cell.clone().unwrap_or_else(|| "(none)".into());
        return Claim::AnotherCells(other);
    }
    if *deleting {
        return Claim::Terminating;
    }
    if !is_of(claim, of) {
        return Claim::Predecessors(uid.clone());
    }
    let time = |seconds: i64| Timestamp::from_second(seconds).unwrap_or_default();
    match &claim.granted {
        Some(granted) if granted.yes => Claim::Granted,
        Some(granted) if Reason::parse(&granted.reason) != Some(Reason::PendingEvaluation) => Claim::Denied {
            uid: uid.clone(),
            invalid: Reason::parse(&granted.reason) == Some(Reason::ValidationFailed),
            message: granted.message.to_string(),
            // A condition that was never anything but False may keep the time of its default.
            since: time(granted.since.max(claim.created)),
        },
        _ => Claim::Pending(time(claim.created)),
    }
}
