//! The claim granter of one project.

use super::{
    super::store::{Kind, Objects},
    Act, condition, say,
};
use fedgate_karmada::{Object, list};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// The kinds that the claim granter watches.
pub(in super::super) const KINDS: &[Kind] = &[Kind::ResourceClaim, Kind::Budgets];
/// The `ConfigMap` with the project's budgets: its data keys are the last parts of resource types.
pub(in super::super) const BUDGETS: (&str, &str) = ("default", "sandbox-budgets");

/// The amount of a type that the project may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Budget {
    Unlimited,
    /// The budget is not a number, e.g. `none`: claims wait.
    Missing,
    Limit(i64),
}

/// The amount of one type that a claim requests.
struct Request<'a> {
    type_: &'a str,
    amount: i64,
}

impl<'a> Request<'a> {
    /// The last part of its type: `vcpus` of `compute.datumapis.com/vcpus`.
    fn word(&self) -> &'a str {
        self.type_.rsplit('/').next().unwrap_or(self.type_)
    }
}

/// Decides all open claims, oldest first. A decision stands until the claim is deleted.
pub(in super::super) fn decide(objects: &Objects, now: Timestamp) -> Vec<Act> {
    let budgets = objects
        .get(Kind::Budgets, BUDGETS.0, BUDGETS.1)
        .map_or(&Value::Null, |map| &map["data"]);
    if budgets["stall"] == "true" {
        return Vec::new();
    }
    let mut open: Vec<&Value> = objects
        .all(Kind::ResourceClaim)
        .filter(|claim| is_open(claim) && !claim.is_deleting())
        .collect();
    if open.is_empty() {
        return Vec::new();
    }
    open.sort_by_key(|claim| {
        let created = claim["metadata"]["creationTimestamp"].as_str();
        (created, claim.name(), claim.namespace())
    });
    let mut used = BTreeMap::new();
    for claim in objects.all(Kind::ResourceClaim) {
        for request in requests(claim).filter(|request| is_allocated(claim, request.type_)) {
            add(&mut used, &request);
        }
    }
    open.into_iter()
        .filter_map(|claim| judge(claim, budgets, &mut used, now))
        .collect()
}

fn is_open(claim: &Value) -> bool {
    match condition(claim, "Granted") {
        None | Some(("Unknown", _) | ("False", "PendingEvaluation")) => true,
        Some(_) => false,
    }
}

fn budget(budgets: &Value, word: &str) -> Budget {
    match budgets[word].as_str().map(str::trim) {
        None => Budget::Unlimited,
        Some(text) => text.parse().map_or(Budget::Missing, Budget::Limit),
    }
}

fn requests(claim: &Value) -> impl Iterator<Item = Request<'_>> {
    list(&claim["spec"]["requests"]).iter().filter_map(|request| {
        Some(Request {
            type_: request["resourceType"].as_str()?,
            amount: request["amount"].as_i64()?,
        })
    })
}

fn is_allocated(claim: &Value, type_: &str) -> bool {
    list(&claim["status"]["allocations"])
        .iter()
        .any(|allocation| allocation["resourceType"] == type_ && allocation["status"] == "Granted")
}

fn add(used: &mut BTreeMap<String, i64>, request: &Request<'_>) {
    let sum = used.entry(request.type_.to_owned()).or_default();
    *sum = sum.saturating_add(request.amount);
}

/// Grants or denies each type separately: a denied claim keeps the types that it was granted, as in Milo.
fn judge(claim: &Value, budgets: &Value, used: &mut BTreeMap<String, i64>, now: Timestamp) -> Option<Act> {
    if requests(claim).any(|request| budget(budgets, request.word()) == Budget::Missing) {
        return None;
    }
    let (mut allocations, mut over) = (Vec::new(), Vec::new());
    for request in requests(claim) {
        let have = used.get(request.type_).copied().unwrap_or_default();
        let fits = match budget(budgets, request.word()) {
            Budget::Limit(limit) => have.saturating_add(request.amount) <= limit,
            Budget::Unlimited | Budget::Missing => true,
        };
        if fits {
            add(used, &request);
            allocations.push(json!({"resourceType": request.type_, "status": "Granted"}));
        } else {
            over.push(request.word());
            let message = format!("{} over limit", request.word());
            allocations.push(json!({"resourceType": request.type_, "status": "Denied", "message": message}));
        }
    }
    let denial = format!("{} over limit", over.join(", "));
    let granted = if over.is_empty() {
        ("Granted", true, "QuotaAvailable", "the project's budgets suffice")
    } else {
        ("Granted", false, "QuotaExceeded", denial.as_str())
    };
    let mut fields = Map::new();
    fields.insert("allocations".to_owned(), Value::Array(allocations));
    say(Kind::ResourceClaim, claim, &[granted], fields, now)
}
