//! Words in the wrong place: the line that was probably meant (contract: cli.md §1).

use crate::plane::nearest;
use clap::{
    Command,
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

/// The words without a `list` after the commands that list anyway.
pub(crate) fn without_list(words: Vec<String>) -> Vec<String> {
    let at = words
        .windows(2)
        .position(|pair| matches!(&*pair[0], "workloads" | "instances") && pair[1] == "list");
    let mut words = words;
    if let Some(at) = at {
        words.remove(at + 1);
    }
    words
}

/// The line that was probably meant: a command after another one, or a command with a typing error.
pub(crate) fn corrected(command: &Command, words: &[String], error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let words = words.get(1..)?;
    let line = match error.kind() {
        ErrorKind::UnknownArgument => {
            let stray = text(ContextKind::InvalidArg)?;
            let at = words.iter().position(|word| word == stray)?;
            let near = nearest(stray, names.iter().copied())?;
            let rest = words.iter().skip(at + 1).map(String::as_str);
            [near].into_iter().chain(rest).collect::<Vec<_>>()
        }
        ErrorKind::InvalidSubcommand => {
            let stray = text(ContextKind::InvalidSubcommand)?;
            let at = words.iter().position(|word| word == stray)?;
            let parent = words[..at]
                .iter()
                .find_map(|word| command.find_subcommand(word))
                .unwrap_or(command);
            let near = nearest(stray, parent.get_subcommands().map(Command::get_name));
            if let Some(near) = near {
                let mut line: Vec<&str> = words.iter().map(String::as_str).collect();
                line[at] = near;
                line
            } else {
                let near = nearest(stray, names.iter().copied())?;
                let rest = words.iter().skip(at + 1).map(String::as_str);
                [near].into_iter().chain(rest).collect()
            }
        }
        _ => return None,
    };
    Some(format!("kubectl compute {}", line.join(" ")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::{CommandFactory, Parser};

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn meant(line: &str) -> Option<String> {
        let words = words(line);
        let error = Cli::try_parse_from(&words).unwrap_err();
        corrected(&Cli::command(), &words, &error)
    }

    #[test]
    fn a_word_in_the_wrong_place_is_put_right() {
        for (line, right) in [
            ("x workloads destroy web", "destroy web"),
            ("x rolout status web", "rollout status web"),
            ("x workloads descibe web", "workloads describe web"),
            ("x -q instnces --city DFW", "-q instances --city DFW"),
        ] {
            assert_eq!(meant(line), Some(format!("kubectl compute {right}")), "{line}");
        }
        assert_eq!(meant("x workloads something"), None);
        assert_eq!(meant("x logs web"), None, "there is no such command");
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
    fn list_is_accepted_where_it_says_nothing_new() {
        assert_eq!(
            without_list(words("x -q workloads list --city A")),
            words("x -q workloads --city A")
        );
        assert_eq!(without_list(words("x status list")), words("x status list"));
    }

    #[test]
    fn every_argument_is_sound() {
        Cli::command().debug_assert();
    }
}
