//! Tests of each path's response, with and without the token.

mod connections;
mod console;
mod hub;
mod streams;
mod tls;

use super::{routes::router, *};
use axum::{Router, body::Body, extract::Request, http::header, response::Response};
use fedgate_engine::{clock::Clock, metrics::Build};
use fedgate_operations::Time;
use fedgate_operations::views::{header::Process, starting::Starting};
use http_body_util::BodyExt;
use std::path::{Path, PathBuf};
use tower::ServiceExt;

struct Waiting;

impl AdminSource for Waiting {
    fn ready(&self) -> Result<(), String> {
        Err("the hub's first lists are not complete".to_owned())
    }
    fn metrics(&self) -> Result<String, String> {
        Ok("up 1\n".to_owned())
    }
    fn planes(&self) -> serde_json::Value {
        serde_json::json!({"planes": []})
    }
    fn operations(&self) -> Arc<dyn OperationsSource> {
        let process = Process {
            identity: "gateway-1".to_owned(),
            build: Build::default(),
            started: Time::from_second(0),
        };
        Arc::new(Starting::new(process, Clock::system(), "hub"))
    }
}

/// The routes of a role that is not ready.
fn routes(token: Option<Token>, reviewer: Option<Connection>) -> Router {
    let access = Access::new(
        SocketAddr::from(([127, 0, 0, 1], 8080)),
        token,
        reviewer.map(Reviews::by),
    );
    let subject: Arc<dyn AdminSource> = Arc::new(Waiting);
    router(&subject, &Metrics::new().unwrap(), access)
}

/// Sends a request with this `Authorization` header, if any.
async fn ask(token: Option<&Path>, path: &str, authorization: Option<&str>) -> (u16, String) {
    let mut request = Request::get(path).header(header::HOST, "localhost:8080");
    if let Some(value) = authorization {
        request = request.header(header::AUTHORIZATION, value);
    }
    let token = token.map(|file| Token::of(file.to_owned()));
    let response = routes(token, None)
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(text.to_vec()).unwrap())
}

/// A file with a token that is removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let file = Self(std::env::temp_dir().join(format!("fedgate-token-{name}-{}", std::process::id())));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn remove(&self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn each_path_answers_its_question() {
    let get = |path| ask(None, path, None);
    assert_eq!(get("/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(
        get("/readyz").await,
        (503, "the hub's first lists are not complete\n".to_owned())
    );
    assert_eq!(get("/metrics").await, (200, "up 1\n".to_owned()));
    assert_eq!(get("/debug/planes").await, (200, "{\"planes\":[]}".to_owned()));
    assert_eq!(get("/other").await.0, 404);
}

#[tokio::test]
async fn who_shows_no_token_sees_no_tenant() {
    let file = File::new("shown", "0123456789abcdef\n");
    let ask = |path, authorization| ask(Some(&file.0), path, authorization);
    for path in ["/metrics", "/debug/planes", "/api/v1/overview", "/api/v1/nothing"] {
        for wrong in [
            None,
            Some("Bearer 0123456789abcdeF"),
            Some("Bearer 0123456789abcde"),
            Some("Bearer 0123456789abcdef0"),
            Some("Bearer "),
            Some("0123456789abcdef"),
            Some("Basic 0123456789abcdef"),
        ] {
            let (code, said) = ask(path, wrong).await;
            assert_eq!(code, 401, "{path} {wrong:?}");
            assert!(said.contains("--admin-token-file"), "{said}");
        }
        let admitted = match path {
            "/api/v1/nothing" => 404,
            _ => 200,
        };
        assert_eq!(ask(path, Some("Bearer 0123456789abcdef")).await.0, admitted);
        assert_eq!(ask(path, Some("bearer 0123456789abcdef")).await.0, admitted);
    }
    assert_eq!(ask("/livez", None).await.0, 200);
    assert_eq!(ask("/readyz", None).await.0, 503, "it is open, and not ready");
}

