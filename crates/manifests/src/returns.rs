//! Rights and limits of returns (contract: clusters.md §7, §9): of members on the hub, of the gateway in projects, and of the
//! program `fedgate returns` at its member. Without a kind that has returns there are none.

use crate::{KindManifests, Manifest, ManifestError, names, rbac::rule, sources};
use fedgate_kinds::{FederatedKind, NamePattern, Return};

/// All files; none if no kind has returns.
pub(super) fn files(kinds: &[KindManifests]) -> Result<Vec<Manifest>, ManifestError> {
    let with_returns = kinds.iter().filter_map(|kind| kind.federated.as_ref());
    let with_returns = with_returns.filter(|kind| !kind.returns.is_empty());
    let mut with_returns: Vec<&FederatedKind> = with_returns.collect();
    // A policy is the same whether its kinds come from the executable or from a folder.
    with_returns.sort_by_key(|kind| names(&kind.resource));
    if with_returns.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![
        of_members(&with_returns)?,
        sources::manifest("project/gateway-returns.yaml")?,
        sources::manifest("hub/role-of-returns.yaml")?,
        at_member(&with_returns)?,
    ])
}

/// Limits a member to names, owners and sizes that the kinds admit.
fn of_members(kinds: &[&FederatedKind]) -> Result<Manifest, ManifestError> {
    let path = "hub/cell-returns.yaml";
    let fits = |pattern: &NamePattern| format!("variables.name.matches('{}')", regular(pattern.text()));
    let names = any_kind(kinds, |kind| {
        any(kind.returns.iter().flat_map(|rule| &rule.allow).map(fits))
    });
    let sizes = any_kind(kinds, |kind| {
        let sized =
            |rule: &Return, pattern| format!("({} && variables.bytes <= {})", fits(pattern), rule.max_bytes);
        let rules = kind.returns.iter();
        any(rules.flat_map(|rule| rule.allow.iter().map(move |pattern| sized(rule, pattern))))
    });
    let owners = any_kind(kinds, |kind| {
        let (api_version, kind) = (&kind.resource.api_version, &kind.resource.kind);
        format!("variables.owners.all(o, o.apiVersion == '{api_version}' && o.kind == '{kind}')")
    });
    let places = [("names", &*names), ("sizes", &sizes), ("owners", &owners)];
    Ok(Manifest::generated(path, sources::objects(path, &places)?))
}

fn any(tests: impl Iterator<Item = String>) -> String {
    tests.collect::<Vec<_>>().join(" || ")
}

/// CEL expression: the kind of the Secret is one of these, and the test of that kind is true.
fn any_kind(kinds: &[&FederatedKind], test: impl Fn(&FederatedKind) -> String) -> String {
    any(kinds.iter().map(|kind| {
        let (group, plural) = names(&kind.resource);
        format!("(variables.kind == '{plural}.{group}' && ({}))", test(kind))
    }))
}

/// A pattern of names as a regular expression in a text of CEL. Names have letters, digits, dashes and dots.
fn regular(pattern: &str) -> String {
    let text: String = pattern
        .chars()
        .map(|c| match c {
            '*' => ".*".to_owned(),
            '\'' | '\\' | ']' | '^' => "[!]".to_owned(),
            c if c.is_ascii_alphanumeric() || c == '-' => c.to_string(),
            c => format!("[{c}]"),
        })
        .collect();
    format!("^{text}$")
}

/// Rights of the program at its member.
fn at_member(kinds: &[&FederatedKind]) -> Result<Manifest, ManifestError> {
    let mut role = sources::manifest("member/returns-role.yaml")?;
    let watched = kinds
        .iter()
        .map(|kind| rule(&kind.resource.group, &[&kind.resource.plural], &["list", "watch"]));
    let found = role
        .objects
        .iter_mut()
        .find(|object| object["kind"] == "ClusterRole");
    if let Some(rules) = found.and_then(|role| role["rules"].as_array_mut()) {
        rules.splice(0..0, watched);
    }
    Ok(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_an_expression_for_whole_names_in_which_only_a_star_stands_for_others() {
        assert_eq!(regular("*-app"), "^.*-app$");
        assert_eq!(regular("lab.*-x"), "^lab[.].*-x$");
        assert_eq!(regular("a'b]"), "^a[!]b[!]$");
    }

    #[test]
    fn without_a_kind_that_has_returns_nobody_gets_a_right() {
        assert!(files(&[]).unwrap().is_empty());
    }
}
