//! Tests of the keys that are enqueued while first lists are read, and of the order of the lists.

use super::*;
use crate::index::fixture::{HUB, hub_namespace, shop};
use fedgate_engine::{plan::Requeue, plane::watch::WatchEvent};
use fedgate_kinds::KindId;
use std::collections::BTreeSet;
use tokio::sync::watch::Receiver;

fn boxed(object: &Value) -> Box<kube::core::DynamicObject> {
    Box::new(serde_json::from_value(object.clone()).unwrap())
}

/// Sends a list as its watch does.
fn list(gateway: &Runtime<Gateway>, plane: &Plane, table: TableId, objects: &[Value]) {
    let engagement = gateway.shared.planes.engagement(plane);
    let tell = |event| gateway.shared.planes.event(plane, engagement, table, event);
    tell(WatchEvent::Init);
    for object in objects {
        tell(WatchEvent::InitApply(boxed(object)));
    }
    tell(WatchEvent::InitDone);
}

/// The ready keys; fresh ones first.
fn waiting(gateway: &Runtime<Gateway>) -> Vec<Key> {
    let queue = &gateway.shared.queue;
    let taken = std::iter::from_fn(|| {
        let taken = (queue.depth().ready > 0).then(|| queue.next().now_or_never())???;
        queue.done(&taken.key, Ok(Requeue::AwaitChange));
        Some(taken.key)
    });
    taken.collect()
}

/// Lists of the project that are needed to sync specs: an edit of `web` that the hub does not have, and `same`, which
/// it has.
fn list_project(gateway: &Runtime<Gateway>) {
    let plane = Plane::Project(shop());
    let namespaces = [
        fixture::namespace("kube-system", "p1", &json!({})),
        fixture::namespace("default", "a1", &json!({})),
    ];
    list(gateway, &plane, TableId::Namespaces, &namespaces);
    let mut edited = fixture::source("web", "DFW");
    edited["metadata"]["generation"] = json!(2);
    let sources = [fixture::source("same", "DFW"), edited];
    list(gateway, &plane, TableId::DEPLOYMENTS, &sources);
}

fn list_hub(gateway: &Runtime<Gateway>, carrying: bool) {
    let tables = gateway.shared.index.lock().hub_tables();
    for table in tables
        .into_iter()
        .filter(|table| table.is_first_phase() == carrying)
    {
        let objects = match table {
            TableId::Namespaces => vec![hub_namespace("dfw")],
            TableId::Federated(_) => vec![fixture::copy("same", "DFW"), fixture::copy("web", "DFW")],
            TableId::Bindings => vec![fixture::binding("same")],
            _ => Vec::new(),
        };
        list(gateway, &Plane::Hub, table, &objects);
    }
}

/// A gateway that does not run, with a project that has sent no list.
fn silent() -> Arc<Runtime<Gateway>> {
    let (hub, project) = (Server::new(false, Vec::new()), project(false));
    let gateway = gateway(&hub);
    gateway
        .role
        .on_project(&gateway.shared, engaged("shop", &project));
    gateway
}

#[tokio::test]
async fn an_edit_is_woken_by_whichever_list_lets_it_be_carried_last_and_the_rest_by_the_last_of_all() {
    for hub_first in [true, false] {
        let gateway = silent();
        let key = |name: &str| {
            let index = gateway.shared.index.lock();
            index.source_key(KindId::FIRST, &shop(), "default", name)
        };
        for hub in [hub_first, !hub_first] {
            assert_eq!(waiting(&gateway), []);
            if hub {
                list_hub(&gateway, true);
            } else {
                list_project(&gateway);
            }
        }
        assert_eq!(waiting(&gateway), [key("web")], "the hub first: {hub_first}");

        let plane = Plane::Project(shop());
        let engagement = gateway.shared.planes.engagement(&plane);
        let mut same = fixture::source("same", "DFW");
        (
            same["metadata"]["resourceVersion"],
            same["metadata"]["generation"],
        ) = (json!("6"), json!(2));
        let edit = WatchEvent::Apply(boxed(&same));
        gateway
            .shared
            .planes
            .event(&plane, engagement, TableId::DEPLOYMENTS, edit);
        assert_eq!(waiting(&gateway), [key("same")], "and no key of the hub's");

        list_hub(&gateway, false);
        let ready = waiting(&gateway);
        assert!(
            !ready.iter().any(|key| key.plane == plane),
            "its other lists are missing"
        );
        for table in [TableId::Workloads, TableId::INSTANCES] {
            list(&gateway, &plane, table, &[]);
        }
        let ready: BTreeSet<Key> = waiting(&gateway).into_iter().collect();
        let index = gateway.shared.index.lock();
        for key in [
            index.source_key(KindId::FIRST, &shop(), "default", "same"),
            index.source_key(KindId::FIRST, &shop(), "default", "web"),
            index.hub_key(TableId::Namespaces, "", HUB),
            index.hub_key(TableId::CityPolicies, HUB, ""),
        ] {
            assert!(ready.contains(&key), "{key}");
        }
    }
}

