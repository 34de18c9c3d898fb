//! Checks for authors of kinds: cases beside the scripts, and a linter. Feature `checks`.

pub mod cases;
mod lint;
mod report;

pub use lint::lint;
pub use report::{Finding, Report};
