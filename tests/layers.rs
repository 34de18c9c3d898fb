//! Who may use whom: the arrows between modules, read from the sources.
//!
//! Every path of ours that a file of `src/` names counts, in `use` and elsewhere, whether it starts with `crate` or
//! with `super`. Comments and unit tests do not count.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

#[path = "mutants/list.rs"]
mod mutants;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A module, and the modules and packages that it may use.
type Arrows = &'static [(&'static str, &'static [&'static str])];

/// The packages that a package of ours may use are in its Cargo.toml. Here is which modules may use each other inside of a
/// package, and which packages a module of the root package may use. `lib.rs` and `bin/` may use everything.
const ARROWS: &[(&str, Arrows)] = &[
    (
        "src",
        &[
            (
                "gateway",
                &[
                    "fedgate_api",
                    "fedgate_engine",
                    "fedgate_kinds",
                    "fedgate_operations",
                    "views",
                ],
            ),
            (
                "explain",
                &[
                    "fedgate_api",
                    "fedgate_engine",
                    "fedgate_karmada",
                    "fedgate_kinds",
                    "fedgate_simulator",
                    "gateway",
                ],
            ),
            ("views", &["fedgate_api", "fedgate_engine", "fedgate_operations"]),
            (
                "cell",
                &["fedgate_api", "fedgate_engine", "fedgate_operations", "views"],
            ),
            (
                "returns",
                &[
                    "fedgate_api",
                    "fedgate_engine",
                    "fedgate_kinds",
                    "fedgate_operations",
                    "views",
                ],
            ),
            ("sandbox", &["fedgate_api", "fedgate_kinds", "fedgate_manifests"]),
            (
                "operations",
                &["fedgate_api", "fedgate_engine", "fedgate_operations"],
            ),
            ("console", &["fedgate_api", "fedgate_operations", "operations"]),
            (
                "admin",
                &["console", "fedgate_engine", "fedgate_operations", "operations"],
            ),
            ("telemetry", &[]),
            ("monitoring", &["fedgate_engine", "fedgate_manifests"]),
            (
                "chart",
                &["commands", "fedgate_engine", "fedgate_manifests", "monitoring"],
            ),
            (
                "config",
                &["cell", "fedgate_api", "fedgate_engine", "gateway", "telemetry"],
            ),
            (
                "commands",
                &[
                    "config",
                    "explain",
                    "fedgate_manifests",
                    "fedgate_operations",
                    "fedgate_terminal",
                    "membership",
                ],
            ),
            (
                "client",
                &[
                    "commands",
                    "console",
                    "fedgate_kubeconfig",
                    "fedgate_manifests",
                    "fedgate_operations",
                    "fedgate_terminal",
                ],
            ),
            (
                "membership",
                &[
                    "config",
                    "fedgate_api",
                    "fedgate_engine",
                    "fedgate_kinds",
                    "fedgate_kubeconfig",
                    "fedgate_manifests",
                ],
            ),
            (
                "doctor",
                &[
                    "fedgate_api",
                    "fedgate_engine",
                    "fedgate_kinds",
                    "fedgate_manifests",
                    "fedgate_operations",
                    "fedgate_terminal",
                    "gateway",
                ],
            ),
            (
                "process",
                &[
                    "admin",
                    "cell",
                    "config",
                    "doctor",
                    "fedgate_api",
                    "fedgate_engine",
                    "fedgate_kinds",
                    "fedgate_operations",
                    "gateway",
                    "returns",
                    "views",
                ],
            ),
        ],
    ),
    (
        "crates/engine/src",
        &[
            ("clock", &[]),
            ("metrics", &[]),
            ("object", &[]),
            ("random", &[]),
            ("shrink", &[]),
            ("watch_channel", &[]),
            ("backoff", &["random"]),
            ("circuit_breaker", &["random"]),
            ("labels", &[]),
            ("interner", &["random"]),
            ("key", &["metrics"]),
            ("error", &["key", "message"]),
            ("message", &[]),
            ("plan", &["key"]),
            ("diff", &["plan", "random"]),
            (
                "plane",
                &[
                    "backoff",
                    "circuit_breaker",
                    "error",
                    "key",
                    "metrics",
                    "object",
                    "random",
                    "watch_channel",
                ],
            ),
            ("store", &["interner", "object", "plane", "random", "shrink"]),
            ("reconcile", &["diff", "error", "key", "random", "shrink"]),
            (
                "executor",
                &[
                    "circuit_breaker",
                    "clock",
                    "diff",
                    "error",
                    "key",
                    "message",
                    "object",
                    "plan",
                    "plane",
                    "random",
                    "reconcile",
                    "shrink",
                ],
            ),
            (
                "runtime",
                &[
                    "backoff",
                    "clock",
                    "error",
                    "executor",
                    "key",
                    "message",
                    "metrics",
                    "plan",
                    "plane",
                    "random",
                    "reconcile",
                    "shrink",
                    "watch_channel",
                ],
            ),
            ("testing", &["executor", "key", "plan", "plane"]),
        ],
    ),
    (
        "crates/kinds/src",
        &[
            ("folder", &[]),
            ("lua", &["folder"]),
            ("query", &[]),
            ("per_kind", &[]),
            ("platform", &[]),
            ("companions", &["query"]),
            ("deletion", &["query"]),
            ("returns", &["query"]),
            ("file", &["companions", "deletion"]),
            (
                "load",
                &[
                    "companions",
                    "deletion",
                    "file",
                    "folder",
                    "lua",
                    "platform",
                    "query",
                    "returns",
                ],
            ),
        ],
    ),
];

