//! The quota claim of an Instance: its name, its manifest, and the evaluation of a claim that was read (contract:
//! api.md §9). Pure functions.

use crate::{
    index::digest::{self, claim_name},
    instance_types::InstanceSize,
};
use fedgate_api::{Reason, keys, names::ProjectKey};
use fedgate_engine::store::table::Row;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// State of an Instance's claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// No claim exists.
    Absent,
    /// The claim is being deleted.
    Terminating,
    /// The claim belongs to a predecessor of the same name; its UID.
    Predecessors(Arc<str>),
    /// Another cell created the claim; name of that cell.
    AnotherCells(Arc<str>),
    /// The claim is granted.
    Granted,
    /// The claim is undecided; its creation time.
    Pending(Timestamp),
    /// The claim is denied.
    Denied {
        /// UID of the claim.
        uid: Arc<str>,
        /// True if the claim itself failed validation.
        invalid: bool,
        /// Message of the claim's condition Granted.
        message: String,
        /// Time of the denial.
        since: Timestamp,
    },
    /// The project cannot be asked for quota, or refuses the claim: reason and message.
    Refused(Reason, String),
}

/// The identity of an Instance in its claim.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The cell.
    pub cell: &'a str,
    /// Namespace of the Instance at the cell.
    pub namespace: &'a str,
    /// Name of the Instance.
    pub name: &'a str,
    /// UID of the Instance.
    pub uid: &'a str,
}

/// Renders the `ResourceClaim` of an Instance.
pub fn render(of: &Claimant<'_>, project: &ProjectKey, home: &str, size: InstanceSize) -> Value {
    let project =
        json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": project.as_str()});
    let InstanceSize {
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
            "name": claim_name(of.name),
            "namespace": home,
            "labels": {keys::SOURCE_CLUSTER: of.cell, keys::INSTANCE_NAMESPACE: of.namespace},
            "annotations": {keys::INSTANCE_UID: of.uid},
        },
        "spec": {"consumerRef": project, "resourceRef": project, "requests": requests},
    })
}

/// The state of an Instance's claim, from the claim that was read.
pub fn judge(found: Option<&Row<digest::Claim>>, of: &Claimant<'_>) -> Claim {
    let Some(found) = found else {
        return Claim::Absent;
    };
    let (uid, claim) = (&found.uid, &found.digest);
    if claim.cell.as_deref() != Some(of.cell) {
        let other = claim.cell.clone().unwrap_or_else(|| "(none)".into());
        return Claim::AnotherCells(other);
    }
    if found.deleting {
        return Claim::Terminating;
    }
    if !claim.is_of(of.cell, of.uid) {
        return Claim::Predecessors(uid.clone());
    }
    let time = |seconds: i64| Timestamp::from_second(seconds).unwrap_or_default();
    match &claim.granted {
        Some(granted) if granted.yes => Claim::Granted,
        Some(granted) if Reason::parse(&granted.reason) != Some(Reason::PendingEvaluation) => Claim::Denied {
            uid: uid.clone(),
            invalid: Reason::parse(&granted.reason) == Some(Reason::ValidationFailed),
            message: granted.message.to_string(),
            // A condition that has always been False may keep the default's timestamp, so the claim's creation time is
            // the earliest.
            since: time(granted.since.max(claim.created)),
        },
        _ => Claim::Pending(time(claim.created)),
    }
}
