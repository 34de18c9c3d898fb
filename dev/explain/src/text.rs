//! The output of `fedgate-sandbox explain`.

use super::{ChapterSteps, Explanation, Happening, Request};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt::Write, time::Duration};

/// A text of more lines is not shown in full.
const MOST_LINES: usize = 3;

/// A line for each request, then each object that the hub got.
pub(super) fn text(explained: &[Explanation]) -> String {
    let each: Vec<String> = explained.iter().map(of_object).collect();
    each.join("\n")
}

fn of_object(explanation: &Explanation) -> String {
    let mut out = String::new();
    let (kind, api_version, object) = (&explanation.kind, &explanation.api_version, &explanation.object);
    let place = if explanation.at_one {
        "at exactly one member"
    } else {
        "at all members"
    };
    let members = explanation.members.join(", ");
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{kind} of {api_version}: {object}, {place} of its city ({members})"
    );
    for note in &explanation.notes {
        let _ = writeln!(out, "  {note}");
    }
    for steps in &explanation.chapters {
        chapter(&mut out, steps);
    }
    let objects = objects(explanation);
    if !objects.is_empty() {
        let _ = writeln!(out, "\nWhat the hub gets, each object as it is first written:");
        for object in objects {
            let yaml = serde_saphyr::to_string(&shortened(&object)).unwrap_or_else(|_| object.to_string());
            let _ = write!(out, "---\n{yaml}");
        }
    }
    out
}

fn chapter(out: &mut String, steps: &ChapterSteps) {
    let _ = writeln!(out, "\n{}", steps.title);
    let requests = steps.happened.iter().filter_map(|(_, what)| match what {
        Happening::Request(request) => Some(request),
        Happening::Other(..) => None,
    });
    let width = |text: fn(&Request) -> String| {
        requests
            .clone()
            .map(|request| text(request).chars().count())
            .max()
            .unwrap_or(0)
    };
    let (verbs, subjects) = (width(|request| request.verb.to_owned()), width(subject));
    let (planes, times) = (7, 5);
    for (after, what) in &steps.happened {
        let after = format!("+{}s", after.as_secs());
        let text = match what {
            Happening::Request(request) => {
                let (plane, verb, reason) = (request.plane, request.verb, &request.reason);
                let subject = subject(request);
                format!("{after:>times$}  {plane:planes$}  {verb:verbs$}  {subject:subjects$}  {reason}")
            }
            Happening::Other(who, does) => format!("{after:>times$}  {:planes$}  {who} {does}", "-"),
        };
        let _ = writeln!(out, "{}", text.trim_end());
    }
    if steps.happened.is_empty() {
        let _ = writeln!(out, "  nothing");
    }
    for [type_, status, reason, message] in &steps.conditions {
        let texts = [reason.as_str(), message]
            .into_iter()
            .filter(|text| !text.is_empty());
        let why = texts.collect::<Vec<_>>().join(": ");
        let _ = writeln!(out, "{}", format!("  {type_}={status} {why}").trim_end());
    }
}

fn subject(request: &Request) -> String {
    let place = match (request.namespace.as_str(), request.name.as_str()) {
        ("", name) => name.to_owned(),
        (namespace, "") => format!("in {namespace}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    let status = if request.is_status { " status" } else { "" };
    let member = request.member.iter().map(|member| format!(" at {member}"));
    format!("{} {place}{status}{}", request.kind, member.collect::<String>())
}

/// The objects that the hub gets, each once.
fn objects(explanation: &Explanation) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let happened = explanation.chapters.iter().flat_map(|steps| &steps.happened);
    let requests = happened.filter_map(|(_, what)| match what {
        Happening::Request(request) if request.plane == "hub" => Some(request),
        _ => None,
    });
    let made = requests.filter(|request| matches!(request.verb, "create" | "apply"));
    made.filter(|request| seen.insert((&request.kind, &request.namespace, &request.name)))
        .map(|request| request.body.clone())
        .collect()
}

/// The value with long texts cut.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.lines().count() > MOST_LINES => {
            json!(format!("… {} lines", text.lines().count()))
        }
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), shortened(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// A YAML document for each chapter, with every request and its body.
pub(super) fn yaml(explained: &[Explanation]) -> String {
    let mut documents = Vec::new();
    for explanation in explained {
        let mut document = json!({
            "kind": explanation.kind, "apiVersion": explanation.api_version, "object": explanation.object,
            "cardinality": if explanation.at_one { "exactlyOne" } else { "all" },
            "members": explanation.members, "notes": explanation.notes,
        });
        let chapters = explanation.chapters.iter().map(|steps| {
            let happened = steps.happened.iter().map(|(after, what)| step(*after, what));
            let conditions = steps.conditions.iter().map(|[type_, status, reason, message]| {
                json!({"type": type_, "status": status, "reason": reason, "message": message})
            });
            json!({"title": steps.title, "steps": happened.collect::<Vec<_>>(),
                "conditions": conditions.collect::<Vec<_>>()})
        });
        document["chapters"] = chapters.collect();
        documents.push(serde_saphyr::to_string(&document).unwrap_or_else(|_| document.to_string()));
    }
    documents.join("---\n")
}

fn step(after: Duration, what: &Happening) -> Value {
    match what {
        Happening::Request(request) => {
            let mut step = json!({"after": after.as_secs(), "plane": request.plane, "verb": request.verb,
                "object": subject(request), "reason": request.reason});
            if !request.body.is_null() {
                step["body"] = request.body.clone();
            }
            step
        }
        Happening::Other(who, does) => json!({"after": after.as_secs(), "by": who, "does": does}),
    }
}
