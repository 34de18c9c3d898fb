//! The path under which Milo serves a project's API server.

use crate::plane::kubeconfig::Credential;

/// Name of the Project whose control plane this credential's path is, and the credential for the API server that has the
/// Project; `None` if the path is of another form. The path proves nothing: the Project may not exist.
pub fn project_of_path(credential: &Credential) -> Option<(String, Credential)> {
    let name = project(credential.path())?;
    Some((name.to_owned(), credential.at_path("/")?))
}

fn project(path: &str) -> Option<&str> {
    let before = path.trim_end_matches('/').strip_suffix("/control-plane")?;
    let (parent, name) = before.rsplit_once('/')?;
    (parent.ends_with("/projects") && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_path_is_told_from_any_other() {
        for (path, name) in [
            (
                "/apis/resourcemanager.miloapis.com/v1alpha1/projects/shop/control-plane",
                Some("shop"),
            ),
            ("/projects/shop/control-plane/", Some("shop")),
            ("/projects//control-plane", None),
            ("/organizations/shop/control-plane", None),
            ("/projects/shop", None),
            ("/shop/control-plane", None),
            ("/", None),
        ] {
            assert_eq!(project(path), name, "{path}");
        }
    }
}
