//! The passes over bindings: schedule, Works, status.

use super::{Interpreter, actor::Actor};
use crate::{meta, prepare::Endpoint, state::State};
use fedgate_karmada::{
    Object, binding,
    condition::fully_applied,
    schedule::{self, Placed},
    work,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

impl State {
    /// Schedules a binding and keeps its Works, or lets it go when it ends.
    pub(super) fn binding_pass(&mut self, table: usize, key: &str) {
        let Some(binding) = self.get(table, key).cloned() else {
            // Its template may wait for the name.
            return self.template_waits(key, table);
        };
        if meta::is_ending(&binding) {
            if self.karmada.as_ref().is_some_and(|actor| !actor.hold) {
                self.end_binding(table, &binding);
            }
            return;
        }
        // The scheduler and the controller of Works look at a change in any order.
        if self.karmada.as_mut().is_some_and(Actor::schedules_first) {
            let moved = self.schedule(table, &binding);
            self.keep_works(table, key);
            if moved {
                return;
            }
        } else {
            self.keep_works(table, key);
            if self.schedule(table, &binding) {
                return;
            }
        }
        self.report(table, key);
    }

    fn placed(&self, binding: &Value) -> Placed {
        let clusters = self.table("cluster.karmada.io", "clusters");
        let clusters: Vec<_> = clusters
            .into_iter()
            .flat_map(|table| self.tables[table].objects.values().cloned())
            .collect();
        schedule::place(binding, &clusters)
    }

    /// Writes the scheduler's result. Answers whether it is a new one: then the write brings the binding here once more,
    /// and until that the status is of the version before it.
    fn schedule(&mut self, table: usize, binding: &Value) -> bool {
        if !schedule::is_scheduled(binding) {
            return false;
        }
        let Placed { members, condition } = self.placed(binding);
        let moved = schedule::members(binding) != members;
        if moved {
            let patch = json!({"spec": {"clusters": schedule::targets(&members)}});
            self.karmada_patch(table, binding, Endpoint::Main, &patch);
        }
        let now = self.clock.now();
        let status = &binding["status"];
        let mut next = json!({"conditions": condition.set_in(&status["conditions"], &now)});
        if condition.status == "True" {
            next["schedulerObservedGeneration"] = binding["metadata"]["generation"].clone();
        }
        let news = next["conditions"] != status["conditions"]
            || !next["schedulerObservedGeneration"].is_null()
                && next["schedulerObservedGeneration"] != status["schedulerObservedGeneration"];
        if news {
            self.karmada_patch(table, binding, Endpoint::Status, &json!({"status": next}));
        }
        moved
    }

    /// Writes how far the members are, and what the one that has a binding alone reports.
    fn report(&mut self, table: usize, key: &str) {
        let Some(binding) = self.get(table, key).cloned() else {
            return;
        };
        let targets = schedule::reached(&binding);
        let scheduled = !binding["status"]["schedulerObservedGeneration"].is_null();
        if !scheduled && targets.is_empty() {
            return;
        }
        let items = self.items(&binding, &targets);
        let now = self.clock.now();
        let status = &binding["status"];
        let conditions = fully_applied(&targets, &items).set_in(&status["conditions"], &now);
        let list = if items.is_empty() {
            Value::Null
        } else {
            json!(items)
        };
        if conditions != status["conditions"] || status["aggregatedStatus"] != list {
            let status = json!({"conditions": conditions, "aggregatedStatus": list});
            self.karmada_patch(table, &binding, Endpoint::Status, &json!({"status": status}));
        }
        self.aggregate(&binding, &items);
    }

    /// An item for each Work; a member without an API server has applied whatever is dispatched to it.
    fn items(&self, binding: &Value, targets: &BTreeSet<String>) -> Vec<Value> {
        let works: Vec<Arc<Value>> = self.works_of(binding).into_iter().map(|(_, work)| work).collect();
        let mut items = work::items(&works);
        let suspended = binding["spec"]["suspension"]["dispatching"] == true;
        let reported = binding["status"]["aggregatedStatus"].as_array();
        for name in targets.iter().filter(|name| self.member(name).is_none()) {
            let last = reported.and_then(|list| list.iter().find(|item| item["clusterName"] == **name));
            items.push(match last {
                Some(last) if suspended => last.clone(),
                None if suspended => json!({"clusterName": name, "health": "Unknown"}),
                _ => json!({"clusterName": name, "applied": true, "health": "Healthy"}),
            });
        }
        items.sort_by(|one, other| one["clusterName"].as_str().cmp(&other["clusterName"].as_str()));
        items
    }

    /// Writes the status that the kind's interpreter makes of the members' to the template.
    fn aggregate(&mut self, binding: &Value, items: &[Value]) {
        let Some((table, template)) = self.template_of(binding) else {
            return;
        };
        let interpreter = self.interpreter(template.api_version(), template.kind());
        let status = interpreter.map_or(Value::Null, |found| found.aggregate(&template, items));
        if !status.is_null() && template["status"] != status {
            let status = crate::merge::replacing(&template["status"], &status);
            self.karmada_patch(table, &template, Endpoint::Status, &json!({"status": status}));
        }
    }

    /// The interpreter of a kind, if it has one.
    pub(super) fn interpreter(&self, api_version: &str, kind: &str) -> Option<Arc<dyn Interpreter>> {
        let definition = &self.tables[self.kind_table(api_version, kind)?].definition;
        let mut all = self.karmada.as_ref()?.interpreters.iter();
        let found = all.find(|(word, _)| definition.is_called(word));
        found.map(|(_, interpreter)| interpreter.clone())
    }

    /// The template that a binding names.
    pub(super) fn template_of(&self, binding: &Value) -> Option<(usize, Arc<Value>)> {
        let resource = &binding["spec"]["resource"];
        let text = |key: &str| resource[key].as_str().unwrap_or_default();
        let table = self.kind_table(text("apiVersion"), text("kind"))?;
        let template = self.get(table, &meta::key(text("namespace"), text("name")))?;
        Some((table, template.clone()))
    }

    /// The table of a kind, by the words of an object.
    pub(super) fn kind_table(&self, api_version: &str, kind: &str) -> Option<usize> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.tables
            .iter()
            .position(|table| *table.definition.kind == *kind && *table.definition.group == *group)
    }

    /// Deletes the Works of a binding and lets it go. Karmada does not wait for the members.
    fn end_binding(&mut self, table: usize, binding: &Value) {
        for (key, _) in self.works_of(binding) {
            self.delete_work(&key);
        }
        let mut left = meta::list(binding, "finalizers").to_vec();
        left.retain(|finalizer| !binding::FINALIZERS.iter().any(|own| finalizer == own));
        let patch = json!({"metadata": {"finalizers": left}});
        self.karmada_patch(table, binding, Endpoint::Main, &patch);
    }

    /// Looks at the templates that would have this binding.
    fn template_waits(&mut self, key: &str, bindings: usize) {
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        let name = key.rsplit('/').next().unwrap_or_default();
        for table in 0..self.tables.len() {
            let definition = &self.tables[table].definition;
            let Some(template) = name.strip_suffix(&format!("-{}", definition.kind.to_lowercase())) else {
                continue;
            };
            if definition.namespaced == self.tables[bindings].definition.namespaced {
                let key = meta::key(namespace, template);
                self.template_pass(table, &key);
            }
        }
    }

    /// Where the bindings of a namespace are; an empty namespace is that of `ClusterResourceBindings`.
    pub(super) fn bindings_of(&self, namespace: &str) -> Option<usize> {
        let plural = if namespace.is_empty() {
            "clusterresourcebindings"
        } else {
            "resourcebindings"
        };
        self.table("work.karmada.io", plural)
    }

    /// Whether bindings that end are held; those held so far are looked at again.
    pub(super) fn hold_bindings(&mut self, hold: bool) {
        let Some(actor) = &mut self.karmada else { return };
        actor.hold = hold;
        for (at, table) in self.tables.iter().enumerate() {
            if &*table.definition.group == "work.karmada.io" {
                table.objects.keys().for_each(|key| actor.notice(at, key));
            }
        }
    }

    /// Lets a binding go that ends and was held.
    pub(super) fn release_binding(&mut self, namespace: &str, name: &str) {
        let Some(table) = self.bindings_of(namespace) else {
            return;
        };
        let found = self.get(table, &meta::key(namespace, name)).cloned();
        if let Some(binding) = found.filter(|binding| meta::is_ending(binding)) {
            self.end_binding(table, &binding);
        }
    }
}
