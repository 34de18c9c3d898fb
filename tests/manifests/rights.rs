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

/// A server that refuses a patch answers with fields of the patched object, before it asks a policy.
#[test]
fn nobody_patches_what_it_may_not_read() {
    let kinds = further(&["clusters.azimuth.stackhpc.com", "clusters.postgresql.cnpg.io"]);
    let files = fedgate_manifests::all(&kinds).unwrap();
    let mut roles = BTreeMap::new();
    let mut rights: BTreeMap<(&str, String), [BTreeSet<Named>; 2]> = BTreeMap::new();
    for file in &files {
        let plane = file.path.split('/').next().unwrap();
        let named = |object: &Value| {
            (
                plane,
                object["kind"].as_str().unwrap().to_owned(),
                object["metadata"]["name"].clone().to_string(),
            )
        };
        for object in &file.objects {
            match object["kind"].as_str().unwrap() {
                "ClusterRole" | "Role" => drop(roles.insert(named(object), object)),
                "ClusterRoleBinding" | "RoleBinding" => {
                    let of = &object["roleRef"];
                    let key = (
                        plane,
                        of["kind"].as_str().unwrap().to_owned(),
                        of["name"].to_string(),
                    );
                    let Some(role) = roles.get(&key) else { continue };
                    for subject in object["subjects"].as_array().unwrap() {
                        let [patched, read] = rights.entry((plane, subject.to_string())).or_default();
                        patched.extend(ruled(role, |verb| verb == "patch"));
                        read.extend(ruled(role, |verb| READING.contains(&verb)));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(rights.len() > 4, "{:?}", rights.keys());
    for ((plane, subject), [patched, read]) in rights {
        let whole =
            |(group, resource): &Named| (group.clone(), resource.split('/').next().unwrap().to_owned());
        let unread = patched.iter().filter(|one| !read.contains(&whole(one)));
        // An Event has what its writer put there.
        let unread: Vec<_> = unread.filter(|(group, _)| group != "events.k8s.io").collect();
        assert_eq!(unread, Vec::<&Named>::new(), "{subject} on {plane}");
    }
}
