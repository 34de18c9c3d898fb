//! Resolves the `ConfigMaps` and Secrets that a deployment expects at its cell, from its references and the objects of
//! the project (contract: federation.md §3.9 step 1). Pure.

use fedgate_kinds::CompanionKind;
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of references that are synced. One more is kept, so that an excess is visible.
pub const REFERENCE_LIMIT: usize = 1_024;

/// One reference of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `ConfigMap` or Secret.
    pub kind: CompanionKind,
    /// Its name.
    pub name: Arc<str>,
    /// True if the object may be missing.
    pub optional: bool,
}

/// Longest name of a companion: its binding adds `-configmap`.
const NAME_LIMIT: usize = 243;
/// Maximum size of a source in bytes.
const SIZE_LIMIT: usize = 256 * 1024;
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
    pub error: Option<(&'static str, String)>,
    /// True while the state of a source is unknown; nothing is decided then.
    pub resolving: bool,
}

/// `Kind/name`, as the annotation lists it.
pub fn token(kind: CompanionKind, name: &str) -> String {
    match kind {
        CompanionKind::ConfigMap => format!("ConfigMap/{name}"),
        CompanionKind::Secret => format!("Secret/{name}"),
    }
}

/// Parses a token.
pub fn parse_token(token: &str) -> Option<(CompanionKind, Arc<str>)> {
    let (kind, name) = token.split_once('/')?;
    match kind {
        "ConfigMap" => Some((CompanionKind::ConfigMap, name.into())),
        "Secret" => Some((CompanionKind::Secret, name.into())),
        _ => None,
    }
}

/// Value of the annotation for a list.
pub fn expected_text(expected: &[(CompanionKind, Arc<str>)]) -> String {
    let tokens: BTreeSet<String> = expected.iter().map(|(kind, name)| token(*kind, name)).collect();
    json!(tokens).to_string()
}

/// Value of the annotation for an error.
pub fn error_text(reason: &str, message: &str) -> String {
    json!({"reason": reason, "message": message}).to_string()
}

/// Resolves the references in order; the first source that is not available determines the outcome.
pub fn resolve(references: &[Reference], state: impl Fn(CompanionKind, &str) -> SourceState) -> Resolution {
    let mut expected = Vec::new();
    let mut total = 0;
    let fail = |reason, message| Resolution {
        expected: None,
        error: Some((reason, message)),
        resolving: false,
    };
    if references.len() > REFERENCE_LIMIT {
        let message = format!(
            "more than {REFERENCE_LIMIT} ConfigMaps and Secrets are referenced, at most {REFERENCE_LIMIT} can be carried"
        );
        return fail("SourceTooLarge", message);
    }
    for Reference { kind, name, optional } in references {
        let what = token(*kind, name).replacen('/', " ", 1);
        if name.len() > NAME_LIMIT {
            let message = format!(
                "{what}: the name has {} characters, at most {NAME_LIMIT} can be carried; rename it",
                name.len()
            );
            return fail("SourceNameTooLong", message);
        }
        match state(*kind, name) {
            SourceState::Unknown => {
                return Resolution {
                    expected: None,
                    error: None,
                    resolving: true,
                };
            }
            SourceState::Missing | SourceState::Forbidden if *optional => {}
            SourceState::Missing => {
                return fail(
                    "SourceNotFound",
                    format!("{what} does not exist in this namespace; create it or drop the reference"),
                );
            }
            SourceState::Forbidden => {
                return fail(
                    "SourceUnauthorized",
                    format!("{what} may not be read by fedgate in this project; grant get, list and watch"),
                );
            }
            SourceState::Present(size) if size > SIZE_LIMIT => {
                if *optional {
                    continue;
                }
                return fail(
                    "SourceTooLarge",
                    format!("{what} has {size} bytes, at most {SIZE_LIMIT} can be carried"),
                );
            }
            SourceState::Present(size) => {
                total += size;
                if total > TOTAL_LIMIT {
                    let message = format!(
                        "{what} brings the referenced data to {total} bytes, at most {TOTAL_LIMIT} can be carried"
                    );
                    return fail("SourceTooLarge", message);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: CompanionKind, name: &str, optional: bool) -> Reference {
        Reference {
            kind,
            name: name.into(),
            optional,
        }
    }

    const MAP: CompanionKind = CompanionKind::ConfigMap;
    const SECRET: CompanionKind = CompanionKind::Secret;

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
            expected_text(&found.expected.unwrap()),
            r#"["ConfigMap/a","Secret/b"]"#
        );
        assert_eq!((found.error, found.resolving), (None, false));
    }

    #[test]
    fn each_failure_has_its_reason() {
        let long = "x".repeat(244);
        let cases = [
            (reference(MAP, "a", false), SourceState::Missing, "SourceNotFound"),
            (
                reference(MAP, "a", false),
                SourceState::Forbidden,
                "SourceUnauthorized",
            ),
            (
                reference(MAP, "a", false),
                SourceState::Present(SIZE_LIMIT + 1),
                "SourceTooLarge",
            ),
            (
                reference(MAP, &long, true),
                SourceState::Present(1),
                "SourceNameTooLong",
            ),
        ];
        for (one, state, reason) in cases {
            let found = resolve(&[one], |_, _| state);
            assert_eq!(found.error.map(|e| e.0), Some(reason));
            assert_eq!(found.expected, None);
        }
    }

    #[test]
    fn the_sum_is_bounded_and_the_unknown_decides_nothing() {
        let refs: Vec<_> = (0..5).map(|i| reference(SECRET, &i.to_string(), false)).collect();
        let found = resolve(&refs, |_, _| SourceState::Present(SIZE_LIMIT));
        assert_eq!(found.error.unwrap().0, "SourceTooLarge");
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
            (Some("SourceTooLarge"), None)
        );
        let found = resolve(&refs[1..], |_, _| SourceState::Missing);
        assert_eq!(found.error, None);
    }

    #[test]
    fn tokens_read_back() {
        assert_eq!(parse_token(&token(SECRET, "x")), Some((SECRET, "x".into())));
        assert_eq!(parse_token("Pod/x"), None);
    }
}
