//! Rows, versions, lists and bodies.

use super::*;
use serde_json::json;

fn object(name: &str, uid: &str, version: u64) -> DynamicObject {
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "X",
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string()}}))
    .unwrap()
}

fn put<D: PartialEq>(
    table: &mut Table<D>,
    object: DynamicObject,
    digest: D,
    origin: Origin,
) -> (Name, Upserted<D>) {
    table.upsert(object, digest, origin, &mut Interner::default())
}

fn changed<D>(outcome: &(Name, Upserted<D>)) -> bool {
    matches!(outcome.1, Upserted::Changed(_))
}

#[test]
fn older_versions_and_equal_digests_are_no_news() {
    let mut table = Table::default();
    assert!(changed(&put(&mut table, object("a", "u1", 5), 1, Origin::Event)));
    assert!(!changed(&put(&mut table, object("a", "u1", 4), 2, Origin::Event)));
    assert!(!changed(&put(&mut table, object("a", "u1", 6), 1, Origin::Event)));
    assert!(changed(&put(&mut table, object("a", "u1", 7), 2, Origin::Event)));
    assert!(
        changed(&put(&mut table, object("a", "u2", 8), 2, Origin::Event)),
        "another object of the name"
    );
    assert_eq!(table.get("ns", "a").unwrap().version, 8);
}

#[test]
fn an_answer_after_the_deletion_does_not_raise_the_dead() {
    let mut table = Table::default();
    put(&mut table, object("a", "u1", 5), 1, Origin::Event);
    assert!(table.remove(&object("a", "u1", 9)).is_some());
    assert!(!changed(&put(&mut table, object("a", "u1", 6), 1, Origin::Event)));
    assert!(table.get("ns", "a").is_none());
    assert!(changed(&put(&mut table, object("a", "u2", 7), 1, Origin::Event)));
    assert!(
        table.remove(&object("a", "u1", 9)).is_none(),
        "the successor stays"
    );
}

#[test]
fn what_is_said_late_of_an_earlier_object_does_not_touch_its_successor() {
    let mut table = Table::default();
    put(&mut table, object("a", "u1", 5), 1, Origin::Event);
    put(&mut table, object("a", "u2", 8), 1, Origin::Event);
    assert!(!changed(&put(&mut table, object("a", "u1", 9), 2, Origin::Event)));
    assert!(!changed(&put(&mut table, object("a", "u0", 7), 2, Origin::Event)));
    assert!(table.remove(&object("a", "u1", 9)).is_none());
    assert_eq!(&*table.get("ns", "a").unwrap().uid, "u2");
    assert!(changed(&put(&mut table, object("a", "u2", 10), 2, Origin::Event)));
    table.begin_list();
    table.end_list();
    assert!(!changed(&put(
        &mut table,
        object("a", "u2", 10),
        3,
        Origin::Answer
    )));
}

#[test]
fn what_left_a_selection_may_come_back_into_it() {
    let mut table = Table::default();
    put(&mut table, object("a", "u1", 5), 1, Origin::Event);
    table.remove(&object("a", "u1", 6));
    assert!(!changed(&put(&mut table, object("a", "u1", 6), 1, Origin::Event)));
    assert!(changed(&put(&mut table, object("a", "u1", 7), 1, Origin::Event)));
}

#[test]
fn what_a_complete_list_does_not_name_is_gone() {
    let mut table = Table::default();
    put(&mut table, object("a", "u1", 1), 1, Origin::Event);
    put(&mut table, object("b", "u2", 2), 1, Origin::Event);
    assert!(!table.synced());
    table.begin_list();
    put(&mut table, object("b", "u2", 2), 1, Origin::List);
    let (gone, first) = table.end_list();
    assert!(first && table.synced());
    assert_eq!(gone.len(), 1);
    assert_eq!(&*gone[0].0.1, "a");
    assert_eq!(table.in_namespace("ns").count(), 1);
}

#[test]
fn after_a_rewind_older_versions_count_and_the_dead_may_rise() {
    let mut table = Table::with_bodies();
    put(&mut table, object("a", "u1", 9), 1, Origin::Event);
    put(&mut table, object("b", "u2", 8), 1, Origin::Event);
    put(&mut table, object("c", "u3", 7), 1, Origin::Event);
    table.remove(&object("c", "u3", 10));
    table.end_list();
    table.rewind();
    assert!(!table.synced() && table.get("ns", "a").unwrap().body.is_none());
    table.begin_list();
    assert!(changed(&put(&mut table, object("a", "u1", 3), 2, Origin::List)));
    assert!(changed(&put(&mut table, object("c", "u3", 2), 1, Origin::List)));
    let (gone, first) = table.end_list();
    assert!(first && gone.len() == 1 && &*gone[0].0.1 == "b");
}

