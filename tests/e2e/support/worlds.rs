//! Several worlds beside each other: each is a process of this suite with planes of its own and a share of the tests.
//!
//! Tests that stop a plane or a role have their world for themselves, and wait for most of their time. So one process starts
//! one process per world, gives each a share of the tests, and prints their output with the number of the world in front.

use libtest_mimic::{Arguments, Trial};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// Tells a process which world it is, from 1, and of how many: `2/3`.
const WORLD: &str = "FEDGATE_WORLD";
/// Fewer chosen tests than this are not worth the start of further planes.
const WORTH_IT: usize = 60;

/// Lists the tests of a module.
pub(crate) type ListTrials = fn() -> Vec<Trial>;

/// The tests of a suite.
pub(crate) struct Tests {
    /// Run beside each other.
    pub(crate) together: Vec<Trial>,
    /// Run one at a time, when those have ended: a list for each world, in its order.
    pub(crate) alone: Vec<Vec<Trial>>,
    /// Look back at the whole run of their world.
    pub(crate) closing: Vec<Trial>,
}

/// The number of the world that this process is, from 1, and how many worlds there are.
fn world() -> Option<(usize, usize)> {
    let text = std::env::var(WORLD).ok()?;
    let (world, of) = text.split_once('/')?;
    Some((world.parse().ok()?, of.parse().ok()?))
}

/// The folder of a suite's files: every world has its own.
pub(crate) fn dir(suite: &str) -> PathBuf {
    let name = match world() {
        Some((world, _)) => format!("{suite}-{world}"),
        None => suite.to_owned(),
    };
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The tests of each world's modules.
pub(crate) fn in_order(worlds: &[&[ListTrials]]) -> Vec<Vec<Trial>> {
    let tests_of = |modules: &&[ListTrials]| modules.iter().flat_map(|trials| trials()).collect();
    worlds.iter().map(tests_of).collect()
}

/// Runs the tests, `parallel` in all beside each other, in all worlds if that is worth it, and says whether one failed.
/// The runner knows one filter; here it may be several, with commas between them.
pub(crate) fn run_all(tests: Tests, parallel: usize) -> bool {
    // The runner prints each failure; of panics elsewhere one line is enough.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let arguments = Arguments::from_args();
    if let Some((world, of)) = world() {
        // The worlds share one machine, so that `parallel` is divided among them.
        return run(tests.share(world, of), arguments, parallel.div_ceil(of));
    }
    let worlds = tests.alone.len();
    let chosen = tests.chosen(&mut arguments.clone());
    if arguments.list || worlds < 2 || chosen < WORTH_IT {
        return run(tests, arguments, parallel);
    }
    run_worlds(worlds)
}

impl Tests {
    /// The tests of one world.
    fn share(mut self, world: usize, of: usize) -> Self {
        let mut number = 0;
        self.together.retain(|_| {
            number += 1;
            number % of + 1 == world
        });
        let alone = self.alone.into_iter().enumerate();
        self.alone = alone
            .filter(|(number, _)| number % of + 1 == world)
            .map(|(_, trials)| trials)
            .collect();
        self
    }

    fn chosen(&self, arguments: &mut Arguments) -> usize {
        let parts = arguments.filter.take();
        let all = self.together.iter().chain(self.alone.iter().flatten());
        all.filter(|trial| is_among(parts.as_deref(), trial))
            .filter(|trial| arguments.include_ignored || trial.has_ignored_flag() == arguments.ignored)
            .count()
    }
}

fn is_among(parts: Option<&str>, trial: &Trial) -> bool {
    parts.is_none_or(|parts| parts.split(',').any(|part| trial.name().contains(part)))
}

fn run(tests: Tests, mut arguments: Arguments, parallel: usize) -> bool {
    arguments.test_threads.get_or_insert(parallel);
    let parts = arguments.filter.take_if(|filter| filter.contains(','));
    let chosen = |mut trials: Vec<Trial>| {
        trials.retain(|trial| is_among(parts.as_deref(), trial));
        trials
    };
    let Tests {
        together,
        alone,
        closing,
    } = tests;
    let mut failed = libtest_mimic::run(&arguments, chosen(together)).has_failed();
    arguments.test_threads = Some(1);
    let alone = alone.into_iter().flatten().collect();
    for group in [alone, closing] {
        failed |= libtest_mimic::run(&arguments, chosen(group)).has_failed();
    }
    failed
}

/// Starts a process for each world and says whether one failed. Their lines are told apart by a number.
fn run_worlds(worlds: usize) -> bool {
    let program = std::env::current_exe().expect("this process has an executable");
    let threads: Vec<_> = (1..=worlds)
        .map(|world| {
            let mut command = Command::new(&program);
            command
                .args(std::env::args_os().skip(1))
                .env(WORLD, format!("{world}/{worlds}"))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            thread::spawn(move || {
                let mut child = command.spawn().expect("start a world");
                let said = child.stderr.take().expect("its errors are piped");
                let errors = thread::spawn(move || {
                    for line in BufReader::new(said).lines().map_while(Result::ok) {
                        eprintln!("{world}: {line}");
                    }
                });
                let said = child.stdout.take().expect("its output is piped");
                for line in BufReader::new(said).lines().map_while(Result::ok) {
                    println!("{world}: {line}");
                }
                errors.join().expect("its errors are read");
                !child.wait().expect("wait for a world").success()
            })
        })
        .collect();
    let ended = threads
        .into_iter()
        .map(|thread| thread.join().expect("a world is waited for"));
    // All are waited for, also when the first has failed.
    ended.fold(false, |failed, world| failed | world)
}

/// Writes what this world has found to a file. The world that finishes last returns what all worlds have found; the others return
/// nothing.
pub(crate) fn in_all_worlds(suite: &str, found: Vec<String>) -> Vec<String> {
    let Some((_, of)) = world() else {
        return found;
    };
    let file = |dir: PathBuf| dir.join("in-this-world.json");
    let text = serde_json::to_string(&found).expect("texts are JSON");
    fs::write(file(dir(suite)), text).expect("keep what this world has found");
    let other = |world| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{suite}-{world}"));
        let text = fs::read_to_string(file(dir)).ok()?;
        serde_json::from_str::<Vec<String>>(&text).ok()
    };
    let Some(all) = (1..=of).map(other).collect::<Option<Vec<_>>>() else {
        eprintln!("    another world is still at work; the last one judges");
        return Vec::new();
    };
    found
        .into_iter()
        .filter(|text| all.iter().all(|world| world.contains(text)))
        .collect()
}
