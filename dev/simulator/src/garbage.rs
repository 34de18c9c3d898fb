//! Deletion, and the controllers that follow it: namespaces that end, and dependents whose owners are gone.

use crate::{
    meta,
    prepare::{Endpoint, is_namespace},
    state::{NAMESPACES, State},
    status::Status,
    write::{Patch, Target, is_over},
};
use serde_json::{Value, json};
use std::{mem::take, sync::Arc, time::Duration};

/// When the controllers of a plane act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// In the same step as the write that gives them work.
    AtOnce,
    /// After a while.
    After(Duration),
    /// Each thing after a while of its own, no longer than this.
    Within(Duration),
    /// Never.
    Off,
}

/// Something for the controllers to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chore {
    /// An object names owners.
    Owners(usize, Box<str>),
    /// An owner is gone.
    Dependents(Box<str>),
    /// A namespace ends.
    Namespace(Box<str>),
}

/// What becomes of the dependents of an object that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Propagation {
    #[default]
    Collect,
    Orphan,
}

/// Conditions of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Propagation,
    pub(crate) dry_run: bool,
}

impl Deletion {
    /// Reads `DeleteOptions`, and what the query says.
    pub(crate) fn parse(body: &Value, propagation: Option<&str>, dry_run: bool) -> Self {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let preconditions = &body["preconditions"];
        let policy = body["propagationPolicy"].as_str().or(propagation);
        let orphan = policy == Some("Orphan") || body["orphanDependents"] == true;
        Self {
            uid: text(&preconditions["uid"]),
            version: text(&preconditions["resourceVersion"]),
            propagation: if orphan {
                Propagation::Orphan
            } else {
                Propagation::Collect
            },
            dry_run: dry_run || body["dryRun"].as_array().is_some_and(|list| !list.is_empty()),
        }
    }
}

/// What a deletion did.
#[derive(Debug, Clone)]
pub(crate) struct Deleted {
    pub(crate) object: Arc<Value>,
    /// The object is gone; else it waits for its finalizers.
    pub(crate) gone: bool,
    pub(crate) changed: bool,
}

