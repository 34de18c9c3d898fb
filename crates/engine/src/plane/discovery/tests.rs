use super::*;
use crate::{
    metrics::Families,
    plane::{client::Limits, credential::connect},
};
use axum::body::Body;
use futures::stream::BoxStream;
use http::{Request, Response};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::{convert::Infallible, fs, path::Path, sync::Arc, time::Duration};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fedgate-discovery-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kubeconfig(server: &str, token: &str) -> String {
    let pem = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .unwrap()
        .cert
        .pem();
    let ca = serde_json::to_value(ByteString(pem.into_bytes())).unwrap();
    json!({
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": token}}],
    })
    .to_string()
}

fn clients() -> Clients {
    Clients::new(
        Limits::default(),
        Families::new(&prometheus::Registry::new()).unwrap(),
    )
}

fn directory(folder: &Path) -> BoxStream<'static, ProjectEvent> {
    discover(
        &ProjectSource::Directory {
            path: folder.to_owned(),
        },
        &clients(),
        Rules::default(),
    )
}

async fn next(events: &mut BoxStream<'static, ProjectEvent>) -> ProjectEvent {
    tokio::time::timeout(Duration::from_secs(5), events.next())
        .await
        .expect("an event in time")
        .unwrap()
}

async fn engaged(events: &mut BoxStream<'static, ProjectEvent>, name: &str) -> Connection {
    match next(events).await {
        ProjectEvent::Engaged { key, connection, .. } if key.as_str() == name => connection,
        other => panic!("{other:?} instead of {name} engaged"),
    }
}

async fn left(events: &mut BoxStream<'static, ProjectEvent>, name: &str) {
    let event = next(events).await;
    assert!(
        matches!(&event, ProjectEvent::Removed { key } if key.as_str() == name),
        "{event:?}"
    );
}

async fn refused(events: &mut BoxStream<'static, ProjectEvent>) -> String {
    match next(events).await {
        ProjectEvent::Rejected { error, .. } => error.clone(),
        other => panic!("{other:?} instead of a refusal"),
    }
}

async fn accepted(events: &mut BoxStream<'static, ProjectEvent>, name: &str) {
    let event = next(events).await;
    assert!(
        matches!(&event, ProjectEvent::RejectionCleared { name: cleared } if cleared == name),
        "{event:?}"
    );
}

/// Lets the stream read the change and expects no event.
async fn quiet(events: &mut BoxStream<'static, ProjectEvent>) {
    let event = tokio::time::timeout(Duration::from_millis(600), events.next()).await;
    assert!(event.is_err(), "{event:?}");
}

/// Lets the stream read the change and drops its events.
async fn settled(events: &mut BoxStream<'static, ProjectEvent>) {
    while tokio::time::timeout(Duration::from_millis(600), events.next())
        .await
        .is_ok()
    {}
}

#[tokio::test]
async fn files_come_go_and_change_and_one_broken_file_stops_no_other() {
    let folder = Folder::new("files");
    folder.write("alpha.yaml", &kubeconfig("https://a:1", "t"));
    folder.write("bad_name.yaml", &kubeconfig("https://a:1", "t"));
    folder.write("ca.crt", "not a kubeconfig and not taken for one");
    folder.write(".hidden", "nor this");
    folder.write(
        "exec.yaml",
        &kubeconfig("https://a:1", "t").replace("\"token\":\"t\"", "\"exec\":{\"command\":\"x\"}"),
    );
    let mut events = directory(&folder.0);
    engaged(&mut events, "alpha").await;
    assert!(refused(&mut events).await.contains("bad_name.yaml: project key"));
    let text = refused(&mut events).await;
    assert!(
        text.contains("exec.yaml") && text.contains("users[u].user.exec"),
        "{text}"
    );

    fs::remove_file(folder.0.join("bad_name.yaml")).unwrap();
    accepted(&mut events, "bad_name").await;

    folder.write("beta.kubeconfig", &kubeconfig("https://b:1", "t"));
    let beta = engaged(&mut events, "beta").await;
    let mut generation = beta.generation();
    folder.write("beta.kubeconfig", &kubeconfig("https://b:1", "rotated"));
    quiet(&mut events).await;
    assert!(
        generation.has_changed(),
        "a rotated token is a new generation, not a new project"
    );
    generation.borrow_and_update();

    folder.write("beta.kubeconfig", "}{");
    assert!(refused(&mut events).await.contains("beta.kubeconfig"));
    assert!(!generation.has_changed(), "the last good credential stays");
    folder.write("beta.kubeconfig", &kubeconfig("https://elsewhere:1", "t"));
    accepted(&mut events, "beta").await;
    left(&mut events, "beta").await;
    engaged(&mut events, "beta").await;
    folder.write("alpha.json", &kubeconfig("https://c:1", "t"));
    fs::remove_file(folder.0.join("beta.kubeconfig")).unwrap();
    // `alpha.json` sorts first and has the key from now on; the other is reported as a duplicate.
    let mut seen = Vec::new();
    while !seen
        .iter()
        .any(|e: &String| e.contains("Removed { key: \"beta\""))
    {
        seen.push(format!("{:?}", next(&mut events).await));
    }
    let is_duplicate = |e: &String| e.contains("is already taken by");
    assert!(seen.iter().any(is_duplicate), "{seen:?}");
}

