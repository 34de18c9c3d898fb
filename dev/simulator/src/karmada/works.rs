//! Works: what bindings make of them, and what they do at members.

use crate::{
    definition::Definition, garbage::Deletion, meta, plane::Shared, prepare::Endpoint, state::State,
    status::Status, write::Target,
};
use fedgate_karmada::{Object, binding, manifest, names, schedule, work};
use serde_json::{Value, json};
use std::{mem::take, sync::Arc};

impl State {
    /// The table of Works.
    pub(super) fn works(&self) -> Option<usize> {
        self.table("work.karmada.io", "works")
    }

    /// The plane of a member, if it has one.
    pub(crate) fn member(&self, name: &str) -> Option<Arc<Shared>> {
        self.karmada.as_ref()?.members.get(name).cloned()
    }

    /// The Works of a binding, those that end, too.
    pub(super) fn works_of(&self, binding: &Value) -> Vec<(Box<str>, Arc<Value>)> {
        let (label, id) = binding::id(binding);
        let none = id.is_empty() || self.karmada.as_ref().is_none_or(|actor| actor.members.is_empty());
        let Some(works) = self.works().filter(|_| !none) else {
            return Vec::new();
        };
        let all = self.tables[works].objects.iter();
        all.filter(|(_, work)| work.label(label) == Some(id))
            .map(|(key, work)| (key.clone(), work.clone()))
            .collect()
    }

    /// Brings the Works of a binding to what it says, for members that have a plane.
    pub(super) fn keep_works(&mut self, table: usize, key: &str) {
        let Some(binding) = self.get(table, key).cloned() else {
            return;
        };
        let (reached, targets) = (schedule::reached(&binding), schedule::targets_of(&binding));
        for (work, _) in self.works_of(&binding) {
            let member = names::member_of(work.split('/').next().unwrap_or_default());
            if member.is_none_or(|member| !reached.contains(member)) {
                self.delete_work(&work);
            }
        }
        let Some((_, template)) = self.template_of(&binding) else {
            return;
        };
        for member in targets {
            if self.member(&member).is_some() {
                self.keep_work(table, key, &template, &binding, &member);
            }
        }
    }

    fn keep_work(
        &mut self,
        bindings: usize,
        binding_key: &str,
        template: &Value,
        binding: &Value,
        member: &str,
    ) {
        let Some(works) = self.works() else { return };
        let name = names::work(template.kind(), meta::namespace(template), meta::name(template));
        let key = meta::key(&names::work_namespace(member), &name);
        let Some(existing) = self.get(works, &key).cloned() else {
            let id = self.random.uuid();
            let desired = work::desired(template, binding, member, &id);
            // Refused only while the namespace of the Works ends.
            let _ = self.put(desired, Endpoint::Main);
            return;
        };
        if meta::is_ending(&existing) {
            if let Some(actor) = &mut self.karmada {
                actor.blocked.insert((bindings, binding_key.into()));
            }
            return;
        }
        let desired = work::desired(template, binding, member, work::id(&existing));
        if let Some(joined) = work::join(&existing, &desired) {
            // It was read under the same lock.
            let _ = self.put(joined, Endpoint::Main);
        }
    }

    pub(super) fn delete_work(&mut self, key: &str) {
        if let Some(works) = self.works() {
            // It was found under the same lock.
            let _ = self.delete(works, key, &Deletion::default());
        }
    }

    /// Delivers a Work, or ends it, and lets its binding know.
    pub(super) fn work_pass(&mut self, works: usize, key: &str) {
        let Some(work) = self.get(works, key).cloned() else {
            // A binding may wait for its name.
            let blocked = self.karmada.as_mut().map(|actor| take(&mut actor.blocked));
            for (table, key) in blocked.into_iter().flatten() {
                self.karmada_again(table, &key);
            }
            return;
        };
        if let Some((namespace, name)) = work::binding(&work)
            && let Some(bindings) = self.bindings_of(namespace)
        {
            let key = meta::key(namespace, name);
            if self.get(bindings, &key).is_some() {
                self.karmada_again(bindings, &key);
            }
        }
        let name = names::member_of(meta::namespace(&work)).unwrap_or_default();
        let Some(member) = self.member(name) else { return };
        if member.state.lock().down.is_some() {
            return;
        }
        if meta::is_ending(&work) {
            if self.end_work(&member, &work) {
                let mut left = meta::list(&work, "finalizers").to_vec();
                left.retain(|finalizer| finalizer != names::WORK_FINALIZER);
                let patch = json!({"metadata": {"finalizers": left}});
                self.karmada_patch(works, &work, Endpoint::Main, &patch);
            }
        } else {
            self.deliver(works, &member, &work);
        }
    }

    /// Whether a Cluster is ready; `None` if there is no such Cluster, or if it ends.
    fn readiness(&self, name: &str) -> Option<bool> {
        let clusters = self.table("cluster.karmada.io", "clusters")?;
        let cluster = self
            .get(clusters, name)
            .filter(|cluster| !meta::is_ending(cluster))?;
        Some(schedule::is_ready(cluster))
    }

