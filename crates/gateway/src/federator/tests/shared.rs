//! Companions that objects name of which none has a member.

use super::lanes::{MEMBER, World};
use crate::{
    companions::observe::observe,
    index::{
        TableId,
        fixture::{self, HUB},
        single_member::DeliveryPolicy,
    },
    single_member::referrers::CompanionRef,
};
use fedgate_api::keys;
use fedgate_kinds::CompanionKind;
use serde_json::json;
use std::collections::BTreeSet;

/// The object names Secret `token`, whose companion is in this lane.
fn named(lane: Option<&str>) -> World {
    let mut world = World::new();
    world.policies();
    world.source(&json!({
        "metadata": {"finalizers": [keys::FEDERATOR_FINALIZER]},
        "spec": {"credentials": {"secretName": "token"}},
    }));
    world
        .index
        .list_shop(TableId::SECRETS, &[fixture::object("default", "token", "s-1")]);
    let mut companion = fixture::companion("token", &json!(["default/gold"]));
    if let Some(lane) = lane {
        companion["metadata"]["labels"] = json!({keys::LANE: lane});
    }
    world.index.hub_has(TableId::SECRETS, &companion);
    world
}

fn lane(world: &World) -> Option<DeliveryPolicy> {
    let observed = observe(
        &world.index,
        CompanionRef {
            kind: CompanionKind::SECRET,
            hub: HUB,
            name: "token",
        },
        &BTreeSet::new(),
    );
    let observed = observed.expect("its lists are complete");
    assert_eq!(observed.wanted_by, ["default/gold".to_owned()].into());
    observed.policy
}

#[test]
fn no_member_keeps_what_only_an_object_without_one_names() {
    let mut world = named(Some("with-dfw-1"));
    assert_eq!(lane(&world), Some(DeliveryPolicy::WithNone), "it has no copy");
    world.copy("vault-choose-dfw", &json!({}));
    assert_eq!(lane(&world), Some(DeliveryPolicy::WithNone), "Karmada chooses");
    world.pin(&json!({}));
    assert_eq!(lane(&world), Some(DeliveryPolicy::With([MEMBER.into()].into())));
    world.record(&json!({}));
    world.copy("vault-pin-dfw-1", &json!({}));
    assert_eq!(lane(&world), None, "only the record of its member is lost");
    assert_eq!(
        lane(&named(None)),
        None,
        "it is where those that need it elsewhere are"
    );
    assert_eq!(
        lane(&named(Some("keep-dfw-1"))),
        None,
        "what is kept is stopped before"
    );
}

#[test]
fn one_that_goes_nowhere_is_not_given_to_another_cluster_of_the_members_name() {
    let mut world = named(Some("with-dfw-1"));
    world.pin(&json!({}));
    assert_eq!(lane(&world), Some(DeliveryPolicy::With([MEMBER.into()].into())));
    world.joins("m-new", None);
    assert_eq!(lane(&world), Some(DeliveryPolicy::WithNone));
}

#[test]
fn what_a_lost_record_is_about_stays_at_its_member_whoever_else_names_it() {
    let mut world = named(Some("with-dfw-1"));
    let mut iron = fixture::source("iron", "DFW");
    iron["kind"] = json!("Vault");
    iron["apiVersion"] = json!("example.fedgate.dev/v1");
    iron["metadata"]["uid"] = json!("u-iron");
    iron["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW"});
    iron["metadata"]["finalizers"] = json!([keys::FEDERATOR_FINALIZER]);
    iron["spec"] = json!({"size": 1, "credentials": {"secretName": "token"}});
    world.index.shop_has(TableId::Federated(world.kind), &iron);
    let both = |world: &World| {
        let empty = BTreeSet::new();
        let observed = observe(
            &world.index,
            CompanionRef {
                kind: CompanionKind::SECRET,
                hub: HUB,
                name: "token",
            },
            &empty,
        )
        .unwrap();
        assert_eq!(observed.wanted_by.len(), 2);
        observed.policy
    };
    assert_eq!(
        both(&world),
        Some(DeliveryPolicy::WithNone),
        "neither has a member"
    );
    world.copy("vault-pin-dfw-1", &json!({}));
    assert_eq!(both(&world), None, "the record of one is lost");
    world.copy("vault-choose-dfw", &json!({}));
    assert_eq!(both(&world), Some(DeliveryPolicy::WithNone));
    let key = crate::index::single_member::pin::key(&world.index.kinds[world.kind], "gold");
    world.record(&json!({key: "no pin"}));
    assert_eq!(both(&world), None, "the record of one cannot be read");
}
