mod teardown;

use super::*;
use crate::{
    metrics::{Families, PlaneKind},
    plane::{
        client::{CallError, Clients, Limits},
        discovery::{ProjectSource, discover, objects::PAUSE},
    },
};
use axum::body::Body;
use futures::{FutureExt, StreamExt, channel::mpsc, stream::BoxStream};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeSet, convert::Infallible, fs, path::PathBuf, time::Duration};
use tower::BoxError;

const PATIENCE: Duration = Duration::from_secs(30);

/// The kubeconfig of all projects, in a file of its own.
struct Template(PathBuf);

impl Template {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fedgate-milo-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let template = Self(folder.join("projects.yaml"));
        template.write("first");
        template
    }

    fn write(&self, token: &str) {
        let text = json!({
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://milo:6443/somewhere"}}],
            "users": [{"name": "u", "user": {"token": token}}],
        });
        let text = text.to_string().replace("https", "http");
        let new = self.0.with_extension("tmp");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.0).unwrap();
    }

    fn source(&self) -> CredentialSource {
        CredentialSource::file(&self.0)
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().unwrap());
    }
}

const RULES: Rules = Rules { plain_http: true };

/// A server that lists these Projects; the first watch sends what is put into the channel.
fn milo(list: Vec<Value>) -> (Connection, mpsc::UnboundedSender<Value>, Arc<Mutex<Vec<String>>>) {
    let (send, events) = mpsc::unbounded::<Value>();
    let (list, events) = (Arc::new(list), Arc::new(Mutex::new(Some(events))));
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        log.lock().push(request.uri().to_string());
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        let events = if is_watch { events.lock().take() } else { None };
        let body = match events {
            Some(events) => Body::from_stream(
                events
                    .map(|event| Ok::<_, Infallible>(format!("{event}\n")))
                    .chain(futures::stream::pending()),
            ),
            None if is_watch => Body::from_stream(futures::stream::pending::<Result<String, Infallible>>()),
            None => Body::from(json!({"metadata": {"resourceVersion": "9"}, "items": *list}).to_string()),
        };
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let connection = Connection::of_client(kube::Client::new(service, "default"));
    (connection, send, asked)
}

fn project(name: &str, uid: &str, ready: &str) -> Value {
    json!({"apiVersion": "resourcemanager.miloapis.com/v1alpha1", "kind": "Project",
        "metadata": {"name": name, "uid": uid, "resourceVersion": "9"},
        "status": {"conditions": [{"type": "Other", "status": "True"}, {"type": "Ready", "status": ready}]}})
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

/// Events of discovery; those about deletions are noted, and passed over.
struct Events {
    stream: BoxStream<'static, ProjectEvent>,
    inquiry: Option<Inquiry>,
    /// The reason that each announced list had.
    lists: Vec<Beginning>,
    gone: Vec<Arc<str>>,
}

impl Events {
    fn of(plane: Connection, form: MiloForm, selector: &str, template: &Template) -> Self {
        let clients = Clients::new(
            Limits::default(),
            Families::new(&prometheus::Registry::new()).unwrap(),
        );
        let source = ProjectSource::Milo(MiloSource {
            plane,
            form,
            selector: selector.to_owned(),
            template: template.source(),
        });
        Self {
            stream: discover(&source, &clients, RULES),
            inquiry: None,
            lists: Vec::new(),
            gone: Vec::new(),
        }
    }

    fn listed_by(&mut self, inquiry: Inquiry, begins: Beginning) {
        self.inquiry = Some(inquiry);
        self.lists.push(begins);
    }

    async fn next(&mut self) -> ProjectEvent {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.stream.next());
            match event.await.expect("an event in time").unwrap() {
                ProjectEvent::Listed { inquiry, begins } => self.listed_by(inquiry, begins),
                ProjectEvent::Gone { uid } => self.gone.push(uid),
                event => return event,
            }
        }
    }

    async fn engaged(&mut self, name: &str, with: &str) -> Connection {
        match self.next().await {
            ProjectEvent::Engaged { key, connection, uid } if key.as_str() == name => {
                assert_eq!(uid.as_deref(), Some(with));
                connection
            }
            other => panic!("{other:?} instead of {name} engaged"),
        }
    }

    async fn suspended(&mut self, name: &str, expected: bool) {
        let event = self.next().await;
        let is_told = matches!(&event, ProjectEvent::Suspension { key, suspended }
            if key.as_str() == name && *suspended == expected);
        assert!(is_told, "{event:?} instead of the suspension of {name}");
    }

    async fn left(&mut self, name: &str) {
        let event = self.next().await;
        let is_left = matches!(&event, ProjectEvent::Removed { key } if key.as_str() == name);
        assert!(is_left, "{event:?} instead of {name} left");
    }
}

