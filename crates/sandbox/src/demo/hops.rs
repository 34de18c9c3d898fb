//! When each step on the way from the tenant to running Instances and back was seen, as a table.

use super::{
    journal::{Change, Seen},
    kinds::{CONFIG_MAP, DEPLOYMENT, INSTANCE, Kind, POD, SECRET, WORKLOAD},
    tenant::PROJECT,
    words::is_true,
};
use serde_json::Value;
use std::{fmt::Write, time::Instant};

const TITLE: &str = "seconds since the tenant's action, for Instance";

/// An Instance whose way is shown.
pub(super) struct Way<'a> {
    pub(super) workload: &'a str,
    pub(super) config_map: &'a str,
    pub(super) secret: &'a str,
    pub(super) cell: &'a str,
    pub(super) deployment: &'a str,
    pub(super) ordinal: u64,
}

/// An object that must be as said: plane, kind, name, test.
type Awaited<'a> = (&'a str, &'static Kind, String, fn(&Value) -> bool);

/// A step: what it is called, and what it awaits.
struct Hop<'a> {
    title: &'static str,
    awaited: Vec<Awaited<'a>>,
}

impl<'a> Way<'a> {
    fn instance(&self) -> String {
        format!("{}-{}", self.deployment, self.ordinal)
    }

    fn hops(&self) -> Vec<Hop<'a>> {
        let there: fn(&Value) -> bool = |_| true;
        let hop = |title, awaited| Hop { title, awaited };
        let deployment = |plane| vec![(plane, &DEPLOYMENT, self.deployment.to_owned(), there)];
        let companions = |plane| {
            vec![
                (plane, &CONFIG_MAP, self.config_map.to_owned(), there),
                (plane, &SECRET, self.secret.to_owned(), there),
            ]
        };
        let instance = |plane, test| vec![(plane, &INSTANCE, self.instance(), test)];
        let pod = |test| vec![(self.cell, &POD, self.instance(), test)];
        let ready: fn(&Value) -> bool = |object| is_true(object, "Ready");
        vec![
            hop(
                "project  Workload",
                vec![(PROJECT, &WORKLOAD, self.workload.to_owned(), there)],
            ),
            hop("project  WorkloadDeployment of the city", deployment(PROJECT)),
            hop("hub      ConfigMap and Secret", companions("hub")),
            hop("hub      WorkloadDeployment", deployment("hub")),
            hop("cell     WorkloadDeployment", deployment(self.cell)),
            hop("cell     ConfigMap and Secret", companions(self.cell)),
            hop("cell     Instance", instance(self.cell, there)),
            hop(
                "cell     its network is ready",
                instance(self.cell, |i| !gated(i, Some("Network"))),
            ),
            hop(
                "cell     its quota is granted",
                instance(self.cell, |i| is_true(i, "QuotaGranted")),
            ),
            hop(
                "cell     no gate is left",
                instance(self.cell, |i| !gated(i, None)),
            ),
            hop("cell     Pod", pod(there)),
            hop("cell     Pod is Ready", pod(ready)),
            hop("cell     Instance is Ready", instance(self.cell, ready)),
            hop("hub      Instance is Ready", instance("hub", ready)),
            hop("project  Instance is Ready", instance(PROJECT, ready)),
        ]
    }
}

/// Whether the Instance has this scheduling gate, or any.
fn gated(instance: &Value, gate: Option<&str>) -> bool {
    let gates = instance["spec"]["controller"]["schedulingGates"].as_array();
    gates
        .into_iter()
        .flatten()
        .any(|found| gate.is_none_or(|gate| found["name"] == gate))
}

/// The moment from which on all that the hop awaits had been seen.
fn first(hop: &Hop<'_>, changes: &[Change]) -> Option<Instant> {
    let firsts = hop.awaited.iter().map(|(plane, kind, name, test)| {
        let of = |change: &&Change| change.of(plane, kind, name).is_some_and(test);
        changes.iter().find(of).map(|change| change.at)
    });
    firsts
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.into_iter().max())
}

/// The table; a step that was not seen has a dash.
pub(super) fn table(seen: &Seen, since: Instant, ways: &[Way<'_>]) -> String {
    let columns: Vec<(String, Vec<String>)> = ways
        .iter()
        .map(|way| {
            let times = way.hops().into_iter().map(|hop| {
                first(&hop, seen.changes()).map_or_else(
                    || "-".to_owned(),
                    |at| format!("{:.3}", at.duration_since(since).as_secs_f64()),
                )
            });
            (way.instance(), times.collect())
        })
        .collect();
    let titles: Vec<&str> = ways
        .first()
        .map(|way| way.hops().iter().map(|hop| hop.title).collect())
        .unwrap_or_default();
    print(&titles, &columns)
}

fn print(titles: &[&str], columns: &[(String, Vec<String>)]) -> String {
    let width = titles
        .iter()
        .map(|title| title.len())
        .chain([TITLE.len()])
        .max()
        .unwrap_or_default();
    let mut out = format!("{TITLE:<width$}");
    for (name, _) in columns {
        let _ = write!(out, "  {name}");
    }
    for (row, title) in titles.iter().enumerate() {
        let _ = write!(out, "\n{title:<width$}");
        for (name, times) in columns {
            let _ = write!(out, "  {:>1$}", times[row], name.len());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{TITLE, gated, print};
    use serde_json::json;

    #[test]
    fn times_stand_under_their_instances() {
        let columns = [
            ("web-0".to_owned(), vec!["0.100".to_owned(), "-".to_owned()]),
            (
                "longer-0".to_owned(),
                vec!["12.345".to_owned(), "0.001".to_owned()],
            ),
        ];
        let width = TITLE.len();
        let expected = format!(
            "{TITLE}  web-0  longer-0\n{:<width$}  0.100    12.345\n{:<width$}      -     0.001",
            "a", "b"
        );
        assert_eq!(print(&["a", "b"], &columns), expected);
    }

    #[test]
    fn a_gate_is_found_by_its_name() {
        let instance = json!({"spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}});
        assert!(gated(&instance, None) && gated(&instance, Some("Quota")));
        assert!(!gated(&instance, Some("Network")));
        assert!(!gated(&json!({}), None));
    }
}
