//! Finds the parts of a script that Karmada would reject, or silently evaluate incorrectly, before the script is
//! deployed.

use super::{
    cases,
    report::{Report, folders, scripts},
};
use crate::{
    Kinds, LoadError,
    folder::KIND_FILE,
    lua::{
        LuaError, Operation,
        bytecode::{self, Access},
        check_entry_point, host,
    },
};
use std::{collections::BTreeSet, path::Path};

/// The globals of Karmada's state that a script may use.
const GLOBALS: [&str; 21] = [
    "_G", "_VERSION", "assert", "error", "ipairs", "math", "next", "os", "package", "pairs", "pcall",
    "print", "require", "select", "string", "table", "tonumber", "tostring", "type", "unpack", "xpcall",
];

/// Globals that exist in Karmada's state only to raise an error.
const REFUSED: [&str; 14] = [
    "collectgarbage",
    "dofile",
    "getfenv",
    "getmetatable",
    "load",
    "loadfile",
    "loadstring",
    "module",
    "newproxy",
    "rawequal",
    "rawget",
    "rawset",
    "setfenv",
    "setmetatable",
];

/// Functions of `string` that raise an error.
const REFUSED_TEXT: [&str; 3] = ["dump", "gsub", "rep"];

/// Fields of libraries that Karmada's state has.
const FIELDS: [(&str, &[&str]); 4] = [
    ("os", &["date", "time"]),
    ("table", &["concat", "getn", "insert", "maxn", "remove", "sort"]),
    (
        "string",
        &[
            "byte", "char", "dump", "find", "format", "gfind", "gmatch", "gsub", "len", "lower", "match",
            "rep", "reverse", "sub", "upper",
        ],
    ),
    ("package", &["loaded", "loaders", "loadlib", "preload"]),
];

/// Checks every kind at or below `dir`: its `kind.yaml` as the gateway reads it, and its scripts: file name, syntax, `goto`,
/// entry point, globals, functions that Karmada forbids. Of their functions those of a status alone are called, with less
/// status than their cases have.
pub fn lint(dir: &Path) -> Report {
    let mut report = Report::default();
    let folders = folders(dir, &mut report);
    for folder in &folders {
        report.checked += usize::from(folder.files.contains_key(KIND_FILE));
        for (name, text) in scripts(folder) {
            report.checked += 1;
            let file = Path::new(&folder.path).join(name);
            let Some(operation) = Operation::of_file(name) else {
                let allowed: Vec<&str> = Operation::ALL.iter().map(|operation| operation.file()).collect();
                let why = format!(
                    "no operation has this file name; allowed are {}",
                    allowed.join(", ")
                );
                report.add(&file, 1, why);
                continue;
            };
            for (line, message) in script(text, operation) {
                report.add(&file, line, message);
            }
        }
    }
    let known: BTreeSet<String> = report.findings.iter().map(|found| found.file.clone()).collect();
    for fault in Kinds::faults(&folders) {
        // The faults of scripts were found above, with their lines.
        if let LoadError::Invalid { file, line, message } = fault
            && !known.contains(&file)
        {
            report.add(Path::new(&file), usize::try_from(line).unwrap_or(1), message);
        }
    }
    for case in cases::load(dir, &mut Report::default()) {
        case.run_with_less_status(&mut report);
    }
    report.findings.sort();
    report
}

/// The faults of a script, with their lines.
fn script(text: &str, operation: Operation) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    if let Some(line) = goto_line(text) {
        let why = "goto is a keyword in Karmada's Lua and none in Lua 5.1; use a loop or a function";
        found.push((line, why.to_owned()));
    }
    let uses = match host::compile(text) {
        Ok(code) => bytecode::uses(&code).unwrap_or_default(),
        Err(error) => {
            found.push((error.line().unwrap_or(1), error.to_string()));
            return found;
        }
    };
    for used in uses {
        if let Some(why) = judge(used.access, &used.name, operation.entry_point()) {
            found.push((used.line, why));
        }
    }
    match check_entry_point(text, operation) {
        Ok(()) => {}
        // A misspelt entry point is already reported above with its line; a missing function has no line.
        Err(error @ LuaError::EntryPoint { .. }) => found.push((1, error.to_string())),
        Err(error) => found.push((error.line().unwrap_or(1), error.to_string())),
    }
    found
}

