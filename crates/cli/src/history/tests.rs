use super::{store::add, *};
use serde_json::json;

fn workload(generation: i64, spec: &Value) -> Object {
    Object(
        json!({"metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": generation}, "spec": spec}),
    )
}

fn record(map: &mut Object, verb: Verb, before: Option<&Object>, after: &Object) -> u64 {
    let entry = Entry {
        verb,
        from: None,
        reason: "",
        before,
        after,
    };
    add(map, &entry, "ann", Timestamp::UNIX_EPOCH)
}

fn bytes(map: &Object) -> usize {
    let data = map.0["data"].as_object().unwrap().iter();
    data.map(|(key, value)| key.len() + value.as_str().unwrap().len())
        .sum()
}

#[test]
fn a_change_is_recorded_with_its_difference() {
    let mut map = Object(json!({}));
    let (one, two) = (workload(1, &json!({"a": 1})), workload(2, &json!({"a": 2})));
    assert_eq!(record(&mut map, Verb::Deploy, None, &one), 1);
    assert_eq!(record(&mut map, Verb::Scale, Some(&one), &two), 2);
    let history = History::read(&map);
    assert_eq!(
        (history.active, history.last, history.unreadable),
        (Some(2), 2, 0)
    );
    let texts: Vec<String> = history.revisions.iter().map(Revision::summary).collect();
    assert_eq!(texts, ["initial deploy", "~ spec.a: 1 -> 2"]);
    assert_eq!(history.active().unwrap().spec, Some(json!({"a": 2})));
    assert_eq!(history.previous(&two).unwrap().rev, 1);
    assert_eq!(
        history.previous(&one).unwrap().rev,
        2,
        "two differs from the live one"
    );
}

#[test]
fn a_change_by_others_is_recorded_as_observed_before_the_next_one() {
    let mut map = Object(json!({}));
    let specs = [1, 2, 3].map(|a| workload(a, &json!({"a": a})));
    record(&mut map, Verb::Deploy, None, &specs[0]);
    assert!(History::read(&map).is_behind(&specs[1]));
    assert_eq!(record(&mut map, Verb::Scale, Some(&specs[1]), &specs[2]), 3);
    let history = History::read(&map);
    let seen = &history.revisions[1];
    assert_eq!(
        (seen.verb, &*seen.actor.name, seen.summary()),
        (Verb::Observed, "unknown", "~ spec.a: 1 -> 2".to_owned())
    );
    assert!(!history.is_behind(&specs[2]));
}

#[test]
fn the_hash_alone_says_whether_the_live_spec_is_recorded_first() {
    let specs = [1, 2].map(|a| json!({"a": a}));
    // Nothing is recorded yet.
    let mut map = Object(json!({}));
    let (one, two) = (workload(4, &specs[0]), workload(5, &specs[1]));
    let empty = History::read(&map);
    assert!(empty.lacks(&one) && !empty.is_behind(&one));
    assert_eq!(empty.next_number(&one), 2);
    assert_eq!(record(&mut map, Verb::Scale, Some(&one), &two), 2);
    let history = History::read(&map);
    assert_eq!(history.revisions[0].verb, Verb::Observed);
    assert_eq!(history.previous(&two).unwrap().rev, 1);
    // A default that the server has learnt changes a spec, and no generation.
    let learnt = workload(5, &json!({"a": 2, "b": 0}));
    assert!(history.lacks(&learnt) && !history.is_behind(&learnt));
    assert!(!history.lacks(&two));
    assert_eq!((history.next_number(&two), history.next_number(&learnt)), (3, 4));
    // Back at the first spec by another hand, that is a revision of its own.
    assert!(history.lacks(&workload(6, &specs[0])));
}

#[test]
fn a_history_restored_without_its_owner_follows_the_new_generations() {
    let mut map = Object(json!({}));
    let specs = [1, 2, 3].map(|a| json!({"a": a}));
    record(&mut map, Verb::Deploy, None, &workload(9, &specs[0]));
    map.0["metadata"]["ownerReferences"].take();
    let (one, two) = (workload(1, &specs[1]), workload(2, &specs[2]));
    assert_eq!(record(&mut map, Verb::Scale, Some(&one), &two), 3);
    assert_eq!(History::read(&map).active, Some(3));
}

#[test]
fn numbers_that_are_too_high_are_not_believed() {
    for text in ["1000000001", &u64::MAX.to_string(), "99999999999999999999", "-1"] {
        let mut map = Object(json!({"data": {format!("rev-{text}"): "{}"},
            "metadata": {"annotations": {LAST: text, ACTIVE: text}}}));
        let one = workload(1, &json!({"a": 1}));
        assert_eq!(record(&mut map, Verb::Deploy, None, &one), 1, "{text}");
        assert_eq!(
            map.0["data"].as_object().unwrap().len(),
            2,
            "the foreign key stays"
        );
    }
    let mut map = Object(json!({"metadata": {"annotations": {LAST: HIGHEST.to_string()}}}));
    let one = workload(1, &json!({"a": 1}));
    assert_eq!(record(&mut map, Verb::Deploy, None, &one), HIGHEST + 1);
}

