//! Scenarios, as `scenarios/*.yaml` has them.

use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

/// Requests in a namespace of their own, and what must follow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// What it shows.
    pub(crate) name: String,
    /// Whether it needs interpreters of kinds, which the simulator does not have.
    #[serde(default)]
    pub(crate) interpreters: bool,
    /// Policies that select Gadgets by the label `example.dev/lane`, whose value is the policy's name: what each says
    /// beside that.
    #[serde(default)]
    pub(crate) lanes: BTreeMap<String, Lane>,
    /// Labels of its namespace.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
}

/// A policy that binds Gadgets to the first of these clusters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lane {
    /// The clusters that its placement names.
    pub(crate) clusters: Vec<String>,
    /// More of its specification.
    #[serde(default)]
    pub(crate) spec: serde_json::Map<String, Value>,
}

/// `${ns}` in any text is the scenario's namespace, and `${name}` what was kept under that name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub(crate) enum Step {
    /// A request of the planes' administrator, which must be done.
    Request {
        /// Method and path.
        #[serde(rename = "do")]
        request: String,
        /// The plane, `hub` unless it says another.
        #[serde(default = "hub")]
        at: String,
        #[serde(default)]
        body: Value,
    },
    /// Gives a Gadget to another lane, by one patch that takes the claim off.
    Lane {
        lane: String,
        /// Its name.
        #[serde(rename = "of", default = "first")]
        gadget: String,
        /// More of the patch.
        #[serde(default)]
        body: Value,
    },
    /// Keeps texts of an object, or of the item of a list that has these fields.
    Keep {
        /// By name, where each text is: a JSON pointer.
        keep: BTreeMap<String, String>,
        get: String,
        #[serde(default = "hub")]
        at: String,
        #[serde(default)]
        some: Value,
    },
    /// What must hold, soon.
    Expect {
        /// All of it at one time.
        expect: Vec<Fact>,
    },
}

/// What must hold of one object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    /// Its path.
    pub(crate) get: String,
    /// The plane, `hub` unless it says another.
    #[serde(default = "hub")]
    pub(crate) at: String,
    /// What it must have: these fields; `*` is any text, `null` is no such field. Without it there is no such object.
    #[serde(default)]
    pub(crate) has: Option<Value>,
    /// What the `Status` must have that refuses to show it.
    #[serde(default)]
    pub(crate) refused: Option<Value>,
    /// Fields that an item of the list must have.
    #[serde(default)]
    pub(crate) some: Option<Value>,
    /// Fields that no item of the list may have.
    #[serde(default)]
    pub(crate) none: Option<Value>,
}

fn first() -> String {
    "a".to_owned()
}

fn hub() -> String {
    "hub".to_owned()
}

impl Scenario {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/karmada/scenarios");
        let entries = fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = |file: &std::path::PathBuf| -> Vec<Self> {
            let text = fs::read_to_string(file).unwrap();
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        files.iter().flat_map(read).collect()
    }
}
