//! The quota system's part: claims are granted within a budget, and what was decided stays decided.

use super::{Clock, holds, is_going, text};
use crate::cell::planes::HOME;
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;

/// A decision takes this long.
const DELAY: Duration = Duration::from_millis(50);
const KIND: &str = "ResourceClaim";

pub(super) async fn act(project: Plane, mut budget: watch::Receiver<usize>, clock: Clock) {
    let mut changed = project.changed();
    loop {
        tokio::time::sleep(DELAY).await;
        let claims = project.list(KIND);
        let mut granted = claims.iter().filter(|claim| holds(claim, "Granted")).count();
        for claim in claims
            .iter()
            .filter(|claim| is_undecided(claim) && !is_going(claim))
        {
            let condition = if granted < *budget.borrow_and_update() {
                granted += 1;
                clock.condition("Granted", true, "QuotaAvailable", "quota is available")
            } else {
                clock.condition("Granted", false, "QuotaExceeded", "instances over limit")
            };
            let status = json!({"status": {"conditions": [condition]}});
            project
                .merge_status(KIND, HOME, text(claim, "name"), status)
                .unwrap();
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn is_undecided(claim: &Value) -> bool {
    let conditions = claim["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.all(|c| c["type"] != "Granted" || c["reason"] == "PendingEvaluation")
}
