//! `fedgate-sandbox explain` and `fedgate kinds`: what they print, and that the guide shows that.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn fedgate(arguments: &[&str]) -> Output {
    let executable = match arguments {
        ["explain", ..] => env!("CARGO_BIN_EXE_fedgate-sandbox"),
        _ => env!("CARGO_BIN_EXE_fedgate"),
    };
    let mut command = Command::new(executable);
    command.current_dir(root()).args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = fedgate(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = fedgate(arguments);
    assert!(!output.status.success(), "{arguments:?} is refused");
    String::from_utf8(output.stderr).unwrap()
}

/// A text that a file has. With `FEDGATE_WRITE_DOCS=1` the file is written anew.
fn is_that_of(file: &str, text: &str) {
    let path = root().join("tests/explained").join(file);
    if std::env::var_os("FEDGATE_WRITE_DOCS").is_some_and(|value| !value.is_empty()) {
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text,
        kept,
        "what is printed (left) and {} (right)",
        path.display()
    );
}

#[test]
fn every_request_and_object_is_told() {
    for (dir, file) in [
        ("tests/kinds/example.fedgate.dev/v1/Vault", "vault.txt"),
        ("tests/kinds/example.fedgate.dev/v1/Gadget", "gadget.txt"),
        ("interpreters/postgresql.cnpg.io/v1/Cluster", "postgresql.txt"),
    ] {
        is_that_of(file, &printed(&["explain", dir, "--chapter", "all"]));
    }
}

#[test]
fn every_kind_of_a_folder_is_explained_or_says_what_is_missing() {
    let all = printed(&["explain", "tests/kinds"]);
    for kind in ["Beacon", "Gadget", "Vault", "VirtualMachine"] {
        assert!(all.contains(&format!("{kind} of ")), "{kind} is not in\n{all}");
    }
    let shipped = printed(&["explain", "interpreters", "--chapter", "create"]);
    assert!(!shipped.contains("\nDelete\n"));
}

#[test]
fn the_requests_of_both_formats_are_the_same_and_each_has_its_reason() {
    let dir = "tests/kinds/example.fedgate.dev/v1/Vault";
    let text = printed(&["explain", dir]);
    let yaml: Value = serde_saphyr::from_str(&printed(&["explain", dir, "-o", "yaml"])).unwrap();
    let chapters = yaml["chapters"].as_array().unwrap();
    let steps: Vec<&Value> = chapters
        .iter()
        .flat_map(|chapter| chapter["steps"].as_array().unwrap())
        .collect();
    assert_eq!(
        text.lines().filter(|line| line.trim().starts_with('+')).count(),
        steps.len()
    );
    for step in steps.iter().filter(|step| step["by"].is_null()) {
        for field in ["plane", "verb", "object", "reason"] {
            assert!(
                step[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field} of {step}"
            );
        }
        let sends = ["create", "apply", "patch"].contains(&step["verb"].as_str().unwrap());
        assert_eq!(sends, step["body"].is_object(), "{step}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explain-nothing");
    let kind = dir.join("example.dev/v1/Thing");
    fs::create_dir_all(&kind).unwrap();
    let text = fs::read_to_string(root().join("tests/kinds/example.fedgate.dev/v1/Vault/kind.yaml")).unwrap();
    fs::write(
        kind.join("kind.yaml"),
        text.replace("plural: vaults", "plural: things"),
    )
    .unwrap();
    let dir = dir.to_str().unwrap();
    let vault = "tests/kinds/example.fedgate.dev/v1/Vault";
    let gadget = "tests/kinds/kubevirt.io/v1/VirtualMachine/example.yaml";
    for (arguments, said) in [
        (vec![dir], "Thing/example.yaml, or give --object FILE"),
        (vec!["tests/kinds/nothing"], "cannot read tests/kinds/nothing"),
        (
            vec![vault, "--object", "nothing.yaml"],
            "cannot read nothing.yaml",
        ),
        (
            vec![vault, "--object", gadget],
            "has no object of kind Vault of example.fedgate.dev/v1",
        ),
        (
            vec!["tests/kinds/example.fedgate.dev", "--object", gadget],
            "VirtualMachine/example.yaml has no object of a kind in tests/kinds/example.fedgate.dev; there are Beacon of \
             example.fedgate.dev/v1, Gadget of example.fedgate.dev/v1, Vault of example.fedgate.dev/v1",
        ),
        (
            vec!["interpreters/azimuth.stackhpc.com/v1alpha1/ClusterTemplate"],
            "no kind of objects that tenants own",
        ),
        (
            vec![vault, "--chapter", "end"],
            "[possible values: create, edit, suspend, delete, all]",
        ),
    ] {
        let error = refused(&[&["explain"], arguments.as_slice()].concat());
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    assert!(refused(&["interpreters", "test"]).contains("unrecognized subcommand"));
}

/// A folder of one kind as the tests have it, with one of its files changed.
fn changed(folder: &str, file: &str, change: impl FnOnce(String) -> String) -> PathBuf {
    let of = "example.fedgate.dev/v1/Vault";
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder).join(of);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    for entry in fs::read_dir(root().join("tests/kinds").join(of)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
        }
    }
    let text = fs::read_to_string(dir.join(file)).unwrap();
    fs::write(dir.join(file), change(text)).unwrap();
    dir
}