#[test]
fn a_list_overrules_what_was_known_before_it_began_whatever_the_versions_say() {
    let mut table = Table::with_bodies();
    put(&mut table, object("a", "u1", 9), 1, Origin::Event);
    put(&mut table, object("b", "u2", 8), 1, Origin::Event);
    table.remove(&object("b", "u2", 10));
    put(&mut table, object("c", "u3", 5), 1, Origin::Event);
    put(&mut table, object("c", "u4", 11), 1, Origin::Event);
    table.begin_list();
    put(&mut table, object("d", "u5", 13), 1, Origin::Event);
    put(&mut table, object("e", "u6", 14), 1, Origin::Event);
    table.remove(&object("e", "u6", 15));
    assert!(changed(&put(&mut table, object("a", "u1", 3), 2, Origin::List)));
    assert!(table.get("ns", "a").unwrap().version == 3 && table.get("ns", "a").unwrap().body.is_none());
    assert!(changed(&put(&mut table, object("b", "u2", 4), 1, Origin::List)));
    assert!(changed(&put(&mut table, object("c", "u3", 5), 1, Origin::List)));
    assert!(
        !changed(&put(&mut table, object("d", "u5", 12), 2, Origin::List))
            && !changed(&put(&mut table, object("e", "u6", 14), 1, Origin::List)),
        "what an answer told while the list was read is newer than the list"
    );
    table.end_list();
    assert_eq!(table.len(), 4);
    assert!(!changed(&put(&mut table, object("a", "u1", 2), 1, Origin::Event)));
}

#[test]
fn absence_counts_only_while_the_watch_tells_what_changes() {
    let mut table: Table<u8> = Table::default();
    table.begin_list();
    assert!(!table.proves(), "the first list is being read");
    table.end_list();
    assert!(table.proves());
    table.set_failing(true);
    assert!(!table.proves());
    table.set_failing(false);
    assert!(table.proves());
    table.set_failing(true);
    table.begin_list();
    assert!(!table.proves(), "a list is read anew");
    table.end_list();
    assert!(table.proves(), "by another watch, perhaps");
}

#[test]
fn a_body_lives_until_it_is_dropped_and_lists_bring_none() {
    let mut table = Table::with_bodies();
    put(&mut table, object("a", "u1", 1), 1, Origin::List);
    assert!(table.get("ns", "a").unwrap().body.is_none());
    put(&mut table, object("a", "u1", 2), 2, Origin::Event);
    assert!(table.get("ns", "a").unwrap().body.is_some());
    table.drop_body("ns", "a");
    assert!(table.get("ns", "a").unwrap().body.is_none());
    for other in [object("a", "u1", 1), object("a", "u1", 3), object("a", "u2", 2)] {
        table.store_body(other);
        assert!(
            table.get("ns", "a").unwrap().body.is_none(),
            "not that of the row"
        );
    }
    table.store_body(object("a", "u1", 2));
    assert!(table.get("ns", "a").unwrap().body.is_some());
}

#[test]
fn a_watch_that_tells_of_what_its_list_lacked_shows_that_the_list_was_older() {
    let mut table = Table::default();
    put(&mut table, object("a", "u1", 9), 1, Origin::Answer);
    put(&mut table, object("b", "u2", 8), 1, Origin::Event);
    table.remove(&object("b", "u2", 8));
    put(&mut table, object("c", "u4", 7), 1, Origin::Event);
    table.begin_list();
    assert!(
        changed(&put(&mut table, object("c", "u3", 3), 1, Origin::List)),
        "the one before"
    );
    assert_eq!(table.end_list().0.len(), 1);
    assert!(
        !changed(&put(&mut table, object("a", "u1", 9), 1, Origin::Answer)),
        "an answer that came late"
    );
    assert!(changed(&put(&mut table, object("a", "u1", 9), 1, Origin::Event)));
    assert_eq!(table.get("ns", "a").unwrap().version, 9);
    assert!(changed(&put(&mut table, object("c", "u4", 7), 1, Origin::Event)));
    assert!(
        !changed(&put(&mut table, object("b", "u2", 8), 1, Origin::Event)),
        "its end was told"
    );
}
