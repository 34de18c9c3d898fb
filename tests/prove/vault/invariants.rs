//! What must hold at every moment of objects that live at one member, checked against each change in its order.

use super::rig::MEMBERS;
use crate::rig::HUB;
use fedgate_api::keys;
use fedgate_simulator::{CONTROLLERS, Change, DIRECT, karmada::KARMADA};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Plane, kind, namespace, name.
type Place = (Arc<str>, String, String, String);

/// Follows the changes of all planes.
#[derive(Debug, Default)]
pub(super) struct Guard {
    objects: BTreeMap<Place, Arc<Value>>,
    /// UIDs of objects of the hub that a hand has deleted, or whose Namespace it has deleted.
    by_hand: BTreeSet<String>,
    /// Permanent ids of the bindings that end because a hand has deleted their companions: what such a Work delivers may
    /// be of the companion that was made again meanwhile.
    bindings_by_hand: BTreeSet<String>,
    /// Hub Namespaces that a hand has deleted, while they end.
    emptied: BTreeSet<String>,
    /// UIDs of vaults of projects, and whether each may still be there below.
    alive: BTreeMap<String, bool>,
    /// UIDs of members' vaults that went because a hand has deleted their copies before they were preserved.
    ended_by_hand: BTreeSet<String>,
    /// UIDs of the hub's seals whose objects a member's collector has taken.
    collected: BTreeSet<String>,
    /// How many vaults were delivered.
    pub(super) deliveries: usize,
    seen: usize,
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

/// The permanent id that a binding has, and that each of its Works names.
fn binding_id(object: &Value) -> &str {
    object["metadata"]["labels"][keys::BINDING_ID]
        .as_str()
        .unwrap_or_default()
}

fn is_ending(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn place(plane: &Arc<str>, object: &Value) -> Place {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(object, "namespace"), text(object, "name"));
    (plane.clone(), kind, namespace.to_owned(), name.to_owned())
}

fn is_member(plane: &str) -> bool {
    MEMBERS.iter().any(|(name, _)| *name == plane)
}

/// L6: a member's object is not deleted while a guard of its kind holds in it, because its operator cleans up nothing then.
fn guarded(vault: &Value) -> Option<String> {
    let is_guarded = vault["spec"]["locked"] == true;
    is_guarded.then(|| "L6: it goes though its guard is set there".to_owned())
}

impl Guard {
    /// What the next changes violate, a line each.
    pub(super) fn violations(&mut self, changes: &[Change]) -> Vec<String> {
        let mut lines = Vec::new();
        for change in changes {
            self.seen += 1;
            let Some(object) = change.after.as_ref().or(change.before.as_ref()) else {
                continue;
            };
            let at = place(&change.plane, object);
            self.learn(change, object);
            let found = self.check(change, &at);
            match &change.after {
                Some(after) => self.objects.insert(at.clone(), after.clone()),
                None => self.objects.remove(&at),
            };
            lines.extend(found.into_iter().map(|line| {
                let (plane, kind, namespace, name) = &at;
                let user = &change.user;
                format!(
                    "change {} by {user} at {plane}: {kind} {namespace}/{name}: {line}",
                    self.seen
                )
            }));
        }
        lines
    }

    /// Takes in what a hand does to the hub, and which vaults the tenants want no more.
    fn learn(&mut self, change: &Change, object: &Value) {
        let ends = change.after.as_deref().is_none_or(is_ending);
        let uid = text(object, "uid").to_owned();
        if &*change.plane == HUB {
            let is_namespace = object["kind"] == "Namespace";
            if is_namespace && change.after.is_none() {
                self.emptied.remove(text(object, "name"));
            } else if is_namespace && ends && &*change.user == DIRECT {
                self.emptied.insert(text(object, "name").to_owned());
            }
            let is_emptied = &*change.user == CONTROLLERS && self.emptied.contains(text(object, "namespace"));
            if ends && (&*change.user == DIRECT || is_emptied) {
                self.by_hand.insert(uid);
            }
            let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
            if object["kind"] == "ResourceBinding"
                && ends
                && owner.is_some_and(|of| self.by_hand.contains(of))
            {
                self.bindings_by_hand.insert(binding_id(object).to_owned());
            }
        } else if !is_member(&change.plane) && object["kind"] == "Vault" {
            self.alive.insert(uid, !ends);
        }
    }

