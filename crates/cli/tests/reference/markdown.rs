//! A page of Markdown for a command.

use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

/// The page.
pub(super) fn page(path: &[String], command: &Command) -> String {
    let line = [vec!["kubectl compute".to_owned()], path.to_vec()]
        .concat()
        .join(" ");
    let mut page = format!("# `{line}`\n\n");
    if let Some(about) = command.get_about() {
        let _ = writeln!(page, "{about}.\n");
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = writeln!(page, "```\n{usage}\n```");
    commands(&mut page, path, command);
    let own = |arg: &&Arg| !arg.is_hide_set() && !is_global(arg) && arg.get_id() != "help";
    flags(&mut page, "Flags", command.get_arguments().filter(own));
    if path.is_empty() {
        flags(
            &mut page,
            "Flags of all commands",
            command.get_arguments().filter(|arg| is_global(arg)),
        );
    } else {
        page.push_str("\nAll commands have the [flags of all](README.md#flags-of-all-commands).\n");
    }
    if let Some(help) = command.get_after_help() {
        let _ = writeln!(page, "\n```\n{help}\n```");
    }
    page
}

fn is_global(arg: &Arg) -> bool {
    arg.get_help_heading() == Some("Global flags")
}

fn commands(page: &mut String, path: &[String], command: &Command) {
    let subs = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    let rows = subs.map(|sub| {
        let name = [path, &[sub.get_name().to_owned()]].concat();
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        format!("| [`{}`]({}.md) | {about} |\n", name.join(" "), name.join("-"))
    });
    let rows: String = rows.collect();
    if !rows.is_empty() {
        let _ = write!(page, "\n## Commands\n\n| command | meaning |\n|---|---|\n{rows}");
    }
}

fn flags<'a>(page: &mut String, title: &str, args: impl Iterator<Item = &'a Arg>) {
    let rows: String = args.map(row).collect();
    if !rows.is_empty() {
        let _ = write!(
            page,
            "\n## {title}\n\n| flag | default | meaning |\n|---|---|---|\n{rows}"
        );
    }
}

fn row(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let value = values
        .iter()
        .map(clap::builder::Str::as_str)
        .collect::<Vec<_>>()
        .join(" ");
    let takes = arg.get_action().takes_values();
    let name = match (arg.get_short(), arg.get_long()) {
        (_, None) => format!("`{value}`"),
        (short, Some(long)) => {
            let short = short.map(|short| format!("`-{short}`, ")).unwrap_or_default();
            let value = match (takes, arg.is_require_equals_set()) {
                (false, _) => String::new(),
                (true, true) => format!("[={value}]"),
                (true, false) => format!(" {value}"),
            };
            format!("{short}`--{long}{value}`")
        }
    };
    let defaults = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy());
    let default = defaults
        .filter(|value| !value.is_empty())
        .collect::<Vec<_>>()
        .join(",");
    let default = match (default.as_str(), takes) {
        ("", _) | (_, false) => String::new(),
        (default, true) => format!("`{default}`"),
    };
    let mut meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let one_of = arg.get_possible_values();
    if takes && one_of.len() > 1 && !arg.is_require_equals_set() {
        let names = one_of.iter().map(|value| format!("`{}`", value.get_name()));
        let _ = write!(meaning, ": {}", names.collect::<Vec<_>>().join(", "));
    }
    if matches!(arg.get_action(), ArgAction::Append) {
        meaning.push_str("; may be repeated");
    }
    format!("| {name} | {default} | {} |\n", meaning.replace('|', "\\|"))
}