#[test]
fn a_spec_with_numbers_in_lists_alone_has_no_edit() {
    let dir = changed("explain-lists", "example.yaml", |text| {
        text.replace("  size: 1\n", "  sizes: [{gigabytes: 4}]\n")
    });
    let text = printed(&["explain", dir.to_str().unwrap(), "--chapter", "edit"]);
    let why = "no edit: its spec has no number and no boolean outside of lists";
    assert!(text.contains(why), "{text}");
}

#[test]
fn counts_of_one_are_no_plurals_and_causes_are_printed_once() {
    let dir = changed("lint-counts", "kind.yaml", |_| "scope: 3\n".to_owned());
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "lua") {
            fs::remove_file(path).unwrap();
        }
    }
    let version = dir.parent().unwrap().to_str().unwrap();
    assert_eq!(
        refused(&["kinds", "lint", version]),
        format!("1 fault in 1 file of {version}\n")
    );
    let flavor = "tests/kinds/example.fedgate.dev/v1/Flavor";
    let well = printed(&["kinds", "lint", flavor]);
    assert!(
        well.starts_with(&format!("1 file in {flavor}: all well (")),
        "{well}"
    );
    let error = refused(&["explain", "tests/kinds/nothing"]);
    assert_eq!(error.matches("os error 2").count(), 1, "{error}");
}

#[test]
fn a_script_that_fails_for_the_object_is_named() {
    for (file, operation) in [
        ("status-reflection.lua", "statusReflection"),
        ("status-aggregation.lua", "statusAggregation"),
    ] {
        let dir = changed(operation, file, |text| {
            let (head, body) = text.split_once(")\n").unwrap();
            format!("{head})\n  error(\"no phase\")\n{body}")
        });
        let script = fs::read_to_string(dir.join(file)).unwrap();
        let line = script.lines().position(|line| line.contains("no phase")).unwrap() + 1;
        let dir = dir.to_str().unwrap();
        let error = refused(&["explain", dir]);
        let place = format!("{dir}/{file}:{line}: {operation} fails");
        for word in [place.as_str(), "no phase", "correct the script"] {
            assert!(error.contains(word), "{word} is not in {error}");
        }
    }
}