    fn get(&self, plane: &Arc<str>, kind: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        let at = (
            plane.clone(),
            kind.to_owned(),
            namespace.to_owned(),
            name.to_owned(),
        );
        self.objects.get(&at)
    }

    fn check(&mut self, change: &Change, at: &Place) -> Vec<String> {
        if !is_member(&change.plane) {
            return Vec::new();
        }
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let begins = before.is_none();
        let goes = before.is_some_and(|before| !is_ending(before)) && after.is_none_or(is_ending);
        let mut lines = Vec::new();
        match &*at.1 {
            "Vault" if begins && &*change.user == KARMADA => {
                self.deliveries += 1;
                lines.extend(self.at_another(at));
                lines.extend(self.unpinned(at));
            }
            "Vault" if goes => {
                let vault = before.unwrap_or(&Value::Null);
                if self.is_taken(vault) {
                    self.ended_by_hand.insert(text(vault, "uid").to_owned());
                } else if &*change.user != DIRECT {
                    lines.extend(self.unasked(at, vault));
                    lines.extend(guarded(vault));
                }
            }
            "Secret" | "Seal" if goes => {
                let companion = before.unwrap_or(&Value::Null);
                let owner = companion["metadata"]["ownerReferences"][0]["uid"].as_str();
                let is_by_hand = owner.is_some_and(|vault| self.ended_by_hand.contains(vault));
                if at.1 == "Seal" && &*change.user == CONTROLLERS && !is_by_hand {
                    let uid = annotation(companion, keys::TEMPLATE_UID).to_owned();
                    self.collected.insert(uid);
                }
                lines.extend(self.needed(at, companion));
            }
            "Seal" if begins => lines.extend(after.and_then(|seal| self.made_again(at, seal))),
            _ => {}
        }
        lines
    }

    /// L1: never two members.
    fn at_another(&self, (member, kind, namespace, name): &Place) -> Option<String> {
        let mut others = self.objects.keys().filter(|(plane, of, ns, n)| {
            is_member(plane) && plane != member && of == kind && ns == namespace && n == name
        });
        others
            .next()
            .map(|(other, ..)| format!("L1: {other} has it, too"))
    }

    /// The pin of an object.
    fn pin(&self, namespace: &str, name: &str) -> Option<Value> {
        let record = namespace.replacen("ns-", "fedgate-pins-", 1);
        let record = self.get(&Arc::from(HUB), "ConfigMap", keys::SYSTEM_NAMESPACE, &record)?;
        let pin = record["data"][format!("vaults.example.fedgate.dev_{name}")].as_str()?;
        serde_json::from_str(pin).ok()
    }

    /// The member that the pin of an object names.
    fn pinned(&self, namespace: &str, name: &str) -> Option<String> {
        self.pin(namespace, name)?["member"].as_str().map(str::to_owned)
    }

    /// UIDs of the copies that its pin names.
    fn copies(&self, namespace: &str, name: &str) -> Vec<String> {
        let pin = self.pin(namespace, name).unwrap_or_default();
        let copies = pin["copyUids"].as_array().into_iter().flatten();
        copies.filter_map(|uid| uid.as_str().map(str::to_owned)).collect()
    }

    /// L2: nothing is delivered without a pin.
    fn unpinned(&self, (member, _, namespace, name): &Place) -> Option<String> {
        let pinned = self.pinned(namespace, name);
        (pinned.as_deref() != Some(&**member)).then(|| format!("L2: its pin names {pinned:?}"))
    }

