//! Faults of the command line as users see them: one line, the values that are accepted, and no usage text.

use crate::error::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of kubectl that this command line does not have, each with the way to the same.
const OF_KUBECTL: &[(&[&str], &str)] = &[
    (
        &["-A", "--all-namespaces"],
        "a command is about one namespace, -n NAME; all are listed by kubectl get workloads -A",
    ),
    (
        &["-l", "--selector", "--field-selector"],
        "objects are selected by kubectl get workloads -l LABEL=VALUE",
    ),
    (
        &[
            "-s",
            "--server",
            "--cluster",
            "--certificate-authority",
            "--insecure-skip-tls-verify",
        ],
        "the server is that of a context, --context NAME; kubectl config set-cluster changes it",
    ),
    (
        &[
            "--token",
            "--user",
            "--client-certificate",
            "--client-key",
            "--as",
            "--as-group",
        ],
        "the user is that of a context, --context NAME; kubectl config set-credentials NAME --token=TOKEN makes one",
    ),
    (&["-v", "--v"], "requests are shown by kubectl get workloads -v=6"),
    (
        &["-k", "--kustomize", "-R", "--recursive"],
        "folders are applied by kubectl apply -k DIR, or kubectl apply -R -f DIR",
    ),
];

fn instead_of(flag: &str) -> Option<&'static str> {
    let found = OF_KUBECTL.iter().find(|(flags, _)| flags.contains(&flag));
    found.map(|(_, way)| *way)
}

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
    let flag = match context(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => instead_of(flag),
        _ => None,
    };
    let tip = lines.iter().find_map(|line| line.strip_prefix("tip: "));
    let causes = values.into_iter().chain(flag.or(tip).map(str::to_owned));
    let causes: Vec<String> = causes.collect();
    let usage = Error::usage(what).next("kubectl compute --help");
    if causes.is_empty() {
        usage
    } else {
        usage.because(causes.join("; "))
    }
}