#[tokio::test]
async fn a_new_token_counts_at_once_and_without_one_nobody_comes_in() {
    let file = File::new("new", "0123456789abcdef");
    let ask = |shown| ask(Some(&file.0), "/metrics", Some(shown));
    file.write("fedcba9876543210");
    assert_eq!(ask("Bearer 0123456789abcdef").await.0, 401);
    assert_eq!(ask("Bearer fedcba9876543210").await.0, 200);
    file.write("\n");
    assert_eq!(ask("Bearer ").await.0, 503);
    file.remove();
    assert_eq!(ask("Bearer fedcba9876543210").await.0, 503);
}

#[tokio::test]
async fn without_its_token_the_address_is_not_served() {
    let file = File::new("missing", "short");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = || Settings {
        address: any,
        token: Some(Token::of(file.0.clone())),
        reviewer: None,
        tls: None,
        probes: None,
    };
    let said = bind(settings()).await.err().unwrap().to_string();
    assert!(
        said.contains("the token has 5 characters; put a token of at least 16 characters there"),
        "{said}"
    );
    file.remove();
    let said = bind(settings()).await.err().unwrap().to_string();
    assert!(
        said.starts_with("--admin-token-file ") && said.contains("openssl rand -hex 32"),
        "{said}"
    );
}

#[tokio::test]
async fn without_a_token_only_the_addresss_own_name_is_served() {
    let send = |path: &'static str, host: &'static str, origin: Option<&'static str>| async move {
        let mut request = Request::get(path).header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = routes(None, None).oneshot(request).await.unwrap();
        response.status().as_u16()
    };
    for path in ["/metrics", "/debug/planes", "/api/v1/overview", "/readyz"] {
        assert_eq!(send(path, "evil", None).await, 421, "{path}");
        assert_eq!(
            send(path, "localhost:8080", Some("http://evil")).await,
            421,
            "{path}"
        );
        assert_ne!(
            send(path, "localhost:8080", Some("http://localhost:8080")).await,
            421
        );
    }
}

#[tokio::test]
async fn with_a_token_any_name_is_served() {
    let file = File::new("names", "0123456789abcdef");
    let request = Request::get("/metrics")
        .header(header::HOST, "gateway.example.com")
        .header(header::AUTHORIZATION, "Bearer 0123456789abcdef");
    let response = routes(Some(Token::of(file.0.clone())), None)
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn ten_wrong_tokens_in_a_second_are_refused_for_a_second() {
    let file = File::new("many", "0123456789abcdef");
    let routes = routes(Some(Token::of(file.0.clone())), None);
    let ask = async |shown: &str| {
        let request = Request::get("/metrics").header(header::AUTHORIZATION, format!("Bearer {shown}"));
        let request = request.body(Body::empty()).unwrap();
        routes.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    for _ in 0..10 {
        assert_eq!(ask("0123456789abcdeF").await, 401);
    }
    assert_eq!(ask("0123456789abcdeF").await, 429);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(ask("0123456789abcdef").await, 200);
}

#[tokio::test]
async fn answers_are_counted_by_route_and_status_and_by_no_name() {
    let metrics = Metrics::new().unwrap();
    let access = Access::new(SocketAddr::from(([127, 0, 0, 1], 8080)), None, None);
    let subject: Arc<dyn AdminSource> = Arc::new(Waiting);
    let routes = router(&subject, &metrics, access);
    for path in [
        "/api/v1/projects/shop-prod",
        "/api/v1/shop-prod",
        "/api/shop-prod",
    ] {
        let request = Request::get(path).header(header::HOST, "localhost:8080");
        let request = request.body(Body::empty()).unwrap();
        routes.clone().oneshot(request).await.unwrap();
    }
    let text = metrics
        .render(&fedgate_engine::metrics::Gauges::default())
        .unwrap();
    for line in [
        "fedgate_operations_requests_total{code=\"503\",path=\"projects/{project}\"} 1",
        "fedgate_operations_requests_total{code=\"404\",path=\"other\"} 2",
        "fedgate_operations_requests_total{code=\"429\",path=\"events\"} 0",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert!(!text.contains("shop-prod"));
}
