//! What roles may write, and when they may: between a role and the policy that limits it nothing would limit the role, and a
//! patch shows what its writer may not read.

use super::further;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A group and a resource of it.
type Named = (String, String);

const READING: [&str; 3] = ["get", "list", "watch"];

/// Group and resource of each rule of a role that has such a verb.
fn ruled(role: &Value, has: impl Fn(&str) -> bool) -> BTreeSet<Named> {
    let rules = role["rules"].as_array().into_iter().flatten();
    let such = rules.filter(|rule| {
        let verbs = rule["verbs"].as_array().unwrap();
        verbs.iter().any(|verb| has(verb.as_str().unwrap()))
    });
    such.flat_map(|rule| pairs(&rule["apiGroups"], &rule["resources"]))
        .collect()
}

fn pairs(groups: &Value, resources: &Value) -> Vec<Named> {
    let of = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap_or_default() };
    let resources = of(resources);
    let pair = |group: String| resources.clone().into_iter().map(move |one| (group.clone(), one));
    of(groups).into_iter().flat_map(pair).collect()
}

/// The roles that come before a policy of what they may write.
fn unlimited<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut roles: Vec<(&str, BTreeSet<Named>)> = Vec::new();
    let mut found = Vec::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        match object["kind"].as_str().unwrap() {
            "ClusterRole" | "Role" => roles.push((name, ruled(object, |verb| !READING.contains(&verb)))),
            "ValidatingAdmissionPolicy" => {
                let matched = object["spec"]["matchConstraints"]["resourceRules"]
                    .as_array()
                    .unwrap();
                let limits: BTreeSet<_> = matched
                    .iter()
                    .flat_map(|rule| pairs(&rule["apiGroups"], &rule["resources"]))
                    .collect();
                let early = roles.iter().filter(|(_, may)| !may.is_disjoint(&limits));
                found.extend(early.map(|(role, _)| format!("{role} before {name}")));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_policy_comes_before_the_roles_that_it_limits() {
    let kinds = further(&["clusters.azimuth.stackhpc.com", "clusters.postgresql.cnpg.io"]);
    for folder in ["hub/", "project/"] {
        let mut files = fedgate_manifests::all(&kinds).unwrap();
        files.retain(|file| file.path.starts_with(folder));
        assert!(!files.is_empty());
        let as_applied_by_fedgate = files.iter().flat_map(|file| &file.objects);
        assert_eq!(unlimited(as_applied_by_fedgate), Vec::<String>::new(), "{folder}");
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let as_applied_by_kubectl = files.iter().flat_map(|file| &file.objects);
        assert_eq!(unlimited(as_applied_by_kubectl), Vec::<String>::new(), "{folder}");
    }
}

/// The resources, without their subresources, that each subject on each plane may patch, and those of which it has one of
/// these verbs.
fn patched_and(verbs: &[&str]) -> BTreeMap<(String, String), [BTreeSet<Named>; 2]> {
    let kinds = further(&["clusters.azimuth.stackhpc.com", "clusters.postgresql.cnpg.io"]);
    let files = fedgate_manifests::all(&kinds).unwrap();
    let mut roles = BTreeMap::new();
    let mut rights: BTreeMap<(String, String), [BTreeSet<Named>; 2]> = BTreeMap::new();
    for file in &files {
        let plane = file.path.split('/').next().unwrap();
        let key = |of: &Value| (plane, of["kind"].to_string(), of["name"].to_string());
        for object in &file.objects {
            match object["kind"].as_str().unwrap() {
                "ClusterRole" | "Role" => {
                    let named = (
                        plane,
                        object["kind"].to_string(),
                        object["metadata"]["name"].to_string(),
                    );
                    roles.insert(named, object);
                }
                "ClusterRoleBinding" | "RoleBinding" => {
                    let Some(role) = roles.get(&key(&object["roleRef"])) else {
                        continue;
                    };
                    for subject in object["subjects"].as_array().unwrap() {
                        let of = (plane.to_owned(), subject.to_string());
                        let [patched, other] = rights.entry(of).or_default();
                        let whole = |(group, resource): Named| {
                            (group, resource.split('/').next().unwrap().to_owned())
                        };
                        // An Event has what its writer put there.
                        let written = ruled(role, |verb| verb == "patch").into_iter();
                        patched.extend(written.filter(|(_, resource)| resource != "events").map(whole));
                        other.extend(ruled(role, |verb| verbs.contains(&verb)));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(rights.len() > 4, "{:?}", rights.keys());
    rights
}

/// A server that refuses a patch answers with fields of the patched object, before it asks a policy.
#[test]
fn nobody_patches_what_it_may_not_read() {
    for ((plane, subject), [patched, read]) in patched_and(&READING) {
        let unread: Vec<_> = patched.difference(&read).collect();
        assert_eq!(unread, Vec::<&Named>::new(), "{subject} on {plane}");
    }
}

/// Resources that a cell changes on its own plane by merge patches, after which the executor reads nothing.
const MERGED_AT_CELLS: [(&str, &str); 4] = [
    ("", "configmaps"),
    ("", "namespaces"),
    ("compute.datumapis.com", "instances"),
    ("compute.datumapis.com", "workloaddeployments"),
];

/// The executor reads an object after an API server has refused its apply (contract: federation.md §2.1).
#[test]
fn whoever_applies_an_object_may_get_it() {
    for ((plane, subject), [mut patched, got]) in patched_and(&["get"]) {
        if plane == "cell" {
            patched.retain(|(group, resource)| !MERGED_AT_CELLS.contains(&(group, resource)));
        }
        let unread: Vec<_> = patched.difference(&got).collect();
        assert_eq!(unread, Vec::<&Named>::new(), "{subject} on {plane}");
    }
}