#[tokio::test]
async fn lists_that_carrying_does_not_need_wake_nobody_before_all_are_complete() {
    let gateway = silent();
    list_project(&gateway);
    list_hub(&gateway, true);
    waiting(&gateway);
    list(
        &gateway,
        &Plane::Hub,
        TableId::Bindings,
        &[fixture::binding("same")],
    );
    list(&gateway, &Plane::Project(shop()), TableId::Workloads, &[]);
    assert_eq!(waiting(&gateway), []);
}

#[tokio::test]
async fn an_edit_goes_before_the_backlog_if_the_list_that_shows_it_is_the_last_of_all() {
    let gateway = silent();
    list_hub(&gateway, true);
    list_hub(&gateway, false);
    for table in [TableId::Workloads, TableId::INSTANCES] {
        list(&gateway, &Plane::Project(shop()), table, &[]);
    }
    waiting(&gateway);
    list_project(&gateway);
    let keys = waiting(&gateway);
    let edited = gateway
        .shared
        .index
        .lock()
        .source_key(KindId::FIRST, &shop(), "default", "web");
    assert_eq!(keys.first(), Some(&edited));
    assert!(keys.len() > 4, "everything is looked at: {keys:?}");
}

#[tokio::test]
async fn a_new_leader_carries_what_it_can_and_decides_nothing_else() {
    let gateway = silent();
    list_project(&gateway);
    list_hub(&gateway, true);
    let carried = waiting(&gateway);
    assert_eq!(carried.len(), 1);
    gateway.requeue_all();
    assert_eq!(waiting(&gateway), carried);
}

/// A plane whose list of deployments fails once, and then blocks until `open` is true.
fn waits(open: Receiver<bool>, lists: Arc<Mutex<Vec<String>>>) -> Connection {
    let served = Server::new(false, Vec::new());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (served, mut open, lists) = (served.clone(), open.clone(), lists.clone());
        async move {
            let plural = request.uri().path().rsplit('/').next().unwrap().to_owned();
            let watches = request.uri().query().is_some_and(|q| q.contains("watch=true"));
            if !watches {
                lists.lock().push(plural.clone());
            }
            let asked = lists.lock().iter().filter(|p| **p == plural).count();
            if plural == "workloaddeployments" && !watches {
                if asked == 1 {
                    let mut response = Response::new(Body::from(refusal(500, &json!({})).to_string()));
                    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
                    return Ok(response);
                }
                open.wait_for(|open| *open).await.unwrap();
            }
            Ok::<_, Infallible>(served.answer(request).await)
        }
    });
    Connection::of_client(kube::Client::new(service, "default"))
}

#[tokio::test(start_paused = true)]
async fn the_lists_that_carrying_does_not_need_begin_after_the_others() {
    lists_begin(true).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_holds_up_no_other_for_long() {
    lists_begin(false).await;
}

/// Lists of deployments fail, block, and complete within `HEAD_START` if `in_time` is true.
async fn lists_begin(in_time: bool) {
    let open = watch::Sender::new(false);
    let lists: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
    let [hub, project] = lists.clone().map(|lists| waits(open.subscribe(), lists));
    let gateway = runtime(hub, settings(), LeaseHandle::always());
    gateway.role.on_project(
        &gateway.shared,
        ProjectEvent::Engaged {
            key: shop(),
            connection: project,
            uid: None,
        },
    );
    let asked = || {
        lists
            .each_ref()
            .map(|lists| lists.lock().iter().cloned().collect::<BTreeSet<_>>())
    };
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let first = [
        named(&[
            "namespaces",
            "clusters",
            "clusterpropagationpolicies",
            "propagationpolicies",
            "configmaps",
            "secrets",
            "workloaddeployments",
        ]),
        named(&["namespaces", "workloaddeployments"]),
    ];
    assert_eq!(asked(), first);
    open.send_replace(in_time);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let [mut on_hub, mut in_project] = first;
    on_hub.extend(named(&[
        "resourcebindings",
        "instances",
        "resourceinterpretercustomizations",
    ]));
    in_project.extend(named(&["instances", "workloads"]));
    assert_eq!(asked(), [on_hub, in_project]);
    assert_eq!(gateway.shared.index.lock().hub_ready(), in_time);
    open.send_replace(true);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(gateway.shared.index.lock().hub_ready());
}
