//! Routes of request paths to API servers, and the Namespaces that a project hides.

use form_urlencoded::{Serializer, parse};

/// A path of the stand-in's address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route<'a> {
    /// The project; none is the core API server.
    pub(super) project: Option<&'a str>,
    /// The path at its API server.
    pub(super) path: &'a str,
}

const PROJECTS: &str = "/projects/";
const CONTROL_PLANE: &str = "/control-plane";
/// A kube-apiserver makes these by itself. Milo's projects do not have them.
pub(super) const HIDDEN: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
const NAMESPACES: &str = "/api/v1/namespaces";

/// Finds the project as Milo does: anywhere in the path.
pub(super) fn route(path: &str) -> Route<'_> {
    let project = || {
        let (_, rest) = path.split_once(PROJECTS)?;
        let end = rest.find('/').filter(|end| *end > 0)?;
        let (name, rest) = rest.split_at(end);
        let rest = rest.strip_prefix(CONTROL_PLANE)?;
        let rest = if rest.is_empty() { "/" } else { rest };
        rest.starts_with('/').then_some(Route {
            project: Some(name),
            path: rest,
        })
    };
    project().unwrap_or(Route { project: None, path })
}

/// Before the name of a project in the host by which a platform's own clusters reach it, and behind it.
const HOST: (&str, &str) = ("milo-apiserver.project-", ".svc.cluster.local");

/// The host of a project inside the platform's infrastructure cluster.
pub(crate) fn host(project: &str) -> String {
    format!("{}{project}{}", HOST.0, HOST.1)
}

/// The project whose host this is.
pub(super) fn project_of_host(host: &str) -> Option<&str> {
    host.strip_prefix(HOST.0)?.strip_suffix(HOST.1)
}

/// The Namespace that the path names, if it is a hidden one.
pub(super) fn hidden(path: &str) -> Option<&str> {
    let name = path.strip_prefix(NAMESPACES)?.strip_prefix('/')?;
    HIDDEN.contains(&name).then_some(name)
}

/// The query of a request for this path, by which a list or watch of Namespaces leaves the hidden ones out.
pub(super) fn query(path: &str, query: Option<&str>) -> Option<String> {
    if path != NAMESPACES {
        return query.map(str::to_owned);
    }
    let mut selector: Vec<String> = HIDDEN.map(|name| format!("metadata.name!={name}")).into();
    let mut all = Serializer::new(String::new());
    for (key, value) in parse(query.unwrap_or_default().as_bytes()) {
        if key == "fieldSelector" {
            selector.extend((!value.is_empty()).then(|| value.into_owned()));
        } else {
            all.append_pair(&key, &value);
        }
    }
    all.append_pair("fieldSelector", &selector.join(","));
    Some(all.finish())
}

/// The path of the object that a request of this path changes: without its subresource.
pub(super) fn object(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let group = match *parts.first()? {
        "api" => 2,
        "apis" => 3,
        _ => return None,
    };
    let rest = parts.get(group..)?;
    let length = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => 2,
        ["namespaces", _, _, _, ..] => 4,
        ["namespaces", ..] => return None,
        [_, _, ..] => 2,
        _ => return None,
    };
    Some(format!("/{}", parts[..group + length].join("/")))
}

/// Whether a POST to this path is an access review, which changes nothing.
pub(super) fn is_review(path: &str) -> bool {
    path.starts_with("/apis/authorization.k8s.io/") || path.starts_with("/apis/authentication.k8s.io/")
}

#[cfg(test)]
mod tests {
    use super::{Route, hidden, host, object, project_of_host, query, route};

    fn at<'a>(project: &'a str, path: &'a str) -> Route<'a> {
        Route {
            project: Some(project),
            path,
        }
    }

    #[test]
    fn both_forms_lead_to_the_project_and_the_rest_to_the_core() {
        let long = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/alpha/control-plane";
        assert_eq!(route(&format!("{long}/api/v1/pods")), at("alpha", "/api/v1/pods"));
        assert_eq!(route(long), at("alpha", "/"));
        assert_eq!(route("/projects/b/control-plane/readyz"), at("b", "/readyz"));
        for core in [
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/alpha",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/alpha/status",
            "/projects//control-plane/api",
            "/projects/a/control-planes/api",
            "/readyz",
        ] {
            assert_eq!(
                route(core),
                Route {
                    project: None,
                    path: core
                }
            );
        }
    }

    #[test]
    fn a_host_names_its_project() {
        assert_eq!(project_of_host(&host("alpha")), Some("alpha"));
        for other in [
            "127.0.0.1",
            "milo-apiserver.project-alpha.svc",
            "project-alpha.svc.cluster.local",
        ] {
            assert_eq!(project_of_host(other), None, "{other}");
        }
    }

    #[test]
    fn hidden_namespaces_are_neither_got_nor_listed() {
        assert_eq!(hidden("/api/v1/namespaces/kube-system"), Some("kube-system"));
        assert_eq!(hidden("/api/v1/namespaces/default"), None);
        let all = "metadata.name%21%3Dkube-system%2Cmetadata.name%21%3Dkube-public%2Cmetadata.name%21%3Dkube-node-lease";
        let list = |text| query("/api/v1/namespaces", text).unwrap();
        assert_eq!(list(None), format!("fieldSelector={all}"));
        assert_eq!(
            list(Some("watch=true&fieldSelector=metadata.name%3Da")),
            format!("watch=true&fieldSelector={all}%2Cmetadata.name%3Da")
        );
        assert_eq!(query("/api/v1/pods", Some("a=b")).as_deref(), Some("a=b"));
    }

    #[test]
    fn a_subresource_belongs_to_its_object() {
        for (path, wanted) in [
            ("/api/v1/namespaces/a", Some("/api/v1/namespaces/a")),
            ("/api/v1/namespaces/a/finalize", Some("/api/v1/namespaces/a")),
            ("/api/v1/namespaces/a/pods", None),
            (
                "/apis/g/v1/namespaces/a/cats/b/status",
                Some("/apis/g/v1/namespaces/a/cats/b"),
            ),
            ("/apis/g/v1/dogs/c/status", Some("/apis/g/v1/dogs/c")),
            ("/apis/g/v1/dogs", None),
        ] {
            assert_eq!(object(path).as_deref(), wanted, "{path}");
        }
    }
}
