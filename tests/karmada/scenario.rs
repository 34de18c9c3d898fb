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
    /// Whether it needs members.
    #[serde(default)]
    pub(crate) members: bool,
    /// Whether only Karmada itself has it: the stand-in has no suspension, preservation or Works.
    #[serde(default)]
    pub(crate) karmada: bool,
    /// Labels of its namespace.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
}

/// `${ns}` in any text is the scenario's namespace.
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
    /// Its path, or that of the list that it is in.
    pub(crate) get: String,
    /// Namespace and name of a binding: of the list of Works, this one's. Karmada puts a hash into the name of a Work.
    #[serde(default)]
    pub(crate) of: Option<String>,
    /// The plane, `hub` unless it says another.
    #[serde(default = "hub")]
    pub(crate) at: String,
    /// What it must have: these fields; `*` is any text, `null` is no such field. Without it there is no such object.
    #[serde(default)]
    pub(crate) has: Option<Value>,
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
