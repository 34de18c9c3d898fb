//! Kubernetes quantities: the operations that scripts use, addition and comparison.
//!
//! Source: k8s.io/apimachinery `pkg/api/resource`. A quantity is a number of billionths and the notation of its text;
//! smaller fractions are rounded up.

/// One unit, in billionths.
const ONE: i128 = 1_000_000_000;

/// The notation of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Notation {
    /// `1Ki`
    Binary,
    /// `1e3`
    Exponent,
    /// `1k`
    #[default]
    Decimal,
}

/// A Kubernetes quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Quantity {
    billionths: i128,
    notation: Notation,
}

impl Quantity {
    pub(super) fn from_millis(millis: i128) -> Self {
        Self {
            billionths: millis * (ONE / 1000),
            notation: Notation::Decimal,
        }
    }

    pub(super) fn from_units(units: i128, notation: Notation) -> Self {
        Self {
            billionths: units * ONE,
            notation,
        }
    }

    /// Parses `1500m`, `2Gi`, `1e3`, `.5`; `None` if the text is no quantity.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        let notation = match suffix.as_bytes() {
            [_, b'i'] => Notation::Binary,
            [b'e' | b'E', _, ..] => Notation::Exponent,
            _ => Notation::Decimal,
        };
        Some(Self {
            billionths: fedgate_api::quantity::parse_nanos(text)?,
            notation,
        })
    }

    /// Adds two quantities. The sum has the notation of the first summand that is not zero.
    pub(super) fn plus(self, other: Self) -> Self {
        let notation = if self.billionths == 0 {
            other.notation
        } else {
            self.notation
        };
        Self {
            billionths: self.billionths.saturating_add(other.billionths),
            notation,
        }
    }

    /// Thousandths, rounded up.
    pub(super) fn millis(self) -> i128 {
        ceiling(self.billionths, ONE / 1000)
    }

    /// Units, rounded up.
    pub(super) fn units(self) -> i128 {
        ceiling(self.billionths, ONE)
    }

    #[allow(clippy::cast_precision_loss)] // the caller wants an approximation
    pub(super) fn approximate(self) -> f64 {
        self.billionths as f64 / ONE as f64
    }

    /// The canonical text: the largest suffix that leaves a whole number.
    pub(super) fn text(self) -> String {
        let Self {
            billionths: value,
            notation,
        } = self;
        if value == 0 {
            return "0".to_owned();
        }
        if notation == Notation::Binary && value.abs() >= 1024 * ONE {
            let mut units = self.units();
            let mut step = 0;
            while units % 1024 == 0 && step < 6 {
                units /= 1024;
                step += 1;
            }
            return format!("{units}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let (mut digits, mut exponent) = (value, -9);
        while digits % 1000 == 0 && exponent < 18 {
            digits /= 1000;
            exponent += 3;
        }
        if notation == Notation::Exponent {
            return if exponent == 0 {
                digits.to_string()
            } else {
                format!("{digits}e{exponent}")
            };
        }
        let suffixes = [
            (-9, "n"),
            (-6, "u"),
            (-3, "m"),
            (0, ""),
            (3, "k"),
            (6, "M"),
            (9, "G"),
            (12, "T"),
            (15, "P"),
        ];
        let suffix = suffixes
            .iter()
            .find(|(e, _)| *e == exponent)
            .map_or("E", |(_, suffix)| suffix);
        format!("{digits}{suffix}")
    }
}

fn ceiling(value: i128, unit: i128) -> i128 {
    value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_canonical() {
        for (text, canonical) in [
            ("0", "0"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("100000", "100k"),
            ("2048Ki", "2Mi"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1e3"),
            (".5", "500m"),
            ("-1500m", "-1500m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("12E", "12E"),
            ("5Ei", "5Ei"),
            ("1E3", "1e3"),
            ("+3", "3"),
            ("5.", "5"),
        ] {
            assert_eq!(
                Quantity::parse(text).map(Quantity::text).as_deref(),
                Some(canonical),
                "{text}"
            );
        }
        for bad in ["", "x", "1x", "1.2.3", "Ki", "1 Gi", "--1"] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn sums_take_the_first_notation_that_counts() {
        let sum = |a: &str, b: &str| {
            Quantity::parse(a)
                .unwrap()
                .plus(Quantity::parse(b).unwrap())
                .text()
        };
        assert_eq!(sum("1Gi", "1Gi"), "2Gi");
        assert_eq!(sum("0", "1Gi"), "1Gi");
        assert_eq!(sum("250m", "1"), "1250m");
        assert_eq!(sum("1Ki", "1"), "1025");
    }
}