#[test]
fn images_are_recorded_with_their_registries() {
    let containers = json!([{"image": "ghcr.io/acme/web:1"}, {"image": "nginx"}]);
    let spec = json!({"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}});
    let mut map = Object(json!({}));
    record(&mut map, Verb::Deploy, None, &workload(1, &spec));
    let image = &History::read(&map).revisions[0].image;
    assert_eq!(image, "ghcr.io/acme/web:1,nginx");
    assert_eq!(crate::view::without_registries(image), "acme/web:1,nginx");
}

#[test]
fn two_users_at_once_lose_nothing() {
    let mut map = Object(json!({}));
    let specs = [1, 2, 3].map(|a| workload(a, &json!({"a": a})));
    record(&mut map, Verb::Deploy, None, &specs[0]);
    // Bob reads what Ann has written, and records first.
    assert_eq!(record(&mut map, Verb::Scale, Some(&specs[1]), &specs[2]), 3);
    assert_eq!(record(&mut map, Verb::Restart, Some(&specs[0]), &specs[1]), 2);
    let history = History::read(&map);
    let verbs: Vec<_> = history.revisions.iter().map(|r| (r.rev, r.verb)).collect();
    assert_eq!(verbs, [(1, Verb::Deploy), (2, Verb::Restart), (3, Verb::Scale)]);
    assert_eq!(history.active, Some(3), "the newest spec is the live one");
}

#[test]
fn twenty_are_kept_and_numbers_go_on() {
    let mut map = Object(json!({}));
    let mut before = None;
    for a in 1..=25 {
        let after = workload(a, &json!({"a": a}));
        record(&mut map, Verb::Scale, before.as_ref(), &after);
        before = Some(after);
    }
    let history = History::read(&map);
    let numbers: Vec<u64> = history.revisions.iter().map(|r| r.rev).collect();
    assert_eq!(numbers, (6..=25).collect::<Vec<u64>>());
    assert_eq!(history.last, 25);
}

#[test]
fn large_specs_are_bounded_and_the_active_one_stays() {
    let mut map = Object(json!({}));
    let spec = |a: i64, size: usize| workload(a, &json!({"a": a, "text": "x".repeat(size)}));
    let mut before = spec(1, 60 << 10);
    record(&mut map, Verb::Deploy, None, &before);
    for a in 2..=20 {
        let after = spec(a, 60 << 10);
        record(&mut map, Verb::Apply, Some(&before), &after);
        before = after;
    }
    let bytes = bytes(&map);
    let history = History::read(&map);
    assert!(bytes < limits::BYTES, "{bytes}");
    assert!(history.revisions.len() > 10 && history.active().is_some());
    let huge = spec(21, 400 << 10);
    record(&mut map, Verb::Apply, Some(&before), &huge);
    let history = History::read(&map);
    assert_eq!(history.active().unwrap().summary(), "(too large to undo)");
    assert!(!history.is_behind(&huge), "its hash is known");
}

#[test]
fn changes_that_are_too_large_are_only_counted() {
    let mut map = Object(json!({}));
    let one = workload(1, &json!({"text": "x".repeat(290 << 10)}));
    let two = workload(2, &json!({"text": "y".repeat(290 << 10), "a": 1}));
    let fields: serde_json::Map<_, _> = (0..9_000)
        .map(|at| (format!("field{at:020}"), json!(at)))
        .collect();
    let many = workload(3, &json!({"text": "", "many": fields}));
    record(&mut map, Verb::Apply, None, &one);
    record(&mut map, Verb::Apply, Some(&one), &two);
    assert_eq!(
        History::read(&map).active().unwrap().summary(),
        "+ spec: (2 changes)"
    );
    record(&mut map, Verb::Apply, Some(&two), &many);
    let history = History::read(&map);
    assert_eq!(history.active().unwrap().summary(), "+ spec: (9002 changes)");
    assert!(history.revisions.iter().all(|revision| revision.spec.is_some()));
}

#[test]
fn foreign_keys_and_unreadable_values_are_kept() {
    let mut map = Object(json!({"data": {"rev-000007": "not JSON", "note": "mine", "rev-x": ""}}));
    let spec = json!({"a": 1});
    assert_eq!(record(&mut map, Verb::Deploy, None, &workload(1, &spec)), 8);
    let history = History::read(&map);
    assert_eq!((history.unreadable, history.revisions.len()), (1, 1));
    assert_eq!(map.0["data"].as_object().unwrap().len(), 4);
}

#[test]
fn the_name_of_a_long_workload_is_shortened_with_a_hash() {
    assert_eq!(name("web"), "compute-revisions.web");
    let (a, b) = ("a".repeat(250), format!("{}b", "a".repeat(249)));
    assert_eq!(name(&a).len(), 251);
    assert_ne!(name(&a), name(&b));
    assert_eq!(name(&"c".repeat(235)).len(), 253);
}

#[test]
fn a_hash_ignores_the_order_of_fields() {
    let a: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": [1], "d": ""}}"#).unwrap();
    let b: Value = serde_json::from_str(r#"{"b": {"d": "", "c": [1]}, "a": 1}"#).unwrap();
    assert_eq!(hash(&a), hash(&b));
    assert_ne!(hash(&a), hash(&json!({"a": 1})));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]
    #[test]
    fn a_history_never_exceeds_its_bounds(sizes in proptest::collection::vec(0_usize..350_000, 1..30)) {
        let mut map = Object(json!({}));
        let mut before: Option<Object> = None;
        for (at, size) in sizes.iter().enumerate() {
            let after = workload(i64::try_from(at).unwrap() + 1, &json!({"at": at, "text": "x".repeat(*size)}));
            let number = record(&mut map, Verb::Apply, before.as_ref(), &after);
            let history = History::read(&map);
            proptest::prop_assert_eq!(history.active, Some(number));
            proptest::prop_assert!(history.revisions.len() <= 20);
            let bytes = bytes(&map);
            proptest::prop_assert!(bytes < limits::BYTES);
            before = Some(after);
        }
    }
}
