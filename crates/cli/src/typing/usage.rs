//! Faults of the command line as users see them: one line, the values that are accepted, and no usage text.

use crate::error::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The fault that clap has found.
pub(crate) fn usage(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let paragraph = lines.iter().take_while(|line| !line.is_empty());
    let shown = paragraph.filter(|line| !line.starts_with("[possible values"));
    let what = shown.copied().collect::<Vec<_>>().join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let context = |kind| error.get(kind);
    let what = match (
        error.kind(),
        context(ContextKind::InvalidArg),
        context(ContextKind::InvalidSubcommand),
        context(ContextKind::PriorArg),
    ) {
        (ErrorKind::MissingRequiredArgument, Some(missing), ..) => format!("{missing} is required"),
        (ErrorKind::ArgumentConflict, _, Some(word), Some(prior)) => {
            format!("'{word}' cannot be used after {prior}")
        }
        _ => what.to_owned(),
    };
    let values = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => {
            Some(format!("the values are {}", values.join(", ")))
        }
        _ => None,
    };
    let tip = lines.iter().find_map(|line| line.strip_prefix("tip: "));
    let causes: Vec<String> = values.into_iter().chain(tip.map(str::to_owned)).collect();
    let usage = Error::usage(what).next("kubectl compute --help");
    if causes.is_empty() {
        usage
    } else {
        usage.because(causes.join("; "))
    }
}
