//! Templates in kubectl's dialect of `JSONPath`: text with `{expressions}`, `{range}` and `{end}`. The paths themselves are
//! evaluated by `jsonpath-rust`, in the dialect of RFC 9535.

use crate::error::Error;
use jsonpath_rust::JsonPath;
use serde_json::Value;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A path in the form of RFC 9535.
    Path(String),
    Range(String, Vec<Part>),
}

impl Template {
    /// Parses a template; the error names the fault.
    pub(crate) fn parse(template: &str) -> Result<Self, String> {
        let mut tokens = tokens(template)?.into_iter();
        let parts = parts(&mut tokens, false)?;
        Ok(Self(parts))
    }

    /// The template's text for an object. A missing key is empty.
    pub(crate) fn render(&self, object: &Value) -> Result<String, Error> {
        let mut text = String::new();
        render(&self.0, object, &mut text).map_err(Error::usage)?;
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
        let mut quote = None;
        let close = rest[open..].char_indices().find_map(|(at, c)| {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => quote = Some(c),
                (None, '}') => return Some(open + at),
                _ => {}
            }
            None
        });
        let close =
            close.ok_or_else(|| format!("jsonpath: a closing brace is missing in {:?}", &rest[open..]))?;
        tokens.push(Token::Expression(rest[open + 1..close].trim().to_owned()));
        rest = &rest[close + 1..];
    }
    if !rest.is_empty() {
        tokens.push(Token::Text(unescape(rest)));
    }
    Ok(tokens)
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

/// A path of kubectl in the form of RFC 9535: it begins with `$`, and a key with escaped dots is quoted.
fn path_of(path: &str) -> Result<String, String> {
    let path = path.trim();
    let path = path.strip_prefix(['$', '@']).unwrap_or(path);
    let mut rfc = String::from("$");
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        if first == '[' {
            let mut depth = 0_usize;
            let mut quote = None;
            let end = rest.char_indices().find_map(|(at, c)| {
                match (quote, c) {
                    (Some(open), c) if c == open => quote = None,
                    (None, '"' | '\'') => quote = Some(c),
                    (None, '[') => depth += 1,
                    (None, ']') => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                None
            });
            let end = end.ok_or_else(|| format!("jsonpath: a bracket is not closed in {path:?}"))?;
            rfc.push_str(&rest[..end]);
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
    jsonpath_rust::parser::parse_json_path(&rfc).map_err(|error| format!("jsonpath: {path:?}: {error}"))?;
    Ok(rfc)
}

fn render(parts: &[Part], object: &Value, into: &mut String) -> Result<(), String> {
    let found = |path: &str| {
        object
            .query(path)
            .map_err(|error| format!("jsonpath: {path:?}: {error}"))
    };
    for part in parts {
        match part {
            Part::Text(text) => into.push_str(text),
            Part::Path(path) => {
                let texts: Vec<String> = found(path)?.into_iter().map(plain).collect();
                into.push_str(&texts.join(" "));
            }
            Part::Range(path, body) => {
                for item in found(path)? {
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

    fn rendered(template: &str) -> String {
        let object = json!({
            "metadata": {"name": "web", "labels": {"app.example.com/name": "shop", "city-code": "DFW"}},
            "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}, {"name": "c"}],
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        Template::parse(template).unwrap().render(&object).unwrap()
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
        ] {
            assert_eq!(rendered(template), text, "{template}");
        }
    }

    #[test]
    fn a_bad_template_is_an_error() {
        for template in ["{.a", "{end}", "{range .a[*]}{.b}", "{.a[}", "{.a[?(]}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }
}
