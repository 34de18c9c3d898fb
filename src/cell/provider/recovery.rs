//! Recovery: a Pod that has ended is replaced, at once at first and then after longer and longer pauses (contract: cell.md
//! §9). What is remembered stands on the Instance, so that a restart of the cell keeps it.

use super::report::{containers, is_ready};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Pause before the second replacement; it doubles with each.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// Longest pause, and how long a Pod must have been ready for its past to be forgotten.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);
/// How long a container that has ended may take to be started again by its node.
const RESTART_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// When a name is looked at again that something else holds.
pub const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Pause between the end of a Pod and its successor.
pub const SUCCESSOR_AFTER: Duration = Duration::from_secs(2);

/// What is remembered: annotation `fedgate.dev/recovery`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// How many Pods have been replaced.
    pub attempts: u32,
    /// Before when the next is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

impl State {
    /// Reads the annotation; what cannot be read is forgotten.
    pub fn parse(annotation: Option<&str>) -> Self {
        annotation
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// How long to wait yet. A time that is further away than any pause was written by a clock that was wrong.
    fn left(&self, now: Timestamp) -> Option<Duration> {
        let left = self.not_before?.duration_since(now);
        (left.is_positive() && left <= LONGEST).then(|| left.unsigned_abs())
    }

    fn next(&self, now: Timestamp) -> Self {
        let doublings = self.attempts.min(10);
        let pause = FIRST_PAUSE
            .checked_mul(1 << doublings)
            .map_or(LONGEST, |p| p.min(LONGEST));
        Self {
            attempts: self.attempts.saturating_add(1),
            not_before: now.checked_add(pause).ok(),
        }
    }
}

/// What to do about a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing.
    None,
    /// Look again then.
    Wait(Duration),
    /// Remember this, then delete the Pod.
    Replace(State),
    /// Forget the past.
    Forget,
}

/// Decides for a Pod of an Instance that is neither suspended nor being deleted.
pub fn decide(pod: &Value, state: &State, now: Timestamp) -> Recovery {
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Recovery::None;
    }
    match ended(pod, now) {
        Some(Duration::ZERO) => match state.left(now) {
            Some(left) => Recovery::Wait(left),
            None => Recovery::Replace(state.next(now)),
        },
        Some(left) => Recovery::Wait(left),
        None if *state == State::default() || !is_ready(pod) => Recovery::None,
        None => match remaining(ready_since(pod), LONGEST, now) {
            Duration::ZERO => Recovery::Forget,
            left => Recovery::Wait(left),
        },
    }
}

/// Whether the Pod needs a successor: how long its node has left to start it again.
fn ended(pod: &Value, now: Timestamp) -> Option<Duration> {
    if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
        return Some(Duration::ZERO);
    }
    let ends = containers(pod).filter_map(|container| {
        let terminated = &container["state"]["terminated"];
        terminated.is_object().then(|| time(&terminated["finishedAt"]))
    });
    ends.map(|finished| remaining(finished, RESTART_WITHIN, now))
        .min()
}

fn ready_since(pod: &Value) -> Option<Timestamp> {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|c| c["type"] == "Ready")?;
    time(&ready["lastTransitionTime"])
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// What is left of `span` after `since`: nothing if that is not known or, by a clock that was wrong, still to come.
fn remaining(since: Option<Timestamp>, span: SignedDuration, now: Timestamp) -> Duration {
    let passed = since.map(|since| now.duration_since(since));
    match passed {
        Some(passed) if !passed.is_negative() && passed < span => (span - passed).unsigned_abs(),
        _ => Duration::ZERO,
    }
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

    fn state(attempts: u32, not_before: i64) -> State {
        State {
            attempts,
            not_before: Some(at(not_before)),
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_first_replacement_comes_at_once_and_the_next_after_pauses_that_double() {
        let mut state = State::default();
        let mut now = 0;
        for pause in [30, 60, 120, 240, 480, 600, 600] {
            let Recovery::Replace(next) = decide(&failed(), &state, at(now)) else {
                panic!("after {now} s: {state:?}");
            };
            assert_eq!(next.not_before, Some(at(now + pause)));
            assert_eq!(
                decide(&failed(), &next, at(now + 1)),
                Recovery::Wait(seconds(pause.unsigned_abs() - 1))
            );
            (state, now) = (next, now + pause);
        }
        assert_eq!(state.attempts, 7);
        let written = serde_json::to_string(&state).unwrap();
        assert_eq!(
            State::parse(Some(&written)),
            state,
            "a restart of the cell keeps it"
        );
    }

    #[test]
    fn clocks_that_jump_hold_nothing_up() {
        let far = state(3, 3600);
        assert_eq!(decide(&failed(), &far, at(0)), Recovery::Replace(state(4, 240)));
        assert_eq!(
            decide(&failed(), &state(3, -3600), at(0)),
            Recovery::Replace(state(4, 240))
        );
        let ended = |finished: i64| {
            json!({"status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 0, "finishedAt": at(finished).to_string()}}}]}})
        };
        for finished in [3600, -3600] {
            assert_eq!(
                decide(&ended(finished), &State::default(), at(0)),
                Recovery::Replace(state(1, 30))
            );
        }
        assert_eq!(
            decide(&ended(-4), &State::default(), at(0)),
            Recovery::Wait(seconds(6))
        );
    }

    #[test]
    fn a_clean_end_is_an_end() {
        let succeeded = json!({"status": {"phase": "Succeeded"}});
        assert_eq!(
            decide(&succeeded, &State::default(), at(0)),
            Recovery::Replace(state(1, 30))
        );
        let mut going = failed();
        going["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
        assert_eq!(decide(&going, &State::default(), at(0)), Recovery::None);
    }

    #[test]
    fn the_past_is_forgotten_after_ten_minutes_of_readiness() {
        let ready = json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at(0).to_string()}]}});
        assert_eq!(decide(&ready, &State::default(), at(700)), Recovery::None);
        assert_eq!(
            decide(&ready, &state(2, 60), at(200)),
            Recovery::Wait(seconds(400))
        );
        assert_eq!(decide(&ready, &state(2, 60), at(600)), Recovery::Forget);
        let running = json!({"status": {"phase": "Running"}});
        assert_eq!(decide(&running, &state(2, 60), at(600)), Recovery::None);
        assert_eq!(State::parse(Some("no JSON")), State::default());
    }
}
