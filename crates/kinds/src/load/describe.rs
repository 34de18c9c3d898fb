//! Messages for what the parser refuses.

use super::LoadError;
use crate::file::Schema;

/// Describes serde's error and lists the allowed fields.
pub(super) fn describe(file: &str, schema: Schema, error: &serde_saphyr::Error) -> LoadError {
    let error = error.without_snippet();
    let line = error.location().map_or(1, |location| location.line());
    let message = match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => unknown(schema, field, expected),
        serde_saphyr::Error::SerdeUnknownVariant {
            variant, expected, ..
        } => {
            format!("unknown value {variant:?}; allowed are {}", expected.join(", "))
        }
        serde_saphyr::Error::SerdeMissingField { field, .. } => {
            let sections: Vec<String> = schema
                .sections()
                .iter()
                .filter(|(_, fields)| fields.iter().any(|own| own == field))
                .map(|(section, fields)| format!("{section} has the fields {}", fields.join(", ")))
                .collect();
            format!("missing field {field:?}; {}", sections.join("; "))
        }
        other => {
            let fields = schema.sections()[0].1.join(", ");
            format!("{other}; the file has the fields {fields} (docs/kinds.md)")
        }
    };
    LoadError::at(file, line, message)
}

/// Describes serde's error in a text of which not even the scope is known, so that no schema's fields fit.
pub(super) fn describe_unread(file: &str, error: &serde_saphyr::Error) -> LoadError {
    let error = error.without_snippet();
    let line = error.location().map_or(1, |location| location.line());
    let hint = match error {
        // The parser's own messages.
        serde_saphyr::Error::ExternalMessage { .. }
        | serde_saphyr::Error::UnknownAnchor { .. }
        | serde_saphyr::Error::ContainerEndMismatch { .. } => {
            "the text is no YAML; between braces {} a path with [ or * must be quoted (docs/kinds.md)"
        }
        _ => "the file is a map of fields (docs/kinds.md)",
    };
    LoadError::at(file, line, format!("{error}; {hint}"))
}

/// A field that its section does not have: the other scope may have it.
fn unknown(schema: Schema, field: &str, expected: &[&'static str]) -> String {
    let allowed = expected.join(", ");
    let sections = schema.sections();
    let section = sections.iter().find(|(_, fields)| *fields == expected);
    let elsewhere = |other: Schema| {
        let mut others = other.sections().into_iter();
        others.any(|(name, fields)| {
            section.is_some_and(|(own, _)| *own == name) && fields.iter().any(|own| own == field)
        })
    };
    match schema {
        Schema::Federated if elsewhere(Schema::Platform) => {
            format!("field {field:?} needs scope: Cluster; allowed without it are {allowed}")
        }
        Schema::Platform if elsewhere(Schema::Federated) => {
            format!("field {field:?} is not for scope: Cluster; allowed with it are {allowed}")
        }
        _ => format!("unknown field {field:?}; allowed are {allowed}"),
    }
}
