//! Limits and use, from the platform's buckets.

use crate::view::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Beginning of the resource types of compute.
const GROUP: &str = "compute.datumapis.com/";

/// Number of cells of a bar.
const CELLS: i64 = 20;

/// The quota of a resource type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bucket {
    resource: Resource,
    limit: Option<i64>,
    used: i64,
    /// `None` if neither the platform nor a limit tells.
    available: Option<i64>,
}

/// A resource type, in the order of rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Workloads,
    Instances,
    /// Counted in thousandths of a processor.
    Processors,
    /// Counted in MiB.
    Memory,
    Other(String),
}

impl Resource {
    fn of(type_: &str) -> Option<Self> {
        Some(match type_.strip_prefix(GROUP)? {
            "workloads" => Self::Workloads,
            "instances" => Self::Instances,
            "vcpus" => Self::Processors,
            "memory" => Self::Memory,
            other => Self::Other(other.to_owned()),
        })
    }

    fn name(&self) -> &str {
        match self {
            Self::Workloads => "Workloads",
            Self::Instances => "Instances",
            Self::Processors => "vCPUs",
            Self::Memory => "Memory",
            Self::Other(name) => name,
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Self::Workloads | Self::Instances => "count",
            Self::Processors => "vCPU",
            Self::Memory => "MiB",
            Self::Other(_) => "-",
        }
    }

    fn amount(&self, amount: i64) -> String {
        match self {
            Self::Processors => thousandths(amount),
            Self::Workloads | Self::Instances | Self::Memory | Self::Other(_) => amount.to_string(),
        }
    }
}

/// The quota of compute, in the order of rows. Several buckets of a type count together.
pub(crate) fn buckets(objects: &[Object]) -> Vec<Bucket> {
    let mut of: BTreeMap<Resource, Bucket> = BTreeMap::new();
    for object in objects {
        let Some(resource) = Resource::of(object.text("/spec/resourceType")) else {
            continue;
        };
        let number = |field: &str| object.0["status"][field].as_i64();
        let (limit, used) = (number("limit"), number("allocated").unwrap_or_default());
        // The rest of a limit is never negative.
        let left = limit.map(|limit| limit.saturating_sub(used).max(0));
        let available = number("available").or(left);
        let bucket = of.entry(resource.clone()).or_insert(Bucket {
            resource,
            limit: None,
            used: 0,
            available: None,
        });
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

    /// The cells of a row: resource, unit, limit, used, available, usage.
    pub(crate) fn cells(&self) -> [String; 6] {
        let Self {
            resource,
            limit,
            used,
            available,
        } = self;
        let amount = |known: Option<i64>| known.map(|amount| resource.amount(amount)).unwrap_or_default();
        [
            resource.name().to_owned(),
            resource.unit().to_owned(),
            amount(*limit),
            resource.amount(*used),
            amount(*available),
            bar(*used, limit.unwrap_or_default()),
        ]
    }

    /// The quota for programs, in the platform's units.
    pub(crate) fn object(&self) -> Value {
        let Self {
            resource,
            limit,
            used,
            available,
        } = self;
        json!({"resource": resource.name(), "unit": if *resource == Resource::Processors { "m" } else { resource.unit() },
            "limit": limit, "used": used, "available": available})
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
