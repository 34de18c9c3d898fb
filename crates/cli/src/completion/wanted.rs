//! The kind of the word that is being typed, from the words before it.

use super::Candidate;
use crate::{
    output::FORMATS,
    typing::{Role, Roles},
};
use clap::{Arg, Command};
use std::collections::BTreeMap;

/// The kind of word that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A word of this list; it is empty for a word that cannot be known.
    OneOf(Vec<Candidate>),
    /// A file.
    Files,
    /// Names of workloads.
    Workloads,
    /// Names of instances.
    Instances,
    /// City codes.
    Cities,
    /// City codes, and locations that are in use.
    Places,
    /// Names of locations.
    Locations,
    /// Namespaces.
    Namespaces,
    /// Contexts of the kubeconfig.
    Contexts,
    /// Placements of a workload.
    Placements(String),
    /// Containers of a workload.
    Containers(String),
    /// Revisions of a workload.
    Revisions(String),
}

/// The place of the word that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The kind of word.
    pub(super) wanted: Wanted,
    /// Commands that the word may be as well.
    pub(super) commands: Vec<Candidate>,
    /// The beginning of the word.
    pub(super) typed: String,
    /// Flags that choose the plane, by name.
    pub(super) context: BTreeMap<String, String>,
}

/// Finds the place of the last word.
pub(super) fn place(root: &Command, words: &[String]) -> Place {
    let (typed, before) = words
        .split_last()
        .map_or(("", words), |(last, rest)| (last, rest));
    let roles = Roles::read(root, before);
    let context = roles.values(before).into_iter();
    let context = context.map(|(flag, value)| (flag.to_owned(), value)).collect();
    let positionals = roles.of.iter().zip(before);
    let positionals = positionals.filter(|(role, _)| matches!(role, Role::Word));
    let walk = Walk {
        positionals: positionals.map(|(_, word)| word.clone()).collect(),
        roles,
    };
    let (wanted, typed) = walk.end(typed);
    Place {
        commands: walk.commands(typed),
        wanted,
        typed: typed.to_owned(),
        context,
    }
}

/// The words before the last one.
struct Walk<'a> {
    roles: Roles<'a>,
    /// The words that are neither commands nor flags nor their values.
    positionals: Vec<String>,
}

