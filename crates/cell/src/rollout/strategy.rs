//! The strategy of a rollout: `scaleSettings.rollout` with its percentages and defaults resolved (contract: serving.md §3).

use fedgate_api::RolloutSettings;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How Instances are replaced if the template changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutStrategy {
    /// Instances beyond the wanted number.
    pub max_surge: u32,
    /// Instances of the wanted number that may be unavailable; at least 1 without surge.
    pub max_unavailable: u32,
    /// Time for which an Instance is ready before it counts as available.
    pub min_ready: SignedDuration,
    /// Time without progress after which the rollout has failed.
    pub deadline: SignedDuration,
    /// True if no Instance is replaced and no surge is created.
    pub paused: bool,
    /// True if a rollout that exceeds its deadline returns to the last template whose rollout completed.
    pub undo_on_failure: bool,
}

impl RolloutStrategy {
    /// Resolves the settings of a deployment of `replicas` Instances. A negative number, or text that is no percentage, counts as 0.
    /// `max_surge` and `max_unavailable` are at most `replicas`. Other bounds are not checked, because the definition of Workload
    /// has them.
    pub fn of(settings: &RolloutSettings, replicas: u32, has_disk: bool) -> Self {
        let default_surge = IntOrString::Int(i32::from(!has_disk));
        let surge = settings.max_surge.as_ref().unwrap_or(&default_surge);
        let max_surge = scaled_value(surge, replicas, u64::div_ceil).min(replicas);
        let unavailable = settings.max_unavailable.as_ref();
        let max_unavailable = unavailable.map_or(0, |number| {
            scaled_value(number, replicas, |dividend, divisor| dividend / divisor).min(replicas)
        });
        let seconds = |seconds: i32| SignedDuration::from_secs(i64::from(seconds.max(0)));
        let deadline = settings.progress_deadline_seconds;
        Self {
            max_surge,
            max_unavailable: if max_surge == 0 {
                max_unavailable.max(1)
            } else {
                max_unavailable
            },
            min_ready: seconds(settings.min_ready_seconds.unwrap_or_default()),
            deadline: seconds(deadline.unwrap_or(RolloutSettings::PROGRESS_DEADLINE_SECONDS)),
            paused: settings.paused,
            undo_on_failure: settings.on_failure.as_deref() == Some(RolloutSettings::UNDO),
        }
    }
}

/// The number, or the percentage of `whole`; 0 for text that is no percentage.
fn scaled_value(number: &IntOrString, whole: u32, round: fn(u64, u64) -> u64) -> u32 {
    match number {
        IntOrString::Int(number) => u32::try_from(*number).unwrap_or_default(),
        IntOrString::String(text) => {
            let percent: u64 = text
                .strip_suffix('%')
                .and_then(|text| text.parse().ok())
                .unwrap_or_default();
            let share = round(u64::from(whole).saturating_mul(percent), 100);
            u32::try_from(share).unwrap_or(u32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Surge and unavailable Instances of a deployment.
    fn limits(settings: Value, replicas: u32, has_disk: bool) -> (u32, u32) {
        let settings = serde_json::from_value(settings).unwrap();
        let strategy = RolloutStrategy::of(&settings, replicas, has_disk);
        (strategy.max_surge, strategy.max_unavailable)
    }

    #[test]
    fn defaults_and_percentages_are_resolved_as_kubernetes_does() {
        for (settings, replicas, expected) in [
            (json!({}), 3, (1, 0)),
            (json!({"maxSurge": 0}), 3, (0, 1)),
            (json!({"maxSurge": "25%", "maxUnavailable": "25%"}), 10, (3, 2)),
            (json!({"maxSurge": "10%"}), 1, (1, 0)),
            (json!({"maxSurge": 5}), 2, (2, 0)),
            (json!({"maxSurge": 0, "maxUnavailable": "100%"}), 4, (0, 4)),
            (json!({"maxUnavailable": 2}), 4, (1, 2)),
            (json!({"maxSurge": -1, "maxUnavailable": "x"}), 4, (0, 1)),
            (json!({}), 0, (0, 1)),
        ] {
            assert_eq!(limits(settings.clone(), replicas, false), expected, "{settings}");
        }
        assert_eq!(limits(json!({}), 3, true), (0, 1), "a disk is not doubled");
        let times =
            json!({"minReadySeconds": 5, "progressDeadlineSeconds": 60, "paused": true, "onFailure": "Undo"});
        let strategy = RolloutStrategy::of(&serde_json::from_value(times).unwrap(), 1, false);
        assert_eq!(strategy.min_ready, SignedDuration::from_secs(5));
        assert_eq!(strategy.deadline, SignedDuration::from_secs(60));
        assert!(strategy.paused && strategy.undo_on_failure);
    }
}
