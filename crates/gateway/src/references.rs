//! Resolves the companions that an object expects at its cell, from its references and the objects of
//! the project (contract: federation.md §3.9 step 1). Pure.

use fedgate_api::Reason;
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind};
use kube::core::ApiResource;
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of references that are synced. One more is kept, so that an excess is visible.
pub const REFERENCE_LIMIT: usize = 1_024;

/// One reference of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The kind that is referenced.
    pub kind: CompanionKind,
    /// Name of the ConfigMap or Secret.
    pub name: Arc<str>,
    /// The rule that found it first, by position among those of the object's kind.
    pub rule: u8,
    /// True if the object may be missing.
    pub optional: bool,
    /// True if the member must have it before the object.
    pub before: bool,
}

/// The references of an object, and what decides on them.
#[derive(Debug, Clone, Copy)]
pub struct References<'a> {
    /// All kinds of companions.
    pub kinds: &'a CompanionKinds,
    /// The rules of the object's kind.
    pub rules: &'a [fedgate_kinds::Reference],
    /// The references.
    pub found: &'a [Reference],
    /// The rule that must name an object and names none.
    pub unnamed: Option<u8>,
}

impl<'a> References<'a> {
    /// Reads the references of an object of this kind.
    pub fn of(
        kind: &'a FederatedKind,
        kinds: &'a CompanionKinds,
        (found, unnamed): (&'a [Reference], Option<u8>),
    ) -> Self {
        let section = kind.companions.as_ref();
        Self {
            kinds,
            rules: section.map_or(&[], |section| section.references.as_slice()),
            found,
            unnamed,
        }
    }

    /// The largest source of a reference, in bytes.
    pub fn size_limit(&self, reference: &Reference) -> usize {
        let rule = self.rules.get(usize::from(reference.rule));
        rule.map_or(SIZE_LIMIT, |rule| rule.max_bytes as usize)
    }
}

/// Longest name of a companion of a core kind: its binding adds `-configmap`.
const NAME_LIMIT: usize = 243;
/// `ConfigMaps` that Kubernetes, and `OpenShift`, make in every namespace.
const RESERVED: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];
/// Maximum size in bytes of a source that no rule names.
pub const SIZE_LIMIT: usize = 256 * 1024;
/// Maximum size of all sources of a deployment in bytes.
const TOTAL_LIMIT: usize = 1024 * 1024;

/// Observed state of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// The project's list is not complete.
    Unknown,
    /// The project does not permit reads of the kind.
    Forbidden,
    /// The source does not exist.
    Missing,
    /// The source exists and its values have this many bytes.
    Present(usize),
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Companions to sync to the cell; `None` while unresolved or in error: list and companions then stay unchanged.
    pub expected: Option<Vec<(CompanionKind, Arc<str>)>>,
    /// A terminal error: reason and message.
    pub error: Option<(Reason, String)>,
    /// True while the state of a source is unknown; nothing is decided then.
    pub resolving: bool,
}

/// `Kind/name`, as annotations list it; `Kind.group/name` for a kind outside the core group.
pub fn token(kinds: &CompanionKinds, kind: CompanionKind, name: &str) -> String {
    let ApiResource { group, kind, .. } = &kinds[kind];
    if group.is_empty() {
        format!("{kind}/{name}")
    } else {
        format!("{kind}.{group}/{name}")
    }
}

/// Parses a token.
pub fn parse_token(kinds: &CompanionKinds, token: &str) -> Option<(CompanionKind, Arc<str>)> {
    let (kind, name) = token.split_once('/')?;
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    Some((kinds.id_of(group, kind)?, name.into()))
}

/// Value of the annotation for a list.
pub fn expected_text(kinds: &CompanionKinds, expected: &[(CompanionKind, Arc<str>)]) -> String {
    let tokens: BTreeSet<String> = expected
        .iter()
        .map(|(kind, name)| token(kinds, *kind, name))
        .collect();
    json!(tokens).to_string()
}

/// Value of the annotation for an error.
pub fn error_text(reason: &str, message: &str) -> String {
    json!({"reason": reason, "message": message}).to_string()
}

