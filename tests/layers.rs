//! Rules of the packages that Cargo cannot hold: their modules use each other in one direction, controllers do not know each
//! other, and decisions are made of values.
//!
//! Every path of ours that a source names counts, in `use` and elsewhere. Comments and unit tests do not count.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

#[path = "mutants/list.rs"]
mod mutants;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Words that mean I/O or time, which neither a decision nor what it is made of may contain.
const IMPURE: &[&str] = &[
    "kube::Client",
    "kube::Api",
    "async fn",
    ".await",
    "Timestamp::now",
    "Instant::now",
    "SystemTime::now",
    "Now::now",
    "tokio::spawn",
];

/// Values of modules that have more than values.
const VALUES: &[&str] = &[
    "engine::clock::Now",
    "engine::reconcile::quarantine::VerdictLabel",
];

/// Packages whose modules are not in an order yet.
const CIRCULAR: &[&str] = &["karmada", "sandbox", "simulator"];

/// Modules that use all others of their package, beside `lib.rs`.
const TOP: &[&str] = &["gauges", "projects", "testing", "operations"];

/// One file of a package, its module path from the package's name on, and the paths of ours that it names.
struct Source {
    file: PathBuf,
    module: Vec<String>,
    text: String,
    uses: BTreeSet<Vec<String>>,
}

fn root(package: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(package)
}

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

/// `federator/mod.rs` of package `gateway` is `[gateway, federator]`.
fn module(file: &Path, package: &str, root: &Path) -> Vec<String> {
    let relative = file.strip_prefix(root).unwrap().with_extension("");
    let parts = relative.iter().map(|part| part.to_str().unwrap().to_owned());
    let mut path: Vec<String> = std::iter::once(package.to_owned()).chain(parts).collect();
    if path.last().is_some_and(|last| last == "mod" || last == "lib") {
        path.pop();
    }
    path
}

/// The text without comments, string bodies and unit tests.
fn code(text: &str) -> String {
    let inline = text
        .match_indices("#[cfg(test)]\nmod ")
        .find(|(at, _)| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{')));
    let text = inline.map_or(text, |(at, _)| &text[..at]);
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads a path or a `use` tree at the start of `text`; answers what follows it.
fn tree<'a>(text: &'a str, prefix: &[String], found: &mut BTreeSet<Vec<String>>) -> &'a str {
    let mut path = prefix.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                // All names of a module that is counted by its other names, or by its own.
                if let Some(after) = rest.strip_prefix('*') {
                    found.insert(path.clone());
                    rest = after.trim_start().trim_start_matches(',').trim_start();
                    continue;
                }
                let after = tree(rest, &path, found).trim_start();
                let after = after.strip_prefix(',').unwrap_or(after).trim_start();
                assert!(
                    after.len() < rest.len(),
                    "not understood: {}",
                    &rest[..rest.len().min(80)]
                );
                rest = after;
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let word: String = rest.chars().take_while(|c| is_word(*c)).collect();
        rest = &rest[word.len()..];
        if !word.is_empty() {
            path.push(word);
        }
        match rest.strip_prefix("::") {
            Some(more) if more.starts_with(|c| is_word(c) || c == '{' || c == '*') => {
                rest = more.strip_prefix('*').unwrap_or(more);
            }
            _ => break,
        }
    }
    if let Some(renamed) = rest.strip_prefix(" as ") {
        rest = renamed.trim_start_matches(is_word);
    }
    found.insert(path);
    rest
}

/// Every path of ours in the text, from the name of its package on.
fn paths(text: &str, module: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::", "fedgate_"] {
        for (at, _) in text.match_indices(start) {
            if text[..at].ends_with(|c| is_word(c) || c == ':') {
                continue;
            }
            let mut rest = &text[at..];
            let mut home = module.to_vec();
            if start == "fedgate_" {
                home.clear();
                rest = &rest[start.len()..];
            }
            if start == "crate::" {
                home.truncate(1);
                rest = &rest[start.len()..];
            }
            while let Some(more) = rest.strip_prefix("super::") {
                home.pop();
                rest = more;
            }
            tree(rest, &home, &mut found);
        }
    }
    found
}

