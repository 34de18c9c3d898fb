//! Recovery: replaces a Pod that has ended, first at once and then after increasing pauses (contract: cell.md §9). The
//! state is an annotation of the Instance, so it survives a restart of the cell.

use super::report::{containers, is_ready};
use fedgate_engine::{backoff::Backoff, clock::Now, object::entries};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Pauses before the second and further replacements.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_mins(10));
/// Time that a node has to restart a container that has ended.
const RESTART_WITHIN: Duration = Duration::from_secs(10);
/// Time that a Pod must be ready before its recovery state is cleared.
const READY_FOR: Duration = Duration::from_mins(10);
/// Interval between retries for a name that another object holds.
pub const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Pause between the deletion of an ended Pod and the creation of its successor.
pub const SUCCESSOR_AFTER: Duration = Duration::from_secs(2);

/// Recovery state: annotation `fedgate.dev/recovery`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryState {
    /// Number of Pods replaced so far.
    pub attempts: u32,
    /// Earliest time of the next replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

impl RecoveryState {
    /// Parses the annotation; malformed text gives the default state.
    pub fn parse(annotation: Option<&str>) -> Self {
        annotation
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Remaining pause. A time further ahead than the maximum pause comes from a wrong clock and is ignored.
    fn left(&self, now: Timestamp) -> Option<Duration> {
        let left = Duration::try_from(self.not_before?.duration_since(now)).ok()?;
        (!left.is_zero() && left <= BACKOFF.max).then_some(left)
    }

    fn next(&self, now: Timestamp) -> Self {
        Self {
            attempts: self.attempts.saturating_add(1),
            not_before: now.checked_add(BACKOFF.delay(self.attempts, ())).ok(),
        }
    }
}

/// First observation of a Pod's container ends, of its readiness and of its deletion, by this process's clock. Timestamps in
/// a Pod come from its node, whose clock may be wrong: they only distinguish one event from another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations(BTreeMap<String, Instant>);

impl Observations {
    /// Records the events of a Pod; drops events that the Pod no longer reports.
    pub fn record(&mut self, events: Vec<String>, now: Instant) {
        self.0.retain(|event, _| events.contains(event));
        for event in events {
            self.0.entry(event).or_insert(now);
        }
    }

    /// Remaining part of a span since an event was first observed.
    pub fn left(&self, event: &str, span: Duration, now: Instant) -> Duration {
        let since = self.0.get(event).copied().unwrap_or(now);
        span.saturating_sub(now.saturating_duration_since(since))
    }
}

/// Identifies the ends of a Pod's containers, and its readiness.
pub fn events(pod: &Value) -> impl Iterator<Item = String> {
    let ends = containers(pod).filter_map(end);
    ends.chain(is_ready(pod).then(|| readiness(pod)))
}

/// Identifies the end of a container that has not been restarted.
fn end(container: &Value) -> Option<String> {
    let terminated = &container["state"]["terminated"];
    let (name, restarts) = (&container["name"], &container["restartCount"]);
    let finished = &terminated["finishedAt"];
    terminated
        .is_object()
        .then(|| format!("end of {name} after {restarts} restarts at {finished}"))
}

fn readiness(pod: &Value) -> String {
    let mut conditions = entries(&pod["status"]["conditions"]).iter();
    let ready = conditions.find(|c| c["type"] == "Ready");
    let since = ready.map(|c| c["lastTransitionTime"].to_string());
    format!("ready since {}", since.unwrap_or_default())
}

/// The next recovery step for a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// No step.
    None,
    /// Reconcile again after this time.
    Wait(Duration),
    /// Write this state, then delete the Pod.
    Replace(RecoveryState),
    /// Clear the recovery state.
    Forget,
}

/// Decides the step for a Pod of an Instance that is neither suspended nor being deleted.
pub fn decide(pod: &Value, state: &RecoveryState, seen: &Observations, now: Now) -> Recovery {
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Recovery::None;
    }
    match ended(pod, seen, now.instant) {
        Some(Duration::ZERO) => match state.left(now.wall) {
            Some(left) => Recovery::Wait(left),
            None => Recovery::Replace(state.next(now.wall)),
        },
        Some(left) => Recovery::Wait(left),
        None if *state == RecoveryState::default() || !is_ready(pod) => Recovery::None,
        None => match seen.left(&readiness(pod), READY_FOR, now.instant) {
            Duration::ZERO => Recovery::Forget,
            left => Recovery::Wait(left),
        },
    }
}

