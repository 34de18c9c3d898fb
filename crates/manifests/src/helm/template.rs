//! Templates of the chart: objects with marks in their open places, written as YAML in which each mark is replaced by
//! its text in Helm's language.

use crate::{ManifestError, to_yaml};
use serde_json::{Map, Value, json};

/// How a mark for a part of a line begins.
const TEXT: &str = "zz-text-";
/// How a mark for lines of their own begins. It sorts behind every field, so that it is never the first of an entry of a
/// list, which carries the dash.
const LINES: &str = "zz-lines-";
/// Digits of a mark's number.
const DIGITS: usize = 4;
/// Before a number: an indentation deeper than the line's by that number.
const INDENT: &str = "nindent +";

/// The texts behind the marks of some objects.
#[derive(Debug, Default)]
pub struct Template {
    texts: Vec<String>,
}

impl Template {
    /// A mark for this text as a part of a line. In it `nindent +2` is an indentation that is two deeper than the line's.
    pub fn text(&mut self, text: impl Into<String>) -> String {
        self.mark(TEXT, text.into())
    }

    /// A mark for these lines: an entry of a list, or the name of a field. They take its place at its indentation.
    pub fn lines(&mut self, lines: impl Into<String>) -> String {
        self.mark(LINES, lines.into())
    }

    fn mark(&mut self, kind: &str, text: String) -> String {
        let mark = format!("{kind}{:0DIGITS$}", self.texts.len());
        self.texts.push(text);
        mark
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        json!(self.text(format!("{{{{ {expression} }}}}")))
    }

    /// The value of an expression as YAML of its own lines.
    pub fn yaml(&mut self, expression: &str) -> Value {
        json!(self.text(format!("{{{{- toYaml {expression} | nindent +2 }}}}")))
    }

    /// Further fields of a map, as lines of the template.
    pub fn fields(&mut self, lines: impl Into<String>) -> Map<String, Value> {
        Map::from_iter([(self.lines(lines), Value::Null)])
    }

    /// [`Template::lines`] with these fields of a map, or these entries of a list, under a condition.
    pub fn when(&mut self, condition: &str, part: &Value) -> Result<String, ManifestError> {
        let yaml = to_yaml("a part of a template", part)?;
        Ok(self.lines(format!("{{{{- if {condition} }}}}\n{yaml}{{{{- end }}}}")))
    }

    /// The text of an object.
    pub fn object(&self, path: &str, object: &Value) -> Result<String, ManifestError> {
        Ok(self.fill(&escape(&to_yaml(path, object)?)))
    }

    /// Replaces the marks, also those inside of texts.
    fn fill(&self, yaml: &str) -> String {
        let mut filled = String::new();
        for line in yaml.lines() {
            let indent = line.len() - line.trim_start().len();
            if let Some(text) = self.whole(line) {
                let lines: Vec<String> = text
                    .lines()
                    .map(|line| format!("{:indent$}{line}\n", ""))
                    .collect();
                filled.push_str(&self.fill(&lines.concat()));
            } else {
                filled.push_str(&indented(&self.inline(line), indent));
                filled.push('\n');
            }
        }
        filled
    }

    /// The lines that take this one's place.
    fn whole(&self, line: &str) -> Option<&String> {
        let line = line.trim_start();
        let mark = match line.strip_prefix("- ") {
            Some(entry) => entry,
            None => line.strip_suffix(": null")?,
        };
        self.texts.get(number(mark.strip_prefix(LINES)?)?)
    }

    fn inline(&self, line: &str) -> String {
        let mut line = line.to_owned();
        while let Some(at) = line.find(TEXT) {
            let digits = at + TEXT.len()..at + TEXT.len() + DIGITS;
            let text = line.get(digits.clone()).and_then(number);
            let Some(text) = text.and_then(|number| self.texts.get(number)) else {
                return line;
            };
            line.replace_range(at..digits.end, text);
        }
        line
    }
}

fn number(digits: &str) -> Option<usize> {
    (digits.len() == DIGITS).then(|| digits.parse().ok())?
}

/// An object's own braces, which Helm would take for an expression.
fn escape(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

fn indented(line: &str, indent: usize) -> String {
    let Some((before, after)) = line.split_once(INDENT) else {
        return line.to_owned();
    };
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let (more, rest) = after.split_at(digits);
    let depth = indent + more.parse::<usize>().unwrap_or_default();
    format!("{before}nindent {depth}{}", indented(rest, indent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn marks_become_texts_at_the_depth_of_their_line() {
        let mut template = Template::default();
        let mut spec = template.fields("{{- with .Values.a }}\na: {{- toYaml . | nindent +2 }}\n{{- end }}");
        spec.insert("count".to_owned(), template.value(".Values.count"));
        spec.insert("tree".to_owned(), template.yaml(".Values.tree"));
        let inner = json!([template.value(".Values.x")]);
        let entry = template.when(".Values.x", &inner).unwrap();
        spec.insert("list".to_owned(), json!(["first", entry]));
        let text = template.object("p", &json!({"spec": spec})).unwrap();
        assert_eq!(
            text,
            "spec:\n  count: {{ .Values.count }}\n  list:\n  - first\n  {{- if .Values.x }}\n  - {{ .Values.x }}\n  \
             {{- end }}\n  tree: {{- toYaml .Values.tree | nindent 4 }}\n  {{- with .Values.a }}\n  a: {{- toYaml . | \
             nindent 4 }}\n  {{- end }}\n"
        );
    }

    #[test]
    fn braces_of_an_object_stay_braces() {
        let template = Template::default();
        let text = template
            .object("p", &json!({"a": "x {{ $labels.job }}"}))
            .unwrap();
        assert_eq!(text, "a: x {{ \"{{\" }} $labels.job }}\n");
    }
}
