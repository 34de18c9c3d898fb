//! `--admin-auth=hub`, with a hub that the test plays.

use super::*;
use axum::http::Response as HttpResponse;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;

const FILES: &str = "0123456789abcdef";
const PEER: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A hub that reviews, and the reviews that it was asked for.
#[derive(Default)]
pub(super) struct Hub {
    asked: Mutex<Vec<Value>>,
    is_down: Mutex<bool>,
    revoked: Mutex<Option<&'static str>>,
}

impl Hub {
    /// `all-…` and `every-…` may get everything, `shop-…` what is of project `shop`, `none-…` nothing; other tokens are unknown.
    fn answer(&self, review: &Value) -> Value {
        self.asked.lock().push(review.clone());
        let mut review = review.clone();
        if review["kind"] == "TokenReview" {
            let token = review["spec"]["token"].as_str().unwrap();
            let user = token.split_once('-').map(|(user, _)| user.to_owned());
            review["status"] = json!({
                "authenticated": user.is_some(),
                "user": {"username": user, "groups": ["ops"], "uid": "7", "extra": {"scopes": ["a"]}},
            });
        } else {
            let spec = &review["spec"];
            assert_eq!(spec["groups"], json!(["ops"]));
            assert_eq!(spec["uid"], "7");
            assert_eq!(spec["extra"], json!({"scopes": ["a"]}));
            let wanted = &spec["resourceAttributes"];
            assert_eq!(wanted["verb"], "get");
            assert_eq!(wanted["group"], "operations.fedgate.dev");
            let user = spec["user"].as_str().unwrap();
            let allowed = ["all", "every"].contains(&user) || user == "shop" && wanted["name"] == "shop";
            let allowed = allowed && *self.revoked.lock() != Some(user);
            review["status"] = json!({"allowed": allowed});
        }
        review
    }

    /// A user loses its rights.
    pub(super) fn revokes(&self, user: &'static str) {
        *self.revoked.lock() = Some(user);
    }

