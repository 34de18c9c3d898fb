//! Templates in kubectl's dialect of `JSONPath`: text with `{expressions}`, `{range}` and `{end}`. The steps of a path are
//! evaluated by `jsonpath-rust`, in the dialect of RFC 9535; their order and the bounds of lists are kubectl's.

use crate::error::{Error, Kind};
use jsonpath_rust::{
    parser::{
        model::{JpQuery, Segment, Selector},
        parse_json_path,
    },
    query::{QueryRef, js_path_process},
};
use serde_json::Value;

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Path(JpQuery),
    Range(JpQuery, Vec<Part>),
}

impl Template {
    /// Parses a template; the error names the fault.
    pub(crate) fn parse(template: &str) -> Result<Self, String> {
        let mut tokens = tokens(template)?.into_iter();
        let parts = parts(&mut tokens, false)?;
        Ok(Self(parts))
    }

    /// The template's text for an object. A missing key is empty; an index or slice that a list lacks is an error.
    pub(crate) fn render(&self, object: &Value) -> Result<String, Error> {
        let mut text = String::new();
        render(&self.0, object, &mut text).map_err(|error| Error::new(Kind::Failed, error))?;
        Ok(text)
    }
}

enum Token {
    Text(String),
    Expression(String),
}

/// Splits a template at its braces; quoted braces belong to their expression.
fn tokens(template: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        if open > 0 {
            tokens.push(Token::Text(unescape(&rest[..open])));
        }
        let expression = &rest[open + 1..];
        let close = end_of(expression, '}');
        let close =
            close.ok_or_else(|| format!("jsonpath: a closing brace is missing in {:?}", &rest[open..]))?;
        tokens.push(Token::Expression(expression[..close].trim().to_owned()));
        rest = &expression[close + 1..];
    }
    if !rest.is_empty() {
        tokens.push(Token::Text(unescape(rest)));
    }
    Ok(tokens)
}

/// Position of the first brace or bracket that closes what came before, outside of quotation marks.
fn end_of(text: &str, end: char) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0_usize);
    text.char_indices().find_map(|(at, c)| {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, _) if c == end && depth == 0 => return Some(at),
            (None, '[') if end == ']' => depth += 1,
            (None, ']') if end == ']' => depth -= 1,
            (Some(_) | None, _) => {}
        }
        None
    })
}

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}

fn parts(tokens: &mut impl Iterator<Item = Token>, in_range: bool) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some(token) = tokens.next() {
        let expression = match token {
            Token::Text(text) => {
                parts.push(Part::Text(text));
                continue;
            }
            Token::Expression(expression) => expression,
        };
        if expression == "end" {
            return if in_range {
                Ok(parts)
            } else {
                Err("jsonpath: {end} without {range}".to_owned())
            };
        }
        let quoted = |quote: char| {
            expression
                .strip_prefix(quote)
                .and_then(|rest| rest.strip_suffix(quote))
        };
        if let Some(path) = expression.strip_prefix("range ") {
            parts.push(Part::Range(path_of(path)?, self::parts(tokens, true)?));
        } else if let Some(text) = quoted('"').or_else(|| quoted('\'')) {
            parts.push(Part::Text(unescape(text)));
        } else {
            parts.push(Part::Path(path_of(&expression)?));
        }
    }
    if in_range {
        return Err("jsonpath: {range} without {end}".to_owned());
    }
    Ok(parts)
}

/// A bracket of kubectl in the form of RFC 9535: `[*]` is a slice of all, keys have escaped dots, and an object without
/// the field of a filter does not differ from its value.
fn bracket_of(bracket: &str) -> String {
    match bracket.strip_prefix("[?(").map(|filter| filter.split_once("!=")) {
        Some(Some((left, right))) => format!("[?({left} && {left}!={right}"),
        Some(None) => bracket.to_owned(),
        None => bracket.replace("[*]", "[:]").replace("\\.", "."),
    }
}

/// A path of kubectl, whose form of RFC 9535 begins with `$` and quotes a key with escaped dots.
fn path_of(path: &str) -> Result<JpQuery, String> {
    let path = path.trim();
    let path = path.strip_prefix(['$', '@']).unwrap_or(path);
    let mut rfc = String::from("$");
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        if first == '[' {
            let end = end_of(&rest[1..], ']').map(|end| end + 2);
            let end = end.ok_or_else(|| format!("jsonpath: a bracket is not closed in {path:?}"))?;
            rfc.push_str(&bracket_of(&rest[..end]));
            rest = &rest[end..];
            continue;
        }
        let dots = if rest.starts_with("..") { ".." } else { "." };
        rest = rest.strip_prefix(dots).unwrap_or(rest);
        let mut key = String::new();
        let mut end = rest.len();
        let mut escaped = false;
        for (at, c) in rest.char_indices() {
            match c {
                _ if escaped => {
                    key.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '.' | '[' => {
                    end = at;
                    break;
                }
                c => key.push(c),
            }
        }
        rest = &rest[end..];
        let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || key == "*";
        match (dots, key.is_empty()) {
            ("..", true) => rfc.push_str(".."),
            (_, true) => {}
            ("..", false) if is_plain => rfc.extend(["..", &key]),
            ("..", false) => rfc.extend(["..['", &key, "']"]),
            _ if is_plain => rfc.extend([".", &key]),
            _ => rfc.extend(["['", &key, "']"]),
        }
    }
    parse_json_path(&rfc).map_err(|error| format!("jsonpath: {path:?}: {error}"))
}

