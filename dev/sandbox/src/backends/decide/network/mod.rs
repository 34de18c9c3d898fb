//! The network provider of one cell.

use super::{
    super::store::{Kind, Objects},
    Act, is_ready, say,
};
use fedgate_karmada::Object;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr},
};

#[cfg(test)]
mod tests;

/// The kinds that the network provider watches.
pub(in super::super) const KINDS: &[Kind] = &[
    Kind::ServingLocation,
    Kind::NetworkBinding,
    Kind::NetworkContext,
    Kind::SubnetClaim,
    Kind::Subnet,
];
/// Annotation on the cell's `ServingLocation`: `fail` or `stall`.
pub(in super::super) const TOLD: &str = "sandbox.fedgate.dev/network";

/// Number of blocks of /20 in 10.128.0.0/9.
const IPV4_BLOCKS: u32 = 2048;
const IPV4_PREFIX: u8 = 20;
const IPV6_PREFIX: u8 = 64;

/// Behaviour of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Work,
    /// Reject bindings.
    Fail,
    /// Do nothing.
    Stall,
}

fn told(objects: &Objects) -> Told {
    let word = objects
        .all(Kind::ServingLocation)
        .find_map(|location| location.annotation(TOLD));
    match word {
        Some("fail") => Told::Fail,
        Some("stall") => Told::Stall,
        _ => Told::Work,
    }
}

/// The next writes for the cell's networking; empty if nothing is left to do.
pub(in super::super) fn decide(objects: &Objects, now: Timestamp) -> Vec<Act> {
    let told = told(objects);
    if told == Told::Stall {
        return Vec::new();
    }
    let mut acts = Vec::new();
    let mut made = BTreeSet::new();
    for object in objects.all(Kind::NetworkBinding) {
        acts.extend(binding(objects, object, told, &mut made, now));
    }
    for context in objects
        .all(Kind::NetworkContext)
        .filter(|context| !context.is_deleting())
    {
        let ready = ("Ready", true, "NetworkContextReady", "the network is programmed");
        acts.extend(say(Kind::NetworkContext, context, &[ready], Map::new(), now));
    }
    let mut taken = BTreeSet::new();
    for object in objects.all(Kind::SubnetClaim) {
        acts.extend(claim(objects, object, &mut taken, now));
    }
    for subnet in objects.all(Kind::Subnet).filter(|subnet| !subnet.is_deleting()) {
        let fields = fields(subnet, &["startAddress", "prefixLength"]);
        acts.extend(say(Kind::Subnet, subnet, &SUBNET_GOOD, fields, now));
    }
    acts
}

/// Creates the context of a binding. A binding that is ready stays ready, whatever the annotation is set to later.
fn binding(
    objects: &Objects,
    binding: &Value,
    told: Told,
    made: &mut BTreeSet<(String, String)>,
    now: Timestamp,
) -> Option<Act> {
    if binding.is_deleting() {
        return None;
    }
    let namespace = binding.namespace();
    let spec = &binding["spec"];
    let network = spec["network"]["name"].as_str()?;
    let name = format!("{network}-{}", spec["location"]["name"].as_str()?);
    let context = objects.get(Kind::NetworkContext, namespace, &name);
    if is_ready(binding) && (context.is_some() || told == Told::Fail) {
        return None;
    }
    let refuse = |reason, message: &str| {
        let said = ("Ready", false, reason, message);
        say(Kind::NetworkBinding, binding, &[said], Map::new(), now)
    };
    if network == "missing" || network.starts_with("missing-") {
        return refuse("NetworkNotFound", &format!("there is no network {network}"));
    }
    if told == Told::Fail {
        return refuse(
            "NetworkFailedToCreate",
            "the sandbox's network provider was told to fail",
        );
    }
    let Some(context) = context else {
        return made
            .insert((namespace.to_owned(), name.clone()))
            .then(|| new_context(namespace, &name, spec));
    };
    if !is_ready(context) {
        return None;
    }
    let good = (
        "Ready",
        true,
        "NetworkContextReady",
        "the network context is ready",
    );
    let mut fields = Map::new();
    fields.insert(
        "networkContextRef".to_owned(),
        json!({"namespace": namespace, "name": name}),
    );
    say(Kind::NetworkBinding, binding, &[good], fields, now)
}