/// The parts of a role that its other parts may use, from the lowest to the highest: each may use those before it. All
/// other folders of a role are controllers: they use these, and no other controller. `mod.rs` and `gauges.rs` use all.
const ROLES: &[(&str, &[&str])] = &[
    (
        "gateway",
        &[
            "rate_limit",
            "reason",
            "settings",
            "route",
            "policy_spec",
            // References are values of the digests, and digests name them.
            "references",
            "lane",
            "pin",
            "index",
            "queries",
            "context",
            "hub_permit",
            "confirm",
            "member",
        ],
    ),
    (
        "cell",
        &[
            "instance_types",
            "limits",
            "reason",
            "settings",
            "writes",
            "conditions",
            "rollout",
            "network",
            "index",
            "queries",
            "context",
            "claim",
            "release",
        ],
    ),
];

/// What a decision may be made of: no client, no clock of its own, no async.
const DECISION: &[&[&str]] = &[
    &["fedgate_api"],
    &["fedgate_kinds"],
    &["fedgate_engine", "key"],
    &["fedgate_engine", "plan"],
    &["fedgate_engine", "labels"],
    &["fedgate_engine", "error"],
    &["fedgate_engine", "clock"],
    &["fedgate_engine", "diff"],
    &["fedgate_engine", "message"],
    &["fedgate_engine", "interner"],
    &["fedgate_engine", "store", "table"],
    // An object as a server sends it, and measures of it.
    &["fedgate_engine", "object"],
    &["fedgate_engine", "shrink"],
    &["fedgate_engine", "backoff", "Backoff"],
    // Values alone; `Memories` and `Throttle` beside them have a lock and are not for decisions.
    &["fedgate_engine", "reconcile", "memory", "MemoryUpdate"],
    &["fedgate_engine", "reconcile", "normalized"],
    &["fedgate_engine", "reconcile", "quarantine", "VerdictLabel"],
    &["fedgate_engine", "reconcile", "throttle", "Rate"],
    &["fedgate_engine", "reconcile", "throttle", "TokenBucket"],
    &["fedgate_engine", "reconcile", "throttle", "WriteKind"],
    // A trait of values.
    &["fedgate_engine", "store", "apply", "HasStrings"],
    // Maps; drawing from chance is another matter.
    &["fedgate_engine", "random", "HashMap"],
    &["fedgate_engine", "random", "HashSet"],
];

