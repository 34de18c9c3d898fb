//! The store of one plane: objects, their history, and who waits for changes.

pub(crate) use crate::table::{Change, Kind, Table};
use crate::{
    clock::Clock,
    definition::{Definition, builtin},
    garbage::{Chore, Controllers},
    journal::{self, CONTROLLERS, Journal},
    karmada::{Actor, Membership, Told},
    meta,
    random::Random,
    status::Subject,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem::take,
    ops::Bound,
    sync::Arc,
    task::Waker,
};
use tokio::time::Instant;

/// How a plane that is down behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// Connections are refused, and open watches break.
    Refused,
    /// Connections are accepted and nothing is ever answered; open watches go silent.
    BlackHole,
}

/// How watches tell what they tell.
#[derive(Debug)]
pub(crate) struct Streams {
    /// That a version is too old is an event of a stream, not an answer without one.
    pub(crate) gone_inside: bool,
    /// Each event comes twice.
    pub(crate) repeats: bool,
}

/// Everything that one plane holds.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// For how long controllers take: what they draw changes no UID.
    pub(crate) delays: Random,
    pub(crate) revision: u64,
    pub(crate) writes: u64,
    /// Watches and lists of older versions are refused.
    pub(crate) compacted: u64,
    pub(crate) streams: Streams,
    pub(crate) tables: Vec<Table>,
    /// Objects by the UID of an owner that they name.
    pub(crate) dependents: BTreeMap<Box<str>, BTreeSet<(usize, Box<str>)>>,
    pub(crate) chores: VecDeque<Chore>,
    pub(crate) controllers: Controllers,
    /// A deferred step of the controllers is under way.
    pub(crate) deferred: bool,
    pub(crate) history: usize,
    pub(crate) karmada: Option<Actor>,
    /// The hubs of which the plane is a member.
    pub(crate) memberships: Vec<Membership>,
    /// What hubs have to hear of their members, when the lock is free again.
    pub(crate) told: Vec<Told>,
    pub(crate) down: Option<Down>,
    pub(crate) removed: bool,
    watches: u64,
    /// The plane's name.
    name: Arc<str>,
    /// Who makes the changes that are under way.
    pub(crate) author: Arc<str>,
    journal: Journal,
    /// Whom to wake when the lock is free again.
    pub(crate) wakes: Vec<Waker>,
}

/// Changes that a table keeps unless told otherwise.
const HISTORY: usize = 1_000;

impl State {
    /// A plane as it is after its start.
    pub(crate) fn new(name: &str, clock: Clock, random: Random, journal: Journal) -> Self {
        let mut state = Self {
            clock,
            delays: random.clone().fork(),
            random,
            revision: 0,
            writes: 0,
            compacted: 0,
            streams: Streams {
                gone_inside: true,
                repeats: false,
            },
            tables: builtin().iter().cloned().map(Table::new).collect(),
            dependents: BTreeMap::new(),
            chores: VecDeque::new(),
            controllers: Controllers::AtOnce,
            deferred: false,
            history: HISTORY,
            karmada: None,
            memberships: Vec::new(),
            told: Vec::new(),
            down: None,
            removed: false,
            watches: 0,
            name: name.into(),
            author: CONTROLLERS.into(),
            journal,
            wakes: Vec::new(),
        };
        for name in ["default", "kube-system"] {
            let uid = state.random.uuid();
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {
                    "name": name, "uid": uid, "creationTimestamp": clock.now(),
                    "labels": {"kubernetes.io/metadata.name": name},
                },
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            state.commit(NAMESPACES, name, namespace);
        }
        state.writes = 0;
        state
    }

    /// Adds a kind; one of the same group and plural is replaced and keeps its objects.
    pub(crate) fn define(&mut self, definition: Arc<Definition>) {
        match self.table(&definition.group, &definition.plural) {
            Some(table) => self.tables[table].definition = definition,
            None => self.tables.push(Table::new(definition)),
        }
    }

    pub(crate) fn table(&self, group: &str, plural: &str) -> Option<usize> {
        let is = |table: &Table| *table.definition.plural == *plural && *table.definition.group == *group;
        self.tables.iter().position(is)
    }

    /// The table that a caller's word means.
    pub(crate) fn called(&self, word: &str) -> Option<usize> {
        self.tables
            .iter()
            .position(|table| table.definition.is_called(word))
    }