/// The sources of all packages below `crates`, without tests and executables.
fn sources() -> Vec<Source> {
    let mut all = Vec::new();
    let packages = ["crates", "dev"].map(|folder| fs::read_dir(root(folder)).unwrap());
    for package in packages.into_iter().flatten() {
        let package = package.unwrap();
        let name = package.file_name().into_string().unwrap();
        let root = package.path().join("src");
        let mut found = Vec::new();
        files(&root, &mut found);
        for file in found {
            let module = module(&file, &name, &root);
            if module
                .iter()
                .any(|part| ["tests", "bin", "main", "fixture", "testing"].contains(&part.as_str()))
            {
                continue;
            }
            let text = code(&fs::read_to_string(&file).unwrap());
            let uses = paths(&text, &module);
            all.push(Source {
                file,
                module,
                text,
                uses,
            });
        }
    }
    assert!(all.len() > 300, "the sources are found: {}", all.len());
    all
}

/// The modules of each package, and which others of their package each uses.
fn arrows(sources: &[Source]) -> BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> {
    let mut packages: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for source in sources {
        if let [package, module, ..] = &source.module[..] {
            packages.entry(package).or_default().entry(module).or_default();
        }
    }
    for source in sources {
        let [package, module, ..] = &source.module[..] else {
            continue;
        };
        let modules = packages.get_mut(package.as_str()).unwrap();
        for used in source
            .uses
            .iter()
            .filter(|path| path[0] == *package)
            .filter_map(|path| path.get(1))
        {
            if used != module && modules.contains_key(used.as_str()) {
                modules.get_mut(module.as_str()).unwrap().insert(used);
            }
        }
    }
    packages
}

#[test]
fn modules_of_a_package_use_each_other_in_one_direction() {
    let sources = sources();
    let mut circles = arrows(&sources);
    for modules in circles.values_mut() {
        // A module that uses none of those that are left is in no circle.
        loop {
            let left: BTreeSet<&str> = modules.keys().copied().collect();
            modules.retain(|_, uses| uses.iter().any(|used| left.contains(used)));
            if modules.len() == left.len() {
                break;
            }
        }
    }
    circles.retain(|package, modules| !modules.is_empty() && !CIRCULAR.contains(package));
    assert!(
        circles.is_empty(),
        "modules that use each other, or others that do: {circles:#?}"
    );
}

#[test]
fn no_controller_is_used_by_another_module() {
    let sources = sources();
    let controllers: BTreeSet<&[String]> = sources
        .iter()
        .filter(|source| {
            let has_triggers = source.module.len() > 2 && source.module.ends_with(&["triggers".to_owned()]);
            has_triggers || source.text.contains(" Reconciler for ")
        })
        .map(|source| &source.module[..2])
        .collect();
    assert!(
        controllers.len() > 9,
        "the controllers are found: {controllers:?}"
    );
    for source in &sources {
        let Some(own) = source
            .module
            .get(..2)
            .filter(|own| !TOP.contains(&own[1].as_str()))
        else {
            continue;
        };
        for path in &source.uses {
            let used = path
                .get(..2)
                .filter(|used| controllers.contains(used) && *used != own);
            assert!(
                used.is_none(),
                "{} uses the controller {}",
                source.file.display(),
                path.join("::")
            );
        }
    }
}

/// The source in which a path ends: that of the longest module that begins it.
fn source_of<'a>(sources: &'a BTreeMap<&[String], &Source>, path: &[String]) -> Option<&'a Source> {
    (2..=path.len())
        .rev()
        .find_map(|length| sources.get(&path[..length]).copied())
}

