//! Figures: their statistics, the JSON file and the table for people.

use anyhow::{Context, Result};
use serde::Serialize;
use std::{path::Path, time::Duration};

/// One measured figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// The name, which begins with the figure's number; the same in each run.
    pub(crate) name: String,
    /// Numbers beside it that differ from run to run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    /// The gateway's value.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The bare client's value in the same run, where there is one.
    pub(crate) floor: Option<f64>,
    /// Value over floor; for rates too, where more is better.
    pub(crate) ratio: Option<f64>,
    /// What has to hold.
    pub(crate) bar: String,
    /// Whether it does.
    pub(crate) holds: bool,
}

/// The limits of a latency, and whether the ratio is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatencyBar {
    /// Milliseconds of the median.
    pub(crate) p50: f64,
    /// Milliseconds of the 99th percentile.
    pub(crate) p99: f64,
    /// Gateway's median over the bare client's.
    pub(crate) ratio: f64,
}

/// Gateway and bare client, sample by sample.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) gateway: Vec<Duration>,
    pub(crate) bare: Vec<Duration>,
}

/// The value below which this share of the samples lies, in milliseconds.
pub(crate) fn percentile(samples: &[Duration], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort();
    let last = sorted.len().saturating_sub(1);
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let rank = (last as f64 * share).round() as usize;
    sorted
        .get(rank)
        .map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e3)
}

impl Pairs {
    /// Median and 99th percentile as two figures. Where the bare client itself is slower than the absolute bar, the
    /// ratio alone counts.
    pub(crate) fn figures(&self, name: &str, bar: Option<LatencyBar>) -> [Figure; 2] {
        ["p50", "p99"].map(|label| {
            let is_median = label == "p50";
            let share = if is_median { 0.5 } else { 0.99 };
            let (value, floor) = (percentile(&self.gateway, share), percentile(&self.bare, share));
            let ratio = value / floor;
            let (bar, holds) = bar.map_or_else(
                || ("none".to_owned(), true),
                |bar| {
                    let limit = if is_median { bar.p50 } else { bar.p99 };
                    let fast = value <= limit || floor > limit;
                    let judged = is_median || floor > limit;
                    let text = if is_median {
                        format!("≤ {limit} ms and ≤ {}× bare", bar.ratio)
                    } else {
                        format!("≤ {limit} ms")
                    };
                    (text, fast && (!judged || ratio <= bar.ratio))
                },
            );
            Figure {
                name: format!("{name}, {label}"),
                detail: String::new(),
                value: round(value),
                unit: "ms",
                floor: Some(round(floor)),
                ratio: Some(round(ratio)),
                bar,
                holds,
            }
        })
    }

    /// All samples in milliseconds, for whoever wants other statistics.
    pub(crate) fn raw(&self) -> serde_json::Value {
        let list = |samples: &[Duration]| -> Vec<f64> {
            samples.iter().map(|s| round(s.as_secs_f64() * 1e3)).collect()
        };
        serde_json::json!({"gateway": list(&self.gateway), "bare": list(&self.bare)})
    }
}

/// Three digits after the point are more than any of these figures is worth.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Writes the figures as one JSON array.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    let text = serde_json::to_string(value).context("write figures as JSON")?;
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
