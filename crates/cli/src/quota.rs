//! The project's quota of compute, and the Instances that wait for it (contract: cli.md §3).

use crate::{
    args::QuotaArgs,
    error::{Error, Kind},
    output::{
        Output,
        table::{Cell, Table},
        write,
    },
    plane::{Plane, Resource},
    view::{Home, Index, Object},
};
use fedgate_api::conditions::types::QUOTA_GRANTED;
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
struct Bucket {
    type_: String,
    limit: Option<i64>,
    used: i64,
    /// `None` if neither the platform nor a limit tells.
    available: Option<i64>,
}

/// The quota of compute, in the order of rows. Several buckets of a type count together.
fn buckets(objects: &[Object]) -> Vec<Bucket> {
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
    fn is_used_up(&self) -> bool {
        self.available.is_some_and(|available| available <= 0)
    }

    /// Name and unit for people.
    fn names(&self) -> (&str, &str) {
        let known = KNOWN.iter().find(|(type_, ..)| *type_ == self.type_);
        known.map_or((&*self.type_, "-"), |(_, name, unit)| (*name, *unit))
    }

    /// The cells of a row: resource, unit, limit, used, available, usage.
    fn cells(&self) -> Vec<String> {
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
    fn object(&self) -> Value {
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

/// The Instances of a city and type.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CityRow {
    city: String,
    type_: String,
    instances: usize,
    /// Instances whose quota was asked for and not granted.
    waiting: usize,
    /// The most frequent reason of the refusals.
    reason: String,
}

/// Counts Instances by city and type.
fn cities(instances: &[Object], deployments: &[Object]) -> Vec<CityRow> {
    let mut of: BTreeMap<(String, String), (usize, Vec<&str>)> = BTreeMap::new();
    let index = Index::new(&[], deployments).with_instances(instances);
    for instance in instances {
        let type_ = instance.instance_type().rsplit('/').next().unwrap_or_default();
        let key = (Home::of(instance, &index).city, type_.to_owned());
        let (number, reasons) = of.entry(key).or_default();
        *number += 1;
        let quota = instance.condition(QUOTA_GRANTED).filter(|quota| !quota.holds());
        reasons.extend(quota.map(|quota| quota.reason));
    }
    let rows = of
        .into_iter()
        .map(|((city, type_), (instances, reasons))| CityRow {
            city,
            type_,
            instances,
            waiting: reasons.len(),
            reason: most_frequent(&reasons),
        });
    rows.collect()
}

fn most_frequent(reasons: &[&str]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(reason, _)| reason.to_owned()).unwrap_or_default()
}

impl CityRow {
    /// The cells of a row: city, type, instances, waiting, reason.
    fn cells(&self) -> Vec<String> {
        vec![
            self.city.clone(),
            self.type_.clone(),
            self.instances.to_string(),
            self.waiting.to_string(),
            self.reason.clone(),
        ]
    }

    /// The counts for programs.
    fn object(&self) -> Value {
        json!({"city": self.city, "type": self.type_, "instances": self.instances, "waiting": self.waiting,
            "reason": self.reason})
    }
}

const LIMITS: &[&str] = &["RESOURCE", "UNIT", "LIMIT", "USED", "AVAILABLE", "USAGE"];
const CITIES: &[&str] = &["CITY", "TYPE", "INSTANCES", "WAITING", "REASON"];

/// Shows the quota.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &QuotaArgs) -> Result<(), Error> {
    let mut limits = match plane.list_all(Resource::Buckets).await {
        Ok(objects) => Some(buckets(&objects)),
        Err(error) if matches!(error.kind, Kind::NotServed | Kind::Forbidden) => None,
        Err(error) => return Err(error),
    };
    if let Some(rows) = &mut limits {
        rows.retain(|row| !args.constrained || row.is_used_up());
    }
    let cities = if args.by_city || limits.is_none() {
        Some(by_city(plane, args).await?)
    } else {
        None
    };
    if !output.is_text() {
        let limits = limits.map(|rows| rows.iter().map(Bucket::object).collect::<Vec<_>>());
        let cities = cities.map(|rows| rows.iter().map(CityRow::object).collect::<Vec<_>>());
        return output.object(
            &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Quota", "metadata": {"name": plane.project},
            "resources": limits, "cities": cities}),
        );
    }
    if limits.is_none() {
        output.say("Limits cannot be read here.");
    }
    match cities {
        Some(rows) => print(output, plane, CITIES, rows.iter().map(CityRow::cells)),
        None => print(output, plane, LIMITS, limits.iter().flatten().map(Bucket::cells)),
    }
}

async fn by_city(plane: &Plane, args: &QuotaArgs) -> Result<Vec<CityRow>, Error> {
    let (instances, deployments) =
        tokio::try_join!(plane.list(Resource::Instances), plane.list(Resource::Deployments))?;
    let mut rows = cities(&instances, &deployments);
    rows.retain(|row| !args.constrained || row.waiting > 0);
    Ok(rows)
}

fn print(
    output: &Output,
    plane: &Plane,
    columns: &'static [&'static str],
    rows: impl Iterator<Item = Vec<String>>,
) -> Result<(), Error> {
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row.into_iter().map(Cell::from).collect());
    }
    if table.is_empty() {
        output.say(&format!("No quota of project {} matches.", plane.project));
        return Ok(());
    }
    write(&output.table_text(&table, columns.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::keys;

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

    #[test]
    fn instances_that_wait_are_counted_with_their_most_frequent_reason() {
        let instance = |city: &str, quota: Option<(&str, &str)>| {
            let conditions = quota.map(|(status, reason)| {
                vec![json!({"type": "QuotaGranted", "status": status, "reason": reason})]
            });
            Object(json!({"kind": "Instance",
                "metadata": {"name": "x-0", "labels": {keys::INSTANCE_CITY_CODE: city}},
                "spec": {"runtime": {"resources": {"instanceType": "datumcloud/d1"}}},
                "status": {"conditions": conditions.unwrap_or_default()}}))
        };
        let rows = cities(
            &[
                instance("LHR", None),
                instance("DFW", Some(("False", "QuotaExceeded"))),
                instance("DFW", Some(("Unknown", "PendingEvaluation"))),
                instance("DFW", Some(("False", "QuotaExceeded"))),
                instance("DFW", Some(("True", "QuotaAvailable"))),
            ],
            &[],
        );
        let cells: Vec<String> = rows.iter().map(|row| row.cells().join("|")).collect();
        assert_eq!(cells, ["DFW|d1|4|3|QuotaExceeded", "LHR|d1|1|0|"]);
    }
}
