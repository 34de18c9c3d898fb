//! Karmada and the members, where all goes well: they decide with the functions by which the sandbox's stand-in decides,
//! one step at a time.

use super::store::{Address, Server, Store};
use fedgate_karmada::{
    Object,
    claim::{self, Claim, Decision, Edit},
    condition::fully_applied,
    manifest, names, schedule, work,
};
use fedgate_kinds::{
    FederatedKind,
    lua::{Host, LuaError, Operation},
};
use serde_json::{Value, json};
use std::cell::OnceCell;

const POLICIES: &str = "policy.karmada.io";
const WORKS: &str = "work.karmada.io";

/// Karmada; see the module.
pub(super) struct Karmada<'a> {
    pub(super) kind: &'a FederatedKind,
    /// The status that the object gets at a member.
    pub(super) status: Value,
    pub(super) lua: Host,
    /// The first error of a script, with its operation.
    pub(super) failed: OnceCell<(Operation, LuaError)>,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The words for an object in a line.
fn called(object: &Value) -> String {
    format!("{} {}", object.kind(), object.name())
}

impl Karmada<'_> {
    /// Looks at everything once; what has happened, a line each.
    pub(super) fn step(&self, store: &mut Store) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        for claim in [Claim::Policy, Claim::ClusterPolicy] {
            for (at, policy) in store.on_hub(POLICIES, claim.plural()) {
                if claim.id(&policy).is_empty() {
                    let id = json!({"metadata": {"labels": {claim.label(): text(&policy, "uid")}}});
                    store.merge(&at, &id);
                }
            }
        }
        let templates = store.iter().filter(|(at, _)| is_template(at));
        let templates: Vec<(Address, Value)> = templates
            .map(|(at, object)| (at.clone(), object.clone()))
            .collect();
        for (at, template) in templates {
            give(store, &at, &template);
        }
        for (at, binding) in store.on_hub(WORKS, "resourcebindings") {
            self.bound(store, &at, &binding, &mut lines);
        }
        lines
    }

    /// A binding: its members, their Works, and what they report.
    fn bound(
        &self,
        store: &mut Store,
        at: &Address,
        binding: &Value,
        lines: &mut Vec<(&'static str, String)>,
    ) {
        let Some((template_at, template)) = template_of(store, binding) else {
            for (work_at, work) in works_of(store, binding) {
                end(store, &work_at, &work, lines);
            }
            store.delete(at);
            return;
        };
        let clusters: Vec<Value> = store
            .on_hub("cluster.karmada.io", "clusters")
            .into_iter()
            .map(|(_, cluster)| cluster)
            .collect();
        let now = store.now.to_string();
        let placed = schedule::place(binding, &clusters);
        if schedule::members(binding) != placed.members {
            let members: Vec<&str> = placed.members.iter().map(String::as_str).collect();
            lines.push((
                "Karmada",
                format!("gives {} to {}", called(&template), members.join(", ")),
            ));
            store.merge(
                at,
                &json!({"spec": {"clusters": schedule::targets(&placed.members)}}),
            );
        }
        let binding = store.get(at).cloned().unwrap_or_default();
        for (work_at, work) in works_of(store, &binding) {
            let member = names::member_of(&work_at.namespace);
            if member.is_none_or(|member| !placed.members.contains(member)) {
                end(store, &work_at, &work, lines);
            }
        }
        for member in &placed.members {
            self.dispatch(store, &template_at, &template, &binding, member, lines);
        }
        let works: Vec<Value> = works_of(store, &binding)
            .into_iter()
            .map(|(_, work)| work)
            .collect();
        let items = work::items(&works);
        let conditions = placed.condition.set_in(&binding["status"]["conditions"], &now);
        let conditions = fully_applied(&placed.members, &items).set_in(&conditions, &now);
        let status = json!({"conditions": conditions, "aggregatedStatus": items,
            "schedulerObservedGeneration": binding["metadata"]["generation"]});
        store.merge(at, &json!({"status": status}));
        self.aggregate(store, &template_at, &template, &items, lines);
    }

    /// The Work of a member, and its object there.
    fn dispatch(
        &self,
        store: &mut Store,
        template_at: &Address,
        template: &Value,
        binding: &Value,
        member: &str,
        lines: &mut Vec<(&'static str, String)>,
    ) {
        let name = names::work(template.kind(), template.namespace(), template.name());
        let at = Address::hub(WORKS, "works", &names::work_namespace(member), &name);
        let existing = store.get(&at).cloned();
        let mut desired = work::desired(template, binding, member, &name);
        // Its end is a step of ours.
        desired["metadata"]["finalizers"] = json!([]);
        let mut work = match &existing {
            None => desired,
            Some(work) => work::join(work, &desired).unwrap_or_else(|| work.clone()),
        };
        let now = store.now.to_string();
        let mut conditions = work::dispatching(&work).set_in(&work["status"]["conditions"], &now);
        let below = template_at.at(Server::Member(member.to_owned()));
        if !work::is_suspended(&work) {
            let content = work::content(&work).clone();
            let there = store.get(&below).cloned();
            let wanted = there
                .as_ref()
                .map_or(content.clone(), |there| manifest::retain(&content, there));
            let differs = there
                .as_ref()
                .is_none_or(|there| manifest::substance(there) != manifest::substance(&wanted));
            if differs {
                let does = if there.is_none() { "creates" } else { "updates" };
                lines.push(("member", format!("{member} {does} {}", called(&content))));
                store.put(&below, wanted);
            }
            if self.is_explained(&content) && !self.status.is_null() {
                store.merge(&below, &json!({"status": self.status}));
            }
            conditions = work::applied(Ok(())).set_in(&conditions, &now);
        }
        work["status"]["conditions"] = conditions;
        if let Some(object) = store.get(&below).filter(|_| work::is_applied(&work)) {
            let status = self.reflected(object);
            work["status"]["manifestStatuses"] = work::reflected(&work, status.as_ref(), "Healthy");
        }
        if existing.as_ref() != Some(&work) {
            store.put(&at, work);
        }
    }

    fn is_explained(&self, object: &Value) -> bool {
        let resource = &self.kind.resource;
        object.api_version() == resource.api_version && object.kind() == resource.kind
    }

    fn script(&self, operation: Operation) -> Option<&str> {
        let mut scripts = self.kind.interpreter.scripts.iter();
        scripts.find_map(|(key, script)| (key == operation.key()).then_some(&**script))
    }

    /// The result of a script; its error is kept.
    fn or_keep_error<T>(&self, operation: Operation, result: Result<T, LuaError>) -> Option<T> {
        let error = match result {
            Ok(result) => return Some(result),
            Err(error) => error,
        };
        // The first one is reported.
        let _ = self.failed.set((operation, error));
        None
    }

    /// The status that the kind's script reports of a member's object.
    fn reflected(&self, object: &Value) -> Option<Value> {
        if !self.is_explained(object) || object["status"].is_null() {
            return None;
        }
        let script = self.script(Operation::StatusReflection);
        let status = script.map(|script| {
            let reflected = self.lua.reflect_status(script, object);
            self.or_keep_error(Operation::StatusReflection, reflected)
                .unwrap_or_default()
        });
        status
            .or_else(|| Some(object["status"].clone()))
            .filter(|status| !status.is_null())
    }

    /// Writes the status that the kind's script makes of the reports.
    fn aggregate(
        &self,
        store: &mut Store,
        at: &Address,
        template: &Value,
        items: &[Value],
        lines: &mut Vec<(&'static str, String)>,
    ) {
        let reported = items.iter().any(|item| !item["status"].is_null());
        let Some(script) = self
            .script(Operation::StatusAggregation)
            .filter(|_| reported && self.is_explained(template))
        else {
            return;
        };
        let aggregated = self.lua.aggregate_status(script, template, items);
        let Some(object) = self.or_keep_error(Operation::StatusAggregation, aggregated) else {
            return;
        };
        if object["status"] != template["status"] {
            lines.push(("Karmada", format!("writes the status of {}", called(template))));
            let mut whole = template.clone();
            whole["status"] = object["status"].clone();
            store.put(at, whole);
        }
    }
}

/// True if policies may select the object.
fn is_template(at: &Address) -> bool {
    let own = at.group == "karmada.io" || at.group.ends_with(".karmada.io");
    at.server == Server::Hub && !at.namespace.is_empty() && !own && !names::is_reserved(&at.namespace)
}

/// Gives a template to the policy that selects it.
fn give(store: &mut Store, at: &Address, template: &Value) {
    let policies = |claim: Claim| {
        let all = store.on_hub(POLICIES, claim.plural()).into_iter();
        all.map(|(_, policy)| policy)
            .filter(|policy| policy.namespace().is_empty() || policy.namespace() == template.namespace())
            .collect::<Vec<Value>>()
    };
    let find = |named: claim::PolicyName<'_>| {
        let mut all = policies(named.claim).into_iter();
        all.find(|policy| policy.name() == named.name)
    };
    match claim::decide(template, find, policies) {
        Decision::Nothing | Decision::PolicyTerminating(_) => {}
        Decision::Release(claim) => {
            store.merge(at, &Edit::patch(&claim.strip()));
        }
        Decision::Apply(policy) => {
            let claim = Claim::of(&policy);
            if !claim.is_held(template, &policy) {
                store.merge(at, &Edit::patch(&claim.put(&policy)));
            }
            bind(store, at, template, claim, &policy);
        }
    }
}

/// Makes the binding of a template, or brings it up to date.
fn bind(store: &mut Store, at: &Address, template: &Value, claim: Claim, policy: &Value) {
    let name = names::binding(template.kind(), template.name());
    let binding_at = Address::hub(WORKS, "resourcebindings", &at.namespace, &name);
    let old = store.get(&binding_at).cloned();
    let mut binding = old.clone().unwrap_or_else(|| {
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {
            "name": name, "namespace": at.namespace,
            "labels": {names::BINDING_ID: format!("id-{name}")},
            "ownerReferences": [{"apiVersion": template.api_version(), "kind": template.kind(),
                "name": template.name(), "uid": text(template, "uid"), "controller": true}]}})
    });
    super::store::merge(&mut binding, &Edit::patch(&claim.put(policy)));
    binding["spec"]["resource"] = json!({"apiVersion": template.api_version(), "kind": template.kind(),
        "namespace": at.namespace, "name": template.name(), "uid": text(template, "uid")});
    for field in names::CARRIED {
        binding["spec"][field] = policy["spec"][field].clone();
    }
    if old.as_ref() != Some(&binding) {
        store.put(&binding_at, binding);
    }
}

