//! Objects of one name, of two kinds of one name: Karmada names their bindings alike.

use super::{MEMBER, NAME, World, kinds};
use crate::{
    federator::memory::Memory,
    index::{
        TableId,
        fixture::{self, HUB, shop},
        single_member::pin,
    },
};
use fedgate_api::keys;
use fedgate_kinds::FederatedKind;
use serde_json::{Value, json};

/// A world with two kinds of one name, and the pin's key of an object of the second.
fn with_two_kinds() -> (World, String) {
    let mut all: Vec<FederatedKind> = kinds().iter().cloned().collect();
    let mut other = all.iter().find(|kind| kind.is_exactly_one()).unwrap().clone();
    other.resource.group = "other.example".to_owned();
    other.resource.api_version = "other.example/v1".to_owned();
    let key = pin::key(&other, NAME);
    all.push(other);
    let mut world = World::of(all.into());
    world.policies();
    (world, key)
}

/// The binding of the second kind's object.
fn others_binding(world: &mut World) -> Value {
    let mut binding = fixture::object(HUB, &format!("{NAME}-vault"), "b-other");
    binding["spec"] = json!({"resource": {"apiVersion": "other.example/v1", "kind": "Vault", "name": NAME}});
    let binding = world.next(binding);
    world.index.hub_has(TableId::Bindings, &binding);
    binding
}

#[test]
fn an_object_waits_for_the_end_of_its_namesake_of_another_group() {
    let (mut world, key) = with_two_kinds();
    world.source(&json!({"metadata": {"finalizers": [keys::FEDERATOR_FINALIZER]}}));
    let pinned = |source: &str| json!({"member": MEMBER, "memberUid": "m-dfw-1", "copyUids": ["c-other"], "sourceUid": source});
    world.record(&json!({key.clone(): pinned("u-other").to_string()}));
    assert_eq!(world.says(), ["Federated HubNameTaken"]);
    assert!(!world.decides().iter().any(|word| word.contains("create_copy")));
    let own = pin::key(&world.index.kinds[world.kind], NAME);
    world.record(&json!({key.clone(): pinned("u-other").to_string(), own: pinned("u-gold").to_string()}));
    assert!(
        !world.says().contains(&"Federated HubNameTaken".to_owned()),
        "what has a member already waits for nobody"
    );
    world.memory = Memory::default();
    world.record(&json!({key: "no record"}));
    assert_eq!(world.says(), ["Federated HubNameTaken"], "it may have a member");
    world.record(&json!({}));
    let binding = others_binding(&mut world);
    assert_eq!(world.says(), ["Federated HubNameTaken"], "its binding is there");
    let enqueued = world.index.hub_lost(TableId::Bindings, &binding);
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    assert!(enqueued.contains(&key), "the end of that binding: {enqueued:?}");
    world.memory = Memory::default();
    assert_eq!(world.decides(), [r#"create_copy vault-choose-dfw {"size":1}"#]);
}

/// An object that waits for its namesake was delivered nowhere, so that nothing of it is left anywhere.
#[test]
fn an_object_that_waits_for_its_namesake_can_be_deleted() {
    let (mut world, _) = with_two_kinds();
    others_binding(&mut world);
    world.source(&json!({"metadata": {
        "finalizers": [keys::FEDERATOR_FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z",
    }}));
    assert_eq!(world.decides(), ["confirm gone"]);
    // The hub has neither its copy nor a binding of its own.
    world.memory.is_binding_settled = true;
    assert_eq!(world.decides(), ["let_go"]);
}
