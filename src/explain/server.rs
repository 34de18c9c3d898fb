//! The API servers of a hub and a project, as far as the gateway's requests need them, and the record of these requests.

use super::store::{Address, Server, Store};
use axum::body::Body;
use fedgate_karmada::names;
use http::{Method, Request as Call, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

/// A request of the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `hub` or `project`.
    pub plane: &'static str,
    /// `create`, `apply`, `patch`, `delete`, `get` or `list`.
    pub verb: &'static str,
    /// The kind; the plural if that is all that the request tells.
    pub kind: String,
    /// The namespace; empty if it is cluster-scoped.
    pub namespace: String,
    /// The name; empty for a list.
    pub name: String,
    /// The member that is asked, by the hub's proxy.
    pub member: Option<String>,
    /// True for the status subresource.
    pub is_status: bool,
    /// Why the gateway sends it, as in `fedgate_writes_total`.
    pub reason: String,
    /// The body; null without one.
    pub body: Value,
}

/// An event of the play.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// The gateway sent a request.
    Request(Box<Request>),
    /// Karmada, a member or the tenant did something.
    Other(&'static str, String),
}

/// A request's path.
#[derive(Debug, PartialEq)]
struct Path {
    address: Address,
    subresource: String,
    member: Option<String>,
}

/// The answer of a server.
type Answer = (StatusCode, Value);

/// The servers.
#[derive(Debug, Default)]
pub(super) struct Servers {
    pub(super) store: Store,
    pub(super) happened: Vec<(Timestamp, Happening)>,
}

impl Servers {
    fn answer(&mut self, server: Server, call: &Call<()>, body: Value) -> Answer {
        let Some(path) = Path::parse(server, call.uri().path()) else {
            return refusal(StatusCode::NOT_FOUND, "NotFound", &json!({}));
        };
        self.record(&path, call, &body);
        let at = &path.address;
        let found = match *call.method() {
            Method::GET if at.name.is_empty() => Some(self.list(at, call.uri().query().unwrap_or_default())),
            Method::GET => self.store.get(at).cloned(),
            Method::POST if at.plural == "events" => Some(body),
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                Some(self.store.put(&Address { name, ..at.clone() }, body))
            }
            Method::PATCH if is_apply(call) => Some(self.store.apply(at, &body)),
            Method::PATCH => self.store.merge(at, &without_preconditions(body)),
            Method::DELETE => self.store.delete(at),
            _ => None,
        };
        let details = json!({"group": at.group, "kind": at.plural, "name": at.name});
        found.map_or_else(
            || refusal(StatusCode::NOT_FOUND, "NotFound", &details),
            |object| (StatusCode::OK, object),
        )
    }

    /// The objects below a path, of those with a label if the query names one.
    fn list(&self, at: &Address, query: &str) -> Value {
        let pairs = form_urlencoded::parse(query.as_bytes());
        let selector = pairs
            .filter(|(key, _)| key == "labelSelector")
            .map(|(_, text)| text)
            .next();
        let label = selector.as_ref().and_then(|text| text.split_once('='));
        let is_wanted =
            |object: &Value| label.is_none_or(|(key, value)| object["metadata"]["labels"][key] == value);
        let below = |one: &Address| {
            one.server == at.server
                && one.group == at.group
                && one.plural == at.plural
                && (at.namespace.is_empty() || one.namespace == at.namespace)
        };
        let all = self
            .store
            .iter()
            .filter(|(one, object)| below(one) && is_wanted(object));
        let items: Vec<&Value> = all.map(|(_, object)| object).collect();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
    }

    fn record(&mut self, path: &Path, call: &Call<()>, body: &Value) {
        let at = &path.address;
        let asks_who_it_is = at.plural == "selfsubjectreviews";
        let verb = match *call.method() {
            Method::POST if asks_who_it_is => "get",
            Method::POST => "create",
            Method::PATCH if is_apply(call) => "apply",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if at.name.is_empty() => "list",
            _ => "get",
        };
        let named = body["kind"].as_str().filter(|_| verb != "delete");
        let kind = named.unwrap_or_else(|| self.store.kind(at)).to_owned();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = match at.plural.as_str() {
            "events" => text(&body["regarding"]["name"]),
            _ if at.name.is_empty() => text(&body["metadata"]["name"]),
            _ => at.name.clone(),
        };
        let reason = match (verb, &path.member, at.plural.as_str()) {
            (_, _, "selfsubjectreviews") => "see who it is on the hub".to_owned(),
            (_, _, "events") => format!("tell the tenant: {}", text(&body["reason"])),
            ("list", Some(_), "works") => "see what Karmada still delivers".to_owned(),
            ("get" | "list", Some(_), _) => "see what the member has".to_owned(),
            ("get" | "list", ..) => "read before a write".to_owned(),
            _ => String::new(),
        };
        self.happens(Happening::Request(Box::new(Request {
            plane: if at.server == Server::Project {
                "project"
            } else {
                "hub"
            },
            verb,
            kind,
            namespace: at.namespace.clone(),
            name,
            member: path.member.clone(),
            is_status: path.subresource == "status",
            reason,
            body: if verb == "delete" || asks_who_it_is {
                Value::Null
            } else {
                body.clone()
            },
        })));
    }

    /// Records that something happens now.
    pub(super) fn happens(&mut self, happening: Happening) {
        self.happened.push((self.store.now, happening));
    }

    /// Gives the reason of the last write to an object.
    pub(super) fn give_reason(&mut self, plane: &str, namespace: &str, name: &str, reason: &str) {
        let mut last = self.happened.iter_mut().rev();
        let own = last.find_map(|happening| match happening {
            (_, Happening::Request(request))
                if request.plane == plane && request.namespace == namespace && request.name == name =>
            {
                Some(request)
            }
            _ => None,
        });
        if let Some(request) = own.filter(|request| request.reason.is_empty()) {
            reason.clone_into(&mut request.reason);
        }
    }
}

