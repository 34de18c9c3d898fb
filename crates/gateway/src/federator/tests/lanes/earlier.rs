//! An object of an earlier project of the same name, which the hub still has.

use super::*;

/// Copy and pin of an earlier object, while the project has another object of its name.
fn earlier() -> World {
    let mut world = World::new();
    let mut namespace = fixture::hub_namespace("dfw.keep");
    namespace["metadata"]["labels"][keys::PROJECT_UID] = json!("p0");
    let namespace = world.next(namespace);
    world.index.hub_has(TableId::Namespaces, &namespace);
    world.policies();
    world.pin(&json!({"delivered": true, "sourceUid": "u-earlier"}));
    let lane = world.name(&world.lane(Stage::Preserve));
    world.copy(
        &lane,
        &json!({"metadata": {"annotations": {keys::SOURCE_UID: "u-earlier"}}}),
    );
    world.binding(&lane, &[MEMBER], &applied());
    world
}

/// Without the lane in which copies end Karmada would keep what it delivered.
#[test]
fn its_copy_is_not_deleted_at_once() {
    let mut world = earlier();
    let decided = world.decides();
    assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
}

/// The member of such an object is not known, and the tenant hears why nothing goes on.
#[test]
fn a_deletion_says_that_its_record_cannot_be_read() {
    let mut world = World::new();
    world.policies();
    world.at(Stage::Preserve, &applied());
    let key = pin::key(&world.index.kinds[world.kind], NAME);
    world.record(&json!({key: "no record"}));
    world.source(&json!({"metadata": {
        "finalizers": [keys::FEDERATOR_FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z",
    }}));
    assert_eq!(world.says(), ["Federated Strayed"]);
    let decided = world.decides();
    assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
}
