//! References to the contract lead somewhere: every section, list item and rule of `docs/contract` that a source or a
//! document names is there.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

use fedgate_api::conditions::Reason;
use fedgate_engine::metrics::Metrics;
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The documents of the contract, in `docs/contract`.
const DOCUMENTS: [&str; 11] = [
    "api",
    "cell",
    "cli",
    "cluster-api",
    "clusters",
    "federation",
    "locations",
    "machines",
    "operations",
    "provisioning",
    "serving",
];

/// The sections of a document by number, each with the numbers of its list items.
type Sections = BTreeMap<String, BTreeSet<u32>>;

/// One mention of a section. A document that is not named is `None`.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    document: Option<String>,
    section: String,
    item: Option<u32>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn contract() -> PathBuf {
    root().join("docs/contract")
}

/// The files of a document: itself, and those of the folder with its name.
fn parts(document: &str) -> Vec<PathBuf> {
    let folder = contract().join(document);
    let mut all = vec![folder.with_extension("md")];
    if folder.is_dir() {
        walk(&folder, &mut all);
    }
    all
}

/// The document of the contract that a file is, or is a part of.
fn document_of(file: &Path) -> Option<&str> {
    let inside = file.strip_prefix(contract()).ok()?;
    inside
        .iter()
        .next()?
        .to_str()
        .map(|name| name.trim_end_matches(".md"))
}

fn sections(text: &str) -> Sections {
    let heading = Regex::new(r"^##+ (\d+(?:\.\d+)?)\.? ").unwrap();
    let item = Regex::new(r"^(\d+)\. ").unwrap();
    let mut all = Sections::new();
    let mut current = None;
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced {
            continue;
        }
        if let Some(found) = heading.captures(line) {
            let number = found[1].to_owned();
            let before = all.insert(number.clone(), BTreeSet::new());
            assert!(before.is_none(), "§{number} is there twice");
            current = Some(number);
        } else if let (Some(found), Some(section)) = (item.captures(line), &current) {
            let items = all.get_mut(section).unwrap();
            items.insert(found[1].parse().unwrap());
        }
    }
    all
}

/// The text in one line, without the marks of comments, since a reference may be wrapped.
fn prose(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches([' ', '/', '!']));
    lines.collect::<Vec<_>>().join(" ")
}

/// Every mention of a section. It belongs to the document named right before it, or before the mention that it
/// follows in a list; else to `home`, the document that it stands in.
fn references(text: &str, home: Option<&str>) -> Vec<Reference> {
    let mark = Regex::new(r"\b([a-z0-9-]+)\.md\b|§(\d+(?:\.\d+)*)(?:,? (?:rule|step) (\d+))?").unwrap();
    let between = Regex::new(r"^[\s,()\[\]`]*(?:(?:and|to) )?$").unwrap();
    let mut found = Vec::new();
    let mut named: Option<String> = None;
    let mut end = 0;
    for mention in mark.captures_iter(text) {
        let whole = mention.get(0).unwrap();
        if let Some(document) = mention.get(1) {
            named = Some(document.as_str().to_owned());
        } else {
            if end == 0 || !between.is_match(&text[end..whole.start()]) {
                named = home.map(str::to_owned);
            }
            found.push(Reference {
                document: named.clone(),
                section: mention[2].to_owned(),
                item: mention.get(3).map(|number| number.as_str().parse().unwrap()),
            });
        }
        end = whole.end();
    }
    found
}

/// What is wrong with the reference, if anything is.
fn fault(reference: &Reference, contract: &BTreeMap<&str, Sections>) -> Option<String> {
    let Reference {
        document,
        section,
        item,
    } = reference;
    let Some(document) = document else {
        return Some(format!("§{section} of no document"));
    };
    let Some(items) = contract.get(document.as_str()).and_then(|all| all.get(section)) else {
        return Some(format!("{document}.md has no §{section}"));
    };
    let number = item.filter(|number| !items.contains(number))?;
    Some(format!("{document}.md §{section} has no item {number}"))
}