#[test]
fn decisions_are_made_of_values_only() {
    let sources = sources();
    let by_module: BTreeMap<&[String], &Source> = sources.iter().map(|s| (&s.module[..], s)).collect();
    let decisions: Vec<&Source> = sources
        .iter()
        .filter(|source| source.module.iter().any(|name| name == "decide"))
        .collect();
    assert!(
        decisions.len() > 20,
        "the decisions are found: {}",
        decisions.len()
    );
    let mut wrong = BTreeSet::new();
    for decision in decisions {
        let at = decision.module.iter().position(|name| name == "decide").unwrap();
        let others = decision
            .uses
            .iter()
            .filter(|path| !path.starts_with(&decision.module[..at]));
        let made_of = others
            .filter(|path| !VALUES.contains(&path.join("::").as_str()))
            .filter_map(|path| source_of(&by_module, path));
        for source in made_of.chain([decision]) {
            for word in IMPURE.iter().filter(|word| source.text.contains(**word)) {
                wrong.insert(format!(
                    "{} is made of {}, which contains {word}",
                    decision.file.display(),
                    source.file.display()
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}",
        wrong.into_iter().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn trees_are_read() {
    let module = ["gateway", "federator", "decide"].map(str::to_owned);
    let text = "use fedgate_api::{keys, names::{A, B as C}};\nuse super::super::index::World;\n\
                fn f(x: crate::route::Row) -> super::State {}";
    let read: Vec<String> = paths(text, &module).iter().map(|path| path.join("::")).collect();
    assert_eq!(
        read,
        [
            "api::keys",
            "api::names::A",
            "api::names::B",
            "gateway::federator::State",
            "gateway::index::World",
            "gateway::route::Row"
        ]
    );
}

/// Each package has `doctest = false`, because `cargo test` would build it a second time to look for examples.
#[test]
fn no_documentation_has_an_example_that_nobody_would_run() {
    let mut all = Vec::new();
    for root in ["src", "crates", "dev"] {
        files(Path::new(root), &mut all);
    }
    assert!(all.len() > 300, "the sources are found: {}", all.len());
    all.retain(|file| {
        let text = fs::read_to_string(file).unwrap();
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with("/// ```") || line.starts_with("//! ```"))
    });
    assert!(
        all.is_empty(),
        "indent these examples, or set doctest = true in their package: {all:?}"
    );
}

/// `make verify-mutants` takes safeguards away and sees the named test of each fail.
#[test]
fn each_kept_mutation_applies_and_names_a_test() {
    let mut names = BTreeSet::new();
    for mutants::Mutant {
        name,
        file,
        original,
        mutated,
        caught_by,
    } in mutants::MUTANTS
    {
        assert!(names.insert(name), "{name} is there twice");
        assert_ne!(original, mutated, "{name} changes nothing");
        let source = fs::read_to_string(file).unwrap();
        assert_eq!(
            source.matches(original).count(),
            1,
            "{name}: {original:?} in {file}; adapt tests/mutants/list.rs"
        );
        let (path, test) = caught_by.rsplit_once("::").unwrap();
        let (package, path) = path.split_once('/').unwrap();
        let module = format!("crates/{package}/src/{}", path.replace("::", "/"));
        let inside = module.trim_end_matches("/tests");
        let places = [
            format!("{module}.rs"),
            format!("{module}/mod.rs"),
            format!("{inside}.rs"),
            format!("{inside}/mod.rs"),
        ];
        let there = places
            .iter()
            .filter_map(|place| fs::read_to_string(place).ok())
            .any(|text| text.contains(&format!("fn {test}(")));
        assert!(there, "{name}: there is no test {caught_by}");
    }
    assert!(names.len() >= 25, "{} mutations are kept", names.len());
}

/// Two readers of kubeconfigs would differ in what they take.
#[test]
fn one_package_reads_kubeconfigs_for_all_programs() {
    let mut sources = Vec::new();
    files(&root("src"), &mut sources);
    for package in fs::read_dir(root("crates")).unwrap() {
        let package = package.unwrap().path();
        if !package.ends_with("kubeconfig") {
            files(&package.join("src"), &mut sources);
        }
    }
    assert!(sources.len() > 300, "{}", sources.len());
    for file in sources {
        let text = fs::read_to_string(&file).unwrap();
        for word in [
            "from_custom_kubeconfig",
            "Kubeconfig::",
            "KubeConfigOptions",
            "Config::infer",
        ] {
            assert!(
                !text.contains(word),
                "{}: {word}; crates/kubeconfig reads kubeconfigs",
                file.display()
            );
        }
    }
}
