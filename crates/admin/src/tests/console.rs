//! The console's page and its sessions.

use super::*;
use crate::console::session::{self, Key};
use axum::http::{HeaderMap, Method};
use sha2::{Digest, Sha256};

const TOKEN: &str = "0123456789abcdef";

type Headers<'a> = &'a [(&'a str, &'a str)];

async fn send(routes: &Router, method: Method, path: &str, headers: Headers<'_>) -> (u16, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header(header::HOST, "localhost:8080");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = routes.clone().oneshot(request.body(Body::empty()).unwrap());
    let (parts, body) = response.await.unwrap().into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    (parts.status.as_u16(), parts.headers, text)
}

fn with_token(file: &File) -> Router {
    routes(Some(Token::of(file.0.clone())), None)
}

/// Signs in, and returns the header that shows the session.
async fn sign_in(routes: &Router, token: &str) -> String {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let (status, headers, text) = send(routes, Method::POST, "/console/session", &headers).await;
    assert_eq!(status, 200, "{text}");
    assert!(
        !headers.contains_key("set-cookie"),
        "a cookie reaches every port of the host"
    );
    assert_eq!(headers["cache-control"], "no-store");
    assert!(!text.contains(token));
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    format!("Session {}", answer["session"].as_str().unwrap())
}

async fn overview(routes: &Router, headers: Headers<'_>) -> u16 {
    send(routes, Method::GET, "/api/v1/overview", headers).await.0
}

#[tokio::test]
async fn the_page_needs_no_token_and_the_own_name_without_one() {
    let file = File::new("page", TOKEN);
    for routes in [with_token(&file), routes(None, None)] {
        for path in ["/console", "/console/"] {
            let (status, headers, page) = send(&routes, Method::GET, path, &[]).await;
            assert_eq!(status, 200);
            assert!(headers.contains_key("content-security-policy"));
            assert_eq!(headers["cache-control"], "no-store");
            assert!(page.contains("/console/a/"), "{page}");
        }
        for path in ["/console/none", "/console/a/000000000000/main.js"] {
            let (status, headers, text) = send(&routes, Method::GET, path, &[]).await;
            assert_eq!(status, 404, "{path}");
            assert!(headers.contains_key("content-security-policy"));
            assert!(text.contains("/console"), "{text}");
        }
        assert_eq!(send(&routes, Method::POST, "/console", &[]).await.0, 405);
    }
    let open = routes(None, None);
    for foreign in [
        &[("host", "evil")][..],
        &[("host", "localhost:8080"), ("origin", "http://evil")],
    ] {
        let (status, headers, _) = send(&open, Method::GET, "/console", foreign).await;
        assert_eq!(status, 421);
        assert!(headers.contains_key("content-security-policy"));
    }
}

#[tokio::test]
async fn a_session_is_shown_in_a_header_and_no_cookie_admits() {
    let file = File::new("session", TOKEN);
    let routes = with_token(&file);
    let session = sign_in(&routes, TOKEN).await;
    assert_eq!(overview(&routes, &[("authorization", &session)]).await, 200);
    assert_eq!(overview(&routes, &[]).await, 401);
    // A browser sends these to a page of another port, and a program can add the second.
    let value = session.strip_prefix("Session ").unwrap();
    for cookie in [format!("fedgate-session={value}"), format!("session={value}")] {
        let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
        assert_eq!(overview(&routes, &headers).await, 401, "{cookie}");
    }
    let as_token = format!("Bearer {value}");
    assert_eq!(overview(&routes, &[("authorization", &as_token)]).await, 401);
}

#[tokio::test]
async fn each_replica_accepts_a_session_and_a_new_token_ends_it() {
    let (one, other) = (File::new("one", TOKEN), File::new("other", TOKEN));
    let (first, second) = (with_token(&one), with_token(&other));
    let session = sign_in(&first, TOKEN).await;
    let headers = [("authorization", session.as_str())];
    assert_eq!(overview(&second, &headers).await, 200);
    one.write("fedcba9876543210");
    let (status, answered, text) = send(&first, Method::GET, "/api/v1/overview", &headers).await;
    assert_eq!(status, 401);
    assert_eq!(
        answered["www-authenticate"], "Bearer",
        "the page asks for the token"
    );
    assert!(text.contains("/console"), "{text}");
    assert_eq!(overview(&second, &headers).await, 200);
    one.remove();
    assert_eq!(overview(&first, &headers).await, 503);
}

#[tokio::test]
async fn a_session_ends_after_twelve_hours_and_cannot_be_forged() {
    let file = File::new("end", TOKEN);
    let routes = with_token(&file);
    let key = Key::of(&Sha256::digest(TOKEN));
    let ask = async |began: u64, key: &Key| {
        let session = format!("Session {}", key.begin(began));
        overview(&routes, &[("authorization", &session)]).await
    };
    let now = session::now();
    assert_eq!(ask(now - session::LIFE + 60, &key).await, 200);
    assert_eq!(ask(now - session::LIFE, &key).await, 401);
    assert_eq!(ask(now, &Key::random().unwrap()).await, 401);
    assert_eq!(ask(now, &Key::of(b"")).await, 401);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_gets_no_session_and_counts_as_wrong() {
    let file = File::new("guess", TOKEN);
    let routes = with_token(&file);
    let post = async |headers: Headers<'_>| send(&routes, Method::POST, "/console/session", headers).await;
    let (status, headers, _) = post(&[]).await;
    assert_eq!(status, 401);
    assert_eq!(headers["www-authenticate"], "Bearer");
    let wrong = ("authorization", "Bearer 0123456789abcdeF");
    for _ in 0..10 {
        let (status, _, text) = post(&[wrong]).await;
        assert_eq!(status, 401);
        assert!(text.contains("\"Error\""), "{text}");
    }
    let right = ("authorization", "Bearer 0123456789abcdef");
    assert_eq!(post(&[right]).await.0, 429);
    assert_eq!(overview(&routes, &[right]).await, 429);
}

#[tokio::test]
async fn where_no_token_is_needed_there_is_no_session() {
    let (status, _, text) = send(&routes(None, None), Method::POST, "/console/session", &[]).await;
    assert_eq!((status, text.as_str()), (204, ""));
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_of_the_same_address_end_no_session() {
    let file = File::new("beside", TOKEN);
    let routes = with_token(&file);
    let session = sign_in(&routes, TOKEN).await;
    for _ in 0..10 {
        assert_eq!(overview(&routes, &[("authorization", "Bearer wrong")]).await, 401);
    }
    assert_eq!(overview(&routes, &[("authorization", "Bearer wrong")]).await, 429);
    assert_eq!(overview(&routes, &[("authorization", &session)]).await, 200);
}