    pub(crate) fn get(&self, table: usize, key: &str) -> Option<&Arc<Value>> {
        self.tables[table].objects.get(key)
    }

    /// The objects in a namespace, by key; all objects for an empty one.
    pub(crate) fn in_namespace(
        &self,
        table: usize,
        namespace: &str,
    ) -> impl Iterator<Item = (&Box<str>, &Arc<Value>)> {
        // Keys are `namespace/name`, and `0` is the character after `/`.
        let bounds = if namespace.is_empty() {
            (Bound::Unbounded, Bound::Unbounded)
        } else {
            let bound = |end: &str| Box::from(format!("{namespace}{end}"));
            (Bound::Included(bound("/")), Bound::Excluded(bound("0")))
        };
        self.tables[table].objects.range::<Box<str>, _>(bounds)
    }

    pub(crate) fn subject<'a>(&'a self, table: usize, name: &'a str) -> Subject<'a> {
        let definition = &self.tables[table].definition;
        Subject {
            group: &definition.group,
            resource: &definition.plural,
            name,
        }
    }

    /// Writes an object. Answers it with its new version.
    pub(crate) fn commit(&mut self, table: usize, key: &str, object: Value) -> Arc<Value> {
        self.record(table, key, object, false)
    }

    /// Takes an object out. Answers its last state, with the version of the deletion.
    pub(crate) fn take_out(&mut self, table: usize, key: &str) -> Arc<Value> {
        let last = self.get(table, key).map(|object| Value::clone(object));
        self.record(table, key, last.unwrap_or_default(), true)
    }

    fn record(&mut self, table: usize, key: &str, mut object: Value, deleted: bool) -> Arc<Value> {
        self.revision += 1;
        self.writes += 1;
        let (revision, at, limit) = (self.revision, Instant::now(), self.history);
        meta::set(&mut object, "resourceVersion", json!(revision.to_string()));
        let object = Arc::new(object);
        let objects = &mut self.tables[table].objects;
        let previous = if deleted {
            objects.remove(key)
        } else {
            objects.insert(key.into(), object.clone())
        };
        self.index(table, key, previous.as_deref(), (!deleted).then_some(&*object));
        let definition = &self.tables[table].definition;
        self.journal.add(|| journal::Change {
            plane: self.name.clone(),
            user: self.author.clone(),
            at,
            group: definition.group.clone(),
            resource: definition.plural.clone(),
            before: previous.clone(),
            after: (!deleted).then(|| object.clone()),
        });
        let kind = match (deleted, &previous) {
            (true, _) => Kind::Deleted,
            (false, None) => Kind::Added,
            (false, Some(_)) => Kind::Modified,
        };
        self.tables[table].changes.push_back(Change {
            revision,
            at,
            kind,
            key: key.into(),
            object: object.clone(),
            previous,
        });
        self.notice(table, key);
        self.tables[table].trim(limit);
        self.wake(table);
        object
    }

    /// Karmada hears of the newest change of a table, as the hub's and as the members'.
    fn notice(&mut self, table: usize, key: &str) {
        let Table {
            definition, changes, ..
        } = &self.tables[table];
        let Some(change) = changes.back() else { return };
        for membership in &mut self.memberships {
            membership.notice(&change.object);
        }
        // Of what it delivers it looks at changes of the specification only.
        let is_own = definition.group.ends_with("karmada.io");
        if let Some(karmada) = &mut self.karmada
            && (is_own || change.is_of_specification())
        {
            karmada.notice(table, key);
        }
    }

