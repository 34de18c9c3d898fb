//! The Instances of each city and type, and those that wait for quota.

use crate::view::{Home, Index, Object};
use fedgate_api::conditions::types::QUOTA_GRANTED;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The Instances of a city and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CityRow {
    city: String,
    type_: String,
    instances: usize,
    /// Instances whose quota was asked for and not granted.
    pub(crate) waiting: usize,
    /// The most frequent reason of the refusals.
    reason: String,
}

/// Counts Instances by city and type.
pub(crate) fn cities(instances: &[Object], deployments: &[Object]) -> Vec<CityRow> {
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
    pub(crate) fn cells(&self) -> Vec<String> {
        vec![
            self.city.clone(),
            self.type_.clone(),
            self.instances.to_string(),
            self.waiting.to_string(),
            self.reason.clone(),
        ]
    }

    /// The counts for programs.
    pub(crate) fn object(&self) -> Value {
        json!({"city": self.city, "type": self.type_, "instances": self.instances, "waiting": self.waiting,
            "reason": self.reason})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::keys;

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
