//! Figures: their statistics, the JSON file and the table for people.

use anyhow::{Context, Result};
use serde::Serialize;
use std::{path::Path, time::Duration};

/// One measured figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// What was measured, beginning with its number; the same in each run.
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
        let Some(bar) = bar else {
            return self.told(name);
        };
        [("p50", 0.5, bar.p50), ("p99", 0.99, bar.p99)].map(|(label, share, limit)| {
            let (value, floor) = (percentile(&self.gateway, share), percentile(&self.bare, share));
            let ratio = value / floor;
            let fast = value <= limit || floor > limit;
            let judged = label == "p50" || floor > limit;
            let bar_text = if label == "p50" {
                format!("≤ {limit} ms and ≤ {}× bare", bar.ratio)
            } else {
                format!("≤ {limit} ms")
            };
            Figure {
                name: format!("{name}, {label}"),
                detail: String::new(),
                value: round(value),
                unit: "ms",
                floor: Some(round(floor)),
                ratio: Some(round(ratio)),
                bar: bar_text,
                holds: fast && (!judged || ratio <= bar.ratio),
            }
        })
    }

    /// As [`Pairs::figures`], without a bar.
    fn told(&self, name: &str) -> [Figure; 2] {
        [("p50", 0.5), ("p99", 0.99)].map(|(label, share)| {
            let (value, floor) = (percentile(&self.gateway, share), percentile(&self.bare, share));
            Figure {
                name: format!("{name}, {label}"),
                detail: String::new(),
                value: round(value),
                unit: "ms",
                floor: Some(round(floor)),
                ratio: Some(round(value / floor)),
                bar: "none".to_owned(),
                holds: true,
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
    let text = serde_json::to_string_pretty(value).context("write figures as JSON")?;
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
