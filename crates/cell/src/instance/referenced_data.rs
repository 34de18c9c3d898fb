//! Checks that the `ConfigMaps` and Secrets that a deployment expects exist at the cell (contract: cell.md §3).

use crate::conditions::{Verdict, source_error};
use fedgate_api::{
    ConditionStatus::{False, True, Unknown},
    Reason,
};

/// The condition `ReferencedDataReady`, from the deployment's two annotations. `is_there` returns true if the object
/// `Kind/name` exists.
pub fn verdict(error: Option<&str>, expected: Option<&str>, is_there: impl Fn(&str) -> bool) -> Verdict {
    if let Some(error) = source_error(error) {
        return error;
    }
    let expected = expected.and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    let Some(expected) = expected else {
        let message = "which ConfigMaps and Secrets it needs is not known yet";
        return Verdict::of(Unknown, Reason::Resolving, message);
    };
    let missing: Vec<&str> = expected
        .iter()
        .map(String::as_str)
        .filter(|token| !is_there(token))
        .collect();
    if missing.is_empty() {
        return Verdict::of(
            True,
            Reason::Ready,
            "all referenced ConfigMaps and Secrets are there",
        );
    }
    let message = format!("not at this cell yet: {}", missing.join(", "));
    Verdict::of(False, Reason::AwaitingPropagation, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::recovery::RecoveryState;

    proptest::proptest! {
        #[test]
        fn annotations_of_any_text_say_something(
            error in proptest::option::of(r#"(\{"reason":"[a-z"]{0,4}","message":".{0,6}"\}|.{0,20})"#),
            expected in proptest::option::of(r#"(\["[A-Za-z/"]{0,8}"\]|.{0,20})"#),
            recovery in r#"(\{"attempts":-?[0-9]{1,20}\}|.{0,20})"#,
        ) {
            let said = verdict(error.as_deref(), expected.as_deref(), |token| token.len() > 3);
            proptest::prop_assert!(!said.reason.is_empty() || error.is_some());
            let state = RecoveryState::parse(Some(&recovery));
            let written = serde_json::to_string(&state).unwrap();
            proptest::prop_assert_eq!(RecoveryState::parse(Some(&written)), state);
        }
    }

    fn words(error: Option<&str>, expected: Option<&str>) -> String {
        let verdict = verdict(error, expected, |token| token == "Secret/db");
        format!("{:?} {}: {}", verdict.status, verdict.reason, verdict.message)
    }

    #[test]
    fn exactly_what_is_expected_is_waited_for() {
        let unknown = "Unknown Resolving: which ConfigMaps and Secrets it needs is not known yet";
        let there = "True Ready: all referenced ConfigMaps and Secrets are there";
        for (expected, words_of_it) in [
            (None, unknown),
            (Some("{"), unknown),
            (Some("[1]"), unknown),
            (Some("[]"), there),
            (Some(r#"["Secret/db"]"#), there),
            (
                Some(r#"["ConfigMap/app","ConfigMap/db","Secret/db"]"#),
                "False AwaitingPropagation: not at this cell yet: ConfigMap/app, ConfigMap/db",
            ),
        ] {
            assert_eq!(words(None, expected), words_of_it);
        }
    }

    #[test]
    fn a_terminal_error_comes_before_any_list() {
        let error = r#"{"reason":"SourceNotFound","message":"Secret db does not exist"}"#;
        assert_eq!(
            words(Some(error), Some("[]")),
            "False SourceNotFound: Secret db does not exist"
        );
        assert_eq!(words(Some("no JSON"), Some("[]"))[..4], *"True");
    }
}
