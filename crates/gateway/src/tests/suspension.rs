//! Suspended projects: no write is tried, or one a minute where only the server calls the project suspended.

use super::*;
use crate::index::fixture::{HUB, shop};
use fedgate_engine::{executor::suspension::Suspension, runtime::index::Index};
use fedgate_kinds::KindId;
use fedgate_operations::{Class, Stage, StuckItem, query::STUCK_FOR, views::stuck};
use std::collections::BTreeSet;

const MINUTE: Duration = Duration::from_mins(1);

/// A project with this many Workloads, whose server calls it suspended.
fn refusing(count: usize) -> Server {
    let mut server = project(false);
    let objects = Arc::get_mut(&mut server.objects).unwrap();
    let (_, workload) = objects.pop().unwrap();
    for n in 0..count {
        let mut workload = workload.clone();
        workload["metadata"]["name"] = json!(format!("shop-{n}"));
        workload["metadata"]["uid"] = json!(format!("w-{n}"));
        objects.push(("workloads", workload));
    }
    server.refusal = Arc::new(refusal(403, &json!({"causes": [{"reason": "ProjectSuspended"}]})));
    server
}

fn suspension(name: &str, suspended: bool) -> ProjectEvent {
    ProjectEvent::Suspension {
        key: ProjectKey::parse(name).unwrap(),
        suspended,
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_tried_once_a_minute_however_many_objects_wait() {
    let (hub, many) = (Server::new(false, Vec::new()), refusing(50));
    let gateway = gateway(&hub);
    let others = with_uid(project(false), "u2");
    let events = futures::stream::iter([engaged("p1", &many), engaged("p2", &others)]);
    let work = gateway.clone();
    let task = tokio::spawn(async move {
        work.run(events.chain(futures::stream::pending()), std::future::pending())
            .await;
    });
    tokio::time::sleep(MINUTE / 2).await;
    let first = *many.writes.borrow();
    assert!((1..=2).contains(&first), "as many as run at a time: {first}");
    assert!(*others.writes.borrow() > 3, "another project is tried as before");
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(*many.writes.borrow(), first + 10);
    assert_eq!(gateway.shared.workers.entry_count(), 50);

    let failures = gateway.shared.workers.failures();
    let causes = failures.causes();
    let parked: Vec<_> = causes
        .iter()
        .filter(|(cause, _)| cause.plane().kind() == "project")
        .collect();
    assert_eq!(parked.len(), 1, "one failure for all: {causes:?}");
    assert_eq!(
        failures
            .all()
            .iter()
            .filter(|(_, last)| last.category.as_str() == "project_suspended")
            .count(),
        0
    );
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_project_that_the_platform_suspends_is_written_to_after_its_end_and_not_before() {
    let (hub, many) = (Server::new(false, Vec::new()), refusing(50));
    let gateway = gateway(&hub);
    let (tell, mut told) = mpsc::unbounded_channel();
    let events = futures::stream::poll_fn(move |cx| told.poll_recv(cx));
    let work = gateway.clone();
    let task = tokio::spawn(async move { work.run(events, std::future::pending()).await });
    tell.send(engaged("p1", &many)).unwrap();
    tell.send(suspension("p1", true)).unwrap();
    tokio::time::sleep(30 * MINUTE).await;
    assert_eq!(*many.writes.borrow(), 0);
    let plane = Plane::Project(ProjectKey::parse("p1").unwrap());
    assert_eq!(
        gateway.shared.executor.suspension(&plane),
        Some(Suspension::Declared)
    );
    let described = gateway.describe();
    let of_project = described["planes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["plane"] == plane.to_string());
    assert_eq!(of_project.unwrap()["suspended"], "declared");
    let stuck = stuck::of_runtime(&gateway, &gateway.survey(), STUCK_FOR, &|_| StuckItem::default());
    let of_project: Vec<_> = stuck
        .iter()
        .filter(|one| one.plane == "project")
        .map(|one| (one.class, one.word.as_str()))
        .collect();
    assert_eq!(of_project, [(Class::Waiting, "project_suspended")]);

    tell.send(suspension("p1", false)).unwrap();
    many.writes.subscribe().wait_for(|n| *n > 0).await.unwrap();
    // The server is late, and is taken for what it says.
    tokio::time::sleep(MINUTE / 2).await;
    assert!(*many.writes.borrow() <= 2);
    // A project that leaves takes its suspension along.
    tell.send(suspension("p1", true)).unwrap();
    tell.send(ProjectEvent::Removed {
        key: ProjectKey::parse("p1").unwrap(),
    })
    .unwrap();
    tokio::time::sleep(MINUTE / 2).await;
    assert_eq!(
        (
            gateway.shared.executor.suspension(&plane),
            gateway.shared.workers.entry_count()
        ),
        (None, 0)
    );
    task.abort();
}

#[test]
fn a_suspension_wakes_what_is_written_to_the_project_and_ends_no_wait_at_the_hub() {
    let mut index = GatewayIndex::fixture();
    let engagement = index.projects[&shop()].engagement;
    let tell = |index: &mut GatewayIndex, plane: &Plane, table, object: Value| {
        let of = if *plane == Plane::Hub { 0 } else { engagement };
        let event = WatchEvent::Apply(Box::new(serde_json::from_value(object).unwrap()));
        index.apply(plane, of, table, event);
    };
    let project = Plane::Project(shop());
    let web = fixture::source("web", "DFW");
    tell(&mut index, &project, TableId::DEPLOYMENTS, web);
    let mut copy = fixture::copy("web", "DFW");
    copy["status"] = json!({"replicas": 1});
    tell(&mut index, &Plane::Hub, TableId::DEPLOYMENTS, copy);
    let instance = fixture::object(HUB, "web-0", "i-0");
    tell(&mut index, &Plane::Hub, TableId::INSTANCES, instance);
    let waits = |index: &GatewayIndex| {
        [Stage::HubStatusToProject, Stage::WritebackToProjection]
            .map(|stage| index.undelivered.of(stage).len())
    };
    assert_eq!(waits(&index), [1, 1]);
    let enqueued = |index: &mut GatewayIndex, suspended| {
        let changes = index.suspend(&shop(), suspended);
        keys_of(index, &changes).into_iter().collect::<BTreeSet<Key>>()
    };
    let all = BTreeSet::from([
        index.source_key(KindId::FIRST, &shop(), "default", "web"),
        index.hub_key(TableId::INSTANCES, HUB, "web-0"),
    ]);
    assert_eq!(enqueued(&mut index, true), all);
    assert_eq!(waits(&index), [0, 0]);
    assert_eq!(enqueued(&mut index, true), BTreeSet::new(), "it is no news");
    assert_eq!(enqueued(&mut index, false), all);
    assert_eq!(waits(&index), [1, 1]);
}
