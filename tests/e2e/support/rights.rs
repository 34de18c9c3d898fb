//! What the roles of gateway and cells grant, and what of it the audit logs show in use.

use super::audit::Entry;
use fedgate_manifests::{KindManifests, Plane};
use serde_json::Value;
use std::{collections::BTreeSet, fmt};

/// One verb on one resource of one API, as a role grants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    plane: &'static str,
    group: String,
    /// With its subresource.
    resource: String,
    verb: String,
}

/// Rights that a run may leave unused, and why each is granted all the same.
const SPARE: [(&str, &str, &str); 21] = [
    // With --networking, which the suite's gateway does without, and where a project serves the kind.
    ("project", "networks", "list watch"),
    ("project", "locations", "list watch"),
    ("project", "locationbindings", "list watch"),
    ("project", "serviceavailabilities", "list watch"),
    // The start asks whether Karmada is the sandbox's stand-in only if policies get no identity from a webhook.
    ("hub", "clusters", "list"),
    // The stand-in's proxy answers before the hub's API server, and so before its log.
    ("hub", "clusters/proxy", "get"),
    // An object is read only after a server has refused its apply (tests/manifests/rights.rs).
    ("hub", "namespaces", "get"),
    ("hub", "clusterpropagationpolicies", "get"),
    ("hub", "propagationpolicies", "get"),
    ("hub", "resourceinterpretercustomizations", "get"),
    ("project", "instances", "get"),
    // The Lease is watched, and read only after a write of it that went wrong, which may never happen.
    ("hub", "leases", "get"),
    // A companion is read on the hub only when its name is held there, as the trials of Secrets bring about.
    ("hub", "seals", "get"),
    ("hub", "charters", "get"),
    ("hub", "realms", "get"),
    // Deployments move in tests/cells, where a city has two cells.
    ("hub", "resourcebindings", "get patch"),
    // An Event that repeats another within minutes is a patch of that one, which no test asks for.
    ("project", "events", "patch"),
    // The same of a cell, and of `fedgate returns`.
    ("cell", "leases", "get"),
    ("member", "leases", "get"),
    ("cell", "events", "patch"),
    // A cell's own program watches them; the role is that of cells of any make.
    ("hub", "workloaddeployments", "get"),
];

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {}.{}",
            self.plane, self.verb, self.resource, self.group
        )
    }
}

impl Right {
    /// Whether a run may do without it.
    pub(crate) fn is_spare(&self) -> bool {
        SPARE.iter().any(|(plane, resource, verbs)| {
            *plane == self.plane
                && *resource == self.resource
                && verbs.split(' ').any(|verb| verb == self.verb)
        })
    }
}

/// Every verb that the roles of one program grant for these kinds: those whose names begin so.
pub(crate) fn granted(
    program: &str,
    planes: &[(Plane, &'static str)],
    kinds: &[KindManifests],
) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for (plane, name) in planes {
        let objects = fedgate_manifests::objects(*plane, kinds).expect("the manifests can be made");
        let roles = objects.iter().filter(|o| {
            matches!(o["kind"].as_str(), Some("ClusterRole" | "Role"))
                && o["metadata"]["name"]
                    .as_str()
                    .is_some_and(|role| role.starts_with(program))
        });
        for rule in roles.flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
            for resource in texts(&rule["resources"]) {
                rights.extend(texts(&rule["verbs"]).map(|verb| Right {
                    plane: name,
                    group: rule["apiGroups"][0].as_str().unwrap_or_default().to_owned(),
                    resource: resource.to_owned(),
                    verb: verb.to_owned(),
                }));
            }
        }
    }
    rights
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The rights that a request needed. An apply that makes its object needs the right to create as well.
pub(crate) fn needed(plane: &'static str, entry: &Entry) -> Vec<Right> {
    let object = &entry.object_ref;
    let slash = if object.subresource.is_empty() { "" } else { "/" };
    let right = |verb: &str| Right {
        plane,
        group: object.api_group.clone(),
        resource: format!("{}{slash}{}", object.resource, object.subresource),
        verb: verb.to_owned(),
    };
    let made = entry.verb == "patch" && entry.response_status.code == 201;
    let verbs = [Some(entry.verb.as_str()), made.then_some("create")];
    verbs.into_iter().flatten().map(right).collect()
}

/// The federated kinds are handled by one code under one rule each, so what is used of one is used of all: rights of
/// the `other` kinds are said in the words of `first`.
pub(crate) fn as_of_first(
    rights: BTreeSet<Right>,
    first: &KindManifests,
    other: &[KindManifests],
) -> BTreeSet<Right> {
    let is_other = |right: &Right, plural: &str| {
        other
            .iter()
            .any(|kind| kind.resource.group == right.group && kind.resource.plural == plural)
    };
    rights
        .into_iter()
        .map(|right| {
            let (plural, sub) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
            if !is_other(&right, plural) {
                return right;
            }
            let slash = if sub.is_empty() { "" } else { "/" };
            Right {
                group: first.resource.group.clone(),
                resource: format!("{}{slash}{sub}", first.resource.plural),
                ..right
            }
        })
        .collect()
}
