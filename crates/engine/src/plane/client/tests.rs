use super::*;
use crate::{executor::at_member, plane::kubeconfig::Rules};
use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, WatchParams},
    core::{ApiResource, DynamicObject},
};
use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A TLS server on loopback that allows few streams per connection and counts connections and requests.
struct Server {
    kubeconfig: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

const STREAMS: u32 = 2;

impl Server {
    async fn start<F, Fut>(handler: F) -> Self
    where
        F: Fn(Request, usize) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let mut tls =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certified.cert.der().clone()], key)
                .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (connections.clone(), requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.0.fetch_add(1, Ordering::SeqCst);
                let (acceptor, handler, requests) = (acceptor.clone(), handler.clone(), counted.1.clone());
                tokio::spawn(async move {
                    // Slow enough for requests to arrive while a connection is being opened.
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    let stream = acceptor.accept(stream).await.unwrap();
                    let service = tower::service_fn(move |request: axum::http::Request<_>| {
                        let number = requests.fetch_add(1, Ordering::SeqCst);
                        let answer = handler(request.map(Body::new), number);
                        async move { Ok::<_, Infallible>(answer.await) }
                    });
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(STREAMS);
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
                        .await;
                });
            }
        });
        let ca = serde_json::to_value(k8s_openapi::ByteString(certified.cert.pem().into_bytes())).unwrap();
        let kubeconfig = serde_json::json!({
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("https://{address}/base/"), "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {"token": "secret-word"}}],
        });
        Self {
            kubeconfig: kubeconfig.to_string(),
            connections,
            requests,
        }
    }

    fn credential(&self) -> Credential {
        Credential::from_secret("n", "s", self.kubeconfig.as_bytes(), Rules::default()).unwrap()
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn clients(limits: Limits) -> (Clients, prometheus::Registry) {
    let registry = prometheus::Registry::new();
    (Clients::new(limits, Families::new(&registry).unwrap()), registry)
}

fn quick() -> Limits {
    Limits {
        call: Duration::from_millis(400),
        streams_per_connection: STREAMS as usize,
        ..Limits::default()
    }
}

fn config_maps(client: &kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn is_watch(request: &Request) -> bool {
    request.uri().query().is_some_and(|q| q.contains("watch=true"))
}

/// A watch that sends an event every `every`, without end.
fn endless(every: Duration) -> Response {
    const EVENT: &str = "{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}}\n";
    let events = futures::stream::unfold((), move |()| async move {
        tokio::time::sleep(every).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(EVENT.as_bytes())), ()))
    });
    Body::from_stream(events).into_response()
}