#[tokio::test]
async fn a_project_is_engaged_while_it_is_ready_and_another_life_of_its_name_is_another_project() {
    let template = Template::new("life");
    let mut leaving = project("gamma", "u3", "True");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    let (plane, send, asked) = milo(vec![
        project("alpha", "u1", "True"),
        project("beta", "u2", "False"),
        leaving.clone(),
    ]);
    let mut events = Events::of(plane, MiloForm::Projects, "hub=eu", &template);
    events.engaged("alpha", "u1").await;
    // Its platform waits for what is left in it; nothing of it runs.
    events.engaged("gamma", "u3").await;
    events.suspended("gamma", true).await;
    // A change that makes no project ready or unready is no event.
    for object in [
        event("MODIFIED", &project("alpha", "u1", "True")),
        event("MODIFIED", &project("beta", "u2", "Unknown")),
        event("MODIFIED", &project("beta", "u2", "True")),
    ] {
        send.unbounded_send(object).unwrap();
    }
    events.engaged("beta", "u2").await;
    send.unbounded_send(event("MODIFIED", &project("alpha", "u1", "False")))
        .unwrap();
    events.left("alpha").await;
    send.unbounded_send(event("MODIFIED", &project("alpha", "u1", "True")))
        .unwrap();
    events.engaged("alpha", "u1").await;
    send.unbounded_send(event("MODIFIED", &project("beta", "u9", "True")))
        .unwrap();
    events.left("beta").await;
    events.engaged("beta", "u9").await;
    send.unbounded_send(event("DELETED", &project("beta", "u9", "True")))
        .unwrap();
    events.left("beta").await;
    events.gone.clear();
    send.unbounded_send(event("DELETED", &leaving)).unwrap();
    events.left("gamma").await;
    assert!(events.next().now_or_never().is_none());
    assert_eq!(events.gone, ["u9", "u3"].map(Arc::from));
    let asked = asked.lock();
    let ours = |uri: &String| {
        uri.contains("/apis/resourcemanager.miloapis.com/v1alpha1/projects?")
            && uri.contains("labelSelector=hub%3Deu")
    };
    assert!(asked.iter().all(ours), "{asked:?}");
}

#[tokio::test]
async fn a_new_token_of_the_template_reaches_every_project_and_a_broken_template_none() {
    let template = Template::new("token");
    let (plane, _send, _) = milo(vec![
        project("alpha", "u1", "True"),
        project("beta", "u2", "True"),
    ]);
    let mut events = Events::of(plane, MiloForm::Projects, "", &template);
    let (alpha, beta) = (
        events.engaged("alpha", "u1").await,
        events.engaged("beta", "u2").await,
    );
    let mut generations = [alpha.generation(), beta.generation()];
    let reading = tokio::spawn(async move { events.next().await });
    fs::write(&template.0, "{").unwrap();
    template.write("second");
    for generation in &mut generations {
        let renewed = generation.wait_for(|generation| generation == 1);
        tokio::time::timeout(PATIENCE, renewed)
            .await
            .expect("a new credential");
    }
    assert!(!reading.is_finished(), "a project neither left nor came");
    reading.abort();
}

#[tokio::test]
async fn projects_too_large_for_a_page_are_read_in_smaller_ones() {
    let template = Template::new("large");
    let service = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let query = request.uri().query().unwrap_or_default().to_owned();
        if query.contains("watch=true") {
            return Ok(Response::new(Body::from_stream(futures::stream::pending::<
                Result<String, Infallible>,
            >())));
        }
        let (one, two) = (project("alpha", "u1", "True"), project("beta", "u2", "True"));
        let answer = match query.as_str() {
            of if of.contains("limit=500") => {
                let (plane, limit) = (PlaneKind::Project, 1);
                return Err(BoxError::from(CallError::TooLarge { plane, limit }));
            }
            of if of.contains("continue=") => json!({"metadata": {"resourceVersion": "9"}, "items": [two]}),
            _ => json!({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [one]}),
        };
        Ok::<_, BoxError>(Response::new(Body::from(answer.to_string())))
    });
    let plane = Connection::of_client(kube::Client::new(service, "default"));
    let mut events = Events::of(plane, MiloForm::Projects, "", &template);
    events.engaged("alpha", "u1").await;
    events.engaged("beta", "u2").await;
}