/// Preconditions of a patch hold here: nobody else writes.
fn without_preconditions(mut patch: Value) -> Value {
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.remove("uid");
        metadata.remove("resourceVersion");
    }
    patch
}

fn is_apply(call: &Call<()>) -> bool {
    let kind = call.headers().get(http::header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch"))
}

fn refusal(code: StatusCode, reason: &str, details: &Value) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
        "reason": reason, "message": reason, "details": details});
    (code, status)
}

impl Path {
    /// Reads `/api/v1/…`, `/apis/<group>/<version>/…`, and the same behind the proxy of a Cluster.
    fn parse(server: Server, path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        parts.next()?;
        let rest: Vec<&str> = parts.collect();
        if let ["clusters", member, "proxy", behind @ ..] = rest.as_slice() {
            let behind = Self::parse(Server::Member((*member).to_owned()), &behind.join("/"))?;
            return Some(Self {
                member: Some((*member).to_owned()),
                ..behind
            });
        }
        let (namespace, own) = match rest.as_slice() {
            ["namespaces", namespace, own @ ..] if !own.is_empty() => (*namespace, own),
            own => ("", own),
        };
        let text = |at: usize| own.get(at).copied().unwrap_or_default().to_owned();
        let mut path = Self {
            address: Address {
                server,
                group: group.to_owned(),
                plural: text(0),
                namespace: namespace.to_owned(),
                name: text(1),
            },
            subresource: text(2),
            member: None,
        };
        // The namespace of Works says whose they are.
        if path.address.plural == "works" {
            path.member = names::member_of(namespace).map(ToOwned::to_owned);
        }
        Some(path)
    }
}

/// A client of one of the servers.
pub(super) fn client(servers: &Arc<Mutex<Servers>>, server: &Server) -> kube::Client {
    let (servers, server) = (servers.clone(), server.clone());
    let service = tower::service_fn(move |call: Call<kube::client::Body>| {
        let (servers, server) = (servers.clone(), server.clone());
        async move {
            let (head, body) = call.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let call = Call::from_parts(head, ());
            let (code, answer) = servers.lock().answer(server, &call, body);
            let mut response = Response::new(Body::from(answer.to_string()));
            *response.status_mut() = code;
            Ok::<_, tower::BoxError>(response)
        }
    });
    kube::Client::new(service, "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_with_namespace_subresource_and_member() {
        let parse = |path: &str| Path::parse(Server::Hub, path).unwrap();
        let plain = parse("/api/v1/namespaces/ns-a1");
        assert_eq!(plain.address, Address::hub("", "namespaces", "", "ns-a1"));
        let copy = parse("/apis/example.dev/v1/namespaces/ns-a1/things/one/status");
        assert_eq!(
            copy.address,
            Address::hub("example.dev", "things", "ns-a1", "one")
        );
        assert_eq!(copy.subresource, "status");
        let below = parse(
            "/apis/cluster.karmada.io/v1alpha1/clusters/dfw-1/proxy/apis/example.dev/v1/namespaces/ns-a1/things/one",
        );
        assert_eq!(below.member.as_deref(), Some("dfw-1"));
        assert_eq!(below.address, copy.address.at(Server::Member("dfw-1".to_owned())));
        assert_eq!(Path::parse(Server::Hub, "/healthz"), None);
    }
}