fn new_context(namespace: &str, name: &str, binding: &Value) -> Act {
    let object = json!({
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "NetworkContext",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"network": {"name": binding["network"]["name"]}, "location": binding["location"]},
    });
    Act {
        kind: Kind::NetworkContext,
        object,
        is_status: false,
    }
}

const SUBNET_GOOD: [(&str, bool, &str, &str); 3] = [
    (
        "Allocated",
        true,
        "SubnetAllocated",
        "the subnet has its addresses",
    ),
    ("Programmed", true, "SubnetProgrammed", "the subnet is programmed"),
    ("Ready", true, "SubnetReady", "the subnet is ready"),
];

/// Creates a subnet with the claim's name; `taken` are the blocks that this round allocates.
fn claim(
    objects: &Objects,
    claim: &Value,
    taken: &mut BTreeSet<(String, String)>,
    now: Timestamp,
) -> Option<Act> {
    if claim.is_deleting() {
        return None;
    }
    let (namespace, name) = (claim.namespace(), claim.name());
    let Some(subnet) = objects.get(Kind::Subnet, namespace, name) else {
        return Some(Act {
            kind: Kind::Subnet,
            object: new_subnet(objects, claim, taken)?,
            is_status: false,
        });
    };
    if !is_ready(subnet) {
        return None;
    }
    let mut fields = fields(subnet, &["startAddress", "prefixLength"]);
    fields.insert("subnetRef".to_owned(), json!({"name": name}));
    say(Kind::SubnetClaim, claim, &SUBNET_GOOD, fields, now)
}

fn new_subnet(objects: &Objects, claim: &Value, taken: &mut BTreeSet<(String, String)>) -> Option<Value> {
    let (namespace, name) = (claim.namespace(), claim.name());
    let spec = &claim["spec"];
    let six = spec["ipFamily"] == "IPv6";
    let start = match spec["startAddress"].as_str() {
        Some(wanted) => wanted.to_owned(),
        // Networks of different tenants may have the same addresses, so each namespace has its own pool.
        None => (0..IPV4_BLOCKS).map(|at| block(at, six)).find(|start| {
            let used =
                |subnet: &Value| subnet.namespace() == namespace && subnet["spec"]["startAddress"] == **start;
            !taken.contains(&(namespace.to_owned(), start.clone())) && !objects.all(Kind::Subnet).any(used)
        })?,
    };
    taken.insert((namespace.to_owned(), start.clone()));
    let usual = if six { IPV6_PREFIX } else { IPV4_PREFIX };
    let prefix = spec["prefixLength"].as_u64().unwrap_or_else(|| usual.into());
    let mut subnet = fields(claim, &["subnetClass", "networkContext", "location", "ipFamily"]);
    subnet.insert("startAddress".to_owned(), json!(start));
    subnet.insert("prefixLength".to_owned(), json!(prefix));
    Some(json!({
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "Subnet",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [{
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "SubnetClaim",
            "name": name,
            "uid": claim.uid(),
        }]},
        "spec": subnet,
    }))
}

/// The first address of a block.
fn block(at: u32, six: bool) -> String {
    if six {
        Ipv6Addr::from((0xfd00_u128 << 112) | (u128::from(at) << 64)).to_string()
    } else {
        Ipv4Addr::from(0x0a80_0000 + (at << (32 - IPV4_PREFIX))).to_string()
    }
}

/// The named fields of an object's spec, as far as they exist.
fn fields(object: &Value, names: &[&str]) -> Map<String, Value> {
    let spec = &object["spec"];
    names
        .iter()
        .filter(|name| !spec[**name].is_null())
        .map(|name| ((*name).to_owned(), spec[*name].clone()))
        .collect()
}
