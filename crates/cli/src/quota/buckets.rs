//! Limits and use, from the platform's buckets.

use crate::view::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Beginning of the resource types of compute.
const GROUP: &str = "compute.datumapis.com/";

/// Number of cells of a bar.
const CELLS: i64 = 20;

/// Resource types in the order of rows: type, name, unit.
const KNOWN: [(&str, &str, &str); 4] = [
    ("workloads", "Workloads", "count"),
    ("instances", "Instances", "count"),
    (PROCESSORS, "vCPUs", "vCPU"),
    ("memory", "Memory", "MiB"),
];

/// The type that is counted in thousandths of a processor.
const PROCESSORS: &str = "vcpus";

/// The quota of a resource type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    type_: String,
    limit: Option<i64>,
    used: i64,
    /// `None` if neither the platform nor a limit tells.
    available: Option<i64>,
}

/// The quota of compute, in the order of rows. Several buckets of a type count together.
pub(crate) fn buckets(objects: &[Object]) -> Vec<Bucket> {
    let mut of: BTreeMap<(usize, &str), Bucket> = BTreeMap::new();
    for object in objects {
        let Some(type_) = object.text("/spec/resourceType").strip_prefix(GROUP) else {
            continue;
        };
        let number = |field: &str| object.0["status"][field].as_i64();
        let (limit, used) = (number("limit"), number("allocated").unwrap_or_default());
        // The rest of a limit is never negative.
        let left = limit.map(|limit| limit.saturating_sub(used).max(0));
        let available = number("available").or(left);
        let position = KNOWN.iter().position(|(known, ..)| *known == type_);
        let bucket = of.entry((position.unwrap_or(KNOWN.len()), type_)).or_default();
        type_.clone_into(&mut bucket.type_);
        bucket.limit = sum(bucket.limit, limit);
        bucket.used = bucket.used.saturating_add(used);
        bucket.available = sum(bucket.available, available);
    }
    of.into_values().collect()
}

/// The sum of two numbers, as far as they are known.
fn sum(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (known, None) | (None, known) => known,
    }
}

impl Bucket {
    /// True if it is known that nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.available.is_some_and(|available| available <= 0)
    }

    /// Name and unit for people.
    fn names(&self) -> (&str, &str) {
        let known = KNOWN.iter().find(|(type_, ..)| *type_ == self.type_);
        known.map_or((&*self.type_, "-"), |(_, name, unit)| (*name, *unit))
    }

    /// The cells of a row: resource, unit, limit, used, available, usage.
    pub(crate) fn cells(&self) -> Vec<String> {
        let (name, unit) = self.names();
        let text = |amount: i64| match &*self.type_ {
            PROCESSORS => thousandths(amount),
            _ => amount.to_string(),
        };
        vec![
            name.to_owned(),
            unit.to_owned(),
            self.limit.map(text).unwrap_or_default(),
            text(self.used),
            self.available.map(text).unwrap_or_default(),
            bar(self.used, self.limit.unwrap_or_default()),
        ]
    }

    /// The quota for programs, in the platform's units.
    pub(crate) fn object(&self) -> Value {
        let (name, unit) = self.names();
        json!({"resource": name, "unit": if self.type_ == PROCESSORS { "m" } else { unit },
            "limit": self.limit, "used": self.used, "available": self.available})
    }
}

/// `[####----------------]  20%`.
fn bar(used: i64, limit: i64) -> String {
    if limit <= 0 {
        return String::new();
    }
    let percent = i128::from(used.max(0)) * 100 / i128::from(limit);
    let filled = (i128::from(used.max(0)) * i128::from(CELLS) / i128::from(limit)).min(i128::from(CELLS));
    let filled = usize::try_from(filled).unwrap_or_default();
    let empty = usize::try_from(CELLS).unwrap_or_default() - filled;
    format!("[{}{}] {percent:>3}%", "#".repeat(filled), "-".repeat(empty))
}

/// Thousandths as a decimal number without zeros at its end.
fn thousandths(amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    let (whole, rest) = (amount.unsigned_abs() / 1000, amount.unsigned_abs() % 1000);
    if rest == 0 {
        return format!("{sign}{whole}");
    }
    let rest = format!("{rest:03}");
    format!("{sign}{whole}.{}", rest.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(type_: &str, status: &Value) -> Object {
        Object(json!({"spec": {"resourceType": type_}, "status": status}))
    }

    #[test]
    fn rows_have_an_order_and_units() {
        let all = buckets(&[
            bucket(
                "compute.datumapis.com/gpus",
                &json!({"limit": 1, "allocated": 1, "available": 0}),
            ),
            bucket(
                "compute.datumapis.com/memory",
                &json!({"limit": 4096, "allocated": 1024, "available": 3072}),
            ),
            bucket("dns.example.com/zones", &json!({"limit": 1})),
            bucket(
                "compute.datumapis.com/vcpus",
                &json!({"limit": 7500, "allocated": 1500, "available": 6000}),
            ),
            bucket(
                "compute.datumapis.com/instances",
                &json!({"limit": 0, "allocated": 0, "available": 0}),
            ),
        ]);
        let cells: Vec<String> = all.iter().map(|bucket| bucket.cells().join("|")).collect();
        assert_eq!(
            cells,
            [
                "Instances|count|0|0|0|",
                "vCPUs|vCPU|7.5|1.5|6|[####----------------]  20%",
                "Memory|MiB|4096|1024|3072|[#####---------------]  25%",
                "gpus|-|1|1|0|[####################] 100%",
            ]
        );
        let used_up: Vec<bool> = all.iter().map(Bucket::is_used_up).collect();
        assert_eq!(used_up, [true, false, false, true]);
    }

    #[test]
    fn a_limit_that_is_absent_is_not_guessed() {
        let all = buckets(&[bucket(
            "compute.datumapis.com/workloads",
            &json!({"allocated": 3}),
        )]);
        assert_eq!(all[0].cells()[2..], ["", "3", "", ""]);
        assert!(!all[0].is_used_up());
        assert_eq!(all[0].object()["available"], Value::Null);
    }

    #[test]
    fn what_is_left_of_a_limit_is_computed_without_overflow() {
        let of = |status: Value| {
            let all = buckets(&[bucket("compute.datumapis.com/workloads", &status)]);
            (all[0].cells()[2..5].join(" "), all[0].is_used_up())
        };
        assert_eq!(
            of(json!({"limit": 5, "allocated": 3})),
            ("5 3 2".to_owned(), false)
        );
        assert_eq!(
            of(json!({"limit": 5, "allocated": 7})),
            ("5 7 0".to_owned(), true)
        );
        let (min, max) = (i64::MIN, i64::MAX);
        assert_eq!(
            of(json!({"limit": max, "allocated": min})),
            (format!("{max} {min} {max}"), false)
        );
        assert_eq!(
            of(json!({"limit": min, "allocated": max})),
            (format!("{min} {max} 0"), true)
        );
    }

    #[test]
    fn a_use_above_the_limit_fills_the_bar_and_no_more() {
        assert_eq!(bar(3, 2), format!("[{}] 150%", "#".repeat(20)));
        assert_eq!(thousandths(1), "0.001");
        assert_eq!(thousandths(-1250), "-1.25");
    }
}
