//! Text of a server or a transport as logs and answers may show it (contract: federation.md §3.1).

use serde_json::Value;
use std::fmt::Write;

/// Longest message, in characters.
pub const LENGTH: usize = 512;

/// Texts before a value that a server repeats from an object: it may be a tenant's secret.
const VALUES: [&str; 3] = ["Invalid value: ", "Unsupported value: ", "Duplicate value: "];

/// The text without values of objects, with control characters escaped, at most [`LENGTH`] characters long. Where a
/// value is no JSON, its end is unknown, and the text ends.
pub fn clean(text: &str) -> Box<str> {
    let mut rest = text;
    let mut shown = String::new();
    // A server may send a megabyte of marks: nothing after the limit is read.
    while shown.chars().count() <= LENGTH
        && let Some((before, value)) = next_value(rest)
    {
        append(&mut shown, before);
        shown.push('…');
        if let Some(after) = value.strip_prefix('…') {
            // The text was cleaned before.
            rest = after;
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<Value>();
        rest = match values.next() {
            Some(Ok(_)) => &value[values.byte_offset()..],
            _ => "",
        };
    }
    append(&mut shown, rest);
    if let Some((end, _)) = shown.char_indices().nth(LENGTH) {
        shown.truncate(end);
    }
    shown.into()
}

/// The text up to the first value, and the rest.
fn next_value(text: &str) -> Option<(&str, &str)> {
    let ends = VALUES
        .iter()
        .filter_map(|mark| Some(text.find(mark)? + mark.len()));
    ends.min().map(|end| text.split_at(end))
}

fn append(shown: &mut String, text: &str) {
    for c in text.chars().take(LENGTH + 1) {
        if c.is_control() {
            // Writing to a String does not fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_objects_are_left_out_and_control_characters_escaped() {
        let table = [
            ("a\nb\u{1b}[31m", r"a\u000ab\u001b[31m"),
            (
                r#"x "w" is invalid: spec.env[0].value: Invalid value: "se\"cret": too long, spec.n: Duplicate value: 5"#,
                r#"x "w" is invalid: spec.env[0].value: Invalid value: …: too long, spec.n: Duplicate value: …"#,
            ),
            (
                r#"spec.a: Unsupported value: {"a":["secret"]}: supported values: "b""#,
                r#"spec.a: Unsupported value: …: supported values: "b""#,
            ),
            (
                "spec: Invalid value: map[string]any{secret}: no",
                "spec: Invalid value: …",
            ),
        ];
        for (text, shown) in table {
            assert_eq!(&*clean(text), shown);
            assert_eq!(&*clean(shown), shown, "cleaned twice");
        }
        assert_eq!(clean(&"ü".repeat(2_000)).chars().count(), LENGTH);
        // Reading all of it would take minutes.
        let marks = clean(&"Invalid value: 1 ".repeat(200_000));
        assert!(marks.chars().count() == LENGTH && !marks.contains('1'));
    }
}
