//! The first request of a plane: whether it answers, how late its clock is, and its version.

use super::{Check, Finding, PreflightError, Subject};
use fedgate_manifests::OLDEST_KUBERNETES as OLDEST;
use http::header::DATE;
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::Value;

/// A clock that differs more than this fails: tokens and leases are judged by time.
const FAR: SignedDuration = SignedDuration::from_secs(60);
/// A clock that differs more than this is remarkable.
const NEAR: SignedDuration = SignedDuration::from_secs(5);
/// Newest minor version of Kubernetes 1 that was tested.
const NEWEST: u32 = 36;

struct Answer {
    version: String,
    date: Option<Timestamp>,
}

/// Asks for the version. An error means that nothing else of the plane is worth asking.
pub(super) async fn reach(subject: &Subject) -> Result<Vec<Finding>, Finding> {
    let began = Timestamp::now();
    let answer = ask(subject).await.map_err(|error| {
        let check = match error {
            PreflightError::Unauthorized(_) => Check::Credential,
            _ => Check::Reach,
        };
        subject.error(check, &error)
    })?;
    let ended = Timestamp::now();
    Ok(vec![
        subject.ok(
            Check::Reach,
            format!("the API server answers, {}", answer.version),
        ),
        clock(subject, answer.date, began, ended),
        version(subject, &answer.version),
    ])
}

async fn ask(subject: &Subject) -> Result<Answer, PreflightError> {
    let unreachable = PreflightError::Unreachable;
    let request = http::Request::get("/version").body(Body::empty());
    let request = request.map_err(|error| unreachable(error.to_string()))?;
    let sent = subject.client.client().send(request).await;
    let response = sent.map_err(|error| PreflightError::of(&error, "get", "version"))?;
    let status = response.status();
    let date = response.headers().get(DATE).and_then(|value| value.to_str().ok());
    let date = date.and_then(|text| jiff::fmt::rfc2822::parse(text).ok());
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| unreachable(error.to_string()))?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = body["message"].as_str().unwrap_or_default();
    match status.as_u16() {
        401 if said.is_empty() => Err(PreflightError::Unauthorized("Unauthorized".to_owned())),
        401 => Err(PreflightError::Unauthorized(said.to_owned())),
        200 => Ok(Answer {
            version: body["gitVersion"].as_str().unwrap_or("of no version").to_owned(),
            date: date.map(|zoned| zoned.timestamp()),
        }),
        _ => Err(unreachable(format!("it answers {status} {said}"))),
    }
}

/// The server's clock beside ours, which it was read between `began` and `ended`; it has whole seconds.
fn clock(subject: &Subject, date: Option<Timestamp>, began: Timestamp, ended: Timestamp) -> Finding {
    let Some(date) = date else {
        let next = "compare the clocks by hand";
        return subject.open(Check::Clock, "the answer has no Date", next);
    };
    let second = SignedDuration::from_secs(1);
    let late = began.duration_since(date) - second;
    let early = date.duration_since(ended);
    let off = late.max(early).max(SignedDuration::ZERO);
    let text = format!("its clock differs by {} s from the one here", off.as_secs());
    let next = "synchronize the clocks of both machines (NTP)";
    if off > FAR {
        subject.fail(Check::Clock, text, next)
    } else if off > NEAR {
        subject.open(Check::Clock, text, next)
    } else {
        subject.ok(Check::Clock, "its clock agrees with the one here")
    }
}

fn version(subject: &Subject, text: &str) -> Finding {
    let mut numbers = text.trim_start_matches('v').split('.').map(str::parse::<u32>);
    // A build without a version says 0.0, and Helm refuses it.
    let (Some(Ok(major @ 1..)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        let next = "compare it with the versions that were tested";
        return subject.open(
            Check::Version,
            format!("{text} is no version of Kubernetes"),
            next,
        );
    };
    match (major, minor) {
        (1, OLDEST..=NEWEST) => subject.ok(Check::Version, format!("Kubernetes {text} was tested")),
        (1, ..OLDEST) => subject.fail(
            Check::Version,
            format!("Kubernetes {text} has no ValidatingAdmissionPolicy v1"),
            format!("upgrade the API server to 1.{OLDEST} or newer"),
        ),
        _ => subject.open(
            Check::Version,
            format!("Kubernetes {text} is newer than 1.{NEWEST}, the newest that was tested"),
            "look for a newer fedgate",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};

    #[test]
    fn a_clock_is_judged_by_its_distance_to_the_time_of_the_request() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |seconds: i64| Some(now + SignedDuration::from_secs(seconds));
        let subject = subject();
        for (date, verdict) in [
            (at(0), Verdict::Ok),
            (at(-1), Verdict::Ok),
            (at(-6), Verdict::Ok),
            (at(-8), Verdict::Open),
            (at(6), Verdict::Open),
            (at(61), Verdict::Fail),
            (at(-70), Verdict::Fail),
            (None, Verdict::Open),
        ] {
            assert_eq!(clock(&subject, date, now, now).verdict, verdict, "{date:?}");
        }
    }

    #[test]
    fn a_version_is_too_old_tested_or_newer() {
        let subject = subject();
        for (text, verdict) in [
            ("v1.29.9", Verdict::Fail),
            ("v1.30.0", Verdict::Ok),
            ("v1.36.3+k3s1", Verdict::Ok),
            ("v1.37.0-alpha.1", Verdict::Open),
            ("v2.0.0", Verdict::Open),
            ("unknown", Verdict::Open),
            ("v0.0.0-master+$Format:%H$", Verdict::Open),
        ] {
            assert_eq!(version(&subject, text).verdict, verdict, "{text}");
        }
    }
}