/// True if the whole Pod has ended: its node restarts no container.
pub fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// Time left for the node to restart a container of the Pod, zero if the Pod needs a successor now; `None` if no
/// container has ended.
fn ended(pod: &Value, seen: &Observations, now: Instant) -> Option<Duration> {
    if is_over(pod) {
        return Some(Duration::ZERO);
    }
    let ends = containers(pod).filter_map(end);
    ends.map(|end| seen.left(&end, RESTART_WITHIN, now)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn failed() -> Value {
        json!({"status": {"phase": "Failed"}})
    }

    fn state(attempts: u32, not_before: i64) -> RecoveryState {
        RecoveryState {
            attempts,
            not_before: Some(at(not_before)),
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn now(second: i64) -> Now {
        Now {
            wall: at(second),
            instant: Instant::now(),
        }
    }

    /// The decision for a Pod without earlier observations.
    fn decided(pod: &Value, state: &RecoveryState, second: i64) -> Recovery {
        decide(pod, state, &Observations::default(), now(second))
    }

    #[test]
    fn the_first_replacement_comes_at_once_and_the_next_after_pauses_that_double() {
        let mut state = RecoveryState::default();
        let mut now = 0;
        for pause in [30, 60, 120, 240, 480, 600, 600] {
            let Recovery::Replace(next) = decided(&failed(), &state, now) else {
                panic!("after {now} s: {state:?}");
            };
            assert_eq!(next.not_before, Some(at(now + pause)));
            assert_eq!(
                decided(&failed(), &next, now + 1),
                Recovery::Wait(seconds(pause.unsigned_abs() - 1))
            );
            (state, now) = (next, now + pause);
        }
        assert_eq!(state.attempts, 7);
        let written = serde_json::to_string(&state).unwrap();
        assert_eq!(
            RecoveryState::parse(Some(&written)),
            state,
            "a restart of the cell keeps it"
        );
    }

    #[test]
    fn clocks_that_jump_hold_nothing_up() {
        let far = state(3, 3600);
        assert_eq!(decided(&failed(), &far, 0), Recovery::Replace(state(4, 240)));
        assert_eq!(
            decided(&failed(), &state(3, -3600), 0),
            Recovery::Replace(state(4, 240))
        );
    }

    /// Replacement times of a Pod that fails at once, in seconds on a monotonic clock, over 1.5 hours. The wall clock
    /// jumps by `jump` during a pause.
    fn replacements(jump: i64) -> Vec<i64> {
        let (mut state, mut replaced) = (RecoveryState::default(), Vec::new());
        for second in 0..5400 {
            let wall = second + if second < 1200 { 0 } else { jump };
            if let Recovery::Replace(next) = decided(&failed(), &state, wall) {
                replaced.push(second);
                state = next;
            }
        }
        replaced
    }

    #[test]
    fn a_wall_clock_that_jumps_ends_one_pause_and_brings_no_burst() {
        let before = [0, 30, 90, 210, 450, 930];
        let calm = [1530, 2130, 2730, 3330, 3930, 4530, 5130];
        assert_eq!(replacements(0), [&before[..], &calm].concat());
        let jumped = [1200, 1800, 2400, 3000, 3600, 4200, 4800];
        for jump in [3600, -3600] {
            assert_eq!(replacements(jump), [&before[..], &jumped].concat(), "{jump}");
        }
        // After this backward jump the longest pause has yet to pass.
        assert_eq!(replacements(-270), [&before[..], &jumped[1..]].concat());
    }

    #[test]
    fn a_node_has_ten_seconds_by_our_clock_whatever_its_own_says() {
        let ended = |finished: i64| {
            json!({"status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "restartCount": 3,
                    "state": {"terminated": {"exitCode": 0, "finishedAt": at(finished).to_string()}}}]}})
        };
        for finished in [0, 3600, -3600] {
            let (pod, mut seen, first) = (ended(finished), Observations::default(), now(0));
            let mut decided = |after: u64| {
                let mut now = first;
                now.instant += seconds(after);
                seen.record(events(&pod).collect(), now.instant);
                decide(&pod, &RecoveryState::default(), &seen, now)
            };
            assert_eq!(decided(0), Recovery::Wait(seconds(10)));
            assert_eq!(decided(4), Recovery::Wait(seconds(6)));
            assert_eq!(decided(10), Recovery::Replace(state(1, 30)));
            // A later end is a different event.
            let again = ended(finished + 20);
            seen.record(events(&again).collect(), first.instant + seconds(20));
            assert_eq!(seen.0.len(), 1);
        }
    }

    #[test]
    fn a_clean_end_is_an_end() {
        let succeeded = json!({"status": {"phase": "Succeeded"}});
        assert_eq!(
            decided(&succeeded, &RecoveryState::default(), 0),
            Recovery::Replace(state(1, 30))
        );
        let mut going = failed();
        going["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
        assert_eq!(decided(&going, &RecoveryState::default(), 0), Recovery::None);
    }

    #[test]
    fn the_past_is_forgotten_after_ten_minutes_of_readiness() {
        let ready = json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at(0).to_string()}]}});
        let mut seen = Observations::default();
        let first = now(0);
        seen.record(events(&ready).collect(), first.instant);
        let later = |after: u64| Now {
            wall: first.wall,
            instant: first.instant + seconds(after),
        };
        assert_eq!(
            decide(&ready, &RecoveryState::default(), &seen, later(700)),
            Recovery::None
        );
        assert_eq!(
            decide(&ready, &state(2, 60), &seen, later(200)),
            Recovery::Wait(seconds(400))
        );
        assert_eq!(decide(&ready, &state(2, 60), &seen, later(600)), Recovery::Forget);
        let running = json!({"status": {"phase": "Running"}});
        assert_eq!(decide(&running, &state(2, 60), &seen, later(600)), Recovery::None);
        assert_eq!(RecoveryState::parse(Some("no JSON")), RecoveryState::default());
        seen.record(Vec::new(), first.instant);
        assert_eq!(seen, Observations::default());
    }
}
