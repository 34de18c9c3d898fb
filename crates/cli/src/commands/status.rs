//! `status`: a Workload's placements and cities.

use crate::{
    error::Error,
    output::{
        Format, Output,
        table::{Cell, Table},
        write,
    },
    plane::{Compute, Plane},
    view::{Counts, Health, join},
};
use serde_json::json;
use std::io;

const COLUMNS: &[&str] = &["PLACEMENT", "CITY", "READY", "UP-TO-DATE", "REASON"];

/// Shows a Workload.
pub(crate) async fn run(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    let (workload, deployments) = tokio::try_join!(plane.workload(name), plane.list(Compute::Deployments))?;
    let Some(joined) = join(vec![workload], deployments).pop() else {
        return Ok(());
    };
    let counts: Counts = joined.deployments().map(Counts::of).sum();
    let health = Health::of(&joined.workload, counts);
    let rows = joined.cities.iter().map(|(city, deployment)| {
        let counts = deployment.as_ref().map(Counts::of).unwrap_or_default();
        let available = deployment.as_ref().and_then(|d| d.condition("Available"));
        let reason = available
            .filter(|c| !c.holds())
            .map(|c| c.reason)
            .unwrap_or_default();
        (city, counts, reason)
    });
    if !matches!(output.format, Format::Table | Format::Wide) {
        let cities = rows.map(|(city, counts, reason)| {
            json!({"placement": city.placement, "city": city.city, "ready": counts.ready,
                "updated": counts.updated, "desired": counts.desired, "reason": reason})
        });
        let status = json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Status", "metadata": {"name": name},
            "health": health.word.word(), "message": health.detail, "cities": cities.collect::<Vec<_>>()});
        return output.object(&status);
    }
    let mut table = Table::new(COLUMNS);
    for (
        city,
        Counts {
            updated,
            ready,
            desired,
            ..
        },
        reason,
    ) in rows
    {
        table.row(vec![
            (&*city.placement).into(),
            (&*city.city).into(),
            format!("{ready}/{desired}").into(),
            format!("{updated}/{desired}").into(),
            Cell::from(reason),
        ]);
    }
    let colour = output.color.applies(&io::stdout());
    let head = format!("Workload  {}\nHealth    {health}\n\n", joined.workload.name());
    let text = head + &table.text(COLUMNS.len(), output.headers, colour);
    write(&text)
}
