//! `quota`: the limits of the project, their use, and the Instances that wait.

use crate::{
    args::QuotaArgs,
    error::{Error, Kind},
    output::{
        Output,
        table::{Cell, Table},
        write,
    },
    plane::{Plane, Resource},
    quota::{Bucket, CityRow, buckets, cities},
};
use serde_json::json;

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
