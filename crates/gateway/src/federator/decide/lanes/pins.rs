//! The hub's record of a member: its writes (contract: clusters.md §2 rule 4). Pure.

use super::Case;
use crate::{
    federator::{
        decide::{Step, act},
        lanes::Lanes,
        memory::Memory,
        observe::Snapshot,
    },
    index::rows::HubCopy,
    pin::{self, Pin},
    reason::WriteReason,
};
use fedgate_api::keys;
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Endpoint, Requeue, Target, Write},
    store::table::Row,
};
use serde_json::{Map, Value, json};

impl Case<'_> {
    /// Writes the pin again that was lost while the copy was in a lane of this member.
    pub(in crate::federator) fn restore_pin(
        &self,
        copy: &Row<HubCopy>,
        member: &str,
        memory: &Memory,
    ) -> Step {
        self.write_pin(copy, member, true, memory)
    }

    /// Adds a copy to those that were made of the object.
    pub(in crate::federator) fn add_copy(&self, pin: &Pin, copy: &Row<HubCopy>, memory: &Memory) -> Step {
        let mut more = pin.clone();
        more.add_copy(copy.uid.clone());
        self.patch_pin(&more, memory)
    }

    pub(super) fn write_pin(
        &self,
        copy: &Row<HubCopy>,
        member: &str,
        delivered: bool,
        memory: &Memory,
    ) -> Step {
        let mut candidates = self.s.candidates.iter();
        let Some(member) = candidates.find(|candidate| *candidate.name == *member) else {
            // Karmada's Cluster is not in the index yet, or no longer in the city.
            return Step::Wait(Requeue::AwaitChange);
        };
        let pin = Pin {
            member: member.name.clone(),
            member_uid: member.uid.clone(),
            copy_uids: vec![copy.uid.clone()],
            source_uid: self.source.uid.clone(),
            delivered,
            kept: Vec::new(),
            remade: None,
        };
        self.patch_pin(&pin, memory)
    }

    pub(super) fn patch_pin(&self, pin: &Pin, memory: &Memory) -> Step {
        record(self.s, self.lanes, Some(pin)).map_or(Step::Wait(Requeue::AwaitChange), |effect| {
            act(effect, memory.clone())
        })
    }
}

/// Writes the pin of an object, or removes it.
pub(super) fn record(s: &Snapshot, lanes: &Lanes, pin: Option<&Pin>) -> Option<Effect> {
    let hub = s.hub.as_ref()?;
    let name = pin::record_name(hub.as_str())?;
    let key = pin::key(s.profile(), &s.name);
    let value = pin.map_or(Value::Null, |pin| json!(pin.text()));
    let write = match &lanes.record {
        Some((uid, version)) => {
            let metadata = json!({"uid": &**uid, "resourceVersion": version});
            Write::Merge {
                patch: json!({"metadata": metadata, "data": {key: value}}),
            }
        }
        None if pin.is_none() => return None,
        None => {
            let mut labels: Map<String, Value> = lanes
                .identity
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect();
            labels.insert(keys::PINS.to_owned(), json!("true"));
            Write::Create {
                body: json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": keys::SYSTEM_NAMESPACE, "labels": labels},
                    "data": {key: value}}),
            }
        }
    };
    let reason = if pin.is_some() {
        WriteReason::WritePin
    } else {
        WriteReason::RemovePin
    };
    Some(Effect {
        target: Target::namespaced(Plane::Hub, &s.config_maps, keys::SYSTEM_NAMESPACE, &name),
        endpoint: Endpoint::Main,
        write,
        reason: reason.into(),
    })
}
