//! Finds the parts of a script that Karmada would reject, or silently evaluate incorrectly, before the script is
//! deployed.

use super::{
    cases,
    report::{Report, folders},
};
use crate::{
    Kinds, LoadError,
    folder::KIND_FILE,
    lua::{
        LuaError, Operation,
        bytecode::{self, Access},
        check_entry_point, host,
        vm::Vm,
    },
};
use mlua::{Table, Value as LuaValue};
use std::{collections::BTreeSet, path::Path};

/// Looks a name up in a table of the state in which scripts run: `None` if it is not there, true if it is a function that is
/// there to raise an error. Such a function says so to any arguments.
fn is_refused(table: &Table, name: &str) -> Option<bool> {
    match table.get(name) {
        Ok(LuaValue::Nil) | Err(_) => None,
        Ok(LuaValue::Function(function)) => {
            let error = function.call::<()>(()).err();
            Some(error.is_some_and(|error| error.to_string().contains("not supported")))
        }
        Ok(_) => Some(false),
    }
}

/// Checks every kind at or below `dir`: its `kind.yaml` as the gateway reads it, and its scripts: file name, syntax, `goto`,
/// entry point, globals, functions that Karmada forbids. Of their functions those of a status alone are called, with less
/// status than their cases have.
pub fn lint(dir: &Path) -> Report {
    let mut report = Report::default();
    let folders = folders(dir, &mut report);
    for folder in &folders {
        report.checked += usize::from(folder.files.contains_key(KIND_FILE));
        for (name, text) in folder.scripts() {
            report.checked += 1;
            let file = Path::new(&folder.path).join(name);
            // A load refuses the other names.
            let found = Operation::of_file(name).map(|operation| script(text, operation));
            for (line, message) in found.unwrap_or_default() {
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
    let uses = match host::compile(text) {
        Ok(code) => bytecode::uses(&code).unwrap_or_default(),
        Err(error) => {
            let line = error.line().unwrap_or(1);
            let is_goto = text.lines().nth(line - 1).is_some_and(begins_with_goto);
            return vec![(
                line,
                if is_goto {
                    GOTO.to_owned()
                } else {
                    error.to_string()
                },
            )];
        }
    };
    let mut found: Vec<(usize, String)> = Vec::new();
    if let Ok(vm) = Vm::new(false) {
        let globals = vm.lua.globals();
        let judged = uses.into_iter().filter_map(|used| {
            let why = judge(&globals, used.access, &used.name, operation.entry_point())?;
            Some((used.line, why))
        });
        found.extend(judged);
    }
    match check_entry_point(text, operation) {
        Ok(()) => {}
        // A misspelt entry point is already reported above with its line; a missing function has no line.
        Err(error @ LuaError::EntryPoint { .. }) => found.push((1, error.to_string())),
        Err(error) => found.push((error.line().unwrap_or(1), error.to_string())),
    }
    found
}

/// The fault of a script with the word `goto`. As a statement it is no Lua 5.1, as a name it is no Lua of Karmada's.
const GOTO: &str = "goto is a keyword in Karmada's Lua and none in Lua 5.1; use a loop or a function";

fn begins_with_goto(line: &str) -> bool {
    line.trim_start()
        .strip_prefix("goto")
        .is_some_and(|rest| rest.starts_with(char::is_whitespace))
}

fn judge(globals: &Table, access: Access, name: &str, entry_point: &str) -> Option<String> {
    let refused = || Some(format!("{name} raises an error in Karmada; do without it"));
    match access {
        _ if name == "goto" => Some(GOTO.to_owned()),
        Access::Write | Access::Read if name == entry_point => None,
        Access::Write => Some(format!(
            "{name} is assigned as a global; states are shared by all kinds, write local (the entry point is \
             {entry_point})"
        )),
        Access::Read => match is_refused(globals, name) {
            None => Some(format!(
                "{name} is no global of Karmada's Lua; write local or correct the name"
            )),
            Some(true) => refused(),
            Some(false) => None,
        },
        Access::Local => None,
        Access::Chain => Some(
            "a local is assigned `x and y` with an x to be computed; if x is false, Karmada's Lua keeps the local's old \
             value: use if, or a new local"
                .to_owned(),
        ),
        Access::Method => {
            let texts: Table = globals.get("string").ok()?;
            is_refused(&texts, name)?.then(refused)?
        }
        Access::Field => {
            let (library, field) = name.split_once('.')?;
            let library: Table = globals.get(library).ok()?;
            match is_refused(&library, field) {
                None => Some(format!("{name} does not exist in Karmada's Lua")),
                Some(true) => refused(),
                Some(false) => None,
            }
        }
    }
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
        let text = "local text = require('string')\nlocal function help(o) return o end\n\
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
    fn goto_is_a_fault_as_a_statement_and_as_a_name_and_not_in_texts_and_comments() {
        let entry = "function InterpretHealth(o) return true end";
        for text in [
            "-- goto\n--[[ goto\n]] local s = 'goto' .. \"\\\"goto\" .. [==[goto]==]",
            "local gotox, xgoto",
        ] {
            assert_eq!(lines(&format!("{entry}\n{text}")), [0; 0], "{text}");
        }
        for text in [
            "local x\n  goto y",
            "local x\nlocal goto = 1",
            "local x\nx = goto",
        ] {
            let found = script(&format!("{text}\n{entry}"), Operation::HealthInterpretation);
            assert!(
                found[0].0 == 2 && found[0].1.contains("goto is a keyword"),
                "{text}\n{found:?}"
            );
        }
    }
}
