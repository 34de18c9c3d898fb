//! Watches.

use crate::client::{MAPS, map, plane};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_watch_follows_from_a_version() {
    let (_, plane, client) = plane();
    let start = plane.revision();
    plane.create(map("a", "1")).unwrap();
    let mut late = client.watch(MAPS, &format!("resourceVersion={start}")).await;
    let mut fresh = client.watch(MAPS, "").await;
    assert_eq!(late.short().await, "ADDED a 1");
    assert_eq!(fresh.short().await, "ADDED a 1");
    assert!(late.is_quiet() && fresh.is_quiet());
    plane
        .merge("ConfigMap", "default", "a", json!({"data": {"v": "2"}}))
        .unwrap();
    plane.delete("ConfigMap", "default", "a").unwrap();
    for watch in [&mut late, &mut fresh] {
        assert_eq!(watch.short().await, "MODIFIED a 2");
        let (kind, gone) = watch.next().await.unwrap();
        assert_eq!((kind.as_str(), &gone["data"]["v"]), ("DELETED", &json!("2")));
        assert_eq!(gone["metadata"]["resourceVersion"], plane.revision().to_string());
    }
}

#[tokio::test]
async fn a_waiting_watch_is_woken() {
    let (_, plane, client) = plane();
    let mut watch = client.watch(MAPS, "").await;
    let reader = tokio::spawn(async move { watch.short().await });
    tokio::task::yield_now().await;
    plane.create(map("a", "1")).unwrap();
    assert_eq!(reader.await.unwrap(), "ADDED a 1");
}

#[tokio::test]
async fn objects_enter_and_leave_a_selection() {
    let (_, plane, client) = plane();
    let mut watch = client.watch(MAPS, "labelSelector=app%3Dweb").await;
    plane.create(map("a", "1")).unwrap();
    let label = |app: Value| json!({"metadata": {"labels": {"app": app}}});
    plane
        .merge("ConfigMap", "default", "a", label(json!("web")))
        .unwrap();
    plane
        .merge("ConfigMap", "default", "a", json!({"data": {"v": "2"}}))
        .unwrap();
    plane
        .merge("ConfigMap", "default", "a", label(Value::Null))
        .unwrap();
    plane.delete("ConfigMap", "default", "a").unwrap();
    assert_eq!(watch.short().await, "ADDED a 1");
    assert_eq!(watch.short().await, "MODIFIED a 2");
    let (kind, left) = watch.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &left["metadata"]["labels"]["app"]),
        ("DELETED", &json!("web"))
    );
    assert!(watch.is_quiet());
}

#[tokio::test]
async fn a_version_that_is_gone_is_refused() {
    let (_, plane, client) = plane();
    let start = plane.revision();
    let mut open = client.watch(MAPS, "").await;
    assert!(open.is_quiet());
    plane.create(map("a", "1")).unwrap();
    assert_eq!(open.short().await, "ADDED a 1");
    plane.compact();
    assert!(open.is_quiet(), "a watch that has seen everything goes on");
    let mut watch = client.watch(MAPS, &format!("resourceVersion={start}")).await;
    let (kind, status) = watch.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &status["code"], &status["reason"]),
        ("ERROR", &json!(410), &json!("Expired"))
    );
    assert_eq!(watch.short().await, "END");
    plane.gone_in_stream(false);
    assert_eq!(
        client
            .get(&format!("{MAPS}?watch=true&resourceVersion={start}"))
            .await
            .0,
        410
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_in_time_with_a_bookmark() {
    let (_, plane, client) = plane();
    let mut watch = client
        .watch(MAPS, "timeoutSeconds=5&allowWatchBookmarks=true")
        .await;
    plane.create(map("a", "1")).unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(watch.short().await, "ADDED a 1");
    let (kind, mark) = watch.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &mark["metadata"]["resourceVersion"]),
        ("BOOKMARK", &json!(plane.revision().to_string()))
    );
    assert_eq!(watch.short().await, "END");
    let passed = begun.elapsed();
    assert!(
        passed >= Duration::from_secs(5) && passed < Duration::from_millis(5010),
        "{passed:?}"
    );
}

#[tokio::test]
async fn initial_events_end_with_a_mark_and_many_events_bring_bookmarks() {
    let (_, plane, client) = plane();
    plane.create(map("a", "1")).unwrap();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = client.watch(MAPS, query).await;
    assert_eq!(watch.short().await, "ADDED a 1");
    let (kind, mark) = watch.next().await.unwrap();
    assert_eq!(
        (
            kind.as_str(),
            &mark["metadata"]["annotations"]["k8s.io/initial-events-end"]
        ),
        ("BOOKMARK", &json!("true"))
    );
    for n in 0..12 {
        plane
            .merge(
                "ConfigMap",
                "default",
                "a",
                json!({"data": {"v": format!("x{n}")}}),
            )
            .unwrap();
    }
    for n in 0..12 {
        assert_eq!(watch.short().await, format!("MODIFIED a x{n}"));
    }
    assert_eq!(watch.short().await, "BOOKMARK  ");
}

#[tokio::test]
async fn watches_are_paused_closed_and_made_stale() {
    let (_, plane, client) = plane();
    let mut watch = client.watch(MAPS, "").await;
    plane.pause_watches("ConfigMap");
    plane.create(map("a", "1")).unwrap();
    assert!(watch.is_quiet());
    plane.resume_watches("ConfigMap");
    assert_eq!(watch.short().await, "ADDED a 1");
    let old = plane.revision();
    plane.delete("ConfigMap", "default", "a").unwrap();
    plane.serve_stale("ConfigMap", old);
    let (_, list) = client.get(MAPS).await;
    assert_eq!(
        (
            &list["items"][0]["data"]["v"],
            &list["metadata"]["resourceVersion"]
        ),
        (&json!("1"), &json!(old.to_string()))
    );
    assert!(watch.is_quiet());
    assert_eq!(client.get(&format!("{MAPS}/a")).await.0, 404, "gets are current");
    plane.serve_fresh("ConfigMap");
    assert_eq!(watch.short().await, "DELETED a 1");
    plane.close_watches(Some("ConfigMap"));
    assert_eq!(watch.short().await, "END");
}

#[tokio::test(start_paused = true)]
async fn delays_follow_from_the_seed() {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let (simulator, plane, client) = plane();
        simulator.latency(Some(Duration::from_millis(1)..=Duration::from_millis(50)));
        let mut watch = client.watch(MAPS, "").await;
        let begun = tokio::time::Instant::now();
        for name in ["a", "b", "c"] {
            client.post(MAPS, &map(name, "1")).await;
            watch.short().await;
        }
        let log = simulator.log().entries();
        let times: Vec<_> = log.iter().skip(1).map(|entry| entry.at - begun).collect();
        logs.push((times, begun.elapsed(), plane.list("ConfigMap")));
    }
    assert!(logs[0].1 > Duration::from_millis(6), "{:?}", logs[0].1);
    assert_eq!(logs[0].0, logs[1].0);
    assert_eq!(logs[0].1, logs[1].1);
}
