//! An object or companion that waits for the policy of its lane asks for it once: the policies enqueue those that wait.

use super::{World, shop};
use crate::{
    companions::Companions,
    federator::Federator,
    index::{
        TableId,
        fixture::{self, HUB},
    },
    testing::{LOST, Rig},
};
use fedgate_engine::{key::Key, runtime::driver::reconcile};
use serde_json::{Value, json};

/// A hub that answers nothing, and keys of an object, its companion and the policies of their hub namespace.
fn unanswered(world: World) -> (Rig, Key, Key, Key) {
    let index = &world.index;
    let source = index.source_key(world.kind, &shop(), "default", world.name);
    let seal = index.companions.id_of("example.fedgate.dev", "Seal").unwrap();
    let companion = index.hub_key(TableId::Companions(seal), HUB, "wax");
    let policies = index.hub_key(TableId::CityPolicies, HUB, "");
    (
        Rig::new(world.index, |_, _| (LOST, Value::Null)),
        source,
        companion,
        policies,
    )
}

#[tokio::test]
async fn an_object_asks_for_its_policy_once() {
    let (rig, source, _, policies) = unanswered(World::new());
    let federator = Federator::default();
    for asks in [vec![policies], vec![]] {
        // Whether the pass ends in an error is another matter.
        let _ = reconcile(&federator, &rig.reconcile_once(), &source).await;
        assert_eq!(rig.enqueued().await, asks);
    }
}

#[tokio::test]
async fn a_companion_asks_for_its_policy_once() {
    let mut world = World::new();
    world.pin(&json!({}));
    world.source(&json!({"spec": {"sealName": "wax"}}));
    let seal = world.index.companions.id_of("example.fedgate.dev", "Seal");
    let wax = fixture::object("default", "wax", "s-wax");
    world.index.list_shop(TableId::Companions(seal.unwrap()), &[wax]);
    let (rig, _, companion, policies) = unanswered(world);
    let companions = Companions::default();
    for asks in [vec![policies], vec![]] {
        let _ = reconcile(&companions, &rig.reconcile_once(), &companion).await;
        assert_eq!(rig.enqueued().await, asks);
    }
}

/// In a namespace without its project the pins say whether the last lane stays.
#[test]
fn a_pin_that_comes_or_goes_concerns_the_policies() {
    let mut world = World::new();
    let policies = world.index.hub_key(TableId::CityPolicies, HUB, "");
    let pin = world.pin_of(&json!({}));
    for pins in [pin, json!({})] {
        let record = world.next_record(&pins);
        let enqueued = world.index.hub_has(TableId::Pins, &record);
        assert!(enqueued.contains(&policies), "{pins}: {enqueued:?}");
    }
}
