//! Log lines as JSON objects in which no key occurs twice: parsers keep the first value, the last, or refuse the line.

use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::fmt::{Debug, Display, Result as Formatted};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// Keys that the formatter writes itself. A field with such a name is renamed to `<name>_`.
const RESERVED: [&str; 6] = ["timestamp", "level", "target", "message", "span", "spans"];

/// Target of the lines that come from the crate `log`; their own target is a field.
const BRIDGED: &str = "log";

/// Formats an event as one JSON object: time, level, fields, target and the current span.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JsonEvents;

impl<S, N> FormatEvent<S, N> for JsonEvents
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> Formatted {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let mut target = metadata.target().to_owned();
        if target == BRIDGED {
            target = fields.unbridge().unwrap_or(target);
        }
        let span = ctx.lookup_current().map(|span| {
            let text = span
                .extensions()
                .get::<FormattedFields<N>>()
                .map(ToString::to_string);
            let mut fields: Map<String, Value> = text
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default();
            fields.insert("name".to_owned(), json!(span.name()));
            Value::Object(fields)
        });
        let line = line(&time, metadata.level(), &fields.0, &target, span.as_ref());
        writeln!(writer, "{}", line.map_err(|_| std::fmt::Error)?)
    }
}

/// The keys in their order: people read lines from the left.
fn line(
    time: &str,
    level: &dyn Display,
    fields: &[(String, Value)],
    target: &str,
    span: Option<&Value>,
) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    let mut json = serde_json::Serializer::new(&mut text);
    let mut map = json.serialize_map(None)?;
    map.serialize_entry("timestamp", time)?;
    map.serialize_entry("level", &level.to_string())?;
    for (name, value) in fields {
        map.serialize_entry(name, value)?;
    }
    map.serialize_entry("target", target)?;
    if let Some(span) = span {
        map.serialize_entry("span", span)?;
    }
    map.end()?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The fields of an event, each name once. The text of a line is its first field.
#[derive(Debug, Default)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    fn push(&mut self, field: &Field, value: Value) {
        let mut name = field.name().trim_start_matches("r#").to_owned();
        let is_text = name == "message" && self.0.is_empty();
        if RESERVED.contains(&&*name) && !is_text {
            name.push('_');
        }
        while self.has(&name) {
            name.push('_');
        }
        self.0.push((name, value));
    }

    /// Removes the fields that the bridge from the crate `log` adds; returns the target of the line.
    fn unbridge(&mut self) -> Option<String> {
        let target = self.0.iter().find(|(name, _)| name == "log.target");
        let target = target.and_then(|(_, value)| value.as_str().map(str::to_owned));
        self.0.retain(|(name, _)| !name.starts_with("log."));
        target
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.push(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, json!(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::{io, sync::Arc};
    use tracing_subscriber::{fmt, prelude::*};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(run: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = fmt::layer()
            .json()
            .event_format(JsonEvents)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
        let text = sink.0.lock().clone();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_field_with_a_name_of_the_formatter_is_renamed_and_no_key_is_there_twice() {
        let text = logged(|| {
            tracing::warn!(
                level = 3,
                message = "a detail",
                target = true,
                plane = %"hub",
                timestamp = 1.5,
                span = ?Some("s"),
                plane = "again",
                "the text"
            );
        });
        let (time, rest) = text.split_once("\",").unwrap();
        assert!(time.starts_with("{\"timestamp\":\"2"), "{text}");
        assert_eq!(
            rest,
            "\"level\":\"WARN\",\"message\":\"the text\",\"level_\":3,\"message_\":\"a detail\",\"target_\":true,\
             \"plane\":\"hub\",\"timestamp_\":1.5,\"span_\":\"Some(\\\"s\\\")\",\"plane_\":\"again\",\
             \"target\":\"fedgate::telemetry::json::tests\"}\n"
        );
    }

    #[test]
    fn a_span_has_its_name_and_its_fields() {
        let text = logged(|| {
            let span = tracing::info_span!("HTTP", method = "GET", name = "inner");
            span.in_scope(|| tracing::info!("sent"));
        });
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["span"], json!({"name": "HTTP", "method": "GET"}));
    }

    #[test]
    fn a_line_from_the_crate_log_has_the_target_of_its_own() {
        let text = logged(|| {
            tracing::event!(target: "log", tracing::Level::INFO, { log.target = "rustls", log.line = 7 }, "resumed");
        });
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["target"], &line["log.line"]),
            (&json!("rustls"), &Value::Null)
        );
    }
}
