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
    available: i64,
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
        let available = number("available").unwrap_or_else(|| limit.unwrap_or_default() - used);
        let bucket = of.entry(resource.clone()).or_insert(Bucket {
            resource,
            limit: None,
            used: 0,
            available: 0,
        });
        bucket.limit = match (bucket.limit, limit) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (limit, None) | (None, limit) => limit,
        };
        bucket.used = bucket.used.saturating_add(used);
        bucket.available = bucket.available.saturating_add(available);
    }
    of.into_values().collect()
}

impl Bucket {
    /// True if nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.available <= 0
    }

    /// The cells of a row: resource, unit, limit, used, available, usage.
    pub(crate) fn cells(&self) -> [String; 6] {
        let Self {
            resource,
            limit,
            used,
            available,
        } = self;
        [
            resource.name().to_owned(),
            resource.unit().to_owned(),
            limit.map(|limit| resource.amount(limit)).unwrap_or_default(),
            resource.amount(*used),
            resource.amount(*available),
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
        assert_eq!(all[0].cells()[2..], ["", "3", "-3", ""]);
    }

    #[test]
    fn a_use_above_the_limit_fills_the_bar_and_no_more() {
        assert_eq!(bar(3, 2), format!("[{}] 150%", "#".repeat(20)));
        assert_eq!(thousandths(1), "0.001");
        assert_eq!(thousandths(-1250), "-1.25");
    }
}
