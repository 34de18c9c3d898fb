//! Every `kubectl compute` line in a hint, a help text or a document is one that the command line accepts.

use super::{commands, root};
use clap::error::ErrorKind;
use std::{fs, path::Path};

/// The lines that begin with `kubectl compute` in a text, from there to the end of the quotation or line.
fn lines(text: &str) -> Vec<String> {
    let marked = text.split("kubectl compute ").skip(1);
    let ends = |c: char| "\"\n`|".contains(c);
    marked
        .map(|rest| rest.split(ends).next().unwrap_or_default())
        .map(|rest| rest.trim_end_matches('\\').trim().to_owned())
        .collect()
}

/// The words of a line: placeholders of formats become words, quotation marks of shells go.
fn words(line: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = line;
    // `{name}` of a format, but not the braces of a template of jsonpath.
    while let Some((before, after)) = rest.split_once('{') {
        let name = after.split('}').next().unwrap_or_default();
        plain.push_str(before);
        if !name.is_empty()
            && !name
                .chars()
                .all(|c| c.is_ascii_lowercase() || "_.()#?:".contains(c))
        {
            plain.push('{');
            rest = after;
        } else {
            plain.push('1');
            rest = after.split_once('}').map_or("", |(_, rest)| rest);
        }
    }
    plain.push_str(rest);
    let mut words = vec!["kubectl compute".to_owned()];
    words.extend(
        plain
            .split_whitespace()
            .map(|word| word.replace(['\'', '\\'], "")),
    );
    // Where a number is meant, a placeholder stands.
    words
        .into_iter()
        .map(|word| if word == "NUMBER" { "1".to_owned() } else { word })
        .collect()
}

/// The fault of a line, if it has one.
fn fault(line: &str) -> Option<String> {
    let first = line.split_whitespace().next()?;
    // In prose the words go on with no command.
    if !first.starts_with(|c: char| c.is_ascii_lowercase() || c == '-') {
        return None;
    }
    match fedgate_cli::command().try_get_matches_from(words(line)) {
        Err(error)
            if !matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            ) =>
        {
            Some(format!("kubectl compute {line}: {error}"))
        }
        _ => None,
    }
}

fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            // Tests try wrong lines on purpose; comments are for readers of the code.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let is_test = path.file_name().is_some_and(|name| name == "tests.rs");
            if !is_test {
                into.push(code.collect::<Vec<_>>().join("\n"));
            }
        }
    }
}

#[test]
fn every_line_that_is_shown_to_users_is_accepted() {
    let mut texts: Vec<String> = commands()
        .into_iter()
        .filter_map(|(_, command)| command.get_after_help().map(ToString::to_string))
        .collect();
    sources(&root().join("crates/cli/src"), &mut texts);
    for document in ["README.md", "docs/tenants.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        // In documents the lines of code blocks count, and prose does not.
        let code = text
            .split("```")
            .skip(1)
            .step_by(2)
            .map(|block| block.replace("$ kubectl", "kubectl"));
        let lines = code.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
        let typed = lines.filter(|line| line.starts_with("kubectl compute"));
        // A comment of the shell tells the exit code.
        texts.extend(typed.map(|line| line.split("   # ").next().unwrap_or_default().to_owned()));
    }
    let all: Vec<String> = texts.iter().flat_map(|text| lines(text)).collect();
    let faults: Vec<String> = all.iter().filter_map(|line| fault(line)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(all.len() > 60, "{} lines were found", all.len());
}

#[test]
fn a_line_with_a_command_that_does_not_exist_is_a_fault() {
    assert!(fault("logs web").is_some());
    assert!(fault("status web --nothing").is_some());
    assert!(fault("rollout undo {name} --to-revision {}").is_none());
    assert!(fault("instances -o jsonpath='{.items[*].metadata.name}'").is_none());
}
