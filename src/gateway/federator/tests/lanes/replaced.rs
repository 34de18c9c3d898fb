//! A deletion while the member's Cluster is another one, or gone.

use super::*;

#[test]
fn another_cluster_of_the_members_name_proves_nothing() {
    let mut world = deleted(&json!({}));
    world.copy_lost();
    world.binding_lost();
    world.memory.bound = true;
    world.joins("m-new", None);
    assert_eq!(world.decides(), ["return_status"]);
    world.memory.seen = Some(Seen::Absent);
    assert!(
        !world.decides().iter().any(|word| word.starts_with("remove_pin")),
        "seen before it joined"
    );
    assert_eq!(world.says(), ["Federated MemberReplaced"]);
    world.joins("m-new", Some("m-dfw-1"));
    assert_eq!(world.decides(), ["look at dfw-1"]);
}

#[test]
fn nothing_is_taken_over_at_a_cluster_that_is_another_one_or_gone() {
    for change in [
        |world: &mut World| drop(world.joins("m-new", None)),
        |world: &mut World| drop(world.leaves()),
    ] {
        let mut world = deleted(&json!({}));
        world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
        world.at(Stage::Away, &json!([]));
        change(&mut world);
        assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    }
    let mut world = deleted(&json!({}));
    world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
    world.at(Stage::Away, &json!([]));
    assert_eq!(
        world.decides(),
        ["change_lane vault-mend-dfw-1"],
        "its own member"
    );
}

#[test]
fn what_is_taken_over_for_its_deletion_needs_no_sources() {
    let mut world = deleted(&json!({"spec": {"credentials": {"secretName": "gone"}}}));
    world.copy_lost();
    world.binding_lost();
    world.memory.seen = Some(Seen::There {
        deleting: false,
        finalizers: Vec::new(),
    });
    let decided = world.decides();
    assert!(
        decided[0].starts_with("create_copy vault-drop-dfw-1"),
        "{decided:?}"
    );
}