#[tokio::test]
async fn atomic_replacement_of_a_symbolic_link_is_seen() {
    // As Kubernetes mounts a Secret: name -> ..data/name, ..data -> a folder that is swapped.
    let folder = Folder::new("links");
    for (version, token) in [("one", "t1"), ("two", "t2")] {
        fs::create_dir(folder.0.join(format!("..{version}"))).unwrap();
        folder.write(&format!("..{version}/shop"), &kubeconfig("https://a:1", token));
    }
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, folder.0.join(name)).unwrap();
    link("..one", "..data");
    link("..data/shop", "shop");
    let mut events = directory(&folder.0);
    let shop = engaged(&mut events, "shop").await;
    link("..two", "..data_tmp");
    fs::rename(folder.0.join("..data_tmp"), folder.0.join("..data")).unwrap();
    quiet(&mut events).await;
    assert_eq!(shop.generation().borrow_and_update(), 1);
}

#[tokio::test]
async fn a_folder_that_is_itself_a_link_or_vanishes_removes_no_project_by_mistake() {
    let folder = Folder::new("folder");
    for (version, name) in [("v1", "alpha"), ("v2", "beta")] {
        fs::create_dir(folder.0.join(version)).unwrap();
        folder.write(&format!("{version}/{name}.yaml"), &kubeconfig("https://a:1", "t"));
    }
    let current = folder.0.join("current");
    std::os::unix::fs::symlink("v1", &current).unwrap();
    let mut events = directory(&current);
    engaged(&mut events, "alpha").await;
    fs::remove_file(&current).unwrap();
    assert!(
        refused(&mut events).await.contains("project directory"),
        "an error is no proof of absence"
    );
    std::os::unix::fs::symlink("v2", &current).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(format!("{:?}", next(&mut events).await));
    }
    seen.sort();
    assert!(
        seen[0].starts_with("Engaged") && seen[0].contains("beta"),
        "{seen:?}"
    );
    assert!(
        seen[1].starts_with("RejectionCleared")
            && seen[2].starts_with("Removed")
            && seen[2].contains("alpha"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_single_project_and_the_hub_follow_their_file() {
    let folder = Folder::new("single");
    let path = folder.0.join("config");
    let source = ProjectSource::Single {
        kubeconfig: Some(path.clone()),
    };
    let mut events = discover(&source, &clients(), Rules::default());
    assert!(refused(&mut events).await.contains("cannot read"));
    folder.write("config", &kubeconfig("https://a:1", "t"));
    accepted(&mut events, "single").await;
    engaged(&mut events, "single").await;

    let (hub, work) = connect(
        PlaneKind::Hub,
        CredentialSource::file(&path),
        &clients(),
        Rules::default(),
    )
    .unwrap();
    let work = tokio::spawn(work);
    let mut generation = hub.generation();
    tokio::time::sleep(Duration::from_millis(200)).await;
    folder.write("config", &kubeconfig("https://a:1", "rotated"));
    tokio::time::timeout(Duration::from_secs(5), generation.changed())
        .await
        .unwrap();
    work.abort();
}

#[test]
fn a_change_of_one_project_among_many_costs_one_reading() {
    let (folder, tokens) = (Folder::new("many"), Folder::new("tokens"));
    let text = kubeconfig("https://a:1", "t");
    let paths: Vec<PathBuf> = (0..200).map(|n| folder.0.join(format!("p-{n}.yaml"))).collect();
    let mut cache = cache::Cache::new(Duration::ZERO);
    let look = |cache: &mut cache::Cache| {
        let before = cache.readings();
        let good = paths
            .iter()
            .filter(|path| path.exists() && cache.read(path, Rules::default()).found.is_ok());
        (good.count(), cache.readings() - before)
    };
    for path in &paths[1..] {
        fs::write(path, &text).unwrap();
    }
    assert_eq!(look(&mut cache), (199, 199));
    assert_eq!(look(&mut cache), (199, 0));
    fs::write(&paths[0], &text).unwrap();
    assert_eq!(look(&mut cache), (200, 1));
    fs::write(&paths[7], "}{").unwrap();
    assert_eq!(look(&mut cache), (199, 1));

    // A token file elsewhere is a dependency of the kubeconfig, also while the token file does not exist.
    let token = tokens.0.join("token");
    let file = text.replace(
        "\"token\":\"t\"",
        &format!("\"tokenFile\":{:?}", token.to_str().unwrap()),
    );
    fs::write(&paths[7], file).unwrap();
    assert_eq!(look(&mut cache).0, 199);
    for (token_text, good) in [
        (Some("one"), 200),
        (Some("three"), 200),
        (None, 199),
        (Some("six"), 200),
    ] {
        match token_text {
            Some(token_text) => fs::write(&token, token_text).unwrap(),
            None => fs::remove_file(&token).unwrap(),
        }
        let (found, readings) = look(&mut cache);
        assert_eq!(found, good, "{token_text:?}");
        assert!((1..=2).contains(&readings), "{token_text:?}: {readings}");
        let known = cache.read(&paths[7], Rules::default());
        assert!(known.files().any(|file| file == token), "it stays followed");
        assert_eq!(look(&mut cache).1, 0);
    }
}

#[tokio::test]
async fn a_folder_that_is_deleted_and_made_again_is_followed_again() {
    let folder = Folder::new("again");
    let inner = folder.0.join("inner");
    let text = kubeconfig("https://a:1", "t");
    let put = |name: &str| fs::write(inner.join(name), &text).unwrap();
    fs::create_dir(&inner).unwrap();
    put("alpha.yaml");
    let mut events = directory(&inner);
    engaged(&mut events, "alpha").await;
    for next in ["beta.yaml", "gamma.yaml"] {
        fs::remove_dir_all(&inner).unwrap();
        fs::create_dir(&inner).unwrap();
        put("alpha.yaml");
        settled(&mut events).await;
        put(next);
        engaged(&mut events, next.strip_suffix(".yaml").unwrap()).await;
        fs::remove_file(inner.join(next)).unwrap();
        left(&mut events, next.strip_suffix(".yaml").unwrap()).await;
    }
}

/// A server whose Secrets are listed once; then the watch sends the given events.
fn secrets_plane(list: Vec<Value>, events: Vec<Value>) -> Connection {
    let (list, events) = (Arc::new(list), Arc::new(events));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (list, events) = (list.clone(), events.clone());
        async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            assert!(
                query.contains("labelSelector=fedgate.dev%2Fproject%3Dtrue"),
                "{query}"
            );
            assert!(
                request
                    .uri()
                    .path()
                    .starts_with("/api/v1/namespaces/fedgate-projects/secrets")
            );
            let body = if query.contains("watch=true") {
                let lines: Vec<_> = events
                    .iter()
                    .map(|e| Ok::<_, Infallible>(format!("{e}\n")))
                    .collect();
                Body::from_stream(futures::stream::iter(lines).chain(futures::stream::pending()))
            } else {
                let list = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "9"}, "items": *list});
                Body::from(list.to_string())
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Connection::of_client(kube::Client::new(service, "default"))
}

