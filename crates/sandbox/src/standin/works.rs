//! The objects that each member must have. Karmada keeps them in `Work` objects; the stand-in keeps them in memory and
//! rebuilds them from the bindings after a start.

use super::{
    refs::{NamespacedName, ObjectRef},
    status::{Applied, Share},
};
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// One object for one member.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// The binding that wants the object; `None` for a Namespace that is synced to every member.
    pub(super) binding: Option<NamespacedName>,
    /// The object as it must be at the member.
    pub(super) manifest: Arc<DynamicObject>,
    /// A write that changed nothing: the wanted and the observed content. They differ because the member's API server
    /// fills in defaults.
    pub(super) settled: Option<(String, String)>,
    share: Share,
}

/// All works.
#[derive(Debug, Default)]
pub(super) struct Works {
    map: Mutex<HashMap<(Arc<str>, ObjectRef), Work>>,
}

impl Works {
    /// The work of an object at a member.
    pub(super) fn get(&self, member: &Arc<str>, object: &ObjectRef) -> Option<Work> {
        self.map.lock().get(&(member.clone(), object.clone())).cloned()
    }

    /// Adds an object for a member, or replaces its manifest. The recorded delivery state of an existing work is kept.
    pub(super) fn put(
        &self,
        member: &Arc<str>,
        object: &ObjectRef,
        binding: Option<&NamespacedName>,
        manifest: DynamicObject,
    ) {
        let mut map = self.map.lock();
        let manifest = Arc::new(manifest);
        match map.get_mut(&(member.clone(), object.clone())) {
            Some(work) if binding.is_none() && work.binding.is_some() => {}
            Some(work) => {
                work.binding = binding.cloned();
                work.manifest = manifest;
            }
            None => {
                let share = Share {
                    member: member.to_string(),
                    ..Share::default()
                };
                let work = Work {
                    binding: binding.cloned(),
                    manifest,
                    settled: None,
                    share,
                };
                map.insert((member.clone(), object.clone()), work);
            }
        }
    }

    /// Removes the works of `binding`, except those at the members in `keep`. Returns the removed works.
    pub(super) fn withdraw(
        &self,
        binding: &NamespacedName,
        keep: &BTreeSet<String>,
    ) -> Vec<(Arc<str>, ObjectRef)> {
        self.remove(|member, _, work| work.binding.as_ref() == Some(binding) && !keep.contains(member))
    }

    /// Removes a Namespace that is synced to every member. Returns the removed works.
    pub(super) fn withdraw_everywhere(&self, namespace: &ObjectRef) -> Vec<(Arc<str>, ObjectRef)> {
        self.remove(|_, object, work| work.binding.is_none() && object == namespace)
    }

    fn remove(&self, gone: impl Fn(&str, &ObjectRef, &Work) -> bool) -> Vec<(Arc<str>, ObjectRef)> {
        let mut map = self.map.lock();
        let keys: Vec<_> = map
            .iter()
            .filter(|((member, object), work)| gone(member, object, work))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &keys {
            map.remove(key);
        }
        keys
    }

    /// The delivery state of a binding at each of its members.
    pub(super) fn shares(&self, binding: &NamespacedName) -> Vec<Share> {
        let map = self.map.lock();
        map.values()
            .filter(|work| work.binding.as_ref() == Some(binding))
            .map(|work| work.share.clone())
            .collect()
    }

    /// The objects that a member must have and that `filter` accepts.
    pub(super) fn at(&self, member: &str, filter: impl Fn(&ObjectRef) -> bool) -> Vec<ObjectRef> {
        let map = self.map.lock();
        map.keys()
            .filter(|(at, object)| &**at == member && filter(object))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Records the contents that a write without effect compared.
    pub(super) fn settle(&self, member: &Arc<str>, object: &ObjectRef, settled: (String, String)) {
        if let Some(work) = self.map.lock().get_mut(&(member.clone(), object.clone())) {
            work.settled = Some(settled);
        }
    }

    /// Records the result of a delivery; returns the binding if the result changed.
    pub(super) fn applied(
        &self,
        member: &Arc<str>,
        object: &ObjectRef,
        applied: Applied,
    ) -> Option<NamespacedName> {
        let mut map = self.map.lock();
        let work = map.get_mut(&(member.clone(), object.clone()))?;
        let news = work.share.applied != applied;
        work.share.applied = applied;
        work.binding.clone().filter(|_| news)
    }

    /// Records status and health of the member's object; returns the binding if either changed.
    pub(super) fn reflected(
        &self,
        member: &Arc<str>,
        object: &ObjectRef,
        status: Option<Value>,
        health: &'static str,
    ) -> Option<NamespacedName> {
        let mut map = self.map.lock();
        let work = map.get_mut(&(member.clone(), object.clone()))?;
        let news = work.share.status != status || work.share.health != Some(health);
        (work.share.status, work.share.health) = (status, Some(health));
        work.binding.clone().filter(|_| news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn works_belong_to_bindings_and_keep_their_share() {
        let works = Works::default();
        let member: Arc<str> = "dfw-1".into();
        let object =
            ObjectRef::read(&json!({"apiVersion": "v1", "kind": "Namespace", "name": "ns-1"})).unwrap();
        let binding = object.binding();
        let manifest: DynamicObject = from_value(json!({"metadata": {"name": "ns-1"}})).unwrap();
        works.put(&member, &object, None, manifest.clone());
        works.put(&member, &object, Some(&binding), manifest.clone());
        works.put(&member, &object, None, manifest.clone());
        assert_eq!(
            works.get(&member, &object).unwrap().binding,
            Some(binding.clone())
        );
        assert_eq!(
            works.applied(&member, &object, Applied::Done),
            Some(binding.clone())
        );
        assert_eq!(works.applied(&member, &object, Applied::Done), None);
        assert!(works.reflected(&member, &object, None, "Healthy").is_some());
        works.put(&member, &object, Some(&binding), manifest);
        assert_eq!(works.shares(&binding)[0].applied, Applied::Done);
        assert!(works.withdraw(&binding, &["dfw-1".to_owned()].into()).is_empty());
        assert_eq!(works.withdraw(&binding, &BTreeSet::new()).len(), 1);
        assert!(works.get(&member, &object).is_none());
    }
}