/// Resolves the references in order; the first source that is not available determines the outcome.
pub fn resolve(of: References<'_>, state: impl Fn(CompanionKind, &str) -> SourceState) -> Resolution {
    let mut expected = Vec::new();
    let mut total = 0;
    let fail = |reason, message| Resolution {
        expected: None,
        error: Some((reason, message)),
        resolving: false,
    };
    if of.found.len() > REFERENCE_LIMIT {
        let message = format!(
            "more than {REFERENCE_LIMIT} ConfigMaps and Secrets are referenced, at most {REFERENCE_LIMIT} can be carried"
        );
        return fail(Reason::SourceTooLarge, message);
    }
    if let Some(rule) = of.unnamed.and_then(|rule| of.rules.get(usize::from(rule))) {
        let (kind, path) = (&rule.resource.kind, rule.path.text());
        return fail(
            Reason::SourceNotFound,
            format!("no {kind} is named at {path}, and one is required; name one"),
        );
    }
    for reference in of.found {
        let Reference { kind, name, .. } = reference;
        let subject = token(of.kinds, *kind, name).replacen('/', " ", 1);
        let limit = name_limit(&of.kinds[*kind]);
        if name.len() > limit {
            let message = format!(
                "{subject}: the name has {} characters, at most {limit} can be carried; rename it",
                name.len()
            );
            return fail(Reason::SourceNameTooLong, message);
        }
        if *kind == CompanionKind::CONFIG_MAP && RESERVED.contains(&&**name) {
            let message = format!(
                "{subject}: every namespace of a cell has an object of its own of this name; rename it"
            );
            return fail(Reason::SourceNameReserved, message);
        }
        let limit = of.size_limit(reference);
        match state(*kind, name) {
            SourceState::Unknown => {
                return Resolution {
                    expected: None,
                    error: None,
                    resolving: true,
                };
            }
            SourceState::Missing | SourceState::Forbidden if reference.optional => {}
            SourceState::Missing => {
                return fail(
                    Reason::SourceNotFound,
                    format!("{subject} does not exist in this namespace; create it or drop the reference"),
                );
            }
            SourceState::Forbidden => return fail(Reason::SourceUnauthorized, unreadable(*kind, &subject)),
            SourceState::Present(size) if size > limit => {
                if reference.optional {
                    continue;
                }
                return fail(
                    Reason::SourceTooLarge,
                    format!("{subject} has {size} bytes, at most {limit} can be carried"),
                );
            }
            SourceState::Present(size) => {
                total += size;
                if total > TOTAL_LIMIT {
                    let message = format!(
                        "{subject} brings the referenced data to {total} bytes, at most {TOTAL_LIMIT} can be carried"
                    );
                    return fail(Reason::SourceTooLarge, message);
                }
                expected.push((*kind, name.clone()));
            }
        }
    }
    Resolution {
        expected: Some(expected),
        error: None,
        resolving: false,
    }
}

/// The binding of a companion adds its kind to the name.
fn name_limit(resource: &ApiResource) -> usize {
    if resource.group.is_empty() && matches!(&*resource.kind, "ConfigMap" | "Secret") {
        NAME_LIMIT
    } else {
        NAME_LIMIT.saturating_sub(resource.kind.len())
    }
}

