//! Ages and durations.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// An age as in kubectl's tables, in the largest whole unit: `9s`, `5m`, `3h`, `12d`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Parses `90s`, `10m`, `1h30m` or `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("{text:?} is not a duration, e.g. 90s, 10m, 1h30m or 0");
    let span: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn an_age_has_the_largest_whole_unit() {
        let of = |seconds| age(at(0), at(seconds));
        let ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 864_000].map(of);
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "23h", "1d", "10d"]);
        assert_eq!(age(at(5), at(0)), "0s", "of the future");
    }
}
