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
    let [message, next] = [message, next].map(|text| Some(text).filter(|text| !text.is_empty()));
    if let (StatusCode::NOT_FOUND, Some(message)) = (status, &message) {
        return Error {
            next,
            ..Error::new(Kind::NotFound, message)
        };
    }
    let wait = retry_after.map_or_else(
        || "try again".to_owned(),
        |seconds| format!("try again in {seconds} s"),
    );
    let viewer = "bind ClusterRole fedgate-operations-viewer on the hub to this user";
    let (kind, what, own_next) = match status {
        StatusCode::UNAUTHORIZED if has_token => (
            Kind::Forbidden,
            format!("{address} refuses the token"),
            Some(format!(
                "compare it with key {ADMIN_TOKEN} of Secret {ADMIN_SECRET}, or use --admin-auth=hub"
            )),
        ),
        StatusCode::UNAUTHORIZED => (
            Kind::Forbidden,
            format!("{address} requires a token"),
            Some("--token-file PATH".to_owned()),
        ),
        StatusCode::FORBIDDEN => (
            Kind::Forbidden,
            format!("{address} forbids the request"),
            next.is_none().then(|| viewer.to_owned()),
        ),
        StatusCode::NOT_FOUND => (
            Kind::Failed,
            format!("{address} has no operations API"),
            Some("upgrade the program that runs there, or correct --server".to_owned()),
        ),
        StatusCode::TOO_MANY_REQUESTS => (Kind::Failed, format!("{address} is busy"), Some(wait)),
        StatusCode::SERVICE_UNAVAILABLE => (
            Kind::Failed,
            format!("{address} does not answer in time"),
            Some(wait),
        ),
        StatusCode::MISDIRECTED_REQUEST => (
            Kind::Failed,
            format!("{address} refuses the name by which it was reached"),
            None,
        ),
        status => (Kind::Failed, format!("{address} answers {status}"), None),
    };
    Error {
        cause: message,
        next: own_next.or(next),
        ..Error::new(kind, what)
    }
}

/// No answer in time.
pub(super) fn late(address: &Address, timeout: Duration) -> Error {
    let what = format!("{address} did not answer within {}", seconds(timeout));
    Error::failed(what).next("repeat it with a longer --timeout, and look at the program's log")
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
            Error::failed(format!("cannot reach {address}"))
                .because(cause)
                .next(next)
        }
    }
}

/// A forwarded port without an answer.
pub(super) fn broken_forward(PodPort { namespace, pod, port }: &PodPort, cause: String) -> Error {
    let what = format!("port {port} of Pod {namespace}/{pod} does not answer");
    let next = format!("kubectl -n {namespace} logs {pod}");
    Error::failed(what).because(cause).next(next)
}

/// A request to an API server's namespace, as in a role: server, namespace, verb and resource.
pub(super) type HostRequest<'a> = (&'a str, &'a str, &'static str, &'static str);

/// The error of a request to the host's API server.
pub(super) fn of_host(request: HostRequest<'_>, error: &kube::Error) -> Error {
    let (server, namespace, verb, resource) = request;
    let tried = format!("{verb} {resource} in namespace {namespace} of {server}");
    let login = |error: Error| error.next("kubectl auth whoami").absent(Absence::Refused);
    match (status(error), error) {
        (Some(401), _) => {
            let what = format!("{server} refuses the credentials of the kubeconfig");
            login(Error::new(Kind::Forbidden, what))
        }
        (Some(403), _) => {
            let forbidden = Error::new(Kind::Forbidden, format!("you may not {tried}"));
            let forbidden = match error {
                kube::Error::Api(status) => forbidden.because(status.message.clone()),
                _ => forbidden,
            };
            forbidden.next(format!(
                "kubectl -n {namespace} create rolebinding {OPERATOR} --role={OPERATOR} --user=USER, by an administrator"
            ))
        }
        (_, kube::Error::Auth(_)) => {
            login(Error::failed(format!("no credentials for {server}")).because(root(error)))
        }
        (_, kube::Error::Api(_)) => {
            let what = format!("cannot {tried}");
            unanswered(request, Error::failed(what).because(root(error)))
        }
        _ => {
            let cause = root(error);
            let next = if cause.contains("certificate") {
                "correct certificate-authority in the kubeconfig"
            } else {
                "kubectl cluster-info, or --kubeconfig and --context of the cluster that runs the Pods"
            };
            let error = Error::failed(format!("cannot reach the API server {server}")).because(cause);
            error.next(next).absent(Absence::Unreachable)
        }
    }
}

/// No answer of the host's API server in time.
pub(super) fn late_host(request: HostRequest<'_>, timeout: Duration) -> Error {
    let (server, time) = (request.0, seconds(timeout));
    let what = format!("the API server {server} did not answer within {time}");
    unanswered(request, Error::failed(what))
}

fn unanswered((_, namespace, verb, resource): HostRequest<'_>, error: Error) -> Error {
    let resource = resource.replacen('/', " --subresource=", 1);
    let next = format!("kubectl auth can-i {verb} {resource} -n {namespace}");
    error.next(next).absent(Absence::Unreachable)
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
