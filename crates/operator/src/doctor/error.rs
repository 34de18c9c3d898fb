//! Failures of a check's requests, each with the next step.

use fedgate_engine::plane::client::is_timeout;
use fedgate_kubeconfig::root;
use std::fmt;

/// Reason why the gateway cannot work with a plane. As text it is about the hub, which is checked at the start;
/// `fedgate doctor` names the plane itself.
#[derive(Debug)]
pub enum PreflightError {
    /// No connection, no answer, or an answer that is not an API server's, with the cause.
    Unreachable(String),
    /// The credential is rejected, with the server's message.
    Unauthorized(String),
    /// Permissions are missing.
    Forbidden {
        /// The verb.
        verb: &'static str,
        /// The resource.
        resource: String,
        /// The server's message.
        cause: String,
    },
    /// The resource or the object is not there, with the server's message.
    NotFound(String),
    /// A kind of Karmada is not served: `<plural>.<group>/<version>`.
    NoKarmada(String),
    /// A kind of ours is not served: `<plural>.<group>/<version>`.
    NoDefinition(String),
    /// Karmada's webhook does not label policies with their id.
    NoWebhook,
    /// The webhook is configured and fails, with the server's message.
    WebhookFails(String),
}

impl PreflightError {
    /// True if a retry may succeed: the hub or its webhook is just starting. An API server that has not loaded its
    /// roles yet denies all requests.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::WebhookFails(_) | Self::Forbidden { .. } | Self::NotFound(_)
        )
    }

    /// True if the plane gave no answer, or refused the credential.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unauthorized(_))
    }

    /// Classifies the error of a request.
    pub(super) fn of(error: &kube::Error, verb: &'static str, resource: &str) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Unreachable(if is_timeout(error) {
                error.to_string()
            } else {
                root(error)
            });
        };
        let cause = status.message.clone();
        match status.code {
            401 => Self::Unauthorized(cause),
            _ if cause.contains("failed calling webhook") => Self::WebhookFails(cause),
            404 => Self::NotFound(cause),
            403 => Self::Forbidden {
                verb,
                resource: resource.to_owned(),
                cause,
            },
            _ => Self::Unreachable(root(error)),
        }
    }

    /// The failure, without the plane.
    pub(super) fn text(&self) -> String {
        self.text_and_next("", "").0
    }

    /// The failure, without the plane, and the operator's next step, where the kubeconfig is given by `flag` and the roles are in
    /// `folder`.
    pub(super) fn text_and_next(&self, flag: &str, folder: &str) -> (String, String) {
        let apply = "apply manifests/crds to this plane".to_owned();
        match self {
            Self::Unreachable(cause) => (
                format!("the API server cannot be reached: {cause}"),
                format!("check clusters[].cluster.server in {flag}, the network and the server itself"),
            ),
            Self::Unauthorized(cause) => (
                format!("the credential is refused ({cause})"),
                format!("issue a new token or client certificate for the user in {flag}"),
            ),
            Self::Forbidden {
                verb,
                resource,
                cause,
            } => (
                format!("this user may not {verb} {resource} ({cause})"),
                format!("apply {folder} and bind its roles to the user in {flag}"),
            ),
            Self::NotFound(cause) => (format!("the API server says: {cause}"), apply),
            Self::NoKarmada(resource) => (
                format!("{resource} is not served, so this is no Karmada API server or its CRDs are missing"),
                format!("point {flag} at the Karmada API server, or install Karmada's CRDs (karmadactl init)"),
            ),
            Self::NoDefinition(resource) => (format!("{resource} is not served"), apply),
            Self::NoWebhook => (
                "MutatingWebhookConfiguration mutating-config does not act: a ClusterPropagationPolicy gets no label \
                 clusterpropagationpolicy.karmada.io/permanent-id, so Karmada would deliver nothing"
                    .to_owned(),
                "install karmada-webhook and its configuration".to_owned(),
            ),
            Self::WebhookFails(cause) => (
                format!("karmada-webhook does not answer ({cause})"),
                "start it and check url and caBundle in MutatingWebhookConfiguration mutating-config".to_owned(),
            ),
        }
    }
}

impl fmt::Display for PreflightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, next) = self.text_and_next("--hub-kubeconfig", "manifests/hub");
        write!(f, "hub: {text}; {next}")
    }
}

impl std::error::Error for PreflightError {}
