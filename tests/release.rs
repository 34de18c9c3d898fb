//! A release is refused unless the commit is what it says it is (contract: operations.md §8.2): each rule is broken in a
//! repository of its own, and named.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failing test says where"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SUITES: [&str; 3] = ["lint", "verify", "console"];

/// A repository that may be released.
struct Repository(PathBuf);

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Repository {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fedgate-release-{name}-{}", std::process::id()));
        let new = Self(folder);
        new.write("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n");
        new.write(
            "CHANGELOG.md",
            "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-12-01\n",
        );
        new.write(
            "charts/fedgate/Chart.yaml",
            "appVersion: \"1.2.3\"\nversion: \"1.2.3\"\n",
        );
        for file in ["gateway", "cell"] {
            let image = "        image: fedgate:1.2.3\n";
            new.write(&format!("manifests/deploy/{file}.yaml"), image);
        }
        new.write(".gitignore", "target\n");
        for script in ["check.sh", "passed.sh"] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("packaging/release")
                .join(script);
            let text = fs::read_to_string(source).unwrap();
            new.write(&format!("packaging/release/{script}"), &text);
        }
        new.git(&["init", "--quiet"]);
        new.commit();
        new.git(&["tag", "v1.2.3"]);
        for suite in SUITES {
            new.pass(suite);
        }
        new
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn change(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.0.join(file)).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        self.write(file, &text.replace(from, to));
    }

    fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
        let output = Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "a commit"]);
    }

    /// Commits, moves the tag here, and passes every suite again.
    fn commit_anew(&self) {
        self.commit();
        self.git(&["tag", "--force", "v1.2.3"]);
        for suite in SUITES {
            self.pass(suite);
        }
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let script = self.0.join("packaging/release").join(script);
        Command::new("bash").arg(script).args(arguments).output().unwrap()
    }

    fn passed(&self, phase: &str, suite: &str) {
        let output = self.run("passed.sh", &[phase, suite]);
        assert!(output.status.success(), "{}", said(&output));
    }

    fn pass(&self, suite: &str) {
        self.passed("begin", suite);
        self.passed("end", suite);
    }

    /// The lines that refuse a release; none if it is granted.
    fn refusals(&self) -> Vec<String> {
        let output = self.run("check.sh", &[]);
        let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
        assert_eq!(output.status.success(), lines.is_empty(), "{lines:?}");
        lines
    }

    /// Asserts that one line refuses, and says this.
    fn refuses(&self, why: &str) {
        let lines = self.refusals();
        assert!(
            lines.len() == 1 && lines[0].contains(why),
            "not {why:?}: {lines:?}"
        );
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_clean_tagged_commit_on_which_all_suites_passed_is_released() {
    assert_eq!(Repository::new("granted").refusals(), [""; 0]);
}

/// The Makefile and the documents start scripts by their paths.
#[test]
fn each_script_can_be_started() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scripts = vec![root.join(".ci/run")];
    for folder in ["packaging/release", "examples"] {
        let files = fs::read_dir(root.join(folder)).unwrap();
        let files = files.map(|file| file.unwrap().path());
        scripts.extend(files.filter(|file| file.extension().is_some_and(|of| of == "sh")));
    }
    assert!(scripts.len() >= 6, "{scripts:?}");
    for script in scripts {
        let mode = fs::metadata(&script).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{}", script.display());
    }
}

#[test]
fn a_version_that_differs_anywhere_is_refused() {
    for (number, (file, from, to, why)) in [
        ("CHANGELOG.md", "## 1.2.3 - 2026-12-01", "## 1.2.3", "heading"),
        ("CHANGELOG.md", "## 1.2.3", "## 1.2.30", "heading"),
        (
            "charts/fedgate/Chart.yaml",
            "\nversion: \"1.2.3\"",
            "\nversion: \"1.2.2\"",
            "has version 1.2.2",
        ),
        (
            "charts/fedgate/Chart.yaml",
            "appVersion: \"1.2.3\"",
            "appVersion: \"v1.2.3\"",
            "appVersion v1.2.3",
        ),
        (
            "manifests/deploy/cell.yaml",
            "1.2.3",
            "1x2.3",
            "deploy/cell.yaml has no image",
        ),
        (
            "manifests/deploy/gateway.yaml",
            "1.2.3",
            "latest",
            "deploy/gateway.yaml has no image",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let repository = Repository::new(&format!("version-{number}"));
        repository.change(file, from, to);
        repository.commit_anew();
        repository.refuses(why);
    }
    let repository = Repository::new("chart");
    fs::remove_file(repository.0.join("charts/fedgate/Chart.yaml")).unwrap();
    repository.commit_anew();
    repository.refuses("charts/fedgate/Chart.yaml is missing");
    let repository = Repository::new("cargo");
    repository.change("Cargo.toml", "1.2.3", "1.3.0");
    repository.commit_anew();
    let lines = repository.refusals();
    assert!(
        lines.iter().any(|line| line.contains("no tag v1.3.0")),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 6, "{lines:?}");
}

#[test]
fn a_tree_with_changes_and_a_commit_without_the_tag_are_refused() {
    let repository = Repository::new("changes");
    repository.write("new", "x");
    repository.refuses("not committed");
    fs::remove_file(repository.0.join("new")).unwrap();
    repository.git(&["tag", "--delete", "v1.2.3"]);
    repository.git(&["tag", "v1.2.30"]);
    repository.refuses("HEAD has no tag v1.2.3");
}

#[test]
fn a_suite_counts_on_its_commit_alone_and_only_where_nothing_changed_meanwhile() {
    let repository = Repository::new("suites");
    let of = |suite: &str| {
        let commit = repository.git(&["rev-parse", "HEAD"]);
        repository.0.join("target/passed").join(commit).join(suite)
    };
    repository.passed("begin", "verify");
    repository.refuses("the suite verify has not passed");
    repository.write("new", "x");
    repository.passed("end", "verify");
    fs::remove_file(repository.0.join("new")).unwrap();
    repository.refuses("the suite verify has not passed");
    // Changed at the beginning, and clean again at the end.
    repository.write("new", "x");
    repository.passed("begin", "verify");
    fs::remove_file(repository.0.join("new")).unwrap();
    repository.passed("end", "verify");
    repository.refuses("the suite verify has not passed");
    // Committed while the suite ran.
    repository.passed("begin", "verify");
    repository.write("new", "x");
    repository.commit();
    repository.passed("end", "verify");
    assert!(!of("verify").exists());
    repository.git(&["tag", "--force", "v1.2.3"]);
    assert_eq!(repository.refusals().len(), SUITES.len());
    for suite in SUITES {
        repository.pass(suite);
    }
    assert_eq!(repository.refusals(), [""; 0]);
    // An end without a beginning proves nothing.
    fs::remove_file(of("lint")).unwrap();
    repository.passed("end", "lint");
    repository.refuses("the suite lint has not passed");
}
