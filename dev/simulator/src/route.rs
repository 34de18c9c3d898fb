//! What a request asks for: its verb, its kind and its place, read from method, path and query.

use crate::status::Status;
use http::{HeaderMap, Method, header};
use std::fmt;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// One object is read.
    Get,
    /// Objects of a kind are read.
    List,
    /// Changes are followed.
    Watch,
    /// An object comes by POST.
    Create,
    /// An object is replaced by PUT.
    Update,
    /// An object is changed by a JSON or a merge patch.
    Patch,
    /// An object is changed by a server-side apply.
    Apply,
    /// An object is deleted.
    Delete,
    /// All objects of a selection are deleted.
    DeleteCollection,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Apply,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// The word, as in a role; an apply is a `patch` there.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) group: String,
    pub(crate) version: String,
    /// Plural; empty for what is no resource, such as `/version`.
    pub(crate) resource: String,
    pub(crate) subresource: Option<String>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) metadata_only: bool,
    pub(crate) agent: String,
    pub(crate) path: String,
}

/// The parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// A parameter; empty if it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }

    /// A whole number; `None` if the parameter is not there.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        match self.get(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("invalid {name}: {text:?}"))),
        }
    }
}

impl Call {
    /// Reads a request whose path begins at the plane's root.
    pub(crate) fn read(
        method: &Method,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Self, Status> {
        let text = |name: header::HeaderName| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let query = Query::parse(query.unwrap_or_default());
        let place = Place::read(path);
        let content_type = text(header::CONTENT_TYPE);
        let verb = verb(method, &place, &query, &content_type).ok_or_else(|| {
            Status::plain(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        })?;
        Ok(Self {
            verb,
            query,
            content_type,
            metadata_only: metadata_only(&text(header::ACCEPT), verb)?,
            agent: text(header::USER_AGENT),
            path: path.to_owned(),
            group: place.group,
            version: place.version,
            resource: place.resource,
            subresource: place.subresource,
            namespace: place.namespace,
            name: place.name,
        })
    }

    /// The name under which `managedFields` list the writer.
    pub(crate) fn manager(&self) -> &str {
        match self.query.get("fieldManager") {
            "" => self.agent.split('/').next().unwrap_or_default(),
            manager => manager,
        }
    }
}

/// Whether metadata alone is accepted. Lists and objects have different words for it.
fn metadata_only(accept: &str, verb: Verb) -> Result<bool, Status> {
    let list = matches!(verb, Verb::List | Verb::DeleteCollection);
    let (wanted, other) = if list {
        ("PartialObjectMetadataList", "PartialObjectMetadata")
    } else {
        ("PartialObjectMetadata", "PartialObjectMetadataList")
    };
    let asks = |word: &str| {
        accept
            .split([';', ','])
            .any(|part| part.trim().strip_prefix("as=") == Some(word))
    };
    match (asks(wanted), asks(other) && !accept.contains(',')) {
        (false, true) if list => Err(Status::not_acceptable()),
        (false, true) => Err(Status::plain(500, "", "an object is no list")),
        (wanted, _) => Ok(wanted),
    }
}

#[derive(Debug, Default)]
struct Place {
    group: String,
    version: String,
    resource: String,
    subresource: Option<String>,
    namespace: String,
    name: String,
}

impl Place {
    fn read(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::default(),
        };
        let text = |part: Option<&&str>| part.map(|part| (*part).to_owned()).unwrap_or_default();
        // `namespaces/<name>/status` is of the Namespace; `namespaces/<name>/<plural>` is inside it.
        let inside = rest.len() >= 3 && rest[0] == "namespaces" && !["status", "finalize"].contains(&rest[2]);
        let (namespace, rest) = if inside {
            (text(rest.get(1)), &rest[2..])
        } else {
            (String::new(), rest)
        };
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: text(rest.first()),
            name: text(rest.get(1)),
            subresource: rest.get(2).map(|part| (*part).to_owned()),
            namespace,
        }
    }
}

fn verb(method: &Method, place: &Place, query: &Query, content_type: &str) -> Option<Verb> {
    let named = !place.name.is_empty();
    Some(match method.as_str() {
        "GET" if query.is("watch") && !named => Verb::Watch,
        "GET" if named || place.resource.is_empty() => Verb::Get,
        "GET" => Verb::List,
        "POST" => Verb::Create,
        "PUT" if named => Verb::Update,
        "PATCH" if named && content_type.starts_with("application/apply-patch") => Verb::Apply,
        "PATCH" if named => Verb::Patch,
        "DELETE" if named => Verb::Delete,
        "DELETE" => Verb::DeleteCollection,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, path: &str, query: &str) -> Call {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        Call::read(&method, path, Some(query), &HeaderMap::new()).unwrap()
    }

    #[test]
    fn paths_name_kinds_and_places() {
        let call = read(
            "PATCH",
            "/apis/g.dev/v1/namespaces/n/gadgets/a/status",
            "fieldManager=m%20x&force=true",
        );
        assert_eq!(
            (
                &*call.group,
                &*call.version,
                &*call.resource,
                &*call.namespace,
                &*call.name
            ),
            ("g.dev", "v1", "gadgets", "n", "a")
        );
        assert_eq!(
            (call.verb, call.subresource.as_deref()),
            (Verb::Patch, Some("status"))
        );
        assert_eq!((call.manager(), call.query.is("force")), ("m x", true));
        let call = read("PUT", "/api/v1/namespaces/n/finalize", "");
        assert_eq!(
            (&*call.resource, &*call.name, &*call.namespace),
            ("namespaces", "n", "")
        );
        let call = read("GET", "/api/v1/namespaces/n/configmaps", "watch=true");
        assert_eq!((call.verb, &*call.namespace), (Verb::Watch, "n"));
        assert_eq!(read("GET", "/version", "").verb, Verb::Get);
        assert_eq!(read("DELETE", "/api/v1/nodes", "").verb, Verb::DeleteCollection);
    }
}
