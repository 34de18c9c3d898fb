//! Tests of the brakes: which copies they hold, and when they are released.

use super::*;
use fedgate_kinds::KindId;

const OTHER: &str = "ns-b1";

fn copies_in(hub: &str, count: usize) -> Vec<Value> {
    let mut copies = copies(count);
    for copy in &mut copies {
        copy["metadata"]["namespace"] = json!(hub);
    }
    copies
}

/// Two projects on one hub: `count` copies in [`HUB`], one copy in [`OTHER`]; no copy has an origin.
fn two_projects(count: usize) -> GatewayIndex {
    let mut index = hub(&[]);
    let mut other = hub_namespace(OTHER, "p2");
    other["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!("cluster-other");
    list_hub(
        &mut index,
        TableId::Namespaces,
        &[hub_namespace(HUB, "p1"), other],
    );
    let all = [copies_in(HUB, count), copies_in(OTHER, 1)].concat();
    list_hub(&mut index, TableId::DEPLOYMENTS, &all);
    engage(&mut index, true, &[]);
    let project = ProjectKey::parse("other").unwrap();
    index.engage(project.clone());
    for table in index.project_tables() {
        let live = [
            namespace_object("kube-system", "p2", &json!({})),
            namespace_object("default", "b1", &json!({})),
        ];
        let live = if table == TableId::Namespaces {
            &live[..]
        } else {
            &[]
        };
        crate::index::fixture::list(live, |event| index.project_event(&project, table, event));
    }
    index
}

fn turn_in(garbage: &Garbage, index: &GatewayIndex, hub: &str, name: &str, now: Now) -> usize {
    let key = index.hub_key(TableId::DEPLOYMENTS, hub, name);
    let plan = garbage.decide_copy(index, &key, KindId::FIRST, &settings(), now);
    plan.effects.len()
}

#[tokio::test]
async fn one_projects_orphans_hold_up_no_other_project() {
    let (garbage, now) = (Garbage::default(), now());
    let due = later(now, PATIENCE);
    let index = two_projects(300);
    for n in 0..300 {
        turn_in(&garbage, &index, HUB, &format!("c-{n}"), now);
    }
    turn_in(&garbage, &index, OTHER, "c-0", now);
    assert_eq!(turn_in(&garbage, &index, HUB, "c-7", due), 0);
    assert!(garbage.brake());
    assert_eq!(garbage.brakes(), ["cluster-shop"]);
    assert_eq!(turn_in(&garbage, &index, OTHER, "c-0", due), 1);
    assert_eq!(garbage.brakes(), ["cluster-shop"]);
}

#[tokio::test]
async fn deployments_that_were_seen_to_go_without_their_finalizer_hold_up_nothing() {
    let (garbage, now) = (Garbage::default(), now());
    let due = later(now, PATIENCE);
    let source = |n: usize| {
        json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": format!("c-{n}"), "namespace": "default",
            "uid": "u-source", "resourceVersion": "5"}})
    };
    let mut index = hub(&copies(40));
    engage(&mut index, true, &(0..40).map(source).collect::<Vec<_>>());
    for n in 0..40 {
        let gone = WatchEvent::Delete(object(&source(n)));
        let enqueued = index.project_event(&shop(), TableId::DEPLOYMENTS, gone);
        let enqueued = enqueued.keys(&index);
        assert!(enqueued.contains(&key(&index, KindId::FIRST, &format!("c-{n}"))));
    }
    assert_eq!(index.intents.departed.len(), 40);
    for n in 0..40 {
        reconcile_once(&garbage, &index, KindId::FIRST, &format!("c-{n}"), now);
    }
    for n in 0..40 {
        let name = format!("c-{n}");
        assert_eq!(
            reconcile_once(&garbage, &index, KindId::FIRST, &name, due).0,
            [format!("u-{n}")]
        );
        let copy = copy_object(&name, &format!("u-{n}"));
        index.hub_event(TableId::DEPLOYMENTS, WatchEvent::Delete(object(&copy)));
    }
    assert!(!garbage.brake());
    assert!(
        index.intents.departed.is_empty(),
        "nothing is kept of what is gone"
    );
}

#[tokio::test]
async fn an_operator_confirms_the_orphans_that_were_known_by_then() {
    let (garbage, now) = (Garbage::default(), now());
    let due = later(now, PATIENCE);
    let mut index = hub(&copies(12));
    engage(&mut index, true, &[]);
    for n in 0..12 {
        reconcile_once(&garbage, &index, KindId::FIRST, &format!("c-{n}"), now);
    }
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due).0,
        [""; 0]
    );
    let mut confirmed = hub_namespace_at(HUB, "p1", "6");
    confirmed["metadata"]["annotations"] = json!({keys::GARBAGE_CONFIRMED: due.wall.to_string()});
    let enqueued = index
        .hub_event(TableId::Namespaces, WatchEvent::Apply(object(&confirmed)))
        .keys(&index);
    for n in 0..12 {
        let name = format!("c-{n}");
        assert!(enqueued.contains(&key(&index, KindId::FIRST, &name)), "by event");
        assert_eq!(
            reconcile_once(&garbage, &index, KindId::FIRST, &name, due).0,
            [format!("u-{n}")]
        );
    }
    assert!(!garbage.brake());
    let again = hub_namespace_at(HUB, "p1", "7");
    let enqueued = index
        .hub_event(TableId::Namespaces, WatchEvent::Apply(object(&again)))
        .keys(&index);
    assert!(
        enqueued.contains(&key(&index, KindId::FIRST, "c-0")),
        "taken back, by event too"
    );
}

#[tokio::test]
async fn a_brake_for_which_nothing_is_left_ends_without_another_turn() {
    let (garbage, now) = (Garbage::default(), now());
    let due = later(now, PATIENCE);
    let mut index = hub(&copies(60));
    engage(&mut index, true, &[]);
    reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now);
    reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due);
    assert!(garbage.brake(), "those count whose turn has not come");
    list_hub(&mut index, TableId::DEPLOYMENTS, &[]);
    reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due);
    garbage.prune(&index, later(due, Duration::from_secs(5)));
    assert!(!garbage.brake());
}

#[tokio::test]
async fn many_projects_with_a_few_orphans_each_put_the_brake_of_all_on() {
    use crate::garbage::brake::{Brake, Brakes, Census};
    let now = now();
    let mut brakes = Brakes::default();
    let mut census = Census::default();
    let projects: Vec<Arc<str>> = (0..6).map(|n| format!("cluster-{n}").into()).collect();
    for project in &projects {
        (0..10).for_each(|_| census.count(project, true));
    }
    let hostile: Arc<str> = "cluster-hostile".into();
    (0..200).for_each(|_| census.count(&hostile, true));
    brakes.take(census, now);
    assert!(brakes.load(&hostile).exceeds_project());
    assert_eq!(brakes.hub().orphans, 60, "who is held by himself does not count");
    assert!(!brakes.load(&projects[0]).exceeds_project());
    assert!(brakes.hub().exceeds_hub(), "60 of 260");
    assert!(brakes.note(&projects[0], Some(Brake::Hub)));
    assert_eq!(brakes.names(), ["hub"]);
    assert!(brakes.is_outdated(later(now, Duration::from_secs(1))));
    brakes.take(Census::default(), later(now, Duration::from_secs(1)));
    assert!(!brakes.hold());
}
