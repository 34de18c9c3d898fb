//! Lines as they were typed: words for completion, flags at any place, and the line that was meant by a wrong one
//! (contract: cli.md §1).

mod roles;
mod suggestion;

pub(crate) use roles::{Role, Roles};
pub(crate) use suggestion::corrected;

use crate::{args::Cli, error::Error};
use clap::{
    Command, CommandFactory,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::path::Path;

/// Name of the executable by which kubectl asks for candidates.
const COMPLETER: &str = "kubectl_complete-compute";

/// The words that are to be completed, if a shell or kubectl asks for candidates.
pub(crate) fn to_complete(words: &[String]) -> Option<&[String]> {
    let (program, rest) = words.split_first()?;
    let stem = Path::new(program).file_stem();
    if stem.is_some_and(|stem| stem == COMPLETER) {
        return Some(rest);
    }
    let (first, rest) = rest.split_first()?;
    (first == "__complete").then_some(rest)
}

/// The command line with the flags of all commands at each of them.
pub(crate) fn built() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

/// The words as clap accepts them: flags of all commands before the commands, because clap takes one between two commands
/// for one of the first alone; and no `list` after the commands that list anyway.
pub(crate) fn normalized(words: &[String]) -> Vec<String> {
    let root = built();
    let Some((program, words)) = words.split_first() else {
        return Vec::new();
    };
    let roles = Roles::read(&root, words);
    let (mut first, mut rest) = (vec![program.clone()], Vec::new());
    // A flag without its value is a fault: it must not get another word by a move.
    let end = roles.first_without_value().unwrap_or(words.len());
    let mut goes_first = false;
    for (at, (role, word)) in roles.of.iter().zip(words).enumerate() {
        goes_first = match role {
            Role::List => continue,
            Role::Value(_) => goes_first,
            Role::Flags(args, _) => at < end && args.iter().all(|arg| arg.is_global_set()),
            Role::Command | Role::Unknown | Role::Word => false,
        };
        if goes_first { &mut first } else { &mut rest }.push(word.clone());
    }
    first.append(&mut rest);
    first
}

/// True if errors are printed as JSON; known also if the line is wrong.
pub(crate) fn wants_json(words: &[String]) -> bool {
    let root = built();
    let words = words.get(1..).unwrap_or_default();
    let values = Roles::read(&root, words).values(words);
    let mut formats = values.into_iter().filter(|(flag, _)| *flag == "output");
    formats.next_back().is_some_and(|(_, format)| format == "json")
}

/// The line that was typed, as a shell takes it.
pub(crate) fn line(words: &[String]) -> String {
    let quoted = words.iter().skip(1).map(|word| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    let words: Vec<String> = [String::from("kubectl compute")]
        .into_iter()
        .chain(quoted)
        .collect();
    words.join(" ")
}

/// Flags of kubectl that this command line does not have, each with the way to the same.
const OF_KUBECTL: [(&str, &str); 6] = [
    (
        "-A --all-namespaces",
        "a command is about one namespace, -n NAME; all are listed by kubectl get workloads -A",
    ),
    (
        "-l --selector --field-selector",
        "objects are selected by kubectl get workloads -l LABEL=VALUE",
    ),
    (
        "-s --server --cluster --certificate-authority --insecure-skip-tls-verify",
        "the server is that of a context, --context NAME; kubectl config set-cluster changes it",
    ),
    (
        "--token --user --client-certificate --client-key --as --as-group",
        "the user is that of a context, --context NAME; kubectl config set-credentials NAME --token=TOKEN makes one",
    ),
    ("-v --v", "requests are shown by kubectl get workloads -v=6"),
    (
        "-k --kustomize -R --recursive",
        "folders are applied by kubectl apply -k DIR, or kubectl apply -R -f DIR",
    ),
];

fn instead_of(flag: &str) -> Option<&'static str> {
    let is_one = |(flags, _): &&(&str, &str)| flags.split(' ').any(|known| known == flag);
    OF_KUBECTL.iter().find(is_one).map(|(_, way)| *way)
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn meant(line: &str) -> Option<String> {
        let words = words(line);
        let error = Cli::try_parse_from(normalized(&words)).unwrap_err();
        corrected(&built(), &words, &error)
    }

    #[test]
    fn a_word_in_the_wrong_place_is_put_right() {
        for (line, right) in [
            ("x workloads destroy web", "destroy web"),
            ("x -n staging workloads destroy web", "-n staging destroy web"),
            ("x -n destroy workloads destroy web", "-n destroy destroy web"),
            ("x instances list destroy web -q", "destroy web -q"),
            ("x rolout status web", "rollout status web"),
            ("x statsu", "status"),
            ("x statsu web --bogus", "status web --bogus"),
            ("x workloads descibe web", "workloads describe web"),
            ("x workloads -n a descibe web", "workloads -n a describe web"),
            ("x -q instnces --city DFW", "-q instances --city DFW"),
            ("x rollout histroy web", "rollout history web"),
            ("x rollout web undo", "rollout undo web"),
            (
                "x rollout --timeout 5m status web",
                "rollout status --timeout 5m web",
            ),
            ("x workloads something", "workloads describe something"),
            ("x workloads a$b", "workloads describe 'a$b'"),
        ] {
            assert_eq!(meant(line), Some(format!("kubectl compute {right}")), "{line}");
        }
        for line in [
            "x logs web",
            "x workloads one two",
            "x quota web",
            "x status a b",
            "x deploy a --bogus",
        ] {
            assert_eq!(meant(line), None, "{line}");
        }
    }

    #[test]
    fn a_line_is_repeated_as_a_shell_takes_it() {
        let words = ["x", "deploy", "web", "--env", "A=it's 1", "--reason", ""].map(str::to_owned);
        assert_eq!(
            super::line(&words),
            r"kubectl compute deploy web --env 'A=it'\''s 1' --reason ''"
        );
    }

    #[test]
    fn flags_of_all_commands_come_first_and_list_says_nothing_new() {
        for (line, expected) in [
            ("x -q workloads list --city A", "x -q workloads --city A"),
            ("x workloads -o wide list", "x -o wide workloads"),
            (
                "x workloads --city list -n a list",
                "x -n a workloads --city list",
            ),
            ("x workloads -qo name list -w", "x -qo name workloads -w"),
            (
                "x rollout --context=c status web",
                "x --context=c rollout status web",
            ),
            ("x status list", "x status list"),
            ("x workloads -wn a", "x workloads -wn a"),
            ("x workloads list -n", "x workloads -n"),
            ("x workloads -n --bogus", "x workloads -n --bogus"),
            ("x status -n -ojson a b", "x status -n -ojson a b"),
            ("x -q scale web --min -n a", "x -q scale web --min -n a"),
            ("x status -- -n a list", "x status -- -n a list"),
            ("x scale web --min -1 -n a", "x -n a scale web --min -1"),
            ("x deploy -f - -n a", "x -n a deploy -f -"),
            (
                "x rollout web --watch=false -n a",
                "x -n a rollout web --watch=false",
            ),
        ] {
            assert_eq!(normalized(&words(line)), words(expected), "{line}");
        }
        assert_eq!(normalized(&[]), Vec::<String>::new());
    }

    #[test]
    fn errors_are_json_however_the_format_is_typed() {
        for line in [
            "x -o json",
            "x -ojson",
            "x -o=json",
            "x status -qo json",
            "x status -qojson",
            "x status --output json a b c",
            "x --bogus status --output=json",
            "x -o yaml -o json",
            "x rollout -w=false -o json",
        ] {
            assert!(wants_json(&words(line)), "{line}");
        }
        for line in [
            "x",
            "x -o",
            "x -o yaml",
            "x status json",
            "x -n -ojso",
            "x status -- -o json",
            "x -o json -o table",
            "x deploy --reason=-ojson",
            "x -nojson",
        ] {
            assert!(!wants_json(&words(line)), "{line}");
        }
    }

    #[test]
    fn every_argument_is_sound() {
        Cli::command().debug_assert();
    }
}
