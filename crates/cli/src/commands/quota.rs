//! `quota`: the limits of the project, their use, and the Instances that wait.

use crate::{
    args::QuotaArgs,
    error::{Error, Kind},
    output::{
        Output,
        table::{Cell, Table},
    },
    plane::{Plane, Resource, Scope},
    quota::{Bucket, CityRow, buckets, cities},
    view::Object,
};
use serde_json::{Value, json};

const LIMITS: &[&str] = &["RESOURCE", "UNIT", "LIMIT", "USED", "AVAILABLE", "USAGE"];
const CITIES: &[&str] = &["CITY", "TYPE", "INSTANCES", "WAITING", "REASON"];

/// Shows the quota.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &QuotaArgs) -> Result<(), Error> {
    let objects = plane.list_in(Resource::Buckets, Scope::All, "").await;
    let limits: Option<Vec<Object>> = match objects {
        Ok(objects) => Some(objects),
        Err(error) if matches!(error.kind, Kind::NotServed | Kind::Forbidden) => None,
        Err(error) => return Err(error),
    };
    let limits = limits.map(|objects| {
        let mut rows = buckets(&objects);
        rows.retain(|row| !args.constrained || row.is_used_up());
        rows
    });
    let shows_cities = args.by_city || limits.is_none();
    let waiting = if shows_cities {
        by_city(plane, args).await?
    } else {
        Vec::new()
    };
    if !output.is_text() {
        let limits = limits.map(|rows| rows.iter().map(Bucket::object).collect::<Vec<Value>>());
        let cities = shows_cities.then(|| waiting.iter().map(CityRow::object).collect::<Vec<Value>>());
        return output.object(
            &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Quota", "metadata": {"name": plane.project},
            "resources": limits, "cities": cities}),
        );
    }
    match &limits {
        Some(rows) if !args.by_city => {
            return print(output, plane, LIMITS, rows.iter().map(|row| row.cells().to_vec()));
        }
        Some(_) => {}
        None => output.say("Limits cannot be read here."),
    }
    print(
        output,
        plane,
        CITIES,
        waiting.iter().map(|row| row.cells().to_vec()),
    )
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
    output.table(&table, columns.len())
}
