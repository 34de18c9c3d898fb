//! Who manages which fields, and how updates and applies change that.

use crate::{
    combine::combine,
    compare::{Difference, collect, compare, remove, with_parents},
    fields::Fields,
    schema::Schema,
    status::{Status, Subject},
};
use serde_json::{Map, Value, json};

/// How a manager came by its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    operation: Operation,
    time: String,
    manager: String,
    version: String,
    subresource: String,
    fields: Fields,
}

/// Who writes, as an entry of `managedFields` names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    /// `apiVersion` of the request.
    pub(crate) version: &'a str,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) now: &'a str,
}

impl Writer<'_> {
    fn is(&self, entry: &Entry) -> bool {
        entry.manager == self.manager
            && entry.operation == self.operation
            && entry.subresource == self.subresource.unwrap_or_default()
            // An applier is the same whichever version it writes.
            && (self.operation == Operation::Apply || entry.version == self.version)
    }

    fn entry(&self, fields: Fields) -> Entry {
        Entry {
            operation: self.operation,
            time: self.now.to_owned(),
            manager: self.manager.to_owned(),
            version: self.version.to_owned(),
            subresource: self.subresource.unwrap_or_default().to_owned(),
            fields,
        }
    }
}

/// Which fields a request may touch at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All.
    Whole,
    /// All but `status`, which has an endpoint of its own.
    NotStatus,
    /// `status` alone.
    Status,
}

impl Reach {
    fn narrow(self, fields: &mut Fields) {
        match self {
            Self::Whole => {}
            Self::NotStatus => fields.without("f:status"),
            Self::Status => fields.only("f:status"),
        }
    }
}

/// Fields that nobody manages, since the server sets them or they name the object.
const UNMANAGED: [&[&str]; 11] = [
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
    &[],
];