impl Walk<'_> {
    fn end<'w>(&self, typed: &'w str) -> (Wanted, &'w str) {
        let value = |arg: Option<&Arg>| arg.map_or(Wanted::OneOf(Vec::new()), |arg| self.value(arg));
        if self.roles.open.is_some() {
            return (value(self.roles.open), typed);
        }
        if let Some((name, text)) = typed.strip_prefix("--").and_then(|flag| flag.split_once('=')) {
            return (value(self.roles.flag(|arg| arg.get_long() == Some(name))), text);
        }
        if typed.starts_with('-') {
            return (Wanted::OneOf(self.flags()), typed);
        }
        let mut positionals = self.roles.command.get_positionals();
        (value(positionals.nth(self.positionals.len())), typed)
    }

    /// The commands that can be typed here.
    fn commands(&self, typed: &str) -> Vec<Candidate> {
        if typed.starts_with('-') || self.roles.open.is_some() || self.roles.is_closed {
            return Vec::new();
        }
        let commands = self
            .roles
            .command
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set());
        let candidates = commands.map(|sub| Candidate::new(sub.get_name(), about(sub.get_about())));
        candidates.filter(|candidate| candidate.word != "help").collect()
    }

    fn flags(&self) -> Vec<Candidate> {
        let shown = self
            .roles
            .command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set());
        let flags = shown.filter_map(|arg| {
            let long = arg.get_long()?;
            Some(Candidate::new(format!("--{long}"), about(arg.get_help())))
        });
        flags.collect()
    }

    /// The values of an argument.
    fn value(&self, arg: &Arg) -> Wanted {
        let workload = || self.positionals.first().cloned().unwrap_or_default();
        match arg.get_id().as_str() {
            "file" | "save" | "kubeconfig" => Wanted::Files,
            "context" => Wanted::Contexts,
            "namespace" => Wanted::Namespaces,
            "city" if self.roles.path.first() == Some(&"deploy") => Wanted::Cities,
            "city" => Wanted::Places,
            "location" => Wanted::Locations,
            "name" if self.roles.path.first() == Some(&"instances") => Wanted::Instances,
            "name" | "workload" => Wanted::Workloads,
            "placement" => Wanted::Placements(workload()),
            "container" => Wanted::Containers(workload()),
            "revision" | "to_revision" => Wanted::Revisions(workload()),
            "output" => Wanted::OneOf(
                FORMATS
                    .split(", ")
                    .map(|format| Candidate::new(format.trim_end_matches("TEMPLATE"), ""))
                    .collect(),
            ),
            _ => {
                let values = arg.get_possible_values();
                let values = values
                    .iter()
                    .map(|value| Candidate::new(value.get_name(), about(value.get_help())));
                Wanted::OneOf(values.collect())
            }
        }
    }
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Place {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        place(&crate::typing::built(), &words)
    }

    fn words(wanted: &Wanted) -> Vec<&str> {
        match wanted {
            Wanted::OneOf(candidates) => candidates.iter().map(|candidate| &*candidate.word).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_come_first() {
        let commands = |line: &str| -> Vec<String> {
            let commands = at(line).commands.into_iter();
            commands.map(|candidate| candidate.word).collect()
        };
        for command in ["deploy", "trace", "completion"] {
            assert!(commands("").contains(&command.to_owned()));
        }
        assert_eq!(commands("instances "), ["describe"]);
        assert_eq!(
            commands("rollout "),
            ["status", "history", "undo", "restart", "pause", "resume"]
        );
        assert_eq!(commands("rollout --timeout "), [""; 0]);
        assert_eq!(commands("rollout web "), [""; 0]);
        assert_eq!(
            commands("rollout -w=false "),
            [""; 0],
            "no command follows a flag of another"
        );
        assert_eq!(commands("workloads -qn shop "), ["describe"]);
        assert_eq!(at("rollout ").wanted, Wanted::Workloads);
    }

    #[test]
    fn names_follow_their_commands_also_behind_flags() {
        let web = || "web".to_owned();
        for (line, live) in [
            ("destroy ", Wanted::Workloads),
            ("destroy w", Wanted::Workloads),
            ("-n shop status ", Wanted::Workloads),
            ("rollout undo ", Wanted::Workloads),
            ("rollout undo web --to-revision ", Wanted::Revisions(web())),
            ("diff web --to-revision=", Wanted::Revisions(web())),
            ("workloads describe ", Wanted::Workloads),
            ("instances describe ", Wanted::Instances),
            ("instances --workload ", Wanted::Workloads),
            ("instances list --city ", Wanted::Places),
            ("deploy web --city DFW,", Wanted::Cities),
            ("deploy web --placement ", Wanted::Placements(web())),
            ("scale web --min 2 --placement ", Wanted::Placements(web())),
            ("deploy web --container ", Wanted::Containers(web())),
            ("status --context ", Wanted::Contexts),
            ("status -n ", Wanted::Namespaces),
        ] {
            assert_eq!(at(line).wanted, live, "{line}");
        }
        assert_eq!(at("status web ").wanted, Wanted::OneOf(Vec::new()));
        assert_eq!(at("deploy web --image ").wanted, Wanted::OneOf(Vec::new()));
    }

    #[test]
    fn files_are_completed_for_files_alone() {
        for line in [
            "deploy -f ",
            "deploy --file x",
            "deploy --save=",
            "diff -f ",
            "--kubeconfig ",
        ] {
            assert_eq!(at(line).wanted, Wanted::Files, "{line}");
        }
    }

    #[test]
    fn fixed_words_are_known() {
        assert_eq!(
            words(&at("workloads -o ").wanted),
            ["table", "wide", "json", "yaml", "name", "jsonpath="]
        );
        assert!(words(&at("workloads --health=").wanted).contains(&"Degraded"));
        assert_eq!(
            words(&at("completion ").wanted),
            ["bash", "zsh", "fish", "powershell"]
        );
        assert_eq!(
            words(&at("scale web --dry-run ").wanted),
            ["none", "client", "server"]
        );
        let flags = at("status web --").wanted;
        assert!(words(&flags).contains(&"--watch") && words(&flags).contains(&"--context"));
    }

    #[test]
    fn the_plane_is_the_one_that_the_line_names() {
        let place = at("-n shop destroy --context=edge --kubeconfig x ");
        let context: Vec<_> = place
            .context
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            context,
            [("context", "edge"), ("kubeconfig", "x"), ("namespace", "shop")]
        );
        assert_eq!(place.wanted, Wanted::Workloads);
    }
}
