//! Failed requests, as users see them: the address, the cause, the next step (contract: cli.md §9).

use super::replicas::{Address, PodPort};
use fedgate_kubeconfig::root;
use fedgate_manifests::{ADMIN_SECRET, ADMIN_TOKEN, OPERATOR};
use fedgate_operations::ErrorAnswer;
use fedgate_terminal::error::{Absence, Error, Kind};
use http::StatusCode;
use std::time::Duration;

/// A status other than 200 of the operations API.
pub(super) fn refused(
    address: &Address,
    status: StatusCode,
    retry_after: Option<&str>,
    body: &str,
    has_token: bool,
) -> Error {
    let told: Option<ErrorAnswer> = serde_json::from_str(body).ok();
    let (message, next) = told.map_or_else(Default::default, |told| (told.message, told.next));
    let of = |kind, what: String| {
        let error = Error::new(kind, what);
        let error = if message.is_empty() {
            error
        } else {
            error.because(message.clone())
        };
        if next.is_empty() {
            error
        } else {
            error.next(next.clone())
        }
    };
    let wait = retry_after.map_or_else(
        || "try again".to_owned(),
        |seconds| format!("try again in {seconds} s"),
    );
    match status {
        StatusCode::UNAUTHORIZED if has_token => of(Kind::Forbidden, format!("{address} refuses the token"))
            .next(format!(
                "compare it with key {ADMIN_TOKEN} of Secret {ADMIN_SECRET}, or use --admin-auth=hub"
            )),
        StatusCode::UNAUTHORIZED => {
            of(Kind::Forbidden, format!("{address} requires a token")).next("--token-file PATH")
        }
        StatusCode::FORBIDDEN => {
            let error = of(Kind::Forbidden, format!("{address} forbids the request"));
            match &error.next {
                Some(_) => error,
                None => error.next("bind ClusterRole fedgate-operations-viewer on the hub to this user"),
            }
        }
        StatusCode::NOT_FOUND if !message.is_empty() => {
            let error = Error::new(Kind::NotFound, message.clone());
            if next.is_empty() { error } else { error.next(next) }
        }
        StatusCode::NOT_FOUND => Error::new(Kind::Failed, format!("{address} has no operations API"))
            .next("upgrade the program that runs there, or correct --server"),
        StatusCode::TOO_MANY_REQUESTS => of(Kind::Failed, format!("{address} is busy")).next(wait),
        StatusCode::SERVICE_UNAVAILABLE => {
            of(Kind::Failed, format!("{address} does not answer in time")).next(wait)
        }
        StatusCode::MISDIRECTED_REQUEST => of(
            Kind::Failed,
            format!("{address} refuses the name by which it was reached"),
        ),
        status => of(Kind::Failed, format!("{address} answers {status}")),
    }
}

/// No answer in time.
pub(super) fn late(address: &Address, timeout: Duration) -> Error {
    Error::new(
        Kind::Failed,
        format!("{address} did not answer within {}", seconds(timeout)),
    )
    .next("repeat it with a longer --timeout, and look at the program's log")
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// No connection, or one that ended before the answer.
pub(super) fn unreachable(address: &Address, error: &(dyn std::error::Error + 'static)) -> Error {
    let cause = root(error);
    match address {
        Address::Pod(_, pod) => broken_forward(pod, cause),
        Address::Server(..) => {
            let next = if cause.contains("certificate") {
                "SSL_CERT_FILE=PATH of the certificate's authority, and --server with a name of the certificate"
            } else {
                "check --server, the network and the program itself"
            };
            Error::new(Kind::Failed, format!("cannot reach {address}"))
                .because(cause)
                .next(next)
        }
    }
}

/// A forwarded port without an answer.
pub(super) fn broken_forward(PodPort { namespace, pod, port }: &PodPort, cause: String) -> Error {
    Error::new(
        Kind::Failed,
        format!("port {port} of Pod {namespace}/{pod} does not answer"),
    )
    .because(cause)
    .next(format!("kubectl -n {namespace} logs {pod}"))
}

/// A request to the host's API server: its verb and resource, as in a role.
pub(super) struct HostRequest<'a> {
    /// The API server.
    pub(super) server: &'a str,
    /// The namespace.
    pub(super) namespace: &'a str,
    /// The verb.
    pub(super) verb: &'static str,
    /// The resource.
    pub(super) resource: &'static str,
}

impl HostRequest<'_> {
    /// The error of the request.
    pub(super) fn failed(&self, error: &kube::Error) -> Error {
        let Self { server, .. } = self;
        match (status(error), error) {
            (Some(401), _) => Error::new(
                Kind::Forbidden,
                format!("{server} refuses the credentials of the kubeconfig"),
            )
            .next("kubectl auth whoami")
            .absent(Absence::Refused),
            (Some(403), _) => self.forbidden(error),
            (_, kube::Error::Auth(_)) => Error::new(Kind::Failed, format!("no credentials for {server}"))
                .because(root(error))
                .next("kubectl auth whoami")
                .absent(Absence::Refused),
            (_, kube::Error::Api(_)) => self
                .of(Error::new(Kind::Failed, self.what("cannot")))
                .because(root(error))
                .absent(Absence::Unreachable),
            _ => {
                let cause = root(error);
                let next = if cause.contains("certificate") {
                    "correct certificate-authority in the kubeconfig"
                } else {
                    "kubectl cluster-info, or --kubeconfig and --context of the cluster that runs the Pods"
                };
                Error::new(Kind::Failed, format!("cannot reach the API server {server}"))
                    .because(cause)
                    .next(next)
                    .absent(Absence::Unreachable)
            }
        }
    }

    /// No answer in time.
    pub(super) fn late(&self, timeout: Duration) -> Error {
        self.of(Error::new(
            Kind::Failed,
            format!(
                "the API server {} did not answer within {}",
                self.server,
                seconds(timeout)
            ),
        ))
        .absent(Absence::Unreachable)
    }

    fn what(&self, may: &str) -> String {
        let Self {
            server,
            namespace,
            verb,
            resource,
        } = self;
        format!("{may} {verb} {resource} in namespace {namespace} of {server}")
    }

    fn of(&self, error: Error) -> Error {
        let Self {
            namespace,
            verb,
            resource,
            ..
        } = self;
        let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let sub = if sub.is_empty() {
            String::new()
        } else {
            format!(" --subresource={sub}")
        };
        error.next(format!(
            "kubectl auth can-i {verb} {resource}{sub} -n {namespace}"
        ))
    }

    fn forbidden(&self, error: &kube::Error) -> Error {
        let Self { namespace, .. } = self;
        let forbidden = Error::new(Kind::Forbidden, self.what("you may not"));
        let forbidden = match error {
            kube::Error::Api(status) => forbidden.because(status.message.clone()),
            _ => forbidden,
        };
        forbidden.next(format!(
            "kubectl -n {namespace} create rolebinding {OPERATOR} --role={OPERATOR} --user=USER, by an administrator"
        ))
    }
}

/// The HTTP status of a failed request. A refused upgrade has no body.
pub(super) fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        kube::Error::UpgradeConnection(kube::client::UpgradeConnectionError::ProtocolSwitch(status)) => {
            Some(status.as_u16())
        }
        _ => None,
    }
}
