//! Watches, which share HTTP/2 connections.

use crate::{
    client::{Watching, api, comes, config_map, connection},
    relay::{Fate, Relay},
    server::Server,
};
use fedgate_simulator::{Plane, Simulator};
use kube::api::WatchParams;

const LISTED: [&str; 3] = ["began", "listed a", "complete"];

/// A plane with the `ConfigMap` `a`.
fn plane(simulator: &Simulator) -> Plane {
    let plane = simulator.add("hub");
    plane.create(config_map("a")).unwrap();
    plane
}

#[tokio::test]
async fn a_watch_is_told_all_by_a_server_that_goes_away_and_goes_on_over_a_new_connection_without_a_list() {
    let simulator = Simulator::new(1);
    let plane = plane(&simulator);
    let server = Server::start(&simulator, "hub").await;
    let connection = connection(server.address);
    let mut watching = Watching::start(&connection);
    assert_eq!(watching.until("complete").await, LISTED);
    plane.create(config_map("b")).unwrap();
    assert_eq!(watching.until("applied b").await, ["applied b"]);
    assert_eq!(server.http2_connections(), 1);

    server.go_away();
    // Whoever has heard an answer after the GOAWAY has heard that too.
    let api = api(&connection);
    let params = WatchParams::default();
    let _first = comes("a watch", api.watch(&params, "0")).await.unwrap();
    let _second = comes("another watch", api.watch(&params, "0")).await.unwrap();
    assert_eq!(
        server.http2_connections(),
        2,
        "no watch begins where the server goes away"
    );
    plane.create(config_map("c")).unwrap();
    assert_eq!(
        watching.until("applied c").await,
        ["applied c"],
        "the old connection stays as long as a watch is open"
    );

    plane.close_watches(None);
    plane.create(config_map("d")).unwrap();
    assert_eq!(
        watching.until("applied d").await,
        ["applied d"],
        "no list, no gap"
    );
    assert_eq!(server.http2_connections(), 2);
}

/// The watch's connection comes to this end while something changes; the events since then.
async fn broken(fate: Fate) -> Vec<String> {
    let simulator = Simulator::new(1);
    let plane = plane(&simulator);
    let server = Server::start(&simulator, "hub").await;
    let relay = Relay::start(server.address).await;
    let mut watching = Watching::start(&connection(relay.address));
    assert_eq!(watching.until("complete").await, LISTED);
    plane.create(config_map("b")).unwrap();
    watching.until("applied b").await;
    let connections = server.http2_connections();
    relay.ends(fate);
    plane.create(config_map("c")).unwrap();
    plane.delete("ConfigMap", "default", "a").unwrap();
    let told = watching.until("deleted a").await;
    assert!(server.http2_connections() > connections, "{fate:?}");
    told
}

#[tokio::test]
async fn a_half_open_connection_is_found_dead_and_the_watch_goes_on_over_a_new_one_without_a_list() {
    let told = broken(Fate::HalfOpen).await;
    assert_eq!(told.first().map(String::as_str), Some("failed"), "{told:?}");
    // While the connection is being found dead the watch may fail more than once.
    let told: Vec<_> = told.iter().filter(|word| *word != "failed").collect();
    assert_eq!(told, ["resumed", "applied c", "deleted a"]);
}

#[tokio::test]
async fn a_watch_whose_connection_is_cut_goes_on_over_a_new_one_without_a_list() {
    let told = broken(Fate::Cut).await;
    let told: Vec<_> = told
        .iter()
        .filter(|word| !["failed", "resumed"].contains(&&***word))
        .collect();
    assert_eq!(told, ["applied c", "deleted a"]);
}

/// How the connections to a server end whose place another one takes.
#[derive(Debug, Clone, Copy)]
enum Ends {
    /// Without the server's doing.
    By(Fate),
    /// In good order, with all that is under way on them.
    InOrder,
}

/// Another server takes the first one's address, and has less of what there was.
async fn replaced(ends: Ends) {
    let (simulator, older) = (Simulator::new(1), Simulator::new(2));
    let (plane, older_plane) = (plane(&simulator), plane(&older));
    let server = Server::start(&simulator, "hub").await;
    let other = Server::start(&older, "hub").await;
    let relay = Relay::start(server.address).await;
    let mut watching = Watching::start(&connection(relay.address));
    assert_eq!(watching.until("complete").await, LISTED);
    plane.create(config_map("b")).unwrap();
    watching.until("applied b").await;
    relay.leads(Some(other.address));
    match ends {
        Ends::By(fate) => relay.ends(fate),
        Ends::InOrder => {
            server.go_away();
            plane.close_watches(None);
        }
    }
    let told = watching.until("complete").await;
    let told: Vec<_> = told
        .iter()
        .filter(|word| !["failed", "resumed"].contains(&&***word))
        .collect();
    assert_eq!(
        told,
        ["began", "rewound", "began", "listed a", "complete"],
        "{ends:?}"
    );
    older_plane.create(config_map("c")).unwrap();
    assert_eq!(watching.until("applied c").await, ["applied c"]);
}

#[tokio::test]
async fn another_server_with_an_older_state_behind_the_same_address_is_read_anew() {
    replaced(Ends::By(Fate::HalfOpen)).await;
    replaced(Ends::By(Fate::Cut)).await;
}

#[tokio::test]
async fn another_server_with_an_older_state_after_one_that_went_away_in_good_order_is_read_anew() {
    replaced(Ends::InOrder).await;
}

#[tokio::test]
async fn a_server_that_does_not_speak_http2_has_a_connection_for_each_watch() {
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let simulator = Simulator::new(1);
        let plane = plane(&simulator);
        let server = Server::speaking(&simulator, "hub", protocols).await;
        let connection = connection(server.address);
        let mut all: Vec<Watching> = (0..5).map(|_| Watching::start(&connection)).collect();
        for watching in &mut all {
            assert_eq!(watching.until("complete").await, LISTED);
        }
        plane.create(config_map("b")).unwrap();
        for watching in &mut all {
            assert_eq!(watching.until("applied b").await, ["applied b"], "{protocols:?}");
        }
        assert_eq!(server.http2_connections(), 0);
        assert_eq!(*server.calls().borrow(), all.len(), "a list for each");
    }
}