    /// Keeps the index of dependents.
    pub(crate) fn index(&mut self, table: usize, key: &str, old: Option<&Value>, new: Option<&Value>) {
        let owners = |object: Option<&Value>| -> BTreeSet<Box<str>> {
            let list = object.map(|object| meta::list(object, "ownerReferences"));
            let uids = list
                .unwrap_or_default()
                .iter()
                .filter_map(|owner| owner["uid"].as_str());
            uids.map(Into::into).collect()
        };
        let (before, after) = (owners(old), owners(new));
        for uid in before.difference(&after) {
            if let Some(of_owner) = self.dependents.get_mut(uid) {
                of_owner.remove(&(table, Box::from(key)));
                if of_owner.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in after.difference(&before) {
            let of_owner = self.dependents.entry(uid.clone()).or_default();
            of_owner.insert((table, key.into()));
        }
    }

    /// Wakes every watch of a table.
    pub(crate) fn wake(&mut self, table: usize) {
        self.wakes
            .extend(take(&mut self.tables[table].wakers).into_values());
    }

    /// Wakes every watch.
    pub(crate) fn wake_all(&mut self) {
        (0..self.tables.len()).for_each(|table| self.wake(table));
    }

    /// The next watch's number.
    pub(crate) fn watch_id(&mut self) -> u64 {
        self.watches += 1;
        self.watches
    }

    /// Lets all of the history go.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
        for table in &mut self.tables {
            table.trim(0);
        }
    }
}

/// The table of Namespaces is the first of every plane.
pub(crate) const NAMESPACES: usize = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State::new("test", Clock::start(), Random::new(1), Journal::default())
    }

    fn map(value: &str) -> Value {
        json!({"metadata": {"namespace": "default", "name": "a"}, "data": {"v": value}})
    }

    /// Keys and values at a revision, from after a key on.
    fn values(table: &Table, revision: u64, key: Option<&str>) -> Vec<String> {
        let past = table.at(revision).unwrap();
        let words = |(key, object): (&str, &Arc<Value>)| {
            format!("{key} {}", object["data"]["v"].as_str().unwrap_or_default())
        };
        past.after(key).map(words).collect()
    }

    #[test]
    fn the_past_is_in_order_and_begins_after_a_key() {
        let mut state = state();
        let maps = state.called("configmaps").unwrap();
        for (name, value) in [("a", "1"), ("c", "1"), ("d", "1")] {
            state.commit(maps, &format!("default/{name}"), map(value));
        }
        let then = state.revision;
        state.commit(maps, "default/b", map("2"));
        state.commit(maps, "default/c", map("2"));
        state.commit(maps, "default/e", map("2"));
        state.take_out(maps, "default/a");
        let table = &state.tables[maps];
        assert_eq!(
            values(table, then, None),
            ["default/a 1", "default/c 1", "default/d 1"]
        );
        assert_eq!(
            values(table, then, Some("default/a")),
            ["default/c 1", "default/d 1"]
        );
        let now = ["default/b 2", "default/c 2", "default/d 1", "default/e 2"];
        assert_eq!(values(table, state.revision, None), now);
    }

    #[test]
    fn each_write_is_one_revision_and_the_past_is_kept() {
        let mut state = state();
        let maps = state.called("ConfigMap").unwrap();
        let start = state.revision;
        let one = state.commit(maps, "default/a", map("1"));
        state.commit(maps, "default/a", map("2"));
        let gone = state.take_out(maps, "default/a");
        assert_eq!(meta::text(&one, "resourceVersion"), (start + 1).to_string());
        assert_eq!(meta::text(&gone, "resourceVersion"), (start + 3).to_string());
        assert_eq!(gone["data"]["v"], "2");
        let table = &state.tables[maps];
        let past = |revision| values(table, revision, None);
        assert!(past(start).is_empty());
        assert_eq!(past(start + 1), ["default/a 1"]);
        assert_eq!(past(start + 2), ["default/a 2"]);
        assert!(past(start + 3).is_empty());
        assert_eq!(table.after(start + 1), 1);
    }

    #[test]
    fn history_is_bounded_and_a_stale_view_keeps_its_part() {
        let mut state = state();
        let maps = state.called("configmaps").unwrap();
        state.history = 2;
        let start = state.revision;
        for n in 0..5 {
            state.commit(maps, "default/a", map(&n.to_string()));
        }
        assert_eq!(state.tables[maps].changes.len(), 2);
        assert!(state.tables[maps].at(start + 2).is_none());
        state.tables[maps].stale = Some(start + 4);
        for n in 5..9 {
            state.commit(maps, "default/a", map(&n.to_string()));
        }
        assert_eq!(values(&state.tables[maps], start + 4, None), ["default/a 3"]);
        state.tables[maps].stale = None;
        state.compact();
        assert!(state.tables[maps].at(start + 8).is_none());
    }

    #[test]
    fn dependents_are_found_by_their_owner() {
        let mut state = state();
        let maps = state.called("configmaps").unwrap();
        let mut owned = map("1");
        owned["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
        state.commit(maps, "default/a", owned);
        assert_eq!(state.dependents["u"], [(maps, Box::from("default/a"))].into());
        state.commit(maps, "default/a", map("2"));
        assert!(state.dependents.is_empty());
    }
}