fn object(name: &str) -> Response {
    let text =
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"{name}\"}}}}");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A standby that was stopped for longer than its Lease lasted saw the Lease again after eleven seconds, because its first request
/// failed on a connection that may send nothing more, and the hub counted as down.
#[tokio::test]
async fn the_first_call_after_the_right_to_write_has_lapsed_has_a_connection_of_its_own() {
    let server = Server::start(|_, _| async { object("a") }).await;
    let (clients, _registry) = clients(Limits::default());
    let plane = clients.plane(PlaneKind::Hub, &server.credential());
    let maps = config_maps(&plane.client());
    let now = tokio::time::Instant::now;
    plane.fence.allow(Some(now() + Duration::from_secs(10)));
    for _ in 0..2 {
        maps.get("a").await.unwrap();
        // The connection goes back to the pool once its task has run.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    plane.fence.allow(Some(now()));
    plane.fence.allow(None);
    maps.get("a").await.unwrap();
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_call_that_never_ends_is_ended_headers_and_bodies_alike() {
    let server = Server::start(|request, _| async move {
        if request.uri().path().ends_with("/body") {
            return Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>())
                .into_response();
        }
        std::future::pending().await
    })
    .await;
    let (clients, registry) = clients(quick());
    let client = clients.plane(PlaneKind::Project, &server.credential());
    for name in ["headers", "body"] {
        let error = config_maps(&client.client()).get(name).await.unwrap_err();
        assert!(is_timeout(&error), "{error:?}");
        assert!(
            error.to_string().contains("no answer from the project"),
            "{error}"
        );
    }
    let listed = config_maps(&client.client())
        .list(&ListParams::default())
        .await
        .unwrap_err();
    assert!(is_timeout(&listed), "{listed:?}");
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap();
    assert!(text.contains(
        "fedgate_api_requests_total{code=\"<error>\",kind=\"configmaps\",plane=\"project\",verb=\"get\"} 2"
    ));
}

#[tokio::test]
async fn watches_stay_spread_over_connections_and_never_hold_up_calls() {
    let server = Server::start(|request, _| async move {
        assert!(
            request.uri().path().starts_with("/base/api/v1/"),
            "the path of the server is kept"
        );
        assert_eq!(request.headers()[header::AUTHORIZATION], "Bearer secret-word");
        if is_watch(&request) {
            endless(Duration::from_millis(50))
        } else {
            object("x")
        }
    })
    .await;
    let (clients, _) = clients(quick());
    let credential = server.credential();
    let planes: Vec<_> = (0..3)
        .map(|_| clients.plane(PlaneKind::Project, &credential))
        .collect();
    let mut watches = Vec::new();
    for plane in &planes {
        for _ in 0..2 {
            let events = config_maps(&plane.client())
                .watch(&WatchParams::default(), "0")
                .await
                .unwrap();
            watches.push(events.boxed());
        }
    }
    assert_eq!(
        clients.pool(&credential).lanes(),
        3,
        "6 watches, 2 to a connection"
    );
    let began = std::time::Instant::now();
    assert!(config_maps(&planes[0].client()).get("x").await.is_ok());
    assert!(
        began.elapsed() < Duration::from_millis(300),
        "a full connection of watches does not delay a call"
    );
    assert_eq!(server.connections.load(Ordering::SeqCst), 4);
    // Longer than the time limit of a call: watches continue.
    for watch in &mut watches {
        let seen: Vec<_> = watch.take(12).try_collect().await.unwrap();
        assert_eq!(seen.len(), 12);
    }
    drop(watches);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _again = config_maps(&planes[0].client())
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap();
    assert_eq!(
        clients.pool(&credential).lanes(),
        1,
        "places of ended watches are used again"
    );
}

#[tokio::test]
async fn nothing_is_retried_below_the_queue_and_a_proxys_page_is_an_api_error() {
    let server = Server::start(|request, _| async move {
        let code = request
            .uri()
            .path()
            .rsplit('-')
            .next()
            .and_then(|c| c.parse::<u16>().ok())
            .unwrap_or(200);
        let page = "<html><body>Bad Gateway</body></html>";
        (
            StatusCode::from_u16(code).unwrap(),
            [(header::RETRY_AFTER, "600")],
            page,
        )
            .into_response()
    })
    .await;
    let (clients, _) = clients(quick());
    let client = clients.plane(PlaneKind::Hub, &server.credential());
    for (n, code) in [429, 502, 503, 504, 404].into_iter().enumerate() {
        let error = config_maps(&client.client())
            .get(&format!("x-{code}"))
            .await
            .unwrap_err();
        let kube::Error::Api(status) = error else {
            panic!("{error:?}")
        };
        assert_eq!(status.code, if code == 404 { 502 } else { code });
        assert_eq!(status.details.as_ref().unwrap().retry_after_seconds, 600);
        assert_eq!(server.requests(), n + 1, "one request, one answer");
    }
}

#[tokio::test]
async fn a_plane_that_answers_nothing_takes_no_more_than_its_places() {
    let server = Server::start(|_, _| async move { std::future::pending().await }).await;
    let (clients, _) = clients(Limits {
        concurrency: 4,
        ..quick()
    });
    let client = clients.plane(PlaneKind::Project, &server.credential());
    let calls = (0..20).map(|n| {
        let api = config_maps(&client.client());
        async move { api.get(&format!("x{n}")).await.unwrap_err() }
    });
    let began = std::time::Instant::now();
    for error in futures::future::join_all(calls).await {
        assert!(is_timeout(&error));
    }
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "waiting for a place is part of the time limit"
    );
    assert_eq!(server.requests(), 4);
}