fn template_of(store: &Store, binding: &Value) -> Option<(Address, Value)> {
    let uid = &binding["metadata"]["ownerReferences"][0]["uid"];
    let mut all = store.iter();
    let own = all.find(|(at, object)| at.server == Server::Hub && object["metadata"]["uid"] == *uid);
    own.map(|(at, template)| (at.clone(), template.clone()))
}

fn works_of(store: &Store, binding: &Value) -> Vec<(Address, Value)> {
    let id = binding.label(names::BINDING_ID);
    let works = store.on_hub(WORKS, "works").into_iter();
    works
        .filter(|(_, work)| work.label(names::BINDING_ID) == id)
        .collect()
}

/// Ends a Work, and its object unless that is preserved.
fn end(store: &mut Store, at: &Address, work: &Value, lines: &mut Vec<(&'static str, String)>) {
    let content = work::content(work);
    let member = names::member_of(&at.namespace).unwrap_or_default();
    let below = store.iter().find_map(|(one, object)| {
        let is_it = one.server == Server::Member(member.to_owned())
            && object.kind() == content.kind()
            && object.api_version() == content.api_version()
            && object.name() == content.name();
        is_it.then(|| one.clone())
    });
    if let Some(below) = below {
        if work::preserves(work) {
            lines.push(("member", format!("{member} keeps {}", called(content))));
        } else {
            lines.push(("member", format!("{member} deletes {}", called(content))));
            store.delete(&below);
        }
    }
    store.delete(at);
}