#[test]
fn a_script_that_fails_while_a_status_lacks_a_field_is_named() {
    let file = "status-reflection.lua";
    let dir = changed("explain-less-status", file, |text| {
        let (head, body) = text.split_once(")\n").unwrap();
        let (_, object) = head.rsplit_once('(').unwrap();
        format!("{head})\n  local first = string.sub({object}.status.phase, 1, 1)\n{body}")
    });
    let case = "operation: statusReflection\ncases:\n- {name: ready, observed: {status: {phase: Ready}}, expect: {phase: Ready}}\n";
    fs::create_dir_all(dir.join("testdata")).unwrap();
    fs::write(dir.join("testdata/status-reflection.yaml"), case).unwrap();
    let dir = dir.to_str().unwrap();
    let error = refused(&["explain", dir]);
    let place = format!("{dir}/{file}:");
    for word in [
        place.as_str(),
        " (without ",
        "statusReflection fails",
        "correct the script",
    ] {
        assert!(error.contains(word), "{word} is not in {error}");
    }
}

#[test]
fn the_secrets_that_come_back_are_reported_and_why_one_does_not() {
    let notes = |status: &str| {
        let dir = changed("explain-returns", "example.yaml", |text| {
            let of = |line| {
                if str::starts_with(line, "status:") {
                    status
                } else {
                    line
                }
            };
            let lines: Vec<&str> = text.lines().map(of).collect();
            lines.join("\n")
        });
        let text = printed(&["explain", dir.to_str().unwrap(), "--chapter", "create"]);
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("comes back: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let second = "Secret gold-app of the member, by ns-a1/<member>.gold-app of the hub to default/gold-app of the project, \
                  with at most 4096 bytes";
    let first = |status: &str| {
        let lines = notes(status);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[1], second);
        lines[0].clone()
    };
    assert_eq!(
        first("status: {phase: Ready, accessSecret: gold-access}"),
        "Secret gold-access of the member, by ns-a1/<member>.gold-access of the hub to default/gold-access of the project, \
         with at most 4096 bytes"
    );
    assert!(
        first("status: {phase: Ready}")
            .starts_with("nothing by $.status.accessSecret, which the example has not")
    );
    assert_eq!(
        first("status: {accessSecret: root}"),
        "nothing by $.status.accessSecret: root is no name of a Secret that allow admits (*-access)"
    );
}

#[test]
fn a_secret_that_the_status_on_the_hub_does_not_name_does_not_come_back() {
    let by = "comes back: nothing by $.status.accessSecret";
    for (file, before, body) in [
        (
            "status-reflection.lua",
            "  return status",
            "  status.accessSecret = nil\n",
        ),
        (
            "status-aggregation.lua",
            "  desired.status",
            "  items[1].status.accessSecret = nil\n",
        ),
    ] {
        let dir = changed(&format!("explain-drops-{file}"), file, |text| {
            // Before the first statement that has the status.
            text.replacen(before, &format!("{body}{before}"), 1)
        });
        let text = printed(&["explain", dir.to_str().unwrap(), "--chapter", "create"]);
        let why = format!("{by}: the status of the example names gold-access, that on the hub does not");
        assert!(text.contains(&why), "{file}: {text}");
    }
    let dir = changed("explain-nowhere", "example.yaml", |text| {
        text.replace("city-code: DFW", "city-code: a b")
    });
    let text = printed(&["explain", dir.to_str().unwrap(), "--chapter", "create"]);
    assert!(text.contains(&format!("{by} yet: the hub has no copy")), "{text}");
}

#[test]
fn the_name_that_a_pattern_gives_is_reported_if_allow_does_not_admit_it() {
    let dir = changed("explain-pattern", "kind.yaml", |text| {
        text.replace(r#"allow: ["*-app"]"#, r#"allow: ["*-user"]"#)
    });
    let text = printed(&["explain", dir.to_str().unwrap(), "--chapter", "create"]);
    let why = "nothing by {name}-app: gold-app is no name of a Secret that allow admits (*-user)";
    assert!(text.contains(why), "{text}");
}

#[test]
fn a_document_to_which_nothing_refers_is_reported() {
    let dir = changed("explain-unnamed", "example.yaml", |text| {
        text + "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: lgoin}\n"
    });
    assert_eq!(
        unused(&dir),
        ["Secret lgoin of v1: nothing in the object names it"]
    );
    assert!(!printed(&["explain", "tests/kinds"]).contains("not used"));
}

#[test]
fn a_document_of_another_api_version_and_a_second_one_of_a_name_are_reported() {
    let dir = changed("explain-twice", "example.yaml", |text| {
        let text = text.replace(
            "apiVersion: example.fedgate.dev/v1\nkind: Seal",
            "apiVersion: example.fedgate.dev/v2\nkind: Seal",
        );
        text + "\n---\n# nothing\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: login}\n"
    });
    assert_eq!(
        unused(&dir),
        [
            "Seal gold of example.fedgate.dev/v2: nothing in the object names it",
            "Secret login of v1: an earlier document is the same object",
        ]
    );
}

/// The documents of a kind's example that `explain` reports as not used.
fn unused(dir: &Path) -> Vec<String> {
    let text = printed(&["explain", dir.to_str().unwrap(), "--chapter", "create"]);
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("not used: "));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_manifests_of_one_kinds_folder_are_those_of_the_folder_above() {
    let dir = changed("manifests-of-one", "kind.yaml", |text| text);
    let above = dir.ancestors().nth(3).unwrap();
    let of = |dir: &Path| printed(&["manifests", "--interpreters", dir.to_str().unwrap()]);
    let one = of(&dir);
    assert!(one.contains("vaults"), "it has the kind");
    assert_eq!(one, of(above));
}

/// A command of the guide, and what the guide shows of its output: `…` stands for any number of lines.
struct Shown {
    line: String,
    output: Vec<String>,
}

fn shown(document: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        if line.starts_with("```") {
            inside = !inside;
            // A block without a command is no output of the one before.
            all.push(Shown {
                line: String::new(),
                output: Vec::new(),
            });
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            all.push(Shown {
                line: command.to_owned(),
                output: Vec::new(),
            });
        } else if inside && let Some(last) = all.last_mut() {
            last.output.push(line.to_owned());
        }
    }
    all.retain(|shown| !shown.line.is_empty());
    all
}

/// Times differ from run to run.
fn timeless(text: &str) -> String {
    text.rsplit_once(" (")
        .filter(|(_, time)| time.ends_with(" ms)"))
        .map_or_else(|| text.to_owned(), |(head, _)| format!("{head} (… ms)"))
}

/// The first line that differs.
fn differs(shown: &[String], printed: &[String]) -> Option<String> {
    let mut rest = printed.iter();
    let mut skips = false;
    for line in shown {
        if line == "…" {
            skips = true;
            continue;
        }
        let is_it = |one: &String| timeless(one) == timeless(line);
        let found = if skips {
            rest.any(is_it)
        } else {
            rest.next().is_some_and(is_it)
        };
        if !found {
            return Some(line.clone());
        }
        skips = false;
    }
    (!skips).then(|| rest.next().cloned()).flatten()
}

#[test]
fn the_guide_is_true() {
    let guide = fs::read_to_string(root().join("docs/kinds.md")).unwrap();
    let all = shown(&guide);
    assert!(all.len() >= 3, "the guide shows commands");
    for Shown { line, output } in all {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let executable = match arguments.get(1) {
            Some(&"explain") => "fedgate-sandbox",
            _ => "fedgate",
        };
        assert_eq!(arguments.first(), Some(&executable), "{line}");
        let ran = fedgate(&arguments[1..]);
        let text = [ran.stdout, ran.stderr].concat();
        let printed: Vec<String> = String::from_utf8(text)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        if let Some(difference) = differs(&output, &printed) {
            panic!("$ {line}\n{difference:?} differs in\n{}", printed.join("\n"));
        }
    }
}