#[tokio::test]
async fn a_project_without_the_platforms_uid_is_not_engaged_and_never_changes_its_identity() {
    let template = Template::new("identity");
    let anonymous = || {
        let mut anonymous = project("alpha", "", "True");
        anonymous["metadata"]["uid"] = Value::Null;
        anonymous
    };
    let (plane, send, _) = milo(vec![anonymous(), project("beta", "u2", "True")]);
    let mut events = Events::of(plane, MiloForm::Projects, "", &template);
    match events.next().await {
        ProjectEvent::Rejected { name, error } => {
            assert_eq!(name, "alpha");
            assert!(error.clone().contains("Project alpha: it has no UID"), "{error}");
        }
        other => panic!("{other:?} instead of a rejection"),
    }
    events.engaged("beta", "u2").await;
    // A project that loses it for a while keeps the one that it had.
    let mut lost = project("beta", "u2", "True");
    lost["metadata"]["uid"] = json!("not a label's value");
    send.unbounded_send(event("MODIFIED", &lost)).unwrap();
    assert!(matches!(events.next().await, ProjectEvent::Rejected { name, .. } if name == "beta"));
    send.unbounded_send(event("MODIFIED", &project("alpha", "u1", "True")))
        .unwrap();
    assert!(matches!(events.next().await, ProjectEvent::RejectionCleared { name } if name == "alpha"));
    events.engaged("alpha", "u1").await;
}

#[test]
fn a_projects_address_is_a_path_of_the_template_or_a_host_of_the_cluster() {
    let template = Template::new("address");
    let credential = template.source().read(RULES).unwrap();
    let server = |form: MiloForm| form.credential(&credential, "shop").unwrap().server().to_string();
    assert_eq!(
        server(MiloForm::Projects),
        "http://milo:6443/apis/resourcemanager.miloapis.com/v1alpha1/projects/shop/control-plane"
    );
    assert_eq!(
        server(MiloForm::ControlPlanes),
        "http://milo-apiserver.project-shop.svc.cluster.local:6443/"
    );
    let of = |form: MiloForm, name: &str| form.credential(&credential, name).unwrap();
    let [a, b] = ["a", "b"].map(|name| of(MiloForm::Projects, name));
    assert!(
        a != b && a.connection_digest == b.connection_digest,
        "one pool for an address"
    );
    let [a, b] = ["a", "b"].map(|name| of(MiloForm::ControlPlanes, name));
    assert!(a != b && a.connection_digest != b.connection_digest);
    assert!(MiloForm::ControlPlanes.credential(&credential, "a b").is_none());
}

#[tokio::test]
async fn control_planes_of_a_cluster_are_ready_and_named_by_their_own_fields() {
    let template = Template::new("internal");
    let plane_of = |name: &str, ready: &str| {
        json!({"apiVersion": "infrastructure.miloapis.com/v1alpha1", "kind": "ProjectControlPlane",
            "metadata": {"name": name, "uid": "its own", "resourceVersion": "9",
                "labels": {"resourcemanager.miloapis.com/project-uid": format!("u-{name}")}},
            "status": {"conditions": [{"type": "ControlPlaneReady", "status": ready}, {"type": "Ready", "status": "False"}]}})
    };
    let (plane, send, asked) = milo(vec![plane_of("alpha", "False"), plane_of("beta", "True")]);
    let mut events = Events::of(plane, MiloForm::ControlPlanes, "", &template);
    events.engaged("beta", "u-beta").await;
    send.unbounded_send(event("MODIFIED", &plane_of("alpha", "True")))
        .unwrap();
    events.engaged("alpha", "u-alpha").await;
    let asked = asked.lock();
    let ours =
        |uri: &String| uri.contains("/apis/infrastructure.miloapis.com/v1alpha1/projectcontrolplanes?");
    assert!(asked.iter().all(ours), "{asked:?}");
}

fn suspended(name: &str, uid: &str, status: &str) -> Value {
    let mut project = project(name, uid, "True");
    let conditions = project["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Suspended", "status": status}));
    project
}

#[tokio::test]
async fn a_suspension_is_told_after_each_engagement_and_once_for_each_change() {
    let template = Template::new("suspension");
    let (plane, send, _) = milo(vec![
        suspended("alpha", "u1", "True"),
        suspended("beta", "u2", "False"),
    ]);
    let mut events = Events::of(plane, MiloForm::Projects, "", &template);
    let tell = |object: &Value| send.unbounded_send(event("MODIFIED", object)).unwrap();
    events.engaged("alpha", "u1").await;
    events.suspended("alpha", true).await;
    events.engaged("beta", "u2").await;
    tell(&suspended("alpha", "u1", "True"));
    tell(&project("beta", "u2", "True"));
    tell(&suspended("alpha", "u1", "Unknown"));
    events.suspended("alpha", false).await;
    tell(&suspended("beta", "u2", "True"));
    events.suspended("beta", true).await;
    // Another project of the name is told of anew, and so is one that was not ready for a while.
    tell(&suspended("beta", "u9", "True"));
    events.left("beta").await;
    events.engaged("beta", "u9").await;
    events.suspended("beta", true).await;
    let mut unready = suspended("beta", "u9", "True");
    unready["status"]["conditions"][1]["status"] = json!("False");
    tell(&unready);
    events.left("beta").await;
    tell(&suspended("beta", "u9", "True"));
    events.engaged("beta", "u9").await;
    events.suspended("beta", true).await;
}