/// ConfigMaps of a member, by the hub's proxy.
#[tokio::test]
async fn a_status_that_no_api_server_sends_is_no_label_of_its_own() {
    let server = Server::start(|request, _| async move {
        let code = request.uri().path().rsplit('-').next().map(str::parse);
        let Some(Ok(code)) = code else {
            return object("a");
        };
        StatusCode::from_u16(code).unwrap().into_response()
    })
    .await;
    let (clients, registry) = clients(quick());
    let client = clients.plane(PlaneKind::Project, &server.credential());
    for code in [203, 299, 503, 555, 777, 999] {
        let _ = config_maps(&client.client()).get(&format!("x-{code}")).await;
    }
    let families = registry.gather();
    let labels = families
        .iter()
        .filter(|family| family.name().contains("requests_total"));
    let labels = labels
        .flat_map(prometheus::proto::MetricFamily::get_metric)
        .flat_map(prometheus::proto::Metric::get_label);
    let codes: std::collections::BTreeSet<&str> = labels
        .filter(|label| label.name() == "code")
        .map(prometheus::proto::LabelPair::value)
        .collect();
    assert_eq!(codes, ["503", "other"].into());
}

fn of_member(client: &kube::Client, member: &str) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    Api::all_with(client.clone(), &at_member(member, &resource, "default"))
}

#[tokio::test]
async fn a_member_that_answers_nothing_holds_up_neither_the_hub_nor_another_member() {
    let server = Server::start(|request, _| async move {
        if request.uri().path().contains("/clusters/mute/") {
            std::future::pending().await
        } else {
            object("x")
        }
    })
    .await;
    let (clients, _) = clients(Limits {
        concurrency: 4,
        ..Limits::default()
    });
    let client = clients.plane(PlaneKind::Hub, &server.credential()).client();
    let asked: Vec<_> = (0..20)
        .map(|n| {
            let api = of_member(&client, "mute");
            tokio::spawn(async move { api.get(&format!("x{n}")).await })
        })
        .collect();
    // All that may be on their way are.
    while server.requests() < members::PLACES {
        tokio::task::yield_now().await;
    }
    assert!(config_maps(&client).get("x").await.is_ok());
    assert!(of_member(&client, "other").get("x").await.is_ok());
    assert_eq!(server.requests(), members::PLACES + 2);
    assert!(
        asked.iter().all(|call| !call.is_finished()),
        "no call to the other member has waited for the end of these"
    );
    asked.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_answer_of_a_member_that_is_larger_than_an_object_is_not_read() {
    let server = Server::start(|_, _| async move {
        let text = format!(
            r#"{{"metadata":{{"name":"x"}},"spec":"{}"}}"#,
            "x".repeat(members::ANSWER_BYTES)
        );
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    })
    .await;
    let (clients, _) = clients(Limits::default());
    let client = clients.plane(PlaneKind::Hub, &server.credential()).client();
    let error = of_member(&client, "dfw-1").get("x").await.unwrap_err();
    assert!(is_too_large(&error), "{error}");
    assert!(
        config_maps(&client).get("x").await.is_ok(),
        "the hub's own are read"
    );
}

#[tokio::test]
async fn a_member_that_is_busy_slows_no_list_of_the_hub() {
    let server = Server::start(|_, _| async move {
        (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "30")]).into_response()
    })
    .await;
    let (clients, _) = clients(quick());
    let plane = clients.plane(PlaneKind::Hub, &server.credential());
    let before = plane.host().pace.limit();
    let watch = WatchParams::default();
    assert!(
        of_member(&plane.client(), "dfw-1")
            .watch(&watch, "1")
            .await
            .is_err()
    );
    assert_eq!(plane.host().pace.limit(), before);
    assert!(config_maps(&plane.client()).watch(&watch, "1").await.is_err());
    assert!(plane.host().pace.limit() < before, "the hub's own answer counts");
}

#[tokio::test]
async fn a_replaced_credential_bumps_the_generation_and_ends_old_watches() {
    let server = Server::start(|request, _| async move {
        if is_watch(&request) {
            endless(Duration::from_millis(10))
        } else {
            object("x")
        }
    })
    .await;
    let (clients, _) = clients(quick());
    let credential = server.credential();
    let connection = Connection::new(clients.plane(PlaneKind::Hub, &credential));
    let mut generation = connection.generation();
    let old = connection.current();
    let watch = config_maps(&old.client())
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap();
    let mut watch = watch.boxed();
    assert!(watch.next().await.unwrap().is_ok());
    connection.replace(clients.plane(PlaneKind::Hub, &credential));
    assert!(generation.has_changed());
    assert_eq!(generation.borrow_and_update(), 1);
    assert!(
        watch.next().await.unwrap().is_ok(),
        "the old watch goes on while the new one begins"
    );
    old.retire.send(true);
    let error = tokio::time::timeout(Duration::from_secs(2), async {
        loop {
            match watch.next().await {
                Some(Ok(_)) => {}
                other => return other,
            }
        }
    });
    let ended = error.await.unwrap();
    assert!(matches!(ended, None | Some(Err(_))), "{ended:?}");
    assert!(config_maps(&connection.current().client()).get("x").await.is_ok());
}

