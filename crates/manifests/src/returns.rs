//! Rights and limits of returns (contract: clusters.md §7, §9): of members on the hub, of the gateway in projects, and of the
//! program `fedgate returns` at its member. Without a kind that has returns there are none.

use crate::{KindManifests, Manifest, ManifestError, ReturnedSecrets, rbac::rule, sources};

/// A kind with returns: its name as the label has it, and what comes back.
type Returning<'a> = (String, &'a ReturnedSecrets);

/// All files; none if no kind has returns.
pub(super) fn files(kinds: &[KindManifests]) -> Result<Vec<Manifest>, ManifestError> {
    let mut with_returns: Vec<&KindManifests> = kinds.iter().filter(|kind| kind.returns.is_some()).collect();
    // A policy is the same whether its kinds come from the executable or from a folder.
    with_returns.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
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
fn of_members(kinds: &[&KindManifests]) -> Result<Manifest, ManifestError> {
    let path = "hub/cell-returns.yaml";
    let kinds = kinds.iter();
    let kinds: Vec<Returning<'_>> = kinds
        .filter_map(|kind| Some((kind.name(), kind.returns.as_ref()?)))
        .collect();
    let fits = |pattern: &str| format!("variables.name.matches('{}')", regular(pattern));
    let names = any_kind(&kinds, |returns| {
        any(returns.patterns.iter().map(|(pattern, _)| fits(pattern)))
    });
    let sizes = any_kind(&kinds, |returns| {
        let sized =
            |(pattern, most): &(String, u32)| format!("({} && variables.bytes <= {most})", fits(pattern));
        any(returns.patterns.iter().map(sized))
    });
    let owners = any_kind(&kinds, |returns| {
        format!(
            "variables.owners.all(o, o.apiVersion == '{}' && o.kind == '{}')",
            returns.api_version, returns.kind
        )
    });
    let places = [("names", &*names), ("sizes", &sizes), ("owners", &owners)];
    Ok(Manifest::generated(path, sources::objects(path, &places)?))
}

fn any(tests: impl Iterator<Item = String>) -> String {
    tests.collect::<Vec<_>>().join(" || ")
}

/// CEL expression: the kind of the Secret is one of these, and the test of that kind is true.
fn any_kind(kinds: &[Returning<'_>], test: impl Fn(&ReturnedSecrets) -> String) -> String {
    any(kinds
        .iter()
        .map(|(name, returns)| format!("(variables.kind == '{name}' && ({}))", test(returns))))
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
fn at_member(kinds: &[&KindManifests]) -> Result<Manifest, ManifestError> {
    let mut role = sources::manifest("member/returns-role.yaml")?;
    let watched = kinds
        .iter()
        .map(|kind| rule(&kind.group, &[&kind.plural], &["list", "watch"]));
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
