//! The end of a credential.

use super::{Check, Finding, Subject};
use jiff::{SignedDuration, Timestamp};

const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
const NOW: SignedDuration = SignedDuration::from_hours(24);

/// Judges the time that is left until the credential ends.
pub(super) fn credential(subject: &Subject, now: Timestamp) -> Finding {
    let check = Check::Credential;
    let Some(expiry) = subject.expiry else {
        return subject.ok(check, "accepted; it does not say when it ends");
    };
    let part = expiry.part.as_str();
    let Ok(at) = Timestamp::from_second(expiry.at) else {
        return subject.ok(check, format!("accepted; its {part} does not end"));
    };
    let left = at.duration_since(now);
    let next = format!("issue a new one and write it into {}", subject.role.flag());
    if left <= SignedDuration::ZERO {
        subject.fail(check, format!("its {part} has ended at {at}"), next)
    } else if left < NOW {
        subject.fail(
            check,
            format!("its {part} ends in less than a day, at {at}"),
            next,
        )
    } else if left < SOON {
        let days = left.as_hours() / 24;
        subject.open(check, format!("its {part} ends in {days} days, at {at}"), next)
    } else {
        subject.ok(check, format!("accepted; its {part} ends at {at}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};
    use fedgate_engine::plane::kubeconfig::{Expiry, Part};

    #[test]
    fn a_credential_is_judged_by_the_time_that_is_left() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let day = 24 * 3600;
        let judged = |left: Option<i64>| {
            let mut subject = subject();
            subject.expiry = left.map(|left| Expiry {
                at: now.as_second() + left,
                part: Part::Token,
            });
            credential(&subject, now)
        };
        for (left, verdict) in [
            (None, Verdict::Ok),
            (Some(-1), Verdict::Fail),
            (Some(0), Verdict::Fail),
            (Some(day - 1), Verdict::Fail),
            (Some(day), Verdict::Open),
            (Some(30 * day - 1), Verdict::Open),
            (Some(30 * day), Verdict::Ok),
        ] {
            let finding = judged(left);
            assert_eq!(finding.verdict, verdict, "{finding}");
            assert_eq!(finding.next.is_empty(), verdict == Verdict::Ok);
        }
        assert!(judged(Some(3 * day)).text.contains("token ends in 3 days"));
    }
}
