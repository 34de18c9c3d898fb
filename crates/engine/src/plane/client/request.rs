//! Classifies requests by method and path, and converts error responses that are not from an API server.

use http::{HeaderMap, Method, Request, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt;
use kube::core::{Status, response::StatusDetails};
use serde_json::Value;

/// Maximum length of a quoted error body, in characters.
const QUOTED: usize = 200;

/// The metric labels of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub(super) verb: &'static str,
    /// The resource as in RBAC roles, e.g. `workloaddeployments/status`; `other` outside the resource paths.
    pub(super) resource: String,
    /// The HTTP method.
    pub(super) method: Method,
    /// The member to which a hub's proxy passes it on.
    pub(super) member: Option<String>,
}

impl Call {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let path: Vec<&str> = request
            .uri()
            .path()
            .split('/')
            .filter(|s| !s.is_empty())
            .collect();
        let member = match path.as_slice() {
            ["apis", "cluster.karmada.io", _, "clusters", member, "proxy", ..] => Some(*member),
            _ => None,
        };
        let resource = match path.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        // `namespaces/<name>/<plural>/…`; `namespaces/<name>/status` and `/finalize` are subresources of the Namespace.
        let resource = match resource {
            ["namespaces", _, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
                [&[*plural], rest].concat()
            }
            other => other.to_vec(),
        };
        let (name, resource) = match resource.as_slice() {
            [plural] => (false, (*plural).to_owned()),
            [plural, _] => (true, (*plural).to_owned()),
            [plural, _, sub, ..] => (true, format!("{plural}/{sub}")),
            [] => (true, "other".to_owned()),
        };
        let watch = request
            .uri()
            .query()
            .is_some_and(|q| q.split('&').any(|p| matches!(p, "watch=true" | "watch=1")));
        let method = request.method().clone();
        let verb = match (&method, name) {
            (&Method::GET, _) if watch => "watch",
            (&Method::GET, true) => "get",
            (&Method::GET, false) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "delete",
            (&Method::DELETE, false) => "deletecollection",
            _ => "other",
        };
        Self {
            verb,
            resource,
            method,
            member: member.map(str::to_owned),
        }
    }

    pub(super) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }
}

/// The seconds after which a server wants to be asked again.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<u32> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok()
}

/// The body of a failed request as a Kubernetes `Status`, from any server.
///
/// A `Status` of the API server is kept, with `Retry-After` added to its details. Any other body (a proxy's HTML page,
/// a bare `404 page not found`) is no evidence about an object: its 4xx codes except 401 and 429 become 502, so that no
/// controller treats them as "the object is deleted" or "the object is rejected".
pub(super) fn status_body(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> (StatusCode, Vec<u8>) {
    let retry_after = retry_after(headers);
    let said = serde_json::from_slice(body).unwrap_or(Value::Null);
    let is_status = said["kind"] == "Status" && said["code"] == code.as_u16();
    let own = serde_json::from_value::<Status>(said).ok().filter(|_| is_status);
    let (code, mut status) = if let Some(status) = own {
        (code, status)
    } else {
        let says_enough = code.is_server_error() || matches!(code.as_u16(), 401 | 429);
        let shown = if says_enough {
            code
        } else {
            StatusCode::BAD_GATEWAY
        };
        let reason = match code.as_u16() {
            401 => "Unauthorized",
            429 => "TooManyRequests",
            _ => "ServiceUnavailable",
        };
        let quoted: String = String::from_utf8_lossy(body)
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(QUOTED)
            .collect();
        let message = format!(
            "HTTP {code} without a Kubernetes Status, from something before the API server: {quoted}"
        );
        (shown, Status::failure(&message, reason).with_code(shown.as_u16()))
    };
    if let Some(seconds) = retry_after {
        let details = status.details.get_or_insert_with(|| StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
        if details.retry_after_seconds == 0 {
            details.retry_after_seconds = seconds;
        }
    }
    let text = serde_json::to_vec(&status).unwrap_or_default();
    (code, text)
}

/// Reads a whole body of at most `limit` bytes.
pub(super) async fn collect<B>(body: B, limit: usize) -> Result<bytes::Bytes, tower::BoxError>
where
    B: http_body::Body<Data = bytes::Bytes>,
    B::Error: Into<tower::BoxError>,
{
    Ok(http_body_util::Limited::new(body, limit)
        .collect()
        .await?
        .to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, path: &str) -> (String, String) {
        let call = Call::of(&Request::builder().method(method).uri(path).body(()).unwrap());
        (call.verb.to_owned(), call.resource)
    }

    #[test]
    fn a_request_is_named_by_verb_and_resource_and_never_by_object() {
        let is = |verb: &str, resource: &str| (verb.to_owned(), resource.to_owned());
        assert_eq!(call("GET", "/api/v1/namespaces"), is("list", "namespaces"));
        assert_eq!(call("GET", "/api/v1/namespaces/a"), is("get", "namespaces"));
        assert_eq!(
            call("PUT", "/api/v1/namespaces/a/finalize"),
            is("update", "namespaces/finalize")
        );
        assert_eq!(
            call("GET", "/api/v1/namespaces/a/configmaps?limit=50"),
            is("list", "configmaps")
        );
        assert_eq!(
            call("GET", "/api/v1/configmaps?limit=5&watch=true"),
            is("watch", "configmaps")
        );
        assert_eq!(
            call("PATCH", "/apis/g/v1/namespaces/a/things/x/status?force=true"),
            is("patch", "things/status")
        );
        assert_eq!(
            call("POST", "/apis/g/v1/namespaces/a/things"),
            is("create", "things")
        );
        assert_eq!(call("DELETE", "/apis/g/v1/things/x"), is("delete", "things"));
        assert_eq!(call("GET", "/version"), is("get", "other"));
    }

    fn said(code: u16, retry_after: Option<&str>, body: &str) -> Status {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        let (_, text) = status_body(StatusCode::from_u16(code).unwrap(), &headers, body.as_bytes());
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn a_proxys_page_is_an_outage_and_never_a_verdict_on_an_object() {
        assert_eq!(said(502, None, "<html>Bad Gateway</html>").code, 502);
        for code in [400, 403, 404, 409, 422] {
            let status = said(code, None, "<html>no</html>");
            assert_eq!((status.code, status.reason.as_str()), (502, "ServiceUnavailable"));
            assert!(!status.is_not_found() && !status.is_invalid() && !status.is_forbidden());
            assert!(status.message.contains(&code.to_string()));
        }
        assert_eq!(said(401, None, "").code, 401);
        assert_eq!(said(503, None, "{\"error\":\"down\"}").code, 503);
    }

    #[test]
    fn an_api_servers_status_stays_and_learns_retry_after() {
        let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no"}"#;
        assert!(said(404, None, body).is_not_found());
        let status = said(429, Some("7"), "too many");
        assert_eq!(
            (status.code, status.details.unwrap().retry_after_seconds),
            (429, 7)
        );
    }
}
