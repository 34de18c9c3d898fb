//! The contact with a server that goes away and comes back.

use super::*;
use fedgate_simulator::{Down, Simulator};
use serde_json::json;
use std::time::Instant;
use tokio::net::TcpListener;

/// The plane of a simulator, in this process, so that the clock can be paused. A request has ten seconds.
pub(crate) fn in_process(simulator: &Simulator, name: &str) -> Plane {
    Plane {
        client: Client::new(simulator.service(name, "ann"), "default"),
        namespace: "default".to_owned(),
        project: name.to_owned(),
        host: "simulator".to_owned(),
        context: name.to_owned(),
        request_timeout: Some(Duration::from_secs(10)),
        clock: ServerClock::default(),
    }
}

/// The plane of a simulator, over TCP.
pub(crate) async fn over_tcp(simulator: &Simulator, name: &str) -> Plane {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let server = format!("http://{}/planes/{name}", listener.local_addr().unwrap());
    let planes = simulator.clone();
    tokio::spawn(async move { planes.serve(listener, None).await });
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": server}}], "users": [{"name": name, "user": {}}]});
    let path = std::env::temp_dir().join(format!("kubectl-compute-{name}-{}", std::process::id()));
    std::fs::write(&path, config.to_string()).unwrap();
    let choice = Choice {
        kubeconfig: Some(path.clone()),
        ..Choice::default()
    };
    let plane = Plane::open(&choice, Duration::ZERO, true).await.unwrap();
    std::fs::remove_file(path).unwrap();
    plane
}

#[tokio::test]
async fn the_clock_stands_still_without_contact_and_goes_on_without_an_event() {
    let simulator = Simulator::new(1);
    let server = simulator.add("contact");
    let plane = over_tcp(&simulator, "contact").await;
    let kinds = [
        (Resource::ConfigMaps, ListParams::default()),
        (Resource::Events, ListParams::default()),
    ];
    let mut follow = Follow::start(&plane, &kinds);
    assert!(matches!(follow.next().await, Ok(None)));
    assert!(!follow.is_lost());
    let before = follow.clock();
    server.set_down(Some(Down::Refused));
    while !follow.is_lost() {
        // A failure is reported after 30 s only; until then the wait must be polled to notice it.
        let notice = tokio::time::timeout(Duration::from_millis(5), follow.next());
        assert!(notice.await.is_err());
    }
    let stopped = follow.clock();
    assert!(stopped > before);
    server.set_down(None);
    let restored = Instant::now();
    let news = tokio::time::timeout(Duration::from_secs(60), follow.next()).await;
    assert!(matches!(news, Ok(Ok(None))), "no object has changed");
    assert!(!follow.is_lost());
    let (goes, now) = (follow.clock(), Instant::now());
    assert!(goes > stopped && goes.duration_since(stopped) < now.duration_since(restored));
}
