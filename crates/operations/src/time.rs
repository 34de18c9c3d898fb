//! Instants of the documents.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{borrow::Cow, fmt};

/// An instant, as RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Timestamp);

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl Time {
    /// The instant of a number of seconds since the epoch; the epoch if it is out of range.
    pub fn from_second(second: i64) -> Self {
        Self(Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_has_milliseconds_and_is_read_back() {
        let at: Timestamp = "2026-12-01T10:00:00.1239Z".parse().unwrap();
        let text = serde_json::to_string(&Time(at)).unwrap();
        assert_eq!(text, r#""2026-12-01T10:00:00.123Z""#);
        let whole = serde_json::to_string(&Time::from_second(0)).unwrap();
        assert_eq!(whole, r#""1970-01-01T00:00:00.000Z""#);
        let read: Time = serde_json::from_str(&text).unwrap();
        assert_eq!(read.to_string(), "2026-12-01T10:00:00.123Z");
        assert!(serde_json::from_str::<Time>(r#""yesterday""#).is_err());
    }
}
