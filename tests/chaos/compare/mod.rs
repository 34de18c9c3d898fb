//! The state of all planes against what was asked for. Every rule says what it expected and what it found.

mod back;
mod cells;
mod hub;
mod project;

use crate::{
    snapshot::{At, PROJECTS, Snapshot},
    support::{
        hub_namespace,
        kinds::{Kind, NAMESPACE},
        plane::brief,
    },
    wanted::Wanted,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One tenant's namespace: project, name, and what was asked for in it.
pub(crate) struct Asked<'a> {
    pub(crate) project: &'a str,
    pub(crate) ns: &'a str,
    pub(crate) wanted: &'a Wanted,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(crate) plane: String,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// What the rules work on, and what they found.
struct Findings<'a> {
    all: &'a Snapshot,
    differences: Vec<Difference>,
}

impl Findings<'_> {
    fn add(&mut self, at: &At, expected: impl Into<String>, found: impl Into<String>) {
        self.differences.push(Difference {
            plane: at.0.clone(),
            kind: at.1,
            namespace: at.2.clone(),
            name: at.3.clone(),
            expected: expected.into(),
            found: found.into(),
        });
    }

    /// Both must be the same.
    fn same(&mut self, at: &At, what: &str, expected: &Value, found: &Value) {
        if expected != found {
            self.add(at, format!("{what} {expected}"), found.to_string());
        }
    }

    /// It must be so.
    fn holds(&mut self, at: &At, expected: &str, so: bool, object: &Value) {
        if !so {
            self.add(at, expected, brief(Some(object)));
        }
    }

    /// The object must be there, and stay.
    fn present<'s>(
        &mut self,
        all: &'s Snapshot,
        plane: &str,
        kind: &Kind,
        ns: &str,
        name: &str,
    ) -> Option<&'s Value> {
        let at = at(plane, kind, ns, name);
        let object = all.get(plane, kind, ns, name);
        match object {
            None => self.add(&at, "is there", "absent"),
            Some(object) => self.holds(&at, "is not being deleted", stays(object), object),
        }
        object
    }

    /// The object must not be there.
    fn surplus(&mut self, at: &At, why: &str, object: &Value) {
        self.add(at, format!("is gone: {why}"), brief(Some(object)));
    }
}

/// All that is not as it should be.
pub(crate) fn differences(all: &Snapshot, asked: &[Asked<'_>]) -> Vec<Difference> {
    let mut findings = Findings {
        all,
        differences: Vec::new(),
    };
    for asked in asked {
        findings.project(asked);
    }
    findings.copies();
    findings.namespaces();
    findings.policies();
    findings.companions();
    findings.bindings();
    findings.projections();
    findings.statuses();
    findings.cells();
    findings.differences
}

/// Planes and kinds of which the rules would not miss an object: there must be none, or the comparison proves nothing.
/// One object of each is left out in turn.
pub(crate) fn unguarded(all: &Snapshot, asked: &[Asked<'_>]) -> Vec<At> {
    let ours = homes(all, asked);
    // A source that nobody references may be missed by nobody, and so may a namespace in which nothing is left.
    let counts = |at: &&At| {
        ours.contains(&at.2) && !matches!(at.1, "ConfigMap" | "Secret" | "Namespace" | "ResourceBinding")
    };
    let one_of_each: BTreeMap<(&str, &str), &At> = all
        .0
        .keys()
        .filter(counts)
        .map(|at| ((at.0.as_str(), at.1), at))
        .collect();
    let missed = |at: &&At| {
        let mut without = all.clone();
        without.0.remove(*at);
        differences(&without, asked).is_empty()
    };
    one_of_each.into_values().filter(missed).cloned().collect()
}

/// The tenants' namespaces, and those that stand for them on hub and cells.
fn homes(all: &Snapshot, asked: &[Asked<'_>]) -> BTreeSet<String> {
    let mut homes: BTreeSet<String> = asked.iter().map(|asked| asked.ns.to_owned()).collect();
    for project in PROJECTS {
        for asked in asked.iter().filter(|asked| asked.project == project) {
            let namespace = all.get(project, &NAMESPACE, "", asked.ns);
            homes.extend(namespace.map(hub_namespace));
        }
    }
    homes
}

fn at(plane: &str, kind: &Kind, ns: &str, name: &str) -> At {
    (plane.to_owned(), kind.name, ns.to_owned(), name.to_owned())
}

fn stays(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether a list in the object's metadata is absent or empty.
fn none(object: &Value, list: &str) -> bool {
    object["metadata"][list].as_array().is_none_or(Vec::is_empty)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether the deployment's template references data.
fn has_data(deployment: &Value) -> bool {
    crate::wanted::Deployment::read(&deployment["spec"]).data
}
