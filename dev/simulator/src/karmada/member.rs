//! Members with API servers of their own: other planes of the simulator.

use crate::{meta, plane::Shared, state::State};
use fedgate_karmada::names;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    mem::take,
    sync::{Arc, Weak},
};

/// That a plane is a member of a hub, kept at the member.
#[derive(Debug)]
pub(crate) struct Membership {
    hub: Weak<Shared>,
    member: Arc<str>,
    changed: Vec<Changed>,
}

/// What changed at a member.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Changed {
    /// An object.
    Object {
        kind: String,
        namespace: String,
        name: String,
    },
    /// Whether its API server answers.
    Answers,
}

/// What a hub has to hear of one member.
#[derive(Debug)]
pub(crate) struct Told {
    hub: Weak<Shared>,
    member: Arc<str>,
    changed: Vec<Changed>,
}

impl Membership {
    /// An object at the member was written or taken out.
    pub(crate) fn notice(&mut self, object: &Value) {
        self.changed.push(Changed::Object {
            kind: object["kind"].as_str().unwrap_or_default().to_owned(),
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
        });
    }
}

impl Told {
    /// Tells the hub, whose lock must be free.
    pub(crate) fn tell(self, author: &str) {
        if let Some(hub) = self.hub.upgrade() {
            hub.with_as(author, |state| state.member_changed(&self.member, &self.changed));
        }
    }
}

impl State {
    /// What hubs have to hear since the last call.
    pub(crate) fn take_told(&mut self) -> Vec<Told> {
        let mut told = take(&mut self.told);
        for membership in &mut self.memberships {
            if !membership.changed.is_empty() {
                told.push(Told {
                    hub: membership.hub.clone(),
                    member: membership.member.clone(),
                    changed: take(&mut membership.changed),
                });
            }
        }
        told
    }

    /// The API server begins to answer, or ceases to.
    pub(crate) fn tell_answers(&mut self) {
        for membership in &mut self.memberships {
            membership.changed.push(Changed::Answers);
        }
    }

    pub(super) fn become_member(&mut self, hub: Weak<Shared>, member: &str) {
        self.memberships.push(Membership {
            hub,
            member: member.into(),
            changed: Vec::new(),
        });
    }

    /// The kinds that the plane serves, as `status.apiEnablements` of its Cluster has them.
    pub(super) fn served_kinds(&self) -> Value {
        let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for table in &self.tables {
            let definition = &table.definition;
            for version in &definition.versions {
                let served = json!({"name": &*definition.plural, "kind": &*definition.kind});
                groups.entry(&version.full_name).or_default().push(served);
            }
        }
        groups
            .into_iter()
            .map(|(version, served)| json!({"groupVersion": version, "resources": served}))
            .collect()
    }

    /// Looks at the Works that a change at a member concerns.
    fn member_changed(&mut self, member: &str, changed: &[Changed]) {
        let Some(works) = self.works() else { return };
        let space = names::work_namespace(member);
        for change in changed {
            let keys: Vec<Box<str>> = match change {
                Changed::Object {
                    kind,
                    namespace,
                    name,
                } => {
                    let own = meta::key(&space, &names::work(kind, namespace, name));
                    let mut keys = vec![Box::from(own)];
                    if kind == "Namespace" {
                        keys.extend(self.works_in(works, &space, name));
                    }
                    keys
                }
                Changed::Answers => self
                    .in_namespace(works, &space)
                    .map(|(key, _)| key.clone())
                    .collect(),
            };
            for key in keys
                .iter()
                .filter(|key| self.get(works, key).is_some())
                .cloned()
                .collect::<Vec<_>>()
            {
                self.karmada_again(works, &key);
            }
        }
    }

    /// The Works of a member whose objects are in one of its namespaces.
    fn works_in(&self, works: usize, space: &str, namespace: &str) -> Vec<Box<str>> {
        let inside = |work: &Value| meta::namespace(fedgate_karmada::work::content(work)) == namespace;
        self.in_namespace(works, space)
            .filter(|(_, work)| inside(work))
            .map(|(key, _)| key.clone())
            .collect()
    }
}
