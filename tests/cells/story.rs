//! The documents for tenants are true: each `kubectl compute` line in them is typed on real planes, in order, and answers
//! as they show.

use crate::support::{Case, compute::Compute, seconds, trials};
use regex::Regex;
use tokio::time::Instant;

trials![
    s01_the_story_for_tenants_is_true,
    #[core]
    s02_the_readme_is_true_for_tenants,
];

/// A line that is typed, and the answer that a document shows.
#[derive(Debug)]
struct Step {
    line: String,
    /// The exit code, which a document tells if it is not 0.
    code: i32,
    answer: Vec<String>,
}

/// The lines of `kubectl compute` in a document's console listings.
fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let (true, Some(typed)) = (inside, line.strip_prefix("$ ")) {
            let (typed, code) = match typed.split_once("   # exit code ") {
                Some((typed, code)) => (typed, code.parse().expect("an exit code is a number")),
                None => (typed, 0),
            };
            steps.push(Step {
                line: typed.to_owned(),
                code,
                answer: Vec::new(),
            });
        } else if let (true, Some(step)) = (inside, steps.last_mut()) {
            step.answer.push(line.to_owned());
        }
    }
    steps.retain(|step| step.line.starts_with("kubectl compute "));
    steps
}

impl Step {
    /// Whether the line only reads, so that it may be typed again.
    fn reads(&self) -> bool {
        let command = words(&self.line).into_iter().next().unwrap_or_default();
        ["workloads", "instances", "status", "trace"].contains(&command.as_str())
    }

    /// Types the line and compares the answer with that of the document, where `…` stands for any lines.
    async fn try_on(&self, compute: &Compute) -> Result<(), String> {
        let all = words(&self.line);
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        let (code, text) = compute.transcript(&words).await;
        if code != self.code {
            return Err(format!("exit code {code}, not {}\n{text}", self.code));
        }
        let seen = comparable(&text, compute);
        let shown = comparable(&self.answer.join("\n"), compute);
        let mut rest = seen.iter();
        let mut skips = false;
        for line in &shown {
            if line == "…" {
                skips = true;
                continue;
            }
            let next = if skips {
                rest.find(|seen| *seen == line)
            } else {
                rest.next()
            };
            skips = false;
            if next != Some(line) {
                return Err(format!("{line:?} is not in\n{text}"));
            }
        }
        match rest.next() {
            Some(more) if !skips => Err(format!("{more:?} is not shown; all of it:\n{text}")),
            _ => Ok(()),
        }
    }
}

/// The words of a line; quotes keep spaces together.
fn words(line: &str) -> Vec<String> {
    let word = Regex::new(r#""([^"]*)"|(\S+)"#).expect("a pattern");
    let words = word.captures_iter(line).skip(2);
    words
        .map(|found| {
            found
                .get(1)
                .or(found.get(2))
                .map_or("", |text| text.as_str())
                .to_owned()
        })
        .collect()
}

/// The lines without the things that differ between runs: times, addresses, the names of the test, and widths of columns.
/// Lines of progress are left out: how many changes are seen is a matter of speed.
fn comparable(text: &str, compute: &Compute) -> Vec<String> {
    let progress = Regex::new(r"^\d{4}-\d\d-\d\dT\S+Z ").expect("a pattern");
    let varying =
        Regex::new(r"\b\d{4}-\d\d-\d\dT\S+Z\b|\b\d+(?:ms|[smhd])(?: \d+s)?\b|\b\d+\.\d+\.\d+\.\d+\b|-{2,}")
            .expect("a pattern");
    let spaces = Regex::new(r"\s+").expect("a pattern");
    text.replace(&compute.user, "ann")
        .replace(&compute.project, "shop")
        .replace(&compute.namespace, "default")
        .lines()
        .filter(|line| !progress.is_match(line))
        .map(|line| {
            spaces
                .replace_all(&varying.replace_all(line, "_"), " ")
                .trim()
                .to_owned()
        })
        .filter(|line| !line.is_empty())
        .collect()
}

/// Types all lines, and compares each answer.
async fn type_all(case: &Case, document: &str) {
    let ann = Compute::administrator(case, "ann");
    let steps = steps(document);
    assert!(!steps.is_empty(), "the document has lines to type");
    for step in steps {
        // An Instance comes to the project beside its deployment's status, not before it.
        let patience = if step.reads() { seconds(30) } else { seconds(0) };
        let deadline = Instant::now() + patience;
        while let Err(difference) = step.try_on(&ann).await {
            assert!(Instant::now() < deadline, "{}\n{difference}", step.line);
        }
    }
}

async fn s01_the_story_for_tenants_is_true(case: Case) {
    type_all(&case, include_str!("../../docs/tenants.md")).await;
}

async fn s02_the_readme_is_true_for_tenants(case: Case) {
    type_all(&case, include_str!("../../README.md")).await;
}
