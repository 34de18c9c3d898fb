//! `make mutants`: puts every generated mutation on, one at a time, and runs the unit tests that reach it.

use crate::{
    VARIABLE, compile, copy_of,
    generated::{self, Mutation},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Names the file to which the copy writes which test reaches which mutation.
const RECORD: &str = "FEDGATE_MUTANTS_REACHED";

/// How long the tests may be silent before their mutation counts as caught.
const PATIENCE: Duration = Duration::from_secs(60);

/// The memory that tests may take with a mutation, in KiB: one that never ends may want all there is.
const MEMORY: u32 = 6 << 20;

/// Tests that choose by chance choose the same each time, so that the verdict is the same, and the first failure is enough.
const CASES: [(&str, &str); 3] = [
    ("PROPTEST_RNG_SEED", "1"),
    ("PROPTEST_MAX_SHRINK_ITERS", "0"),
    ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"),
];

/// How many cases such tests try of a mutation at first, and of one that has survived so far.
const FEW: &str = "8";
const MANY: &str = "256";

/// The survivors that are explained: file, function, mutation and reason.
const EXPLAINED: &str = "tests/mutants/survivors.txt";

/// Stands between the parts of a line there.
const BAR: &str = " -- ";

/// Judges the mutations of `files`: `all`, the `survivors` of the last run, or names of files.
pub(crate) fn run(root: &Path, files: &str) -> ExitCode {
    let found = root.join("target/mutants/survivors.txt");
    let last = fs::read_to_string(&found).unwrap_or_default();
    let last: BTreeSet<&str> = last.lines().filter_map(key).collect();
    let (tests, mutations, dropped) = build(root);
    let chosen: Vec<usize> = (0..mutations.len())
        .filter(|n| match files {
            "all" => true,
            "survivors" => last.contains(line(&mutations[*n]).as_str()),
            _ => files.split_whitespace().any(|file| mutations[*n].file == file),
        })
        .collect();
    println!(
        "{} mutations, {dropped} more do not compile; {} are judged",
        mutations.len(),
        chosen.len()
    );
    let judge = Judge::new(root, tests);
    let (mut survivors, mut silent) = (Vec::new(), 0);
    let began = Instant::now();
    for (done, number) in chosen.iter().enumerate() {
        let mutation = &mutations[*number];
        match judge.judge(*number, &mutation.file) {
            Outcome::Caught => {}
            Outcome::Silent => {
                println!("{}: the tests are silent", mutation.name());
                silent += 1;
            }
            Outcome::Survives(reached) => {
                println!("{}: survives {reached} tests", mutation.name());
                survivors.push(mutation);
            }
        }
        if done % 100 == 99 {
            println!("{} of {} after {:?}", done + 1, chosen.len(), began.elapsed());
        }
    }
    println!(
        "{} mutations, {} caught, {silent} of them by silence; {} survive",
        chosen.len(),
        chosen.len() - survivors.len(),
        survivors.len()
    );
    let judged: BTreeSet<String> = chosen.iter().map(|number| line(&mutations[*number])).collect();
    report(root, &found, &survivors, &judged)
}

/// Writes the survivors, and compares them with those that are explained.
fn report(root: &Path, found: &Path, survivors: &[&Mutation], judged: &BTreeSet<String>) -> ExitCode {
    let explained = fs::read_to_string(root.join(EXPLAINED)).unwrap();
    let explained: BTreeMap<&str, &str> = explained
        .lines()
        .filter_map(|line| Some((key(line)?, line.rsplit_once(BAR)?.1)))
        .collect();
    let (mut text, mut unexplained) = (String::new(), 0);
    let mut alive = BTreeSet::new();
    for mutation in survivors {
        let line = line(mutation);
        let reason = explained.get(line.as_str()).copied().unwrap_or_else(|| {
            println!("not explained: {}", mutation.name());
            unexplained += 1;
            "?"
        });
        writeln!(text, "{line}{BAR}{reason}").unwrap();
        alive.insert(line);
    }
    fs::write(found, text).unwrap();
    let caught = |line: &&&str| judged.contains(**line) && !alive.contains(**line);
    for line in explained.keys().filter(caught) {
        println!("caught by now, take it out of {EXPLAINED}: {line}");
    }
    println!("{unexplained} survivors are not explained in {EXPLAINED}");
    if unexplained == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A mutation as the list of survivors has it: without its place, which other edits change.
fn line(mutation: &Mutation) -> String {
    let Mutation {
        file, function, what, ..
    } = mutation;
    [file.as_str(), function, what].join(BAR)
}

/// A line of that list without its reason.
fn key(line: &str) -> Option<&str> {
    (!line.starts_with('#'))
        .then(|| line.rsplit_once(BAR))
        .flatten()
        .map(|(key, _)| key)
}

/// The decisions, and the indexes.
fn is_of_interest(file: &str) -> bool {
    let Some(module) = file.strip_suffix(".rs") else {
        return false;
    };
    let parts: Vec<&str> = module.split('/').collect();
    let part = |name: &str| parts.contains(&name);
    (file.starts_with("src/gateway/") || file.starts_with("src/cell/"))
        && (part("decide") || part("index"))
        && !part("tests")
        && !part("fixture")
}

/// Builds the unit tests of the copy without the mutations that do not compile; answers where they are, and how many
/// mutations those were.
fn build(root: &Path) -> (PathBuf, Vec<Mutation>, usize) {
    let known = root.join("target/mutants/unviable.txt");
    let text = fs::read_to_string(&known).unwrap_or_default();
    let mut unviable: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    loop {
        let mut mutations = Vec::new();
        let mut met = BTreeSet::new();
        let switch = generated::SWITCH.replace("VARIABLE", &format!("{VARIABLE:?}"));
        let switch = switch.replace("RECORD", &format!("{RECORD:?}"));
        let copy = copy_of(root, "generated", &switch, &mut |file, text| {
            if is_of_interest(file) {
                met.insert(file.to_owned());
                generated::mutate(file, &text, &unviable, &mut mutations)
            } else {
                text
            }
        });
        assert!(!met.is_empty(), "no decide.rs was found; has the layout changed?");
        let errors = match compile(root, &copy, &["fedgate"]) {
            Ok(mut tests) => {
                let tests = tests.remove("fedgate").expect("cargo names the unit tests");
                return (tests, mutations, unviable.len());
            }
            Err(errors) => errors,
        };
        let had = unviable.len();
        for error in &errors {
            unviable.extend(blamed(error, &mutations).map(Mutation::name));
        }
        let new = unviable.len() - had;
        println!("{new} mutations do not compile");
        assert!(new > 0, "the copy does not build: {errors:#?}");
        let names: Vec<&str> = unviable.iter().map(String::as_str).collect();
        fs::write(
            &known,
            names.join(
                "
",
            ),
        )
        .unwrap();
    }
}

/// The innermost mutation around each place that an error names.
fn blamed<'a>(error: &'a serde_json::Value, mutations: &'a [Mutation]) -> impl Iterator<Item = &'a Mutation> {
    let spans = error["message"]["spans"].as_array().into_iter().flatten();
    let primary = spans.filter(|span| span["is_primary"] == true);
    primary.filter_map(|span| {
        let offset = |name| Some(usize::try_from(span[name].as_u64()?).unwrap());
        let (start, end) = (offset("byte_start")?, offset("byte_end")?);
        let around = mutations.iter().filter(|mutation| {
            span["file_name"] == mutation.file.as_str()
                && mutation.region.start <= start
                && end <= mutation.region.end
        });
        around.min_by_key(|mutation| mutation.region.len())
    })
}

/// What became of a mutation.
enum Outcome {
    Caught,
    /// Nothing was heard of the tests: they wait or run for ever.
    Silent,
    /// Every test that reaches it passes; so many do.
    Survives(usize),
}

/// What became of tests that were run.
enum Attempt {
    Passed,
    /// This one failed.
    Failed(String),
    /// The process ended in the midst.
    Ended,
    Silent,
}

/// The unit tests, and which mutations each of them reaches.
struct Judge {
    tests: PathBuf,
    copy: PathBuf,
    reached: BTreeMap<usize, BTreeSet<String>>,
}

impl Judge {
    /// Runs every test once without any mutation. libtest names the thread of a test after it.
    fn new(root: &Path, tests: PathBuf) -> Self {
        let copy = root.join("target/mutants/generated");
        let record = root.join("target/mutants/reached.txt");
        let _ = fs::remove_file(&record);
        let run = Command::new(&tests)
            .arg("--test-threads=2")
            .current_dir(&copy)
            .env_remove(VARIABLE)
            .env(RECORD, &record)
            .envs(CASES)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        let told = |line: &str| Some(line.strip_prefix("test ")?.split_once(" ... ")?.0.to_owned());
        let names: BTreeSet<String> = said.lines().filter_map(told).collect();
        let mut reached: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for line in fs::read_to_string(&record).unwrap().lines() {
            let (number, thread) = line.split_once(' ').unwrap();
            let of = reached.entry(number.parse().unwrap()).or_default();
            if names.contains(thread) {
                of.insert(thread.to_owned());
            } else {
                // A thread that a test has started: any may be that test.
                of.extend(names.iter().cloned());
            }
        }
        Self { tests, copy, reached }
    }

    /// Runs the tests of the mutation's own module, then the others that reach it, then all once more with more cases.
    fn judge(&self, number: usize, file: &str) -> Outcome {
        let Some(reached) = self.reached.get(&number) else {
            return Outcome::Survives(0);
        };
        let parts: Vec<&str> = file.split('/').skip(1).take(2).collect();
        let module = parts.join("::");
        let all: Vec<&String> = reached.iter().collect();
        let (own, other): (Vec<_>, Vec<_>) = all.iter().partition(|name| name.starts_with(&module));
        for (tests, cases) in [(own, FEW), (other, FEW), (all, MANY)] {
            match self.run(number, &tests, cases) {
                Outcome::Survives(_) => {}
                ended => return ended,
            }
        }
        Outcome::Survives(reached.len())
    }

    /// Runs tests, in order of their names, until one fails twice. What fails once may have had too little time.
    fn run(&self, number: usize, names: &[&String], cases: &str) -> Outcome {
        let mut left = names;
        while !left.is_empty() {
            let failed = match self.attempt(Some(number), left, cases) {
                Attempt::Passed => break,
                Attempt::Silent => return Outcome::Silent,
                Attempt::Ended => return Outcome::Caught,
                Attempt::Failed(name) => name,
            };
            if !matches!(self.attempt(Some(number), &[&failed], cases), Attempt::Passed) {
                return Outcome::Caught;
            }
            left = &left[left.partition_point(|name| **name <= failed)..];
        }
        Outcome::Survives(names.len())
    }

    /// Runs tests until one fails.
    fn attempt(&self, mutation: Option<usize>, names: &[&String], cases: &str) -> Attempt {
        let mut tests = Command::new("sh")
            .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"")])
            .arg(&self.tests)
            .args(["--exact", "--test-threads=1"])
            .args(names)
            .current_dir(&self.copy)
            .env(
                VARIABLE,
                mutation.map_or_else(String::new, |number| number.to_string()),
            )
            .env("RUST_BACKTRACE", "0")
            .env("PROPTEST_CASES", cases)
            .envs(CASES)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (lines, said) = mpsc::channel();
        let output = tests.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut read = BufReader::new(output).lines().map_while(Result::ok);
            read.try_for_each(|line| lines.send(line))
        });
        let failed = |line: &str| {
            Some(
                line.strip_prefix("test ")?
                    .strip_suffix(" ... FAILED")?
                    .to_owned(),
            )
        };
        let ended = loop {
            match said.recv_timeout(PATIENCE) {
                Ok(line) => {
                    if let Some(name) = failed(&line) {
                        break Some(Attempt::Failed(name));
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => break Some(Attempt::Silent),
                Err(mpsc::RecvTimeoutError::Disconnected) => break None,
            }
        };
        if ended.is_some() {
            let _ = tests.kill();
        }
        let passed = tests.wait().unwrap().success();
        ended.unwrap_or(if passed { Attempt::Passed } else { Attempt::Ended })
    }
}
