//! A plane as it is checked.

use super::{Check, Finding, PreflightError, Verdict};
use fedgate_engine::{
    metrics::PlaneKind,
    plane::{client::PlaneClient, kubeconfig::Expiry},
};
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use kube::{Api, api::PostParams};

/// The use of a plane, and the user as which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The hub, as the gateway.
    Hub,
    /// A project, as the gateway.
    Project,
    /// A cell's own API server, as the cell.
    Cell,
    /// The hub, as a cell.
    CellHub,
    /// The hub, as an administrator.
    Admin,
    /// The cluster that runs Karmada's own Pods.
    KarmadaHost,
}

impl Role {
    /// The kind of the plane, the flag that gives its kubeconfig, and the manifests with the roles of the user.
    const fn row(self) -> (PlaneKind, &'static str, &'static str) {
        match self {
            Self::Hub => (PlaneKind::Hub, "--hub-kubeconfig", "manifests/hub"),
            Self::Project => (PlaneKind::Project, "--project-kubeconfig", "manifests/project"),
            Self::Cell => (PlaneKind::Cell, "--cell-kubeconfig", "manifests/cell"),
            Self::CellHub => (PlaneKind::Hub, "--cell-hub-kubeconfig", "manifests/hub"),
            Self::Admin => (PlaneKind::Hub, "--admin-kubeconfig", "manifests/hub"),
            Self::KarmadaHost => (
                PlaneKind::Cell,
                "--karmada-host-kubeconfig",
                "a role that may list deployments.apps",
            ),
        }
    }

    /// The kind of the plane.
    pub const fn kind(self) -> PlaneKind {
        self.row().0
    }

    /// The flag that gives its kubeconfig.
    pub const fn flag(self) -> &'static str {
        self.row().1
    }

    /// The manifests with the roles of the user.
    pub const fn folder(self) -> &'static str {
        self.row().2
    }
}

/// A plane that answers to one credential.
#[derive(Debug)]
pub struct Subject {
    /// Role of the plane.
    pub role: Role,
    /// Name of the project or cell; empty for the hub.
    pub name: String,
    /// Client of the plane.
    pub client: PlaneClient,
    /// The end of its credential, if the credential says it.
    pub expiry: Option<Expiry>,
}

impl Subject {
    /// The words for the plane in a report.
    pub fn title(&self) -> String {
        title(self.role, &self.name)
    }

    /// The user as the plane knows it.
    pub(super) async fn user(&self) -> Result<UserInfo, PreflightError> {
        let api: Api<SelfSubjectReview> = Api::all(self.client.client());
        let post = PostParams::default();
        let review = api.create(&post, &SelfSubjectReview::default()).await;
        let resource = "selfsubjectreviews.authentication.k8s.io";
        let review = review.map_err(|error| PreflightError::of(&error, "create", resource))?;
        let user = review.status.and_then(|status| status.user_info);
        Ok(user.unwrap_or_default())
    }

    pub(super) fn finding(&self, check: Check, verdict: Verdict, text: String, next: String) -> Finding {
        Finding {
            plane: self.title(),
            check,
            verdict,
            text,
            next,
            absent: false,
        }
    }

    pub(super) fn ok(&self, check: Check, text: impl Into<String>) -> Finding {
        self.finding(check, Verdict::Ok, text.into(), String::new())
    }

    pub(super) fn open(&self, check: Check, text: impl Into<String>, next: impl Into<String>) -> Finding {
        self.finding(check, Verdict::Open, text.into(), next.into())
    }

    pub(super) fn fail(&self, check: Check, text: impl Into<String>, next: impl Into<String>) -> Finding {
        self.finding(check, Verdict::Fail, text.into(), next.into())
    }

    /// A check that could not be made because of a failed request.
    pub(super) fn error(&self, check: Check, error: &PreflightError) -> Finding {
        let (text, next) = error.text_and_next(self.role.flag(), self.role.folder());
        Finding {
            absent: error.is_absent(),
            ..self.fail(check, text, next)
        }
    }
}

/// The words for a plane in a report.
pub(super) fn title(role: Role, name: &str) -> String {
    match role {
        Role::Hub | Role::Admin => "hub".to_owned(),
        Role::Project => format!("project {name}"),
        Role::Cell => format!("cell {name}"),
        Role::CellHub => format!("hub as cell {name}"),
        Role::KarmadaHost => "karmada host".to_owned(),
    }
}