/// The values at a path. Of a union all values of one part come before those of the next.
fn find<'a>(path: &JpQuery, object: &'a Value) -> Result<Vec<&'a Value>, String> {
    let mut values = vec![object];
    for segment in &path.segments {
        let parts = match segment {
            Segment::Selectors(parts) => parts.iter().cloned().map(Segment::Selector).collect(),
            part => vec![part.clone()],
        };
        let mut found = Vec::new();
        for step in parts.into_iter().map(|part| JpQuery::new(vec![part])) {
            for value in &values {
                check_bounds(&step.segments[0], value)?;
                let here = js_path_process(&step, *value).map_err(|error| format!("jsonpath: {error}"))?;
                found.extend(here.into_iter().map(QueryRef::val));
            }
        }
        values = found;
    }
    Ok(values)
}

/// Refuses an index, slice or filter of what is no list, and an index or slice that a list lacks.
fn check_bounds(step: &Segment, value: &Value) -> Result<(), String> {
    let (start, end) = match step {
        Segment::Selector(Selector::Index(at)) => (*at, (*at != -1).then_some(at + 1)),
        Segment::Selector(Selector::Slice(start, end, _)) => (start.unwrap_or(0), *end),
        Segment::Selector(Selector::Filter(_)) => (0, None),
        _ => return Ok(()),
    };
    let length = match value {
        Value::Array(list) => i64::try_from(list.len()).unwrap_or(i64::MAX),
        Value::Null => return Ok(()),
        Value::Object(_) => return Err("jsonpath: a map is no list".to_owned()),
        other => return Err(format!("jsonpath: {other} is no list")),
    };
    let [from, to] = [start, end.unwrap_or(length)].map(|at| if at < 0 { at + length } else { at });
    if from == to || (0..to).contains(&from) && to <= length {
        return Ok(());
    }
    Err(format!("jsonpath: a list of {length} has no [{step}]"))
}

fn render(parts: &[Part], object: &Value, into: &mut String) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(text) => into.push_str(text),
            Part::Path(path) => {
                let texts: Vec<String> = find(path, object)?.into_iter().map(plain).collect();
                into.push_str(&texts.join(" "));
            }
            Part::Range(path, body) => {
                for item in find(path, object)? {
                    render(body, item, into)?;
                }
            }
        }
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object() -> Value {
        json!({
            "metadata": {"name": "web", "labels": {"app.example.com/name": "shop", "city-code": "DFW"}},
            "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}, {"name": "c"}],
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        })
    }

    fn rendered(template: &str) -> String {
        Template::parse(template).unwrap().render(&object()).unwrap()
    }

    #[test]
    fn templates_of_kubectl_are_rendered() {
        for (template, text) in [
            ("{.metadata.name}", "web"),
            ("{metadata.name}", "web"),
            ("{$.metadata.name}", "web"),
            ("name={.metadata.name}\\n", "name=web\n"),
            ("{.items[*].name}", "a b c"),
            ("{.items[0:2].name}", "a b"),
            ("{.items[-1].name}", "c"),
            ("{.missing.key}", ""),
            ("{.status.conditions[?(@.type==\"Ready\")].status}", "True"),
            ("{range .items[*]}{.name}={.n}{\"\\n\"}{end}", "a=1\nb=2\nc=\n"),
            ("{.metadata.labels.app\\.example\\.com/name}", "shop"),
            ("{.metadata.labels['city-code']}", "DFW"),
            ("{.metadata.labels.city-code}", "DFW"),
            ("{..type}", "Ready Other"),
            ("{.metadata.labels['app\\.example\\.com/name']}", "shop"),
            ("{.items[*]['name','n']}", "a b c 1 2"),
            ("{['metadata']['name','none']}", "web"),
            ("{.items[0,2].name}", "a c"),
            ("{.items[?(@.n!=1)].name}", "b"),
            ("{.items[?(@.n>1)].name}", "b"),
            ("{.items[?(@.n)].name}", "a b"),
            ("{.items[1:1].name}", ""),
            ("{.items[-2:].name}", "b c"),
            ("{.items[::2].name}", "a c"),
            ("{.none[7].name}", ""),
        ] {
            assert_eq!(rendered(template), text, "{template}");
        }
    }

    #[test]
    fn an_index_or_slice_that_a_list_lacks_fails_as_in_kubectl() {
        for (template, why) in [
            ("{.items[3].name}", "jsonpath: a list of 3 has no [3]"),
            ("{.items[-4].name}", "jsonpath: a list of 3 has no [-4]"),
            ("{.items[0,5].name}", "jsonpath: a list of 3 has no [5]"),
            ("{.items[0:9].name}", "jsonpath: a list of 3 has no [0:9:1]"),
            ("{.items[2:1].name}", "jsonpath: a list of 3 has no [2:1:1]"),
            ("{range .items[*]}{.name[0]}{end}", "jsonpath: \"a\" is no list"),
            ("{.metadata.name[*]}", "jsonpath: \"web\" is no list"),
        ] {
            let error = Template::parse(template).unwrap().render(&object()).unwrap_err();
            assert_eq!(
                (error.what.as_str(), error.kind),
                (why, Kind::Failed),
                "{template}"
            );
        }
    }

    #[test]
    fn a_bad_template_is_an_error() {
        for template in [
            "{.a",
            "{end}",
            "{range .a[*]}{.b}",
            "{.a[}",
            "{.a[?(]}",
            "{.a[b]}",
            "{.a[?(@.b[*].c==1)]}",
        ] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }
}
