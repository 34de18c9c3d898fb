//! Several runs of a bench, and what they show together: the median and the spread of each figure, with the commit, the
//! versions, the load of the machine and all samples.

use super::report::{Figure, round, write};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use std::{fmt::Write as _, fs, path::Path, process::Command};

/// Runs, if `FEDGATE_BENCH_RUNS` does not say another number.
const RUNS: usize = 5;

/// The results of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    /// The servers of the planes, with their version.
    pub(crate) planes: String,
    pub(crate) figures: Vec<Figure>,
    /// All samples.
    pub(crate) samples: Value,
    /// Load of the machine over one minute, before the run and after it.
    load: [f64; 2],
}

impl Run {
    /// A run that begins now.
    pub(crate) fn new(planes: String) -> Self {
        Self {
            planes,
            figures: Vec::new(),
            samples: json!({}),
            load: [load(), f64::NAN],
        }
    }
}

/// A value over all runs.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?)
        } else {
            *values.get(middle)?
        };
        Some(Self {
            median: round(median),
            least: *values.first()?,
            most: *values.last()?,
        })
    }

    fn text(self) -> String {
        format!("{:.2} ({:.2} to {:.2})", self.median, self.least, self.most)
    }
}

/// A figure over all runs.
#[derive(Debug, Serialize)]
struct Summary {
    name: String,
    unit: &'static str,
    value: Spread,
    /// The bare client's value, where there is one.
    bare: Option<Spread>,
    /// Value over the bare client's, run by run.
    ratio: Option<Spread>,
    bar: String,
    /// Runs in which the bar holds.
    held: usize,
    /// Runs that have measured the figure.
    runs: usize,
    /// True if the bar holds in most of these.
    holds: bool,
}

/// The figures of all runs, in the order of the first one.
fn summaries(runs: &[Run]) -> Vec<Summary> {
    let first = runs.first().into_iter().flat_map(|run| &run.figures);
    let summary = |figure: &Figure| {
        let all = runs.iter().flat_map(|run| &run.figures);
        let all: Vec<&Figure> = all.filter(|of| of.name == figure.name).collect();
        let held = all.iter().filter(|of| of.holds).count();
        Some(Summary {
            name: figure.name.clone(),
            unit: figure.unit,
            value: Spread::of(all.iter().map(|of| of.value))?,
            bare: Spread::of(all.iter().filter_map(|of| of.floor)),
            ratio: Spread::of(all.iter().filter_map(|of| of.ratio)),
            bar: figure.bar.clone(),
            held,
            runs: all.len(),
            holds: held * 2 > all.len(),
        })
    };
    first.filter_map(summary).collect()
}

/// Load over one minute.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

/// The first line that a program prints; empty if it cannot be run.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines().next().unwrap_or_default().to_owned()
}

/// The value of a field in a file of `/proc`.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// The commit, the versions and the machine.
fn origin(bench: &str) -> Value {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "bench": bench,
        "date": jiff::Timestamp::now().to_string(),
        "commit": said("git", &["rev-parse", "HEAD"]),
        "changed": !said("git", &["status", "--porcelain"]).is_empty(),
        "versions": {"fedgate": env!("CARGO_PKG_VERSION"), "rustc": said("rustc", &["--version"])},
        "machine": {"cores": cores, "cpu": field("/proc/cpuinfo", "model name"), "memory": field("/proc/meminfo", "MemTotal")},
    })
}

/// A count that an environment variable may set.
pub(crate) fn from_env(variable: &str) -> Result<Option<usize>> {
    match std::env::var(variable) {
        Ok(text) => match text.parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => bail!("{variable} is {text:?}; it must be a positive number"),
        },
        Err(_) => Ok(None),
    }
}

/// The table for people.
fn table(summaries: &[Summary]) -> String {
    let rows: Vec<[String; 6]> = summaries
        .iter()
        .map(|of| {
            let spread = |of: Option<Spread>| of.map_or_else(|| "-".to_owned(), Spread::text);
            [
                of.name.clone(),
                format!("{} {}", of.value.text(), of.unit),
                spread(of.bare),
                spread(of.ratio),
                format!("{}/{}", of.held, of.runs),
                of.bar.clone(),
            ]
        })
        .collect();
    let head = [
        "figure",
        "median (least to most)",
        "bare",
        "ratio",
        "holds",
        "bar",
    ]
    .map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in [&head].into_iter().chain(&rows) {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let _infallible = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// Runs a bench several times, and writes `target/bench/<bench>.json` after each run. Each run gets that folder. Fails if a run
/// fails, or if a bar does not hold in most runs and `FEDGATE_BENCH_GO_ON` is not set.
pub(crate) async fn repeat(
    bench: &str,
    mut one: impl AsyncFnMut(&Path) -> Result<(Run, Result<()>)>,
) -> Result<()> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let dir = target.context("find target/")?.join("bench");
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let (count, path) = (
        from_env("FEDGATE_BENCH_RUNS")?.unwrap_or(RUNS),
        dir.join(format!("{bench}.json")),
    );
    let mut report = origin(bench);
    let (mut runs, mut outcome) = (Vec::with_capacity(count), Ok(()));
    while runs.len() < count && outcome.is_ok() {
        eprintln!("bench: run {} of {count}", runs.len() + 1);
        let (mut run, result) = one(&dir).await?;
        run.load[1] = load();
        runs.push(run);
        outcome = result;
        report["figures"] = serde_json::to_value(summaries(&runs)).context("write the figures as JSON")?;
        report["runs"] = serde_json::to_value(&runs).context("write the runs as JSON")?;
        write(&path, &report)?;
    }
    let summaries = summaries(&runs);
    print!("{}", table(&summaries));
    println!("{}", path.display());
    outcome?;
    let broken: Vec<&str> = summaries
        .iter()
        .filter(|of| !of.holds)
        .map(|of| &*of.name)
        .collect();
    if !broken.is_empty() && std::env::var_os("FEDGATE_BENCH_GO_ON").is_none() {
        bail!(
            "bars that do not hold: {}; with FEDGATE_BENCH_GO_ON=1 this is no failure",
            broken.join("; ")
        );
    }
    Ok(())
}
