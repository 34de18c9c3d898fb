//! Tables of docs/performance.md.

use serde_json::Value;
use std::fmt::Write;

/// The document with the table of a bench between its marks, `<!-- planes -->` and `<!-- /planes -->`.
pub(crate) fn replaced(document: &str, bench: &str, results: &Value) -> String {
    let (begin, end) = (format!("<!-- {bench} -->\n"), format!("<!-- /{bench} -->"));
    let (before, rest) = document.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{}{end}{after}", table(results))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number with three significant digits.
fn number(value: &Value) -> String {
    let value = value.as_f64().unwrap();
    let digits = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Median with least and most value.
fn spread(of: &Value) -> String {
    if of.is_null() {
        return "–".to_owned();
    }
    let [median, least, most] = ["median", "least", "most"].map(|name| number(&of[name]));
    if least == most {
        median
    } else {
        format!("{median} ({least}–{most})")
    }
}

/// The bar of a figure, and in how many runs it holds.
fn bar(figure: &Value) -> [String; 2] {
    if figure["bar"] == "none" {
        return ["–", "–"].map(str::to_owned);
    }
    let held = format!("{} of {}", figure["held"], figure["runs"]);
    let held = if figure["holds"] == true {
        held
    } else {
        format!("**{held}**")
    };
    [text(&figure["bar"]).to_owned(), held]
}

/// Where, when and of what a bench has measured.
fn origin(results: &Value) -> String {
    let (machine, runs) = (&results["machine"], results["runs"].as_array().unwrap());
    let loads = runs.iter().filter_map(|run| run["load"][0].as_f64());
    format!(
        "{} at {}{}: median (least–most) of {} runs; {} cores ({}), {}, {}; load before a run at most {:.1}.\n\n",
        text(&results["date"]).split('T').next().unwrap_or_default(),
        &text(&results["commit"])[..8],
        if results["changed"] == true {
            " with changes"
        } else {
            ""
        },
        runs.len(),
        machine["cores"],
        text(&machine["cpu"]),
        text(&results["versions"]["rustc"]),
        text(&runs[0]["planes"]),
        loads.fold(0.0, f64::max),
    )
}

/// The table, without the columns that no figure has.
fn table(results: &Value) -> String {
    let mut rows = vec![["figure", "value", "bare client", "ratio", "bar", "holds"].map(str::to_owned)];
    rows.extend(results["figures"].as_array().unwrap().iter().map(|figure| {
        let value = format!("{} {}", spread(&figure["value"]), text(&figure["unit"]));
        let [limit, held] = bar(figure);
        let name = text(&figure["name"]).to_owned();
        let (bare, ratio) = (spread(&figure["bare"]), spread(&figure["ratio"]));
        [name, value.trim_end().to_owned(), bare, ratio, limit, held]
    }));
    let is_shown = |column: &usize| rows[1..].iter().any(|row| row[*column] != "–");
    let columns: Vec<usize> = (0..rows[0].len()).filter(is_shown).collect();
    let mut out = origin(results);
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|column| &*row[*column]).collect();
        writeln!(out, "| {} |", cells.join(" | ")).unwrap();
        if number == 0 {
            writeln!(out, "|{}", "---|".repeat(columns.len())).unwrap();
        }
    }
    out
}
