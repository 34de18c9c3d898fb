//! What goes wrong by script.

use crate::client::{Client, MAPS, map, plane};
use fedgate_simulator::{Fault, Plane, Rule, Simulator, Verb, When};
use futures::FutureExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{io, time::Duration};
use tower_service::Service as _;

/// A create that may break.
async fn create(client: &Client, name: &str) -> io::Result<(u16, String)> {
    let request = http::Request::builder()
        .method("POST")
        .uri(MAPS)
        .body(http_body_util::Full::from(map(name, "1").to_string()))
        .unwrap();
    let answer = client.0.clone().call(request).await?;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8(bytes.to_vec()).unwrap()))
}

fn with_fault(fault: Fault) -> (Simulator, Plane, Client) {
    let (simulator, plane, client) = plane();
    let rule = Rule::new(When::Nth(1), fault)
        .verb(Verb::Create)
        .kind("configmaps");
    simulator.faults().add(rule);
    (simulator, plane, client)
}

#[tokio::test]
async fn each_fault_answers_and_applies_as_it_says() {
    use Fault::*;
    for (fault, code, applied) in [
        (DropBefore, 0, false),
        (LoseAnswer, 0, true),
        (Conflict, 409, false),
        (Gone, 410, false),
        (Internal, 500, false),
        (Unavailable, 503, false),
        (TimeoutAfterApply, 504, true),
        (Unauthorized, 401, false),
        (Forbidden, 403, false),
        (Denied, 403, false),
        (HtmlBadGateway, 502, false),
        (Reset, 0, true),
    ] {
        let (_, plane, client) = with_fault(fault.clone());
        let answer = create(&client, "a").await;
        assert_eq!(answer.as_ref().map_or(0, |(code, _)| *code), code, "{fault:?}");
        assert_eq!(
            plane.get("ConfigMap", "default", "a").is_some(),
            applied,
            "{fault:?}"
        );
        assert_eq!(
            create(&client, "b").await.unwrap().0,
            201,
            "{fault:?}: only the first one"
        );
    }
}

#[tokio::test]
async fn a_busy_server_says_when_to_come_again() {
    for (retry_after, header) in [(Some(7), Some("7")), (None, None)] {
        let (_, _, client) = with_fault(Fault::TooMany { retry_after });
        let answer = client.send("POST", MAPS, "", &map("a", "1")).await;
        assert_eq!(answer.status(), 429);
        assert_eq!(
            answer.headers().get("retry-after").map(|v| v.to_str().unwrap()),
            header
        );
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_and_dripping_take_time() {
    for (fault, applied) in [(Fault::Hang, false), (Fault::HangAfterApply, true)] {
        let (_, plane, client) = with_fault(fault);
        assert!(create(&client, "a").now_or_never().is_none());
        assert_eq!(plane.get("ConfigMap", "default", "a").is_some(), applied);
    }
    let every = Duration::from_secs(1);
    let (_, _, client) = with_fault(Fault::SlowDrip { bytes: 100, every });
    let begun = tokio::time::Instant::now();
    let (code, body) = create(&client, "a").await.unwrap();
    assert_eq!(code, 201);
    let drops = u32::try_from(body.len().div_ceil(100)).unwrap();
    assert_eq!(begun.elapsed().as_secs(), u64::from(drops));
}

#[tokio::test]
async fn half_an_answer_and_half_a_line() {
    let (simulator, plane, client) = with_fault(Fault::TruncatedLine);
    let (_, body) = create(&client, "a").await.unwrap();
    assert!(serde_json::from_str::<Value>(&body).is_err() && body.starts_with('{'));
    simulator
        .faults()
        .add(Rule::new(When::Always, Fault::TruncatedLine).verb(Verb::Watch));
    let watch = client
        .send("GET", &format!("{MAPS}?watch=true"), "", &Value::Null)
        .await;
    plane.create(map("b", "1")).unwrap();
    let line = watch.into_body().collect().await.unwrap().to_bytes();
    assert!(line.starts_with(b"{\"type\":\"ADDED\"") && !line.ends_with(b"\n"));
}

#[tokio::test(start_paused = true)]
async fn rules_choose_their_requests() {
    let (simulator, _, client) = plane();
    let faults = simulator.faults();
    let met = async |rule: Rule| -> Vec<u16> {
        faults.clear();
        faults.add(rule);
        let mut codes = Vec::new();
        for _ in 0..6 {
            codes.push(client.get(MAPS).await.0);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        codes
    };
    let rule = |when| Rule::new(when, Fault::Internal);
    assert_eq!(met(rule(When::Nth(2))).await, [200, 500, 200, 200, 200, 200]);
    assert_eq!(met(rule(When::Every(3))).await, [200, 200, 500, 200, 200, 500]);
    let span = Duration::from_millis(1500)..Duration::from_millis(3500);
    assert_eq!(
        met(rule(When::During(span))).await,
        [200, 200, 500, 500, 200, 200]
    );
    assert_eq!(met(rule(When::Always).user("another")).await, [200; 6]);
    assert_eq!(
        met(rule(When::Always).plane("p").kind("configmaps").verb(Verb::List)).await,
        [500; 6]
    );
    assert_eq!(met(rule(When::Always).status(true)).await, [200; 6]);
    let drawn = met(rule(When::Chance(0.5))).await;
    assert!(drawn.contains(&200) && drawn.contains(&500), "{drawn:?}");
    let id = faults.add(rule(When::Always));
    client.get(MAPS).await;
    assert_eq!(faults.hits(id), 1);
    faults.remove(id);
}

#[tokio::test]
async fn a_user_stops_at_a_request() {
    for (after, applied) in [(false, 1), (true, 2)] {
        let (simulator, plane, client) = plane();
        let faults = simulator.faults();
        faults.stop_at("someone", 2, after);
        assert!(faults.stopped().now_or_never().is_none());
        client.watch(MAPS, "").await;
        create(&client, "a").await.unwrap();
        assert!(create(&client, "b").now_or_never().is_none());
        assert!(faults.stopped().now_or_never().is_some());
        assert!(create(&client, "c").now_or_never().is_none());
        assert_eq!(plane.list("ConfigMap").len(), applied);
        let other = Client(simulator.service("p", "another"));
        assert_eq!(create(&other, "d").await.unwrap().0, 201);
        let codes: Vec<_> = simulator
            .log()
            .entries()
            .iter()
            .map(|e| (e.code, e.fault))
            .collect();
        let stopped = if after {
            (201, Some("StopAfter"))
        } else {
            (0, Some("StopBefore"))
        };
        assert_eq!(codes, [(200, None), (201, None), stopped, (201, None)]);
        faults.clear();
        assert_eq!(create(&client, "e").await.unwrap().0, 201);
    }
}

#[tokio::test]
async fn a_lost_delete_is_in_the_log() {
    let (simulator, plane, client) = plane();
    plane.create(map("a", "1")).unwrap();
    simulator
        .faults()
        .add(Rule::new(When::Always, Fault::TimeoutAfterApply).verb(Verb::Delete));
    let uid = plane.get("ConfigMap", "default", "a").unwrap()["metadata"]["uid"].clone();
    let body = json!({"preconditions": {"uid": uid}});
    assert_eq!(client.ask("DELETE", &format!("{MAPS}/a"), "", &body).await.0, 504);
    let entry = simulator.log().entries().pop().unwrap();
    assert_eq!(
        (entry.code, entry.changed, entry.uid_precondition),
        (200, true, true)
    );
    assert_eq!(entry.fault, Some("TimeoutAfterApply"));
}