#[tokio::test]
async fn an_unverified_or_dead_server_is_a_prompt_error() {
    let (one, other) = (
        Server::start(|_, _| async { object("x") }).await,
        Server::start(|_, _| async { object("x") }).await,
    );
    let (clients, _) = clients(quick());
    let mut stranger = one.credential();
    stranger.server = other.credential().server;
    stranger.connection_digest = [1; 32];
    let client = clients.plane(PlaneKind::Project, &stranger);
    let error = config_maps(&client.client()).get("x").await.unwrap_err();
    assert!(
        matches!(error, kube::Error::Service(_)) && !is_timeout(&error),
        "{error:?}"
    );
    assert_eq!(other.requests(), 0);
    let mut nobody = one.credential();
    nobody.server = "https://127.0.0.1:1".parse().unwrap();
    nobody.connection_digest = [2; 32];
    let client = clients.plane(PlaneKind::Project, &nobody);
    assert!(matches!(
        config_maps(&client.client()).get("x").await,
        Err(kube::Error::Service(_))
    ));
}

#[tokio::test]
async fn a_watch_that_is_dropped_while_connecting_takes_no_other_with_it() {
    let server = Server::start(|_, _| async { endless(Duration::from_millis(10)) }).await;
    let (clients, _) = clients(quick());
    let client = clients.plane(PlaneKind::Hub, &server.credential());
    let api = config_maps(&client.client());
    let params = WatchParams::default();
    let dropped = tokio::time::timeout(Duration::from_millis(10), api.watch(&params, "0"));
    let (dropped, other) = tokio::join!(dropped, async {
        tokio::time::sleep(Duration::from_millis(3)).await;
        api.watch(&params, "0").await.map(drop)
    });
    assert!(dropped.is_err(), "it was still connecting");
    assert!(other.is_ok(), "{other:?}");
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

/// A plane that counts its requests and answers none.
fn silent(clients: &Clients, kind: PlaneKind, asked: &Arc<AtomicUsize>) -> kube::Client {
    let asked = asked.clone();
    let service = tower::service_fn(move |_: axum::http::Request<kube::client::Body>| {
        asked.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    clients.plane_of(kind, None, service).client()
}

/// Asks for a page of a list, as watches do.
fn page(client: kube::Client) -> tokio::task::JoinHandle<bool> {
    let mut request = axum::http::Request::new(kube::client::Body::empty());
    *request.uri_mut() = "/api/v1/namespaces/default/configmaps".parse().unwrap();
    request.extensions_mut().insert(SmallAnswer);
    tokio::spawn(async move { client.send(request).await.is_ok() })
}

#[tokio::test(start_paused = true)]
async fn a_page_that_waits_for_pages_of_other_planes_neither_fails_nor_delays_the_hub() {
    let (clients, _) = clients(Limits::default());
    let asked = Arc::new(AtomicUsize::new(0));
    let number = || asked.load(Ordering::SeqCst);
    let mut pages: Vec<_> = (0..600)
        .map(|_| page(silent(&clients, PlaneKind::Project, &asked)))
        .collect();
    let _hub = page(silent(&clients, PlaneKind::Hub, &asked));
    let answering = tower::service_fn(|_: axum::http::Request<kube::client::Body>| async {
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let answering = page(clients.plane_of(PlaneKind::Project, None, answering).client());
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(number(), 257, "those of 256 projects, and that of the hub");
    assert!(!answering.is_finished());
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(number(), 601, "the others do not wait until the first have ended");
    assert!(
        answering.await.unwrap(),
        "600 silent planes delay it by two seconds"
    );
    tokio::time::sleep(Duration::from_secs(9)).await;
    let late = pages.split_off(512);
    assert!(pages.iter().all(tokio::task::JoinHandle::is_finished));
    assert!(
        !late.iter().any(tokio::task::JoinHandle::is_finished),
        "their time began later"
    );
}