impl State {
    /// Deletes an object, or marks it as ending while finalizers hold it.
    pub(crate) fn delete(&mut self, table: usize, key: &str, how: &Deletion) -> Result<Deleted, Status> {
        let name = key.rsplit('/').next().unwrap_or(key);
        let subject = self.subject(table, name);
        let object = self
            .get(table, key)
            .cloned()
            .ok_or_else(|| Status::not_found(&subject))?;
        for (what, wanted, actual) in [
            ("UID", &how.uid, meta::uid(&object)),
            (
                "ResourceVersion",
                &how.version,
                meta::text(&object, "resourceVersion"),
            ),
        ] {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
                let why = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
                );
                let mut status = Status::conflict(&subject, &why);
                // Namespaces have a handler of their own.
                if table != NAMESPACES {
                    status.details["kind"] = json!(&*self.tables[table].definition.kind);
                }
                return Err(status);
            }
        }
        let definition = self.tables[table].definition.clone();
        if is_namespace(&definition) && ["default", "kube-system"].contains(&name) {
            return Err(Status::forbidden(&subject, "this namespace may not be deleted"));
        }
        if how.propagation == Propagation::Orphan && !how.dry_run {
            self.release_dependents(meta::uid(&object));
        }
        let mut ending = Value::clone(&object);
        if !meta::is_ending(&object) {
            meta::set(&mut ending, "deletionTimestamp", json!(self.clock.now()));
            if is_namespace(&definition) {
                ending["status"]["phase"] = json!("Terminating");
            } else {
                meta::set(&mut ending, "deletionGracePeriodSeconds", json!(0));
            }
            if let Some(generation) = object["metadata"]["generation"].as_u64() {
                meta::set(&mut ending, "generation", json!(generation + 1));
            }
        }
        let gone = is_over(&definition, &ending);
        let changed = (gone || ending != *object) && !how.dry_run;
        let object = if !changed {
            object
        } else if gone {
            self.remove(table, key)
        } else {
            let object = self.commit(table, key, ending);
            if is_namespace(&definition) {
                self.chores.push_back(Chore::Namespace(name.into()));
            }
            object
        };
        Ok(Deleted {
            object,
            gone,
            changed,
        })
    }

    /// Takes an object out. Answers its last state, with the version of the deletion.
    pub(crate) fn remove(&mut self, table: usize, key: &str) -> Arc<Value> {
        let object = self.take_out(table, key);
        let uid = meta::uid(&object);
        if self.dependents.contains_key(uid) {
            self.chores.push_back(Chore::Dependents(uid.into()));
        }
        let namespace = meta::namespace(&object);
        if self
            .get(NAMESPACES, namespace)
            .is_some_and(|namespace| meta::is_ending(namespace))
        {
            self.chores.push_back(Chore::Namespace(namespace.into()));
        }
        object
    }

    /// Does what was put off.
    pub(crate) fn deferred_chores(&mut self) {
        self.deferred = false;
        self.do_chores();
    }

    /// Does all that is to be done.
    pub(crate) fn do_chores(&mut self) {
        while let Some(chore) = self.chores.pop_front() {
            self.do_chore(&chore);
        }
    }

    /// What is to be done and has not been put off yet, each with its delay.
    pub(crate) fn put_off_chores(&mut self, longest: Duration) -> Vec<(Duration, Chore)> {
        let chores = take(&mut self.chores).into_iter();
        chores
            .map(|chore| (self.delays.duration(&(Duration::ZERO..=longest)), chore))
            .collect()
    }

    pub(crate) fn do_chore(&mut self, chore: &Chore) {
        match chore {
            Chore::Owners(table, key) => self.collect(*table, key),
            Chore::Dependents(uid) => {
                let dependents = self.dependents.get(uid).cloned().unwrap_or_default();
                for (table, key) in dependents {
                    self.collect(table, &key);
                }
            }
            Chore::Namespace(name) => self.empty_namespace(name),
        }
    }

    /// Deletes an object whose owners are all gone; if some are left, references to the others are taken off.
    fn collect(&mut self, table: usize, key: &str) {
        let Some(object) = self.get(table, key).cloned() else {
            return;
        };
        let owners = meta::list(&object, "ownerReferences");
        let namespace = meta::namespace(&object);
        let (there, gone): (Vec<&Value>, Vec<&Value>) = owners
            .iter()
            .partition(|owner| self.owner_lives(owner, namespace));
        if gone.is_empty() {
            return;
        }
        if !there.is_empty() {
            let left: Vec<Value> = there.into_iter().cloned().collect();
            self.set_owners(table, &object, left);
        } else if !meta::is_ending(&object) {
            let uid = Some(meta::uid(&object).to_owned());
            let how = Deletion {
                uid,
                ..Deletion::default()
            };
            // It was read under the same lock, so it is there and has this UID.
            let _ = self.delete(table, key, &how);
        }
    }

    /// Whether the object that a reference names is there, with the UID of the reference. Kinds that this plane does
    /// not have count as there: nothing is known about them.
    fn owner_lives(&self, owner: &Value, namespace: &str) -> bool {
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        let is = |table: &crate::state::Table| {
            *table.definition.kind == *text("kind") && *table.definition.group == *group
        };
        let Some(table) = self.tables.iter().position(is) else {
            return true;
        };
        let namespace = if self.tables[table].definition.namespaced {
            namespace
        } else {
            ""
        };
        let found = self.get(table, &meta::key(namespace, text("name")));
        found.is_some_and(|object| meta::uid(object) == text("uid"))
    }

    /// Takes the references to an owner off its dependents.
    fn release_dependents(&mut self, uid: &str) {
        let dependents = self.dependents.get(uid).cloned().unwrap_or_default();
        for (table, key) in dependents {
            let Some(object) = self.get(table, &key).cloned() else {
                continue;
            };
            let owners = meta::list(&object, "ownerReferences").iter();
            let left: Vec<Value> = owners.filter(|owner| owner["uid"] != uid).cloned().collect();
            self.set_owners(table, &object, left);
        }
    }

    /// Writes the owners of an object, as its controller does.
    fn set_owners(&mut self, table: usize, object: &Value, owners: Vec<Value>) {
        let definition = self.tables[table].definition.clone();
        let Some(version) = definition.storage() else {
            return;
        };
        let target = Target {
            table,
            definition: &definition,
            version,
            namespace: meta::namespace(object),
            name: meta::name(object),
            endpoint: Endpoint::Main,
            manager: "kube-controller-manager",
            dry_run: false,
        };
        let owners = if owners.is_empty() {
            Value::Null
        } else {
            Value::Array(owners)
        };
        // It was read under the same lock, and owners alone are always valid.
        let _ = self.patch(
            &target,
            Patch::Merge,
            &json!({"metadata": {"ownerReferences": owners}}),
        );
    }

    /// Deletes what is in an ending namespace, and the namespace once it is empty.
    fn empty_namespace(&mut self, name: &str) {
        let ending = |object: &Arc<Value>| meta::is_ending(object);
        if !self.get(NAMESPACES, name).is_some_and(ending) {
            return;
        }
        let mut left = false;
        for table in 0..self.tables.len() {
            if !self.tables[table].definition.namespaced {
                continue;
            }
            let keys: Vec<Box<str>> = self
                .in_namespace(table, name)
                .map(|(key, _)| key.clone())
                .collect();
            for key in keys {
                let gone = self.delete(table, &key, &Deletion::default());
                left |= gone.is_ok_and(|deleted| !deleted.gone);
            }
        }
        if left {
            return;
        }
        let Some(namespace) = self.get(NAMESPACES, name) else {
            return;
        };
        let mut empty = Value::clone(namespace);
        empty["spec"]["finalizers"] = json!([]);
        if !meta::has_finalizers(&empty) {
            self.remove(NAMESPACES, name);
        } else if empty != **namespace {
            self.commit(NAMESPACES, name, empty);
        }
    }
}
