//! The console's page and its sessions.

use super::*;
use crate::console::session::{self, Key};
use axum::http::{HeaderMap, Method};
use sha2::{Digest, Sha256};

const TOKEN: &str = "0123456789abcdef";
const OWN_PAGE: (&str, &str) = ("sec-fetch-site", "same-origin");

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

/// Signs in, and returns the browser's header `Cookie`.
async fn sign_in(routes: &Router, token: &str) -> String {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let (status, headers, text) = send(routes, Method::POST, "/console/session", &headers).await;
    assert_eq!((status, text.as_str()), (204, ""));
    let cookie = headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/; Max-Age=43200");
    assert!(!cookie.contains(token));
    pair.to_owned()
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
async fn a_session_admits_the_page_itself_and_no_other_page() {
    let file = File::new("session", TOKEN);
    let routes = with_token(&file);
    let cookie = sign_in(&routes, TOKEN).await;
    let cookie = ("cookie", cookie.as_str());
    assert_eq!(overview(&routes, &[cookie, OWN_PAGE]).await, 200);
    assert_eq!(overview(&routes, &[OWN_PAGE]).await, 401);
    for site in ["same-site", "cross-site", "none"] {
        assert_eq!(
            overview(&routes, &[cookie, ("sec-fetch-site", site)]).await,
            403,
            "{site}"
        );
    }
    let (status, _, text) = send(&routes, Method::GET, "/api/v1/overview", &[cookie]).await;
    assert_eq!(status, 403);
    assert!(text.contains("fedgate console"), "{text}");
    // A token that is shown is what counts.
    let wrong = ("authorization", "Bearer wrong");
    assert_eq!(overview(&routes, &[cookie, OWN_PAGE, wrong]).await, 401);
}

#[tokio::test]
async fn each_replica_accepts_a_session_and_a_new_token_ends_it() {
    let (one, other) = (File::new("one", TOKEN), File::new("other", TOKEN));
    let (first, second) = (with_token(&one), with_token(&other));
    let cookie = sign_in(&first, TOKEN).await;
    let headers = [("cookie", cookie.as_str()), OWN_PAGE];
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
        let cookie = format!("other=1; fedgate-session={}", key.begin(began));
        overview(&routes, &[("cookie", &cookie), OWN_PAGE]).await
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
        let (status, headers, _) = post(&[wrong]).await;
        assert_eq!(status, 401);
        assert!(!headers.contains_key("set-cookie"));
    }
    let right = ("authorization", "Bearer 0123456789abcdef");
    assert_eq!(post(&[right]).await.0, 429);
    assert_eq!(overview(&routes, &[right]).await, 429);
}

#[tokio::test]
async fn signing_out_takes_the_cookie_and_without_a_token_there_is_none() {
    let file = File::new("out", TOKEN);
    let (_, headers, _) = send(&with_token(&file), Method::DELETE, "/console/session", &[]).await;
    assert_eq!(
        headers["set-cookie"],
        "fedgate-session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"
    );
    let (status, headers, _) = send(&routes(None, None), Method::POST, "/console/session", &[]).await;
    assert_eq!(status, 204);
    assert!(!headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn under_tls_a_session_is_sent_by_tls_alone() {
    let file = File::new("secure", TOKEN);
    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    let mut access = Access::new(address, Some(Token::of(file.0.clone())), None);
    access.is_tls = true;
    let subject: Arc<dyn AdminSource> = Arc::new(Waiting);
    let routes = router(&subject, &Metrics::new().unwrap(), access);
    let headers = [("authorization", "Bearer 0123456789abcdef")];
    let (_, headers, _) = send(&routes, Method::POST, "/console/session", &headers).await;
    let cookie = headers["set-cookie"].to_str().unwrap();
    assert!(cookie.ends_with("; Max-Age=43200; Secure"), "{cookie}");
}