/// Files beside the decisions that hold values and functions of values only. Decisions may use them, and they are held
/// to the rules of decisions themselves.
const VALUES: &[&[&str]] = &[
    &["gateway", "index", "digest"],
    &["gateway", "policy_spec"],
    &["gateway", "route"],
    &["gateway", "references"],
    &["gateway", "lane"],
    &["gateway", "pin"],
    &["gateway", "member", "Look"],
    &["gateway", "member", "Seen"],
    &["gateway", "member", "pause"],
    &["gateway", "garbage", "brake"],
    &["gateway", "rate_limit"],
    &["cell", "index", "digest"],
    &["cell", "index", "tables"],
    &["cell", "writes"],
    &["cell", "reason"],
    &["returns", "index", "digest"],
    &["returns", "reason"],
    &["gateway", "reason"],
    &["cell", "rollout"],
    &["cell", "network", "decide"],
    // What decisions are given.
    &["cell", "instance", "observe", "Snapshot"],
    &["cell", "index", "CellLocation"],
    &["cell", "index", "CLAIM_PREFIX"],
    &["cell", "conditions"],
    &["cell", "instance", "quota", "decide"],
    &["cell", "claim"],
    &["cell", "settings"],
    &["cell", "instance", "referenced_data"],
    &["cell", "deployment", "status"],
    &["cell", "instance_types"],
    &["cell", "limits"],
    &["cell", "provider", "pod"],
    &["cell", "provider", "service"],
    &["cell", "provider", "report"],
    &["cell", "provider", "recovery"],
    // A struct of names alone.
    &["gateway", "index", "Resources"],
    // Results of a comparison.
    &["gateway", "index", "project_hub", "NamedHub"],
    &["gateway", "index", "project_hub", "Share"],
];

/// Words that mean I/O or time, which no `decide.rs` may contain.
const IMPURE: &[&str] = &[
    "kube::Client",
    "kube::Api",
    "async fn",
    ".await",
    "Timestamp::now",
    "Instant::now",
    "SystemTime::now",
    "tokio::",
];

/// One file's module path and the paths of ours that it names.
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

