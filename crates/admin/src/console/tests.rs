//! Tests of the page's answers.

use super::*;
use axum::{http::Request, middleware};
use http_body_util::BodyExt;
use tower::ServiceExt;

async fn ask(path: &str) -> (u16, HeaderMap, String) {
    let routes = router().layer(middleware::map_response(async |response| protect(response)));
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = routes.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    (
        parts.status.as_u16(),
        parts.headers,
        String::from_utf8(text.to_vec()).unwrap(),
    )
}

/// The address of a file that the page names.
async fn named(ending: &str) -> String {
    let (.., page) = ask("/console").await;
    let texts = page.split('"').filter(|text| text.starts_with("/console/a/"));
    let found = texts
        .filter(|text| text.ends_with(ending))
        .map(str::to_owned)
        .next();
    found.unwrap()
}

#[tokio::test]
async fn the_page_is_never_stored_and_its_files_for_ever() {
    for path in ["/console", "/console/"] {
        let (status, headers, page) = ask(path).await;
        assert_eq!(status, 200, "{path}");
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        assert!(page.starts_with("<!doctype html>"), "{page}");
    }
    let (status, headers, _) = ask(&named(".js").await).await;
    assert_eq!(status, 200);
    assert_eq!(headers["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(headers["content-type"], "text/javascript; charset=utf-8");
}

#[tokio::test]
async fn every_answer_has_the_headers_of_the_console() {
    let file = named(".js").await;
    for path in ["/console", &file, "/console/a/000000000000/main.js"] {
        let (_, headers, _) = ask(path).await;
        assert_eq!(
            headers["content-security-policy"],
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["cross-origin-opener-policy"], "same-origin");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
    }
}

#[tokio::test]
async fn no_file_is_served_but_those_of_the_page() {
    let file = named(".js").await;
    let (folder, _) = file.rsplit_once('/').unwrap();
    for path in [
        &file.replace(folder, "/console/a/000000000000"),
        &file.to_uppercase(),
        &format!("{folder}/"),
        &format!("{folder}/none.js"),
        &format!("{folder}/index.html"),
        &format!("{folder}/../mod.rs"),
        &format!("{folder}/..%2Fmod.rs"),
        &format!("{folder}/%2e%2e%2Fmod.rs"),
        &format!("{folder}/.%2Fmain.js"),
        &format!("{folder}/%2Fetc%2Fpasswd"),
        &format!("{folder}/main.js%00"),
        &format!("{folder}/a/main.js"),
        "/console/a/main.js",
        "/console/main.js",
    ] {
        assert_eq!(ask(path).await.0, 404, "{path}");
    }
}