    pub(super) fn connection(self: &Arc<Self>) -> Connection {
        let hub = self.clone();
        let service = tower::service_fn(move |request: axum::http::Request<kube::client::Body>| {
            let hub = hub.clone();
            async move {
                if *hub.is_down.lock() {
                    return Err(std::io::Error::other("no route to host"));
                }
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let answer = hub.answer(&serde_json::from_slice(&body).unwrap());
                Ok(HttpResponse::new(kube::client::Body::from(
                    answer.to_string().into_bytes(),
                )))
            }
        });
        Connection::of_client(kube::Client::new(service, "default"))
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

/// The routes with the file's token and the hub's.
struct Address(
    Router,
    #[expect(dead_code, reason = "it removes the file at the end")] File,
);

impl Address {
    fn new(name: &str, hub: &Arc<Hub>) -> Self {
        let file = File::new(name, FILES);
        let token = Token::of(file.0.clone());
        Self(routes(Some(token), Some(hub.connection())), file)
    }

    async fn ask(&self, path: &str, token: &str) -> u16 {
        self.ask_from(1, path, token).await
    }

    /// A request from one of many addresses.
    async fn ask_from(&self, last: u8, path: &str, token: &str) -> u16 {
        let peer = access::Peer::at(std::net::IpAddr::from([10, 0, 0, last]));
        let request = Request::get(path).header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = request.extension(peer);
        let request = request.body(Body::empty()).unwrap();
        self.0.clone().oneshot(request).await.unwrap().status().as_u16()
    }
}

/// A granted question about one object reaches a role that does not run yet.
const GRANTED: u16 = 503;

#[tokio::test(start_paused = true)]
async fn the_hub_grants_all_one_project_or_nothing() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("granted", &hub);
    for (path, token, status) in [
        ("/api/v1/overview", "all-1", 200),
        ("/metrics", "all-1", 200),
        ("/debug/planes", "all-1", 200),
        ("/api/v1/nothing", "all-1", 404),
        ("/api/v1/overview", "none-1", 403),
        ("/metrics", "shop-1", 403),
        ("/api/v1/projects", "shop-1", 403),
        ("/api/v1/flows", "shop-1", 403),
        ("/api/v1/events", "shop-1", 403),
        ("/api/v1/cells/shop", "shop-1", 403),
        ("/api/v1/projects/shop", "shop-1", GRANTED),
        ("/api/v1/projects/sh%6Fp", "shop-1", GRANTED),
        ("/api/v1/projects/other", "shop-1", 403),
        ("/api/v1/projects/shop%2Fother", "shop-1", 403),
        ("/api/v1/trace/shop/default/workloads/web", "shop-1", GRANTED),
        ("/api/v1/trace/other/shop/workloads/web", "shop-1", 403),
        ("/api/v1/stuck?project=shop", "shop-1", 200),
        ("/api/v1/stuck?project=other&project=shop", "shop-1", 403),
        ("/api/v1/stuck?project=shop&project=other", "shop-1", 400),
        ("/api/v1/overview?project=shop", "shop-1", 400),
        ("/api/v1/cells/dfw?project=shop", "shop-1", 400),
        ("/api/v1/events?project=shop&topics=overview", "shop-1", 400),
        ("/api/v1/stuck?project=", "shop-1", 403),
        ("/api/v1/projects/%00", "shop-1", 400),
        ("/metrics", "unknown", 401),
        ("/metrics", FILES, 200),
    ] {
        assert_eq!(address.ask(path, token).await, status, "{path} {token}");
        // Each has its own verdict, so that the rate is not what is tested.
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let asked = hub.asked.lock();
    let resources: Vec<_> = asked
        .iter()
        .filter_map(|review| review["spec"]["resourceAttributes"]["resource"].as_str())
        .collect();
    assert!(
        resources.contains(&"metrics") && resources.contains(&"trace"),
        "{resources:?}"
    );
    assert!(
        !asked.iter().any(|review| review.to_string().contains(FILES)),
        "the file's token is shown to nobody"
    );
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_kept_for_a_minute_and_a_refusal_for_ten_seconds() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("kept", &hub);
    for _ in 0..20 {
        assert_eq!(address.ask("/metrics", "all-1").await, 200);
        assert_eq!(address.ask("/metrics", "none-1").await, 403);
    }
    assert_eq!(hub.asked(), 4);
    tokio::time::advance(Duration::from_secs(10)).await;
    address.ask("/metrics", "all-1").await;
    address.ask("/metrics", "none-1").await;
    assert_eq!(hub.asked(), 5, "the refused permission alone");
    tokio::time::advance(Duration::from_secs(50)).await;
    address.ask("/metrics", "all-1").await;
    assert_eq!(hub.asked(), 7);
    assert_eq!(address.ask("/metrics", "wrong").await, 401);
    assert_eq!(address.ask("/metrics", "wrong").await, 401);
    assert_eq!(hub.asked(), 8);
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_keep_no_other_address_and_no_confirmed_user_out() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("rate", &hub);
    assert_eq!(address.ask("/metrics", "all-known").await, 200);
    // Its verdicts end, so that the hub has to be asked.
    tokio::time::advance(Duration::from_secs(61)).await;
    let before = hub.asked();
    for n in 0..9 {
        let status = if n < 2 { 401 } else { 429 };
        assert_eq!(address.ask("/metrics", &format!("wrong{n}")).await, status, "{n}");
    }
    assert_eq!(hub.asked() - before, 2, "of the address");
    assert_eq!(address.ask_from(2, "/metrics", "all-new").await, 200);
    assert_eq!(address.ask("/metrics", "all-known").await, 200);
    assert_eq!(address.ask("/metrics", FILES).await, 200);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(address.ask("/metrics", "all-1").await, 200);
}

#[tokio::test(start_paused = true)]
async fn all_addresses_together_cost_the_hub_twenty_reviews_of_new_tokens_in_a_second() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("rates", &hub);
    assert_eq!(address.ask_from(0, "/metrics", "all-known").await, 200);
    tokio::time::advance(Duration::from_secs(61)).await;
    let before = hub.asked();
    for n in 1..200 {
        address.ask_from(n, "/metrics", &format!("wrong{n}")).await;
    }
    assert_eq!(hub.asked() - before, 20);
    assert_eq!(address.ask_from(201, "/metrics", "all-new").await, 429);
    assert_eq!(address.ask_from(0, "/metrics", "all-known").await, 200);
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_of_the_same_address_do_not_keep_a_confirmed_user_waiting() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("beside-hub", &hub);
    assert_eq!(address.ask("/metrics", "all-1").await, 200);
    for _ in 0..10 {
        assert_eq!(address.ask("/metrics", "wrong").await, 401);
    }
    assert_eq!(address.ask("/metrics", "wrong").await, 429);
    assert_eq!(address.ask("/metrics", "all-1").await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_questions_takes_no_review_of_another() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("questions", &hub);
    assert_eq!(address.ask("/metrics", "all-1").await, 200);
    let mut statuses = Vec::new();
    for n in 0..40 {
        statuses.push(address.ask(&format!("/api/v1/projects/{n}"), "shop-1").await);
    }
    assert!(statuses.ends_with(&[429; 20]), "{statuses:?}");
    assert_eq!(address.ask("/api/v1/overview", "all-1").await, 200);
    // A name that is too long is none, and is neither sent nor kept.
    let long = format!("/api/v1/stuck?project={}", "x".repeat(300));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(address.ask(&long, "shop-1").await, 403);
    let asked = hub.asked.lock();
    assert!(!asked.iter().any(|review| review.to_string().contains("xxx")));
}

#[tokio::test(start_paused = true)]
async fn while_the_hub_is_down_the_files_token_is_the_way_in() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("down", &hub);
    assert_eq!(address.ask("/metrics", "all-1").await, 200);
    *hub.is_down.lock() = true;
    assert_eq!(address.ask("/metrics", "all-1").await, 200, "its verdict is kept");
    assert_eq!(address.ask("/metrics", "all-2").await, 503);
    assert_eq!(address.ask("/metrics", FILES).await, 200);
    assert_eq!(address.ask("/livez", "").await, 200);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(address.ask("/metrics", "all-1").await, 503);
    *hub.is_down.lock() = false;
    assert_eq!(
        address.ask("/metrics", "all-2").await,
        200,
        "a failure is not kept"
    );
}

#[tokio::test(start_paused = true)]
async fn many_tokens_take_no_memory_and_a_huge_one_is_not_reviewed() {
    let hub = Arc::<Hub>::default();
    let reviews = Reviews::by(hub.connection());
    for n in 0..1_200 {
        let admitted = reviews.admit(PEER, &format!("all-{n}"), None).await;
        assert!(admitted.is_ok(), "{n}");
        tokio::time::advance(Duration::from_millis(501)).await;
    }
    assert!(reviews.entry_count() <= 1_000);
    let asked = hub.asked();
    let huge = format!("all-{}", "x".repeat(17 * 1024));
    assert_eq!(reviews.admit(PEER, &huge, None).await.unwrap_err().status(), 401);
    assert_eq!(hub.asked(), asked);
}

#[tokio::test]
async fn a_session_is_for_the_files_token_and_not_for_one_of_the_hub() {
    let hub = Arc::<Hub>::default();
    let address = Address::new("session", &hub);
    let post = async |token: &str| {
        let request =
            Request::post("/console/session").header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = request.body(Body::empty()).unwrap();
        let response = address.0.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), String::from_utf8(text.to_vec()).unwrap())
    };
    let (status, text) = post("all-1").await;
    assert_eq!(status, 403);
    assert!(text.contains("fedgate console --admin-auth=hub"), "{text}");
    assert_eq!(post(FILES).await.0, 200);
    assert_eq!(hub.asked(), 0);
}
