//! The text about a Workload.

use super::{Lines, runtime};
use crate::{
    history::Active,
    rollout::{Phase, Row, once},
    time::age,
    view::{Counts, Health, HealthWord, Instances, Joined},
};
use jiff::Timestamp;
use serde_json::Value;

/// Describes a Workload.
pub(super) fn text(joined: &Joined, revision: Option<&Active>, now: Timestamp) -> String {
    let workload = &joined.workload;
    let counts: Counts = joined.deployments().map(Counts::of).sum();
    let health = Health::of(workload, counts);
    let runtime = &workload.0["spec"]["template"]["spec"]["runtime"];
    let mut lines = Lines::default();
    lines.field("Workload", workload.name());
    lines.field("Type", &runtime::kind(runtime));
    lines.field("Revision", &revision.map(Active::number).unwrap_or_default());
    let updated = workload
        .spec_written()
        .map(|time| format!("{} ago", age(time, now)));
    let by = revision.map(|revision| format!(" by {}", revision.by));
    lines.field(
        "Updated",
        &(updated.unwrap_or_default() + &by.unwrap_or_default()),
    );
    lines.field("Health", &health.to_string());
    let rows = once(joined, &Instances::default(), now);
    placements(&mut lines, joined, &rows);
    runtime::containers(&mut lines, runtime);
    lines.next_steps(&next_steps(joined, &health, &rows));
    lines.0
}

fn placements(lines: &mut Lines, joined: &Joined, rows: &[Row]) {
    let placements = joined.workload.list("/spec/placements");
    lines.line(if placements.is_empty() {
        "Placements: none"
    } else {
        "Placements:"
    });
    for placement in placements {
        let name = placement["name"].as_str().unwrap_or_default();
        lines.line(&format!(
            "  {name}  scale: {}",
            scale(&placement["scaleSettings"])
        ));
        for row in rows.iter().filter(|row| row.city.placement == name) {
            let Counts { ready, desired, .. } = row.counts;
            let blocked = match row.phase {
                Phase::Blocked => format!("  Blocked - {}", row.detail),
                Phase::Waiting => format!("  Waiting - {}", row.detail),
                Phase::Done | Phase::Draining | Phase::Pending | Phase::Updating => String::new(),
            };
            lines.line(&format!("    {}  {ready}/{desired}{blocked}", row.city.shown));
        }
    }
}

/// `min..max`, or `min` alone.
fn scale(settings: &Value) -> String {
    let minimum = settings["minReplicas"].as_i64().unwrap_or(1);
    match settings["maxReplicas"].as_i64() {
        Some(maximum) => format!("{minimum}..{maximum}"),
        None => minimum.to_string(),
    }
}

fn next_steps(joined: &Joined, health: &Health, rows: &[Row]) -> Vec<String> {
    let name = joined.workload.name();
    let mut steps = Vec::new();
    if joined.cities.is_empty() {
        steps.push("kubectl compute deploy -f FILE".to_owned());
        return steps;
    }
    if rows
        .iter()
        .any(|row| !matches!(row.phase, Phase::Done | Phase::Blocked))
    {
        steps.push(format!("kubectl compute rollout status {name}"));
    }
    let unserved = rows.iter().find(|row| row.is_unserved);
    if let Some(row) = unserved {
        steps.push(format!("kubectl compute trace {name} --city {}", row.city.shown));
    }
    if health.word != HealthWord::Available && health.word != HealthWord::Deleting {
        if unserved.is_none() {
            steps.push(format!("kubectl compute trace {name}"));
        }
        steps.push(format!("kubectl compute instances --workload {name}"));
    }
    steps
}
