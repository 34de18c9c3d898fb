//! Changes since the role was last asked.

use super::log::{BYTES, ROWS};
use crate::api::topics::{Part, Topic};
use bytes::Bytes;
use fedgate_operations::{
    Changes, Class, Header, OperationsSource, StuckGroup,
    query::{MOST, PageQuery, Query},
};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The earlier state that a part is compared with.
#[derive(Debug, Clone)]
pub(super) enum Base {
    /// The role names what has changed.
    Named,
    /// The last overview.
    Overview(Bytes),
    /// The last groups.
    Stuck(Groups),
    /// Number of the last write.
    Journal(u64),
}

/// A part that a stream shows.
#[derive(Debug)]
pub(super) struct Watched {
    /// Last state of the topic.
    pub(super) base: Base,
    /// Number of the delta after which its changes are in the log.
    pub(super) since: u64,
}

/// Serialized rows of a part.
#[derive(Debug, Clone)]
pub(super) struct Content {
    /// The JSON text.
    pub(super) text: Bytes,
    /// Number of rows.
    pub(super) rows: usize,
}

impl Content {
    fn of(rows: usize, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(text) if rows <= ROWS && text.len() <= BYTES => Self {
                text: text.into(),
                rows,
            },
            _ => Self::too_much(),
        }
    }

    /// More than fits into a delta.
    fn too_much() -> Self {
        Self {
            text: Bytes::new(),
            rows: ROWS + 1,
        }
    }
}

/// A delta.
#[derive(Debug)]
pub(super) struct Change {
    /// The time for which it holds.
    pub(super) as_of: String,
    /// The parts that have changed.
    pub(super) parts: BTreeMap<Part, Content>,
}

impl Change {
    pub(super) fn size(&self) -> usize {
        self.parts.values().map(|content| content.text.len()).sum()
    }
}

/// The state with which parts begin.
pub(super) struct Begun {
    pub(super) header: Header,
    pub(super) parts: Vec<(Part, Base)>,
}

impl Begun {
    /// Asks the role. `is_first`: from now on it collects the names of what changes.
    pub(super) fn of(source: &dyn OperationsSource, parts: Vec<Part>, is_first: bool) -> Self {
        if is_first {
            source.collect_changes(true);
        }
        let base = |part: Part| {
            let base = match part.1 {
                Topic::Projects | Topic::Cells => Base::Named,
                Topic::Overview => Base::Overview(overview(source)),
                Topic::Stuck => Base::Stuck(groups(source, part.0.clone()).0),
                Topic::Journal => {
                    let newest = source.journal(&Query {
                        page: page(1),
                        ..Query::default()
                    });
                    Base::Journal(newest.items.first().map_or(0, |row| row.seq))
                }
            };
            (part, base)
        };
        Self {
            header: source.header(),
            parts: parts.into_iter().map(base).collect(),
        }
    }
}

/// Asks the role what has changed in these parts, whose states move on.
pub(super) fn collect(
    source: &dyn OperationsSource,
    mut watched: BTreeMap<Part, Watched>,
) -> (BTreeMap<Part, Watched>, Change) {
    let as_of = source.header().as_of.to_string();
    let changes = source.take_changes();
    let mut parts = BTreeMap::new();
    for (part, watched) in &mut watched {
        let project = part.0.as_deref();
        let content = match &mut watched.base {
            Base::Named if part.1 == Topic::Projects => projects(source, project, &changes),
            Base::Named => cells(source, &changes),
            Base::Overview(last) => {
                let now = overview(source);
                (now != *last).then(|| {
                    last.clone_from(&now);
                    Content { text: now, rows: 1 }
                })
            }
            Base::Stuck(last) => stuck(source, project, last),
            Base::Journal(last) => journal(source, project, last),
        };
        parts.extend(content.map(|content| (part.clone(), content)));
    }
    (watched, Change { as_of, parts })
}

fn page(limit: usize) -> PageQuery {
    PageQuery {
        limit,
        ..PageQuery::default()
    }
}

fn overview(source: &dyn OperationsSource) -> Bytes {
    // A struct of numbers and texts is always serialized.
    serde_json::to_vec(&source.overview()).unwrap_or_default().into()
}

/// The rows that were found, and the names without one.
fn rows_and_gone<T: Serialize>(
    names: &BTreeSet<String>,
    rows: &[T],
    name: fn(&T) -> &str,
) -> Option<Content> {
    let found: BTreeSet<&str> = rows.iter().map(name).collect();
    let gone: Vec<_> = names
        .iter()
        .filter(|name| !found.contains(name.as_str()))
        .collect();
    let count = rows.len() + gone.len();
    (count > 0).then(|| Content::of(count, &json!({"rows": rows, "gone": gone})))
}

fn projects(source: &dyn OperationsSource, project: Option<&str>, changes: &Changes) -> Option<Content> {
    let mut names = changes.projects.clone();
    if let Some(project) = project {
        // One row costs little, so it is sent if it may have changed.
        let is_named = changes.overflow || names.contains(project);
        names = is_named.then(|| project.to_owned()).into_iter().collect();
    } else if changes.overflow || names.len() > ROWS {
        return Some(Content::too_much());
    }
    let rows = source.project_rows(&names);
    rows_and_gone(&names, &rows, |row| &row.project)
}

fn cells(source: &dyn OperationsSource, changes: &Changes) -> Option<Content> {
    if changes.overflow || changes.cells.len() > ROWS {
        return Some(Content::too_much());
    }
    let rows = source.cell_rows(&changes.cells);
    rows_and_gone(&changes.cells, &rows, |row| &row.cell)
}

type Groups = BTreeMap<(Class, String, String), StuckGroup>;

/// The groups, and whether these are all.
fn groups(source: &dyn OperationsSource, project: Option<String>) -> (Groups, bool) {
    let rows = source.stuck(&Query {
        project,
        page: page(MOST),
        ..Query::default()
    });
    let key = |group: &StuckGroup| (group.class, group.plane.clone(), group.word.clone());
    let is_all = rows.next.is_none();
    let groups = rows.items.into_iter().map(|group| (key(&group), group));
    (groups.collect(), is_all)
}

fn stuck(source: &dyn OperationsSource, project: Option<&str>, last: &mut Groups) -> Option<Content> {
    let (now, is_all) = groups(source, project.map(str::to_owned));
    if now == *last {
        return None;
    }
    let before = std::mem::replace(last, now);
    if !is_all {
        return Some(Content::too_much());
    }
    let rows: Vec<_> = last
        .iter()
        .filter(|(key, group)| before.get(key) != Some(group))
        .map(|(_, group)| group)
        .collect();
    let gone: Vec<_> = before
        .keys()
        .filter(|key| !last.contains_key(key))
        .map(|(class, plane, word)| json!({"class": class, "plane": plane, "word": word}))
        .collect();
    let count = rows.len() + gone.len();
    Some(Content::of(count, &json!({"rows": rows, "gone": gone})))
}

/// The writes since the last one, newest first.
fn journal(source: &dyn OperationsSource, project: Option<&str>, last: &mut u64) -> Option<Content> {
    let rows = source.journal(&Query {
        project: project.map(str::to_owned),
        after: Some(*last),
        page: page(MOST),
        ..Query::default()
    });
    *last = rows.items.first()?.seq;
    if rows.next.is_some() {
        return Some(Content::too_much());
    }
    Some(Content::of(rows.items.len(), &rows.items))
}
