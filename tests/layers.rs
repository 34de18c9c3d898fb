//! Rules of the packages that Cargo cannot hold: their modules use each other in one direction, controllers do not know each
//! other, and decisions are made of values.
//!
//! Every path that a source names counts, in `use` and elsewhere. Comments and unit tests do not count.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

#[path = "mutants/list.rs"]
mod mutants;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Words and ends of paths that mean I/O or time, which neither a decision nor what it is made of may contain.
const IMPURE: &[&str] = &[
    "::kube::Client",
    "::kube::Api",
    "::async",
    "::await",
    "Timestamp::now",
    "Instant::now",
    "SystemTime::now",
    "Now::now",
    "::tokio::spawn",
];

/// A value of a module that has more than values.
const VALUE: &str = "engine::clock::Now";

/// Packages whose modules are not in an order yet.
const CIRCULAR: &[&str] = &["karmada", "sandbox", "simulator"];

/// Readers of kubeconfigs.
const READERS: &[&str] = &["::Config::from_", "::Config::infer", "Kubeconfig::"];

/// One file of a package.
struct Source {
    file: PathBuf,
    text: String,
    /// The module, such as `gateway::federator` for `federator/mod.rs` of package `gateway`.
    module: String,
    /// The paths that it names: of ours from the name of the package on, as `module`; others begin with `::`.
    uses: BTreeSet<String>,
}

/// The sources of all packages, without tests and executables.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let folders = ["crates", "dev"].map(|folder| fs::read_dir(folder).unwrap());
    let packages = folders
        .into_iter()
        .flatten()
        .map(|package| package.unwrap().path());
    let mut all = Vec::new();
    for package in packages.chain([PathBuf::new()]) {
        let name = package
            .file_name()
            .map_or("fedgate", |name| name.to_str().unwrap());
        let root = package.join("src");
        let mut found = Vec::new();
        files(&root, &mut found);
        all.extend(found.into_iter().filter_map(|file| source(file, name, &root)));
    }
    assert!(all.len() > 300, "the sources are found: {}", all.len());
    all
});

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `None` for tests and executables.
fn source(file: PathBuf, package: &str, root: &Path) -> Option<Source> {
    let relative = file.strip_prefix(root).unwrap().with_extension("");
    let parts = relative.iter().map(|part| part.to_str().unwrap());
    let mut module: Vec<&str> = std::iter::once(package).chain(parts).collect();
    module.pop_if(|last| ["mod", "lib"].contains(last));
    let left_out = ["tests", "bin", "main", "fixture", "testing"];
    if module.iter().any(|part| left_out.contains(part)) {
        return None;
    }
    let text = fs::read_to_string(&file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut uses = BTreeSet::new();
    read(code.parse().unwrap(), &[], &module, &mut uses);
    Some(Source {
        module: module.join("::"),
        file,
        text,
        uses,
    })
}

/// Adds the paths in these tokens. Those in the braces of a `use` go on from `prefix`.
fn read(tokens: TokenStream, prefix: &[String], module: &[&str], found: &mut BTreeSet<String>) {
    let (mut path, mut colons) = (prefix.to_vec(), 2);
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Ident(name) if colons >= 2 => {
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Group(braces) if colons == 2 && braces.delimiter() == Delimiter::Brace => {
                read(braces.stream(), &path, module, found);
                path = prefix.to_vec();
            }
            other => {
                found.extend(resolve(&path, module));
                (path, colons) = (prefix.to_vec(), 2);
                if let TokenTree::Ident(name) = &other {
                    path.push(name.to_string());
                    colons = 0;
                } else if let TokenTree::Group(group) = other {
                    read(group.stream(), &[], module, found);
                }
            }
        }
    }
    found.extend(resolve(&path, module));
}

/// The path from the name of its package on, or from `::` on if it is none of ours.
fn resolve(path: &[String], module: &[&str]) -> Option<String> {
    let first = path.first()?;
    let mut whole = match first.strip_prefix("fedgate_") {
        Some(package) => vec![package],
        None if first == "crate" => module[..1].to_vec(),
        None if first == "super" => module[..module.len() - 1].to_vec(),
        None => vec!["", first],
    };
    for segment in &path[1..] {
        if segment == "super" {
            whole.pop();
        } else {
            whole.push(segment);
        }
    }
    Some(whole.join("::"))
}

/// The package and the module right below it of one of our paths.
fn top(path: &str) -> Option<&str> {
    let (package, rest) = path.split_once("::").filter(|(package, _)| !package.is_empty())?;
    let module = rest.split("::").next()?;
    Some(&path[..package.len() + 2 + module.len()])
}