fn judge(access: Access, name: &str, entry_point: &str) -> Option<String> {
    let refused = || Some(format!("{name} raises an error in Karmada; do without it"));
    match access {
        Access::Write if name != entry_point => Some(format!(
            "{name} is assigned as a global; states are shared by all kinds, write local (the entry point is \
             {entry_point})"
        )),
        Access::Read if REFUSED.contains(&name) => refused(),
        Access::Read if name != entry_point && !GLOBALS.contains(&name) => Some(format!(
            "{name} is no global of Karmada's Lua; write local or correct the name"
        )),
        Access::Chain => Some(
            "a local is assigned `x and y` with an x to be computed; if x is false, Karmada's Lua keeps the local's old \
             value: use if, or a new local"
                .to_owned(),
        ),
        Access::Method if REFUSED_TEXT.contains(&name) => refused(),
        Access::Field => {
            let (library, field) = name.split_once('.')?;
            let (_, fields) = FIELDS.iter().find(|(known, _)| *known == library)?;
            if library == "string" && REFUSED_TEXT.contains(&field) {
                return refused();
            }
            (!fields.contains(&field)).then(|| format!("{name} does not exist in Karmada's Lua"))
        }
        _ => None,
    }
}

/// The line of the first word `goto` outside comments and strings.
fn goto_line(text: &str) -> Option<usize> {
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skip = if let Some(comment) = rest.strip_prefix("--") {
            2 + long_bracket(comment).unwrap_or_else(|| comment.find('\n').unwrap_or(comment.len()))
        } else if let Some(length) = long_bracket(rest) {
            length
        } else if first == '"' || first == '\'' {
            quoted(rest, first)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            if &rest[..end] == "goto" {
                return Some(line);
            }
            end
        } else {
            first.len_utf8()
        };
        line += rest[..skip].matches('\n').count();
        rest = &rest[skip..];
    }
    None
}

/// Length of a long bracket `[==[ … ]==]` at the beginning of the text.
fn long_bracket(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let level = inner.len() - inner.trim_start_matches('=').len();
    inner[level..].strip_prefix('[')?;
    let end = format!("]{}]", "=".repeat(level));
    Some(
        text[level + 2..]
            .find(&end)
            .map_or(text.len(), |at| level + 2 + at + end.len()),
    )
}

/// Length of a quoted string at the beginning of the text.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote || c == '\n' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        script(text, Operation::HealthInterpretation)
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn a_clean_script_has_no_findings() {
        let text = "local kube = require('kube')\nlocal function help(o) return o end\n\
                    function InterpretHealth(o) return help(o) ~= nil and string.format('%s', 'goto') == 'x' end";
        assert_eq!(script(text, Operation::HealthInterpretation), []);
    }

    #[test]
    fn each_fault_is_found_on_its_line() {
        let entry = "function InterpretHealth(o) return true end";
        for (text, expected, part) in [
            (format!("{entry}\nleft = 1"), 2, "left is assigned as a global"),
            (
                format!("function help() end\n{entry}"),
                1,
                "help is assigned as a global",
            ),
            (format!("{entry}\nlocal x = misspelt"), 2, "misspelt is no global"),
            (
                format!("local f = function() return setmetatable({{}}, {{}}) end\n{entry}"),
                1,
                "setmetatable raises",
            ),
            (
                format!("\nlocal f = function(s) return s:rep(2) end\n{entry}"),
                2,
                "rep raises",
            ),
            (
                format!("local f = function(s) return string.gsub(s, 'a', 'b') end\n{entry}"),
                1,
                "string.gsub raises",
            ),
            (
                format!("local f = function() return os.getenv('HOME') end\n{entry}"),
                1,
                "os.getenv does not exist",
            ),
            (
                format!("local f = function() return io.open('x') end\n{entry}"),
                1,
                "io is no global",
            ),
            (
                "function interpretHealth(o) end".to_owned(),
                1,
                "interpretHealth is assigned",
            ),
            ("local x = 1\nlocal y == 2".to_owned(), 2, "line 2"),
            (
                "function InterpretHealth(o)\n  goto done\nend".to_owned(),
                2,
                "goto is a keyword",
            ),
        ] {
            let found = script(&text, Operation::HealthInterpretation);
            let (line, message) = &found[0];
            assert!(*line == expected && message.contains(part), "{text}\n{found:?}");
        }
        assert_eq!(lines("-- nothing"), [1]);
        assert_eq!(lines("InterpretHealth = 3"), [1]);
    }

    #[test]
    fn chains_that_karmada_computes_rightly_pass() {
        for chain in [
            "local x = f() and f()",
            "a = b and f()",
            "a = f() or f()",
            "t.x = f() and 1",
            "return f() and 1",
        ] {
            let text =
                format!("function InterpretHealth(o)\nlocal a, b, t, f = 1, 2, {{}}, type\n{chain}\nend");
            assert_eq!(script(&text, Operation::HealthInterpretation), [], "{chain}");
        }
    }

    #[test]
    fn goto_in_texts_and_comments_is_none() {
        assert_eq!(
            goto_line("-- goto\n--[[ goto\n]] local s = 'goto' .. \"\\\"goto\" .. [==[goto]==]"),
            None
        );
        assert_eq!(goto_line("local x\n  goto y"), Some(2));
        assert_eq!(goto_line("local gotox, xgoto"), None);
    }
}