fn secret(name: &str, kubeconfig: Option<&str>) -> Value {
    let data = kubeconfig.map_or(
        // The key of Cluster API and Flux.
        json!({"value": ""}),
        |k| json!({"kubeconfig": ByteString(k.as_bytes().to_vec())}),
    );
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "resourceVersion": "9"}, "data": data})
}

#[tokio::test]
async fn labelled_secrets_are_projects_and_may_name_no_files() {
    let good = kubeconfig("https://a:1", "t");
    let file = good.replace("\"token\":\"t\"", "\"tokenFile\":\"/etc/passwd\"");
    let plane = secrets_plane(
        vec![
            secret("alpha", Some(&good)),
            secret("empty", None),
            secret("file", Some(&file)),
        ],
        vec![
            json!({"type": "MODIFIED", "object": secret("alpha", Some(&good.replace("\"t\"", "\"new\"")))}),
            json!({"type": "ADDED", "object": secret("beta", Some(&good))}),
            json!({"type": "DELETED", "object": secret("alpha", Some(&good))}),
        ],
    );
    let source = ProjectSource::Secrets {
        plane,
        namespace: "fedgate-projects".to_owned(),
    };
    let mut events = discover(&source, &clients(), Rules::default());
    let alpha = engaged(&mut events, "alpha").await;
    assert!(
        refused(&mut events)
            .await
            .contains("Secret fedgate-projects/empty: key kubeconfig is missing, its keys are value;")
    );
    let text = refused(&mut events).await;
    assert!(
        text.contains("Secret fedgate-projects/file") && text.contains("tokenFile"),
        "{text}"
    );
    engaged(&mut events, "beta").await;
    assert_eq!(alpha.generation().borrow_and_update(), 1);
    left(&mut events, "alpha").await;
}