/// `gateway/federator/mod.rs` is `[gateway, federator]`.
fn module(file: &Path, root: &Path) -> Vec<String> {
    let relative = file.strip_prefix(root).unwrap().with_extension("");
    let mut path: Vec<String> = relative
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
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

/// Every path of ours in the text, from the crate's root.
fn paths(text: &str, module: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::", "fedgate_"] {
        for (at, _) in text.match_indices(start) {
            if text[..at].ends_with(|c| is_word(c) || c == ':') {
                continue;
            }
            let mut rest = &text[at..];
            let mut home = module.to_vec();
            if start != "super::" {
                home.clear();
            }
            if start == "crate::" {
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

fn sources(package: &str) -> Vec<Source> {
    let root = root(package);
    let mut all = Vec::new();
    files(&root, &mut all);
    all.retain(|file| {
        !file.starts_with(root.join("bin"))
            && !file
                .with_extension("")
                .components()
                .any(|part| part.as_os_str() == "tests")
    });
    all.into_iter()
        .map(|file| {
            let text = code(&fs::read_to_string(&file).unwrap());
            let module = module(&file, &root);
            Source {
                uses: paths(&text, &module),
                file,
                module,
                text,
            }
        })
        .collect()
}

#[test]
fn every_use_follows_an_arrow() {
    let mut wrong = BTreeSet::new();
    for (package, arrows) in ARROWS {
        let arrows: BTreeMap<&str, &[&str]> = arrows.iter().copied().collect();
        let sources = sources(package);
        let modules: BTreeSet<String> = sources.iter().filter_map(|s| s.module.first().cloned()).collect();
        for source in &sources {
            let Some(own) = source.module.first() else {
                continue;
            };
            let Some(allowed) = arrows.get(own.as_str()) else {
                wrong.insert(format!(
                    "{package}/{own}: give it a row in ARROWS of tests/layers.rs"
                ));
                continue;
            };
            for used in source.uses.iter().filter_map(|path| path.first()) {
                let ours = modules.contains(used) || (*package == "src" && is_package(used));
                if used != own && ours && !allowed.contains(&used.as_str()) {
                    wrong.insert(format!(
                        "{} uses {used}, which {own} may not",
                        source.file.display()
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}",
        wrong.into_iter().collect::<Vec<_>>().join("\n")
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

/// Files of a role that use all of its parts.
const TOP: &[&str] = &["gauges", "projects", "testing"];

#[test]
fn no_controller_uses_another_and_no_part_a_higher_one() {
    let mut wrong = BTreeSet::new();
    for source in sources("src") {
        let (Some(role), Some(own)) = (source.module.first(), source.module.get(1)) else {
            continue;
        };
        let Some((_, parts)) = ROLES.iter().find(|(of, _)| of == role) else {
            continue;
        };
        let rank = |name: &str| parts.iter().position(|part| *part == name);
        for path in source.uses.iter().filter(|path| path.first() == Some(role)) {
            let Some(used) = path.get(1).filter(|used| used.starts_with(char::is_lowercase)) else {
                continue;
            };
            let may = used == own
                || TOP.contains(&own.as_str())
                || match (rank(own), rank(used)) {
                    (Some(own), Some(used)) => used < own,
                    (None, Some(_)) => true,
                    (_, None) => false,
                };
            if !may {
                wrong.insert(format!("{} uses {role}::{used}", source.file.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}",
        wrong.into_iter().collect::<Vec<_>>().join("\n")
    );
}

/// A package of ours, as a path names it.
fn is_package(name: &str) -> bool {
    name.strip_prefix("fedgate_").is_some_and(|name| {
        ["crates", "dev"]
            .iter()
            .any(|part| root(part).join(name).is_dir())
    })
}

fn is_under(path: &[String], root: &[&str]) -> bool {
    path.len() >= root.len() && path.iter().zip(root).all(|(part, of_root)| part == of_root)
}

#[test]
fn decisions_are_made_of_values_only() {
    let sources = sources("src");
    let modules: BTreeSet<&String> = sources.iter().filter_map(|s| s.module.first()).collect();
    let mut wrong = Vec::new();
    let mut decisions = 0;
    for source in &sources {
        let value = VALUES.iter().any(|root| is_under(&source.module, root));
        let decision = source.module.iter().position(|name| name == "decide");
        if !value && decision.is_none() {
            continue;
        }
        decisions += usize::from(decision.is_some());
        let controller = decision.map(|at| &source.module[..at]);
        for path in &source.uses {
            let ours = path
                .first()
                .is_some_and(|first| modules.contains(first) || is_package(first));
            let allowed = DECISION.iter().chain(VALUES).any(|root| is_under(path, root));
            if ours && !allowed && !controller.is_some_and(|controller| path.starts_with(controller)) {
                wrong.push(format!("{} uses {}", source.file.display(), path.join("::")));
            }
        }
        // The type of a moment is a value; reading a clock is not.
        let text = source.text.replace("tokio::time::Instant", "");
        for word in IMPURE.iter().filter(|word| text.contains(**word)) {
            wrong.push(format!("{} contains {word}", source.file.display()));
        }
    }
    assert!(decisions > 0, "no decide.rs was found; has the layout changed?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn trees_are_read() {
    let module = ["gateway".to_owned(), "federator".to_owned(), "decide".to_owned()];
    let text = "use fedgate_api::{keys, names::{A, B as C}};\nuse fedgate_engine::plan::Plan;\nuse super::super::index::World;\n\
                fn f(x: crate::cell::Row) -> super::State {}";
    let read: Vec<String> = paths(text, &module).iter().map(|path| path.join("::")).collect();
    assert_eq!(
        read,
        [
            "cell::Row",
            "fedgate_api::keys",
            "fedgate_api::names::A",
            "fedgate_api::names::B",
            "fedgate_engine::plan::Plan",
            "gateway::federator::State",
            "gateway::index::World"
        ]
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
        let module = match path.split_once('/') {
            Some((package, path)) => format!("crates/{package}/src/{}", path.replace("::", "/")),
            None => format!("src/{}", path.replace("::", "/")),
        };
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

/// `make mutants` compares the survivors with those that are explained; it takes long, so the list is read here too.
#[test]
fn each_explained_survivor_names_a_function_that_is_there() {
    let mut lines = BTreeSet::new();
    for line in fs::read_to_string("tests/mutants/survivors.txt").unwrap().lines() {
        if line.starts_with('#') {
            continue;
        }
        let parts: Vec<&str> = line.split(" -- ").collect();
        let [file, function, mutation, reason] = parts[..] else {
            panic!("{line}: file, function, mutation and reason have ` -- ` between them");
        };
        assert!(lines.insert((file, function, mutation)), "{line} is there twice");
        assert!(!reason.is_empty(), "{line}: why?");
        let source = fs::read_to_string(file).unwrap();
        let (_, name) = function.rsplit_once("::").unwrap_or(("", function));
        let there = source.contains(&format!("fn {name}(")) || source.contains(&format!("fn {name}<"));
        assert!(there, "{line}: the function is not there");
    }
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