    /// L3: a companion stays as long as an object that is pinned there needs it, but for one that a hand has deleted.
    fn needed(&self, (member, companion, namespace, name): &Place, object: &Value) -> Option<String> {
        let is_kept = companion == "Seal" && self.is_preserved(object, "seal");
        let is_by_hand = self.by_hand.contains(annotation(object, keys::TEMPLATE_UID))
            || self.ends_by_hand(member, companion, object);
        if is_by_hand && !is_kept {
            return None;
        }
        let names = |vault: &Value| match companion.as_str() {
            "Seal" => vault["spec"]["sealName"] == name.as_str(),
            _ => vault["spec"]["credentials"]["secretName"] == name.as_str(),
        };
        let mut vaults = self.objects.iter().filter(|((plane, kind, ns, vault), object)| {
            plane == member
                && kind == "Vault"
                && ns == namespace
                && names(object)
                && self.pinned(ns, vault).as_deref() == Some(&**member)
        });
        vaults
            .next()
            .map(|((.., vault), _)| format!("L3: it goes before {vault}, which needs it"))
    }

    /// True if the Work that delivers a companion ends with a binding whose companion a hand has deleted.
    fn ends_by_hand(&self, member: &str, companion: &str, object: &Value) -> bool {
        let binding = format!("{}-{}", text(object, "name"), companion.to_lowercase());
        let space = format!("karmada-es-{member}");
        self.objects.iter().any(|((plane, of, ns, _), work)| {
            &**plane == HUB
                && of == "Work"
                && *ns == space
                && is_ending(work)
                && annotation(work, keys::BINDING_NAMESPACE) == text(object, "namespace")
                && annotation(work, keys::BINDING_NAME) == binding
                && self.bindings_by_hand.contains(binding_id(work))
        })
    }

    /// True if a hand ends a member's object with its copy: nothing preserves one that was just delivered for the first time.
    fn is_taken(&self, vault: &Value) -> bool {
        let copies = self.copies(text(vault, "namespace"), text(vault, "name"));
        let is_by_hand = copies.iter().any(|copy| self.by_hand.contains(copy))
            || self.by_hand.contains(annotation(vault, keys::TEMPLATE_UID));
        is_by_hand && !self.is_preserved(vault, "vault")
    }

    /// L4: the hub deletes a member's object only after the tenant's, but for one that a hand or the member has ended.
    fn unasked(&self, (_, _, namespace, name): &Place, vault: &Value) -> Option<String> {
        let is_ended = |pin: Value| !pin["ended"].is_null();
        if self.pin(namespace, name).is_some_and(is_ended) {
            return None;
        }
        let source = annotation(vault, keys::SOURCE_UID);
        let is_alive = self.alive.get(source).copied();
        (is_alive != Some(false)).then(|| format!("L4: it goes though {source} is {is_alive:?}"))
    }

    /// True if a Work preserves an object of a member.
    fn is_preserved(&self, object: &Value, kind: &str) -> bool {
        let binding = format!("{}-{kind}", text(object, "name"));
        self.objects.iter().any(|((plane, of, ..), work)| {
            &**plane == HUB
                && of == "Work"
                && annotation(work, keys::BINDING_NAMESPACE) == text(object, "namespace")
                && annotation(work, keys::BINDING_NAME) == binding
                && work["spec"]["preserveResourcesOnDeletion"] == true
        })
    }

    /// L5: a seal that the member's collector has taken with its vault is not made again for the same companion.
    fn made_again(&self, (_, _, namespace, name): &Place, seal: &Value) -> Option<String> {
        let source = self
            .pin(namespace, name)
            .and_then(|pin| pin["sourceUid"].as_str().map(str::to_owned));
        let lives = source.is_some_and(|uid| self.alive.get(&uid) == Some(&true));
        let was_collected = self.collected.contains(annotation(seal, keys::TEMPLATE_UID));
        (was_collected && !lives).then(|| "L5: it is made again after its vault has gone".to_owned())
    }
}
