//! The flags of all commands as Markdown tables, for the reference.

use super::Command;
use clap::{Arg, CommandFactory};
use std::fmt::Write;

/// The commands with their own table.
const ROLES: [&str; 4] = ["gateway", "cell", "returns", "provisioner"];

/// The flags of a role, such as `fedgate gateway`, as a Markdown table.
pub fn role_flags(role: &str) -> String {
    let mut table = header("flag");
    let all = Command::command();
    for flag in all
        .find_subcommand(role)
        .into_iter()
        .flat_map(clap::Command::get_arguments)
    {
        table.push_str(&row(flag));
    }
    table
}

/// All other commands, and those of `programs`, with their flags as a Markdown table.
pub fn other_commands(programs: &[clap::Command]) -> String {
    let mut table = header("command, flag");
    for command in Command::command().get_subcommands() {
        if !ROLES.contains(&command.get_name()) {
            describe(command, "fedgate", &mut table);
        }
    }
    for program in programs {
        for command in program.get_subcommands().filter(|c| !c.is_hide_set()) {
            describe(command, program.get_name(), &mut table);
        }
    }
    table
}

fn header(first: &str) -> String {
    format!("| {first} | environment | default | meaning |\n|---|---|---|---|\n")
}

/// Rows of a command, or of its subcommands. Hidden ones are internal.
fn describe(command: &clap::Command, parent: &str, table: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    if command.has_subcommands() {
        for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            describe(below, &name, table);
        }
        return;
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(table, "| **`{name}`** | | | {about}. |");
    for flag in command.get_arguments().filter(|a| !a.is_hide_set()) {
        table.push_str(&row(flag));
    }
}

fn row(flag: &Arg) -> String {
    let name = flag.get_long().map_or_else(
        || flag.get_id().as_str().to_uppercase(),
        |long| format!("--{long}"),
    );
    let variable = flag
        .get_env()
        .map_or_else(|| "–".to_owned(), |v| format!("`{}`", v.to_string_lossy()));
    let defaults: Vec<_> = flag
        .get_default_values()
        .iter()
        .map(|v| format!("`{}`", v.to_string_lossy()))
        .collect();
    let default = match (defaults.is_empty(), flag.is_required_set()) {
        (false, _) => defaults.join(", "),
        (true, true) => "must be given".to_owned(),
        (true, false) => "–".to_owned(),
    };
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let values = flag.get_possible_values();
    let values = if values.is_empty() || values.iter().any(|v| v.get_name() == "true") {
        String::new()
    } else {
        let names: Vec<_> = values.iter().map(|v| format!("`{}`", v.get_name())).collect();
        format!(" One of {}.", names.join(", "))
    };
    format!("| `{name}` | {variable} | {default} | {help}.{values} |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Command::command().debug_assert();
    }

    #[test]
    fn the_gateways_table_has_a_row_with_variable_and_meaning_for_every_flag() {
        let table = role_flags("gateway");
        for row in [
            "| `--hub-kubeconfig` | `FEDGATE_HUB_KUBECONFIG` | must be given | ",
            "| `--workers` | `FEDGATE_WORKERS` | `32` | How many keys are worked on at a time. |",
            "One of `single`, `directory`, `secrets`, `milo`.",
        ] {
            assert!(table.contains(row), "{row} is missing in {table}");
        }
        assert_eq!(table.lines().count(), 2 + 46, "{table}");
    }

    #[test]
    fn the_other_table_has_all_commands_but_those_for_the_program_itself() {
        let table = other_commands(&[]);
        for row in [
            "| **`fedgate doctor`** | | | Check hub, projects and cells",
            "| `DIR` | – | `interpreters` | Folder of federated kinds, or of one kind. |",
        ] {
            assert!(table.contains(row), "{row} is missing in {table}");
        }
        assert!(!table.contains("--workers"), "{table}");
    }
}
