//! Kubernetes quantities, kept as they were written (contract: api.md §1).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// What a quantity looks like; the pattern of k8s.io/apimachinery's generated schemas.
pub(super) const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Amounts by resource name, e.g. `cpu` or `storage`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// A quantity as written: an integer or a text such as `20Gi`. Never normalised, so that a hash over it is stable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// Written as a bare integer.
    Int(i64),
    /// Written as a text.
    Text(String),
}

impl Default for Quantity {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => n.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "pattern": PATTERN})
    }
}

impl Quantity {
    /// The value in billionths (the unit `n`), rounded away from zero and capped as Kubernetes does.
    ///
    /// `None` if the text is no quantity.
    pub fn nanos(&self) -> Option<i128> {
        match self {
            Self::Int(n) => Some(i128::from(*n) * 1_000_000_000),
            Self::Text(text) => parse_nanos(text).map(|nanos| nanos.clamp(-MAX, MAX)),
        }
    }

    /// The value if it is a whole number, e.g. bytes or cores.
    pub fn whole(&self) -> Option<i128> {
        self.nanos()
            .filter(|n| n % 1_000_000_000 == 0)
            .map(|n| n / 1_000_000_000)
    }
}

/// Decimal digits before and after the point that are read: together as many as i128 holds.
const MAX_DIGITS: (usize, usize) = (20, 18);
/// Cap of magnitude: 2^63-1 units, as in k8s.io/apimachinery.
const MAX: i128 = (i64::MAX as i128) * 1_000_000_000;

/// The value of a text in billionths, rounded away from zero and not capped: Kubernetes keeps what it reads as digits and
/// a decimal suffix. `None` if the text is no quantity.
pub fn parse_nanos(text: &str) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (integer.is_empty() && fraction.is_empty()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let integer = integer.trim_start_matches('0');
    let (multiplier, ten) = scale(suffix)?;
    let magnitude = if integer.len() > MAX_DIGITS.0 {
        i128::MAX
    } else {
        let kept = &fraction[..fraction.len().min(MAX_DIGITS.1)];
        let digits: i128 = format!("0{integer}{kept}").parse().ok()?;
        let exponent = 9 + ten - i32::try_from(kept.len()).ok()?;
        shift(digits.saturating_mul(multiplier), exponent)
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// `value · 10^exponent`, rounded up, saturating.
fn shift(value: i128, exponent: i32) -> i128 {
    if value == 0 {
        return 0;
    }
    let Some(power) = 10i128.checked_pow(exponent.unsigned_abs()) else {
        return if exponent > 0 { i128::MAX } else { 1 };
    };
    if exponent >= 0 {
        value.saturating_mul(power)
    } else {
        value / power + i128::from(value % power != 0)
    }
}

/// A suffix as a multiplier and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_read_as_kubernetes_reads_it() {
        let nanos = |text: &str| Quantity::from(text).nanos();
        assert_eq!(nanos("1"), Some(1_000_000_000));
        assert_eq!(nanos("100m"), Some(100_000_000));
        assert_eq!(nanos("1.5Gi"), Some(1_610_612_736 * 1_000_000_000));
        assert_eq!(nanos("2e3"), Some(2_000 * 1_000_000_000));
        assert_eq!(nanos("-1k"), Some(-1_000 * 1_000_000_000));
        assert_eq!(nanos(".5"), Some(500_000_000));
        assert_eq!(nanos("0.1n"), Some(1));
        assert_eq!(nanos("99999999999999999999"), Some(MAX));
        assert_eq!(nanos("1e400"), Some(MAX));
        assert_eq!(nanos("0e400"), Some(0));
        for bad in ["", "-", "1x", "1.2.3", "Gi", "1 Gi"] {
            assert_eq!(nanos(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_whole_quantity_has_no_fraction() {
        assert_eq!(Quantity::from("20Gi").whole(), Some(20 << 30));
        assert_eq!(Quantity::from("1500m").whole(), None);
        assert_eq!(Quantity::Int(3).whole(), Some(3));
    }

    #[test]
    fn a_quantity_is_written_as_it_was_read() {
        for text in [r#""1000m""#, "2", r#""2""#] {
            let read: Quantity = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}
