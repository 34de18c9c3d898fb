//! Pictures as SVG, which read in light and dark.

use serde_json::Value;
use std::fmt::Write;

const STYLE: &str = "<style>\
text{font:13px system-ui,sans-serif;fill:#1f2328}.small{font-size:11px;fill:#59636e}.grid{stroke:#d1d9e0}\
.gateway{stroke:#0969da;fill:#0969da}.bare{stroke:#818b98;fill:#818b98}.peer{stroke:#bc4c00;fill:#bc4c00}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.grid{stroke:#3d444d}\
.gateway{stroke:#4493f8;fill:#4493f8}.bare{stroke:#9198a1;fill:#9198a1}.peer{stroke:#f0883e;fill:#f0883e}}\
</style>";

/// Left and right end of the axis.
const ACROSS: (f64, f64) = (250.0, 740.0);

/// An axis with a logarithmic scale.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        Self {
            least: least / 1.15,
            most: most * 1.15,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        ACROSS.0 + share * (ACROSS.1 - ACROSS.0)
    }

    /// 1, 2 and 5 of each power of ten.
    fn marks(&self) -> impl Iterator<Item = f64> {
        let powers = (-3..9).map(|power| 10_f64.powi(power));
        let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * power));
        all.filter(|mark| (self.least..=self.most).contains(mark))
    }
}

/// The value below which this share of sorted samples lies.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a list"
    )]
    let rank = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[rank]
}

/// Name of a hop in the samples, and its title.
const HOPS: [(&str, &str); 4] = [
    ("P1", "P1 create → copy on the hub"),
    ("P3", "P3 status → project"),
    ("P4", "P4 write-back → projection"),
    ("P4 gone", "P4 write-back gone → projection gone"),
];

/// Class and title of a program, and where its samples are.
const PROGRAMS: [(&str, &str, &str, &str); 3] = [
    ("gateway", "fedgate gateway", "latencies", "gateway"),
    ("bare", "bare client", "latencies", "bare"),
    ("peer", "controller-runtime peer", "peer-latencies", "gateway"),
];

/// All samples of a hop, sorted.
fn samples(results: &Value, part: &str, hop: &str, who: &str) -> Vec<f64> {
    let runs = results["runs"].as_array().unwrap().iter();
    let lists = runs.filter_map(|run| run["samples"][part][hop][who].as_array());
    let mut all: Vec<f64> = lists.flatten().filter_map(Value::as_f64).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// The latencies of the gateway, the bare client and the peer: a line from the 5th to the 95th percentile, a thick one from the
/// 25th to the 75th, a dot at the median, and a stroke at the 99th.
pub(crate) fn latencies(results: &Value) -> String {
    let shares = [0.05, 0.25, 0.5, 0.75, 0.95, 0.99];
    let rows: Vec<_> = HOPS
        .iter()
        .flat_map(|(hop, _)| {
            PROGRAMS.map(|(class, _, part, who)| {
                let all = samples(results, part, hop, who);
                (*hop, class, shares.map(|share| percentile(&all, share)))
            })
        })
        .collect();
    let axis = Axis::over(rows.iter().flat_map(|(.., values)| *values));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 310\" role=\"img\">\
         <title>Latencies of fedgate gateway, a bare client and a controller-runtime peer</title>\n{STYLE}\n"
    );
    for ((class, title, ..), x) in PROGRAMS.iter().zip([250.0, 420.0, 550.0]) {
        let dot = format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"16\" r=\"4\"/>");
        writeln!(out, "{dot}<text x=\"{}\" y=\"20\">{title}</text>", x + 10.0).unwrap();
    }
    for mark in axis.marks() {
        let x = axis.at(mark);
        let line = format!("<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"34\" y2=\"282\"/>");
        writeln!(
            out,
            "{line}<text class=\"small\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"298\">{mark} ms</text>"
        )
        .unwrap();
    }
    let (mut y, mut last) = (36.0, "");
    for (hop, class, values) in rows {
        if hop != last {
            y += 12.0;
            let title = HOPS.iter().find(|(name, _)| *name == hop).unwrap().1;
            writeln!(out, "<text x=\"8\" y=\"{:.1}\">{title}</text>", y + 20.0).unwrap();
            last = hop;
        }
        let [low, quarter, median, three, high, late] = values.map(|value| axis.at(value));
        let line = |from: f64, to: f64, width: u8| {
            format!(
                "<line class=\"{class}\" stroke-width=\"{width}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y}\" y2=\"{y}\"/>"
            )
        };
        let (thin, thick) = (line(low, high, 1), line(quarter, three, 5));
        let dot = format!("<circle class=\"{class}\" cx=\"{median:.1}\" cy=\"{y}\" r=\"5\"/>");
        let (above, below) = (y - 5.0, y + 5.0);
        let stroke = format!(
            "<line class=\"{class}\" x1=\"{late:.1}\" x2=\"{late:.1}\" y1=\"{above}\" y2=\"{below}\"/>"
        );
        writeln!(out, "{thin}{thick}{dot}{stroke}").unwrap();
        y += 16.0;
    }
    out.push_str("</svg>\n");
    out
}
