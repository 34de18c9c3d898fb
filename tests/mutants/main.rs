//! `make verify-mutants`: takes safeguards away, one at a time, and sees the named unit test of each fail.
//!
//! The sources are copied, and in the copy each mutation stands beside the original; the environment chooses between them.
//! So one build serves all, and the sources themselves carry no switch.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failing test says where"
)]

mod list;

use list::{MUTANTS, Mutant};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Chooses the mutation in the copy.
const VARIABLE: &str = "FEDGATE_MUTANT";

/// The module that the copy of the kept mutations has beside the sources.
const SWITCH: &str = r"//! Which mutation is on.

use std::sync::LazyLock;

static ON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

/// Whether this one is.
pub(crate) fn on(name: &str) -> bool {
    ON.as_deref() == Some(name)
}
";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = copy_of(root);
    let packages: BTreeSet<String> = MUTANTS.iter().map(|mutant| split(mutant.caught_by).0).collect();
    let tests = compile(root, &copy, &packages);
    let named: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.caught_by).collect();
    for (package, names) in by_package(&named) {
        let run = start(&tests, &copy, &package, &names, None);
        assert!(
            run.status.success(),
            "tests of {package} fail without any mutation:\n{}",
            String::from_utf8_lossy(&run.stdout)
        );
    }
    let next = AtomicUsize::new(0);
    let survivors: Mutex<Vec<&Mutant>> = Mutex::default();
    let judge = || {
        while let Some(mutant) = MUTANTS.get(next.fetch_add(1, Ordering::Relaxed)) {
            if passes(&tests, &copy, mutant.caught_by, Some(mutant.name)) {
                survivors.lock().unwrap().push(mutant);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(judge);
        }
    });
    let survivors = survivors.into_inner().unwrap();
    for Mutant { name, caught_by, .. } in &survivors {
        println!("{name}: {caught_by} passes without it");
    }
    println!("{} mutations, {} not caught", MUTANTS.len(), survivors.len());
    if survivors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Copies the sources below `target/mutants`, with the mutations and their switch.
fn copy_of(root: &Path) -> PathBuf {
    let copy = root.join("target/mutants/tree");
    let mut change = |path: &Path, content: Vec<u8>| {
        let relative = path.strip_prefix(root).unwrap().to_str().unwrap();
        match String::from_utf8(content) {
            Ok(text) => without_safeguards(relative, switched(relative, text)).into_bytes(),
            Err(other) => other.into_bytes(),
        }
    };
    for entry in fs::read_dir(root).unwrap() {
        let name = entry.unwrap().file_name();
        // What was built, and what belongs to tools.
        if name != "target" && !name.to_string_lossy().starts_with('.') {
            mirror(&root.join(&name), &copy.join(&name), &mut change);
        }
    }
    copy
}

/// Copies what has changed, each file as `change` makes it, and takes away what is there no more.
fn mirror(from: &Path, to: &Path, change: &mut impl FnMut(&Path, Vec<u8>) -> Vec<u8>) {
    if !from.is_dir() {
        return write(to, &change(from, fs::read(from).unwrap()));
    }
    fs::create_dir_all(to).unwrap();
    let names = |of: &Path| -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(of).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into()).collect()
    };
    let wanted = names(from);
    for name in names(to).difference(&wanted) {
        let gone = to.join(name);
        if gone.is_dir() {
            fs::remove_dir_all(gone).unwrap();
        } else {
            fs::remove_file(gone).unwrap();
        }
    }
    for name in wanted {
        mirror(&from.join(&name), &to.join(name), change);
    }
}

/// A file that is as it should be keeps its time, so that nothing is built again for it.
fn write(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|had| had == content) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A file as the copy has it: with the switch's module, and as a crate of its own.
fn switched(file: &str, text: String) -> String {
    match file {
        _ if file.starts_with("crates/") && file.ends_with("/src/lib.rs") => {
            let switch = SWITCH.replace("VARIABLE", &format!("{VARIABLE:?}"));
            format!("#![allow(warnings)]\n{text}\nmod mutants {{\n{switch}}}\n")
        }
        // Another version is another crate to cargo: all may be built in one directory.
        "Cargo.toml" | "Cargo.lock" => {
            let (mut before, version) = ("", format!("version = \"{}", env!("CARGO_PKG_VERSION")));
            let mut lines = Vec::new();
            for line in text.lines() {
                let ours = before.starts_with("name = \"fedgate") || before == "[workspace.package]";
                lines.push(if ours {
                    line.replace(&version, &format!("{version}-mutants"))
                } else {
                    line.to_owned()
                });
                before = line;
            }
            lines.join("\n") + "\n"
        }
        _ => text,
    }
}

/// A file that has the kept mutations.
fn without_safeguards(file: &str, mut text: String) -> String {
    for mutant in MUTANTS.iter().filter(|mutant| mutant.file == file) {
        let Mutant {
            name,
            original,
            mutated,
            ..
        } = mutant;
        assert_eq!(
            text.matches(original).count(),
            1,
            "{name}: {original:?} in {file}; adapt tests/mutants/list.rs"
        );
        let switched = format!("(if crate::mutants::on({name:?}) {{ {mutated} }} else {{ {original} }})");
        text = text.replace(original, &switched);
    }
    text
}

/// Builds the unit tests of packages of the copy; answers where they are, by package.
fn compile(root: &Path, copy: &Path, packages: &BTreeSet<String>) -> BTreeMap<String, PathBuf> {
    let built = Command::new(env!("CARGO"))
        .args([
            "test",
            "--lib",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", root.join("target"))
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "the copy does not build");
    let lines = String::from_utf8(built.stdout).unwrap();
    let messages = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
    let executable = |message: serde_json::Value| {
        let package = message["target"]["name"].as_str()?.replace('_', "-");
        Some((package, PathBuf::from(message["executable"].as_str()?)))
    };
    messages.filter_map(executable).collect()
}

/// The package and the path of a test that is named as in `list.rs`.
fn split(named: &str) -> (String, &str) {
    let (package, test) = named.split_once('/').expect("a package and a test");
    (format!("fedgate-{package}"), test)
}

fn by_package<'a>(named: &BTreeSet<&'a str>) -> BTreeMap<String, Vec<&'a str>> {
    let mut packages: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (package, test) in named.iter().map(|name| split(name)) {
        packages.entry(package).or_default().push(test);
    }
    packages
}

/// Whether a test passes; it must exist.
fn passes(tests: &BTreeMap<String, PathBuf>, copy: &Path, named: &str, mutant: Option<&str>) -> bool {
    let (package, test) = split(named);
    start(tests, copy, &package, &[test], mutant).status.success()
}

/// Runs tests of a package, all of which must exist, with one mutation or none.
fn start(
    tests: &BTreeMap<String, PathBuf>,
    copy: &Path,
    package: &str,
    names: &[&str],
    mutant: Option<&str>,
) -> Output {
    let mut command = Command::new(&tests[package]);
    command.arg("--exact").args(names).current_dir(copy);
    command.env_remove(VARIABLE);
    if let Some(name) = mutant {
        command.env(VARIABLE, name);
    }
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let running = format!("running {} test", names.len());
    assert!(
        said.contains(&running),
        "not all of these tests exist: {names:?}\n{said}"
    );
    run
}