#[test]
fn modules_of_a_package_use_each_other_in_one_direction() {
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in &*SOURCES {
        let package = source.module.split("::").next().unwrap();
        if let Some(module) = top(&source.module).filter(|_| !CIRCULAR.contains(&package)) {
            let used = source.uses.iter().filter_map(|path| top(path));
            let others = used.filter(|used| *used != module && used.starts_with(package));
            arrows.entry(module).or_default().extend(others);
        }
    }
    loop {
        // A module that uses none of those that are left is in no circle.
        let left: BTreeSet<&str> = arrows.keys().copied().collect();
        arrows.retain(|_, uses| !uses.is_disjoint(&left));
        if arrows.len() == left.len() {
            break;
        }
    }
    assert!(
        arrows.is_empty(),
        "modules that use each other, or others that do: {arrows:#?}"
    );
}

#[test]
fn no_controller_is_used_by_another_module() {
    // The cell's controller of Instances has triggers and a driver of its own.
    let is_controller =
        |source: &Source| source.text.contains(" Reconciler for ") || source.module == "cell::instance";
    let controllers = SOURCES.iter().filter(|source| is_controller(source));
    let controllers: BTreeSet<&str> = controllers.filter_map(|source| top(&source.module)).collect();
    assert!(
        controllers.len() > 9,
        "the controllers are found: {controllers:?}"
    );
    for source in &*SOURCES {
        let Some(own) = top(&source.module) else {
            continue;
        };
        for path in &source.uses {
            let is_other = top(path).is_some_and(|used| controllers.contains(used) && used != own);
            assert!(!is_other, "{} uses the controller {path}", source.file.display());
        }
    }
}

#[test]
fn decisions_are_made_of_values_only() {
    let by_module: BTreeMap<&str, &Source> = SOURCES.iter().map(|s| (&*s.module, s)).collect();
    let decisions = by_module
        .iter()
        .filter_map(|(module, source)| Some((module.split_once("::decide")?.0, *source)));
    let mut count = 0;
    for (own, decision) in decisions {
        count += 1;
        let others = decision.uses.iter().map(String::as_str);
        let others = others.filter(|path| !path.starts_with(own) && *path != VALUE);
        // The source in which a path ends is that of the longest module that begins it.
        let made_of = others.filter_map(|path| {
            let modules = std::iter::successors(Some(path), |path| Some(path.rsplit_once("::")?.0));
            let mut modules = modules.filter(|module| module.contains("::"));
            modules.find_map(|module| by_module.get(module).copied())
        });
        for source in made_of.chain([decision]) {
            let mut impure = source
                .uses
                .iter()
                .filter(|path| IMPURE.iter().any(|word| path.ends_with(word)));
            let (decision, source) = (decision.file.display(), source.file.display());
            let word = impure.next();
            assert!(
                word.is_none(),
                "{decision} is made of {source}, which contains {word:?}"
            );
        }
    }
    assert!(count > 20, "the decisions are found: {count}");
}

/// Each package has `doctest = false`, because `cargo test` would build it a second time to look for examples.
#[test]
fn no_documentation_has_an_example_that_nobody_would_run() {
    for Source { file, text, .. } in &*SOURCES {
        let mut lines = text.lines().map(str::trim_start);
        let has_example = lines.any(|line| line.starts_with("/// ```") || line.starts_with("//! ```"));
        assert!(!has_example, "{}: indent the example", file.display());
    }
}

/// `make verify-mutants` takes safeguards away and sees the named test of each fail.
#[test]
fn each_kept_mutation_applies_and_names_a_test() {
    let mut names = BTreeSet::new();
    for mutant in mutants::MUTANTS {
        let name = mutant.name;
        assert!(names.insert(name), "{name} is there twice");
        assert_ne!(mutant.original, mutant.mutated, "{name} changes nothing");
        let source = fs::read_to_string(mutant.file).unwrap();
        let places = source.matches(mutant.original).count();
        assert_eq!(places, 1, "{name}: adapt tests/mutants/list.rs");
        let (path, test) = mutant.caught_by.rsplit_once("::").unwrap();
        let (package, path) = path.split_once('/').unwrap();
        let module = format!("crates/{package}/src/{}", path.replace("::", "/"));
        let is_there = [&*module, module.trim_end_matches("/tests")]
            .iter()
            .flat_map(|module| [format!("{module}.rs"), format!("{module}/mod.rs")])
            .filter_map(|place| fs::read_to_string(place).ok())
            .any(|text| text.contains(&format!("fn {test}(")));
        assert!(is_there, "{name}: there is no test {}", mutant.caught_by);
    }
    assert!(names.len() >= 25, "{} mutations are kept", names.len());
}

/// Two readers of kubeconfigs would differ in what they take.
#[test]
fn one_package_reads_kubeconfigs_for_all_programs() {
    for source in SOURCES
        .iter()
        .filter(|source| !source.module.starts_with("kubeconfig"))
    {
        let mut read = source
            .uses
            .iter()
            .filter(|path| READERS.iter().any(|of| path.contains(of)));
        let (file, path) = (source.file.display(), read.next());
        assert!(
            path.is_none(),
            "{file}: {path:?}; crates/kubeconfig reads kubeconfigs"
        );
    }
}
