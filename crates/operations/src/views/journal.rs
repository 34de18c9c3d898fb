//! The last writes, as rows.

use crate::{
    JournalRow, Rows, Time,
    query::{self, From, Query},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    executor::journal::{End, Entry},
    key::{Key, Plane},
};
use std::sync::Arc;

/// The project of an object, and its namespace there.
pub type Owner = Option<(ProjectKey, Arc<str>)>;

/// A page of the writes that a query selects, newest first; `owner` finds the project of an object on the hub.
pub fn rows(entries: &[Arc<Entry>], query: &Query, owner: impl Fn(&Key) -> Owner) -> Rows<JournalRow> {
    let before = match &query.page.from {
        From::After(number) => number.parse().unwrap_or(0),
        From::Start | From::Skip(_) => u64::MAX,
    };
    let mut selected = entries
        .iter()
        .filter(|entry| entry.number < before && entry.number > query.after.unwrap_or(0))
        .filter_map(|entry| {
            let owner = owner_of(&entry.object, &owner);
            selects(query, entry, owner.as_ref()).then_some((entry, owner))
        });
    let page: Vec<_> = selected.by_ref().take(query.page.limit).collect();
    let remaining = selected.count();
    let items: Vec<JournalRow> = page.into_iter().map(|(entry, owner)| row(entry, owner)).collect();
    let last = items.last().filter(|_| remaining > 0);
    Rows {
        next: last.map(|row| From::After(row.seq.to_string())),
        items,
        remaining,
    }
}

fn owner_of(key: &Key, owner: &impl Fn(&Key) -> Owner) -> Owner {
    match &key.plane {
        Plane::Project(project) => Some((project.clone(), key.namespace.clone())),
        Plane::Hub | Plane::Cell | Plane::Home => owner(key),
    }
}

fn result(end: &End) -> &'static str {
    match end {
        End::Applied(_) => "ok",
        End::Failed(category, _) => category.as_str(),
    }
}

fn selects(query: &Query, entry: &Entry, owner: Option<&(ProjectKey, Arc<str>)>) -> bool {
    let is = |wanted: &Option<String>, had: &str| query::selects(wanted.as_deref(), had);
    let key = &entry.object;
    let result = result(&entry.end);
    is(&query.project, owner.map_or("", |(project, _)| project.as_str()))
        && (is(&query.namespace, &key.namespace)
            || owner.is_some_and(|(_, namespace)| is(&query.namespace, namespace)))
        && is(&query.name, &key.name)
        && is(&query.plane, key.plane.kind())
        && is(&query.reason, entry.reason)
        && (is(&query.result, result) || query.result.as_deref() == Some("failed") && result != "ok")
}

fn row(entry: &Entry, owner: Owner) -> JournalRow {
    let key = &entry.object;
    let place = if key.namespace.is_empty() {
        key.name.to_string()
    } else {
        format!("{}/{}", key.namespace, key.name)
    };
    let (resource_version, message) = match &entry.end {
        End::Applied(version) => (version.as_deref().map(str::to_owned), String::new()),
        End::Failed(_, message) => (None, message.to_string()),
    };
    JournalRow {
        seq: entry.number,
        at: Time(entry.at),
        plane: key.plane.kind().to_owned(),
        project: owner.map_or_else(String::new, |(project, _)| project.as_str().to_owned()),
        object: format!("{} {place}", key.kind),
        verb: entry.verb.to_owned(),
        reason: entry.reason.to_owned(),
        result: result(&entry.end).to_owned(),
        took_ms: u64::try_from(entry.took.as_millis()).unwrap_or(u64::MAX),
        resource_version,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::PageQuery;
    use fedgate_engine::{error::Category, key::Kind};
    use jiff::Timestamp;
    use std::time::Duration;

    fn entry(number: u64, plane: Plane, namespace: &str, end: End) -> Arc<Entry> {
        Arc::new(Entry {
            number,
            at: Timestamp::UNIX_EPOCH,
            object: Key::new(plane, Kind::new("things", "x.y"), namespace, "web"),
            verb: "apply",
            reason: "create copy",
            end,
            took: Duration::from_millis(9),
        })
    }

    fn shop() -> ProjectKey {
        ProjectKey::parse("shop").unwrap()
    }

    fn all() -> Vec<Arc<Entry>> {
        let refused = End::Failed(Category::Refused, "no".into());
        vec![
            entry(4, Plane::Hub, "ns-1", refused),
            entry(3, Plane::Hub, "ns-2", End::Applied(None)),
            entry(
                2,
                Plane::Project(shop()),
                "default",
                End::Applied(Some("7".into())),
            ),
            entry(1, Plane::Hub, "", End::Applied(Some("6".into()))),
        ]
    }

    fn numbers(query: &Query) -> (Vec<u64>, Option<From>, usize) {
        let owner = |key: &Key| (&*key.namespace == "ns-1").then(|| (shop(), "default".into()));
        let found = rows(&all(), query, owner);
        let numbers = found.items.iter().map(|row| row.seq).collect();
        (numbers, found.next, found.remaining)
    }

    #[test]
    fn writes_are_selected_by_the_project_that_they_belong_to() {
        let some = |text: &str| Some(text.to_owned());
        let table = [
            (
                Query {
                    project: some("shop"),
                    ..Query::default()
                },
                vec![4, 2],
            ),
            (
                Query {
                    namespace: some("default"),
                    ..Query::default()
                },
                vec![4, 2],
            ),
            (
                Query {
                    namespace: some("ns-2"),
                    ..Query::default()
                },
                vec![3],
            ),
            (
                Query {
                    result: some("failed"),
                    ..Query::default()
                },
                vec![4],
            ),
            (
                Query {
                    result: some("refused"),
                    ..Query::default()
                },
                vec![4],
            ),
            (
                Query {
                    result: some("ok"),
                    plane: some("hub"),
                    ..Query::default()
                },
                vec![3, 1],
            ),
            (
                Query {
                    after: Some(2),
                    ..Query::default()
                },
                vec![4, 3],
            ),
            (
                Query {
                    name: some("other"),
                    ..Query::default()
                },
                vec![],
            ),
        ];
        for (query, expected) in table {
            assert_eq!(numbers(&query), (expected, None, 0), "{query:?}");
        }
    }

    #[test]
    fn a_page_begins_after_the_number_of_the_last_row() {
        let mut query = Query {
            page: PageQuery {
                limit: 3,
                ..PageQuery::default()
            },
            ..Query::default()
        };
        let next = From::After("2".to_owned());
        assert_eq!(numbers(&query), (vec![4, 3, 2], Some(next.clone()), 1));
        query.page.from = next;
        assert_eq!(numbers(&query), (vec![1], None, 0));
    }

    #[test]
    fn a_row_has_the_object_the_result_and_the_words_of_a_failure() {
        let failed = row(&all()[0], None);
        assert_eq!(
            (failed.object.as_str(), failed.result.as_str()),
            ("things.x.y ns-1/web", "refused")
        );
        assert_eq!((failed.message.as_str(), failed.resource_version), ("no", None));
        let applied = row(&all()[3], None);
        assert_eq!(
            (applied.object.as_str(), applied.result.as_str()),
            ("things.x.y web", "ok")
        );
        assert_eq!(
            (applied.resource_version.as_deref(), applied.took_ms),
            (Some("6"), 9)
        );
    }
}