fn strip(mut fields: Fields) -> Fields {
    for path in UNMANAGED {
        fields.unmark(path);
    }
    fields
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Managers(Vec<Entry>);

impl Managers {
    /// Reads `managedFields`.
    pub(crate) fn parse(value: &Value) -> Self {
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let entries = list.iter().map(|entry| Entry {
            operation: match entry["operation"].as_str() {
                Some("Apply") => Operation::Apply,
                _ => Operation::Update,
            },
            time: text(entry, "time"),
            manager: text(entry, "manager"),
            version: text(entry, "apiVersion"),
            subresource: text(entry, "subresource"),
            fields: Fields::parse(&entry["fieldsV1"]),
        });
        Self(entries.collect())
    }

    /// Reads what a writer sends for `managedFields`: one empty entry takes all of them away. `None` if nothing is sent.
    pub(crate) fn sent(value: &Value) -> Option<Self> {
        let list = value.as_array().filter(|list| !list.is_empty())?;
        let reset = list
            .iter()
            .all(|entry| entry.as_object().is_some_and(Map::is_empty));
        Some(if reset {
            Self::default()
        } else {
            Self::parse(value)
        })
    }

    /// Writes `managedFields`: appliers first, then by time and name.
    pub(crate) fn render(mut self) -> Value {
        self.0.sort_by(|a, b| {
            let rank = |e: &Entry| (e.operation, e.time.clone(), e.manager.clone(), e.version.clone());
            (rank(a), &a.subresource).cmp(&(rank(b), &b.subresource))
        });
        let entries = self.0.into_iter().map(|entry| {
            let mut value = json!({
                "manager": entry.manager,
                "operation": match entry.operation {
                    Operation::Apply => "Apply",
                    Operation::Update => "Update",
                },
                "apiVersion": entry.version,
                "time": entry.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": entry.fields.render(),
            });
            if !entry.subresource.is_empty() {
                value["subresource"] = json!(entry.subresource);
            }
            value
        });
        entries.collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, writer: &Writer<'_>) -> Option<&Entry> {
        self.0.iter().find(|entry| writer.is(entry))
    }

    /// After an update from `old` to `new`: the writer manages what it changed, and nobody manages what is gone.
    pub(crate) fn update(
        &mut self,
        schema: &Schema,
        old: &Value,
        new: &Value,
        writer: &Writer<'_>,
        reach: Reach,
    ) {
        let mut difference = compare(schema, old, new);
        difference.each(|fields| reach.narrow(fields));
        let taken = strip(difference.set());
        let mut fields = self
            .find(writer)
            .map_or_else(Fields::default, |e| e.fields.clone());
        fields.subtract(&difference.removed);
        self.give_up(&difference, writer);
        let time = if taken.is_empty() {
            self.find(writer).map(|entry| entry.time.clone())
        } else {
            None
        };
        fields.union(&taken);
        self.put(fields, writer, time);
    }

    /// Others lose what the difference changes.
    fn give_up(&mut self, difference: &Difference, writer: &Writer<'_>) {
        let set = difference.set();
        for entry in self.0.iter_mut().filter(|entry| !writer.is(entry)) {
            entry.fields.subtract(&set);
            entry.fields.subtract(&difference.removed);
        }
        self.0
            .retain(|entry| writer.is(entry) || !entry.fields.is_empty());
    }

    /// Sets the writer's entry; `time` is the writer's own if there is none.
    fn put(&mut self, fields: Fields, writer: &Writer<'_>, time: Option<String>) {
        self.0.retain(|entry| !writer.is(entry));
        if !fields.is_empty() {
            let mut entry = writer.entry(fields);
            if let Some(time) = time {
                entry.time = time;
            }
            self.0.push(entry);
        }
    }

    /// Every field that someone manages.
    fn all(&self) -> Fields {
        let mut all = Fields::default();
        for entry in &self.0 {
            all.union(&entry.fields);
        }
        all
    }

    /// Applies a configuration to a live object, both without `managedFields`. Answers the object that results.
    pub(crate) fn apply(
        &mut self,
        schema: &Schema,
        live: &Value,
        config: &Value,
        writer: &Writer<'_>,
        reach: Reach,
        force: bool,
    ) -> Result<Value, Vec<Conflict>> {
        let before = self.find(writer).cloned();
        let mut set = collect(schema, config);
        reach.narrow(&mut set);
        let set = strip(set);
        let mut merged = combine(schema, live, config);
        self.put(set, writer, None);
        if let Some(last) = &before {
            merged = self.prune(schema, merged, &last.fields);
        }
        let mut difference = compare(schema, live, &merged);
        difference.each(|fields| reach.narrow(fields));
        let conflicts = self.conflicts(&difference, writer);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        self.give_up(&difference, writer);
        Ok(merged)
    }

    /// Takes away what the applier set last and sets no more, unless someone else manages it.
    fn prune(&self, schema: &Schema, merged: Value, last: &Fields) -> Value {
        let gone = with_parents(schema, last).difference(&with_parents(schema, &self.all()));
        if gone.is_empty() {
            return merged;
        }
        remove(schema, &merged, &gone)
    }

    fn conflicts(&self, difference: &Difference, writer: &Writer<'_>) -> Vec<Conflict> {
        let set = strip(difference.set());
        let others = self.0.iter().filter(|entry| !writer.is(entry));
        others
            .filter_map(|entry| {
                let both = entry.fields.intersection(&set);
                (!both.is_empty()).then(|| Conflict {
                    with: entry.words(),
                    fields: both.paths(),
                })
            })
            .collect()
    }

    /// Everything belongs to one who never applied: the state of an object whose fields were never managed.
    pub(crate) fn before_first_apply(
        schema: &Schema,
        empty: &Value,
        live: &Value,
        writer: &Writer<'_>,
    ) -> Self {
        let first = Writer {
            manager: "before-first-apply",
            operation: Operation::Update,
            subresource: None,
            ..*writer
        };
        let mut managers = Self::default();
        managers.update(schema, empty, live, &first, Reach::Whole);
        managers
    }
}

impl Entry {
    fn words(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            name => format!(" with subresource \"{name}\""),
        };
        let using = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => format!(" using {}", self.version),
        };
        format!("\"{}\"{subresource}{using}", self.manager)
    }
}

/// Fields that another manager holds and that an apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    with: String,
    fields: Vec<String>,
}

/// The refusal of an apply without force.
pub(crate) fn refusal(subject: &Subject<'_>, conflicts: &[Conflict]) -> Status {
    let total: usize = conflicts.iter().map(|conflict| conflict.fields.len()).sum();
    let list: Vec<String> = conflicts
        .iter()
        .map(|conflict| match conflict.fields.as_slice() {
            [one] => format!("conflict with {}: {one}", conflict.with),
            many => format!("conflicts with {}:\n- {}", conflict.with, many.join("\n- ")),
        })
        .collect();
    let plural = if total == 1 { "" } else { "s" };
    let mut status = Status::conflict(subject, "");
    status.message = format!("Apply failed with {total} conflict{plural}: {}", list.join("\n"));
    let causes = conflicts.iter().flat_map(|conflict| {
        conflict.fields.iter().map(|field| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", conflict.with),
                "field": field,
            })
        })
    });
    status.details = json!({"causes": causes.collect::<Vec<_>>()});
    status
}
