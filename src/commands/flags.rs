//! The flags of the roles as values of the chart: types, names of values and bounds, as clap has them.

use super::Command;
use clap::{Arg, CommandFactory, builder::ValueParser, error::ErrorKind};
use serde_json::{Value, json};
use std::{any::TypeId, time::Duration};

/// Flags that the chart sets itself, from other values.
const FLAGS_OF_VALUES: [&str; 15] = [
    "hub-kubeconfig",
    "project-mode",
    "project-kubeconfig",
    "project-directory",
    "project-secrets-namespace",
    "project-secrets-kubeconfig",
    "admin-address",
    "admin-token-file",
    "admin-tls-directory",
    "admin-auth",
    "probe-address",
    "name",
    "namespace",
    "secrets-namespace",
    "runtime-directory",
];

/// The flags that are values of the chart: the schema of each by its name, for each role.
pub fn chart_flags() -> [(&'static str, Value); 4] {
    ["gateway", "cell", "returns", "provisioner"].map(|role| (role, of_role(role)))
}

fn of_role(role: &str) -> Value {
    let all = Command::command();
    let flags = all
        .find_subcommand(role)
        .into_iter()
        .flat_map(clap::Command::get_arguments);
    flags
        .filter_map(|flag| {
            let name = flag.get_long()?;
            (!FLAGS_OF_VALUES.contains(&name)).then(|| {
                let mut schema = schema(role, name, flag);
                let meaning = flag.get_help().map(ToString::to_string).unwrap_or_default();
                schema["description"] = json!(format!("{meaning}."));
                if let Some(default) = default(flag, &schema) {
                    schema["default"] = default;
                }
                (name.to_owned(), schema)
            })
        })
        .collect()
}

/// The default of the command line, as a value of the schema.
fn default(flag: &Arg, schema: &Value) -> Option<Value> {
    let is_list = schema["type"] == "array";
    let kind = if is_list {
        &schema["items"]["type"]
    } else {
        &schema["type"]
    };
    let is_text = !["integer", "boolean"].iter().any(|plain| kind == plain);
    let defaults = flag.get_default_values().iter().map(|text| {
        let text = text.to_string_lossy();
        let plain = (!is_text).then(|| serde_json::from_str(&text).ok()).flatten();
        plain.unwrap_or_else(|| json!(text))
    });
    let mut defaults: Vec<Value> = defaults.collect();
    if is_list && !defaults.is_empty() {
        Some(json!(defaults))
    } else {
        defaults.pop()
    }
}

/// A flag that may be repeated, or takes a list, is a list.
fn schema(role: &str, name: &str, flag: &Arg) -> Value {
    let one = value(role, name, flag);
    if flag.get_action().takes_values() && matches!(flag.get_action(), clap::ArgAction::Append) {
        json!({"type": "array", "items": one})
    } else {
        one
    }
}

fn value(role: &str, name: &str, flag: &Arg) -> Value {
    let names: Vec<String> = flag
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    let parser = flag.get_value_parser();
    if names.iter().any(|name| name == "true") {
        json!({"type": "boolean"})
    } else if !names.is_empty() {
        json!({"enum": names})
    } else if is::<u16>(parser) || is::<u32>(parser) {
        number(&|text| accepts(role, name, text))
    } else if is::<Duration>(parser) {
        json!({"type": "string", "pattern": DURATION})
    } else {
        json!({"type": "string", "minLength": 1})
    }
}

/// Units from the largest to the smallest, each at most once.
const DURATION: &str =
    "^([0-9]+h([0-9]+m)?([0-9]+s)?([0-9]+ms)?|[0-9]+m([0-9]+s)?([0-9]+ms)?|[0-9]+s([0-9]+ms)?|[0-9]+ms)$";

fn is<T: 'static>(parser: &ValueParser) -> bool {
    parser.type_id() == TypeId::of::<T>()
}

/// A whole number with its bounds, or a number with a unit. The bounds are inside of a parser, so they are found by
/// asking it.
fn number(accepts: &dyn Fn(&str) -> bool) -> Value {
    if accepts("1Ki") {
        return json!({"type": ["string", "integer"], "pattern": "^[0-9]+(Ki|Mi)?$", "minimum": 1});
    }
    let takes = |number: u32| accepts(&number.to_string());
    let smallest = u32::from(!takes(0));
    let (mut low, mut high) = (smallest, u32::MAX);
    while low < high {
        let middle = high - (high - low) / 2;
        if takes(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    json!({"type": "integer", "minimum": smallest, "maximum": low})
}

/// True if the flag takes this value, whatever else is missing.
fn accepts(role: &str, name: &str, value: &str) -> bool {
    let command = Command::command().mut_subcommand(role, |role| role.mut_args(|arg| arg.env(None)));
    let given = ["fedgate".to_owned(), role.to_owned(), format!("--{name}={value}")];
    match command.try_get_matches_from(given) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The schema of a flag without its meaning and its default.
    fn of(flags: &Value, name: &str) -> Value {
        let mut schema = flags[name].clone();
        let fields = schema.as_object_mut().unwrap();
        fields.retain(|key, _| key != "description" && key != "default");
        schema
    }

    #[test]
    fn types_names_and_bounds_are_those_of_the_command_line() {
        let [(_, gateway), (_, cell), ..] = chart_flags();
        for (flags, name, schema) in [
            (
                &gateway,
                "workers",
                json!({"type": "integer", "minimum": 1, "maximum": 1024}),
            ),
            (
                &gateway,
                "hub-write-rate",
                json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            ),
            (
                &gateway,
                "city-sets-per-project",
                json!({"type": "integer", "minimum": 1, "maximum": 1000}),
            ),
            (&gateway, "leader-elect", json!({"type": "boolean"})),
            (&gateway, "log-format", json!({"enum": ["json", "pretty"]})),
            (
                &gateway,
                "interpreters",
                json!({"type": "string", "minLength": 1}),
            ),
            (
                &cell,
                "max-replicas",
                json!({"type": "integer", "minimum": 1, "maximum": 10000}),
            ),
            (
                &cell,
                "pod-security",
                json!({"enum": ["restricted", "baseline", "privileged"]}),
            ),
            (
                &cell,
                "pod-toleration",
                json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
            ),
        ] {
            assert_eq!(of(flags, name), schema, "{name}");
        }
        assert_eq!(
            of(&gateway, "max-spec-size")["type"],
            json!(["string", "integer"])
        );
        assert_eq!(of(&gateway, "sweep-interval")["pattern"], DURATION);
    }

    #[test]
    fn defaults_are_those_of_the_command_line_in_the_type_of_the_value() {
        let [(_, gateway), (_, cell), ..] = chart_flags();
        for (flags, name, wanted) in [
            (&gateway, "workers", Some(json!(32))),
            (&gateway, "leader-elect", Some(json!(true))),
            (&gateway, "log-format", Some(json!("json"))),
            (&gateway, "interpreters", None),
            (&cell, "pod-toleration", None),
        ] {
            assert!(flags[name].is_object(), "{name}");
            assert_eq!(flags[name].get("default").cloned(), wanted, "{name}");
        }
    }

    #[test]
    fn each_flag_that_other_values_set_is_one() {
        let all = Command::command();
        for name in FLAGS_OF_VALUES {
            let is_there = ["gateway", "cell", "provisioner"].iter().any(|role| {
                let role = all.find_subcommand(role).unwrap();
                role.get_arguments().any(|flag| flag.get_long() == Some(name))
            });
            assert!(is_there, "{name}");
        }
    }
}