fn unreadable(kind: CompanionKind, subject: &str) -> String {
    let may = "may not be read by fedgate in this project";
    if kind.is_core() {
        format!("{subject} {may}; grant get, list and watch")
    } else {
        format!("{subject} {may}; install its definition and grant get, list and watch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: CompanionKind, name: &str, optional: bool) -> Reference {
        Reference {
            kind,
            name: name.into(),
            rule: 0,
            optional,
            before: false,
        }
    }

    fn resolve(found: &[Reference], state: impl Fn(CompanionKind, &str) -> SourceState) -> Resolution {
        let kinds = CompanionKinds::default();
        let of = References {
            kinds: &kinds,
            rules: &[],
            found,
            unnamed: None,
        };
        super::resolve(of, state)
    }

    const MAP: CompanionKind = CompanionKind::CONFIG_MAP;
    const SECRET: CompanionKind = CompanionKind::SECRET;

    #[test]
    fn everything_present_is_listed_sorted() {
        let refs = [
            reference(SECRET, "b", false),
            reference(MAP, "a", false),
            reference(MAP, "gone", true),
        ];
        let found = resolve(&refs, |_, name| {
            if name == "gone" {
                SourceState::Missing
            } else {
                SourceState::Present(9)
            }
        });
        assert_eq!(
            expected_text(&CompanionKinds::default(), &found.expected.unwrap()),
            r#"["ConfigMap/a","Secret/b"]"#
        );
        assert_eq!((found.error, found.resolving), (None, false));
    }

    #[test]
    fn each_failure_has_its_reason() {
        let long = "x".repeat(244);
        let cases = [
            (
                reference(MAP, "a", false),
                SourceState::Missing,
                Reason::SourceNotFound,
            ),
            (
                reference(MAP, "a", false),
                SourceState::Forbidden,
                Reason::SourceUnauthorized,
            ),
            (
                reference(MAP, "a", false),
                SourceState::Present(SIZE_LIMIT + 1),
                Reason::SourceTooLarge,
            ),
            (
                reference(MAP, &long, true),
                SourceState::Present(1),
                Reason::SourceNameTooLong,
            ),
        ];
        for (one, state, reason) in cases {
            let found = resolve(&[one], |_, _| state);
            assert_eq!(found.error.map(|e| e.0), Some(reason));
            assert_eq!(found.expected, None);
        }
    }

    #[test]
    fn a_name_that_every_namespace_of_a_cell_has_taken_is_refused_at_once() {
        for optional in [false, true] {
            let reserved = [reference(MAP, "kube-root-ca.crt", optional)];
            let found = resolve(&reserved, |_, _| SourceState::Present(1));
            let message = "ConfigMap kube-root-ca.crt: every namespace of a cell has an object of its own of this name; \
                           rename it";
            assert_eq!(
                found.error,
                Some((Reason::SourceNameReserved, message.to_owned()))
            );
        }
        let secret = [reference(SECRET, "kube-root-ca.crt", false)];
        assert_eq!(resolve(&secret, |_, _| SourceState::Present(1)).error, None);
    }

    #[test]
    fn what_must_be_named_and_is_not_is_said_before_anything_else() {
        let builtin = &fedgate_kinds::FederatedKind::builtin().unwrap()[0];
        let (all, secret) = (CompanionKinds::of([builtin]), [reference(SECRET, "a", false)]);
        let of = References::of(builtin, &all, (&secret, Some(1)));
        let rule = &of.rules[1];
        let found = super::resolve(of, |_, _| SourceState::Missing);
        let message = format!(
            "no {} is named at {}, and one is required; name one",
            rule.resource.kind,
            rule.path.text()
        );
        assert_eq!(found.error, Some((Reason::SourceNotFound, message)));
        assert_eq!((found.expected, found.resolving), (None, false));
        let of = References::of(builtin, &all, (&secret, None));
        let found = super::resolve(of, |_, _| SourceState::Present(1));
        assert_eq!(found.expected, Some(vec![(SECRET, "a".into())]));
    }

    #[test]
    fn the_sum_is_bounded_and_the_unknown_decides_nothing() {
        let refs: Vec<_> = (0..5).map(|i| reference(SECRET, &i.to_string(), false)).collect();
        let found = resolve(&refs, |_, _| SourceState::Present(SIZE_LIMIT));
        assert_eq!(found.error.unwrap().0, Reason::SourceTooLarge);
        let found = resolve(&refs, |_, _| SourceState::Unknown);
        assert_eq!(
            found,
            Resolution {
                expected: None,
                error: None,
                resolving: true
            }
        );
    }

    #[test]
    fn too_many_references_are_said_and_nothing_of_them_is_carried() {
        let refs: Vec<_> = (0..=REFERENCE_LIMIT)
            .map(|i| reference(SECRET, &i.to_string(), true))
            .collect();
        let found = resolve(&refs, |_, _| SourceState::Missing);
        assert_eq!(
            (found.error.map(|e| e.0), found.expected),
            (Some(Reason::SourceTooLarge), None)
        );
        let found = resolve(&refs[1..], |_, _| SourceState::Missing);
        assert_eq!(found.error, None);
    }

    #[test]
    fn tokens_read_back() {
        let kinds = CompanionKinds::default();
        assert_eq!(
            parse_token(&kinds, &token(&kinds, SECRET, "x")),
            Some((SECRET, "x".into()))
        );
        assert_eq!(parse_token(&kinds, "Pod/x"), None);
        assert_eq!(parse_token(&kinds, "Secret.example.com/x"), None);
    }
}