    /// Does at the member what the end of a Work asks for. Answers whether that is done.
    fn end_work(&mut self, member: &Arc<Shared>, work: &Value) -> bool {
        let content = work::content(work);
        let observed = observe(member, content);
        let name = names::member_of(meta::namespace(work)).unwrap_or_default();
        if work::preserves(work) {
            // Karmada looks for the object and tries again for ever if it is not there.
            let Some(observed) = observed else { return false };
            let left = manifest::leave(content);
            if manifest::refusal(&left, &observed, name).is_some() {
                return false;
            }
            let left = manifest::retain(&left, &observed);
            return manifest::substance(&left) == manifest::substance(&observed)
                || self
                    .at_member(member, |state| state.put(left, Endpoint::Main))
                    .is_ok();
        }
        match self.readiness(name) {
            Some(false) => return false,
            None => return true,
            Some(true) => {}
        }
        if observed.is_some_and(|observed| manifest::is_managed(&observed)) {
            self.at_member(member, |state| state.delete_content(content));
        }
        true
    }

    /// Delivers a Work, and writes what became of it and what the member's object says.
    fn deliver(&mut self, works: usize, member: &Arc<Shared>, work: &Value) {
        let name = names::member_of(meta::namespace(work)).unwrap_or_default();
        let now = self.clock.now();
        let mut conditions = work::dispatching(work).set_in(&work["status"]["conditions"], &now);
        if !work::is_suspended(work) {
            if self.readiness(name) != Some(true) {
                return;
            }
            let outcome = self.apply_work(member, name, work);
            let outcome = outcome.as_ref().map_err(String::as_str);
            conditions = work::applied(outcome.copied()).set_in(&conditions, &now);
        }
        let mut status = json!({"conditions": conditions});
        let mut told = work.clone();
        told["status"] = status.clone();
        if work::is_applied(&told)
            && let Some(observed) = observe(member, work::content(work))
            && observed.annotation(names::WORK_NAME) == Some(meta::name(work))
        {
            let reported = self.reported(&observed);
            let reported = Some(&reported).filter(|status| !status.is_null());
            status["manifestStatuses"] = work::reflected(work, reported, "Healthy");
        } else {
            status["manifestStatuses"] = work["status"]["manifestStatuses"].clone();
        }
        let same = |key: &str| status[key] == work["status"][key];
        if !same("conditions") || !same("manifestStatuses") {
            self.karmada_patch(works, work, Endpoint::Status, &json!({"status": status}));
        }
    }

    /// The status that a member reports of an object.
    fn reported(&self, observed: &Value) -> Value {
        self.interpreter(observed.api_version(), observed.kind())
            .map_or_else(|| observed["status"].clone(), |found| found.reflect(observed))
    }

    /// Brings the member's object to what a Work says; the error is the reason why it is not.
    fn apply_work(&mut self, member: &Arc<Shared>, name: &str, work: &Value) -> Result<(), String> {
        let content = work::content(work);
        let wanted = match observe(member, content) {
            None => content.clone(),
            Some(observed) => {
                if let Some(reason) = manifest::refusal(content, &observed, name) {
                    return Err(reason);
                }
                let wanted = manifest::retain(content, &observed);
                if manifest::substance(&wanted) == manifest::substance(&observed) {
                    return Ok(());
                }
                wanted
            }
        };
        self.at_member(member, |state| state.put(wanted, Endpoint::Main))
            .map_err(|status| status.message)
    }

    /// Does something at a member. What follows from it is told when the hub's lock is free.
    fn at_member<T>(&mut self, member: &Arc<Shared>, act: impl FnOnce(&mut State) -> T) -> T {
        let (result, told) = member.change(super::KARMADA, act);
        self.told.extend(told);
        result
    }

    /// Creates or replaces an object.
    pub(super) fn put(&mut self, object: Value, endpoint: Endpoint) -> Result<(), Status> {
        let (api_version, kind) = (object.api_version().to_owned(), object.kind().to_owned());
        let table = self
            .kind_table(&api_version, &kind)
            .ok_or_else(Status::no_such_path)?;
        let definition: Arc<Definition> = self.tables[table].definition.clone();
        let version = definition
            .versions
            .iter()
            .find(|version| version.full_name == api_version)
            .ok_or_else(Status::no_such_path)?;
        let (namespace, name) = (
            meta::namespace(&object).to_owned(),
            meta::name(&object).to_owned(),
        );
        let there = self.get(table, &meta::key(&namespace, &name)).is_some();
        let target = Target {
            table,
            definition: &definition,
            version,
            namespace: &namespace,
            name: if there { &name } else { "" },
            endpoint,
            manager: super::KARMADA,
            dry_run: false,
        };
        if there {
            self.update(&target, object).map(drop)
        } else {
            self.create(&target, object).map(drop)
        }
    }

    /// Deletes the object of a Work.
    fn delete_content(&mut self, content: &Value) {
        if let Some(table) = self.kind_table(content.api_version(), content.kind()) {
            let key = meta::key(content.namespace(), content.name());
            // One that is gone meanwhile is what was asked for.
            let _ = self.delete(table, &key, &Deletion::default());
        }
    }
}

/// The object of a Work as it is at the member.
fn observe(member: &Arc<Shared>, content: &Value) -> Option<Arc<Value>> {
    let state = member.state.lock();
    let table = state.kind_table(content.api_version(), content.kind())?;
    state
        .get(table, &meta::key(content.namespace(), content.name()))
        .cloned()
}