fn walk(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), found);
        }
    } else if path
        .extension()
        .is_some_and(|is| ["rs", "md", "lua", "yaml"].iter().any(|text| is == *text))
    {
        found.push(path.to_owned());
    }
}

/// Each source and document with its text. Not this file: its examples lead nowhere on purpose.
fn texts() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for part in [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "benches",
        "crates",
        "dev",
        "docs",
        "examples",
        "interpreters",
        "manifests",
        "src",
        "tests",
    ] {
        walk(&root().join(part), &mut files);
    }
    files.retain(|file| !file.ends_with("tests/references.rs"));
    let with_text = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        (file, text)
    };
    files.into_iter().map(with_text).collect()
}

/// Whoever adds a reason is told here that the contract lacks it.
#[test]
fn every_reason_of_a_condition_stands_in_the_contract() {
    let files = DOCUMENTS.into_iter().flat_map(parts);
    let text: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
    let missing: Vec<&str> = reasons.filter(|reason| !words.contains(reason)).collect();
    assert!(
        missing.is_empty(),
        "docs/contract has no row for {missing:?}; CONTRIBUTING.md names the tables"
    );
}

#[test]
fn every_reference_leads_to_a_section() {
    let mut all = BTreeMap::new();
    for name in DOCUMENTS {
        let texts = parts(name)
            .into_iter()
            .map(|part| fs::read_to_string(part).unwrap());
        all.insert(name, sections(&texts.collect::<Vec<_>>().join("\n")));
    }
    let mut wrong = BTreeSet::new();
    let mut used = BTreeSet::new();
    for (file, text) in texts() {
        let home = document_of(&file);
        for reference in references(&prose(&text), home) {
            if let Some(fault) = fault(&reference, &all) {
                wrong.insert(format!("{}: {fault}", file.display()));
            }
            if home.is_none() {
                used.extend(reference.document);
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}",
        wrong.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(
        used.iter().map(String::as_str).eq(DOCUMENTS),
        "only {used:?} are referred to; has the way of writing references changed?"
    );
}

/// A document of the contract is read as a whole before a change.
#[test]
fn no_file_of_the_contract_has_more_than_300_lines() {
    let mut all = Vec::new();
    walk(&contract(), &mut all);
    assert!(all.len() > DOCUMENTS.len(), "{all:?}");
    all.retain(|file| fs::read_to_string(file).unwrap().lines().count() > 300);
    assert!(all.is_empty(), "split these by topic: {all:?}");
}

#[test]
fn every_rule_is_one_of_the_contract() {
    let rules = Regex::new(r"\b[KV]\d{1,2}\b").unwrap();
    let named = |text: &str| -> BTreeSet<String> {
        let found = rules.find_iter(text);
        found.map(|rule| rule.as_str().to_owned()).collect()
    };
    let api = fs::read_to_string(contract().join("api.md")).unwrap();
    // A row of a table begins with its rules.
    let first_cells = api
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let known: BTreeSet<String> = first_cells.flat_map(named).collect();
    let mut checked = 0;
    for (file, text) in texts() {
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        for rule in comments.flat_map(named) {
            checked += 1;
            assert!(
                known.contains(&rule),
                "{}: api.md has no rule {rule}",
                file.display()
            );
        }
    }
    assert!(
        checked > 0,
        "no comment names a rule; has the way of writing them changed?"
    );
}

/// Documents: Markdown files.
fn documents() -> impl Iterator<Item = (PathBuf, String)> {
    let all = texts().into_iter();
    all.filter(|(file, _)| file.extension().is_some_and(|extension| extension == "md"))
}

#[test]
fn every_link_leads_to_a_file() {
    let link = Regex::new(r"\]\(([\w./:-]+)(?:#[^)]*)?\)").unwrap();
    let mut checked = 0;
    let mut broken = Vec::new();
    for (file, text) in documents() {
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            checked += 1;
            if !file.parent().unwrap().join(target).exists() {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 20, "links are found");
}

/// A source in backticks exists, and so does the test that follows it after `::`; `…` stands for the rest of a long name.
#[test]
fn every_source_and_test_of_a_document_exists() {
    let source =
        Regex::new(r"`((?:benches|crates|dev|src|tests)/[\w./-]+\.\w+)(?:::(?:\w+::)*(\w+))?[`…]").unwrap();
    let (mut missing, mut checked) = (BTreeSet::new(), 0);
    for (file, text) in documents() {
        for found in source.captures_iter(&text) {
            checked += 1;
            let function = found.get(2).map(|name| name.as_str());
            let end = if found[0].ends_with('…') { "" } else { "(" };
            let has = |text: String| function.is_none_or(|name| text.contains(&format!("fn {name}{end}")));
            if !fs::read_to_string(root().join(&found[1])).is_ok_and(has) {
                missing.insert(format!("{}: {}", file.display(), &found[0]));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(checked > 200, "{checked} sources are found");
}

#[test]
fn every_metric_and_script_of_a_document_exists() {
    let metrics = Metrics::new().unwrap().markdown();
    let metric = Regex::new(r"\bfedgate_[a-z_]+\b").unwrap();
    let script = Regex::new(r"(?:^|[^\w/])((?:examples|manifests)/[A-Za-z0-9_./-]*[A-Za-z0-9])").unwrap();
    let mut wrong = BTreeSet::new();
    for (file, text) in documents() {
        // The contract names sections of tables by a metric's beginning.
        let is_contract = file.starts_with(contract());
        for name in metric.find_iter(&text).map(|found| found.as_str()) {
            // The series of a histogram.
            let of_row = name.strip_suffix("_bucket").unwrap_or(name);
            let is_served = metrics.contains(&format!("`{of_row}`"));
            if !is_served && !is_contract && !name.starts_with("fedgate_engine") {
                wrong.insert(format!("{}: metric {name}", file.display()));
            }
        }
        for found in script.captures_iter(&text) {
            let path = &found[1];
            if !root().join(path).exists() {
                wrong.insert(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn references_are_read() {
    let read = |text: &str, home| -> Vec<String> {
        let shown = |one: Reference| {
            let document = one.document.unwrap_or_else(|| "?".to_owned());
            let item = one.item.map(|item| format!(" {item}")).unwrap_or_default();
            format!("{document} {}{item}", one.section)
        };
        references(&prose(text), home).into_iter().map(shown).collect()
    };
    assert_eq!(
        read(
            "/// (contract: federation.md §1.1, §6 rule 7;\n/// api.md\n/// §8)",
            None
        ),
        ["federation 1.1", "federation 6 7", "api 8"]
    );
    assert_eq!(read("[cell.md](cell.md) §1 and §2", None), ["cell 1", "cell 2"]);
    assert_eq!(read("cell.md says so; §3", None), ["? 3"]);
    assert_eq!(
        read("§3.4, step 7, as api.md has it in §6", Some("federation")),
        ["federation 3.4 7", "federation 6"]
    );
}

#[test]
fn faults_are_found() {
    let text = "# Title\n## 1. First\n1. One\n```\n## 9. In a listing\n```\n### 1.1 Second\n\n7. Seven\n";
    let contract = BTreeMap::from([("api", sections(text))]);
    let fault = |text: &str| fault(&references(text, None)[0], &contract);
    assert_eq!(fault("api.md §1 rule 1"), None);
    assert_eq!(fault("api.md §1.1 step 7"), None);
    assert_eq!(fault("api.md §1 rule 7").unwrap(), "api.md §1 has no item 7");
    assert_eq!(fault("api.md §9").unwrap(), "api.md has no §9");
    assert_eq!(fault("gone.md §1").unwrap(), "gone.md has no §1");
    assert_eq!(fault("as §1 has it").unwrap(), "§1 of no document");
}
