//! The quota claim of an Instance: its name, its manifest, and the evaluation of a claim that was read (contract:
//! api.md §9). Pure functions.

use crate::{
    index::{
        digest::{self, Granted, claim_name},
        tables::TableId,
    },
    instance_types::InstanceSize,
};
use fedgate_api::{Reason, keys, names::ProjectKey};
use fedgate_engine::{diff::Digest, key::Plane, plan::Target, store::table::Row};
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
    /// Another cell created the claim.
    AnotherCells {
        /// Name of that cell.
        cell: Arc<str>,
        /// Requests of the claim, if it is granted.
        granted: Option<Digest>,
    },
    /// The claim is granted.
    Granted,
    /// The claim is undecided; its creation time.
    Pending(Timestamp),
    /// The claim is denied.
    Denied {
        /// UID of the claim.
        uid: Arc<str>,
        /// `ValidationFailed` if the claim itself is invalid, else `QuotaExceeded`.
        reason: Reason,
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
    /// The project, in which the claim is.
    pub project: &'a ProjectKey,
    /// Namespace of the claim.
    pub home: &'a str,
    /// Namespace of the Instance at the cell.
    pub namespace: &'a str,
    /// Name of the Instance.
    pub name: &'a str,
    /// UID of the Instance.
    pub uid: &'a str,
}

/// `spec.requests` of the claim of an Instance of this size.
pub fn requests(size: InstanceSize) -> Value {
    json!([
        {"resourceType": "compute.datumapis.com/instances", "amount": 1},
        {"resourceType": "compute.datumapis.com/vcpus", "amount": size.millicores},
        {"resourceType": "compute.datumapis.com/memory", "amount": size.mebibytes},
    ])
}

impl Claimant<'_> {
    /// The claim as the target of a request.
    pub fn target(&self) -> Target {
        Target {
            plane: Plane::Project(self.project.clone()),
            ..TableId::Claims.target(self.home, &claim_name(self.name))
        }
    }

    /// Renders the `ResourceClaim`.
    pub fn render(&self, size: InstanceSize) -> Value {
        let project = json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": self.project.as_str()});
        json!({
            "apiVersion": "quota.miloapis.com/v1alpha1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": claim_name(self.name),
                "namespace": self.home,
                "labels": {keys::SOURCE_CLUSTER: self.cell, keys::INSTANCE_NAMESPACE: self.namespace},
                "annotations": {keys::INSTANCE_UID: self.uid},
            },
            "spec": {"consumerRef": project, "resourceRef": project, "requests": requests(size)},
        })
    }

    /// The state of the claim, from the claim that was read.
    pub fn judge(&self, found: Option<&Row<digest::Claim>>) -> Claim {
        let Some(found) = found else {
            return Claim::Absent;
        };
        let (uid, claim) = (&found.uid, &found.digest);
        if claim.cell.as_deref() != Some(self.cell) {
            return Claim::AnotherCells {
                cell: claim.cell.clone().unwrap_or_else(|| "(none)".into()),
                granted: Some(claim.requests)
                    .filter(|_| !found.deleting && claim.granted.as_ref().is_some_and(|granted| granted.yes)),
            };
        }
        if found.deleting {
            return Claim::Terminating;
        }
        if !claim.is_of(self.cell, self.uid) {
            return Claim::Predecessors(uid.clone());
        }
        let time = |seconds: i64| Timestamp::from_second(seconds).unwrap_or_default();
        let reason = |granted: &Granted| Reason::parse(&granted.reason);
        match &claim.granted {
            Some(granted) if granted.yes => Claim::Granted,
            Some(granted) if reason(granted) != Some(Reason::PendingEvaluation) => Claim::Denied {
                uid: uid.clone(),
                reason: reason(granted)
                    .filter(|reason| *reason == Reason::ValidationFailed)
                    .unwrap_or(Reason::QuotaExceeded),
                message: granted.message.to_string(),
                // A condition that has always been False may keep the default's timestamp, so the claim's creation time
                // is the earliest.
                since: time(granted.since.max(claim.created)),
            },
            _ => Claim::Pending(time(claim.created)),
        }
    }
}
