//! Calls that are no watches, which have HTTP/1.1 connections of their own.

use crate::{
    client::{Watching, api, comes, config_map, connection},
    relay::{Fate, Relay},
    server::Server,
};
use fedgate_engine::plane::client::is_timeout;
use fedgate_simulator::{Simulator, Verb};
use futures::future::join_all;
use kube::api::PostParams;
use tokio::time::Instant;

/// How many calls are under way at once.
const CALLS: usize = 8;

#[tokio::test]
async fn calls_under_way_are_answered_by_a_server_that_goes_away_and_the_next_ones_by_a_new_connection() {
    let simulator = Simulator::new(1);
    let plane = simulator.add("hub");
    let server = Server::start(&simulator, "hub").await;
    let connection = connection(server.address);
    server.hold_calls(true);
    let mut calls = server.calls();
    let creates = (0..CALLS).map(|n| {
        let api = api(&connection);
        let object = serde_json::from_value(config_map(&format!("x{n}"))).unwrap();
        tokio::spawn(async move { api.create(&PostParams::default(), &object).await })
    });
    let creates: Vec<_> = creates.collect();
    comes("all calls", calls.wait_for(|calls| *calls == CALLS))
        .await
        .unwrap();
    server.go_away();
    server.hold_calls(false);
    for answer in comes("their answers", join_all(creates)).await {
        answer.unwrap().unwrap();
    }
    assert_eq!(plane.count("ConfigMap"), CALLS);
    assert_eq!(plane.requests(Verb::Create), CALLS as u64, "each was sent once");
    let connections = server.http1_connections();
    comes("the next answer", api(&connection).get("x0"))
        .await
        .unwrap();
    assert_eq!(
        server.http1_connections(),
        connections + 1,
        "those that go away are not used again"
    );
}

#[tokio::test]
async fn calls_on_half_open_connections_end_within_their_limit_and_the_next_ones_are_answered() {
    let simulator = Simulator::new(1);
    let plane = simulator.add("hub");
    plane.create(config_map("a")).unwrap();
    let server = Server::start(&simulator, "hub").await;
    let relay = Relay::start(server.address).await;
    let connection = connection(relay.address);
    let all = || {
        let gets = (0..CALLS).map(|_| {
            let api = api(&connection);
            async move { api.get("a").await }
        });
        join_all(gets)
    };
    // As many connections as calls, since each waits for its answer.
    server.hold_calls(true);
    let mut calls = server.calls();
    let (answers, ()) = tokio::join!(comes("the answers", all()), async {
        comes("all calls", calls.wait_for(|calls| *calls == CALLS))
            .await
            .unwrap();
        server.hold_calls(false);
    });
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(server.http1_connections(), CALLS);
    relay.ends(Fate::HalfOpen);
    for answer in comes("the ends of the calls", all()).await {
        let error = answer.expect_err("nothing passes");
        assert!(is_timeout(&error), "{error:?}");
    }
    assert_eq!(plane.requests(Verb::Get), CALLS as u64);
    for answer in comes("answers by new connections", all()).await {
        answer.unwrap();
    }
}

#[tokio::test]
async fn calls_end_within_their_limit_while_no_connection_leads_anywhere() {
    let simulator = Simulator::new(1);
    let plane = simulator.add("hub");
    plane.create(config_map("a")).unwrap();
    let server = Server::start(&simulator, "hub").await;
    let relay = Relay::start(server.address).await;
    let connection = connection(relay.address);
    relay.leads(None);
    let api = api(&connection);
    let error = comes("the end of the call", api.get("a")).await.unwrap_err();
    assert!(is_timeout(&error), "{error:?}");
    relay.leads(Some(server.address));
    comes("an answer", api.get("a")).await.unwrap();
}

#[tokio::test]
async fn nothing_is_sent_once_the_right_to_write_has_run_out_and_watches_go_on() {
    let simulator = Simulator::new(1);
    let plane = simulator.add("hub");
    plane.create(config_map("a")).unwrap();
    let server = Server::start(&simulator, "hub").await;
    let connection = connection(server.address);
    let mut watch = Watching::start(&connection);
    watch.until("complete").await;
    let api = api(&connection);
    comes("an answer", api.get("a")).await.unwrap();
    connection.fence().allow(Some(Instant::now()));
    let how = PostParams::default();
    let object = serde_json::from_value(config_map("b")).unwrap();
    let create = api.create(&how, &object);
    comes("the end of the call", create).await.unwrap_err();
    assert_eq!(plane.requests(Verb::Create), 0);
    plane.create(config_map("c")).unwrap();
    watch.until("applied c").await;
    connection.fence().allow(None);
    let create = api.create(&how, &object);
    // The connection of the first call may be the next one's; what it was handed is lost with it.
    if comes("the end of the call", create).await.is_err() {
        assert_eq!(plane.requests(Verb::Create), 0);
        let create = api.create(&how, &object);
        comes("an answer", create).await.unwrap();
    }
    assert_eq!(plane.requests(Verb::Create), 1);
}
