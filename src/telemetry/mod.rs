//! Logs: one JSON line per state change, or readable text.
//!
//! Text from a tenant or a server cannot start a new line: JSON escapes it, and readable lines drop control characters.
//! Every line has a bounded length.

mod json;

use anyhow::anyhow;
use serde_json::Value;
use std::{
    borrow::Cow,
    io::{self, Write},
};
use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter,
    filter::{LevelFilter, filter_fn},
    fmt::{self, MakeWriter},
    prelude::*,
};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Readable text.
    Pretty,
}

/// Maximum length of a field in a line that is cut, in characters.
const FIELD_CAP: usize = 1_024;
/// Maximum length of a line before it is cut: bytes of a JSON line, characters of a readable line.
const LINE_CAP: usize = 8 * 1_024;

/// kube-runtime's watcher logs each rejected attempt; the gateway logs only changes of a watch's state. A filter that
/// names this target overrides it.
const QUIET: &str = "kube_runtime::watcher=error";

/// kube logs the answer to a refused request whole, which repeats the refused object, e.g. a Secret (contract:
/// operations.md §2.6). No filter of the user shows these lines.
const REPEATS_OBJECTS: &str = "kube_client::client";

fn shows(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || metadata.target() != REPEATS_OBJECTS
}

/// Starts logging to standard error, once per process.
pub fn begin(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let parsed = parsed(filter).map_err(|cause| {
        anyhow!("--log-level {filter:?}: {cause}; write a level such as info, or info,fedgate=debug")
    })?;
    let registry = tracing_subscriber::registry().with(parsed).with(filter_fn(shows));
    let layer = fmt::layer().with_writer(Lines(format));
    match format {
        LogFormat::Json => {
            let layer = layer.json().event_format(json::JsonEvents);
            registry.with(layer).try_init()?;
        }
        LogFormat::Pretty => {
            let layer = layer.with_target(false).with_ansi(false);
            registry.with(layer).try_init()?;
        }
    }
    Ok(())
}

/// Beginnings of the names of targets that log: the program's own and those of the libraries that it is linked with.
const TARGETS: &[&str] = &[
    "fedgate",
    "kube",
    "hyper",
    "h2",
    "rustls",
    "tower",
    "tokio",
    "axum",
    "notify",
    "mio",
    "jiff",
    "tungstenite",
];

/// The filter; an error names the fault. A word without a level would be taken for the name of a target, and nothing else
/// would be logged; a level of a target that does not exist changes nothing.
fn parsed(filter: &str) -> Result<EnvFilter, String> {
    let words = filter.split(',').map(str::trim).filter(|word| !word.is_empty());
    let is_known = |target: &str| target.is_empty() || TARGETS.iter().any(|known| target.starts_with(known));
    let mut targets = words.clone().filter_map(|word| word.split_once(['=', '[']));
    if let Some((target, _)) = targets.find(|(target, _)| !is_known(target)) {
        let known = TARGETS.join(", ");
        return Err(format!(
            "nothing logs as {target:?}; names of targets begin with {known}"
        ));
    }
    let unknown = words
        .clone()
        .find(|word| !word.contains('=') && word.parse::<LevelFilter>().is_err());
    match unknown {
        Some(word) => Err(format!(
            "{word:?} is no level; the levels are off, error, warn, info, debug, trace"
        )),
        None if words.count() == 0 => Err("it is empty".to_owned()),
        None => EnvFilter::try_new(format!("{QUIET},{filter}")).map_err(|error| error.to_string()),
    }
}

/// Writes whole lines to standard error; shortens lines that are too long.
#[derive(Debug, Clone, Copy)]
struct Lines(LogFormat);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let fit = match self.0 {
            LogFormat::Json => fit_json(line),
            LogFormat::Pretty => Cow::Owned(fit_text(line)),
        };
        io::stderr().lock().write_all(&fit)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

fn fit_json(line: &[u8]) -> Cow<'_, [u8]> {
    if line.len() <= LINE_CAP {
        return Cow::Borrowed(line);
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else {
        return Cow::Owned(fit_text(line));
    };
    cut(&mut value);
    Cow::Owned(format!("{value}\n").into_bytes())
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(FIELD_CAP) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(items) => items.iter_mut().for_each(cut),
        Value::Object(fields) => fields.values_mut().for_each(cut),
        _ => {}
    }
}

fn fit_text(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\n');
    let mut shown: String = text
        .chars()
        .take(LINE_CAP)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(LINE_CAP).is_some() {
        shown.push('…');
    }
    shown.push('\n');
    shown.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_begin_a_line() {
        assert_eq!(fit_text(b"a\nERROR forged\x1b[31m\n"), b"a ERROR forged [31m\n");
    }

    #[test]
    fn answers_that_repeat_an_object_are_not_logged_at_any_level() {
        let layers = tracing_subscriber::registry()
            .with(EnvFilter::new("trace"))
            .with(filter_fn(shows));
        tracing::subscriber::with_default(layers, || {
            assert!(!tracing::enabled!(target: "kube_client::client", Level::DEBUG));
            assert!(!tracing::enabled!(target: "kube_client::client", Level::TRACE));
            assert!(tracing::enabled!(target: "kube_client::client", Level::WARN));
            assert!(tracing::enabled!(target: "fedgate", Level::TRACE));
        });
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for good in [
            "info",
            "WARN",
            "off",
            "fedgate=debug",
            "info,fedgate_engine::plane=debug",
            "kube_client=trace",
            "[x]=info",
        ] {
            assert!(parsed(good).is_ok(), "{good}");
        }
        for bad in [
            "wran",
            "info,debgu",
            "fedgate",
            "",
            ",",
            "fedgate=wran",
            "info,fedgtae=debug",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        let error = parsed("wran").unwrap_err();
        assert!(
            error.starts_with("\"wran\" is no level; the levels are off, error"),
            "{error}"
        );
        let error = parsed("fedgtae=debug").unwrap_err();
        assert!(
            error.starts_with("nothing logs as \"fedgtae\"; names of targets begin with fedgate, kube"),
            "{error}"
        );
    }

    #[test]
    fn long_lines_are_cut_and_json_stays_json() {
        let short = b"{\"message\":\"fine\"}\n";
        assert_eq!(fit_json(short).as_ref(), short);
        let long = serde_json::json!({"message": "x".repeat(9_000), "plane": "hub"}).to_string();
        let fit: Value = serde_json::from_slice(&fit_json(long.as_bytes())).unwrap();
        assert_eq!(fit["plane"], "hub");
        assert_eq!(fit["message"].as_str().unwrap().chars().count(), FIELD_CAP + 1);
        assert!(fit_text("é".repeat(10_000).as_bytes()).len() < 3 * LINE_CAP);
    }
}
