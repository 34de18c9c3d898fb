//! Tests of each path's response, with and without the token.

use super::*;
use axum::body::Body;
use http_body_util::BodyExt;
use std::path::{Path, PathBuf};
use tower::ServiceExt;

struct Waiting;

impl AdminSource for Waiting {
    fn operations(&self) -> std::sync::Arc<dyn fedgate_operations::OperationsSource> {
        unreachable!("no test asks the operations API here")
    }

    fn ready(&self) -> Result<(), String> {
        Err("the hub's first lists are not complete".to_owned())
    }
    fn metrics(&self) -> Result<String, String> {
        Ok("up 1\n".to_owned())
    }
    fn planes(&self) -> serde_json::Value {
        serde_json::json!({"planes": []})
    }
}

/// Sends a request with this `Authorization` header, if any.
async fn ask(token: Option<&Path>, path: &str, authorization: Option<&str>) -> (u16, String) {
    let mut request = Request::get(path);
    if let Some(value) = authorization {
        request = request.header(header::AUTHORIZATION, value);
    }
    let token = token.map(|file| Token::of(file.to_owned()));
    let routes = router(Arc::new(Waiting), token);
    let response = routes
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
    for path in ["/metrics", "/debug/planes"] {
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
        assert_eq!(ask(path, Some("Bearer 0123456789abcdef")).await.0, 200);
        assert_eq!(ask(path, Some("bearer 0123456789abcdef")).await.0, 200);
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
    let token = Token::of(file.0.clone());
    let said = bind(any, Some(&token)).await.unwrap_err().to_string();
    assert!(
        said.contains("the token has 5 characters; put a token of at least 16 characters there"),
        "{said}"
    );
    file.remove();
    let said = bind(any, Some(&token)).await.unwrap_err().to_string();
    assert!(
        said.starts_with("--admin-token-file ") && said.contains("openssl rand -hex 32"),
        "{said}"
    );
}
